"""Which waiting job runs next, where jobs arrive when they like.

First the tenant, and then one of its jobs. The turn is the tenant's that has had least of the machine, where each
second of reading keys that memory lacks counts as `amortize` seconds had, and no more than `turn_s`: jobs of one tenant
so run together, and no tenant gets further ahead than that while others wait. What a tenant says of its jobs, and how
many it sends, orders its own jobs only.

Of its own jobs, priorities come first, and next the jobs that just meet their deadline. Then the job of the least cost:
seconds to read what memory lacks of its keys, less a share of its waiting. No job waits without end: once
`max_overtaken` later ones of its tenant have gone first it is overdue, and at least each `overdue_every`-th job of the
tenant is its oldest overdue one.

`locality` is for a queue that is known as a whole, as if it were of one tenant: the job of the smallest share of its
key bytes to read goes first, so that jobs of one tenant, and jobs that share keys, run together.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum


class Order(str, Enum):
    """The choice of the next job."""

    WEIGHED = "weighed"
    """By `choose`."""
    FCFS = "fcfs"
    """The one that came first, whoever sends most."""
    LOCALITY = "locality"
    """The one of the smallest share of its keys to read, but for overdue ones."""

    def group(self, tenant: str) -> str:
        """Whose jobs are ordered among each other."""
        return tenant if self is Order.WEIGHED else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRule:
    """The weights."""

    read_bytes_per_s: float = 1.5e9
    """Keys from the disk."""
    age_share: float = 0.2
    """Of its waiting, that a job counts as reading saved, among its tenant's."""
    amortize: float = 8.0
    """A tenant may be ahead of another by this many times the seconds of reading the other's keys."""
    turn_s: float = 2.0
    """And by no more than that."""
    max_overtaken: int = 64
    overdue_every: int = 4
    urgent_s: float = 1.0
    """A job with less time than that to spare before its deadline goes before its tenant's others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """A waiting job."""

    number: int
    """In the order of arrival."""
    tenant: str
    waited_s: float
    missing_bytes: int
    """Of its keys, that are not in memory."""
    key_bytes: int
    """Of its keys in all."""
    compute_s: float
    priority: int = 0
    """0 to 9; a higher one goes first."""
    left_s: float | None = None
    """Until its deadline; `None`: it has none."""
    overtaken: int = 0
    """Later jobs of its tenant that went first; under `locality`, of all tenants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Of a tenant with waiting jobs."""

    ahead_s: float = 0.0
    """Seconds of machine that it has had beyond the one that has had least."""
    saved_s: float = 0.0
    """That it had less than the others while it sent nothing: they pay for reading keys, and for nothing else."""
    last_turn: int = -1
    """The greater, the later it had the machine."""
    since_overdue: int = 0
    """Its jobs that began since the last overdue one."""


_NEW = Standing()


def choose(
    candidates: Sequence[WaitingJob],
    standings: Mapping[str, Standing],
    rule: OrderRule,
    order: Order = Order.WEIGHED,
) -> int:
    """The position of the job that runs next.

    >>> from dataclasses import replace
    >>> far = WaitingJob(number=0, tenant="a", waited_s=1, missing_bytes=10**8, key_bytes=10**8, compute_s=1)
    >>> near = replace(far, number=1, missing_bytes=0, tenant="b")
    >>> choose([far, near], {}, OrderRule()), choose([replace(far, priority=9), near], {}, OrderRule())
    (1, 1)
    >>> choose([far, near], {"b": Standing(ahead_s=1.0)}, OrderRule())
    0
    """
    return coming(candidates, standings, rule, order, 1)[0]


def coming(
    candidates: Sequence[WaitingJob],
    standings: Mapping[str, Standing],
    rule: OrderRule,
    order: Order,
    most: int,
) -> list[int]:
    """The positions of the next jobs, in order, as if each took what is predicted, and no keys came or left."""
    own: dict[str, list[int]] = {}
    for at, job in enumerate(candidates):
        own.setdefault(order.group(job.tenant), []).append(at)
    known = {name: standings.get(name, _NEW) for name in own}
    turns = []
    for name, positions in own.items():
        # The first one is the last here.
        positions.sort(key=lambda at: rank(candidates[at], rule, order), reverse=True)
        if known[name].since_overdue + 1 >= rule.overdue_every:
            overdue = [at for at in positions if candidates[at].overtaken >= rule.max_overtaken]
            if overdue:
                due = min(overdue, key=lambda at: candidates[at].number)
                positions.remove(due)
                positions.append(due)
        oldest = min(candidates[at].number for at in positions)
        turns.append((*turn(candidates[positions[-1]], known[name], rule), oldest, name))
    heapq.heapify(turns)
    chosen: list[int] = []
    while turns and len(chosen) < most:
        *_, oldest, name = turns[0]
        at = own[name].pop()
        chosen.append(at)
        if not own[name]:
            heapq.heappop(turns)
            continue
        known[name] = replace(known[name], ahead_s=known[name].ahead_s + candidates[at].compute_s, saved_s=0.0)
        heapq.heapreplace(turns, (*turn(candidates[own[name][-1]], known[name], rule), oldest, name))
    return chosen


def turn(candidate: WaitingJob, standing: Standing, rule: OrderRule) -> tuple[float, int]:
    """Of the first job of each tenant, the least goes first; among equals, the tenant of the oldest job."""
    price_s = min(rule.amortize * candidate.missing_bytes / rule.read_bytes_per_s, rule.turn_s)
    return standing.ahead_s + max(0.0, price_s - standing.saved_s), standing.last_turn


def rank(candidate: WaitingJob, rule: OrderRule, order: Order = Order.WEIGHED) -> tuple[int, int, float, int]:
    """Of a tenant's jobs, the least goes first."""
    if order is Order.LOCALITY:
        return 0, 0, candidate.missing_bytes / max(1, candidate.key_bytes), candidate.number
    read_s = candidate.missing_bytes / rule.read_bytes_per_s
    service_s = max(candidate.compute_s, read_s)
    if candidate.left_s is not None and service_s <= candidate.left_s <= service_s + max(rule.urgent_s, service_s):
        return -candidate.priority, 0, candidate.left_s - service_s, candidate.number
    return -candidate.priority, 1, read_s - rule.age_share * candidate.waited_s, candidate.number


