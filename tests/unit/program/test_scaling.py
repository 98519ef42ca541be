"""What automatic scaling does inside a call, as counted in OpenFHE 1.6.1 from outside (breakpoints on ModReduce)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from penstock.errors import ParamsError
from penstock.program.evaluator.counting import CountingEvaluator
from penstock.program.evaluator.scaling import ScaleState, align_pair, align_unary
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.scheme.params.ckks import Scaling
from support.toy import toy


@pytest.mark.parametrize(
    ("scaling", "upper", "lower", "gap", "rescales", "scalar_mults"),
    [
        (Scaling.FLEXIBLE_AUTO, 1, 1, 1, 1, 1),
        (Scaling.FLEXIBLE_AUTO, 1, 1, 3, 1, 1),
        (Scaling.FLEXIBLE_AUTO, 2, 2, 2, 1, 1),
        (Scaling.FLEXIBLE_AUTO, 2, 1, 1, 1, 0),
        (Scaling.FLEXIBLE_AUTO, 2, 1, 2, 2, 1),
        (Scaling.FLEXIBLE_AUTO, 1, 2, 2, 0, 1),
        (Scaling.FIXED_AUTO, 1, 1, 2, 0, 0),
        (Scaling.FIXED_AUTO, 2, 2, 2, 0, 0),
        (Scaling.FIXED_AUTO, 2, 1, 3, 1, 0),
        (Scaling.FIXED_AUTO, 1, 2, 1, 0, 1),
    ],
)
def test_sums_across_levels(
    scaling: Scaling, upper: int, lower: int, gap: int, rescales: int, scalar_mults: int
) -> None:
    high, low = ScaleState(6 + gap, upper), ScaleState(6, lower)
    for pair in ((high, low), (low, high)):
        found = align_pair(*pair, scaling, multiplication=False)
        assert (found.limbs, found.rescales, found.scalar_mults) == (6, rescales, scalar_mults)


@pytest.mark.parametrize("scaling", [Scaling.FLEXIBLE_AUTO, Scaling.FIXED_AUTO])
def test_products_are_rescaled_at_the_start_of_the_next_product(scaling: Scaling) -> None:
    late = ScaleState(6, 2)
    both = align_pair(late, late, scaling, multiplication=True)
    assert (both.limbs, both.degrees, both.rescales) == (5, (1, 1), 2)
    one = align_unary(late, scaling, multiplication=True)
    assert (one.limbs, one.degrees, one.rescales) == (5, (1,), 1)
    assert align_unary(late, scaling, multiplication=False).rescales == 0


def test_manual_scaling_only_drops_limbs() -> None:
    found = align_pair(ScaleState(6), ScaleState(4), Scaling.FIXED_MANUAL, multiplication=True)
    assert (found.limbs, found.rescales, found.scalar_mults) == (4, 0, 0)


def test_the_last_limb_cannot_be_rescaled_away() -> None:
    with pytest.raises(ParamsError, match="deeper than the parameters"):
        align_unary(ScaleState(1, 2), Scaling.FLEXIBLE_AUTO, multiplication=True)


@pytest.mark.parametrize("scaling", [Scaling.FLEXIBLE_AUTO, Scaling.FLEXIBLE_AUTO_EXT, Scaling.FIXED_AUTO])
def test_a_sum_with_a_product_on_the_last_limb_is_refused_where_the_library_refuses_it(scaling: Scaling) -> None:
    product, flexible = ScaleState(1, 2), scaling is not Scaling.FIXED_AUTO
    accepted = {ScaleState(1, 2)} | ({ScaleState(1, 1), ScaleState(2, 2)} if flexible else set())
    for other in (ScaleState(limbs, degree) for limbs in (1, 2, 3) for degree in (1, 2)):
        for pair in ((product, other), (other, product)):
            if other in accepted:
                assert align_pair(*pair, scaling, multiplication=False).degrees == (2, 2)
            else:
                with pytest.raises(ParamsError, match="deeper than the parameters"):
                    align_pair(*pair, scaling, multiplication=False)


@pytest.mark.parametrize("reading", [SymbolicEvaluator, CountingEvaluator])
def test_under_manual_scaling_openfhe_drops_no_product_to_the_last_limb(reading: Callable[..., Any]) -> None:
    for library, refused in (("accelerator", False), ("openfhe", True)):
        ev = reading(toy(library=library))
        a = ev.encrypt(np.zeros(64))
        low, *above = (ev.mult(each, each) for each in (ev.mod_drop(a, limbs) for limbs in (1, 2, 3)))
        assert ev.add(low, low).state == ScaleState(1, 2)
        for high in above:
            with pytest.raises(ParamsError, match="deeper than the parameters") if refused else nullcontext():
                ev.add(high, low)
