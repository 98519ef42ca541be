"""Chebyshev series by Paterson–Stockmeyer in the least depth, on T_1 … T_k and T_2k, T_4k, …

Source: Chen, Chillotti, Song, EUROCRYPT 2019 (ePrint 2018/1043); Bossuat et al., EUROCRYPT 2021 (ePrint 2020/1203).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import cast

import numpy as np

from penstock.program.evaluator.protocol import Ciphertext, Evaluator, InnerEvaluator, Values


def chebyshev_circuit(
    ev: Evaluator,
    a: Ciphertext,
    coefficients: Sequence[float],
    lower: float = -1.0,
    upper: float = 1.0,
    *,
    level_limbs: int = 1,
) -> Ciphertext:
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


def evaluate(ev: Evaluator, x: Ciphertext, series: Values, level_limbs: int = 1) -> Ciphertext:
    """Sum of series[k] T_k(x), x in [-1, 1], in as few levels as its degree allows: `chebyshev_levels`.

    Of the polynomials T_k only those are made that a term needs: an even or odd series takes about half of them.
    """
    series = np.trim_zeros(np.asarray(series, dtype=np.float64), "b")
    degree = len(series) - 1
    if degree < 1:
        constant = float(series[0]) if len(series) else 0.0
        return ev.add(rescale_level(ev, ev.mult(x, 0.0), level_limbs), constant)
    split = _best_split(degree, bool(np.any(series[0::2])), bool(np.any(series[1::2])))
    return _Series(ev, x, split, level_limbs).evaluate(series, degree.bit_length())


@lru_cache(maxsize=256)
def _best_split(degree: int, even: bool, odd: bool) -> int:
    """The power of two below which terms are summed one by one, for the fewest products of ciphertexts."""
    # Coefficients without a pattern: no term of a quotient or remainder cancels.
    full = 2.0 + np.sin(np.arange(degree + 1.0) ** 2)
    full[0::2] *= even
    full[1::2] *= odd
    counts = {}
    for split in (1 << k for k in range(1, max(2, degree.bit_length() + 1))):
        counter = _Levels()
        _Series(cast(Evaluator, counter), 0, split, 1).evaluate(full, degree.bit_length())
        counts[split] = counter.products
    return min(counts, key=lambda split: (counts[split], split))


class _Series:
    """One evaluation: the polynomials T_k that were made, and how a series is divided by them."""

    def __init__(self, ev: Evaluator, x: Ciphertext, split: int, level_limbs: int) -> None:
        self.ev, self.split, self.level_limbs = ev, split, level_limbs
        self.powers: dict[int, Ciphertext] = {1: x}

    def power(self, k: int) -> Ciphertext:
        """T_k by T_{a+b} = 2 T_a T_b - T_{a-b}, a the largest power of two below k: ceil(log2 k) levels."""
        if k not in self.powers:
            ev, high = self.ev, 1 << (k - 1).bit_length() - 1
            low = k - high
            if high == low:
                product = self._level(ev.square(self.power(high)))
                self.powers[k] = ev.sub(ev.add(product, product), 1.0)
            else:
                product = self._level(ev.mult(self.power(high), self.power(low)))
                self.powers[k] = ev.sub(ev.add(product, product), self.power(high - low))
        return self.powers[k]

    def evaluate(self, series: Values, levels: int) -> Ciphertext:
        """The sum in at most `levels` levels below x; a number where it has no term but the constant."""
        series = np.trim_zeros(series, "b")
        degree = len(series) - 1
        if degree < self.split and degree <= 1 << (levels - 1):
            return self._sum(series)
        giant = 1 << degree.bit_length() - 1
        quotient, remainder = divide(series, giant)
        high = self.evaluate(quotient, levels - 1)
        high = self._level(self.ev.mult(self.power(giant), high))
        low = self.evaluate(remainder, levels)
        return high if isinstance(low, float) and low == 0 else self.ev.add(high, low)

    def _sum(self, series: Values) -> Ciphertext:
        """Terms one by one, rescaled once."""
        total = None
        for k in range(1, len(series)):
            if series[k] != 0:
                term = self.ev.mult(self.power(k), float(series[k]))
                total = term if total is None else self.ev.add(total, term)
        constant = float(series[0]) if len(series) else 0.0
        if total is None:
            return constant
        total = self._level(total)
        return self.ev.add(total, constant) if constant else total

    def _level(self, a: Ciphertext) -> Ciphertext:
        return rescale_level(self.ev, a, self.level_limbs)


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


def rescale_level(ev: Evaluator, a: Ciphertext, level_limbs: int) -> Ciphertext:
    """End of one level: one rescale, or several where a level is wider than one prime (symbolic reading only).

    Under automatic scaling the rescale is left to the next multiplication.
    """
    return ev.rescale(a) if level_limbs == 1 else cast(InnerEvaluator, ev).rescale_limbs(a, level_limbs)


class _Levels:
    """An evaluator whose ciphertexts are the number of levels consumed; it counts products of ciphertexts."""

    def __init__(self) -> None:
        self.products = 0

    def mult(self, a: int, b: float) -> int:
        self.products += isinstance(b, int)
        return max(a, b) if isinstance(b, int) else a

    def square(self, a: int) -> int:
        self.products += 1
        return a

    def rescale(self, a: int) -> int:
        return a + 1

    def add(self, a: int, b: float) -> int:
        return max(a, b) if isinstance(b, int) else a

    sub = add


def chebyshev_levels(degree: int) -> int:
    """Levels that `evaluate` consumes for a series of `degree` over [-1, 1]: ceil(log2(degree + 1)).

    >>> [chebyshev_levels(d) for d in (1, 7, 30, 59, 63)]
    [1, 3, 5, 6, 6]
    """
    return max(1, degree.bit_length())
