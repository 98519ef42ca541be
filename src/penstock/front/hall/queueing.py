"""`penstock.run_queue`: jobs of several tenants under one budget of keys, on a worker of the service."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import ClassVar

from penstock.base.system.host import available_cores
from penstock.base.system.progress import Progress
from penstock.base.types import Row, RowView
from penstock.errors import PenstockError, UsageError
from penstock.front.hall.arguments import names_arguments
from penstock.front.hall.result import Result
from penstock.program.workloads import Check
from penstock.runtime.native.play import ReadRates
from penstock.service.owners import Owners, PreparedJob
from penstock.service.tenants import Tenants, parse_jobs, parse_tenants
from penstock.service.work.admission import Limits
from penstock.service.work.messages import WorkerSettings
from penstock.service.work.order import Order, OrderRule
from penstock.service.work.pool import MOST_DEATHS, WorkerPool
from penstock.service.work.record import JobRecord, Record
from penstock.service.work.simulated import JobArrival, ProgramCost, play, time_of

SIMULATED = ("simulated_s", "simulated_read_bytes", "bound_s", "measured_over_bound")
"""Values of `RanQueue.queue` that a simulation has a part in; the others are settings of the queue, or measured."""
STATED = ("scheduling", "policy", "jobs", "key_budget_bytes")
"""Values of `RanQueue.queue` that the queue's files state."""
MOST_THREADS = 4096
_COMING = 64
"""Jobs whose keys are planned behind the running one."""
_READY_S = 0.005
"""Between two looks at whether the worker is there."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RanQueue(Result):
    """A queue that ran. A row a job, in the order of the queue; jobs that did not end are left out."""

    queue: Row
    """The queue's own row: measured, and the same order simulated."""
    interrupted: bool = False
    DRAWN: ClassVar = ("job", "run_s")

    @property
    def passed(self) -> bool:
        """Whether each job's result is as near to the clear one as its program asks for."""
        return all(row["passed"] for row in self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A job that ended. Seconds are of the monotonic clock."""

    prepared: PreparedJob
    position: int
    error: str | None
    begun_s: float
    ended_s: float
    read_bytes: int
    evictions: int
    figures: RowView
    """As of `penstock.service.work.messages.JobFigures`; empty of a job that failed."""

    @property
    def key_wait_s(self) -> float:
        return float(self.figures.get("key_wait_s", 0.0))

    @property
    def compute_s(self) -> float:
        """With all keys in memory."""
        return max(0.0, self.ended_s - self.begun_s - self.key_wait_s)


@names_arguments
def run_queue(
    tenants: str | Path,
    jobs: str | Path,
    *,
    scheduling: str | None = None,
    threads: int | None = None,
    client_library: str | None = None,
    progress: Progress | None = None,
) -> RanQueue:
    """Run encrypted jobs of several tenants on a worker of the service, and check each result.

    Each tenant's secret key stays in a client process; the worker has ciphertexts, evaluation keys and packages only.
    Ctrl-C ends the queue, and the jobs that have ended are in the result.

    Args:   tenants, jobs: TOML files, as `penstock run --tenants FILE --jobs FILE` takes them; scheduling: "fifo" or
            "locality" (default: the tenants file's); threads: of the worker and of a client (default: all cores);
            client_library: of tenants that have no key pair yet; progress: shows the stages `inputs` and `jobs`.
    Returns: a row a job, and the queue's own row. A job that failed, or has a wrong result, has not `passed`.
    Raises: UsageError, UnknownName: a file breaks a rule. NotOblivious: a program's calls depend on decrypted
            values. PenstockError: a client refuses its job.
    """
    from penstock.lab.simulation.names import one_of

    if threads is not None and not (isinstance(threads, int) and 1 <= threads <= MOST_THREADS):
        raise UsageError(f"threads {threads!r}: give a whole number, 1 to {MOST_THREADS}")
    stated = parse_tenants(Path(tenants), str(tenants), Path(tenants).parent)
    queued = parse_jobs(Path(jobs), str(jobs), stated.tenants, Path(jobs).parent)
    if scheduling is not None:
        chosen = one_of("scheduling", scheduling, ("fifo", "locality"))
        stated = stated.model_copy(update={"scheduling": chosen})
    shown = progress or Progress(quiet=True)
    owners = Owners(Path(stated.store), threads=threads, library=client_library)
    try:
        with shown.stage("inputs", total=len(queued)) as stage:
            prepared = owners.prepare(queued, on_job=stage.advance)
        budget = stated.budget_bytes(all_key_bytes(prepared))
        order = order_of(prepared, stated.scheduling, budget, stated.max_overtaken)
        settings = WorkerSettings(
            store=owners.store.folder,
            budget_bytes=budget,
            threads=threads or available_cores(),
            policy=stated.policy,
            readable=(owners.folder,),
            writable=(owners.folder,),
        )
        with shown.stage("jobs", total=len(queued)) as stage:
            run = QueueRun(settings, [prepared[at] for at in order], stage.advance)
        # The results of one key pair follow each other, since one client is there at a time.
        ended = sorted(run.ended, key=lambda job: job.prepared.key_pair)
        rows = [job_row(job, order[job.position], *_checked(owners, job), run.begun_s) for job in ended]
    finally:
        owners.release()
    return RanQueue(
        rows=tuple(sorted(rows, key=lambda row: row["position"])),
        title=f"{len(queued)} jobs of {len(stated.tenants)} tenants, {stated.scheduling}, {stated.policy}",
        provenance="measured",
        queue=queue_row(run, stated, len(queued)),
        interrupted=run.interrupted,
    )


def all_key_bytes(jobs: Sequence[PreparedJob]) -> int:
    """Bytes of all keys of a queue, whole."""
    keys = {(job.job.tenant, key): job.program.params for job in jobs for key, _ in job.program.switches}
    return sum(params.key_bytes() for params in keys.values())


def order_of(jobs: Sequence[PreparedJob], scheduling: str, budget_bytes: int, max_overtaken: int) -> list[int]:
    """Places in the queue, in the order in which its jobs run. All of it is known before the first one starts."""
    kinds = {str(job.program.path): ProgramCost(compute_s=0.0, key_bytes=_most(job.program.switches)) for job in jobs}
    arrivals = [JobArrival(at_s=0.0, tenant=job.job.tenant, kind=str(job.program.path)) for job in jobs]
    chosen = Order.FCFS if scheduling == "fifo" else Order.LOCALITY
    # An overdue job is the next one, without exception.
    rule = OrderRule(max_overtaken=max_overtaken, overdue_every=1)
    return play(arrivals, kinds, budget_bytes, order=chosen, known_plan=False, rule=rule).order


def _most(needs: Sequence[tuple[str, int]]) -> dict[str, int]:
    most: dict[str, int] = {}
    for key, size in needs:
        most[key] = max(size, most.get(key, 0))
    return most


class QueueRun:
    """Jobs in their order on one worker of the service, one at a time, until all have ended or Ctrl-C."""

    def __init__(
        self, settings: WorkerSettings, jobs: Sequence[PreparedJob], on_job: Callable[[], object] = lambda: None
    ) -> None:
        self.interrupted = False
        self.ended: list[Ended] = []
        endings: SimpleQueue[tuple[str, str | None, float, Row]] = SimpleQueue()

        def tell(job: str, error: str | None) -> None:
            endings.put((job, error, time.monotonic(), pool.snapshot(0)))

        pool = WorkerPool(
            settings,
            on_done=lambda job, _: tell(job, None),
            on_failed=lambda job, reason, _: tell(job, reason),
            limits=Limits(jobs=sys.maxsize, backlog_s=math.inf),
            order=Order.FCFS,
            coming=_COMING,
            remembered=len(jobs),
        )
        heard = []
        try:
            pool.start()
            while not any(worker["isolation"] for worker in pool.snapshot(0)["workers"]):
                if pool.snapshot(0)["worker_deaths"] >= MOST_DEATHS:
                    raise PenstockError(
                        "the worker of the queue died at its start, three times: see its messages above"
                    )
                time.sleep(_READY_S)
            for job in jobs:
                pool.submit(job.spec)
            for _ in jobs:
                heard.append(endings.get())
                on_job()
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self.recorded, self.figures = pool.recorded(), pool.snapshot(0)
            pool.close()
        places = {job.spec.job: at for at, job in enumerate(jobs)}
        records = {record.spec.job: record for record in self.recorded.jobs}
        before = dict.fromkeys(("read_bytes", "evictions"), 0)
        for name, error, now, figures in heard:
            record = records.get(name)
            begun_s, ended_s = _times(record, now)
            read_bytes, evictions = (figures[count] - before[count] for count in ("read_bytes", "evictions"))
            ended = Ended(
                prepared=jobs[places[name]], position=places[name], error=error, begun_s=begun_s, ended_s=ended_s,
                read_bytes=read_bytes, evictions=evictions, figures={} if record is None else record.figures,
            )  # fmt: skip
            self.ended.append(ended)
            before = figures
        # The first package is compiled, and the evaluator has its tables.
        self.begun_s = min((job.begun_s for job in self.ended), default=time.monotonic())


def _times(record: JobRecord | None, heard_s: float) -> tuple[float, float]:
    """Beginning and end of a job's operations."""
    if record is None:
        return heard_s, heard_s
    if record.times is None:
        return record.started_s, record.ended_s
    return record.times.run_s, record.times.ended_s


def _checked(owners: Owners, ended: Ended) -> tuple[Check | None, str | None]:
    """The comparison of a job's result with the clear one, and why there is none or it fails."""
    if ended.error is not None:
        return None, ended.error
    try:
        check = owners.check(ended.prepared)
    except PenstockError as error:
        return None, str(error)
    return check, None if check.passed else "; ".join(check.rules)


def job_row(ended: Ended, number: int, check: Check | None, error: str | None, begun_s: float) -> Row:
    """One job. `number`: its place in the queue; `begun_s`: when the queue began."""
    prepared = ended.prepared
    job, program = prepared.job, prepared.program
    return {
        "job": number, "tenant": job.tenant, "workload": job.workload, "size": program.size,
        "params": program.params.name, "position": ended.position, "wait_s": ended.begun_s - begun_s,
        "run_s": ended.ended_s - ended.begun_s, "key_wait_s": ended.key_wait_s, "key_bytes": prepared.key_bytes,
        "key_read_bytes": ended.read_bytes, "hits": ended.figures.get("hits", 0),
        "misses": ended.figures.get("misses", 0), "evictions": ended.evictions,
        "passed": check is not None and bool(check.passed),
        "max_abs_error": None if check is None else check.max_abs_error, "error": error, "provenance": "measured",
    }  # fmt: skip


def queue_row(run: QueueRun, stated: Tenants, num_jobs: int) -> Row:
    """The queue. Simulated figures take each job's computing time and the disk's rate from this run; what reading took
    from computing is in them.

    `bound_s`: the least that these jobs could take in this order, keeping by the known future what saves most bytes.
    They are `None` where a job failed or nothing was read.
    """
    ended, figures = [job for job in run.ended if job.error is None], run.figures
    measured_s = max((job.ended_s - run.begun_s for job in run.ended), default=0.0)
    read_s, read_bytes, expanded_bytes = _reads(run.recorded)
    row: Row = {
        "scheduling": stated.scheduling, "policy": stated.policy, "jobs": num_jobs, "finished": len(ended),
        "failed": len(run.ended) - len(ended), "interrupted": run.interrupted,
        "key_budget_bytes": figures["budget_bytes"],
        "measured_s": measured_s, "jobs_per_s": len(ended) / measured_s if measured_s else None,
        "key_bytes": sum(job.prepared.key_bytes for job in ended), "key_read_bytes": figures["read_bytes"],
        "key_expanded_bytes": figures["expanded_bytes"],
        "hits": figures["hits"], "misses": figures["misses"], "peak_resident_bytes": figures["peak_resident_bytes"],
        "disk_bytes_per_s": read_bytes / read_s if read_s else None,
        "simulated_s": None, "simulated_read_bytes": None, "bound_s": None, "measured_over_bound": None,
    }  # fmt: skip
    if len(ended) < num_jobs or not read_s:
        return row
    uses = [[((job.prepared.job.tenant, key), size) for key, size in job.prepared.program.switches] for job in ended]
    compute_s, budget = [job.compute_s for job in ended], figures["budget_bytes"]
    # Rows come into memory from the disk or from a seed; the simulation counts both.
    reading = ReadRates(bytes_per_s=(read_bytes + expanded_bytes) / read_s)
    played = time_of(uses, compute_s, stated.policy, budget, reading)
    bound = time_of(uses, compute_s, "future", budget, reading, bound=True)
    return row | {
        "simulated_s": played.total_s, "simulated_read_bytes": played.read_bytes, "bound_s": bound.total_s,
        "measured_over_bound": measured_s / bound.total_s,
    }  # fmt: skip


def _reads(recorded: Record) -> tuple[float, int, int]:
    """Seconds, bytes read and bytes expanded of the latest loads of keys."""
    reads = recorded.reads
    return (
        sum(load.ended_s - load.began_s for load in reads),
        sum(load.read_bytes for load in reads),
        sum(load.expanded_bytes for load in reads),
    )
