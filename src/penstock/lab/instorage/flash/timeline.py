"""When channels, dies, DRAM and PCIe of a drive are busy during the first pages of a scan.

The engine records what its units do while it plays as many pages as a bound allows: the start of the scan, with its
queue filling, not its steady state. The drawing ends with the last of these pages, as the counts of a scan do: other
traffic goes on behind it, and is not drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from penstock.base.types import Row
from penstock.base.units import PICOSECONDS_PER_SECOND
from penstock.errors import UsageError
from penstock.lab.instorage.flash.input import EngineInput
from penstock.lab.simulation.counters import Steps, heights
from penstock.scheme.play.engine import _engine
from penstock.scheme.traces.perfetto import Timeline

EVENTS = 20_000
"""Events of a drive's timeline unless asked otherwise."""
EVENTS_A_PAGE = 10
"""At most, without retries and other traffic: a command, a sense, a transfer, DRAM, PCIe, a read of the page table, and
four steps of counters."""
COUNTED = 4
"""Of these, the steps of counters."""
QUEUE, TRANSFERS = "pages under way", "channels at work"
_Interval: TypeAlias = tuple[str, int, str, int, int, int | None]
"""Lane, its number, work, start, end, page."""
_SERVERS = {"dram": "DRAM", "edram": "eDRAM", "upload": "PCIe", "download": "PCIe in", "aggregator": "aggregator"}


def scan_timeline(given: EngineInput, *, max_events: int = EVENTS, **facts: object) -> Row:
    """The Trace Event Format of the start of a scan; `facts` (drive, …) go to `otherData`.

    Returns: its `otherData` has `end_s`, the end of the drawn pages: the scan's, where none is left out.

    Raises: UsageError: a bound that no page fits in.
    """
    pages = min(given.pages, max_events // EVENTS_A_PAGE)
    if not pages:
        raise UsageError(f"a timeline of {max_events} events holds no page; allow {EVENTS_A_PAGE} at least")
    played = _engine.play_drive(EngineInput(**vars(given) | {"pages": pages}), max_events - COUNTED * pages)
    timeline = Timeline(max_events=max_events)
    dies = given.chips_per_channel * given.dies_per_chip
    every = played.intervals or []
    intervals, curves = every, _curves(every)
    # Retries and other traffic make more steps than a page has.
    while (events := len(intervals) + sum(map(len, curves.values()))) > max_events:
        intervals = intervals[: len(intervals) * max_events // events]
        curves = _curves(intervals)
    for lane, number, work, start, end, page in intervals:
        if lane == "channel":
            process, name = "channels", f"channel {number}"
        elif lane == "die":
            process, name = "dies", f"channel {number // dies}, die {number % dies}"
        else:
            process, name = "drive", _SERVERS[work]
        where, seconds = timeline.lane(process, name), (start / PICOSECONDS_PER_SECOND, end / PICOSECONDS_PER_SECOND)
        timeline.slice(where, work, *seconds, category=process, args={} if page is None else {"page": page})
    for (name, unit), steps in curves.items():
        for at_s, value in steps:
            timeline.counter("drive", name, at_s, {unit: value})
    return timeline.to_dict(
        provenance="simulated",
        pages=played.pages,
        pages_left_out=given.pages - pages,
        events_left_out=played.intervals_left_out + len(every) - len(intervals),
        end_s=played.scan_end_ps / PICOSECONDS_PER_SECOND,
        **facts,
    )


def _curves(intervals: Sequence[_Interval]) -> dict[tuple[str, str], Steps]:
    """(counter, unit) -> its steps: pages that are on a bus, and buses that are taken."""
    taken = [(start, end, page) for lane, _, _, start, end, page in intervals if lane == "channel"]
    return {
        (QUEUE, "pages"): _overlapping((start, end) for start, end, page in taken if page is not None),
        (TRANSFERS, "channels"): _overlapping((start, end) for start, end, _ in taken),
    }


def _overlapping(intervals: Iterable[tuple[int, int]]) -> Steps:
    """How many intervals there are around each time."""
    times = np.asarray([*intervals], dtype=np.float64).reshape(-1, 2) / PICOSECONDS_PER_SECOND
    return heights(times[:, 0], times[:, 1], np.ones(len(times), dtype=np.int64))
