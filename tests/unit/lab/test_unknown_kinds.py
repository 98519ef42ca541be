"""What a kind of operation is off by that was never timed: one more draw of the kinds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from penstock.lab.fit.heldout import conformal, unknown_deviations
from penstock.lab.prediction.uncertainty import interval, log_sd
from penstock.scheme.machines.calibration import operation_class
from penstock.scheme.machines.report import FitReport

ELEMENT_WISE = ("add", "add_plain", "sub", "sub_scalar", "mult_scalar", "mult_plain", "mult_no_relin", "rescale")
SWITCHING = ("decompose", "rotate_hoisted", "rotate", "relinearize", "square", "mult")
NORMAL = 1.6449


def drawn(generator: np.random.Generator, kinds: tuple[str, ...], size: float) -> dict[str, np.ndarray]:
    """Scores of each kind: what it is off by as a whole, and a little scatter. Some are timed ten times as often."""
    return {
        kind: np.abs(size * generator.standard_normal() + 0.1 * size * generator.standard_normal(10 if i % 2 else 100))
        for i, kind in enumerate(kinds)
    }


def test_a_new_kind_is_covered_and_by_the_quantile_over_timings_it_is_not() -> None:
    generator = np.random.default_rng(7)
    covered, naive = [], []
    for _ in range(600):
        scores = drawn(generator, ELEMENT_WISE, 0.05) | drawn(generator, SWITCHING, 0.01)
        for new in ("add", "mult"):
            rest = {kind: each for kind, each in scores.items() if kind != new}
            kinds = np.concatenate([np.full(len(each), kind, dtype=object) for kind, each in rest.items()])
            values = np.concatenate(list(rest.values()))
            group = operation_class(new)
            covered.append((scores[new] <= NORMAL * unknown_deviations(values, kinds, 1e-6, NORMAL)[group]).mean())
            same = np.concatenate([each for kind, each in rest.items() if operation_class(kind) == group])
            naive.append((scores[new] <= conformal(same)).mean())
    assert 0.88 <= np.mean(covered) <= 0.93
    assert np.mean(naive) < 0.87


def test_a_kind_counts_once_however_often_it_was_timed() -> None:
    kinds = np.asarray([*ELEMENT_WISE], dtype=object)
    scores = np.linspace(0.01, 0.08, len(kinds))
    often = np.concatenate([np.repeat(scores[:1], 1000), scores[1:]])
    once = unknown_deviations(scores, kinds, 0.005, NORMAL)
    assert unknown_deviations(often, np.concatenate([np.repeat(kinds[:1], 1000), kinds[1:]]), 0.005, NORMAL) == once


def test_fewer_kinds_are_less_sure_of_the_next_one() -> None:
    def of(kinds: tuple[str, ...]) -> float:
        found = unknown_deviations(np.full(len(kinds), 0.1), np.asarray(kinds, dtype=object), 0.005, NORMAL)
        return found["element-wise"]

    few, many = of(ELEMENT_WISE[:3]), of(ELEMENT_WISE)
    assert few > many > 0.1
    assert few == pytest.approx(0.1 * 2.353363 / NORMAL)  # Student's 95 % quantile with three degrees of freedom


def test_the_deviation_follows_the_class_and_two_kinds_have_none() -> None:
    kinds = np.asarray([*ELEMENT_WISE, *SWITCHING], dtype=object)
    scores = np.asarray([0.1] * len(ELEMENT_WISE) + [0.02] * len(SWITCHING))
    found = unknown_deviations(scores, kinds, 0.005, NORMAL)
    assert found["element-wise"] > 4 * found["key-switching"] > 0.08
    assert unknown_deviations(scores[:2], kinds[:2], 0.005, NORMAL) == {}
    assert unknown_deviations(np.zeros(14), kinds, 0.005, NORMAL) == dict.fromkeys(found, 0.005)


def test_the_scale_of_kinds_that_were_timed_is_not_that_of_others() -> None:
    fit = FitReport(
        fitted_to="",
        shapes=1,
        total_error=0.0,
        spread=None,
        merged=[],
        errors=[],
        common_sd=0.0,
        kinds={"rotate": 0.05},
        unknown_kinds={"element-wise": 0.2},
    )

    def width(kind: str, scale: float) -> float:
        sd = log_sd(fit, {kind: 1.0}, scale=scale)
        assert sd is not None
        return math.log(interval(fit, 1.0, sd, scale=scale)[1])

    assert width("rotate", 3.0) == pytest.approx(3 * width("rotate", 1.0))
    assert width("add", 3.0) == pytest.approx(width("add", 1.0))
    both = fit.model_copy(update={"common_sd": 0.1})
    assert log_sd(both, {"add": 1.0}, scale=2.0) == pytest.approx(math.hypot(0.1, 0.1))
