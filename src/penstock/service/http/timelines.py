"""The latest jobs as a timeline in the Trace Event Format, which Perfetto and chrome://tracing draw.

Lanes: jobs that wait, each worker's slots with their waits for keys, and its reads of keys. Counters: bytes of keys in
memory, jobs that wait and run, bytes read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from penstock.base.types import Row
from penstock.scheme.traces.perfetto import DEFAULT_EVENTS, Lane, Timeline
from penstock.service.work.record import JobRecord, PoolSample, ReadRecord, Record

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
) -> Row:
    """The timeline of some recorded jobs, and of all reads from the first one's submission to the last one's end.

    Args:   jobs: in the order in which they ended; the earliest are left out where there are too many events.
            name: of a job, in the names of its slices. counters: of the whole service.
    """
    timeline = Timeline()
    shown = _fitting(jobs)
    begin_s = min((job.submitted_s for job in shown), default=0.0)
    end_s = max((job.ended_s for job in shown), default=begin_s)
    reads = [read for read in recorded.reads if read.ended_s >= begin_s and read.began_s <= end_s]
    begin_s = min([begin_s, *(read.began_s for read in reads)])
    draw = _Drawing(timeline, begin_s, name)
    samples = [sample for sample in recorded.samples if begin_s <= sample.at_s <= end_s] if counters else []
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
    room, fitting = _OF_JOBS, list[JobRecord]()
    for job in reversed(jobs):
        room -= 6 + (0 if job.times is None else len(job.times.key_waits))
        if room < 0:
            break
        fitting.append(job)
    return fitting[::-1]


class _Drawing:
    """Draws into one timeline that begins at `begin_s`."""

    def __init__(self, timeline: Timeline, begin_s: float, name: Callable[[JobRecord], str]) -> None:
        self._timeline, self._begin_s, self._name = timeline, begin_s, name
        self.left_out = self.reads_left_out = 0

    def _slice(self, lane: Lane, name: str, begin_s: float, end_s: float, category: str, args: Row) -> None:
        self._timeline.slice(lane, name, begin_s - self._begin_s, end_s - self._begin_s, category=category, args=args)

    def jobs(self, jobs: Iterable[JobRecord]) -> None:
        """Waiting, then the slots."""
        waiting = _Lanes(self._timeline, QUEUE, "waits")
        failed: dict[str, _Lanes] = {}
        ordered = sorted(jobs, key=lambda job: job.submitted_s)
        queued = {job.spec.job: waiting.of(job.submitted_s, job.started_s) for job in ordered}
        for job in sorted(ordered, key=lambda job: job.started_s):
            args = {
                "job": self._name(job),
                "tenant": job.spec.tenant,
                "program": job.spec.program,
                "state": job.state,
            }
            queue = queued[job.spec.job]
            if queue is not None:
                self._slice(queue, f"wait: {job.spec.program}", job.submitted_s, job.started_s, "queue", args)
            if job.times is None:
                lanes = failed.setdefault(job.worker, _Lanes(self._timeline, job.worker, "failed"))
                lane = lanes.of(job.started_s, job.ended_s)
                if lane is not None:
                    self._slice(lane, job.spec.program, job.started_s, job.ended_s, "failed", args)
                continue
            lane = self._slot(job, args)
            if queue is not None:
                begun = job.times.begun_s - self._begin_s
                self._timeline.flow("start", (queue, job.submitted_s - self._begin_s), (lane, begun))
        self.left_out += waiting.left_out + sum(lanes.left_out for lanes in failed.values())

    def _slot(self, job: JobRecord, args: Row) -> Lane:
        times = job.times
        assert times is not None
        lane = self._timeline.lane(job.worker, f"job slot {times.slot + 1}")
        waits = self._timeline.lane(job.worker, f"job slot {times.slot + 1}: waits for keys")
        self._slice(lane, "prepare", times.begun_s, times.run_s, "compute", args)
        self._slice(lane, f"compute: {job.spec.program}", times.run_s, times.ran_s, "compute", {**args, **job.figures})
        self._slice(lane, "write", times.ran_s, times.ended_s, "write", args)
        for begin_s, end_s in times.key_waits:
            self._slice(waits, "wait for a key", begin_s, end_s, "key wait", {"job": args["job"]})
        return lane

    def reads(self, reads: Iterable[ReadRecord]) -> None:
        """Reads of keys, ahead of their use or by it."""
        lanes: dict[tuple[str, bool], _Lanes] = {}
        for read in sorted(reads, key=lambda read: read.began_s):
            kind = "reads ahead" if read.ahead else "reads by jobs"
            free = lanes.setdefault((read.worker, read.ahead), _Lanes(self._timeline, f"{read.worker}: keys", kind))
            lane = free.of(read.began_s, read.ended_s)
            if lane is None:
                continue
            args = {"tenant": read.tenant, "read_bytes": read.read_bytes, "expanded_bytes": read.expanded_bytes}
            self._slice(lane, read.key, read.began_s, read.ended_s, "key read", args)
        self.reads_left_out = sum(free.left_out for free in lanes.values())

    def samples(self, samples: Iterable[PoolSample]) -> None:
        """The counters."""
        for sample in samples:
            at_s = sample.at_s - self._begin_s
            for name, values in (
                ("key bytes in memory", {"bytes": sample.resident_bytes}),
                ("jobs", {"waiting": sample.waiting, "running": sample.running}),
                ("key bytes read", {"bytes": sample.read_bytes}),
            ):
                self._timeline.counter(COUNTERS, name, at_s, values)
