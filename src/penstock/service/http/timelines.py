"""The latest jobs as a timeline in the Trace Event Format, which Perfetto and chrome://tracing draw.

Lanes: jobs that wait, each worker's slots with their waits for keys, and its reads of keys. Counters: bytes of keys in
memory, jobs that wait and run, bytes read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.scheme.traces.perfetto import DEFAULT_EVENTS, Lane, Timeline
from penstock.service.work.record import JobRecord, ReadRecord, Record, Sample

MOST_LANES = 64
"""Of things that overlap: further ones are left out, and counted."""
QUEUE, COUNTERS = "queue", "service"
_OF_JOBS, _OF_READS = DEFAULT_EVENTS // 2, DEFAULT_EVENTS // 4


class _Lanes:
    """Lanes for things that overlap: each goes to the first one that is free."""

    def __init__(self, timeline: Timeline, process: str, name: str) -> None:
        self._timeline, self._process, self._name = timeline, process, name
        self._free_s: list[float] = []
        self.left_out = 0

    def of(self, begin_s: float, end_s: float) -> Lane | None:
        """Call it in the order of beginnings."""
        at = next((n for n, free_s in enumerate(self._free_s) if free_s <= begin_s), len(self._free_s))
        if at == MOST_LANES:
            self.left_out += 1
            return None
        if at == len(self._free_s):
            self._free_s.append(0.0)
        self._free_s[at] = end_s
        return self._timeline.lane(self._process, f"{self._name} {at + 1}")


def service_timeline(
    recorded: Record, jobs: Sequence[JobRecord], *, name: Callable[[JobRecord], str], counters: bool
) -> dict[str, Any]:
    """The timeline of some recorded jobs, and of all reads from the first one's submission to the last one's end.

    Args:   jobs: in the order in which they ended; the earliest are left out where there are too many events.
            name: of a job, in the names of its slices. counters: of the whole service.
    """
    timeline = Timeline()
    shown = _fitting(jobs)
    begin_s = min((each.submitted_s for each in shown), default=0.0)
    end_s = max((each.ended_s for each in shown), default=begin_s)
    reads = [each for each in recorded.reads if each.ended_s >= begin_s and each.began_s <= end_s]
    begin_s = min([begin_s, *(each.began_s for each in reads)])
    draw = _Drawing(timeline, begin_s, name)
    samples = [each for each in recorded.samples if begin_s <= each.at_s <= end_s] if counters else []
    draw.jobs(shown)
    drawn_reads = reads[-_OF_READS:]
    draw.reads(drawn_reads)
    draw.samples(samples[-_OF_READS // 4 :])
    return timeline.to_dict(
        provenance="measured",
        begins_unix_s=time.time() - time.monotonic() + begin_s,
        jobs=len(shown),
        jobs_left_out=len(jobs) - len(shown),
        waits_left_out=draw.left_out,
        reads_left_out=len(reads) - len(drawn_reads) + draw.reads_left_out,
    )


def _fitting(jobs: Sequence[JobRecord]) -> list[JobRecord]:
    """The latest jobs whose events fit."""
    room, found = _OF_JOBS, list[JobRecord]()
    for each in reversed(jobs):
        room -= 6 + (0 if each.times is None else len(each.times.key_waits))
        if room < 0:
            break
        found.append(each)
    return found[::-1]


class _Drawing:
    """Draws into one timeline that begins at `begin_s`."""

    def __init__(self, timeline: Timeline, begin_s: float, name: Callable[[JobRecord], str]) -> None:
        self._timeline, self._begin_s, self._name = timeline, begin_s, name
        self.left_out = self.reads_left_out = 0

    def _slice(self, lane: Lane, name: str, begin_s: float, end_s: float, category: str, args: dict[str, Any]) -> None:
        self._timeline.slice(lane, name, begin_s - self._begin_s, end_s - self._begin_s, category=category, args=args)

    def jobs(self, jobs: Iterable[JobRecord]) -> None:
        """Waiting, then the slots."""
        waiting = _Lanes(self._timeline, QUEUE, "waits")
        failed: dict[str, _Lanes] = {}
        ordered = sorted(jobs, key=lambda each: each.submitted_s)
        queued = {each.spec.job: waiting.of(each.submitted_s, each.started_s) for each in ordered}
        for each in sorted(ordered, key=lambda each: each.started_s):
            args = {
                "job": self._name(each),
                "tenant": each.spec.tenant,
                "program": each.spec.program,
                "state": each.state,
            }
            queue = queued[each.spec.job]
            if queue is not None:
                self._slice(queue, f"wait: {each.spec.program}", each.submitted_s, each.started_s, "queue", args)
            if each.times is None:
                lanes = failed.setdefault(each.worker, _Lanes(self._timeline, each.worker, "failed"))
                lane = lanes.of(each.started_s, each.ended_s)
                if lane is not None:
                    self._slice(lane, each.spec.program, each.started_s, each.ended_s, "failed", args)
                continue
            lane = self._slot(each, args)
            if queue is not None:
                begun = each.times.begun_s - self._begin_s
                self._timeline.flow("start", (queue, each.submitted_s - self._begin_s), (lane, begun))
        self.left_out += waiting.left_out + sum(each.left_out for each in failed.values())

    def _slot(self, each: JobRecord, args: dict[str, Any]) -> Lane:
        times = each.times
        assert times is not None
        lane = self._timeline.lane(each.worker, f"job slot {times.slot + 1}")
        waits = self._timeline.lane(each.worker, f"job slot {times.slot + 1}: waits for keys")
        self._slice(lane, "prepare", times.begun_s, times.run_s, "compute", args)
        self._slice(
            lane, f"compute: {each.spec.program}", times.run_s, times.ran_s, "compute", {**args, **each.figures}
        )
        self._slice(lane, "write", times.ran_s, times.ended_s, "write", args)
        for begin_s, end_s in times.key_waits:
            self._slice(waits, "wait for a key", begin_s, end_s, "key wait", {"job": args["job"]})
        return lane

    def reads(self, reads: Iterable[ReadRecord]) -> None:
        """Reads of keys, ahead of their use or by it."""
        lanes: dict[tuple[str, bool], _Lanes] = {}
        for each in sorted(reads, key=lambda each: each.began_s):
            kind = "reads ahead" if each.ahead else "reads by jobs"
            free = lanes.setdefault((each.worker, each.ahead), _Lanes(self._timeline, f"{each.worker}: keys", kind))
            lane = free.of(each.began_s, each.ended_s)
            if lane is None:
                continue
            args = {"tenant": each.tenant, "read_bytes": each.read_bytes, "expanded_bytes": each.expanded_bytes}
            self._slice(lane, each.key, each.began_s, each.ended_s, "key read", args)
        self.reads_left_out = sum(each.left_out for each in lanes.values())

    def samples(self, samples: Iterable[Sample]) -> None:
        """The counters."""
        for each in samples:
            at_s = each.at_s - self._begin_s
            for name, values in (
                ("key bytes in memory", {"bytes": each.resident_bytes}),
                ("jobs", {"waiting": each.waiting, "running": each.running}),
                ("key bytes read", {"bytes": each.read_bytes}),
            ):
                self._timeline.counter(COUNTERS, name, at_s, values)
