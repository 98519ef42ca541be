"""Metrics, the present work and timelines, for an operator; a tenant sees its own jobs. Nothing is changed."""

from __future__ import annotations

from collections import deque

from penstock.base.types import Row, Rows
from penstock.service.http.metrics import Labels, by_tenant, work_gauges
from penstock.service.http.service import ServiceFront
from penstock.service.http.timelines import service_timeline
from penstock.service.state.problems import Problem
from penstock.service.work.record import JobRecord, Record, percentiles

MOST_ROWS = 1000
"""Tenants and programs in one answer: those with the most."""
_SHARES = (50, 95, 99)


def metrics_text(service: ServiceFront) -> str:
    """For Prometheus."""
    states: dict[Labels, float] = {(("state", k),): float(n) for k, n in service.state.job_counts().items()}
    snapshot = service.jobs.pool.snapshot(0)
    return service.metrics.text(
        {
            **work_gauges(snapshot),
            "penstock_up": {(): float(not service.jobs.draining)},
            "penstock_jobs": states,
            "penstock_tenant_key_bytes": by_tenant(snapshot.get("key_bytes", {}), _disk(service)),
        }
    )


def _disk(service: ServiceFront) -> dict[str, int]:
    """Tenant -> bytes of its keys on disk."""
    return {row["tenant"]: service.keys.used_bytes(row["tenant"]) for row in service.state.tenants()}


def work(service: ServiceFront, most: int) -> Row:
    """The workers' snapshot with the first `most` waiting jobs, keys by tenant, and latencies by program."""
    snapshot = service.jobs.pool.snapshot(most)
    memory, keys, disk = snapshot.get("key_bytes", {}), snapshot.get("keys", {}), _disk(service)
    ranked = sorted({*memory, *disk}, key=lambda name: (-memory.get(name, 0), -disk.get(name, 0), name))
    tenants = [
        {
            "tenant": name,
            "memory_bytes": memory.get(name, 0),
            "memory_keys": keys.get(name, 0),
            "disk_bytes": disk.get(name, 0),
        }
        for name in ranked[:MOST_ROWS]
    ]
    return {
        **snapshot,
        "at_s": service.state.clock(),
        "tenants": tenants,
        "more_tenants": max(0, len(ranked) - MOST_ROWS),
        "programs": _latencies(service.jobs.pool.recorded())[:MOST_ROWS],
        "draining": service.jobs.draining,
    }


def trace(service: ServiceFront, last: int) -> Row:
    """The timeline of the latest jobs of all tenants."""
    recorded = service.jobs.pool.recorded()
    return service_timeline(recorded, list(recorded.jobs)[-last:], name=lambda job: job.spec.job, counters=True)


def trace_of_job(service: ServiceFront, tenant: str, client_job: str) -> Row:
    """The timeline of one job. Nothing in it is another tenant's.

    Raises: Problem: no such job; 404 of one that did not end lately.
    """
    row, recorded = service.state.known_job(tenant, client_job), service.jobs.pool.recorded()
    own = [job for job in recorded.jobs if job.spec.job == row["job"] and job.spec.tenant == tenant]
    if not own:
        raise Problem(
            404, f"there is no timeline of job '{client_job}', which is {row['state']}", kind="no-trace",
            remedy="ask soon after the job computed: the server remembers the latest jobs since its start",
        )  # fmt: skip
    recorded.reads = deque(read for read in recorded.reads if read.tenant == tenant)
    return service_timeline(recorded, own[-1:], name=lambda _: client_job, counters=False)


def _latencies(recorded: Record) -> Rows:
    """Of each tenant's program: its latest jobs that computed, and percentiles; the most jobs first."""
    groups: dict[tuple[str, str], list[JobRecord]] = {}
    for ended in recorded.jobs:
        if ended.times is not None:
            groups.setdefault((ended.spec.tenant, ended.spec.program), []).append(ended)
    rows = [
        {
            "tenant": tenant,
            "program": program,
            "jobs": len(jobs),
            **percentiles((job.ended_s - job.submitted_s for job in jobs), _SHARES),
            **percentiles((job.started_s - job.submitted_s for job in jobs), _SHARES, "queue_"),
            **percentiles((float(job.figures["compute_s"]) for job in jobs), _SHARES, "compute_"),
        }
        for (tenant, program), jobs in groups.items()
    ]
    return sorted(rows, key=lambda row: -row["jobs"])
