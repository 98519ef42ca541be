"""What each kind of operation takes beside what its kernel work says: a factor for each kind and number of threads.

The kernel algebra knows neither what else a call does (copies, checks, the order in which it walks its data) nor how
that sits in caches. What is left of the warm timings of a kind is therefore a factor that drifts slowly with the size
of the operands:

    log factor = level + ring_slope * log2(N / middle) + limbs_slope * log2(limbs / middle)

A level is the median residual times n / (n + `LEVEL_PRIOR`); the slopes are those of a ridge regression. Few timings
move a factor little, and sizes outside of those that were timed, of whatever kind, move it no further. Between numbers
of threads that were timed it is interpolated in their logarithm.

The form and both priors were chosen by cross-validation inside training folds: of CryptOracle's primitives, and of
primitives measured on two cores of a server.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from penstock.fit.regression import Floats
from penstock.operations import TRAITS, OpKind

if TYPE_CHECKING:
    from penstock.fit.measurements import Measurement
    from penstock.machines.schema import Figure

LEVEL_PRIOR = 4.0
"""Timings of a kind that half of its level takes."""
SLOPE_PRIOR = 16.0
"""Timings, each one doubling from the middle, that half of a slope takes."""
CLIPPED = 2.0
"""Standard deviations beyond which a residual counts no more in a slope."""
_NORMAL_MEDIAN = 0.6745

FACTORS = "calibrated"
"""Path of the factors in a machine's file."""

KEY_SWITCHING, ELEMENT_WISE = "key-switching", "element-wise"


