"""A queue of jobs of 8 tenants under a budget of a quarter of their keys: `locality` with the known future beside
`fifo` with LRU, each beside its simulation.

    .venv/bin/python benchmarks/bench_tenants.py --folder FOLDER [--threads 1] [--format json]

The queue is stored in `benchmarks/data/tenants_zipf.toml` (`--write-queue` makes it again: tenants by Zipf's law with
exponent 1.0, inner products and, one time in four, filter-aggregates; seed 7). FOLDER keeps the keys (5 GB) for another
run and says which disk is measured. Inputs are encrypted before the clocks start. What the simulation is told is
measured apart: computing, with a job's keys in memory; the disk, while nothing computes.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from penstock.keystore import KeyStore
from penstock.program.native_study import read_rates, timed_reads
from penstock.service.client import Clients, PreparedJob
from penstock.service.queue import Policy, Scheduling, load_jobs
from penstock.service.run import JobResult, QueueRunner, demand_of
from penstock.service.schedule import order_jobs
from penstock.service.simulated import simulate_queue

QUEUE = Path(__file__).parent / "data" / "tenants_zipf.toml"
TENANTS = tuple(f"tenant-{i}" for i in range(8))
BUDGET_SHARE = 0.25
MAX_OVERTAKEN = 64
JOBS = 48
RUNS = (
    (Scheduling.FIFO, Policy.LRU),
    (Scheduling.LOCALITY, Policy.FUTURE),
    (Scheduling.FIFO, Policy.FUTURE),
    (Scheduling.LOCALITY, Policy.LRU),
)


def write_queue() -> None:
    """The stored queue."""
    random = np.random.default_rng(7)
    weights = 1 / np.arange(1, len(TENANTS) + 1)
    rows = []
    for number in range(JOBS):
        tenant = TENANTS[random.choice(len(TENANTS), p=weights / weights.sum())]
        workload = "filter-aggregate" if random.random() < 0.25 else "inner-product"
        rows.append(
            f'[[job]]\ntenant = "{tenant}"\nworkload = "{workload}"\nsize = "ci"\nparams = "openfhe-bench"\n'
            f"seed = {number}\n"
        )
    QUEUE.parent.mkdir(exist_ok=True)
    QUEUE.write_text("# Made by bench_tenants.py --write-queue: 8 tenants, Zipf 1.0, seed 7.\n\n" + "\n".join(rows))


def computing(store: KeyStore, jobs: list[PreparedJob], budget_bytes: int, threads: int) -> list[float]:
    """Seconds of each job with its keys in memory: the least of three runs of one job of each kind."""
    seconds: dict[str, float] = {}
    for job in jobs:
        if job.job.workload not in seconds:
            runner = QueueRunner(store, budget_bytes, Policy.LRU, threads=threads)
            results = list(runner.run([job] * 4))[1:]
            seconds[job.job.workload] = min(each.run_s - each.key_wait_s for each in results)
    return [seconds[job.job.workload] for job in jobs]


def checked(clients: Clients, results: list[JobResult]) -> bool:
    """Whether every job ended with its clear result."""
    return all(
        each.error is None
        and clients.of(each.prepared.job).check(each.prepared.job, each.prepared.size, each.outputs).passed
        for each in results
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="key store; its disk is measured")
    parser.add_argument("--threads", type=int, default=1, help="of computing, beside the thread that reads")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--runs", type=int, default=len(RUNS), help="of fifo + lru, locality + future, and their mixtures"
    )
    parser.add_argument("--check", action="store_true", help="decrypt every result")
    parser.add_argument("--write-queue", action="store_true")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    options = parser.parse_args()
    if options.write_queue:
        write_queue()
        return
    if options.folder is None:
        parser.error("--folder says where the keys are")

    clients = Clients(options.folder)
    jobs = load_jobs(QUEUE, TENANTS)
    prepared = [clients.of(job).prepare(job) for job in jobs]
    demands = [demand_of(job) for job in prepared]
    sizes = {
        key: job.params.key_bytes() for job, demand in zip(prepared, demands, strict=True) for key in demand.largest()
    }
    all_bytes = sum(sizes.values())
    budget = round(BUDGET_SHARE * all_bytes)
    store = KeyStore(options.folder)
    compute_s = computing(store, prepared, budget, options.threads)
    keys = sorted({key for key, _ in prepared[0].uses})
    rows: list[dict[str, Any]] = []
    for scheduling, policy in RUNS[: options.runs] * options.rounds:
        alone = timed_reads(store, prepared[0].job.tenant, prepared[0].params, keys)
        disk = read_rates([alone], prepared[0].params.key_bytes()).bytes_per_s
        order = order_jobs(demands, scheduling, budget, MAX_OVERTAKEN)
        runner = QueueRunner(store, budget, policy, threads=options.threads)
        results = list(runner.run([prepared[at] for at in order]))
        total_s = results[-1].wait_s + results[-1].run_s
        stats = runner.cache.stats()
        played = simulate_queue(demands, compute_s, order, policy, budget, disk)
        bound = simulate_queue(demands, compute_s, order, Policy.FUTURE, budget, disk, bound=True)
        rows.append(
            {
                "scheduling": scheduling.value, "policy": policy.value, "threads": options.threads, "jobs": len(jobs),
                "measured_s": total_s, "jobs_per_s": len(jobs) / total_s, "simulated_s": played.total_s,
                "bound_s": bound.total_s, "of_bound": bound.total_s / total_s, "compute_s": sum(compute_s),
                "job_compute_s": sum(each.run_s - each.key_wait_s for each in results),
                "disk_bytes_per_s": disk, "key_read_bytes": stats.read_bytes, "simulated_read_bytes": played.read_bytes,
                "hits": stats.hits, "misses": stats.misses, "key_wait_s": stats.wait_s,
                "longest_wait_s": max(each.wait_s for each in results),
                "mean_wait_s": sum(each.wait_s for each in results) / len(results),
                "failed": sum(each.error is not None for each in results),
                "passed": checked(clients, results) if options.check else None,
                "budget_bytes": budget, "all_key_bytes": all_bytes,
            }
        )  # fmt: skip
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    if options.format == "json":
        json.dump(rows, sys.stdout, indent=1)
        return
    base = rows[0]["jobs_per_s"]
    for row in rows:
        print(
            f"{row['scheduling']:9} {row['policy']:7} {row['measured_s']:6.1f} s  {row['jobs_per_s']:.3f} jobs/s "
            f"({row['jobs_per_s'] / base:.2f} x)  simulated {row['simulated_s']:.1f} s, bound {row['bound_s']:.1f} s "
            f"({row['of_bound']:.0%})  {row['key_read_bytes'] / 1e9:.1f} GB at {row['disk_bytes_per_s'] / 1e9:.2f} GB/s"
        )


if __name__ == "__main__":
    main()
