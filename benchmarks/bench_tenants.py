"""A queue of jobs of 8 tenants under a budget of a quarter of their keys: `locality` with the known future beside
`fifo` with LRU, each beside its simulation.

    .venv/bin/python benchmarks/bench_tenants.py --folder FOLDER [--threads 1] [--format json]

The queue is stored in `benchmarks/data/tenants_zipf.toml` (`--write-queue` makes it again: tenants by Zipf's law with
exponent 1.0, inner products and, one time in four, filter-aggregates; seed 7). FOLDER keeps the keys (5 GB) for another
run and says which disk is measured. Inputs are encrypted before the clocks start. What the simulation is told is
measured apart, before the runs and after them: how long a job of each kind computes with its keys in memory, alone and
beside a thread that reads keys without end; the disk, while nothing computes and beside those jobs. The bound takes the
fastest job of each kind, the simulation the middle one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from penstock.keystore import KeyStore
from penstock.native.play import ReadRates
from penstock.native.reads import Beside, KeyReads, ReaderBeside, bytes_per_s, rates_of, timed_reads
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
REPEATED = 5
"""Jobs of each kind that are measured apart, each time."""
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


@dataclass(slots=True)
class Apart:
    """What was measured apart from the runs. Lists are by workload: seconds of computing of one job after the other."""

    alone_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    beside_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    reads: list[KeyReads] = field(default_factory=list)
    beside_bytes_per_s: list[float] = field(default_factory=list)

    def measure(self, store: KeyStore, jobs: list[PreparedJob], budget_bytes: int, threads: int) -> None:
        """Once more: the first job of each kind, `REPEATED` times alone and as often beside a reader."""
        params, tenant, keys = jobs[0].params, jobs[0].job.tenant, keys_of(jobs)
        self.reads.append(timed_reads(store, tenant, params, keys))
        for kind in sorted({job.job.workload for job in jobs}):
            job = next(job for job in jobs if job.job.workload == kind)
            runner = QueueRunner(store, budget_bytes, Policy.LRU, threads=threads)

            def computing(count: int, job: PreparedJob = job, runner: QueueRunner = runner) -> list[float]:
                return [each.run_s - each.key_wait_s for each in runner.run([job] * count)]

            computing(1)  # its keys and tables
            self.alone_s[kind] += computing(REPEATED)
            with ReaderBeside(store, tenant, params, keys) as reader:
                self.beside_s[kind] += computing(REPEATED)
                self.beside_bytes_per_s.append(reader.bytes_per_s)
        self.reads.append(timed_reads(store, tenant, params, keys))

    def compute_s(self, jobs: list[PreparedJob], of: Callable[[list[float]], float]) -> list[float]:
        """Seconds of each job alone: those `of` the jobs of its kind."""
        return [of(self.alone_s[job.job.workload]) for job in jobs]

    def reading(self, jobs: list[PreparedJob]) -> ReadRates:
        """What reading and computing take from each other, in the mixture of the queue."""
        beside = Beside(
            alone_s=sum(median(self.alone_s[job.job.workload]) for job in jobs),
            beside_s=sum(median(self.beside_s[job.job.workload]) for job in jobs),
            alone_bytes_per_s=bytes_per_s(self.reads),
            beside_bytes_per_s=median(self.beside_bytes_per_s),
        )
        return rates_of(self.reads, beside)


def keys_of(jobs: list[PreparedJob]) -> list[str]:
    """Keys of the first job's tenant."""
    return sorted({key for job in jobs for key, _ in job.uses if job.job.tenant == jobs[0].job.tenant})


def checked(clients: Clients, results: list[JobResult]) -> bool:
    """Whether every job ended with its clear result. No client's process is left beside the next run."""
    passed = all(
        each.error is None
        and clients.of(each.prepared.job).check(each.prepared.job, each.prepared.size, each.outputs).passed
        for each in sorted(results, key=lambda each: each.prepared.key_pair)
    )
    clients.rest()
    return passed


def measured(results: list[JobResult], stats: Any) -> dict[str, Any]:
    """What one run of the queue took."""
    total_s = results[-1].wait_s + results[-1].run_s
    return {
        "measured_s": total_s, "jobs_per_s": len(results) / total_s,
        "job_compute_s": sum(each.run_s - each.key_wait_s for each in results), "key_wait_s": stats.wait_s,
        "key_read_bytes": stats.read_bytes, "key_read_s": stats.read_s, "hits": stats.hits, "misses": stats.misses,
        "longest_wait_s": max(each.wait_s for each in results),
        "mean_wait_s": sum(each.wait_s for each in results) / len(results),
        "failed": sum(each.error is not None for each in results),
    }  # fmt: skip


def arguments() -> argparse.Namespace:
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
    if options.folder is None and not options.write_queue:
        parser.error("--folder says where the keys are")
    return options


def main() -> None:
    options = arguments()
    if options.write_queue:
        write_queue()
        return
    clients = Clients(options.folder)
    jobs = load_jobs(QUEUE, TENANTS)
    prepared = clients.prepare(jobs)
    demands = [demand_of(job) for job in prepared]
    sizes = {
        key: job.params.key_bytes() for job, demand in zip(prepared, demands, strict=True) for key in demand.largest()
    }
    all_bytes = sum(sizes.values())
    budget = round(BUDGET_SHARE * all_bytes)
    store = KeyStore(options.folder)
    apart = Apart()
    apart.measure(store, prepared, budget, options.threads)
    ran: list[tuple[Policy, tuple[int, ...], dict[str, Any]]] = []
    for scheduling, policy in RUNS[: options.runs] * options.rounds:
        order = order_jobs(demands, scheduling, budget, MAX_OVERTAKEN)
        runner = QueueRunner(store, budget, policy, threads=options.threads)
        begun = time.perf_counter()
        runner.prepare(prepared)
        prepare_s = time.perf_counter() - begun
        # Results leave as they are made, as a service sends them off: kept, they would ask for new memory in each job.
        results = [
            each if options.check else replace(each, outputs=()) for each in runner.run([prepared[at] for at in order])
        ]
        row = {
            "scheduling": scheduling.value,
            "policy": policy.value,
            "threads": options.threads,
            "jobs": len(jobs),
            "prepare_s": prepare_s,
            **measured(results, runner.cache.stats()),
            "passed": checked(clients, results) if options.check else None,
            "budget_bytes": budget,
            "all_key_bytes": all_bytes,
        }
        del runner
        ran.append((policy, order, row))
        print(json.dumps(row), file=sys.stderr, flush=True)
    apart.measure(store, prepared, budget, options.threads)
    fastest_s, usual_s = apart.compute_s(prepared, min), apart.compute_s(prepared, median)
    reading = apart.reading(prepared)
    rows: list[dict[str, Any]] = []
    for policy, order, row in ran:
        played = simulate_queue(demands, usual_s, order, policy, budget, reading)
        bound = simulate_queue(demands, fastest_s, order, Policy.FUTURE, budget, reading, bound=True)
        rows.append(
            row
            | {
                "simulated_s": played.total_s,
                "bound_s": bound.total_s,
                "of_bound": bound.total_s / row["measured_s"],
                "compute_s": sum(usual_s),
                "least_compute_s": sum(fastest_s),
                "disk_bytes_per_s": reading.bytes_per_s,
                "computing_share": reading.computing_share,
                "reading_share": reading.reading_share,
                "simulated_read_bytes": played.read_bytes,
            }
        )
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
