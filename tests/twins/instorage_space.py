"""A design space point by point: the slow form of `penstock.lab.instorage.space`, and a front by comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from penstock.errors import UsageError
from penstock.lab.instorage.drive import DriveRates
from penstock.lab.instorage.machine import UnitAccelerator
from penstock.lab.instorage.machine_power import footprint
from penstock.lab.instorage.machine_scaling import area_and_power, redesigned
from penstock.lab.instorage.queries import Inside, in_storage, on_host, speedup
from penstock.lab.instorage.query import Query
from penstock.lab.instorage.space import Axes, Baseline


def points(
    query: Query, axes: Axes, accelerator: UnitAccelerator, baseline: Baseline, batch: int, inside: Inside
) -> Iterator[dict[str, Any]]:
    """A row for each point that can be built, in the order of the grid of each drive, its lanes inside."""
    for drive in axes.drives:
        grid = axes.of_drive(drive, accelerator)
        for group, scratchpad, capacity, lanes, dram, pcie in product(
            grid.channels_per_accelerator,
            grid.scratchpad_bytes,
            grid.dram_capacity_bytes,
            grid.lanes,
            grid.dram_bytes_per_s,
            grid.pcie_bytes_per_s,
        ):
            here = replace(drive, dram_bytes_per_s=dram, dram_capacity_bytes=capacity, pcie_bytes_per_s=pcie)
            row = _point(query, here, accelerator, baseline, batch, inside, group, lanes, scratchpad)
            if row is not None:
                yield row


def _point(
    query: Query,
    drive: DriveRates,
    accelerator: UnitAccelerator,
    baseline: Baseline,
    batch: int,
    inside: Inside,
    group: int,
    lanes: int,
    scratchpad: int,
) -> dict[str, Any] | None:
    try:
        design = redesigned(accelerator, channels_per_accelerator=group, lanes=lanes, scratchpad_bytes=scratchpad)
        ours = in_storage(query, drive, design, batch=batch, inside=inside)
    except UsageError:
        return None
    theirs = on_host(query, drive, baseline.machine, baseline.policy, batch=batch)
    taken = footprint(design, drive.channels, inside.multiplicity)
    return {
        "workload": query.workload,
        "params": query.params.name,
        "batch": batch,
        "drive": drive.name,
        "accelerators": taken.accelerators,
        "channels_per_accelerator": group,
        "lanes": lanes,
        "scratchpad_bytes": scratchpad,
        "dram_bytes_per_s": drive.dram_bytes_per_s,
        "dram_capacity_bytes": drive.dram_capacity_bytes,
        "pcie_bytes_per_s": drive.pcie_bytes_per_s,
        "area_mm2": taken.area_mm2,
        "watts": taken.watts,
        "simulated_s": ours.seconds,
        "query_s": ours.query_s,
        "host_query_s": theirs.query_s,
        "energy_j_per_query": taken.watts * ours.seconds / batch,
        "bottleneck": ours.bottleneck,
        "area_and_power": area_and_power(accelerator, lanes, scratchpad),
        "speedup": speedup(ours, theirs),
        "provenance": "simulated",
    }


def front(rows: Sequence[dict[str, Any]], first: str = "query_s", second: str = "watts") -> set[tuple[float, float]]:
    """Pairs of the two columns that no other row beats: as small in both, and smaller in one."""
    pairs = {(row[first], row[second]) for row in rows}
    return {(a, b) for a, b in pairs if not any(x <= a and y <= b and (x, y) != (a, b) for x, y in pairs)}
