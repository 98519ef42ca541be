"""The latest jobs of a pool: when each waited, computed and wrote, and which keys were read meanwhile.

All times are seconds of the machine's monotonic clock, which its processes share. Everything here is measured.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from penstock.service.work.messages import JobSpec

if TYPE_CHECKING:
    from penstock.base.types import Row

MOST_JOBS = 5000
MOST_READS = 20_000
MOST_SAMPLES = 20_000
SAMPLE_S = 0.05
"""Samples are at least so far apart."""
MOST_WAITS = 256
"""Waits for keys that are kept of one job: the longest."""
SHORTEST_WAIT_S = 1e-4
"""Shorter waits of a lane are not kept one by one. Their sum is in the job's figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTimes:
    """The moments of one job in its worker: seconds of the machine's monotonic clock, which all processes share."""

    slot: int
    """Its number among the jobs abreast."""
    begun_s: float
    run_s: float
    """When its package was compiled and its keys were found: operations begin."""
    ran_s: float
    """When the last operation had ended, and outputs were written."""
    ended_s: float
    key_waits: Sequence[Sequence[float]]
    """Beginning and end of each time in which some lane of the job waited for a key. Overlapping ones are one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """One job that ended."""

    spec: JobSpec
    worker: str
    """Label of its worker."""
    submitted_s: float
    started_s: float
    ended_s: float
    times: JobTimes | None
    """`None` of a job that failed."""
    figures: Row
    """As of `JobFigures`, for JSON; empty of a job that failed."""

    @property
    def state(self) -> str:
        """`done` or `failed`."""
        return "failed" if self.times is None else "done"


class ReadRecord(NamedTuple):
    """One load of rows of a key into memory. Workers tell all but their own label."""

    worker: str
    tenant: str
    key: str
    read_bytes: int
    """From storage."""
    expanded_bytes: int
    """That a seed was expanded into."""
    ahead: bool
    began_s: float
    ended_s: float


class PoolSample(NamedTuple):
    """Figures of a moment. Bytes are as the workers said last."""

    at_s: float
    waiting: int
    running: int
    resident_bytes: int
    read_bytes: int
    """Since the pool began."""


Item = TypeVar("Item", JobRecord, ReadRecord)


@dataclass(slots=True)
class Record:
    """The latest ones of each sort; of jobs and reads, the tenant that has most of them loses its oldest one.

    Not thread safe.
    """

    jobs: deque[JobRecord] = field(default_factory=deque)
    """In the order in which they ended."""
    reads: deque[ReadRecord] = field(default_factory=deque)
    samples: deque[PoolSample] = field(default_factory=partial(deque, maxlen=MOST_SAMPLES))
    most_jobs: int = MOST_JOBS
    _jobs_of: Counter[str] = field(default_factory=Counter)
    _reads_of: Counter[str] = field(default_factory=Counter)

    def add_job(self, job: JobRecord) -> None:
        _add(self.jobs, job, self.most_jobs, self._jobs_of, lambda each: each.spec.tenant)

    def add_read(self, read: ReadRecord) -> None:
        _add(self.reads, read, MOST_READS, self._reads_of, lambda each: each.tenant)

    def sample(self, now: PoolSample) -> None:
        """Keep a sample that says something new, not too soon after the last one."""
        last = self.samples[-1] if self.samples else None
        if last is None or (last[1:] != now[1:] and now.at_s - last.at_s >= SAMPLE_S):
            self.samples.append(now)

    def forget(self, tenant: str) -> None:
        """Drop what tells of a tenant."""
        self.jobs = deque(job for job in self.jobs if job.spec.tenant != tenant)
        self.reads = deque(read for read in self.reads if read.tenant != tenant)
        for counts in (self._jobs_of, self._reads_of):
            counts.pop(tenant, None)

    def copy(self) -> Record:
        """All of it now."""
        return Record(self.jobs.copy(), self.reads.copy(), self.samples.copy())


def _add(items: deque[Item], item: Item, most: int, counts: Counter[str], owner: Callable[[Item], str]) -> None:
    items.append(item)
    counts[owner(item)] += 1
    if len(items) > most:
        fullest = max(counts, key=counts.__getitem__)
        counts[fullest] -= 1
        if not counts[fullest]:
            del counts[fullest]
        del items[next(at for at, each in enumerate(items) if owner(each) == fullest)]


def merged(waits: Iterable[tuple[float, float]], begin: float, end: float) -> tuple[tuple[float, float], ...]:
    """Intervals inside `begin` and `end`, in order: those that touch are one, and the longest `MOST_WAITS` are kept.

    >>> merged([(5.0, 9.0), (1.0, 2.0), (1.5, 3.0)], 0.0, 8.0)
    ((1.0, 3.0), (5.0, 8.0))
    """
    spans: list[tuple[float, float]] = []
    for start, stop in sorted((max(begin, start), min(end, stop)) for start, stop in waits):
        if stop <= start:
            continue
        if spans and start <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], stop)
        else:
            spans.append((start, stop))
    kept = sorted(spans, key=lambda span: span[0] - span[1])[:MOST_WAITS]
    return tuple(sorted(kept))


def percentiles(seconds: Iterable[float], which: Sequence[int], prefix: str = "") -> dict[str, float | None]:
    """For each of `which` the smallest value that at least so many per cent do not exceed; `None` of no values.

    >>> percentiles([4.0, 2.0, 3.0, 1.0], (50, 51, 100))
    {'p50_s': 2.0, 'p51_s': 3.0, 'p100_s': 4.0}
    """
    ordered = sorted(seconds)
    # In whole numbers: 0.95 has no binary fraction.
    places = {n: max(0, (n * len(ordered) + 99) // 100 - 1) for n in which}
    return {f"{prefix}p{n}_s": ordered[at] if ordered else None for n, at in places.items()}
