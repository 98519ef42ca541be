"""Jobs of a load in numbers: percentiles, goodput, refusals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from penstock.base.types import Row, Rows
from penstock.service.work.record import percentiles


@dataclass(slots=True, kw_only=True)
class JobRow:
    """One job of a load, in flight or ended. Times are seconds from the beginning of the load."""

    tenant: str
    program: str
    job: str
    due_s: float
    """When it arrived, by the plan."""
    sent_s: float | None = None
    """When its request left: later where the generator is behind."""
    accepted_s: float | None = None
    ended_s: float | None = None
    """When the last byte of its results was here."""
    outcome: str = ""
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

    def as_row(self) -> Row:
        """Fields and latency."""
        return {**asdict(self), "latency_s": self.latency_s}


def summary(rows: Sequence[JobRow], duration_s: float, within_s: float | None) -> Row:
    """A load in one object.

    Args:   duration_s: from the beginning to the last end. within_s: a job counts as good up to this latency.
    """
    outcomes = Counter(row.outcome for row in rows)
    latencies = _latencies(rows, duration_s, within_s, (50, 90, 95, 99))
    late = sorted(row.sent_s - row.due_s for row in rows if row.sent_s is not None and row.outcome != "unsent")
    return {
        "jobs": len(rows),
        **{
            name: outcomes.get(name, 0)
            for name in ("done", "failed", "cancelled", "expired", "refused", "error", "unsent")
        },
        "duration_s": duration_s,
        "offered_per_s": len(rows) / duration_s if duration_s else None,
        "done_per_s": latencies.pop("done") / duration_s if duration_s else None,
        "goodput_per_s": latencies.pop("goodput_per_s"),
        "within_s": within_s,
        **latencies,
        "max_s": max((row.latency_s for row in rows if row.latency_s is not None), default=None),
        **percentiles(_server(rows), (50, 95, 99), "server_"),
        **percentiles(late, (99,), "generator_late_"),
    }


def by(name: str, rows: Sequence[JobRow], duration_s: float, within_s: float | None) -> Rows:
    """Jobs, goodput and latencies of each `tenant`, or of each `program`, whoever deployed it."""
    groups: dict[str, list[JobRow]] = {}
    for row in rows:
        groups.setdefault(getattr(row, name), []).append(row)
    return [
        {
            name: group,
            "jobs": len(own),
            **_latencies(own, duration_s, within_s, (50, 95, 99)),
            **percentiles(_server(own), (50, 99), "server_"),
        }
        for group, own in sorted(groups.items())
    ]


def _latencies(rows: Sequence[JobRow], duration_s: float, within_s: float | None, which: Sequence[int]) -> Row:
    latencies = sorted(row.latency_s for row in rows if row.latency_s is not None)
    good = sum(1 for latency in latencies if within_s is None or latency <= within_s)
    return {
        "done": len(latencies),
        "goodput_per_s": good / duration_s if duration_s else None,
        "mean_s": math.fsum(latencies) / len(latencies) if latencies else None,
        **percentiles(latencies, which),
    }


def _server(rows: Sequence[JobRow]) -> list[float]:
    """Latencies of jobs that computed, by the service's clock."""
    return sorted(row.server_s for row in rows if row.server_s is not None and row.outcome == "done")
