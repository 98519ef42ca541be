"""The expectation of a machine before anything is timed: nominal costs, and how far a machine may be off them.

The logarithm of a time is nearly linear in standard normal unknowns: one scale of all costs, the logarithm of each
cost, and effects that no cost explains. Effects belong to kinds of operations, their classes, ring dimensions,
parameter sets and numbers of threads.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Floats
from penstock.base.system import toml
from penstock.lab.fit.cpu import NOMINAL_COST, UNDIVIDED, UNITS
from penstock.lab.measure.bench.estimate import CALL_S, PARALLEL_GAIN, SECONDS_PER_MULTIPLICATION
from penstock.scheme.machines.calibration import operation_class
from penstock.scheme.machines.client import TERMS
from penstock.scheme.params.ckks import CkksParameters


class CostPrior(NamedTuple):
    """Seconds of one of something on a nominal machine."""

    name: str
    seconds: float
    sd: float
    """Standard deviation of its logarithm, besides the scale that all costs share."""


SHARED_SHARE = 2 / (1 + PARALLEL_GAIN) - 1
"""Cost of an element in another thread at the same time, relative to one thread's."""
_WRITTEN = toml.packaged("penstock.lab.prediction.experiments", "prior.toml")
_CLIENT: dict[str, dict[str, float]] = _WRITTEN["client"]
"""Seconds of one of each term of the client's tasks."""
_RECORDING: dict[str, float] = _WRITTEN["recording"]
"""The same of the record of a program's calls."""

COSTS: tuple[CostPrior, ...] = (
    *(CostPrior(unit, SECONDS_PER_MULTIPLICATION * NOMINAL_COST[unit], 0.35) for unit in UNITS),
    *(
        CostPrior(f"shared {unit}", SHARED_SHARE * SECONDS_PER_MULTIPLICATION * NOMINAL_COST[unit], 0.8)
        for unit in UNITS
        if unit not in UNDIVIDED
    ),
    CostPrior("loops", 3e-6, 1.0),
    CostPrior("overhead", CALL_S, 0.7),
    CostPrior("cold call", 28e-6, 0.6),
    CostPrior("cold byte", 1e-10, 0.8),
    *(CostPrior(f"{task} {term}", _CLIENT[task][term], 0.8) for task, terms in TERMS.items() for term in terms),
    *(CostPrior(f"recording {term}", seconds, 0.6) for term, seconds in _RECORDING.items()),
)
PLACE = {cost.name: i for i, cost in enumerate(COSTS)}
SECONDS: Floats = np.asarray([cost.seconds for cost in COSTS])
COST_SD: Floats = np.asarray([cost.sd for cost in COSTS])
SCALE_SD = 0.7
"""Of the logarithm of the scale of all costs."""

CLASS_SD, CLASS_THREADS_SD = 0.08, 0.10
KIND_SD, KIND_THREADS_SD = 0.12, 0.08
RING_SLOPE_SD, LIMBS_SLOPE_SD = 0.03, 0.05
"""Of a kind's effect, a doubling of the size."""
RING_SD, RING_THREADS_SD = 0.12, 0.12
SET_SD, SET_THREADS_SD = 0.02, 0.03
RING_REACH = 3.0
"""Doublings of the ring dimension over which the effects of two rings stop being alike (by a factor of e)."""
_MIDDLE_RING, _MIDDLE_LIMBS = 13.0, 3.0

VISIT_SD = (0.015, 0.03)
"""Common error of all points of one visit, on one thread and on several: machines drift."""
POINT_SD = (0.03, 0.055)
"""Error of one point in one visit."""
COLD_SD = (0.05, 0.08)
RECORDED_SD = 0.15
PROGRAM_SD = (0.02, 0.05)
"""Error of a program that no primitive shows."""


def of_threads(pair: tuple[float, float], threads: int) -> float:
    """The value of a pair for one thread or several."""
    return pair[0] if threads == 1 else pair[1]


class Columns:
    """The numbers of the unknowns: the scale, the costs, and effects in the order of their first use.

    Args:   rings: all ring dimensions that candidates and programs have.
    """

    def __init__(self, rings: Iterable[int]) -> None:
        self._rings = sorted(set(rings))
        logs = np.log2(np.asarray(self._rings, dtype=np.float64))
        alike = np.exp(-np.abs(logs[:, None] - logs[None, :]) / RING_REACH)
        self._of_ring = np.linalg.cholesky(alike)
        self._names: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return 1 + len(COSTS) + len(self._names)

    @property
    def num_effects(self) -> int:
        """Unknowns beyond the scale and the costs."""
        return len(self._names)

    def effects(self, kind: str, params: CkksParameters, limbs: int, threads: int) -> dict[int, float]:
        """Number of an effect -> its weight in the logarithm of the time of an operation."""
        of_class = operation_class(kind)
        weights: dict[Hashable, float] = {
            ("class", of_class): CLASS_SD,
            ("kind", kind): KIND_SD,
            ("ring slope", kind): RING_SLOPE_SD * (math.log2(params.ring_dim) - _MIDDLE_RING),
            ("limbs slope", kind): LIMBS_SLOPE_SD * (math.log2(max(limbs, 1)) - _MIDDLE_LIMBS),
            ("set", *self._set(params)): SET_SD,
            **self._ring("ring", of_class, params.ring_dim, RING_SD),
        }
        if threads > 1:
            weights |= {
                ("class", of_class, threads): CLASS_THREADS_SD,
                ("kind", kind, threads): KIND_THREADS_SD,
                ("set", *self._set(params), threads): SET_THREADS_SD,
                **self._ring("threads", threads, params.ring_dim, RING_THREADS_SD),
            }
        return {self._names.setdefault(name, len(self._names)): weight for name, weight in weights.items() if weight}

    def _ring(self, what: str, of: Hashable, ring_dim: int, sd: float) -> dict[Hashable, float]:
        row = self._of_ring[self._rings.index(ring_dim)]
        return {(what, of, k): sd * weight for k, weight in enumerate(row.tolist())}

    @staticmethod
    def _set(params: CkksParameters) -> tuple[int, int, int]:
        return params.ring_dim, params.num_q, params.dnum
