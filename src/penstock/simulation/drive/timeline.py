"""When channels, dies, DRAM and PCIe of a drive are busy during the first pages of a scan.

The engine records what its units do while it plays as many pages as a bound allows: the start of the scan, with its
queue filling, not its steady state.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.errors import UsageError
from penstock.simulation.drive.input import EngineInput
from penstock.simulation.engine import _engine
from penstock.traces.perfetto import Timeline
from penstock.units import PICOSECONDS_PER_SECOND

EVENTS = 20_000
"""Events of a drive's timeline unless asked otherwise."""
EVENTS_A_PAGE = 6
"""At most, without retries and other traffic: a command, a sense, a transfer, DRAM, PCIe, a read of the page table."""
_SERVERS = {"dram": "DRAM", "edram": "eDRAM", "upload": "PCIe", "download": "PCIe in", "aggregator": "aggregator"}


def scan_timeline(given: EngineInput, *, max_events: int = EVENTS, **facts: Any) -> dict[str, Any]:
    """The Trace Event Format of the start of a scan; `facts` (drive, …) go to `otherData`.

    Raises: UsageError: a bound that no page fits in.
    """
    pages = min(given.pages, max_events // EVENTS_A_PAGE)
    if not pages:
        raise UsageError(f"a timeline of {max_events} events holds no page; allow {EVENTS_A_PAGE} at least")
    played = _engine.play_drive(replace(given, pages=pages), max_events)
    timeline = Timeline(max_events=max_events)
    dies = given.chips_per_channel * given.dies_per_chip
    for lane, number, work, start, end, page in played.intervals or ():
        if lane == "channel":
            process, name = "channels", f"channel {number}"
        elif lane == "die":
            process, name = "dies", f"channel {number // dies}, die {number % dies}"
        else:
            process, name = "drive", _SERVERS[work]
        where, seconds = timeline.lane(process, name), (start / PICOSECONDS_PER_SECOND, end / PICOSECONDS_PER_SECOND)
        timeline.slice(where, work, *seconds, category=process, args={} if page is None else {"page": page})
    return timeline.to_dict(
        provenance="simulated",
        pages=played.pages,
        pages_left_out=given.pages - pages,
        events_left_out=played.intervals_left_out,
        end_s=played.end_ps / PICOSECONDS_PER_SECOND,
        **facts,
    )
