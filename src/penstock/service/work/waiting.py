"""The jobs of a pool, waiting and running, and the known costs of their programs."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.service.work.lately import Lately
from penstock.service.work.messages import JobFigures, JobSpec, content_of
from penstock.service.work.order import Order, OrderRule, Shares, Standing, WaitingJob, choose, coming

if TYPE_CHECKING:
    from penstock.base.types import Row

_MOST_KEPT = 10_000
_NEWEST_SHARE = 0.3
"""Weight of a job's time in its program's mean."""

Residents = Mapping[str, Mapping[str, int]]
"""Tenant -> key with its digest -> bytes in memory."""


@dataclass(slots=True, kw_only=True)
class Entry:
    """One job."""

    spec: JobSpec
    number: int
    """In the order of arrival."""
    submitted_s: float
    """Of the monotonic clock, as all times here."""
    started_s: float | None = None
    """`None`: it waits."""
    overtaken: int = 0
    """Later jobs of its tenant that had gone first when it began; while it waits, see `Queue.overtaken`."""
    deaths: int = 0
    """Workers that died while it ran."""
    computing_s: float | None = None
    """When its package was compiled; `None`: it is not."""
    is_cancelled: bool = False
    told_s: float | None = None
    """When its worker was told to end it."""
    content: str = ""
    """Of its package (`content_of`)."""
    alike: Hashable = ()
    """The name of its line."""

    @property
    def deadline_at_s(self) -> float | None:
        """The moment at which nobody wants it any more."""
        return None if self.spec.deadline_s is None else self.submitted_s + self.spec.deadline_s

    @property
    def queue_s(self) -> float:
        """From its submission to its start."""
        return 0.0 if self.started_s is None else self.started_s - self.submitted_s

    @property
    def does(self) -> str:
        """Of one that runs."""
        return "compiled" if self.computing_s is None else "computed"

    def figures(self, now: float) -> Row:
        """For the snapshot."""
        spec = self.spec
        named = {"job": spec.job, "tenant": spec.tenant, "program": spec.program, "priority": spec.priority}
        waited_s = now - self.submitted_s if self.started_s is None else self.queue_s
        running_s = None if self.started_s is None else now - self.started_s
        return {**named, "waited_s": waited_s, "running_s": running_s, "deaths": self.deaths}


@dataclass(slots=True)
class _Line:
    """Waiting jobs that are alike but for deadlines: the first one goes before the others, or the urgent one."""

    entries: OrderedDict[str, Entry] = field(default_factory=OrderedDict)
    """In the order of arrival."""
    deadlines: list[tuple[float, int, str]] = field(default_factory=list)
    """When, number and job, sorted."""

    @property
    def first(self) -> Entry:
        return next(iter(self.entries.values()))


@dataclass(slots=True)
class _Group:
    """Jobs that are ordered among each other."""

    jobs: int = 0
    """Waiting and running."""
    lines: dict[Hashable, _Line] = field(default_factory=dict)
    later: list[int] = field(default_factory=list)
    """Numbers of jobs that began before an older one that waits, sorted."""


class Queue:
    """Not thread safe. No step but `waiting` takes longer with more jobs that are alike: those wait in lines."""

    def __init__(self, order: Order, rule: OrderRule) -> None:
        self._order, self._rule = order, rule
        self._entries: dict[str, Entry] = {}
        self._running: dict[str, Entry] = {}
        self._next_number = 0
        self._shares, self._lately = Shares(rule.turn_s), Lately(half_s=10.0, here_s=10.0, lead_s=0.5)
        self._groups: dict[str, _Group] = {}
        self._of_tenant: dict[str, dict[str, Entry]] = {}
        self._costs: dict[str, Counter[tuple[str, float]]] = {}
        """Tenant -> content and predicted seconds -> its jobs, waiting and running."""
        self._needs: dict[str, dict[str, int]] = {}
        """Content of a package -> key with its digest -> bytes, once a worker has said so."""
        self._missing: dict[tuple[str, str], tuple[Mapping[str, int], int, int]] = {}
        """Tenant and content of a package -> the tenant's keys in memory, and the bytes of `_key_bytes` under these."""
        self._compute_s: dict[str, float] = {}
        """Content of a package -> measured seconds without waiting for keys."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, job: str) -> bool:
        return job in self._entries

    def get(self, job: str) -> Entry | None:
        return self._entries.get(job)

    def add(self, spec: JobSpec, now: float) -> None:
        """A new job."""
        content = content_of(spec.package)
        entry = Entry(spec=spec, number=self._next_number, submitted_s=now, content=content)
        entry.alike = spec.tenant, content, spec.priority, spec.memory_bytes
        self._entries[spec.job] = self._of_tenant.setdefault(spec.tenant, {})[spec.job] = entry
        self._costs.setdefault(spec.tenant, Counter())[content, spec.compute_s] += 1
        self._next_number += 1
        name = self._group(entry)
        if name not in self._groups:
            self._groups[name] = _Group()
            self._shares.arrives(name)
        self._groups[name].jobs += 1
        self._waits(entry)

    def remove(self, job: str, now: float) -> Entry | None:
        """A job ends, however it does."""
        self._stopped(job, now)
        entry = self._entries.pop(job, None)
        if entry is not None:
            self._waits_no_more(entry)
            tenant, cost = entry.spec.tenant, (entry.content, entry.spec.compute_s)
            del self._of_tenant[tenant][job]
            self._costs[tenant][cost] -= 1
            if not self._costs[tenant][cost]:
                del self._costs[tenant][cost]
            if not self._of_tenant[tenant]:
                del self._of_tenant[tenant], self._costs[tenant]
            name = self._group(entry)
            self._groups[name].jobs -= 1
            if not self._groups[name].jobs:
                del self._groups[name]
                self._shares.leaves(name)
        return entry

    def _waits(self, entry: Entry) -> None:
        line = self._groups[self._group(entry)].lines.setdefault(entry.alike, _Line())
        line.entries[entry.spec.job] = entry
        if entry.deadline_at_s is not None:
            insort(line.deadlines, (entry.deadline_at_s, entry.number, entry.spec.job))

    def _waits_no_more(self, entry: Entry) -> None:
        """Where it does."""
        group = self._groups[self._group(entry)]
        line = group.lines.get(entry.alike)
        if line is None or line.entries.pop(entry.spec.job, None) is None:
            return
        if entry.deadline_at_s is not None:
            del line.deadlines[bisect_left(line.deadlines, (entry.deadline_at_s, entry.number, entry.spec.job))]
        if not line.entries:
            del group.lines[entry.alike]

    def waiting(self) -> list[Entry]:
        """In the order of arrival."""
        return [entry for entry in self._entries.values() if entry.started_s is None]

    def running(self) -> list[Entry]:
        return list(self._running.values())

    def late(self, now: float) -> list[Entry]:
        """Waiting jobs whose deadline is over."""
        lines = [line for group in self._groups.values() for line in group.lines.values()]
        over = [line.deadlines[: bisect_left(line.deadlines, (now,))] for line in lines if line.deadlines]
        return [self._entries[job] for some in over for *_, job in some]

    def computes(self, job: str, now: float) -> None:
        """Its package is compiled."""
        if job in self._running:
            self._running[job].computing_s = now

    def waits_again(self, entry: Entry, now: float) -> None:
        """A job whose worker died begins anew, in its old place."""
        self._stopped(entry.spec.job, now)
        entry.started_s = entry.computing_s = None
        entry.overtaken -= self._gone_first(entry)
        entry.alike = entry.number
        self._waits(entry)

    def _stopped(self, job: str, now: float) -> None:
        """A job has the machine no longer. What it took counts for its tenant, whatever came of it."""
        entry = self._running.pop(job, None)
        if entry is not None and entry.started_s is not None:
            self._shares.had(self._group(entry), now - entry.started_s)
            self._lately.used(entry.spec.tenant, now - entry.started_s, now)

    def of_tenant(self, tenant: str) -> list[Entry]:
        return list(self._of_tenant.get(tenant, {}).values())

    def forget(self, tenant: str) -> None:
        """Nothing is kept of the tenant but jobs that still run."""
        self._shares.forget(self._order.group(tenant))
        for name in [name for name in self._missing if name[0] == tenant]:
            del self._missing[name]

    # Costs.
    def learn(self, package: str, needs: dict[str, int]) -> None:
        """The keys of a package, and their bytes."""
        self._needs[content_of(Path(package))] = needs
        self._missing.clear()

    def measured(self, entry: Entry, figures: JobFigures) -> None:
        """What a job took."""
        package = entry.content
        own_s = max(0.0, figures.compute_s - figures.key_wait_s)
        known_s = self._compute_s.get(package, own_s)
        self._compute_s[package] = known_s + _NEWEST_SHARE * (own_s - known_s)

    def service_s(self, spec: JobSpec) -> float:
        """Predicted seconds of a job, its keys in memory."""
        return self._compute_s.get(content_of(spec.package), spec.compute_s)

    def predicted_s(self, entry: Entry) -> float:
        """The longer one of its prediction at deployment and of what its program took here."""
        return max(entry.spec.compute_s, self._compute_s.get(entry.content, 0.0))

    def _key_bytes(self, entry: Entry, there: Mapping[str, int]) -> tuple[int, int]:
        """Bytes of a job's keys, and of the ones that memory lacks."""
        needs = self._needs.get(entry.content)
        if needs is None:
            return entry.spec.key_bytes, max(0, entry.spec.key_bytes - sum(there.values()))
        name = entry.spec.tenant, entry.content
        known = self._missing.get(name)
        if known is None or known[0] != there:
            if len(self._missing) >= _MOST_KEPT:
                self._missing.clear()
            missing = sum(max(0, size - there.get(key, 0)) for key, size in needs.items())
            known = self._missing[name] = there, sum(needs.values()), missing
        return known[1:]

    def _predicted_s(self, entry: Entry) -> float:
        return self._compute_s.get(entry.content, entry.spec.compute_s)

    def backlog_s(self) -> float:
        """Predicted seconds of all jobs, one after another, their keys in memory."""
        return sum(self.backlog_of(tenant)[1] for tenant in self._costs)

    def backlog_of(self, tenant: str) -> tuple[int, float]:
        """Jobs of a tenant, waiting and running, and their predicted seconds."""
        costs = self._costs.get(tenant, Counter[tuple[str, float]]())
        seconds = sum(jobs * self._compute_s.get(content, known_s) for (content, known_s), jobs in costs.items())
        return len(self._of_tenant.get(tenant, ())), seconds

    def tenants_with(self, tenant: str) -> int:
        """How many tenants have jobs here, this one included."""
        return len(self._of_tenant) + (tenant not in self._of_tenant)

    def _gone_first(self, entry: Entry) -> int:
        """Later jobs of its group that began while an older one waited."""
        later = self._groups[self._group(entry)].later
        return len(later) - bisect_right(later, entry.number)

    def overtaken(self, entry: Entry) -> int:
        """Later jobs of a waiting one's tenant that went first; under `locality`, of all tenants."""
        return entry.overtaken + self._gone_first(entry)

    def most_overtaken(self) -> int:
        """Of the waiting jobs. In a line it is the first one."""
        return max((self.overtaken(line.first) for line in self._lines()), default=0)

    def candidate(self, entry: Entry, residents: Residents, now: float) -> WaitingJob:
        """A waiting job as the order sees it."""
        spec = entry.spec
        key_bytes, missing = self._key_bytes(entry, residents.get(spec.tenant, {}))
        return WaitingJob(
            number=entry.number,
            tenant=spec.tenant,
            waited_s=now - entry.submitted_s,
            missing_bytes=missing,
            key_bytes=key_bytes,
            compute_s=self._predicted_s(entry),
            priority=spec.priority,
            left_s=None if entry.deadline_at_s is None else entry.deadline_at_s - now,
            overtaken=self.overtaken(entry),
        )

    def why(self, entry: Entry, residents: Residents, fits: bool, now: float) -> Row:
        """What a waiting job waits for: `memory`, `keys` (jobs whose keys are in memory go first), or its `turn`."""
        missing = self.candidate(entry, residents, now).missing_bytes
        return {"waits_for": "memory" if not fits else "keys" if missing else "turn", "missing_bytes": missing}

    # Order.
    def next(self, residents: Residents, may_run: Callable[[Entry], bool], now: float) -> Entry | None:
        """The job that begins now, which `may_run`; `None`: none."""
        able = [entry for entry in self._heads(residents, now) if may_run(entry)]
        if not able:
            return None
        if self._order is Order.FCFS:
            return min(able, key=lambda entry: entry.number)
        candidates = [self.candidate(entry, residents, now) for entry in able]
        return able[choose(candidates, self._standings(now), self._rule, self._order)]

    def yields(self, entry: Entry, now: float) -> bool:
        """Whether its tenant has had much more of the machine of late than another one that was here."""
        return self._lately.is_ahead(entry.spec.tenant, now)

    def _group(self, entry: Entry) -> str:
        return self._order.group(entry.spec.tenant)

    def _standings(self, now: float) -> dict[str, Standing]:
        """A job that runs counts as what is predicted, or took already."""
        running_s: dict[str, float] = {}
        for entry in self._running.values():
            so_far_s = 0.0 if entry.started_s is None else now - entry.started_s
            name = self._group(entry)
            running_s[name] = running_s.get(name, 0.0) + max(so_far_s, self._predicted_s(entry))
        return self._shares.standings(running_s)

    def started(self, entry: Entry, now: float) -> None:
        """A job begins. Those of its tenant that came before it and wait are overtaken."""
        group = self._groups[self._group(entry)]
        firsts = [line.first for line in group.lines.values()]
        overdue = [first.number for first in firsts if self.overtaken(first) >= self._rule.max_overtaken]
        # Another overdue one that went first, by its priority, leaves the oldest waiting.
        self._shares.began(self._group(entry), is_overdue=bool(overdue) and entry.number == min(overdue))
        entry.overtaken = self.overtaken(entry)
        self._waits_no_more(entry)
        entry.started_s = now
        self._running[entry.spec.job] = entry
        oldest = min((line.first.number for line in group.lines.values()), default=self._next_number)
        if entry.number > oldest:
            insort(group.later, entry.number)
        del group.later[: bisect_right(group.later, oldest)]

    def coming(self, residents: Residents, now: float, most: int, tenant: str | None = None) -> list[Entry]:
        """The next jobs that wait, of all or of one tenant, in order, as far as that is known now."""
        if self._order is Order.FCFS:
            few = (entry for line in self._lines(tenant) for entry in islice(line.entries.values(), most))
            return heapq.nsmallest(most, few, key=lambda entry: entry.number)
        heads = self._heads(residents, now, tenant)
        candidates = [self.candidate(entry, residents, now) for entry in heads]
        return [heads[at] for at in coming(candidates, self._standings(now), self._rule, self._order, most)]

    def _lines(self, tenant: str | None = None) -> Iterator[_Line]:
        """Of all tenants, or of one."""
        name = None if tenant is None else self._order.group(tenant)
        groups = self._groups.values() if name is None else [self._groups[name]] if name in self._groups else []
        for line in (line for group in groups for line in group.lines.values()):
            if tenant in (None, line.first.spec.tenant):
                yield line

    def _heads(self, residents: Residents, now: float, tenant: str | None = None) -> list[Entry]:
        """Of each line the first job, and the one of the next deadline that can be met: none other goes before both."""
        heads = []
        for line in self._lines(tenant):
            heads.append(line.first)
            if line.deadlines:
                first = self.candidate(line.first, residents, now)
                soonest_s = now + max(first.compute_s, first.missing_bytes / self._rule.read_bytes_per_s)
                at = bisect_left(line.deadlines, (soonest_s,))
                heads += [self._entries[job] for *_, job in line.deadlines[at : at + 1] if job != line.first.spec.job]
        return sorted(heads, key=lambda entry: entry.number)
