"""When channels, dies, DRAM and PCIe of a drive are busy during the first pages of a scan.

The engine keeps sums; its slow twin, which equals it event for event, says when. So a timeline plays the twin for as
many pages as a bound allows: the start of the scan, with its queue filling, not its steady state.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.errors import UsageError
from penstock.simulation.drive.input import EngineInput
from penstock.simulation.drive.oracle import Oracle
from penstock.simulation.drive.oracle_parts import Kind, Page
from penstock.traces.perfetto import Timeline

EVENTS = 20_000
"""Events of a drive's timeline unless asked otherwise: the twin plays them in seconds."""
EVENTS_A_PAGE = 6
"""At most, without retries: a command, a sense, a transfer, DRAM, PCIe, and a read of the page table."""
_PICOSECONDS = 1e-12
_SERVERS = {"dram": "DRAM", "edram": "eDRAM", "upload": "PCIe", "aggregator": "aggregator"}


def scan_timeline(given: EngineInput, *, max_events: int = EVENTS, **facts: Any) -> dict[str, Any]:
    """The Trace Event Format of the start of a scan; `facts` (drive, …) go to `otherData`.

    Raises: UsageError: writes, which the twin does not play; a bound that no page fits in.
    """
    if given.writes.interval:
        raise UsageError("a timeline of a scan with other writes: they are played as sums only; leave them out")
    pages = min(given.pages, max_events // EVENTS_A_PAGE)
    if not pages:
        raise UsageError(f"a timeline of {max_events} events holds no page; allow {EVENTS_A_PAGE} at least")
    seen = _Recording(replace(given, pages=pages), max_events)
    played = seen.play()
    return seen.timeline.to_dict(
        provenance="simulated",
        pages=played["pages"],
        pages_left_out=given.pages - pages,
        events_left_out=seen.left_out,
        end_s=played["end_ps"] * _PICOSECONDS,
        **facts,
    )


class _Recording(Oracle):
    """The twin, which notes what is busy from when to when as it plans it."""

    def __init__(self, given: EngineInput, max_events: int) -> None:
        super().__init__(given)
        self.timeline = Timeline(max_events=max_events)
        self.left_out = 0

    def push(self, time: int, kind: Kind, about: Any) -> None:
        if kind is Kind.COMMANDED:
            self._note("channels", f"channel {about}", "command", self.now, time)
        elif kind is Kind.SENSED:
            channel, die = about
            self._note("dies", f"channel {channel}, die {die}", "sense", time - self.g.sense, time)
        elif kind is Kind.SENT and isinstance(about, Page):
            self._note("channels", f"channel {about.channel}", about.what, self.now, time, page=about.logical)
        super().push(time, kind, about)

    def serve(self, server: str, time: int) -> int:
        done = super().serve(server, time)
        if time:
            self._note("drive", _SERVERS[server], server, done - time, done)
        return done

    def _note(self, process: str, lane: str, name: str, start: int, end: int, **args: Any) -> None:
        if not self.timeline.room(1):
            self.left_out += 1
            return
        where = self.timeline.lane(process, lane)
        self.timeline.slice(where, name, start * _PICOSECONDS, end * _PICOSECONDS, category=process, args=args)
