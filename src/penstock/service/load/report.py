"""Jobs of a load in numbers: percentiles, goodput, refusals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One job of a load. Times are seconds from the beginning of the load."""

    tenant: str
    program: str
    job: str
    due_s: float
    """When it arrived, by the plan."""
    sent_s: float
    """When its request left: later where the generator is behind."""
    accepted_s: float | None
    ended_s: float | None
    """When the last byte of its results was here."""
    outcome: str
    """`done`, `failed`, `cancelled`, `expired`, `refused` (429, 503), `error`, `unsent`."""
    status: int | None = None
    """Of HTTP, of a refusal or an error."""
    result_bytes: int = 0

    @property
    def latency_s(self) -> float | None:
        """From the arrival to the last byte, where it computed: a generator that is behind does not hide waiting."""
        return None if self.outcome != "done" or self.ended_s is None else self.ended_s - self.due_s

    def as_row(self) -> dict[str, Any]:
        """Fields and latency."""
        return {**asdict(self), "latency_s": self.latency_s}


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The smallest value that at least `share` of the values do not exceed; `None` of none.

    >>> [percentile([1.0, 2.0, 3.0, 4.0], share) for share in (0.5, 0.51, 1.0)]
    [2.0, 3.0, 4.0]
    """
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def summary(rows: Sequence[JobRow], duration_s: float, within_s: float | None) -> dict[str, Any]:
    """A load in one object.

    Args:   duration_s: from the beginning to the last end. within_s: a job counts as good up to this latency.
    """
    latencies = sorted(each.latency_s for each in rows if each.latency_s is not None)
    outcomes = Counter(each.outcome for each in rows)
    good = sum(1 for latency in latencies if within_s is None or latency <= within_s)
    late = sorted(each.sent_s - each.due_s for each in rows if each.outcome != "unsent")
    return {
        "jobs": len(rows),
        **{
            name: outcomes.get(name, 0)
            for name in ("done", "failed", "cancelled", "expired", "refused", "error", "unsent")
        },
        "duration_s": duration_s,
        "offered_per_s": len(rows) / duration_s if duration_s else None,
        "done_per_s": len(latencies) / duration_s if duration_s else None,
        "goodput_per_s": good / duration_s if duration_s else None,
        "within_s": within_s,
        "mean_s": math.fsum(latencies) / len(latencies) if latencies else None,
        "p50_s": percentile(latencies, 0.50),
        "p90_s": percentile(latencies, 0.90),
        "p95_s": percentile(latencies, 0.95),
        "p99_s": percentile(latencies, 0.99),
        "max_s": latencies[-1] if latencies else None,
        "generator_late_p99_s": percentile(late, 0.99),
    }


def by_tenant(rows: Sequence[JobRow]) -> list[dict[str, Any]]:
    """Jobs and latencies of each tenant."""
    groups: dict[str, list[JobRow]] = {}
    for each in rows:
        groups.setdefault(each.tenant, []).append(each)
    found = []
    for tenant, own in sorted(groups.items()):
        latencies = sorted(each.latency_s for each in own if each.latency_s is not None)
        found.append(
            {
                "tenant": tenant,
                "jobs": len(own),
                "done": len(latencies),
                "mean_s": math.fsum(latencies) / len(latencies) if latencies else None,
                "p50_s": percentile(latencies, 0.50),
                "p99_s": percentile(latencies, 0.99),
            }
        )
    return found
