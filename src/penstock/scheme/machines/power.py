"""Power of a CPU while it computes, by threads, from measured energies; its idle power is a separate value.

Packages get more watts from more threads, but less for each: clocks fall and threads wait. Between the numbers of
threads that were measured the power is interpolated in their logarithm; beyond them it stays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from penstock.scheme.machines.figure import Figure


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
        """The measurement at the nearest number of threads."""
        return self.watts[min(self.watts, key=lambda n: (abs(math.log2(n / threads)), n))]