def operation_class(kind: str) -> str:
    """`key-switching` for what decomposes digits or reads an evaluation key, else `element-wise`."""
    known = OpKind(kind)
    return KEY_SWITCHING if TRAITS[known].key is not None or known is OpKind.DECOMPOSE else ELEMENT_WISE


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What operations were timed, or are to be priced; `COMPOSITE` is no kind of its own."""

    kinds: npt.NDArray[np.object_]
    """(n,) values of `OpKind`."""
    threads: npt.NDArray[np.int64]
    """(n,)"""
    ring_dims: Floats
    """(n,)"""
    limbs: Floats
    """(n,) of the operands; 1 for composites."""

    @classmethod
    def of(cls, timed: Sequence[Measurement]) -> Labels:
        """Of measured primitives."""
        shapes = [m.shape for m in timed]
        return cls(
            kinds=np.asarray([s.kind if s is not None else OpKind.COMPOSITE.value for s in shapes], dtype=object),
            threads=np.asarray([m.threads for m in timed], dtype=np.int64),
            ring_dims=np.asarray([m.params.ring_dim for m in timed], dtype=np.float64),
            limbs=np.asarray([max(s.limbs_in, 1) if s is not None else 1 for s in shapes], dtype=np.float64),
        )

    def take(self, chosen: npt.NDArray[np.bool_]) -> Labels:
        """Some of them."""
        return Labels(
            kinds=self.kinds[chosen],
            threads=self.threads[chosen],
            ring_dims=self.ring_dims[chosen],
            limbs=self.limbs[chosen],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """Of one kind on one number of threads."""

    figure: Figure
    """The factor at the middle."""
    ring_slope: float
    """Of its logarithm, a doubling of the ring dimension."""
    limbs_slope: float
    """Of its logarithm, a doubling of the limbs."""
    timings: int

    def logs(self) -> tuple[float, float, float]:
        """(level, ring_slope, limbs_slope)"""
        return math.log(self.figure.value), self.ring_slope, self.limbs_slope


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The factors, and the sizes that they are known for."""

    factors: Mapping[str, Mapping[int, Factor]]
    """Kind -> threads -> factor."""
    middles: Mapping[str, tuple[float, float]]
    """Kind -> (ring dimension, limbs) of its middle."""
    ring_dim: tuple[float, float]
    """Smallest and largest that were timed."""
    limbs: tuple[float, float]
    _lines: dict[tuple[str, float, int], tuple[float, float]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def factor(self, kind: str, ring_dim: float, limbs: float, threads: int) -> float:
        """What the price of an operation is multiplied by; 1 for a kind that was not timed."""
        start, slope = self.line(kind, ring_dim, threads)
        return math.exp(start + slope * math.log2(min(max(limbs, self.limbs[0]), self.limbs[1])))

    def line(self, kind: str, ring_dim: float, threads: int) -> tuple[float, float]:
        """(start, slope): the factor's logarithm is start + slope * log2(limbs), of limbs within `self.limbs`."""
        counts = self.factors.get(kind)
        if not counts:
            return 0.0, 0.0
        threads = min(max(threads, min(counts)), max(counts))
        known = self._lines.get((kind, ring_dim, threads))
        if known is None:
            known = self._lines[kind, ring_dim, threads] = self._line(kind, ring_dim, threads)
        return known

    def _line(self, kind: str, ring_dim: float, threads: int) -> tuple[float, float]:
        level, ring_slope, limbs_slope = _between(self.factors[kind], threads)
        middle_ring, middle_limbs = self.middles[kind]
        ring = math.log2(min(max(ring_dim, self.ring_dim[0]), self.ring_dim[1]) / middle_ring)
        return level + ring_slope * ring - limbs_slope * math.log2(middle_limbs), limbs_slope

    def of(self, labels: Labels) -> Floats:
        """(n,) factors."""
        columns = (labels.kinds, labels.ring_dims.tolist(), labels.limbs.tolist(), labels.threads.tolist())
        known: dict[tuple[str, float, float, int], float] = {}
        found = []
        for each in zip(*columns, strict=True):
            if each not in known:
                known[each] = self.factor(*each)
            found.append(known[each])
        return np.asarray(found, dtype=np.float64)

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Every factor with its path in the machine's file."""
        for kind, by_threads in self.factors.items():
            for threads, factor in by_threads.items():
                yield f"{FACTORS}.{kind}.{threads}", factor.figure


def _between(known: Mapping[int, Factor], threads: int) -> tuple[float, float, float]:
    counts = sorted(known)
    at = [math.log2(count) for count in counts]
    rows = [known[count].logs() for count in counts]
    level, ring, limbs = (float(np.interp(math.log2(threads), at, column)) for column in zip(*rows, strict=True))
    return level, ring, limbs


def fit_calibration(residuals: Floats, labels: Labels, source: str) -> Calibration | None:
    """The factors that are left after a fit; `None` where only composites were timed.

    Args:   residuals: (n,) logarithms of measured over fitted time.
    """
    from penstock.machines.schema import Evidence, Figure

    single = labels.kinds != OpKind.COMPOSITE.value
    if not single.any():
        return None
    factors: dict[str, dict[int, Factor]] = {}
    middles: dict[str, tuple[float, float]] = {}
    log_ring, log_limbs = np.log2(labels.ring_dims), np.log2(labels.limbs)
    for kind in sorted(set(labels.kinds[single])):
        of_kind = labels.kinds == kind
        middle = _rounded(2 ** float(log_ring[of_kind].mean())), _rounded(2 ** float(log_limbs[of_kind].mean()))
        middles[kind], factors[kind] = middle, {}
        for threads in sorted(set(labels.threads[of_kind].tolist())):
            rows = of_kind & (labels.threads == threads)
            away = np.stack([log_ring[rows] - math.log2(middle[0]), log_limbs[rows] - math.log2(middle[1])], axis=1)
            level, ring_slope, limbs_slope = _shrunk(residuals[rows], away)
            value = _rounded(math.exp(level))
            factors[kind][threads] = Factor(
                figure=Figure(value=value, text=f"{value} x", source=source, kind=Evidence.CALIBRATED),
                ring_slope=_rounded(ring_slope),
                limbs_slope=_rounded(limbs_slope),
                timings=int(rows.sum()),
            )
    rings, limbs = labels.ring_dims[single], labels.limbs[single]
    return Calibration(
        factors=factors,
        middles=middles,
        ring_dim=(float(rings.min()), float(rings.max())),
        limbs=(float(limbs.min()), float(limbs.max())),
    )


def _shrunk(residuals: Floats, away: Floats) -> tuple[float, float, float]:
    """Level and slopes of one group. away: (n, 2) doublings from the middle."""
    median, n = float(np.median(residuals)), len(residuals)
    rest = residuals - median
    spread = CLIPPED * float(np.median(np.abs(rest))) / _NORMAL_MEDIAN
    slopes = np.linalg.solve(away.T @ away + SLOPE_PRIOR * np.eye(2), away.T @ np.clip(rest, -spread, spread))
    return median * n / (n + LEVEL_PRIOR), float(slopes[0]), float(slopes[1])


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")
