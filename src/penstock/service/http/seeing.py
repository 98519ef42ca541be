"""Metrics, the present work and timelines, for an operator; for a tenant those of its own jobs."""

from __future__ import annotations

import time
from typing import Any

from penstock.service.http.jobs import Jobs
from penstock.service.http.keys import Keys
from penstock.service.http.metrics import Labels, Metrics, by_tenant, percentiles, work_gauges
from penstock.service.http.problems import Problem
from penstock.service.http.state import Row, State
from penstock.service.http.timelines import service_timeline
from penstock.service.work.pool import WorkerPool
from penstock.service.work.record import JobRecord, Recorded

MOST_ROWS = 1000
"""Tenants and programs in one answer: those with the most."""


class Seeing:
    """Questions only: nothing here changes anything."""

    def __init__(self, state: State, keys: Keys, jobs: Jobs, metrics: Metrics, computing: WorkerPool) -> None:
        self._state, self._keys, self._jobs = state, keys, jobs
        self._metrics, self._computing = metrics, computing

    def metrics_text(self) -> str:
        """For Prometheus."""
        states: dict[Labels, float] = {(("state", k),): float(n) for k, n in self._state.job_counts().items()}
        found = self._computing.snapshot(0)
        return self._metrics.text(
            {
                **work_gauges(found),
                "penstock_up": {(): float(not self._jobs.draining)},
                "penstock_jobs": states,
                "penstock_tenant_key_bytes": by_tenant(found.get("key_bytes", {}), self._disk()),
            }
        )

    def _disk(self) -> dict[str, int]:
        """Tenant -> bytes of its keys on disk."""
        return {row["tenant"]: self._keys.used_bytes(row["tenant"]) for row in self._state.tenants()}

    def work(self, most: int) -> Row:
        """The workers' snapshot with the first `most` waiting jobs, keys by tenant, and latencies by program."""
        snapshot, recorded = self._computing.snapshot(most), self._computing.recorded()
        memory, keys, disk = snapshot.get("key_bytes", {}), snapshot.get("keys", {}), self._disk()
        tenants = [
            {
                "tenant": tenant,
                "memory_bytes": memory.get(tenant, 0),
                "memory_keys": keys.get(tenant, 0),
                "disk_bytes": disk.get(tenant, 0),
            }
            for tenant in sorted({*memory, *disk}, key=lambda each: (-memory.get(each, 0), -disk.get(each, 0), each))
        ]
        return {
            **snapshot,
            "at_s": time.time(),
            "tenants": tenants[:MOST_ROWS],
            "more_tenants": max(0, len(tenants) - MOST_ROWS),
            "programs": _latencies(recorded)[:MOST_ROWS],
            "draining": self._jobs.draining,
        }

    def trace(self, last: int) -> dict[str, Any]:
        """The timeline of the latest jobs of all tenants."""
        recorded = self._computing.recorded()
        return service_timeline(recorded, recorded.jobs[-last:], name=lambda each: each.spec.job, counters=True)

    def trace_of_job(self, tenant: str, client_job: str) -> dict[str, Any]:
        """The timeline of one job. Nothing in it is another tenant's.

        Raises: Problem: no such job; 404 of one that did not end lately.
        """
        row = self._jobs.row(tenant, client_job)
        recorded = self._computing.recorded()
        found = [each for each in recorded.jobs if each.spec.job == row["job"] and each.spec.tenant == tenant]
        if not found:
            raise Problem(
                404, f"there is no timeline of job '{client_job}', which is {row['state']}", kind="no-trace",
                remedy="ask soon after the job computed: the server remembers the latest jobs since its start",
            )  # fmt: skip
        own = Recorded(
            jobs=found,
            reads=[each for each in recorded.reads if each.tenant == tenant],
            unix_s=recorded.unix_s,
        )
        return service_timeline(own, found[-1:], name=lambda each: client_job, counters=False)


def _latencies(recorded: Recorded) -> list[Row]:
    """Of each tenant's program: its latest jobs that computed, and percentiles; the most jobs first."""
    groups: dict[tuple[str, str], list[JobRecord]] = {}
    for each in recorded.jobs:
        if each.times is not None:
            groups.setdefault((each.spec.tenant, each.spec.program), []).append(each)
    rows = [
        {"tenant": tenant, "program": program, "jobs": len(jobs), **_times(jobs)}
        for (tenant, program), jobs in groups.items()
    ]
    return sorted(rows, key=lambda each: -each["jobs"])


def _times(jobs: list[JobRecord]) -> Row:
    parts = {
        "": [each.ended_s - each.submitted_s for each in jobs],
        "queue_": [each.started_s - each.submitted_s for each in jobs],
        "compute_": [float(each.figures["compute_s"]) for each in jobs],
    }
    return {f"{part}{name}": value for part, times in parts.items() for name, value in percentiles(times).items()}
