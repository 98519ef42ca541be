"""Which waiting job runs next, where jobs arrive when they like.

The job of the least cost goes first: seconds to read what memory lacks of its keys, less a share of its waiting, plus
what its tenant has had ahead of the others beyond what pays for reading its keys. The lead takes back a part of the
waiting at most, so that jobs of a busy tenant wait a few times as long as others', and not without end. Priorities
come first, and next the jobs that just meet their deadline. No job waits without end: once
`max_overtaken` later jobs have gone first it is overdue, and at least each `overdue_every`-th choice is the oldest
overdue one.

`locality` is for a queue that is known as a whole: the job of the smallest share of its key bytes to read goes first,
so that jobs of one tenant, and jobs that share keys, run together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum


class Order(str, Enum):
    """The choice of the next job."""

    WEIGHED = "weighed"
    """By `choose`."""
    FCFS = "fcfs"
    """The one that came first."""
    LOCALITY = "locality"
    """The one of the smallest share of its keys to read, but for overdue ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRule:
    """The weights."""

    read_bytes_per_s: float = 1.5e9
    """Keys from the disk."""
    age_share: float = 0.2
    """Of its waiting, that a job counts as reading saved."""
    amortize: float = 8.0
    """A tenant may be ahead of the others by this many times the seconds of reading its keys."""
    most_slowed: float = 3.0
    """Jobs of a tenant that is ahead count a second of waiting as this part of one at least, 1 / `most_slowed`."""
    max_overtaken: int = 64
    overdue_every: int = 4
    urgent_s: float = 1.0
    """A job with less time than that to spare before its deadline goes first."""


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
    """Later jobs that went first."""


def choose(
    candidates: Sequence[WaitingJob],
    ahead_s: Mapping[str, float],
    rule: OrderRule,
    order: Order = Order.WEIGHED,
    *,
    since_overdue: int = 0,
) -> int:
    """The position of the job that runs next.

    Args:   ahead_s: seconds of machine that each tenant has had beyond the one that has had least (`Shares.ahead_s`).
            since_overdue: choices since the last overdue job was chosen.

    >>> from dataclasses import replace
    >>> far = WaitingJob(number=0, tenant="a", waited_s=1, missing_bytes=10**9, key_bytes=10**9, compute_s=1)
    >>> near = replace(far, number=1, missing_bytes=0)
    >>> choose([far, near], {}, OrderRule()), choose([replace(far, priority=1), near], {}, OrderRule())
    (1, 0)
    """
    if since_overdue + 1 >= rule.overdue_every:
        overdue = [(job.number, at) for at, job in enumerate(candidates) if job.overtaken >= rule.max_overtaken]
        if overdue:
            return min(overdue)[1]
    return min(range(len(candidates)), key=lambda at: rank(candidates[at], ahead_s, rule, order))


def rank(
    candidate: WaitingJob, ahead_s: Mapping[str, float], rule: OrderRule, order: Order = Order.WEIGHED
) -> tuple[int, int, float, int]:
    """The least goes first."""
    if order is Order.LOCALITY:
        return 0, 0, candidate.missing_bytes / max(1, candidate.key_bytes), candidate.number
    service_s = max(candidate.compute_s, candidate.missing_bytes / rule.read_bytes_per_s)
    if candidate.left_s is not None and service_s <= candidate.left_s <= service_s + max(rule.urgent_s, service_s):
        return -candidate.priority, 0, candidate.left_s - service_s, candidate.number
    return -candidate.priority, 1, cost_s(candidate, ahead_s, rule), candidate.number


def cost_s(candidate: WaitingJob, ahead_s: Mapping[str, float], rule: OrderRule) -> float:
    """Seconds of reading, less a share of the waiting, plus the tenant's lead beyond what pays for reading its keys.

    The lead is limited to what leaves the share of waiting 1 / `most_slowed` of itself.
    """
    allowed_s = rule.amortize * candidate.key_bytes / rule.read_bytes_per_s
    aged_s = rule.age_share * candidate.waited_s
    lead_s = min(max(0.0, ahead_s.get(candidate.tenant, 0.0) - allowed_s), aged_s * (1 - 1 / rule.most_slowed))
    return candidate.missing_bytes / rule.read_bytes_per_s - aged_s + lead_s


class Shares:
    """The seconds of machine that each tenant has had. One that comes back after a pause has saved nothing up."""

    def __init__(self) -> None:
        self._had_s: dict[str, float] = {}
        self._waiting: set[str] = set()

    def waits(self, tenants: Iterable[str]) -> None:
        """The tenants with waiting jobs now."""
        now = set(tenants)
        floor = min((self._had_s.get(name, 0.0) for name in self._waiting & now), default=None)
        if floor is None:
            floor = max(self._had_s.values(), default=0.0)
        for tenant in now - self._waiting:
            self._had_s[tenant] = max(self._had_s.get(tenant, 0.0), floor)
        self._waiting = now

    def had(self, tenant: str, seconds: float) -> None:
        """A job of the tenant took so long."""
        self._had_s[tenant] = self._had_s.get(tenant, 0.0) + seconds

    def ahead_s(self) -> dict[str, float]:
        """Of each tenant with waiting jobs: what it has had beyond the one that has had least."""
        least = min((self._had_s[name] for name in self._waiting), default=0.0)
        return {name: self._had_s[name] - least for name in self._waiting}

    def forget(self, tenant: str) -> None:
        """The tenant is gone."""
        self._had_s.pop(tenant, None)
        self._waiting.discard(tenant)
