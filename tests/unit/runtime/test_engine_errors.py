"""What the engine raises: classes of penstock.errors, also for numbers that are none of their argument's type."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock import _engine, errors
from penstock.errors import (
    EvaluationRefused,
    KeyMissing,
    KeyRefused,
    ParamsError,
    PenstockError,
    StoreUnusable,
    UsageError,
)
from penstock.runtime.keystore import KeyCache, KeyName, KeyStore, KeyUse
from penstock.scheme.params.primes import is_prime

BORDER = Path(__file__).parents[3] / "crates/penstock-py/src/errors.rs"
PRIMES = list(islice(filter(is_prime, count(2**49 + 1, 2**11)), 4))
DIGEST = "0" * 32


@pytest.fixture
def cache(tmp_path: Path) -> KeyCache:
    return KeyCache(KeyStore(tmp_path / "keys"), 2**20, prefetch_uses=0)


def context(**changed: Any) -> _engine.CkksContext:
    numbers: dict[str, Any] = {"moduli_q": PRIMES[:3], "moduli_p": PRIMES[3:], "dnum": 3, "scaling": "fixed-manual"}
    return _engine.CkksContext(ring_dim=2**10, scale_bits=50, **numbers | changed)


def test_every_class_that_the_engine_names_is_there() -> None:
    named = re.findall(r"import_exception!\(penstock\.errors, (\w+)\)", BORDER.read_text())
    assert len(named) > 8
    assert all(issubclass(getattr(errors, name), PenstockError) for name in named)


def test_a_store_raises_its_own_errors(cache: KeyCache, tmp_path: Path) -> None:
    with pytest.raises(KeyMissing, match="penstock keys import"):
        cache.session("alice", DIGEST).get("relin", 1)
    with pytest.raises(KeyRefused, match=r"tenant is '\.\./x'"):
        cache.session("../x", DIGEST)
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnusable, match="file"):
        KeyStore(tmp_path / "file")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda cache, store: KeyCache(store, -1), "budget_bytes is -1: can't convert negative int"),
        (lambda cache, store: KeyCache(store, 2**70), "budget_bytes is 1180591620717411303424: "),
        (lambda cache, store: KeyCache(store, 2**20, prefetch_uses=-1), "prefetch_uses is -1: "),
        (lambda cache, store: cache.session("alice", DIGEST).get("relin", -1), "limbs is -1: "),
        (lambda cache, store: cache.session("alice", DIGEST).get("relin", 1.5), "limbs is 1.5: 'float' object"),
        (lambda cache, store: cache.plan([KeyUse(KeyName("alice", DIGEST, "relin"), -1)]), "limbs is -1: "),
        (lambda cache, store: store.import_openfhe("alice", b"", num_q=-1), "num_q is -1: "),
        (lambda cache, store: cache.reserve(-1, 0), "ring_dim is -1: "),
        (lambda cache, store: cache.session("alice", DIGEST).get("\ud800", 1), r"key is '\ud800': 'utf-8' codec"),
        (lambda cache, store: cache.session("\ud800", DIGEST), r"tenant is '\ud800': 'utf-8' codec"),
        (lambda cache, store: store.key(KeyName("alice", "\ud800", "relin")), r"digest is '\ud800': 'utf-8' codec"),
        (lambda cache, store: store.gc(tenant="\ud800"), r"tenant is '\ud800': 'utf-8' codec"),
    ],
)
def test_numbers_and_names_that_a_store_cannot_hold_are_refused(
    cache: KeyCache, tmp_path: Path, call: Callable[[KeyCache, KeyStore], object], message: str
) -> None:
    with pytest.raises(KeyRefused, match=re.escape(message)):
        call(cache, KeyStore(tmp_path / "keys"))


@pytest.mark.parametrize("number", [-1, 2**70, 0.5])
def test_numbers_that_the_evaluator_cannot_hold_are_refused(number: float) -> None:
    engine = context()
    described: dict[str, Any] = {"polynomials": 2, "limbs": 3, "degree": 1, "scale": 2.0**50, "slots": 512}
    words = np.zeros(2 * 3 * 2**10, dtype=np.uint64)
    a = _engine.ckks_ciphertext(engine, words, **described)
    for name in ("polynomials", "limbs", "degree", "slots"):
        with pytest.raises(EvaluationRefused, match=f"the native evaluator refuses: {name} is {number}: "):
            _engine.ckks_ciphertext(engine, words, **described | {name: number})
    for work in ("mod_drop", "rescale_and_drop", "mod_raise"):
        with pytest.raises(EvaluationRefused, match=f"argument is {number}: "):
            engine.perform(work, [a], argument=number)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("work", "operands", "rest", "has"),
    [
        ("add", 1, {}, "1 operands, 0 vectors, 0 numbers"),
        ("add", 3, {}, "3 operands, 0 vectors, 0 numbers"),
        ("add_scalar", 1, {"numbers": [1.0, 2.0]}, "1 operands, 0 vectors, 2 numbers"),
        ("weighted_sums", 1, {"argument": 1}, "1 operands, 0 vectors, 0 numbers"),
        ("weighted_sums", 0, {"argument": 0}, "0 operands, 0 vectors, 0 numbers"),
        ("weighted_sums_plus", 1, {"argument": 2**64 - 1}, "1 operands, 0 vectors, 0 numbers"),
        ("number_sum", 0, {}, "0 operands, 0 vectors, 0 numbers"),
    ],
)
def test_work_on_other_operands_than_it_has_is_refused(
    work: str, operands: int, rest: dict[str, Any], has: str
) -> None:
    engine = context()
    words = np.zeros(2 * 2**10, dtype=np.uint64)
    a = _engine.ckks_ciphertext(engine, words, polynomials=2, limbs=1, degree=1, scale=2.0**50, slots=512)
    with pytest.raises(EvaluationRefused, match=f"{work}: {has}; each work has its own numbers of them"):
        engine.perform(work, [a] * operands, **rest)


def test_the_evaluator_raises_its_own_errors() -> None:
    engine = context()
    with pytest.raises(EvaluationRefused, match="these are not the bytes of an OpenFHE"):
        engine.import_ciphertext(b"")
    with pytest.raises(EvaluationRefused, match="values is not contiguous"):
        engine.encode(np.zeros(8, dtype=np.complex128)[::2], 1, 1, 4)
    with pytest.raises(ParamsError, match="4 digits of 3 moduli"):
        context(dnum=4)
    with pytest.raises(UsageError, match="kernel path 'sse'"):
        context(path="sse")
    words = np.zeros(2 * 2**10, dtype=np.uint64)
    a = _engine.ckks_ciphertext(engine, words, polynomials=2, limbs=1, degree=1, scale=2.0**50, slots=512)
    for limbs in (0, 2):
        with pytest.raises(EvaluationRefused, match=f"drop limbs: {limbs} limbs of 1; keep at least one"):
            engine.perform("mod_drop", [a], argument=limbs)
    with pytest.raises(EvaluationRefused, match="rescale: needs 2 limbs, the ciphertext has 1"):
        engine.perform("rescale", [a])
