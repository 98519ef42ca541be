"""Timelines in the Trace Event Format, which Perfetto (ui.perfetto.dev) and chrome://tracing draw.

A timeline has processes, each with lanes (its threads). A slice is a complete event (`ph` X) with `ts` and `dur` in
microseconds; a counter (`C`) has numbers from `ts` on; a flow is a start (`s`) and a finish (`f`, bound to its
slice) with one id; names of processes and lanes, and their order, are metadata (`M`). Source: "Trace Event Format",
Google, which chrome://tracing links.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import UsageError
from penstock.system.files import write_atomic

MICROSECONDS = 1e6
DEFAULT_EVENTS = 200_000
"""Events of a timeline unless asked otherwise: about 30 MB of JSON, which Perfetto opens in seconds."""
SUFFIXES = (".json", ".json.gz")


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of slices that do not overlap."""

    pid: int
    tid: int


class Timeline:
    """Collects lanes, slices and flows, and counts them against a bound.

    Not thread safe. The same calls give the same JSON.
    """

    def __init__(self, *, max_events: int = DEFAULT_EVENTS) -> None:
        if max_events < 1:
            raise UsageError(f"a timeline of {max_events} events: allow one at least")
        self.max_events = max_events
        self._named: list[dict[str, Any]] = []
        self._events: list[dict[str, Any]] = []
        self._processes: dict[str, int] = {}
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._flows = 0

    def __len__(self) -> int:
        """Slices and flow events; names do not count."""
        return len(self._events)

    def room(self, events: int) -> bool:
        """Whether so many more events fit."""
        return len(self._events) + events <= self.max_events

    def lane(self, process: str, name: str) -> Lane:
        """The lane of that name; made at first use, below the existing ones."""
        if (process, name) not in self._lanes:
            if process not in self._processes:
                self._processes[process] = pid = len(self._processes)
                self._name("process_name", pid, 0, {"name": process})
                self._name("process_sort_index", pid, 0, {"sort_index": pid})
            pid = self._processes[process]
            tid = sum(lane.pid == pid for lane in self._lanes.values())
            self._lanes[process, name] = Lane(pid, tid)
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
        args: Mapping[str, Any] | None = None,
    ) -> None:
        """Something that a lane is busy with from `start_s` to `end_s`."""
        start, end = float(start_s), float(end_s)
        self._events.append(
            {
                "name": name, "cat": category, "ph": "X", "pid": lane.pid, "tid": lane.tid,
                "ts": start * MICROSECONDS, "dur": max(0.0, end - start) * MICROSECONDS, "args": dict(args or {}),
            }
        )  # fmt: skip

    def flow(self, name: str, source: tuple[Lane, float], target: tuple[Lane, float]) -> None:
        """An arrow from the slice around a lane and time to that around another: two events."""
        self._flows += 1
        (lane, at), (to, then) = source, target
        shared = {"name": name, "cat": "flow", "id": self._flows}
        self._events.append({**shared, "ph": "s", "pid": lane.pid, "tid": lane.tid, "ts": float(at) * MICROSECONDS})
        self._events.append(
            {**shared, "ph": "f", "bp": "e", "pid": to.pid, "tid": to.tid, "ts": float(then) * MICROSECONDS}
        )

    def counter(self, process: str, name: str, at_s: float, values: Mapping[str, float]) -> None:
        """Numbers of a process from `at_s` on, which are drawn as a curve; the same names each time."""
        lane = self.lane(process, "counters")
        self._events.append(
            {
                "name": name, "cat": "counter", "ph": "C", "pid": lane.pid, "tid": lane.tid,
                "ts": float(at_s) * MICROSECONDS, "args": dict(values),
            }
        )  # fmt: skip

    def to_dict(self, **facts: Any) -> dict[str, Any]:
        """The whole file; `facts` (workload, machine, …) go to `otherData`."""
        return {"traceEvents": [*self._named, *self._events], "displayTimeUnit": "ms", "otherData": facts}

    def _name(self, what: str, pid: int, tid: int, args: dict[str, Any]) -> None:
        self._named.append({"name": what, "ph": "M", "pid": pid, "tid": tid, "args": args})


def write_timeline(path: Path, timeline: Mapping[str, Any], *, force: bool = False) -> None:
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
