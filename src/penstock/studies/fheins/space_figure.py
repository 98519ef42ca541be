"""The picture of a design space: time of a query against power, with the front, the budget and FHEIns' own designs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.simulation.instorage.front import Mask
from penstock.simulation.instorage.space import Space
from penstock.studies.fheins.space import Own
from penstock.system.figures import drawing, readable, write_svg
from penstock.system.palette import BLACK, BLUE, GREEN, LINE, ORANGE, RED

COLOURS = (BLUE, ORANGE, GREEN)


def draw_space(
    space: Space, chosen: Mask, front: npt.NDArray[np.int64], own: Sequence[Own], watts: float, path: Path
) -> Path:
    """Write one SVG: a dot for each design, grey where it breaks a budget.

    Args:   chosen: points within the budgets; front: the Pareto front; watts: the budget of power.
    Raises: CapabilityMissing: matplotlib is not installed. FileError: the disk.
    """
    pyplot = drawing()
    drawn, panel = pyplot.subplots(figsize=(8, 5.5), layout="constrained")
    power, seconds = space.columns["watts"], space.columns["query_s"]

    def dots(mask: Mask, colour: str, label: str) -> None:
        if mask.any():
            # A picture inside the picture: ten thousand dots as shapes are megabytes.
            panel.scatter(power[mask], seconds[mask], s=5, color=colour, alpha=0.5, linewidths=0, rasterized=True)
            panel.plot([], [], "o", color=colour, markersize=4, label=label)

    dots(~chosen, LINE, "over a budget")
    names = list(dict.fromkeys(space.columns["drive"].tolist()))
    for i, name in enumerate(names):
        dots(chosen & (space.columns["drive"] == name), COLOURS[i % len(COLOURS)], str(name))
    panel.plot(power[front], seconds[front], "-", color=BLACK, marker="o", markersize=4, label="Pareto front")
    for i, each in enumerate(own):
        panel.plot(
            power[each.number],
            seconds[each.number],
            "*",
            color=RED,
            markersize=13,
            markeredgecolor=BLACK,
            label="FHEIns as published" if not i else None,
        )
    panel.axvline(watts, color=BLACK, linewidth=0.8, linestyle=":", label=f"budget, {watts:g} W")
    panel.set_xscale("log")
    panel.set_yscale("log")
    readable(panel.xaxis, "W")
    readable(panel.yaxis, "s")
    panel.set_xlabel("power of the accelerators' logic")
    panel.set_ylabel("time of a query (simulated)")
    together = "one query" if space.batch == 1 else f"{space.batch} queries together"
    panel.set_title(f"{len(space):,} designs: {space.query.workload}, {together}")
    panel.legend(fontsize="small", loc="lower left")
    return write_svg(drawn, path)
