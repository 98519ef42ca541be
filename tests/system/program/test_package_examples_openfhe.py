"""OpenFHE's published examples become packages: their results in the clear, and in our evaluator."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.openfhe.recorder.tap import TAP
from penstock.program.package.content import Verb
from penstock.program.package.replay import run_package
from support.recorded_natively import SCRIPTS, Recorded, difference, named_inputs, recorded, run_natively


@pytest.fixture
def fhe(openfhe: ModuleType) -> Iterator[ModuleType]:
    """OpenFHE with no key registered and no class changed, before and after."""
    for step in ("before", "after"):
        openfhe.CryptoContext.ClearEvalAutomorphismKeys()
        openfhe.ClearEvalMultKeys()
        openfhe.ReleaseAllContexts()
        assert not TAP.is_open, step
        if step == "before":
            yield openfhe


def assert_equal_in_the_clear(found: Recorded, tolerance: float) -> None:
    for package, seen in zip(found.packages, found.seen, strict=True):
        results = run_package(ClearEvaluator(package.params), package, named_inputs(package, seen))
        for result, decrypted in zip(results.values(), seen.decrypted, strict=True):
            assert np.allclose(result, decrypted[: len(result)].real, atol=tolerance)


def assert_equal_words(found: Recorded) -> None:
    for package, seen in zip(found.packages, found.seen, strict=True):
        for ours, theirs in zip(run_natively(package, seen), seen.results, strict=True):
            assert difference(package, ours, theirs) == ""


def assert_equal_results(found: Recorded, tolerance: float) -> None:
    """Series: the words are OpenFHE's as a rule, and may differ by less than the noise."""
    for package, seen in zip(found.packages, found.seen, strict=True):
        assert seen.decrypt is not None
        for ours, decrypted in zip(run_natively(package, seen), seen.decrypted, strict=True):
            assert np.allclose(seen.decrypt(ours), decrypted, atol=tolerance)


@pytest.mark.timeout(60)
def test_a_thread_that_is_not_the_scripts_is_not_waited_for(fhe: ModuleType) -> None:
    ended = threading.Event()
    other = threading.Thread(target=ended.wait)
    other.start()
    try:
        assert recorded(fhe, SCRIPTS / "real_numbers.py").run.exit_code == 0
        assert other.is_alive()
    finally:
        ended.set()


def test_real_numbers(fhe: ModuleType) -> None:
    found = recorded(fhe, SCRIPTS / "real_numbers.py")
    assert found.run.exit_code == 0, found.run.shown
    (package,) = found.packages
    assert [(each.name, each.length) for each in package.inputs] == [("a", 8), ("b", 8)]
    assert [each.name for each in package.outputs] == ["total", "a", "fourfold", "product", "left", "right"]
    assert len(package.constants) == 0
    assert_equal_in_the_clear(found, 1e-8)
    assert_equal_words(found)


def test_advanced_real_numbers(fhe: ModuleType) -> None:
    found = recorded(fhe, SCRIPTS / "advanced_real_numbers.py")
    assert found.run.exit_code == 0, found.run.shown
    assert len(found.packages) == 6
    (refused,) = found.run.refused
    assert str(refused).startswith("a context with BV key switching and digits of 3 bits is not recorded: use HYBRID")
    assert_equal_in_the_clear(found, 1e-8)
    assert_equal_words(found)


def test_polynomials(fhe: ModuleType) -> None:
    found = recorded(fhe, SCRIPTS / "polynomials.py")
    assert found.run.exit_code == 0, found.run.shown
    assert_equal_in_the_clear(found, 1e-8)
    assert_equal_results(found, 1e-8)


def test_functions(fhe: ModuleType) -> None:
    found = recorded(fhe, SCRIPTS / "functions.py")
    assert found.run.exit_code == 0, found.run.shown
    assert_equal_in_the_clear(found, 1e-7)
    assert_equal_results(found, 1e-7)


def test_a_refresh(fhe: ModuleType) -> None:
    found = recorded(fhe, SCRIPTS / "refresh.py")
    assert found.run.exit_code == 0, found.run.shown
    (package,) = found.packages
    assert [each.verb for each in package.instructions] == [Verb.ENCRYPT, Verb.BOOTSTRAP, Verb.OUTPUT]
    assert_equal_in_the_clear(found, 1e-3)
    # The library's own refresh is as precise as this: about 8 bits at a uniform secret and values up to 5.
    (ours,) = run_natively(package, found.seen[0])
    assert found.seen[0].decrypt is not None
    values, theirs = found.seen[0].decrypt(ours), found.seen[0].decrypted[0]
    x = found.seen[0].values[0]
    assert np.max(np.abs(values[:8] - x)) < 2 * np.max(np.abs(theirs[:8] - x)) + 1e-6
