"""A refresh that begins with SlotsToCoeffs drops imaginary parts: values that may have some are refused there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.imaginary import complex_refresh
from penstock.program.package.capture import Course, DigestSink, run_captured
from penstock.program.running import READINGS
from penstock.runtime.native.plans import choose_plan
from penstock.scheme.params.ckks import Scaling
from support.readings import keys_of
from support.toy import toy_bootstrap

LAST = toy_bootstrap(Scaling.FLEXIBLE_AUTO, 64)
assert LAST.bootstrap is not None
FIRST = replace(LAST, bootstrap=replace(LAST.bootstrap, order="stc-first", rotations="few-keys"))
X = np.linspace(-0.4, 0.4, 64)
MADE: dict[str, Callable[[Any, Any], Any]] = {
    "a product with i": lambda ev, a: ev.mult_by_i(a),
    "a turned one": lambda ev, a: ev.add(ev.rotate(ev.mult_by_i(a), 1), a),
    "a complex factor": lambda ev, a: ev.mult(a, ev.encode(1j * X)),
    "complex weights": lambda ev, a: ev.weighted_sum([a, a], [ev.encode(X), ev.encode(X * 1j)]),
}
REFUSED = "the values may be complex, and set 'insecure-test' begins with SlotsToCoeffs"


def refreshed(make: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    return lambda ev: ev.bootstrap(ev.mod_drop(make(ev, ev.encrypt(X)), 6))


@pytest.mark.parametrize("reading", [n for n, each in READINGS.items() if not each.library and n != "counting"])
def test_a_refresh_of_what_may_be_complex_is_refused_in_every_reading(
    reading: str, request: pytest.FixtureRequest
) -> None:
    if READINGS[reading].keys:
        request.getfixturevalue("encrypting")
    with READINGS[reading].evaluator(FIRST, keys_of(FIRST, lambda ev: ev.rotate(ev.square(ev.encrypt(X)), 1))) as ev:
        for make in MADE.values():
            # The noisy reading, as OpenFHE's client, refuses a complex plaintext itself.
            refused = f"{REFUSED}|of real data" if reading == "noisy" else REFUSED
            with pytest.raises(PenstockError, match=refused):
                refreshed(make)(ev)
            with pytest.raises(PenstockError, match=refused):
                ev.bootstrap_many([ev.mod_drop(made, 6) for made in (ev.encrypt(X), make(ev, ev.encrypt(X)))])


@pytest.mark.parametrize("name", list(MADE))
def test_a_package_and_a_plan_refuse_it_too_and_real_values_pass(name: str) -> None:
    with pytest.raises(PenstockError, match=REFUSED):
        run_captured(lambda ev: ev.decrypt(refreshed(MADE[name])(ev)), FIRST, Course(DigestSink()))
    with pytest.raises(PenstockError, match=REFUSED):
        refreshed(MADE[name])(ClearEvaluator(FIRST))
    assert len(keys_of(LAST, refreshed(MADE[name])).operations) > 100
    assert len(keys_of(FIRST, refreshed(lambda ev, a: a)).operations) > 100


def test_a_plan_of_real_values_alone_says_so() -> None:
    with pytest.raises(PenstockError) as found:
        choose_plan(FIRST, lambda params: keys_of(params, refreshed(lambda ev, a: a)), is_real=lambda: False)
    assert str(found.value) == str(complex_refresh(FIRST))
