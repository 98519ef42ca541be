"""The design space of accelerators in a drive: thousands of designs, each with its time, area, power and bottleneck.

A point is a drive, the channels of one accelerator, the lanes of an engine, a scratchpad, the DRAM's rate and capacity
and the rate of PCIe. The closed form of `penstock.lab.instorage.queries` runs over whole arrays of points.
Traffic, areas and prices are computed once for each value that they depend on. `tests/twins` has the slow form.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Ints
from penstock.base.types import Row
from penstock.errors import UsageError
from penstock.lab.instorage.drive import DriveRates
from penstock.lab.instorage.machine import UnitAccelerator
from penstock.lab.instorage.machine_power import Multiplicity, footprint
from penstock.lab.instorage.machine_scaling import area_and_power, redesigned
from penstock.lab.instorage.policies import HostPolicy
from penstock.lab.instorage.queries import RESOURCES, Inside, object_seconds, on_host, rest_seconds
from penstock.lab.instorage.query import Query
from penstock.lab.instorage.traffic import traffic
from penstock.scheme.machines.schema import Machine

MOST_POINTS = 1_000_000
READINGS_OF_POWER = (Multiplicity.ENGINE, Multiplicity.ACCELERATOR)
"""Readings of a table of powers that say how the power grows with the number of accelerators."""
Column = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """Values of each axis; an empty axis has the drive's own value, or the accelerator's."""

    drives: tuple[DriveRates, ...]
    channels_per_accelerator: tuple[int, ...] = ()
    lanes: tuple[int, ...] = ()
    """Of every engine."""
    scratchpad_bytes: tuple[int, ...] = ()
    """Of each channel-level accelerator."""
    dram_bytes_per_s: tuple[float, ...] = ()
    dram_capacity_bytes: tuple[int, ...] = ()
    pcie_bytes_per_s: tuple[float, ...] = ()
    """Payload."""

    @property
    def num_points(self) -> int:
        """Of the whole grid, with points that no drive can have."""
        drives, *others = (getattr(self, axis.name) for axis in fields(self))
        return len(drives) * math.prod(max(1, len(values)) for values in others)

    def of_drive(self, drive: DriveRates, accelerator: UnitAccelerator) -> Axes:
        """The same axes with every empty one filled for this drive; equal values count once."""
        own: Row = {
            "channels_per_accelerator": accelerator.channels_per_accelerator,
            "lanes": accelerator.ntt.lanes,
            "scratchpad_bytes": int(accelerator.scratchpad.value),
            **{name: getattr(drive, name) for name in ("dram_bytes_per_s", "dram_capacity_bytes", "pcie_bytes_per_s")},
        }
        values = {name: tuple(dict.fromkeys(getattr(self, name))) or (value,) for name, value in own.items()}
        return Axes(drives=(drive,), **values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The machine behind PCIe that every design is compared with, at the design's drive, DRAM and PCIe."""

    machine: Machine
    policy: HostPolicy


