"""Plays arrivals through an order on paper: one job at a time, keys under a budget, no cryptography.

`play` orders jobs, and `time_of` is the time of an order, switch by switch. Two caches: LRU on request (a job reads
what is missing, then computes), and the known plan (reading overlaps with computing, and the rows that the waiting jobs
use last leave).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from penstock.runtime.native.play import ReadRates
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import Lru, Optimal
from penstock.scheme.play.hierarchy import Mode, Pace, Prefetch, Rates, play_many, replay
from penstock.service.work.messages import JobFigures, JobSpec
from penstock.service.work.order import Order, OrderRule
from penstock.service.work.waiting import Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramCost:
    """A program."""

    compute_s: float
    key_bytes: Mapping[str, int]
    """Key with the digest of its set -> the most of it that a job has in memory, in the order of first uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobArrival:
    """A job."""

    at_s: float
    tenant: str
    kind: str


@dataclass(slots=True, kw_only=True)
class PlayedQueue:
    """What became of the jobs."""

    total_s: float = 0.0
    read_bytes: int = 0
    latencies_s: list[float] = field(default_factory=list)
    """In the order of arrival."""
    order: list[int] = field(default_factory=list)
    most_overtaken: int = 0


Key = tuple[str, str]
"""Tenant, and key with the digest of its set."""


