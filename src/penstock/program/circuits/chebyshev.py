"""Chebyshev series by Paterson–Stockmeyer, on T_1 … T_k and T_2k, T_4k, …

Source: Chen, Chillotti, Song, EUROCRYPT 2019 (ePrint 2018/1043); Bossuat et al., EUROCRYPT 2021 (ePrint 2020/1203).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from penstock.program.evaluator import Values


def chebyshev_circuit(
    ev: Any, a: Any, coefficients: Sequence[float], lower: float = -1.0, upper: float = 1.0, *, level_limbs: int = 1
) -> Any:
    """Sum of c_k T_k over [lower, upper], c_0 counted half. `level_limbs`: limbs that one level consumes."""
    series = np.array(coefficients, dtype=np.float64)
    series[0] *= 0.5
    if lower != -1.0 or upper != 1.0:
        a = rescale_level(ev, ev.mult(a, 2.0 / (upper - lower)), level_limbs)
        a = ev.sub(a, (upper + lower) / (upper - lower))
    return evaluate(ev, a, series, level_limbs)


LIBRARY_DEGREES = (1, 2, 5, 13, 27, 59, 119, 247, 495, 1007, 2031)
"""The largest degree that OpenFHE evaluates in 1, 2, 3, … levels over [-1, 1]; checked in tests/system."""


def library_levels(degree: int) -> int:
    """Levels that OpenFHE's EvalChebyshevSeries consumes over [-1, 1].

    >>> [library_levels(d) for d in (1, 5, 6, 59, 60)]
    [1, 3, 4, 6, 7]
    """
    return 1 + sum(degree > bound for bound in LIBRARY_DEGREES)


def library_chebyshev(ev: Any, a: Any, coefficients: Sequence[float], lower: float, upper: float) -> Any:
    """OpenFHE's one call, step for step (symbolic readings only): its products, key switches, rescales and limbs.

    Where its steps are not known (no term above the constant, or a degree that it has no table for) this is
    `chebyshev_circuit` with the limbs of the result as the library leaves them.
    """
    from penstock.program.circuits.openfhe.series import MAX_DEGREE, degree_of, evaluate_series

    if 1 <= degree_of(coefficients) <= MAX_DEGREE:
        return evaluate_series(ev, a, coefficients, (lower, upper))
    mapped = lower != -1.0 or upper != 1.0
    levels = library_levels(len(coefficients) - 1) + mapped
    result = chebyshev_circuit(ev, a, coefficients, lower, upper)
    return at_levels(ev, result, ev.levels(a) - levels)


def at_levels(ev: Any, a: Any, levels: int) -> Any:
    """`a` with `levels` levels left, by dropping limbs."""
    surplus = ev.levels(a) - levels
    return ev.mod_drop(a, a.state.limbs - surplus) if surplus > 0 else a


def evaluate(ev: Any, x: Any, series: Values, level_limbs: int = 1) -> Any:
    """Sum of series[k] T_k(x), x in [-1, 1]."""
    degree = len(series) - 1
    if degree < 1:
        return ev.add(rescale_level(ev, ev.mult(x, 0.0), level_limbs), float(series[0]))
    split = 1 << max(1, math.ceil(math.log2(math.sqrt(degree + 1))))
    powers = _powers(ev, x, min(split, degree), level_limbs)
    giants: dict[int, Any] = {split: powers.get(split)}
    step = split
    while step * 2 <= degree:
        giants[step * 2] = _double(ev, giants[step], level_limbs)
        step *= 2
    return _recurse(ev, series, powers, giants, split, level_limbs)


def _powers(ev: Any, x: Any, top: int, level_limbs: int) -> dict[int, Any]:
    """T_1 … T_top, each by T_{a+b} = 2 T_a T_b - T_{a-b} with a and b as near as can be."""
    powers = {1: x}
    for k in range(2, top + 1):
        if k % 2 == 0:
            powers[k] = _double(ev, powers[k // 2], level_limbs)
        else:
            high, low = (k + 1) // 2, k // 2
            product = rescale_level(ev, ev.mult(powers[high], powers[low]), level_limbs)
            powers[k] = ev.sub(ev.add(product, product), powers[high - low])
    return powers


def _double(ev: Any, t: Any, level_limbs: int) -> Any:
    """T_2k = 2 T_k^2 - 1."""
    square = rescale_level(ev, ev.square(t), level_limbs)
    return ev.sub(ev.add(square, square), 1.0)


def _recurse(
    ev: Any, series: Values, powers: dict[int, Any], giants: dict[int, Any], split: int, level_limbs: int
) -> Any:
    degree = len(series) - 1
    if degree < split or giants.get(split) is None:
        return _linear(ev, series, powers, level_limbs)
    giant = max(g for g in giants if g <= degree)
    quotient, remainder = divide(series, giant)
    low = _recurse(ev, remainder, powers, giants, split, level_limbs)
    if len(quotient) == 1:
        high = rescale_level(ev, ev.mult(giants[giant], float(quotient[0])), level_limbs)
    else:
        high = _recurse(ev, quotient, powers, giants, split, level_limbs)
        high = rescale_level(ev, ev.mult(high, giants[giant]), level_limbs)
    return ev.add(high, low)


def _linear(ev: Any, series: Values, powers: dict[int, Any], level_limbs: int) -> Any:
    """Sum of series[k] T_k for small k, rescaled once."""
    total = None
    for k in range(1, len(series)):
        term = ev.mult(powers[k], float(series[k]))
        total = term if total is None else ev.add(total, term)
    if total is None:
        return float(series[0])
    return ev.add(rescale_level(ev, total, level_limbs), float(series[0]))


def divide(series: Values, giant: int) -> tuple[Values, Values]:
    """Quotient and remainder by T_giant in the Chebyshev basis: series = quotient * T_giant + remainder.

    Uses T_giant T_j = (T_{giant+j} + T_{giant-j}) / 2, so deg(remainder) < giant where deg(series) < 2 giant.
    """
    degree = len(series) - 1
    quotient = np.zeros(degree - giant + 1)
    remainder = series[:giant].copy()
    for k in range(degree, giant - 1, -1):
        j = k - giant
        quotient[j] = series[k] if j == 0 else 2.0 * series[k]
        if j > 0:
            remainder[giant - j] -= series[k]
    return quotient, remainder


def rescale_level(ev: Any, a: Any, level_limbs: int) -> Any:
    """End of one level: one rescale, or several where a level is wider than one prime (symbolic reading only).

    Under automatic scaling the rescale is left to the next multiplication.
    """
    return ev.rescale(a) if level_limbs == 1 else ev.rescale_limbs(a, level_limbs)


class _Levels:
    """An evaluator whose ciphertexts are the number of levels consumed."""

    def mult(self, a: int, b: Any) -> int:
        return max(a, b) if isinstance(b, int) else a

    def square(self, a: int) -> int:
        return a

    def rescale(self, a: int) -> int:
        return a + 1

    def add(self, a: int, b: Any) -> int:
        return max(a, b) if isinstance(b, int) else a

    sub = add


@lru_cache(maxsize=256)
def chebyshev_levels(degree: int) -> int:
    """Levels that `evaluate` consumes for a series of `degree` over [-1, 1].

    >>> [chebyshev_levels(d) for d in (1, 7, 31, 59, 63)]
    [1, 4, 6, 6, 7]
    """
    return int(evaluate(_Levels(), 0, np.ones(degree + 1)))
