"""Plays arrivals through an order on paper: one job at a time, keys under a budget, no cryptography.

Two caches: LRU on request (a job reads what is missing, then computes), and the known plan (reading overlaps with
computing, and those rows leave that the waiting jobs use last).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.service.work.order import Candidate, Order, Rule, Shares, choose, cost_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A program."""

    compute_s: float
    key_bytes: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A job."""

    at_s: float
    tenant: str
    kind: str


@dataclass(slots=True, kw_only=True)
class Played:
    """What became of the jobs."""

    total_s: float = 0.0
    read_bytes: int = 0
    latencies_s: list[float] = field(default_factory=list)
    """In the order of arrival."""
    order: list[int] = field(default_factory=list)
    most_overtaken: int = 0


Key = tuple[str, str]


class Cache:
    """Keys in memory: (tenant, key) -> bytes."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes, self.used_bytes = budget_bytes, 0
        self.keys: OrderedDict[Key, int] = OrderedDict()

    def missing(self, needs: Mapping[Key, int]) -> int:
        return sum(size for key, size in needs.items() if key not in self.keys)

    def use(self, needs: Mapping[Key, int], next_use: Mapping[Key, int] | None) -> int:
        """Read the missing rows; their bytes. The least recently used leave, or the last of `next_use`."""
        read = self.missing(needs)
        if next_use is None:
            leaving = [key for key in self.keys if key not in needs]
        else:
            never = len(next_use) + 1
            leaving = [key for key in self.keys if key not in needs]
            leaving.sort(key=lambda key: -next_use.get(key, never))
        for key in needs:
            if key in self.keys:
                self.keys.move_to_end(key)
        for key in leaving:
            if self.used_bytes + read <= self.budget_bytes:
                break
            self.used_bytes -= self.keys.pop(key)
        for key, size in needs.items():
            if key not in self.keys:
                self.keys[key] = size
                self.used_bytes += size
        return read


def play(
    arrivals: Sequence[Arrival],
    kinds: Mapping[str, Kind],
    budget_bytes: int,
    *,
    order: Order,
    known_plan: bool,
    rule: Rule,
) -> Played:
    """Run all jobs."""
    needs = [{(each.tenant, key): size for key, size in kinds[each.kind].key_bytes.items()} for each in arrivals]
    cache, shares, found = Cache(budget_bytes), Shares(), Played(latencies_s=[0.0] * len(arrivals))
    waiting: dict[int, int] = {}
    now, arrived, since_overdue = 0.0, 0, 0
    while waiting or arrived < len(arrivals):
        if not waiting:
            now = max(now, arrivals[arrived].at_s)
        while arrived < len(arrivals) and arrivals[arrived].at_s <= now:
            waiting[arrived] = 0
            arrived += 1
        next_use = None
        if order is Order.FCFS:
            chosen = next(iter(waiting))
            if known_plan:
                next_use = _next_uses(list(waiting)[1:], needs)
        else:
            shares.waits({arrivals[each].tenant for each in waiting})
            ahead_s = shares.ahead_s()
            heads = _heads(waiting, arrivals)
            candidates = [_candidate(at, arrivals, kinds, needs, cache, now, waiting[at]) for at in heads]
            chosen = heads[choose(candidates, ahead_s, rule, since_overdue=since_overdue)]
            ranked = sorted(candidates, key=lambda each: cost_s(each, ahead_s, rule))
            next_use = _next_uses([each.number for each in ranked if each.number != chosen], needs)
        oldest = next((each for each, overtaken in waiting.items() if overtaken >= rule.max_overtaken), None)
        del waiting[chosen]
        since_overdue = 0 if chosen == oldest else since_overdue + 1
        for each in waiting:
            if each > chosen:
                break
            waiting[each] += 1
            found.most_overtaken = max(found.most_overtaken, waiting[each])
        read = cache.use(needs[chosen], next_use if known_plan else None)
        compute_s, read_s = kinds[arrivals[chosen].kind].compute_s, read / rule.read_bytes_per_s
        took_s = max(compute_s, read_s) if known_plan else compute_s + read_s
        now += took_s
        shares.had(arrivals[chosen].tenant, took_s)
        found.read_bytes += read
        found.latencies_s[chosen] = now - arrivals[chosen].at_s
        found.order.append(chosen)
    found.total_s = now
    return found


def clairvoyant_s(arrivals: Sequence[Arrival], kinds: Mapping[str, Kind], rule: Rule) -> float:
    """A bound on any order of a backlog: all computing, or each key read once, whichever takes longer."""
    compute_s = sum(kinds[each.kind].compute_s for each in arrivals)
    keys = {(each.tenant, key): size for each in arrivals for key, size in kinds[each.kind].key_bytes.items()}
    return max(compute_s, sum(keys.values()) / rule.read_bytes_per_s)


def draw(
    rng: np.random.Generator, count: int, tenants: int, zipf: float, kinds: Sequence[str], per_s: float | None
) -> list[Arrival]:
    """Jobs of Zipf-distributed tenants, of kinds with equal chances: Poisson arrivals, or (`None`) all at once."""
    weights = 1.0 / np.arange(1, tenants + 1) ** zipf
    who = rng.choice(tenants, size=count, p=weights / weights.sum())
    what = rng.integers(len(kinds), size=count)
    times = np.zeros(count) if per_s is None else np.cumsum(rng.exponential(1.0 / per_s, size=count))
    return [
        Arrival(at_s=at, tenant=f"tenant-{one}", kind=kinds[kind])
        for at, one, kind in zip(times.tolist(), who.tolist(), what.tolist(), strict=True)
    ]


def _heads(waiting: Mapping[int, int], arrivals: Sequence[Arrival]) -> list[int]:
    """The first of the jobs that are alike."""
    heads: dict[tuple[str, str], int] = {}
    for each in waiting:
        heads.setdefault((arrivals[each].tenant, arrivals[each].kind), each)
    return list(heads.values())


def _candidate(
    at: int,
    arrivals: Sequence[Arrival],
    kinds: Mapping[str, Kind],
    needs: Sequence[Mapping[Key, int]],
    cache: Cache,
    now: float,
    overtaken: int,
) -> Candidate:
    return Candidate(
        number=at,
        tenant=arrivals[at].tenant,
        waited_s=now - arrivals[at].at_s,
        missing_bytes=cache.missing(needs[at]),
        key_bytes=sum(needs[at].values()),
        compute_s=kinds[arrivals[at].kind].compute_s,
        overtaken=overtaken,
    )


def _next_uses(order: Sequence[int], needs: Sequence[Mapping[Key, int]]) -> dict[Key, int]:
    """Key -> its place in the order of the next uses."""
    found: dict[Key, int] = {}
    for job in order:
        for key in needs[job]:
            found.setdefault(key, len(found))
    return found
