"""Other values of the same kind: the second run of a script encrypts them, so that choices come out differently."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

_DRAWS = 48
"""Vectors that are drawn; the one that is furthest from the script's own is taken."""
Reals = npt.NDArray[np.float64]


def other_values(values: npt.NDArray[np.generic], seed: int) -> npt.NDArray[np.generic]:
    """Other values of the same length, in the same range.

    Integers stay integers, and a vector that repeats a few values keeps to them. Among several draws the one whose
    order, extremes, mean and sides of thresholds differ most is taken. Zeros alone stay zeros.

    >>> other_values(np.array([1.0, 5.0, 3.0]), seed=0)
    array([2., 1., 2.])
    """
    rng = np.random.default_rng([seed, 1723])
    if values.dtype.kind == "c":
        real, imag = (_other(part.astype(np.float64), rng) for part in (np.real(values), np.imag(values)))
        return real + 1j * imag
    return _other(values.astype(np.float64), rng)


def _other(values: Reals, rng: np.random.Generator) -> Reals:
    if not values.any() or not np.isfinite(values).all():
        return values
    draw = _drawer(values, rng)
    return max((draw() for _ in range(_DRAWS)), key=lambda drawn: _distance(values, drawn))


def _drawer(values: Reals, rng: np.random.Generator) -> Callable[[], Reals]:
    """Draws from the range of the values, or from the few values that there are."""
    levels, size = np.unique(values), len(values)
    low, high = float(levels[0]), float(levels[-1])
    if set(levels) <= {-1.0, 0.0, 1.0}:
        few = levels if len(levels) > 1 else np.array([0.0, low])
        return lambda: rng.choice(few, size)
    if 1 < len(levels) <= max(2, size // 8) < size:
        return lambda: rng.choice(levels, size)
    if low == high:
        low, high = sorted((low / 2, high))
    if np.all(levels == np.round(levels)) and np.abs(levels).max() < 2**53:
        return lambda: rng.integers(int(np.ceil(low)), int(high), size, endpoint=True).astype(np.float64)
    return lambda: rng.uniform(low, high, size)


def _distance(values: Reals, other: Reals) -> float:
    """The amount by which choices differ that a program might make of the two."""
    low, high = values.min(), values.max()
    spread = (high - low) or abs(high)
    thresholds = low + spread * np.linspace(0.1, 0.9, 9)
    sides = np.mean((values[:, None] > thresholds) != (other[:, None] > thresholds)) if len(values) <= 4096 else 0.0
    order = np.mean(np.argsort(values, kind="stable") != np.argsort(other, kind="stable"))
    extremes = np.mean([extreme(values) != extreme(other) for extreme in (np.argmax, np.argmin)])
    moved = abs(values.mean() - other.mean()) + abs(low - other.min()) + abs(high - other.max())
    return float(sides + order + extremes + moved / spread + np.mean(values != other))
