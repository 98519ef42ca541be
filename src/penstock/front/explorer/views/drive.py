"""A scan of a drive: how busy each channel was, and its dies, memory and link."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.base.system import remedy
from penstock.base.types import Row
from penstock.base.version import __version__
from penstock.errors import UsageError
from penstock.front.explorer import drives
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.state import State
from penstock.front.explorer.view import View, inputs, results

if TYPE_CHECKING:
    from penstock.lab.instorage.flash.scan import ScanResult


DEPTHS = (1, 4, 16, 64, 256, 1024)
ENDS = {"pcie": "to the host", "none": "inside the drive"}
PARTS = {
    "bus_busy": "channel buses",
    "array_busy": "dies",
    "dram_busy": "controller DRAM",
    "pcie_up_busy": "PCIe to host",
    "pcie_down_busy": "PCIe from host",
}
_RATES = (
    ("bytes_per_s", "bandwidth", "B/s"), ("mean_latency_s", "mean latency", "s"),
    ("p99_latency_s", "p99 latency", "s"),
)  # fmt: skip


def drive(engine: Engine, state: State) -> View:
    """Scans at several queue depths: bandwidth, latency, and the share of the time that each part was taken.

    Raises: CapabilityMissing: drives are not simulated; UsageError: none is known; as `drives.scan`.
    """
    name = state.drive or next(iter(drives.names()), "")
    if not name:
        raise UsageError(f"this build of penstock simulates no drives: {remedy.engine()}")
    of = [replace(state, drive=name, queue_depth=depth) for depth in sorted({*DEPTHS, state.queue_depth})]
    rows = [_row(at_depth, engine.scan(at_depth)) for at_depth in of]
    channels = {f"channel_{i}": f"channel {i}" for i in range(len(engine.scan(of[0]).channel_busy))}
    source = f"penstock {__version__}: scan of drive {name}; 'penstock ssd drives {name}' has the source of every value"
    return View(
        title=f"Occupancy of drive {name}, {state.pattern} scan {ENDS[state.scan_end]}",
        columns=[
            *inputs(("drive", "drive"), ("pattern", "pattern"), ("queue_depth", "queue depth", "1")),
            *results("simulated", source, *_RATES),
            *results("simulated", source, *((name, label, "share") for name, label in (PARTS | channels).items())),
        ],
        rows=rows,
        command=shlex.join(drives.argv(replace(state, drive=name))),
        notes=[
            "Share of the time that each part was taken, mean over the parts of its kind; below, each channel's bus by "
            f"itself. The command gives the row of queue depth {state.queue_depth}."
        ],
        drawing={"own": state.queue_depth, "parts": PARTS, "channels": channels},
    )


def _row(state: State, scan: ScanResult) -> Row:
    return {
        "drive": state.drive,
        "end": state.scan_end,
        "pattern": state.pattern,
        "queue_depth": state.queue_depth,
        "bytes_per_s": scan.bytes_per_s,
        "mean_latency_s": scan.latency.mean_s,
        "p99_latency_s": scan.latency.p99_s,
        **{part: getattr(scan, part) for part in PARTS},
        **{f"channel_{i}": busy for i, busy in enumerate(scan.channel_busy)},
        "provenance": "simulated",
    }
