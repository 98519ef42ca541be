"""Keys that OpenFHE generated, through the store and back: every word as it was serialized."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from penstock.errors import KeyMissing
from penstock.program.openfhe.evaluator import OpenFheContext
from penstock.runtime.keystore import (
    BudgetTooSmall,
    KeyCache,
    KeyDamaged,
    KeyName,
    KeyRefused,
    KeyStore,
    KeyUse,
    parameter_digest,
)
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.primes import openfhe_primes
from penstock.scheme.params.spec import CkksSpec

RING_DIM = 1 << 12
STEPS = (1, 2, -3)


def parameters(**changes: Any) -> CkksParameters:
    spec = {
        "name": "insecure-keystore", "library": "openfhe", "ring_dim": RING_DIM, "slots": 64, "depth": 4,
        "first_mod_bits": 60, "scale_bits": 50, "dnum": 3, "scaling": "fixed-manual", "security": "none",
    }  # fmt: skip
    return CkksSpec(**{**spec, **changes}).build()


@pytest.fixture(scope="module")
def params() -> CkksParameters:
    return parameters()


class Keys:
    """What one tenant serialized: the map of its rotations and its conjugation, and its relinearization key."""

    def __init__(self, fhe: ModuleType, params: CkksParameters, folder: Path) -> None:
        made = OpenFheContext.create(params, rotation_steps=STEPS, conjugate=True)
        self.tag = made.secret_key.GetKeyTag()
        self.map, self.relin = folder / "rotations.bin", folder / "relin.bin"
        automorphisms = made.context.GetEvalAutomorphismKeyMap(self.tag)
        assert fhe.SerializeToFile(str(self.map), automorphisms, fhe.BINARY)
        assert fhe.SerializeToFile(str(self.relin), made.context.GetEvalMultKeyVector(self.tag)[0], fhe.BINARY)
        self.elements = [made.context.FindAutomorphismIndex(step) for step in STEPS]
        made.release()


@pytest.fixture(scope="module")
def alice(openfhe: ModuleType, params: CkksParameters, tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(openfhe, params, tmp_path_factory.mktemp("alice"))


@pytest.fixture(scope="module")
def bob(openfhe: ModuleType, params: CkksParameters, tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(openfhe, params, tmp_path_factory.mktemp("bob"))


@pytest.fixture
def store(tmp_path: Path, alice: Keys, params: CkksParameters) -> KeyStore:
    made = KeyStore(tmp_path / "keys")
    made.import_openfhe("alice", alice.map, params=params)
    made.import_openfhe("alice", alice.relin, params=params, key="relin")
    return made


def serialized_rows(data: bytes, ring_dim: int) -> list[tuple[int, np.ndarray]]:
    """(modulus, words) of each limb, in the order of the file: found by their pattern, not by the importer's parser.

    A limb is N as a word, N words, and the modulus, which is 1 mod 2N.
    """
    found, at = [], 0
    size = 8 * ring_dim
    for match in re.finditer(re.escape(ring_dim.to_bytes(8, "little")), data):
        start = match.end()
        if match.start() < at or start + size + 8 > len(data):
            continue
        modulus = int.from_bytes(data[start + size : start + size + 8], "little")
        words = np.frombuffer(data, dtype="<u8", count=ring_dim, offset=start)
        if modulus.bit_length() >= 40 and modulus % (2 * ring_dim) == 1 and int(words.max()) < modulus:
            found.append((modulus, words))
            at = start + size + 8
    return found


def test_every_word_comes_back_as_openfhe_serialized_it(store: KeyStore, alice: Keys, params: CkksParameters) -> None:
    q, p = openfhe_primes(params)
    chain = [*q, *p]
    digest = parameter_digest(params)
    names = [f"rot:{element}" for element in alice.elements]
    assert {key.name.key for key in store.list_keys()} == {*names, "conj", "relin"}
    assert all(key.secret_tag == alice.tag for key in store.list_keys())
    # The map is written in the order of its indices; a key is vector A, digit by digit, then vector B.
    in_file = [f"rot:{element}" for element in sorted(alice.elements)] + ["conj"]
    cache = KeyCache(store, 1 << 30)
    session = cache.session("alice", digest)
    for keys, data in ((in_file, alice.map.read_bytes()), (["relin"], alice.relin.read_bytes())):
        rows = iter(serialized_rows(data, params.ring_dim))
        for name in keys:
            with session.get(name, params.num_q) as key:
                for part in (0, 1):
                    for digit in range(params.dnum):
                        for limb, modulus in enumerate(chain):
                            expected_modulus, words = next(rows)
                            assert expected_modulus == modulus
                            np.testing.assert_array_equal(key.row(part, digit, limb), words)
        assert next(rows, None) is None


def test_a_key_at_fewer_limbs_reads_the_rows_of_those_limbs(store: KeyStore, params: CkksParameters) -> None:
    cache = KeyCache(store, 1 << 30, prefetch_uses=0)
    session = cache.session("alice", parameter_digest(params))
    for limbs in range(1, params.num_q + 1):
        with session.get("relin", limbs) as key:
            assert key.row(0, 0, limbs - 1) is not None
            assert key.row(0, 0, params.num_q) is not None
            if limbs < params.num_q:
                assert key.row(0, 0, limbs) is None
        # The same arithmetic as the traces and simulations use.
        assert cache.stats().read_bytes == params.key_bytes(limbs)


def test_whole_keys_verify_and_a_flipped_bit_does_not(store: KeyStore) -> None:
    assert all(store.verify(key.name).fault is None for key in store.list_keys())
    name = store.list_keys()[1].name
    path = store.folder / name.tenant / name.digest / f"{name.key.replace(':', '-')}.pkey"
    data = bytearray(path.read_bytes())
    data[-4000] ^= 1
    path.write_bytes(bytes(data))
    verified = store.verify(name)
    assert verified.damaged_rows == 1
    assert "differs from its checksum" in (verified.fault or "")
    session = KeyCache(store, 1 << 30).session(name.tenant, name.digest)
    with pytest.raises(KeyDamaged, match="import it again"):
        session.get(name.key, len(store.key(name).moduli_q))


def test_another_tenants_key_is_refused_at_import(store: KeyStore, bob: Keys, params: CkksParameters) -> None:
    with pytest.raises(KeyRefused, match="one tenant has one secret key"):
        store.import_openfhe("alice", bob.relin, params=params, key="relin")
    store.import_openfhe("bob", bob.relin, params=params, key="relin")
    # A tag is no secret: who takes another's locks nobody out, and learns no name.
    store.import_openfhe("carol", bob.map, params=params)
    store.import_openfhe("bob", bob.map, params=params)


def test_wrong_parameters_and_wrong_ids_are_refused(tmp_path: Path, alice: Keys, params: CkksParameters) -> None:
    store = KeyStore(tmp_path)
    for other in (parameters(dnum=2), parameters(depth=5), parameters(scale_bits=49), parameters(ring_dim=1 << 11)):
        with pytest.raises(KeyRefused):
            store.import_openfhe("alice", alice.relin, params=other, key="relin")
    with pytest.raises(KeyRefused, match="does not say what it is for"):
        store.import_openfhe("alice", alice.relin, params=params)
    with pytest.raises(KeyRefused, match="holds another one"):
        store.import_openfhe("alice", alice.map, params=params, key="relin")
    with pytest.raises(KeyRefused, match=r"tenant is '\.\./bob'"):
        store.import_openfhe("../bob", alice.relin, params=params, key="relin")
    with pytest.raises(KeyRefused, match=r"OpenFHE 1\.6 evaluation key"):
        store.import_openfhe("alice", b"no key at all" * 100, params=params, key="relin")
    assert store.list_keys() == []


def test_a_missing_key_names_the_command_that_imports_it(store: KeyStore, params: CkksParameters) -> None:
    session = KeyCache(store, 1 << 30).session("alice", parameter_digest(params))
    with pytest.raises(KeyMissing, match=r"penstock keys import --tenant alice .*--key rot:125"):
        session.get("rot:125", 1)
    with pytest.raises(KeyMissing):
        store.key(KeyName("bob", parameter_digest(params), "relin"))


def test_a_planned_program_under_a_small_budget_reads_ahead(
    store: KeyStore, alice: Keys, params: CkksParameters
) -> None:
    digest = parameter_digest(params)
    rotations = [f"rot:{element}" for element in alice.elements]
    uses = [KeyUse(KeyName("alice", digest, rotations[turn % 3]), params.num_q - turn % 2) for turn in range(60)]
    budget = 2 * params.key_bytes()
    reads = {}
    for policy in ("future", "lru"):
        cache = KeyCache(store, budget, policy=policy, prefetch_uses=0)
        with cache.plan(uses) as plan:
            session = cache.session("alice", digest, plan)
            for use in uses:
                session.get(use.name.key, use.limbs).release()
            assert plan.remaining == 0
        stats = cache.stats()
        assert stats.hits + stats.misses == len(uses)
        assert stats.unplanned == 0
        assert stats.peak_resident_bytes <= budget
        assert stats.read_bytes == stats.resident_bytes + stats.evicted_bytes
        reads[policy] = stats.read_bytes
    # Three keys in turn and room for two: LRU misses every time, the known future does not.
    assert reads["future"] < 0.7 * reads["lru"]
    with pytest.raises(BudgetTooSmall, match="raise it"):
        KeyCache(store, params.key_bytes() - 1).session("alice", digest).get("relin", params.num_q)


def test_the_catalogues_digests_differ() -> None:
    sets = [catalogue.get(name) for name in catalogue.names()]
    usable = [params for params in sets if params.library == "openfhe"]
    shapes = {(params.ring_dim, openfhe_primes(params), params.dnum) for params in usable}
    assert len({parameter_digest(params) for params in usable}) == len(shapes)
    assert parameter_digest(usable[0]) == parameter_digest(replace(usable[0], name="another-name"))
