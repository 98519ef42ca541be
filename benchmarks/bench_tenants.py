"""A queue of jobs of 8 tenants under a budget of a quarter of their keys: `locality` with the known future beside
`fifo` with LRU, each beside its simulation.

    .venv/bin/python benchmarks/bench_tenants.py --folder FOLDER [--threads 1] [--format json]

The queue is stored in `benchmarks/data/tenants_zipf.toml` (`--write-queue` makes it again: tenants by Zipf's law with
exponent 1.0, inner products and, one time in four, filter-aggregates; seed 7). FOLDER keeps the keys (5 GB) for another
run and says which disk is measured. Inputs are encrypted before the clocks start. The simulation takes two figures
that are measured before the runs and after them: the time of a job of each kind with its keys in memory, alone and next
to a thread that reads keys without end; and the disk's rate, idle and next to those jobs. The bound takes the fastest
job of each kind, the simulation the middle one.
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

from penstock.front.hall.queueing import Ended, QueueRun, all_key_bytes, order_of
from penstock.runtime.keystore import KeyStore
from penstock.runtime.native.budgets import KeyReads, ReaderBeside, bytes_per_s, timed_reads
from penstock.runtime.native.play import ReadRates
from penstock.service.owners import Owners, PreparedJob
from penstock.service.tenants import parse_jobs
from penstock.service.work.messages import WorkerSettings
from penstock.service.work.simulated import time_of

QUEUE = Path(__file__).parent / "data" / "tenants_zipf.toml"
TENANTS = tuple(f"tenant-{i}" for i in range(8))
BUDGET_SHARE = 0.25
MAX_OVERTAKEN = 64
JOBS = 48
REPEATED = 5
"""Jobs of each kind that are measured apart, each time."""
RUNS = (
    ("fifo", "lru"),
    ("locality", "future"),
    ("fifo", "future"),
    ("locality", "lru"),
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

    def measure(self, store: KeyStore, jobs: list[PreparedJob], settings: WorkerSettings) -> None:
        """Once more: the first job of each kind, `REPEATED` times alone and as often beside a reader."""
        params, tenant, keys = jobs[0].program.params, jobs[0].job.tenant, keys_of(jobs)
        self.reads.append(timed_reads(store, tenant, params, keys))
        for kind in sorted({job.job.workload for job in jobs}):
            job = next(job for job in jobs if job.job.workload == kind)
            again = [
                replace(job, spec=replace(job.spec, job=f"{job.spec.job}-{number}")) for number in range(REPEATED + 1)
            ]

            def computing(again: list[PreparedJob] = again) -> list[float]:
                # The first one reads the keys.
                return [each.compute_s for each in QueueRun(replace(settings, policy="lru"), again).ended[1:]]

            self.alone_s[kind] += computing()
            with ReaderBeside(store, tenant, params, keys) as reader:
                self.beside_s[kind] += computing()
                self.beside_bytes_per_s.append(reader.bytes_per_s)
        self.reads.append(timed_reads(store, tenant, params, keys))

    def compute_s(self, jobs: list[PreparedJob], of: Callable[[list[float]], float]) -> list[float]:
        """Seconds of each job alone: those `of` the jobs of its kind."""
        return [of(self.alone_s[job.job.workload]) for job in jobs]

    def reading(self, jobs: list[PreparedJob]) -> ReadRates:
        """What reading and computing take from each other, in the mixture of the queue."""
        return ReadRates.of(
            alone_s=sum(median(self.alone_s[job.job.workload]) for job in jobs),
            beside_s=sum(median(self.beside_s[job.job.workload]) for job in jobs),
            alone_bytes_per_s=bytes_per_s(self.reads),
            beside_bytes_per_s=median(self.beside_bytes_per_s),
        )


def keys_of(jobs: list[PreparedJob]) -> list[str]:
    """Keys of the first job's tenant."""
    return sorted({key for job in jobs for key, _ in job.program.uses if job.job.tenant == jobs[0].job.tenant})


def checked(owners: Owners, results: list[Ended]) -> bool:
    """Whether every job ended with its clear result. No client's process is left beside the next run."""
    passed = all(
        each.error is None and owners.check(each.prepared).passed
        for each in sorted(results, key=lambda each: each.prepared.key_pair)
    )
    owners.rest()
    return passed


def measured(run: QueueRun) -> dict[str, Any]:
    """What one run of the queue took."""
    total_s, figures = max(each.ended_s for each in run.ended) - run.begun_s, run.figures
    waits_s = [each.begun_s - run.begun_s for each in run.ended]
    return {
        "measured_s": total_s, "jobs_per_s": len(run.ended) / total_s,
        "job_compute_s": sum(each.compute_s for each in run.ended),
        "key_wait_s": sum(each.key_wait_s for each in run.ended),
        "key_read_bytes": figures["read_bytes"], "hits": figures["hits"], "misses": figures["misses"],
        "longest_wait_s": max(waits_s), "mean_wait_s": sum(waits_s) / len(waits_s),
        "failed": sum(each.error is not None for each in run.ended),
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
    owners = Owners(options.folder)
    jobs = parse_jobs(QUEUE, str(QUEUE), TENANTS)
    prepared = owners.prepare(jobs)
    all_bytes = all_key_bytes(prepared)
    budget = round(BUDGET_SHARE * all_bytes)
    settings = WorkerSettings(
        store=owners.store.folder,
        budget_bytes=budget,
        threads=options.threads,
        readable=(owners.folder,),
        writable=(owners.folder,),
    )
    apart = Apart()
    apart.measure(owners.store, prepared, settings)
    ran: list[tuple[str, list[PreparedJob], dict[str, Any]]] = []
    for scheduling, policy in RUNS[: options.runs] * options.rounds:
        order = [prepared[at] for at in order_of(prepared, scheduling, budget, MAX_OVERTAKEN)]
        begun = time.monotonic()
        run = QueueRun(replace(settings, policy=policy), order)
        row = {
            "scheduling": scheduling,
            "policy": policy,
            "threads": options.threads,
            "jobs": len(jobs),
            "prepare_s": run.begun_s - begun,
            **measured(run),
            "passed": checked(owners, run.ended) if options.check else None,
            "budget_bytes": budget,
            "all_key_bytes": all_bytes,
        }
        ran.append((policy, order, row))
        print(json.dumps(row), file=sys.stderr, flush=True)
    apart.measure(owners.store, prepared, settings)
    reading = apart.reading(prepared)
    rows: list[dict[str, Any]] = []
    for policy, order, row in ran:
        fastest_s, usual_s = apart.compute_s(order, min), apart.compute_s(order, median)
        uses = [[((job.job.tenant, key), size) for key, size in job.program.switches] for job in order]
        played = time_of(uses, usual_s, policy, budget, reading)
        bound = time_of(uses, fastest_s, "future", budget, reading, bound=True)
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
    owners.release()
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
