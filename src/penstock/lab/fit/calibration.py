"""Fit the time of each kind of operation beyond its kernel work: a factor for each kind and number of threads.

The kernel algebra knows neither what else a call does (copies, checks, the order in which it walks its data) nor how
that sits in caches. The residual of the warm timings of a kind is a factor that drifts slowly with the size of the
operands:

    log factor = level + ring_slope * log2(N / middle) + limbs_slope * x + limbs_curve * x^2,  x = log2(limbs / middle)

A level is the median residual times n / (n + `LEVEL_PRIOR`); the slopes come from a ridge regression. What they leave
is a parabola over the limbs, one for all numbers of threads, by a second ridge regression. Few timings move a factor
little. Sizes beyond the timed ones, of any kind, move it no further. Between numbers of threads that were
timed it is interpolated in their logarithm.

The form and both priors were chosen by cross-validation inside training folds: of CryptOracle's primitives, and of
primitives measured on two cores of a server.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Floats, Ints
from penstock.lab.fit.measurements import Measurement
from penstock.lab.fit.regression import NORMAL_MEDIAN
from penstock.scheme.machines.calibration import Calibration, Factor
from penstock.scheme.machines.figure import Evidence, Figure
from penstock.scheme.operations import OpKind

LEVEL_PRIOR = 4.0
"""Timings of a kind that half of its level takes."""
SLOPE_PRIOR = 16.0
"""Timings, each one doubling from the middle, that half of a slope takes."""
CURVE_PRIOR = 16.0
"""The same for the parabola of a kind. Of 4, 16, 64 and none the best for unseen depths of all of
CryptOracle's primitives."""
CLIPPED = 2.0
"""Standard deviations beyond which a residual counts no more in a slope."""
FEWEST_LIMBS = 4
"""Different numbers of limbs that a parabola needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """The kinds of timed or priced operations; `COMPOSITE` is not a kind."""

    kinds: npt.NDArray[np.object_]
    """(n,) values of `OpKind`."""
    threads: Ints
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
        return Labels(**{field.name: getattr(self, field.name)[chosen] for field in fields(self)})


def factors_of(calibration: Calibration, labels: Labels) -> Floats:
    """(n,) factors."""
    columns = (labels.kinds, labels.ring_dims.tolist(), labels.limbs.tolist(), labels.threads.tolist())
    factor = cache(calibration.factor)
    return np.asarray([factor(*operation) for operation in zip(*columns, strict=True)], dtype=np.float64)


def fit_calibration(residuals: Floats, labels: Labels, source: str) -> Calibration | None:
    """The factors that are left after a fit; `None` where only composites were timed.

    Args:   residuals: (n,) logarithms of measured over fitted time.
    """
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
        away = np.stack([log_ring - math.log2(middle[0]), log_limbs - math.log2(middle[1])], axis=1)
        rest, lines = residuals.copy(), {}
        for threads in sorted(set(labels.threads[of_kind].tolist())):
            rows = of_kind & (labels.threads == threads)
            level, ring_slope, limbs_slope = lines[threads] = _shrunk(residuals[rows], away[rows])
            rest[rows] -= level + away[rows] @ (ring_slope, limbs_slope)
        start, slope, curve = _parabola(rest[of_kind], away[of_kind, 1])
        for threads, (level, ring_slope, limbs_slope) in lines.items():
            value = _rounded(math.exp(level + start))
            factors[kind][threads] = Factor(
                figure=Figure(value=value, text=f"{value} x", source=source, kind=Evidence.CALIBRATED),
                ring_slope=_rounded(ring_slope),
                limbs_slope=_rounded(limbs_slope + slope),
                limbs_curve=_rounded(curve),
                timings=int((of_kind & (labels.threads == threads)).sum()),
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
    spread = CLIPPED * float(np.median(np.abs(rest))) / NORMAL_MEDIAN
    slopes = np.linalg.solve(away.T @ away + SLOPE_PRIOR * np.eye(2), away.T @ np.clip(rest, -spread, spread))
    return median * n / (n + LEVEL_PRIOR), float(slopes[0]), float(slopes[1])


def _parabola(rest: Floats, away: Floats) -> tuple[float, float, float]:
    """Start, slope and curve over the limbs of what the lines leave. away: (n,) doublings from the middle."""
    if len(set(away.tolist())) < FEWEST_LIMBS:
        return 0.0, 0.0, 0.0
    spread = CLIPPED * float(np.median(np.abs(rest - np.median(rest)))) / NORMAL_MEDIAN
    columns = np.stack([np.ones(len(away)), away, away**2], axis=1)
    system = columns.T @ columns + CURVE_PRIOR * np.eye(3)
    start, slope, curve = np.linalg.solve(system, columns.T @ np.clip(rest, -spread, spread)).tolist()
    return start, slope, curve


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")
