"""Fit the power of a CPU while it computes, by threads, to measured energies."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from penstock.fit.measurements import Measurement
from penstock.machines.figure import Evidence, Figure
from penstock.machines.power import PowerModel

NORMAL_QUARTILES = 1.349
"""Interquartile range of a normal distribution, in standard deviations."""


def fit_power(measurements: Iterable[Measurement], fitted_to: str) -> PowerModel | None:
    """The median power at each number of threads; `None` where no energy was measured.

    Energy counters are coarse, and a few short operations give absurd powers: medians and quartiles do not see them.
    """
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
            value=median,
            text=f"{median:.4g} W",
            kind=Evidence.MEASURED,
            source=f"median of {len(found)} energies over times, {threads} threads, package counters; {fitted_to}",
        )
        deviations += [math.log(each / median) for each in found]
    low, high = np.quantile(deviations, [0.25, 0.75])
    return PowerModel(watts=watts, log_sd=float(high - low) / NORMAL_QUARTILES)
