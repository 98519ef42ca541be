"""The jobs of a pool, waiting and running, and the known costs of their programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.service.work.messages import JobFigures, JobSpec
from penstock.service.work.order import Candidate, Order, Rule, Shares, choose, rank

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
    deaths: int = 0
    """Workers that died while it ran."""
    is_cancelled: bool = False

    @property
    def deadline_at_s(self) -> float | None:
        """The moment at which nobody wants it any more."""
        return None if self.spec.deadline_s is None else self.submitted_s + self.spec.deadline_s

    @property
    def queue_s(self) -> float:
        """From its submission to its start."""
        return 0.0 if self.started_s is None else self.started_s - self.submitted_s

    def figures(self, now: float) -> dict[str, Any]:
        """For the snapshot."""
        spec = self.spec
        named = {"job": spec.job, "tenant": spec.tenant, "program": spec.program, "priority": spec.priority}
        waited_s = now - self.submitted_s if self.started_s is None else self.queue_s
        running_s = None if self.started_s is None else now - self.started_s
        return {**named, "waited_s": waited_s, "running_s": running_s, "deaths": self.deaths}


class Queue:
    """Not thread safe."""

    def __init__(self, order: Order, rule: Rule) -> None:
        self._order, self._rule = order, rule
        self._entries: dict[str, Entry] = {}
        self._next_number = 0
        self._shares = Shares()
        self._since_overdue = 0
        self._needs: dict[str, dict[str, int]] = {}
        """Package -> key with its digest -> bytes, once a worker has said so."""
        self._compute_s: dict[str, float] = {}
        """Package -> measured seconds without waiting for keys."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, job: str) -> bool:
        return job in self._entries

    def get(self, job: str) -> Entry | None:
        return self._entries.get(job)

    def add(self, spec: JobSpec, now: float) -> None:
        """A new job."""
        self._entries[spec.job] = Entry(spec=spec, number=self._next_number, submitted_s=now)
        self._next_number += 1

    def remove(self, job: str) -> Entry | None:
        return self._entries.pop(job, None)

    def waiting(self) -> list[Entry]:
        """In the order of arrival."""
        return [each for each in self._entries.values() if each.started_s is None]

    def running(self) -> list[Entry]:
        return [each for each in self._entries.values() if each.started_s is not None]

    def of_tenant(self, tenant: str) -> list[Entry]:
        return [each for each in self._entries.values() if each.spec.tenant == tenant]

    def forget(self, tenant: str) -> None:
        """Nothing is kept of the tenant but jobs that still run."""
        self._shares.forget(tenant)

    # Costs.
    def learn(self, package: str, needs: dict[str, int]) -> None:
        """The keys of a package, and their bytes."""
        self._needs[package] = needs

    def measured(self, entry: Entry, figures: JobFigures) -> None:
        """What a job took."""
        package = str(entry.spec.package)
        own_s = max(0.0, figures.compute_s - figures.key_wait_s)
        known_s = self._compute_s.get(package, own_s)
        self._compute_s[package] = known_s + _NEWEST_SHARE * (own_s - known_s)
        self._shares.had(entry.spec.tenant, figures.compute_s)

    def service_s(self, spec: JobSpec, missing_bytes: int = 0) -> float:
        """Predicted seconds of a job."""
        known_s = self._compute_s.get(str(spec.package), spec.compute_s)
        return max(known_s, missing_bytes / self._rule.read_bytes_per_s)

    def backlog_s(self) -> float:
        """Predicted seconds of all jobs, one after another, their keys in memory."""
        return sum(self.service_s(each.spec) for each in self._entries.values())

    def candidate(self, entry: Entry, residents: Residents, now: float) -> Candidate:
        """A waiting job as the order sees it."""
        spec = entry.spec
        needs, there = self._needs.get(str(spec.package)), residents.get(spec.tenant, {})
        key_bytes = missing = spec.key_bytes
        if needs is not None:
            key_bytes = sum(needs.values())
            missing = sum(max(0, size - there.get(key, 0)) for key, size in needs.items())
        elif there:
            missing = max(0, spec.key_bytes - sum(there.values()))
        return Candidate(
            number=entry.number,
            tenant=spec.tenant,
            waited_s=now - entry.submitted_s,
            missing_bytes=missing,
            key_bytes=key_bytes,
            compute_s=self.service_s(spec),
            priority=spec.priority,
            left_s=None if entry.deadline_at_s is None else entry.deadline_at_s - now,
            overtaken=entry.overtaken,
        )

    def why(self, entry: Entry, residents: Residents, fits: bool, now: float) -> dict[str, Any]:
        """What a waiting job waits for: `memory`, `keys` (jobs whose keys are in memory go first), or its `turn`."""
        missing = self.candidate(entry, residents, now).missing_bytes
        return {"waits_for": "memory" if not fits else "keys" if missing else "turn", "missing_bytes": missing}

    # Order.
    def next(self, residents: Residents, may_run: Callable[[Entry], bool], now: float) -> Entry | None:
        """The job that begins now, which `may_run`; `None`: none."""
        able = [each for each in self._heads(self.waiting()) if may_run(each)]
        if not able:
            return None
        if self._order is Order.FCFS:
            return min(able, key=lambda each: each.number)
        self._shares.waits(each.spec.tenant for each in self.waiting())
        found = [self.candidate(each, residents, now) for each in able]
        return able[choose(found, self._shares.ahead_s(), self._rule, since_overdue=self._since_overdue)]

    def started(self, entry: Entry, now: float) -> None:
        """A job begins. Those that came before it and wait are overtaken."""
        entry.started_s = now
        self._since_overdue = 0 if entry.overtaken >= self._rule.max_overtaken else self._since_overdue + 1
        for each in self.waiting():
            each.overtaken += each.number < entry.number

    def coming(self, entries: Sequence[Entry], residents: Residents, now: float, most: int) -> list[Entry]:
        """The next jobs of some that wait, in order, as far as that is known now."""
        if self._order is Order.FCFS:
            return sorted(entries, key=lambda each: each.number)[:most]
        self._shares.waits(each.spec.tenant for each in self.waiting())
        ahead_s = self._shares.ahead_s()
        heads = self._heads(entries)
        ranks = {each.number: rank(self.candidate(each, residents, now), ahead_s, self._rule) for each in heads}
        return sorted(heads, key=lambda each: ranks[each.number])[:most]

    def _heads(self, entries: Sequence[Entry]) -> list[Entry]:
        """Of jobs that are alike the one that came first: no other one of them can be chosen before it."""
        alike: dict[Any, Entry] = {}
        for each in entries:
            spec = each.spec
            is_own = spec.deadline_s is not None or each.deaths
            name = each.number if is_own else (spec.tenant, spec.package, spec.priority, spec.memory_bytes)
            alike.setdefault(name, each)
        return list(alike.values())
