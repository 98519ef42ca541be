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
    server_s: float | None = None
    """From its submission to its end, by the service's clock."""
    server_queue_s: float | None = None
    """Of that, until it began."""

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
        **_percentiles("", latencies, (50, 90, 95, 99)),
        "max_s": latencies[-1] if latencies else None,
        **_percentiles("server_", _server(rows), (50, 95, 99)),
        "generator_late_p99_s": percentile(late, 0.99),
    }


def by_tenant(rows: Sequence[JobRow], duration_s: float, within_s: float | None) -> list[dict[str, Any]]:
    """Jobs, goodput and latencies of each tenant."""
    return [
        {"tenant": tenant, **_group(own, duration_s, within_s)}
        for tenant, own in sorted(_grouped(rows, "tenant").items())
    ]


def by_program(rows: Sequence[JobRow], duration_s: float, within_s: float | None) -> list[dict[str, Any]]:
    """The same of each program. Programs of one name are one, whoever deployed them."""
    return [
        {"program": program, **_group(own, duration_s, within_s)}
        for program, own in sorted(_grouped(rows, "program").items())
    ]


def _grouped(rows: Sequence[JobRow], by: str) -> dict[str, list[JobRow]]:
    groups: dict[str, list[JobRow]] = {}
    for each in rows:
        groups.setdefault(getattr(each, by), []).append(each)
    return groups


def _group(own: Sequence[JobRow], duration_s: float, within_s: float | None) -> dict[str, Any]:
    latencies = sorted(each.latency_s for each in own if each.latency_s is not None)
    good = sum(1 for latency in latencies if within_s is None or latency <= within_s)
    return {
        "jobs": len(own),
        "done": len(latencies),
        "goodput_per_s": good / duration_s if duration_s else None,
        "mean_s": math.fsum(latencies) / len(latencies) if latencies else None,
        **_percentiles("", latencies, (50, 95, 99)),
        **_percentiles("server_", _server(own), (50, 99)),
    }


def _server(rows: Sequence[JobRow]) -> list[float]:
    """Latencies of jobs that computed, by the service's clock."""
    return sorted(each.server_s for each in rows if each.server_s is not None and each.outcome == "done")


def _percentiles(prefix: str, ordered: Sequence[float], which: Sequence[int]) -> dict[str, float | None]:
    return {f"{prefix}p{each}_s": percentile(ordered, each / 100) for each in which}
