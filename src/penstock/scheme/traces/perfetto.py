"""Timelines in the Trace Event Format, which Perfetto (ui.perfetto.dev) and chrome://tracing draw.

A timeline has processes, each with lanes (its threads). A slice is a complete event (`ph` X) with `ts` and `dur` in
microseconds; a counter (`C`) has numbers from `ts` on; a flow is a start (`s`) and a finish (`f`, bound to its
slice) with one id; names of processes and lanes, and their order, are metadata (`M`). Source: "Trace Event Format",
Google, which chrome://tracing links.
"""

from __future__ import annotations

import gzip
import heapq
import json
import math
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.base.system.files import write_atomic
from penstock.base.types import Row, Rows, RowView
from penstock.errors import UsageError

MICROSECONDS = 1e6
DEFAULT_EVENTS = 200_000
"""Events of a timeline unless asked otherwise: about 30 MB of JSON, which Perfetto opens in seconds."""
SUFFIXES = (".json", ".json.gz")


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of slices that follow each other, or nest where it says so."""

    pid: int
    tid: int
    nests: bool = False


class Timeline:
    """Collects lanes, slices and flows, and counts them against a bound.

    Slices that overlap are spread over further lanes of the same name with a number, as many as overlap needs.
    Not thread safe. The same calls give the same JSON.
    """

    def __init__(self, *, max_events: int = DEFAULT_EVENTS) -> None:
        if max_events < 1:
            raise UsageError(f"a timeline of {max_events} events: allow one at least")
        self.max_events = max_events
        self._named: Rows = []
        self._events: Rows = []
        self._processes: dict[str, int] = {}
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._flows = 0
        self._begun: dict[tuple[int, int, float], int] = {}
        """The slice of a lane that begins at a time, as its place among the events."""
        self._bound: dict[int, int] = {}
        """Of an end of a flow, the slice that it is bound to."""

    def __len__(self) -> int:
        """Slices and flow events; names do not count."""
        return len(self._events)

    def room(self, events: int) -> bool:
        """Whether so many more events fit."""
        return len(self._events) + events <= self.max_events

    def lane(self, process: str, name: str, *, nests: bool = False) -> Lane:
        """The lane of that name; made at first use, below the existing ones. Slices of one that `nests` may lie in
        others."""
        if (process, name) not in self._lanes:
            if process not in self._processes:
                self._processes[process] = pid = len(self._processes)
                self._name("process_name", pid, 0, {"name": process})
                self._name("process_sort_index", pid, 0, {"sort_index": pid})
            pid = self._processes[process]
            tid = sum(lane.pid == pid for lane in self._lanes.values())
            self._lanes[process, name] = Lane(pid, tid, nests)
            self._name("thread_name", pid, tid, {"name": name})
            self._name("thread_sort_index", pid, tid, {"sort_index": tid})
        return self._lanes[process, name]

    def slice(
        self,
        lane: Lane,
        name: str,
        start_s: float,
        end_s: float,
        *,
        category: str,
        args: RowView | None = None,
    ) -> None:
        """Something that a lane is busy with from `start_s` to `end_s`."""
        start, end = float(start_s) * MICROSECONDS, float(end_s) * MICROSECONDS
        duration = max(0.0, end - start)
        if start + duration > end > start:
            duration = math.nextafter(duration, 0.0)  # rounding does not reach into the next slice
        self._begun[lane.pid, lane.tid, start] = len(self._events)
        self._events.append(
            {
                "name": name, "cat": category, "ph": "X", "pid": lane.pid, "tid": lane.tid,
                "ts": start, "dur": duration, "args": dict(args or {}),
            }
        )  # fmt: skip

    def flow(self, name: str, source: tuple[Lane, float], target: tuple[Lane, float]) -> None:
        """An arrow between the slices of two lanes that begin at these times: two events."""
        self._flows += 1
        shared = {"name": name, "cat": "flow", "id": self._flows}
        for (lane, at_s), kind in ((source, {"ph": "s"}), (target, {"ph": "f", "bp": "e"})):
            ts = float(at_s) * MICROSECONDS
            self._bound[len(self._events)] = self._begun[lane.pid, lane.tid, ts]
            self._events.append({**shared, **kind, "pid": lane.pid, "tid": lane.tid, "ts": ts})

    def counter(self, process: str, name: str, at_s: float, values: Mapping[str, float]) -> None:
        """Numbers of a process from `at_s` on, which are drawn as a curve; the same names each time."""
        lane = self.lane(process, "counters")
        self._events.append(
            {
                "name": name, "cat": "counter", "ph": "C", "pid": lane.pid, "tid": lane.tid,
                "ts": float(at_s) * MICROSECONDS, "args": dict(values),
            }
        )  # fmt: skip

    def to_dict(self, **facts: object) -> Row:
        """The whole file; `facts` (workload, machine, …) go to `otherData`."""
        moved = self._moved()
        moved |= {end: moved[at] for end, at in self._bound.items() if at in moved}
        events = [{**event, "tid": moved[at]} if at in moved else event for at, event in enumerate(self._events)]
        return {"traceEvents": [*self._named, *events], "displayTimeUnit": "ms", "otherData": facts}

    def _moved(self) -> dict[int, int]:
        """Slices that overlap others of their lane, by their place among the events -> the further lane of each."""
        slices: dict[tuple[int, int], list[tuple[float, float, int]]] = defaultdict(list)
        for at, event in enumerate(self._events):
            if event["ph"] == "X":
                slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"], at))
        return {
            at: self.lane(process, f"{name} ({row + 1})", nests=lane.nests).tid
            for (process, name), lane in list(self._lanes.items())
            for at, row in _rows(slices[lane.pid, lane.tid], nests=lane.nests)
            if row
        }

    def _name(self, what: str, pid: int, tid: int, args: Row) -> None:
        self._named.append({"name": what, "ph": "M", "pid": pid, "tid": tid, "args": args})


def _rows(slices: Iterable[tuple[float, float, int]], *, nests: bool) -> Iterator[tuple[int, int]]:
    """(number of a slice, row): no two slices of a row overlap, unless one lies in the other where they may nest.

    Args:   slices: (start, end, number), in any order.
    """
    within: list[list[float]] = []  # of each row, the ends of the slices around the present time
    busy: list[tuple[float, int]] = []  # (end of the innermost, row), ascending
    free: list[int] = []
    for start, end, number in sorted(slices, key=lambda span: (span[0], -span[1] if nests else span[1], span[2])):
        while busy and busy[0][0] <= start:
            row = busy.pop(0)[1]
            while within[row] and within[row][-1] <= start:
                within[row].pop()
            if within[row]:
                insort(busy, (within[row][-1], row))
            else:
                heapq.heappush(free, row)
        around = bisect_left(busy, (end, 0)) if nests else len(busy)
        if around < len(busy):
            row = busy.pop(around)[1]
        elif free:
            row = heapq.heappop(free)
        else:
            row = len(within)
            within.append([])
        within[row].append(end)
        insort(busy, (end, row))
        yield number, row


def write_timeline(path: Path, timeline: RowView, *, force: bool = False) -> None:
    """Write a timeline as .json, or packed as .json.gz; Perfetto opens both. The same content gives the same bytes.

    Raises: UsageError: another suffix; WouldOverwrite, FileError.
    """
    check_timeline_path(path)
    text = json.dumps(timeline, separators=(",", ":"), allow_nan=False).encode()
    write_atomic(path, gzip.compress(text, mtime=0) if path.name.endswith(".gz") else text, force=force)


def check_timeline_path(path: Path) -> None:
    """Raises UsageError where a file name does not say how to write a timeline."""
    if not path.name.endswith(SUFFIXES):
        raise UsageError(f"{path}: a timeline is written as {' or '.join(SUFFIXES)}; name the file so")
