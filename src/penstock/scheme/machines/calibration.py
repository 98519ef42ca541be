"""The time of each kind of operation beyond its kernel work: a factor for each kind and number of threads.

The kernel algebra knows neither what else a call does (copies, checks, the order in which it walks its data) nor how
that sits in caches. `penstock.lab.fit.calibration` fits the factors:

    log factor = level + ring_slope * log2(N / middle) + limbs_slope * x + limbs_curve * x^2,  x = log2(limbs / middle)

Sizes beyond the timed ones, of any kind, move a factor no further. Between numbers of threads that were timed it is
interpolated in their logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.scheme.machines.figure import Figure, Stated
from penstock.scheme.operations import TRAITS, OpKind

FACTORS = "calibrated"
"""Path of the factors in a machine's file."""

KEY_SWITCHING, ELEMENT_WISE = "key-switching", "element-wise"


def operation_class(kind: str) -> str:
    """`key-switching` for what decomposes digits or reads an evaluation key, else `element-wise`."""
    known = OpKind(kind)
    return KEY_SWITCHING if TRAITS[known].key is not None or known is OpKind.DECOMPOSE else ELEMENT_WISE


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """Of one kind on one number of threads."""

    figure: Figure
    """The factor at the middle."""
    ring_slope: float
    """Of its logarithm, a doubling of the ring dimension."""
    limbs_slope: float
    """Of its logarithm, a doubling of the limbs, at the middle."""
    limbs_curve: float = 0.0
    """Of its logarithm, the square of the doublings of the limbs."""
    timings: int

    def logs(self) -> tuple[float, float, float, float]:
        """(level, ring_slope, limbs_slope, limbs_curve)"""
        return math.log(self.figure.value), self.ring_slope, self.limbs_slope, self.limbs_curve


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration(Stated):
    """The factors, and the sizes that they are known for."""

    factors: Mapping[str, Mapping[int, Factor]]
    """Kind -> threads -> factor."""
    middles: Mapping[str, tuple[float, float]]
    """Kind -> (ring dimension, limbs) of its middle."""
    ring_dim: tuple[float, float]
    """Smallest and largest that were timed."""
    limbs: tuple[float, float]
    _lines: dict[tuple[str, float, int], tuple[float, float, float]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def factor(self, kind: str, ring_dim: float, limbs: float, threads: int) -> float:
        """The factor on the price of an operation; 1 for a kind that was not timed."""
        start, slope, curve = self.line(kind, ring_dim, threads)
        x = math.log2(min(max(limbs, self.limbs[0]), self.limbs[1]))
        return math.exp(start + slope * x + curve * x * x)

    def line(self, kind: str, ring_dim: float, threads: int) -> tuple[float, float, float]:
        """(start, slope, curve): the factor's logarithm is start + slope * x + curve * x^2, x = log2(limbs), of limbs
        within `self.limbs`."""
        counts = self.factors.get(kind)
        if not counts:
            return 0.0, 0.0, 0.0
        threads = min(max(threads, min(counts)), max(counts))
        known = self._lines.get((kind, ring_dim, threads))
        if known is None:
            known = self._lines[kind, ring_dim, threads] = self._line(kind, ring_dim, threads)
        return known

    def _line(self, kind: str, ring_dim: float, threads: int) -> tuple[float, float, float]:
        level, ring_slope, slope, curve = _between(self.factors[kind], threads)
        middle_ring, middle_limbs = self.middles[kind]
        ring = math.log2(min(max(ring_dim, self.ring_dim[0]), self.ring_dim[1]) / middle_ring)
        middle = math.log2(middle_limbs)
        start = level + ring_slope * ring - slope * middle + curve * middle * middle
        return start, slope - 2 * curve * middle, curve


def _between(known: Mapping[int, Factor], threads: int) -> tuple[float, float, float, float]:
    if threads in known:
        return known[threads].logs()
    counts = sorted(known)
    at = [math.log2(count) for count in counts]
    rows = [known[count].logs() for count in counts]
    level, ring, limbs, curve = (float(np.interp(math.log2(threads), at, column)) for column in zip(*rows, strict=True))
    return level, ring, limbs, curve
