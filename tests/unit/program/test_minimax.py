"""Compositions of minimax polynomials: the theory's marks, and what the programs make of them."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import UsageError
from penstock.program.evaluator.circuits.minimax import composite_sign, odd_minimax, relu_of
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.placement import Chain
from penstock.program.workloads.parts.activations import activation
from support.toy import toy

CLEAR = ClearEvaluator(toy())


@pytest.mark.parametrize(("lower", "degree"), [(0.5, 1), (0.1, 7), (2.0**-9, 15), (0.05, 27)])
def test_the_error_of_a_minimax_polynomial_alternates_between_equal_extremes(lower: float, degree: int) -> None:
    """Chebyshev's criterion: one more extreme than coefficients, of equal size, with alternating signs."""
    coefficients, level = odd_minimax(lower, degree)
    x = np.unique(np.concatenate([np.geomspace(lower, 1, 20001), np.linspace(lower, 1, 20001)]))
    series = np.zeros(degree + 1)
    series[1::2] = coefficients
    error = np.polynomial.chebyshev.chebval(x, series) - 1
    signs = np.split(error, np.flatnonzero(np.diff(np.signbit(error))) + 1)
    peaks = [float(np.abs(part).max()) for part in signs]
    assert len(peaks) == (degree + 1) // 2 + 1
    assert np.allclose(peaks, level, rtol=1e-3)


def test_degree_one_is_the_line_known_by_hand() -> None:
    # c x is nearest to 1 on [a, 1] where 1 - c a = c - 1.
    coefficients, level = odd_minimax(0.5, 1)
    assert coefficients[0] == pytest.approx(2 / 1.5, rel=1e-4)
    assert level == pytest.approx(1 / 3, rel=1e-3)


def test_the_published_composition_has_the_published_precision_of_relu() -> None:
    sign = composite_sign(16 * 2.0**-13, (15, 15, 27))
    assert sign.levels == (4, 4, 5)
    x = np.linspace(-1, 1, 200_001)
    outside = np.abs(x) >= sign.lower
    assert np.max(np.abs(sign(x) - np.sign(x))[outside]) <= sign.error
    # alpha = 13: ReLU within 2^-13.
    assert np.max(np.abs(relu_of(sign, x) - np.maximum(x, 0))) <= 2.0**-13
    assert np.allclose(sign(-x), -sign(x))


def test_values_stay_in_the_interval_of_the_next_polynomial() -> None:
    sign = composite_sign(0.01, (7, 7, 13))
    x = np.linspace(-1, 1, 20_001)
    for series in sign.series[:-1]:
        x = np.polynomial.chebyshev.chebval(x, series)
        assert np.max(np.abs(x)) <= 1


@pytest.mark.parametrize("name", ["chebyshev-59", "minimax-15-15-27"])
def test_activations_compute_on_vectors_what_they_say_on_values(name: str) -> None:
    relu, x = activation(name), np.linspace(-1, 1, 64)
    got = relu.apply(CLEAR, x, Chain(CLEAR, relu.blocks))
    assert np.allclose(got, relu.plain(x), atol=1e-9)
    assert np.max(np.abs(got - np.maximum(x, 0))) < 0.02


@pytest.mark.parametrize("name", ["chebyshev", "minimax-15-x", "relu", "minimax-4-8"])
def test_names_and_degrees_that_mean_nothing_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        activation(name)