class Residents:
    """The keys in memory: key -> bytes. Bytes of one key are nested: a smaller need is part of a larger."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes, self.used_bytes = budget_bytes, 0
        self._sizes: OrderedDict[Key, int] = OrderedDict()

    def by_tenant(self) -> dict[str, dict[str, int]]:
        """Tenant -> key -> bytes."""
        sizes: dict[str, dict[str, int]] = {}
        for (tenant, key), size in self._sizes.items():
            sizes.setdefault(tenant, {})[key] = size
        return sizes

    def missing(self, needs: Mapping[Key, int]) -> int:
        """Bytes of `needs` that are not there."""
        return sum(max(0, size - self._sizes.get(key, 0)) for key, size in needs.items())

    def use(self, needs: Mapping[Key, int], next_use: Mapping[Key, int] | None = None) -> int:
        """Read the missing rows; their bytes. The least recently used leave, or the last of `next_use`."""
        if next_use is not None:
            never = len(next_use)
            for key in sorted(self._sizes, key=lambda key: (key in needs, -next_use.get(key, never))):
                self._sizes.move_to_end(key)
        read = 0
        for key, size in needs.items():
            there = self._sizes.pop(key, 0)
            self._sizes[key] = max(size, there)
            read += max(0, size - there)
            self.used_bytes += max(0, size - there)
            while self.used_bytes > self.budget_bytes and len(self._sizes) > 1:
                self.used_bytes -= self._sizes.popitem(last=False)[1]
        return read


def play(
    arrivals: Sequence[JobArrival],
    kinds: Mapping[str, ProgramCost],
    budget_bytes: int,
    *,
    order: Order,
    known_plan: bool,
    rule: OrderRule,
) -> PlayedQueue:
    """Run all jobs.

    >>> kinds = {"one": ProgramCost(compute_s=1, key_bytes={"relin": 4})}
    >>> jobs = [JobArrival(at_s=0, tenant=tenant, kind="one") for tenant in ("a", "b", "a", "b")]
    >>> play(jobs, kinds, 4, order=Order.LOCALITY, known_plan=False, rule=OrderRule()).order
    [0, 2, 1, 3]
    """
    queue, held, played = Queue(order, rule), Residents(budget_bytes), PlayedQueue(latencies_s=[0.0] * len(arrivals))
    for name, kind in kinds.items():
        queue.learn(name, dict(kind.key_bytes))
    now, arrived = 0.0, 0

    def arrive() -> None:
        nonlocal arrived
        while arrived < len(arrivals) and arrivals[arrived].at_s <= now:
            queue.add(_spec(arrived, arrivals[arrived]), arrivals[arrived].at_s)
            arrived += 1

    while queue or arrived < len(arrivals):
        if not queue:
            now = max(now, arrivals[arrived].at_s)
            arrive()
        there = held.by_tenant()
        entry = queue.next(there, lambda _: True, now)
        assert entry is not None
        queue.started(entry, now)
        next_use = None
        played.most_overtaken = max(played.most_overtaken, queue.most_overtaken())
        if known_plan:
            coming = queue.coming(there, now, len(queue))
            keys = [(job.spec.tenant, key) for job in coming for key in kinds[job.spec.program].key_bytes]
            next_use = {key: at for at, key in enumerate(dict.fromkeys(keys))}
        tenant, kind = entry.spec.tenant, kinds[entry.spec.program]
        read = held.use({(tenant, key): size for key, size in kind.key_bytes.items()}, next_use)
        read_s = read / rule.read_bytes_per_s
        took_s = max(kind.compute_s, read_s) if known_plan else kind.compute_s + read_s
        now += took_s
        arrive()
        queue.remove(entry.spec.job, now)
        waited_s = took_s - kind.compute_s
        queue.measured(
            entry,
            JobFigures(
                queue_s=0, key_wait_s=waited_s, compute_s=took_s, read_bytes=read, hits=0, misses=0, peak_bytes=0
            ),
        )
        played.read_bytes += read
        played.latencies_s[entry.number] = now - arrivals[entry.number].at_s
        played.order.append(entry.number)
    played.total_s = now
    return played


def _spec(number: int, arrival: JobArrival) -> JobSpec:
    files: dict[str, Path] = {}
    package = Path(arrival.kind)
    return JobSpec(
        job=str(number), tenant=arrival.tenant, program=arrival.kind, package=package, store=package, secret_tag=None,
        inputs=files, outputs=files,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTime:
    """What jobs take one after another (provenance: simulated)."""

    total_s: float
    compute_s: float
    read_bytes: int
    misses: int


def time_of(
    uses: Sequence[Sequence[tuple[Hashable, int]]],
    compute_s: Sequence[float],
    policy: str,
    budget_bytes: int,
    reading: ReadRates,
    *,
    bound: bool = False,
) -> QueueTime:
    """The time of jobs in their order, switch by switch, their keys under a budget.

    `lru` does not know the future, so every missing byte is waited for. `future` reads ahead as far as the budget
    allows and keeps the data with the soonest next use, bytes first: no policy reads fewer bytes. (The store keeps the
    key in use whole, and so reads more under a budget of few keys.) Reading takes from computing the share that
    `reading` has, evenly over the queue. `bound` is the least that a machine could take in this order: all computing
    and all reading, at once where that is faster, and no wait for either.

    Args:   uses: (key, bytes) of each key switch of each job; compute_s: seconds of each job with all its keys in
            memory and nothing read, dealt evenly to its key switches.
    """
    numbers: dict[Hashable, int] = {}
    rows = [(numbers.setdefault(key, len(numbers)), size) for job in uses for key, size in job]
    seconds = [taken_s / len(job) for job, taken_s in zip(uses, compute_s, strict=True) for _ in job]
    objects, sizes = (np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1))
    cache = Lru(budget_bytes) if policy == "lru" else Optimal(budget_bytes)
    played = replay(Accesses.one_each(objects, sizes), cache)
    read_bytes, computing_s, keyless_s = int(played.miss_bytes), sum(seconds), sum(compute_s) - sum(seconds)
    if bound:
        total_s = reading.least_s(sum(compute_s), read_bytes)
    else:
        mode: Mode = "serial" if policy == "lru" else "overlap"
        if policy == "lru" or not computing_s:
            rate, slower = reading.bytes_per_s, 1.0
        else:
            rate, slower = reading.beside_bytes_per_s, 1 + reading.lost_s(read_bytes) / computing_s
        pace = Pace(tier=Rates(bandwidth_bytes_per_s=rate), mode=mode, prefetch=Prefetch(None, budget_bytes))
        (line,) = play_many(slower * np.array(seconds), played, [pace])
        total_s = line.total_s + keyless_s
    return QueueTime(total_s=total_s, compute_s=sum(compute_s), read_bytes=read_bytes, misses=int(played.misses))