COLUMNS = (
    "drive", "accelerators", "channels_per_accelerator", "lanes", "scratchpad_bytes", "dram_bytes_per_s",
    "dram_capacity_bytes", "pcie_bytes_per_s", "area_mm2", "watts", "simulated_s", "query_s", "host_query_s",
    "energy_j_per_query", "bottleneck", "area_and_power",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignSpace:
    """The points of a design space, as columns of one length."""

    query: Query
    batch: int
    columns: dict[str, Column]
    left_out: Counter[str] = field(default_factory=Counter)
    """Why points of the grid cannot be built -> their number."""

    def __len__(self) -> int:
        return len(self.columns["watts"])

    def rows(self, chosen: Sequence[int] | Ints | None = None) -> Iterator[Row]:
        """Flat rows of these points, by default of all."""
        numbers = range(len(self)) if chosen is None else chosen
        for i in numbers:
            row = {name: _plain(self.columns[name][i]) for name in COLUMNS}
            row["drive"], row["bottleneck"] = str(row["drive"]), str(row["bottleneck"])
            yield {
                "workload": self.query.workload,
                "params": self.query.params.name,
                "batch": self.batch,
                **row,
                "speedup": row["host_query_s"] / row["query_s"],
                "provenance": "simulated",
            }


def explore(
    query: Query,
    axes: Axes,
    accelerator: UnitAccelerator,
    baseline: Baseline,
    *,
    batch: int = 1,
    inside: Inside | None = None,
    progress: Callable[[int], None] | None = None,
) -> DesignSpace:
    """Compute every point of the grid for a batch of queries.

    Args:   progress: called with the number of points that are done since the last call.
    Raises: UsageError: an empty or too large grid; a database larger than a drive; no point that can be built, with
            the commonest reason.
    """
    how = inside or Inside()
    _check(query, axes, batch, how.multiplicity)
    left_out: Counter[str] = Counter()
    blocks: list[dict[str, Column]] = []
    for drive in axes.drives:
        grid = axes.of_drive(drive, accelerator)
        block_points = len(grid.lanes) * len(grid.dram_bytes_per_s) * len(grid.pcie_bytes_per_s)
        host_s = _host_seconds(query, grid, baseline, batch)
        for group, scratchpad, capacity in product(
            grid.channels_per_accelerator, grid.scratchpad_bytes, grid.dram_capacity_bytes
        ):
            try:
                design = redesigned(accelerator, channels_per_accelerator=group, scratchpad_bytes=scratchpad)
                design.on(drive.channels)
                design.check_holds(query.params)
                room = replace(drive, dram_capacity_bytes=capacity)
                blocks.append(_block(query, grid, accelerator, design, room, batch, how, host_s))
            except UsageError as error:
                left_out[str(error)] += block_points
            if progress is not None:
                progress(block_points)
    if not blocks:
        why, _ = left_out.most_common(1)[0]
        raise UsageError(f"none of {axes.num_points:,} designs can be built: {why}")
    columns = {name: np.concatenate([block[name] for block in blocks]) for name in COLUMNS}
    return DesignSpace(query=query, batch=batch, columns=columns, left_out=left_out)


def _check(query: Query, axes: Axes, batch: int, multiplicity: Multiplicity) -> None:
    if batch < 1:
        raise UsageError(f"a batch of {batch} queries: at least 1")
    if multiplicity not in READINGS_OF_POWER:
        raise UsageError(
            f"power '{multiplicity}' counts each row once for the drive, so that more accelerators would take no more: "
            f"choose {' or '.join(READINGS_OF_POWER)}"
        )
    if not axes.drives:
        raise UsageError("a design space without a drive has no points: name at least one")
    if axes.num_points > MOST_POINTS:
        raise UsageError(
            f"a design space of {axes.num_points:,} points: at most {MOST_POINTS:,}; take fewer values of an axis"
        )
    for drive in axes.drives:
        query.check_fits(drive.capacity_bytes, drive.name)


def _host_seconds(query: Query, grid: Axes, baseline: Baseline, batch: int) -> Column:
    """Seconds of one query on the host, (DRAM rates, PCIe rates)."""
    (drive,) = grid.drives
    return np.array(
        [
            [
                on_host(
                    query,
                    replace(drive, dram_bytes_per_s=dram, pcie_bytes_per_s=pcie),
                    baseline.machine,
                    baseline.policy,
                    batch=batch,
                ).query_s
                for pcie in grid.pcie_bytes_per_s
            ]
            for dram in grid.dram_bytes_per_s
        ]
    )


def _block(
    query: Query,
    grid: Axes,
    accelerator: UnitAccelerator,
    design: UnitAccelerator,
    drive: DriveRates,
    batch: int,
    how: Inside,
    host_s: Column,
) -> dict[str, Column]:
    """Points of one group of channels, scratchpad and DRAM capacity: (lanes, DRAM rates, PCIe rates), flattened.

    Args:   accelerator: as published; design: with this group and scratchpad; drive: with this capacity.
    """
    groups = design.on(drive.channels)
    moved = traffic(query, drive, design, how.switches, how.contention)
    passes = -(-batch // min(batch, moved.queries_at_once))
    scratchpad, group = int(design.scratchpad.value), design.channels_per_accelerator
    wide = [
        redesigned(accelerator, channels_per_accelerator=group, lanes=lanes, scratchpad_bytes=scratchpad)
        for lanes in grid.lanes
    ]
    shape = (len(grid.lanes), len(grid.dram_bytes_per_s), len(grid.pcie_bytes_per_s))
    object_s = np.array([object_seconds(query, widened, batch, passes, how) for widened in wide])
    rest_s = np.array([rest_seconds(query, widened, batch, how) for widened in wide])
    dram = np.array(grid.dram_bytes_per_s)
    pcie = np.array(grid.pcie_bytes_per_s)
    flash_bytes = passes * query.num_objects * (query.object_bytes + moved.flash_bytes)
    busy = {
        "channel": np.full(shape, flash_bytes / drive.flash_bytes_per_s),
        "dram": _along(batch * query.num_objects * moved.dram_bytes / (dram * how.dram_efficiency), 1, shape),
        "compute": _along(query.num_objects * object_s / groups, 0, shape),
        "drive": _along(rest_s, 0, shape),
        "pcie": _along(batch * (query.work.query_bytes + query.work.answer_bytes) / pcie, 2, shape),
    }
    times = np.stack([busy[name] for name in RESOURCES])
    seconds = times.max(axis=0)
    footprints = [footprint(widened, drive.channels, how.multiplicity) for widened in wide]
    watts = _along(np.array([silicon.watts for silicon in footprints]), 0, shape)
    evidence = [area_and_power(accelerator, lanes, scratchpad) for lanes in grid.lanes]
    columns = {
        "drive": np.full(shape, drive.name),
        "accelerators": np.full(shape, groups),
        "channels_per_accelerator": np.full(shape, group),
        "lanes": _along(np.array(grid.lanes), 0, shape),
        "scratchpad_bytes": np.full(shape, scratchpad),
        "dram_bytes_per_s": _along(dram, 1, shape),
        "dram_capacity_bytes": np.full(shape, drive.dram_capacity_bytes),
        "pcie_bytes_per_s": _along(pcie, 2, shape),
        "area_mm2": _along(np.array([silicon.area_mm2 for silicon in footprints]), 0, shape),
        "watts": watts,
        "simulated_s": seconds,
        "query_s": seconds / batch,
        "host_query_s": np.broadcast_to(host_s, shape),
        "energy_j_per_query": watts * seconds / batch,
        "bottleneck": np.array(RESOURCES)[times.argmax(axis=0)],
        "area_and_power": _along(np.array(evidence), 0, shape),
    }
    return {name: column.reshape(-1) for name, column in columns.items()}


def _along(values: Column, axis: int, shape: tuple[int, ...]) -> Column:
    """Values of one axis at every point of a block."""
    turned = [1] * len(shape)
    turned[axis] = len(values)
    return np.broadcast_to(values.reshape(turned), shape)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
