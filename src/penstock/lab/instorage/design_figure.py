"""A design space around FHEIns, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.base.system.drawing import Axis, Panel, Picture, Rule, Series, write_figure
from penstock.base.system.palette import BLUE, GREEN, ORANGE, RED
from penstock.lab.instorage.design_space import Own
from penstock.lab.instorage.front import Mask
from penstock.lab.instorage.space import DesignSpace


def draw_space(
    space: DesignSpace, chosen: Mask, front: npt.NDArray[np.int64], own: Sequence[Own], watts: float, path: Path
) -> Path:
    """Write one SVG of a design space: a dot for each design, grey where it breaks a budget.

    Args:   chosen: points within the budgets; front: the Pareto front; watts: the budget of power.
    Raises: FileError: the disk.
    """
    drives = space.columns["drive"]

    def dots(points: Mask | npt.NDArray[np.int64], name: str, colour: str, mark: str, size: float) -> Series:
        x, y = (space.columns[column][points].tolist() for column in ("watts", "query_s"))
        return Series(x, y, name, colour, mark, size=size)

    names = list(dict.fromkeys(drives.tolist()))
    masks = [(~chosen, "over a budget", "line")]
    masks += [(chosen & (drives == name), str(name), (BLUE, ORANGE, GREEN)[i % 3]) for i, name in enumerate(names)]
    series = [dots(mask, name, colour, "circle", 3) for mask, name, colour in masks if mask.any()]
    series.append(replace(dots(front, "Pareto front", "fg", "circle", 5), dash="solid"))
    if own:
        numbers = np.array([design.number for design in own])
        series.append(dots(numbers, "FHEIns as published", RED, "star", 14))
    together = "one query" if space.batch == 1 else f"{space.batch} queries together"
    x = Axis("power of the accelerators' logic", "W", True)
    y = Axis("time of a query (simulated)", "s", True)
    rules = [Rule("x", watts, f"budget, {watts:g} W", "dot")]
    panel = Panel(series, x, y, f"{len(space):,} designs: {space.query.workload}, {together}", rules=rules)
    return write_figure(Picture([panel], width=760, height=520), path)
