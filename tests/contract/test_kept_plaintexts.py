"""A plaintext that a program keeps belongs to no run: the next one has its own encodings and numbers of objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.program.evaluator.protocol import Plain
from penstock.program.package.capture import Course, DigestSink, run_captured
from penstock.program.running import READINGS
from penstock.scheme.params.ckks import Scaling
from support.readings import keys_of
from support.toy import toy

VALUES = np.linspace(-1, 1, 64)
SETS = [toy(scaling=scaling, scale_bits=bits) for scaling in Scaling for bits in (50, 40)]


@pytest.fixture
def frozen() -> Iterator[None]:
    """What is there before the test is not collected: of a long run of tests that takes half a second each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def uses(kept: Plain) -> Any:
    """A program with a plaintext of another one, as term, factor and weight."""

    def program(ev: Any) -> Any:
        a = ev.encrypt(VALUES)
        weighted = ev.weighted_sum([a, a], [ev.encode(VALUES), kept])
        return ev.add(ev.rescale(ev.add(weighted, ev.mult(a, kept))), kept)

    return program


@pytest.mark.parametrize("reading", [name for name, each in READINGS.items() if each.records])
@pytest.mark.usefixtures("frozen")
def test_a_kept_plaintext_is_right_in_every_run_whatever_its_scale(
    reading: str, request: pytest.FixtureRequest
) -> None:
    if READINGS[reading].keys:
        request.getfixturevalue("openfhe" if READINGS[reading].library else "encrypting")
    kept = Plain.of(VALUES / 2, 64)
    for params in SETS:
        program = uses(kept)
        with READINGS[reading].evaluator(params, keys_of(params, program)) as ev:
            found = ev.decrypt(program(ev))
        if READINGS[reading].computes:
            assert np.max(np.abs(found - (2 * VALUES**2 + VALUES / 2))) < 1e-6
        del ev
        gc.collect()


def test_a_kept_plaintext_is_a_constant_of_each_package() -> None:
    kept, params = Plain.of(VALUES / 2, 64), toy()
    keys_of(params, uses(kept))
    for _ in range(2):
        course = Course(DigestSink())
        run_captured(lambda ev: ev.decrypt(uses(kept)(ev)), params, course)
        assert len(course.sink.digests) == 2


@pytest.mark.usefixtures("frozen")
def test_what_a_run_kept_of_a_plaintext_goes_with_the_run() -> None:
    kept = Plain.of(VALUES / 2, 64)
    for _ in range(3):
        keys_of(toy(), uses(kept))
        gc.collect()
        assert not kept.encoded


@pytest.mark.parametrize("reading", list(READINGS))
def test_a_plaintext_of_other_slots_is_refused(reading: str, request: pytest.FixtureRequest) -> None:
    if READINGS[reading].keys:
        request.getfixturevalue("openfhe" if READINGS[reading].library else "encrypting")
    params = toy()
    with READINGS[reading].evaluator(params, keys_of(params, uses(Plain.of(VALUES, 64)))) as ev:
        a = ev.encrypt(VALUES)
        for kept in (Plain.of(VALUES[:32], 32), Plain.of(lambda: VALUES[:32], 32), Plain.of(VALUES, 128)):
            for call in (ev.add, ev.sub, ev.mult, lambda a, b: ev.weighted_sum([a, a], [b, b])):
                with pytest.raises(PenstockError, match="slots, and the ciphertexts of this run have 64"):
                    call(a, kept)
