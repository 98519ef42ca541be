"""The sign function as a composition of minimax polynomials, and ReLU and comparison from it.

Each polynomial is the odd one of its degree that is nearest to 1 on an interval [a, 1] (and so to -1 on [-1, -a]); the
next one starts from where its values lie. Each takes values from [-1, 1] to [-1, 1], so that no level is lost between
them. Source: Lee, Lee, No, "Minimax approximation of sign function by composite polynomial for homomorphic comparison",
IEEE TDSC 2021 (ePrint 2020/834); used for ReLU by Lee et al., ICML 2022 (ePrint 2021/1688). The coefficients are found
here by Remez' exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Floats
from penstock.errors import UsageError
from penstock.program.evaluator.circuits.chebyshev import chebyshev_levels, evaluate
from penstock.program.evaluator.protocol import Ciphertext, Evaluator

_ROUNDS = 60
_GRID = 4000
_MARGIN = 1e-4


@dataclass(frozen=True, slots=True)
class CompositeSign:
    """p_m(… p_1(x)): near sign(x) for lower <= |x| <= 1."""

    lower: float
    series: tuple[Floats, ...]
    """Chebyshev coefficients of each polynomial over [-1, 1]; even ones are 0."""
    error: float
    """Largest difference to the sign outside (-lower, lower)."""

    @property
    def degrees(self) -> tuple[int, ...]:
        """Of the polynomials, in the order in which they are evaluated."""
        return tuple(len(series) - 1 for series in self.series)

    @property
    def levels(self) -> tuple[int, ...]:
        """Levels that each polynomial takes."""
        return tuple(chebyshev_levels(degree) for degree in self.degrees)

    def __call__(self, x: Floats) -> Floats:
        """The composition on plain values."""
        for series in self.series:
            x = np.asarray(np.polynomial.chebyshev.chebval(x, series), dtype=np.float64)
        return x

    def step(self, ev: Evaluator, a: Ciphertext, index: int, factor: float = 1.0) -> Ciphertext:
        """Polynomial `index` of an encrypted value, times `factor`."""
        return evaluate(ev, a, self.series[index] * factor)


@lru_cache(maxsize=32)
def composite_sign(lower: float, degrees: tuple[int, ...]) -> CompositeSign:
    """The minimax composition of these degrees on lower <= |x| <= 1.

    Raises: UsageError: an even degree, or `lower` outside (0, 1).
    >>> composite_sign(2.0**-13, (15, 15, 27)).levels
    (4, 4, 5)
    """
    if not 0 < lower < 1 or not degrees or any(degree < 1 or degree % 2 == 0 for degree in degrees):
        raise UsageError(f"a composition of degrees {degrees} on [{lower}, 1]: degrees are odd, the interval in (0, 1)")
    made: list[Floats] = []
    start = lower
    for degree in degrees:
        odd, error = odd_minimax(start, degree)
        series = np.zeros(degree + 1)
        # Values lie in [1 - error, 1 + error]: divided by the upper end they stay in [-1, 1].
        series[1::2] = odd / (1 + error)
        made.append(series)
        start = (1 - error) / (1 + error)
    # The last one must be near 1 itself.
    made[-1] = made[-1] * (1 + error)
    return CompositeSign(lower, tuple(made), error)


@lru_cache(maxsize=64)
def odd_minimax(lower: float, degree: int) -> tuple[Floats, float]:
    """Coefficients of T_1, T_3, … T_degree of the odd polynomial nearest to 1 on [lower, 1], and its largest error.

    Remez' exchange: the error of the best one has (degree + 1) / 2 + 1 extremes of equal size and alternating sign.
    """
    terms = (degree + 1) // 2
    orders = np.arange(1, degree + 1, 2)
    # Extremes crowd at both ends: near the lower end in proportion to its size, near 1 like those of Chebyshev
    # polynomials.
    near = np.geomspace(lower, 1.0, _GRID)
    grid = np.unique(np.concatenate([near, np.cos(np.linspace(0.0, np.arccos(lower), _GRID))]))
    grid[0], grid[-1] = lower, 1.0
    values = np.cos(np.outer(np.arccos(grid), orders))
    # The initial extremes: those of a Chebyshev polynomial, spread over the grid.
    chosen = np.rint((1 - np.cos(np.pi * np.arange(terms + 1) / terms)) / 2 * (len(grid) - 1)).astype(np.int64)
    coefficients: Floats = np.zeros(terms)
    level = 0.0
    for _ in range(_ROUNDS):
        system = np.column_stack([values[chosen], (-1.0) ** np.arange(terms + 1)])
        solution = np.linalg.solve(system, np.ones(terms + 1))
        coefficients, level = solution[:-1], abs(float(solution[-1]))
        error = values @ coefficients - 1
        extremes = _extremes(error, terms + 1)
        if extremes is None or np.array_equal(extremes, chosen):
            break
        chosen = extremes
        if np.abs(error).max() <= level * (1 + 1e-9):
            break
    # Between two points of the grid the error is a little larger.
    return coefficients, float(np.abs(values @ coefficients - 1).max()) * (1 + _MARGIN)


def _extremes(error: Floats, count: int) -> npt.NDArray[np.int64] | None:
    """Indices of `count` extremes of alternating sign, the largest ones in a row; `None` where there are fewer."""
    turns = np.flatnonzero(np.diff(np.signbit(error))) + 1
    pieces = np.split(np.arange(len(error)), turns)
    peaks = np.asarray([piece[np.argmax(np.abs(error[piece]))] for piece in pieces])
    while len(peaks) > count:
        sizes = np.abs(error[peaks])
        if len(peaks) == count + 1:
            # One too many: the smaller end goes.
            peaks = peaks[1:] if sizes[0] < sizes[-1] else peaks[:-1]
        else:
            # A neighbouring pair goes, so that signs go on alternating.
            worst = int(np.argmin(np.maximum(sizes[:-1], sizes[1:])))
            peaks = np.delete(peaks, [worst, worst + 1])
    return peaks if len(peaks) == count else None


def relu_of(sign: CompositeSign, x: Floats) -> Floats:
    """x (1 + sign(x)) / 2 on plain values of [-1, 1]."""
    return x * (0.5 + 0.5 * sign(x))


def parse_degrees(text: str) -> tuple[int, ...]:
    """The degrees of `15-15-27`.

    >>> parse_degrees("15-15-27")
    (15, 15, 27)
    """
    parts: Sequence[str] = text.split("-")
    if not all(part.isdigit() for part in parts):
        raise UsageError(f"'{text}' is not a list of degrees: write for example 15-15-27")
    return tuple(int(part) for part in parts)
