"""The report of a queue: one flat row a job, and one of the queue, measured next to simulated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.keystore.cache import CacheStats
from penstock.native.play import ReadRates
from penstock.service.client import PreparedJob
from penstock.service.queue import Policy, Scheduling
from penstock.service.run import JobResult, demand_of
from penstock.service.simulated import simulate_queue

SIMULATED = ("simulated_s", "simulated_read_bytes", "bound_s", "measured_over_bound")
"""Values of `queue_row` that a simulation has a part in; the others are settings of the queue, or measured."""
STATED = ("scheduling", "policy", "jobs", "key_budget_bytes")
"""Values of `queue_row` that the queue's files state."""


def job_row(result: JobResult, check: Any) -> dict[str, Any]:
    """One job. `check`: the workload's comparison with its clear result; `None`: the job failed before it had one."""
    prepared = result.prepared
    job = prepared.job
    passed = check is not None and bool(check.passed)
    error = result.error if check is None else None if passed else "; ".join(check.rules)
    return {
        "job": job.number, "tenant": job.tenant, "workload": job.workload, "size": prepared.size,
        "params": prepared.params.name, "position": result.position, "wait_s": result.wait_s, "run_s": result.run_s,
        "key_wait_s": result.key_wait_s, "key_bytes": prepared.key_bytes, "key_read_bytes": result.key_read_bytes,
        "hits": result.hits, "misses": result.misses, "evictions": result.evictions, "passed": passed,
        "max_abs_error": None if check is None else check.max_abs_error, "error": error, "provenance": "measured",
    }  # fmt: skip


def queue_row(
    done: Sequence[JobResult],
    order: Sequence[PreparedJob],
    scheduling: Scheduling,
    policy: Policy,
    budget_bytes: int,
    stats: CacheStats,
    interrupted: bool = False,
) -> dict[str, Any]:
    """The queue. Simulated figures take each job's computing time and the disk's rate from this run; what reading took
    from computing is in them.

    `bound_s`: the least that these jobs could take in this order, keeping by the known future what saves most bytes.
    They are `None` where a job failed or nothing was read.
    """
    measured_s = max((each.wait_s + each.run_s for each in done), default=0.0)
    ended = [each for each in done if each.error is None]
    row: dict[str, Any] = {
        "scheduling": scheduling.value, "policy": policy.value, "jobs": len(order), "finished": len(ended),
        "failed": len(done) - len(ended), "interrupted": interrupted, "key_budget_bytes": budget_bytes,
        "measured_s": measured_s, "jobs_per_s": len(ended) / measured_s if measured_s else None,
        "key_bytes": sum(each.prepared.key_bytes for each in ended), "key_read_bytes": stats.read_bytes,
        "key_expanded_bytes": stats.expanded_bytes,
        "hits": stats.hits, "misses": stats.misses, "peak_resident_bytes": stats.peak_resident_bytes,
        "disk_bytes_per_s": stats.read_bytes / stats.read_s if stats.read_s else None,
        "simulated_s": None, "simulated_read_bytes": None, "bound_s": None, "measured_over_bound": None,
    }  # fmt: skip
    if len(ended) < len(order) or not ended or row["disk_bytes_per_s"] is None:
        return row
    demands = [demand_of(each.prepared) for each in ended]
    compute_s = [each.run_s - each.key_wait_s for each in ended]
    # Rows come into memory from the disk or from a seed; the simulation counts both.
    loaded_bytes_per_s = (stats.read_bytes + stats.expanded_bytes) / stats.read_s
    places, reading = range(len(ended)), ReadRates(bytes_per_s=loaded_bytes_per_s)
    played = simulate_queue(demands, compute_s, places, policy, budget_bytes, reading)
    bound = simulate_queue(demands, compute_s, places, Policy.FUTURE, budget_bytes, reading, bound=True)
    row |= {
        "simulated_s": played.total_s,
        "simulated_read_bytes": played.read_bytes,
        "bound_s": bound.total_s,
        "measured_over_bound": measured_s / bound.total_s,
    }
    return row
