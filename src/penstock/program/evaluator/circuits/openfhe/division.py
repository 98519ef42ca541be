"""OpenFHE's long divisions of series, with its roundings: the coefficients that Paterson–Stockmeyer rounds to words.

Source: OpenFHE 1.5.1, `ckksrns-utils.cpp`, `LongDivisionPoly` and `LongDivisionChebyshev`. Every product, quotient and
difference of doubles is taken in the library's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from penstock.program.evaluator.protocol import Values

Coefficients = list[float]

NEARLY = 2.0**-44
"""The library takes numbers as equal that differ by no more."""


def degree_of(coefficients: Sequence[float]) -> int:
    """Index of the last coefficient that is not exactly zero."""
    return max((i for i, c in enumerate(coefficients) if c != 0), default=0)


def divided(f: Coefficients, g: Coefficients, *, in_chebyshev: bool) -> tuple[Coefficients, Coefficients]:
    """Quotient and remainder of f / g; in Chebyshev series c_0 counts half, before and after.

    >>> divided([0.0, 0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0], in_chebyshev=True)
    ([0.0, 0.0, 2.0], [-2.0])
    >>> divided([1.0, 2.0, 1.0], [1.0, 1.0], in_chebyshev=False)
    ([1.0, 1.0], [0.0])
    """
    if len(f) < len(g):
        return [0.0], list(f)
    quotient, remainder = _divided(tuple(f), tuple(g), in_chebyshev)
    return list(quotient), list(remainder)


@lru_cache(maxsize=4096)  # a program divides the same series again and again
def _divided(
    f: tuple[float, ...], g: tuple[float, ...], in_chebyshev: bool
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    q, r = (_chebyshev if in_chebyshev else _powers)(np.array(f, dtype=np.float64), np.array(g, dtype=np.float64))
    return tuple(q.tolist()), tuple(r.tolist())


def _powers(r: Values, g: Values) -> tuple[Values, Values]:
    n, k = len(r) - 1, len(g) - 1
    q = np.zeros(n - k + 1)
    while n >= k:
        q[n - k] = r[-1] if _is_one(g[-1]) else r[-1] / g[-1]
        r = r - np.concatenate([np.zeros(n - k), g]) * q[n - k]
        if len(r) == 1:
            break
        r = _trimmed(r)
        n = len(r) - 1
    return q, r


def _chebyshev(r: Values, g: Values) -> tuple[Values, Values]:
    n, k = len(r) - 1, len(g) - 1
    q = np.zeros(n - k + 1)
    while n > k:
        q[n - k] = 2.0 * r[-1]
        if not _is_one(g[-1]):
            q[n - k] /= g[-1]
        r = _trimmed(r - _scaled(_doubled_product(g, n), r[-1], g[-1]))
        n = len(r) - 1
    if n == k:
        q[0] = r[-1] if _is_one(g[-1]) else r[-1] / g[-1]
        r = _trimmed(r - _scaled(g, r[-1], g[-1]))
    q[0] *= 2.0
    return q, r


def _doubled_product(g: Values, n: int) -> Values:
    """2 T_{n-k} g for g of degree k < n: 2 T_i T_j is T_{i+j} + T_{|i-j|}."""
    k = len(g) - 1
    shift, d = n - k, np.zeros(n + 1)
    d[shift:] = g
    if k < shift:
        d[shift - k : shift] = g[:0:-1]
        return d
    d[:shift] = g[shift:0:-1]
    d[0] = 2.0 * g[shift]
    both = k - shift
    d[1 : both + 1] = g[np.abs(shift - np.arange(1, both + 1))] + g[shift + 1 :]
    return d


def _scaled(d: Values, factor: float, divisor: float) -> Values:
    if not _is_one(factor):
        d = d * factor
    return d if _is_one(divisor) else d / divisor


def _trimmed(r: Values) -> Values:
    """Without the zeros at its end."""
    return r[: np.max(np.flatnonzero(r), initial=0) + 1]


def _is_one(value: float) -> bool:
    return abs(value - 1.0) <= NEARLY
