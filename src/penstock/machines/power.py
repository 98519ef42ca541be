"""Power of a CPU while it computes, by threads, from measured energies; what it takes when idle stands apart.

Packages get more watts from more threads, but less for each: clocks fall and threads wait. Between the numbers of
threads that were measured the power is interpolated in their logarithm; beyond them it stays.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from penstock.machines.schema import Figure

NORMAL_QUARTILES = 1.349
"""Interquartile range of a normal distribution, in standard deviations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerModel:
    """Watts of the package while operations run."""

    watts: Mapping[int, Figure]
    """Threads -> watts, idle power included."""
    log_sd: float = 0.0
    """Standard deviation of the logarithm of the power of one operation and configuration around these."""

    def at(self, threads: int) -> float:
        """Watts with so many threads inside one operation."""
        measured = sorted(self.watts)
        places = np.log2(measured)
        return float(np.interp(math.log2(threads), places, [self.watts[n].value for n in measured]))

    def nearest(self, threads: int) -> Figure:
        """What was measured at the nearest number of threads."""
        return self.watts[min(self.watts, key=lambda n: (abs(math.log2(n / threads)), n))]


class _Timed(Protocol):
    @property
    def threads(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def joules(self) -> float | None: ...


def fit_power(measurements: Iterable[_Timed], fitted_to: str) -> PowerModel | None:
    """The median power at each number of threads; `None` where no energy was measured.

    Energy counters are coarse, and a few short operations give absurd powers: medians and quartiles do not see them.
    """
    from penstock.machines.schema import Evidence, Figure

    powers: dict[int, list[float]] = defaultdict(list)
    for m in measurements:
        if m.joules:
            powers[m.threads].append(m.joules / m.seconds)
    if not powers:
        return None
    watts = {}
    deviations: list[float] = []
    for threads, found in sorted(powers.items()):
        median = float(np.median(found))
        watts[threads] = Figure(
            value=median, text=f"{median:.4g} W", kind=Evidence.MEASURED,
            source=f"median of {len(found)} energies over times, {threads} threads, package counters; {fitted_to}",
        )  # fmt: skip
        deviations += [math.log(each / median) for each in found]
    low, high = np.quantile(deviations, [0.25, 0.75])
    return PowerModel(watts=watts, log_sd=float(high - low) / NORMAL_QUARTILES)
