"""OpenFHE's polynomial evaluation as a circuit: Chebyshev and power series, by Paterson–Stockmeyer from degree 5 on.

It repeats the library's steps, so products, key switches, levels and values equal the library's.
Source: OpenFHE, `ckksrns-advancedshe.cpp`, `ComputeDegreesPS` and the long divisions in `ckksrns-utils.cpp`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from penstock.program.evaluator.call import Cipher
from penstock.program.evaluator.circuit_evaluator import CircuitEvaluator
from penstock.program.evaluator.circuits.openfhe.division import NEARLY, Coefficients, degree_of, divided

_LINEAR_BELOW = 5

# Degree up to -> m. Source: ComputeDegreesPS.
_GIANT_STEPS = (
    (2, 1), (11, 2), (13, 3), (17, 2), (55, 3), (59, 4), (76, 3), (239, 4), (247, 5), (284, 4), (991, 5), (1007, 6),
    (1083, 5), (2015, 6), (2031, 7), (2204, 6),
)  # fmt: skip
_TABULATED = _GIANT_STEPS[-1][0]


@lru_cache(maxsize=256)
def split_degree(degree: int) -> tuple[int, int]:
    """Baby powers k and giant steps m of OpenFHE's Paterson–Stockmeyer.

    >>> split_degree(27), split_degree(119), split_degree(2205)
    ((4, 3), (8, 4), (36, 6))
    """
    if degree > _TABULATED:
        return _searched(degree)
    m = next(steps for upto, steps in _GIANT_STEPS if degree <= upto)
    return degree // ((1 << m) - 1) + 1, m


def _searched(degree: int) -> tuple[int, int]:
    """The split with the fewest products, among those near the root of half the degree; the first of equals."""
    near = (math.isqrt(degree // 2).bit_length() - 1) - 1
    ks = range(1 << near, min(1 << near + 3, degree + 1))
    splits = (
        (k, m) for k in ks for m in range(1, math.ceil(math.log2(degree // k) + 1) + 2) if degree < k * ((1 << m) - 1)
    )
    return min(splits, key=lambda split: split[0] + 2 * split[1] + (1 << split[1] - 1))


def evaluate_series(
    ev: CircuitEvaluator,
    x: Cipher,
    coefficients: Sequence[float],
    interval: tuple[float, float] | None,
    *,
    linear: bool | None = None,
) -> Cipher:
    """The series at `x`: in Chebyshev polynomials over `interval`, or in powers where that is `None`.

    `linear`: one sum over all powers, or Paterson–Stockmeyer; by degree if omitted.
    """
    degree = degree_of(coefficients)
    series = SeriesCircuit(ev, interval is not None)
    if interval is not None and (abs(interval[0] + 1) > NEARLY or abs(interval[1] - 1) > NEARLY):
        x = series.mapped(x, *interval)
    if degree < _LINEAR_BELOW if linear is None else linear:
        return series.linear(x, list(coefficients))
    return series.paterson_stockmeyer(x, list(coefficients)[: degree + 1])


@dataclass(slots=True)
class SeriesCircuit:
    """One evaluation: its powers and giant steps, made on demand."""

    ev: CircuitEvaluator
    chebyshev: bool
    powers: list[Cipher] = field(default_factory=list)
    """T_1 … T_k, or x … x^k."""
    giants: list[Cipher] = field(default_factory=list)
    """T_k, T_2k, T_4k, …"""
    settled: dict[int, object] = field(default_factory=dict)
    """What a reading keeps of the powers from one weighted sum to the next."""

    def mapped(self, x: Cipher, lower: float, upper: float) -> Cipher:
        """[lower, upper] to [-1, 1]."""
        scale = 2 / (upper - lower)
        return self.ev.add(self.ev.rescale(self.ev.mult(x, scale)), -1.0 - lower * scale)

    # Powers.
    def _square(self, a: Cipher) -> Cipher:
        square = self.ev.square(a)
        if not self.chebyshev:
            return self.ev.rescale(square)
        return self.ev.add(self.ev.rescale(self.ev.add(square, square)), -1.0)

    def _product(self, a: Cipher, b: Cipher, difference: Cipher) -> Cipher:
        """2 a b - T_{difference}, or a b."""
        product = self.ev.mult(a, b)
        if not self.chebyshev:
            return self.ev.rescale(product)
        return self.ev.sub(self.ev.rescale(self.ev.add(product, product)), difference)

    def _power(self, i: int) -> Cipher:
        """The i-th power from those before it."""
        have = self.powers
        if self.chebyshev:
            return self._product(have[i // 2 - 1], have[i // 2], have[0]) if i % 2 else self._square(have[i // 2 - 1])
        top = 1 << (i.bit_length() - 1)
        if i == top:
            return self._square(have[i // 2 - 1])
        return self._product(have[top - 1], have[i - top - 1], have[0])

    def linear(self, x: Cipher, coefficients: Coefficients) -> Cipher:
        """Every power that is needed, all brought to the level of the last, then one sum."""
        ev, k = self.ev, len(coefficients) - 1
        needed = set(range(1, k + 1)) if self.chebyshev else _needed_powers(coefficients)
        self.powers = [x]
        for i in range(2, k + 1):
            self.powers.append(self._power(i) if i in needed else x)
        last = self.powers[-1]
        # The library brings those down, too, whose coefficient is zero.
        powers = {i: self._adjusted(self.powers[i - 1], last) for i in range(1, k) if i in needed}
        total = ev.mult(last, coefficients[-1])
        for i, power in powers.items():
            if abs(coefficients[i]) > NEARLY:
                total = ev.add(total, ev.mult(power, coefficients[i]))
        return ev.add(ev.rescale(total), self._constant(coefficients))

    def paterson_stockmeyer(self, x: Cipher, coefficients: Coefficients) -> Cipher:
        ev = self.ev
        k, m = split_degree(len(coefficients) - 1)
        self.powers = [x]
        for i in range(2, k + 1):
            self.powers.append(self._power(i))
        last = self.powers[-1]
        self.powers = [*(self._adjusted(p, last) for p in self.powers[:-1]), last]
        self.giants = [last]
        top = last
        for _ in range(1, m):
            self.giants.append(self._square(self.giants[-1]))
            top = self._product(top, self.giants[-1], last)
        monic = coefficients + [0.0] * (k * ((1 << m) - 1) + 1 - len(coefficients))
        monic[-1] = 1.0
        return ev.sub(self._inner(monic, k, m), top)

    def _inner(self, f: Coefficients, k: int, m: int) -> Cipher:
        """f = (T_{k 2^(m-1)} + c) q + s, with q and s of the same form and half the size, or short."""
        ev = self.ev
        half = k * ((1 << (m - 1)) - 1)
        q, r = divided(f, [0.0] * (half + k) + [1.0], in_chebyshev=self.chebyshev)
        r += [0.0] * (half + 1 - len(r))
        r[half] -= 1.0
        c, s = divided(r[: degree_of(r) + 1], q, in_chebyshev=self.chebyshev)
        s = [*s, *[0.0] * (half + 1 - len(s))][: half + 1]
        s[half] = 1.0

        high = self._inner(q, k, m - 1) if degree_of(q) > k else self._short(q, k)
        low = self._inner(s, k, m - 1) if degree_of(s) > k else self._short(s, k, constant_last=self.chebyshev)
        giant = self.giants[m - 1]
        n = degree_of(c)
        if n == 0:
            outer = ev.add(giant, self._constant(c))
        else:
            if n > 1:
                outer = self._weighted_sum(c[1 : n + 1])
            elif abs(c[1] - 1) > NEARLY:
                outer = ev.rescale(ev.mult(self.powers[0], c[1]))
            else:
                outer = self.powers[0]
            outer = ev.add(giant, self._reduced(ev.add(outer, self._constant(c)), giant.state.limbs))
        return ev.add(ev.rescale(ev.mult(outer, high)), low)

    def _short(self, f: Coefficients, k: int, *, constant_last: bool = False) -> Cipher:
        """A polynomial of degree k whose leading coefficient is a power of two: that one by additions."""
        total = self.powers[k - 1]
        if self.chebyshev and len(f) > k and f[k] > 0:
            for _ in range(int(math.log2(f[k]))):
                total = self.ev.add(total, total)
        n = degree_of(f[:k])
        if not constant_last:
            total = self.ev.add(total, self._constant(f))
        if n:
            total = self.ev.add(total, self._weighted_sum(f[1 : n + 1]))
        return self.ev.add(total, self._constant(f)) if constant_last else total

    def _constant(self, f: Coefficients) -> float:
        """The term without a power; in Chebyshev series c_0 counts half."""
        return f[0] / 2 if self.chebyshev else f[0]

    def _weighted_sum(self, weights: Coefficients) -> Cipher:
        """Of the first powers, one for each weight, rescaled once."""
        return self.ev.rescale(self.ev.weighted(self.powers[: len(weights)], weights, self.settled))

    # Levels.
    def _reduced(self, a: Cipher, limbs: int) -> Cipher:
        """LevelReduce: under automatic scaling it does nothing."""
        if self.ev.params.scaling.automatic or limbs >= a.state.limbs:
            return a
        return self.ev.mod_drop(a, limbs)

    def _adjusted(self, a: Cipher, to: Cipher) -> Cipher:
        """AdjustLevelsAndDepth: `a` at the limbs and scale of `to`, once for all its uses."""
        if not self.ev.params.scaling.automatic:
            return self._reduced(a, to.state.limbs)
        return self.ev.adjusted(a, to)


def _needed_powers(coefficients: Coefficients) -> set[int]:
    """Powers that a short power series computes: powers of two, and what leads to the others that it has."""
    needed: set[int] = set()
    for i in range(1, len(coefficients)):
        rest = i
        if rest & (rest - 1) == 0:
            needed.add(i)
        elif abs(coefficients[i]) > NEARLY:
            while rest & (rest - 1):
                needed.add(rest)
                rest &= (1 << (rest.bit_length() - 1)) - 1
    return needed
