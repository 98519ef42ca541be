"""What to take of a design space: the points within budgets, and the Pareto front among them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Ints
from penstock.errors import UsageError
from penstock.lab.instorage.space import DesignSpace

Mask = npt.NDArray[np.bool_]
OBJECTIVES = ("query_s", "watts")
"""The smaller, the better."""
TIES = ("area_mm2", "dram_bytes_per_s", "dram_capacity_bytes", "pcie_bytes_per_s")
"""Of points that are as fast and take as much power the one that needs least of these is on the front."""
DIGITS = 4
"""Of a value that a message proposes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most of one column that a design may take."""

    option: str
    """As the user gave it, for messages."""
    column: str
    most: float
    text: Callable[[float], str]
    """Writes a value with its unit, as the option takes it."""


def within(space: DesignSpace, budgets: Sequence[Budget]) -> Mask:
    """Return which points meet all budgets.

    Raises: UsageError: none does. The message has the nearest value of each budget that works with the others.
    """
    met = [space.columns[budget.column] <= budget.most for budget in budgets]
    chosen = np.logical_and.reduce(met) if met else np.ones(len(space), dtype=bool)
    if not chosen.any():
        raise UsageError(_nearest(space, budgets, met))
    mask: Mask = chosen
    return mask


def _nearest(space: DesignSpace, budgets: Sequence[Budget], met: Sequence[Mask]) -> str:
    asked = ", ".join(f"{budget.option} {budget.text(budget.most)}" for budget in budgets)
    ways = []
    for i, budget in enumerate(budgets):
        others = [mask for j, mask in enumerate(met) if j != i]
        left = np.logical_and.reduce(others) if others else np.ones(len(space), dtype=bool)
        if left.any():
            least = float(space.columns[budget.column][left].min())
            ways.append(f"{budget.option} '{budget.text(rounded_up(least))}'")
    if ways:
        return f"none of {len(space):,} designs meets {asked}; the nearest value that works: {' or '.join(ways)}"
    # Not one budget alone can be moved: the design that is least of the first one says what all of them need.
    i = int(np.argmin(space.columns[budgets[0].column]))
    both = ", ".join(
        f"{budget.option} '{budget.text(rounded_up(max(budget.most, float(space.columns[budget.column][i]))))}'"
        for budget in budgets
    )
    return f"none of {len(space):,} designs meets {asked}, with any one of them moved; together these work: {both}"


def rounded_up(value: float) -> float:
    """The next value of four digits that is not smaller.

    >>> rounded_up(4.00012), rounded_up(55.0), rounded_up(51_234_567_890.0)
    (4.001, 55.0, 51240000000.0)
    """
    if value <= 0:
        return 0.0
    places = DIGITS - 1 - math.floor(math.log10(value))
    unit = 10.0**-places
    up = round(math.ceil(value / unit - 1e-9) * unit, max(0, places))
    return up if up >= value else round(up + unit, max(0, places))


def pareto(space: DesignSpace, chosen: Mask | None = None) -> Ints:
    """Return the points that no other one beats in both objectives, the fastest first.

    Args:   chosen: the points that compete.
    """
    first, second = OBJECTIVES
    numbers = np.arange(len(space)) if chosen is None else np.flatnonzero(chosen)
    columns = [space.columns[name][numbers] for name in (first, second, *TIES)]
    ranked = numbers[np.lexsort(columns[::-1])]
    values = space.columns[second][ranked]
    # A point is on the front where it takes less than every faster one.
    before = np.concatenate([[np.inf], np.minimum.accumulate(values)[:-1]])
    return ranked[values < before]