class Shares:
    """The seconds of machine that each tenant has had. One that comes back after a pause has saved up what pays for
    reading its keys, `most_saved_s` at most."""

    def __init__(self, most_saved_s: float = 0.0) -> None:
        self._most_saved_s = most_saved_s
        self._had_s: dict[str, float] = {}
        """Of jobs that ended."""
        self._saved_s: dict[str, float] = {}
        self._last_turn: dict[str, int] = {}
        self._since_overdue: dict[str, int] = {}
        self._turns = 0
        self._active: set[str] = set()

    def arrives(self, tenant: str) -> None:
        """It has jobs that wait or run, and had none."""
        floor, had_s = self._floor(), self._had_s.get(tenant, 0.0)
        if had_s < floor:
            self._saved_s[tenant] = min(self._most_saved_s, floor - had_s)
        self._had_s[tenant] = max(had_s, floor)
        self._active.add(tenant)

    def leaves(self, tenant: str) -> None:
        """Its last job is gone."""
        self._active.discard(tenant)

    def _floor(self) -> float:
        """What the one of the active tenants has had that has had least; where there is none, the one that most."""
        active = [self._had_s[name] for name in self._active]
        return min(active) if active else max(self._had_s.values(), default=0.0)

    def began(self, tenant: str, *, is_overdue: bool = False) -> None:
        """It has the machine."""
        self._saved_s.pop(tenant, None)
        self._turns += 1
        self._last_turn[tenant] = self._turns
        self._since_overdue[tenant] = 0 if is_overdue else self._since_overdue.get(tenant, 0) + 1

    def had(self, tenant: str, seconds: float) -> None:
        """A job of the tenant took so long."""
        self._had_s[tenant] = self._had_s.get(tenant, 0.0) + seconds

    def standings(self, running_s: Mapping[str, float]) -> dict[str, Standing]:
        """Of each active tenant. `running_s`: seconds of its jobs that run."""
        had_s = {name: self._had_s[name] + running_s.get(name, 0.0) for name in self._active}
        least = min(had_s.values(), default=0.0)
        return {
            name: Standing(
                ahead_s=had_s[name] - least,
                saved_s=self._saved_s.get(name, 0.0),
                last_turn=self._last_turn.get(name, -1),
                since_overdue=self._since_overdue.get(name, 0),
            )
            for name in self._active
        }

    def forget(self, tenant: str) -> None:
        """The tenant is gone. What it has had is kept as long as it counts: one of its name gains nothing."""
        floor = self._floor()
        for name in [name for name, had_s in self._had_s.items() if had_s < floor and name not in self._active]:
            for kept in (self._had_s, self._saved_s, self._last_turn, self._since_overdue):
                kept.pop(name, None)
