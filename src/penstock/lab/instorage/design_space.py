"""The design space around FHEIns: default values of each axis, and its own two designs among the points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.base.units import BYTE_UNITS, RATE_UNITS
from penstock.lab.instorage.drive import DriveRates
from penstock.lab.instorage.front import Mask
from penstock.lab.instorage.machine import UnitAccelerator
from penstock.lab.instorage.space import Axes, DesignSpace

GROUPS = (1, 2, 4, 8, 16)
"""Channels of one accelerator."""
LANES = (16, 32, 64, 128, 256, 512)
SCRATCHPADS_MB = (3.5, 7, 14, 21, 28, 42, 56, 84)
DRAM_GB_S = (25.6, 51.2, 102.4, 204.8)
DRAM_GB = (4, 8)
LINKS = (1, 2, 4)
"""Times PCIe 4.0 x4: generations 4, 5 and 6."""
KEPT = (
    "drive", "accelerators", "channels_per_accelerator", "lanes", "scratchpad_bytes", "dram_bytes_per_s",
    "dram_capacity_bytes", "pcie_bytes_per_s",
)  # fmt: skip


def default_axes(drives: Sequence[DriveRates]) -> Axes:
    """Around FHEIns: 5,760 designs of each drive."""
    pcie = max(drive.pcie_bytes_per_s for drive in drives)
    return Axes(
        drives=tuple(drives),
        channels_per_accelerator=GROUPS,
        lanes=LANES,
        scratchpad_bytes=tuple(int(size * BYTE_UNITS["MB"]) for size in SCRATCHPADS_MB),
        dram_bytes_per_s=tuple(rate * RATE_UNITS["GB/s"] for rate in DRAM_GB_S),
        dram_capacity_bytes=tuple(int(size * BYTE_UNITS["GB"]) for size in DRAM_GB),
        pcie_bytes_per_s=tuple(times * pcie for times in LINKS),
    )


def with_axes(axes: Axes, **given: tuple[Any, ...]) -> Axes:
    """The same axes with other values where some are given."""
    return replace(axes, **{name: values for name, values in given.items() if values})


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """The published design on one drive, and the fastest one that takes no more power and memory."""

    drive: str
    number: int
    """Its point."""
    is_within: bool
    """Whether it meets the budgets."""
    better: int | None
    """The fastest point within the budgets with no more power than it has, where that is faster."""


def own_designs(
    space: DesignSpace, drives: Sequence[DriveRates], accelerator: UnitAccelerator, chosen: Mask
) -> list[Own]:
    """The accelerator as published in each drive, where the space has that point."""
    columns, designs = space.columns, []
    for drive in drives:
        at = (
            (columns["drive"] == drive.name)
            & (columns["channels_per_accelerator"] == accelerator.channels_per_accelerator)
            & (columns["lanes"] == accelerator.ntt.lanes)
            & (columns["scratchpad_bytes"] == int(accelerator.scratchpad.value))
            & (columns["dram_bytes_per_s"] == drive.dram_bytes_per_s)
            & (columns["dram_capacity_bytes"] == drive.dram_capacity_bytes)
            & np.isclose(columns["pcie_bytes_per_s"], drive.pcie_bytes_per_s, rtol=1e-9)
        )
        for number in np.flatnonzero(at)[:1]:
            designs.append(_own(space, drive, int(number), chosen))
    return designs


def _own(space: DesignSpace, drive: DriveRates, number: int, chosen: Mask) -> Own:
    columns = space.columns
    fair = chosen & (columns["drive"] == drive.name) & (columns["watts"] <= columns["watts"][number])
    for name in ("dram_bytes_per_s", "dram_capacity_bytes", "pcie_bytes_per_s"):
        fair &= columns[name] <= columns[name][number]
    others = np.flatnonzero(fair)
    better = None
    if len(others):
        best = int(others[np.argmin(columns["query_s"][others])])
        better = best if columns["query_s"][best] < columns["query_s"][number] else None
    return Own(drive=drive.name, number=number, is_within=bool(chosen[number]), better=better)
