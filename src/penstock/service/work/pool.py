"""The front's side of the workers: takes jobs, orders them, hands them out, and starts dead workers again."""

from __future__ import annotations

import math
import os
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

from penstock.errors import UsageError
from penstock.service.work.admission import Limits
from penstock.service.work.bounds import Isolation as Isolation
from penstock.service.work.bounds import JobBounds, above, memory_of_one, places_of_one, stated_bytes
from penstock.service.work.messages import COUNTERS, JobFigures, JobSpec, WorkerSettings
from penstock.service.work.order import Order, OrderRule
from penstock.service.work.process import Pauses, WorkerProcess
from penstock.service.work.record import MOST_JOBS, JobRecord, PoolSample, Record
from penstock.service.work.said import (
    SAID_WRONG,
    ComputingSaid,
    DoneSaid,
    FailedSaid,
    ProgramSaid,
    SaidWrong,
    due_lines,
)
from penstock.service.work.waiting import Entry, Queue

if TYPE_CHECKING:
    from penstock.base.types import Row

MOST_DEATHS = 3
"""Workers that one job may take with it."""
COMING = 4
"""Jobs whose keys are planned behind the running ones."""
MOST_REASON = 10_000
"""Characters of a worker's reason that are kept."""
_TICK_S = 0.25
_CALLS_S = 0.02
"""Of callbacks, before it is the workers' turn again."""


class WorkerPool:
    """Computes jobs in worker processes. Thread safe.

    Callbacks are called from one thread, one at a time. A job starts again where its worker died; its outputs are on
    disk when it is done; `retry` says whether the same job may succeed another time.

    Args:   settings: of a worker; under `process` each gets the budget over `max_workers`. order: `fcfs` for
            comparison. bounds: of each job. idle_s: after which a tenant's own worker is stopped. coming: jobs whose
            keys are planned behind the running ones. remembered: jobs that ended, in the record.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        on_started: Callable[[str], object] = lambda job: None,
        on_done: Callable[[str, JobFigures], object] = lambda job, figures: None,
        on_failed: Callable[[str, str, bool], object] = lambda job, reason, retry: None,
        limits: Limits | None = None,
        bounds: JobBounds | None = None,
        isolation: Isolation = Isolation.SHARED,
        max_workers: int = 4,
        idle_s: float = 60.0,
        order: Order = Order.WEIGHED,
        rule: OrderRule | None = None,
        coming: int = COMING,
        remembered: int = MOST_JOBS,
    ) -> None:
        self.settings, self.isolation = settings, Isolation(isolation)
        self.limits, self.bounds = limits or Limits(), bounds or JobBounds()
        self._max_workers = max_workers if self.isolation is Isolation.PROCESS else 1
        own = replace(settings, budget_bytes=settings.budget_bytes // self._max_workers)
        self._own_settings = replace(own, memory_bytes=stated_bytes(own, self.limits.memory_bytes))
        self._idle_s, self._most_coming = idle_s, coming
        self._on_started, self._on_done, self._on_failed = on_started, on_done, on_failed
        self._lock = threading.Condition()
        self._queue = Queue(Order(order), rule or OrderRule())
        self._workers: dict[str, WorkerProcess] = {}
        """By tenant; of all tenants under ``."""
        self._past_peak = 0
        self._past = dict.fromkeys(COUNTERS, 0)
        """Counters of workers that have ended."""
        self._record = Record(most_jobs=remembered)
        self._calls, self._expiries = deque[Callable[[], object]](), deque[Callable[[], object]]()
        """Callbacks that are due, and those of jobs that are over their time, which come after all others."""
        self._deaths, self._killed = 0, 0
        self._pauses = Pauses()
        self.on_trouble: Callable[..., object] = lambda **_: None
        """Hears of workers that lie, and of errors in the pool's thread."""
        self._draining = self._closed = self._calling = self._paused = False
        self._wake_ends: tuple[int, ...] = os.pipe()
        os.set_blocking(self._wake_ends[1], False)
        self._thread: threading.Thread | None = None

    # The interface.
    @property
    def is_alive(self) -> bool:
        """Whether its thread is there."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Start the workers."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="penstock-pool", daemon=True)
                if self.isolation is Isolation.SHARED:
                    self._worker_of("")
                self._thread.start()

    def submit(self, job: JobSpec, *, is_accepted: bool = False) -> None:
        """Take a job. `is_accepted`: an earlier server took it, and no limit of now refuses it.

        Raises: AdmissionRefused, UsageError; then nothing of it is kept.
        """
        with self._lock:
            if job.job in self._queue:
                raise UsageError(f"job {job.job} is here already: each has its own identity")
            self.check(job, is_accepted=is_accepted)
            self._queue.add(job, time.monotonic())
        self._wake()

    def check(self, job: JobSpec, *, is_accepted: bool = False) -> None:
        """Whether it would be taken now. Raises: as `submit`."""
        with self._lock:
            jobs, backlog_s = self._queue.backlog_of(job.tenant)
            limits = Limits(jobs=jobs + 1, backlog_s=math.inf) if is_accepted else self.limits
            limits.admit(
                jobs,
                backlog_s / self.settings.abreast,
                self._queue.service_s(job),
                job.memory_bytes,
                tenants=1 if is_accepted else self._queue.tenants_with(job.tenant),
                is_draining=self._draining or self._closed,
            )

    def cancel(self, job: str) -> bool:
        """Whether the job was there; no callback follows. A job that computes ends without results."""
        with self._lock:
            entry = self._queue.get(job)
            if entry is None or entry.is_cancelled:
                return False
            self._cancel(entry)
        self._wake()
        return True

    def forget_tenant(self, tenant: str) -> None:
        """Cancel the tenant's jobs, and let go of its keys."""
        with self._lock:
            for entry in self._queue.of_tenant(tenant):
                if not entry.is_cancelled:
                    self._cancel(entry)
            self._queue.forget(tenant)
            self._record.forget(tenant)
            self._pauses.end(tenant)
            for worker in self._workers.values():
                worker.channel.tell("forget", tenant=tenant)
            if self.isolation is Isolation.PROCESS and tenant in self._workers:
                # It holds folders that are gone. The next one gets the folders of the next tenant of that name.
                self._workers[tenant].is_leaving = True
        self._wake()

    def snapshot(self, most: int | None = None) -> Row:
        """Queue (its first `most` jobs), running jobs, key bytes by tenant, hits, misses, budget."""
        with self._lock:
            now, residents = time.monotonic(), self._residents()
            waiting, running = self._queue.waiting(), self._queue.running()
            progress = {job: tasks for worker in self._workers.values() for job, tasks in worker.progress.items()}
            return {
                "queue": [
                    {**entry.figures(now), **self._queue.why(entry, residents, self._fits(running, entry), now)}
                    for entry in waiting[:most]
                ],
                "waiting": len(waiting),
                "running": [
                    {**entry.figures(now), **self.bounds.figures(entry, self._queue.predicted_s(entry), now, progress)}
                    for entry in running
                ],
                "backlog_s": self._queue.backlog_s() / self.settings.abreast,
                "key_bytes": {tenant: sum(keys.values()) for tenant, keys in residents.items()},
                "keys": {tenant: len(keys) for tenant, keys in residents.items()},
                "budget_bytes": self.settings.budget_bytes,
                "floor_bytes": self.settings.floor_bytes,
                **self._counters(),
                "resident_bytes": self._now("resident_bytes"),
                "peak_resident_bytes": max(self._past_peak, self._now("peak_resident_bytes")),
                "workers": [worker.figures() for worker in self._workers.values()],
                "worker_deaths": self._deaths,
                "workers_killed": self._killed,
                "places": self.settings.abreast,
                "places_of_one_tenant": places_of_one(self.settings.abreast),
                "stated_memory_bytes": self._own_settings.memory_bytes,
                "isolation": self.isolation.value,
                "draining": self._draining,
                "paused": self._paused,
            }

    def pause(self, is_paused: bool) -> None:
        """Take jobs, and begin none until this is called with `False`, or `drain`."""
        with self._lock:
            self._paused = is_paused
        self._wake()

    def recorded(self) -> Record:
        """The latest jobs that ended, reads of keys, and samples."""
        with self._lock:
            return self._record.copy()

    def drain(self, timeout_s: float) -> None:
        """Take no more; return when all is done, or after the time."""
        with self._lock:
            self._draining, self._paused = True, False
            self._lock.wait_for(lambda: self._closed or not (len(self._queue) or self._calling), timeout_s)

    def close(self) -> None:
        """Stop at once. Jobs that did not end are the caller's to submit again."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()
        self._wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        for worker in self._workers.values():
            worker.end()
        self._workers.clear()
        with self._lock:
            for end in self._wake_ends:
                os.close(end)
            self._wake_ends = ()

    # The thread.
    def _wake(self) -> None:
        with self._lock, suppress(BlockingIOError):
            for end in self._wake_ends[1:]:
                os.write(end, b"\0")

    def _serve(self) -> None:
        """Hear the workers, hand out jobs, until it is closed. Callbacks are called without the lock."""
        while not self._closed:
            with self._guarded(_TICK_S):
                self._turn()
        while self._calls:
            with self._guarded():
                self._calls.popleft()()

    @contextmanager
    def _guarded(self, pause_s: float = 0.0) -> Iterator[None]:
        """An error of one step is told, and keeps nobody from the next one."""
        try:
            yield
        except Exception:
            with suppress(Exception):
                self.on_trouble(trace=traceback.format_exc(limit=-8)[-4000:])
            time.sleep(pause_s)

    def _turn(self) -> None:
        with self._lock:
            if self._closed:
                return
            lines, wake = {name: worker.channel for name, worker in self._workers.items()}, self._wake_ends[0]
        due = due_lines(wake, lines, 0.0 if self._calling else _TICK_S)
        with self._lock:
            for name in due:
                with self._guarded():
                    self._heard(name)
            for step in (self._expire, self._kill, self._start_shared, self._stop_idle, self._hand_out, self._sample):
                with self._guarded():
                    step()
            self._calling = bool(self._calls or self._expiries)
        ends_s = time.monotonic() + _CALLS_S
        while self._calling and time.monotonic() < ends_s:
            with self._guarded():
                (self._calls or self._expiries).popleft()()
            self._calling = bool(self._calls or self._expiries)
        with self._lock:
            self._lock.notify_all()

    def _start_shared(self) -> None:
        if self.isolation is Isolation.SHARED and not self._workers and not self._pauses.holds(""):
            self._worker_of("")

    def _heard(self, name: str) -> None:
        """The messages that have come from a worker. A dead one is lost when it has said all."""
        worker = self._workers[name]
        try:
            worker.channel.flush()
            for said in worker.hear():
                now = time.monotonic()
                for read in said.reads_within(worker.label, worker.began_s, now):
                    self._record.add_read(read)
                if isinstance(said, ComputingSaid):
                    self._queue.computes(said.job, now)
                elif isinstance(said, ProgramSaid):
                    self._learn(worker, said)
                elif isinstance(said, DoneSaid | FailedSaid):
                    self._ended(worker, said)
        except EOFError:
            self._died(name)
        except SaidWrong as error:
            self._killed += 1
            self._died(name, SAID_WRONG)
            self.on_trouble(worker=name, pid=worker.pid, why=str(error))
        except Exception:
            self._died(name, "what it said could not be taken")
            raise

    def _learn(self, worker: WorkerProcess, said: ProgramSaid) -> None:
        """Tenants of one package share these figures: its keys are no larger than its deployment found."""
        for spec in worker.jobs.values():
            found = spec.key_bytes if spec.planned_key_bytes else 0
            if str(spec.package) == said.package and (not found or sum(said.needs.values()) <= found):
                self._queue.learn(said.package, dict(said.needs))
                return

    def _ended(self, worker: WorkerProcess, said: DoneSaid | FailedSaid) -> None:
        """A job is done, or has failed: the end of its place in the queue."""
        now, job = time.monotonic(), said.job
        worker.idle_since_s = now
        self._pauses.end(worker.name)
        entry = self._queue.remove(job, now)
        if entry is None or entry.is_cancelled:
            worker.ended(job, None)
            return
        done = said if isinstance(said, DoneSaid) else None
        lost = worker.ended(job, entry.spec if done else None)
        if lost:
            self._calls.append(partial(self._on_failed, job, lost, True))
            return
        started_s = now if entry.started_s is None else entry.started_s
        figures = None if done is None else done.figures_within(now - started_s, entry.queue_s, self.settings.threads)
        times = None if done is None else done.times_within(started_s, now)
        made = JobRecord(
            spec=entry.spec, worker=worker.label, submitted_s=entry.submitted_s, started_s=started_s,
            ended_s=now if times is None else times.ended_s, times=times,
            figures={} if figures is None else asdict(figures),
        )  # fmt: skip
        self._record.add_job(made)
        if figures is not None:
            self._queue.measured(entry, figures)
            self._calls.append(partial(self._on_done, job, figures))
        elif isinstance(said, FailedSaid):
            self._calls.append(partial(self._on_failed, job, said.reason[:MOST_REASON], said.retry))

    def _counters(self) -> dict[str, int]:
        """Of all workers since the pool began."""
        return {name: past + self._now(name) for name, past in self._past.items()}

    def _now(self, name: str) -> int:
        """A figure of the caches of the workers of now, summed."""
        return sum(int(worker.cache.get(name, 0)) for worker in self._workers.values())

    def _gone(self, name: str, why: str = "") -> WorkerProcess:
        """End a worker, and keep its counters. `why`: it is killed."""
        self._past = {count: past + self._workers[name].cache.get(count, 0) for count, past in self._past.items()}
        self._past_peak = max(self._past_peak, self._now("peak_resident_bytes"))
        worker = self._workers.pop(name)
        worker.end(why)
        return worker

    def _kill(self) -> None:
        """Workers that hold more than they state, or whose job was told to end and did not."""
        late_s = time.monotonic() - self.bounds.grace_s
        for name, worker in list(self._workers.items()):
            told = [entry.told_s for entry in map(self._queue.get, worker.jobs) if entry is not None]
            why = "it did not read what it was told" if worker.channel.is_stuck else ""
            if why := why or above(worker.resident_bytes, worker.stated_bytes):
                self._killed += 1
                self._died(name, why)
            elif any(at is not None and at < late_s for at in told):
                self._killed += 1
                self._died(name, "a job did not end when it was told to", counts=False)

    def _died(self, name: str, why: str = "", *, counts: bool = True) -> None:
        """The worker is gone: its jobs wait again, in their places, or have taken too many workers with them.

        Args:   why: it is killed for that. counts: against its jobs.
        """
        worker = self._gone(name, why)
        self._deaths += 1
        now = time.monotonic()
        self._pauses.died(name, counts)
        for job in sorted(worker.jobs):
            entry = self._queue.get(job)
            if entry is None:
                continue
            entry.deaths += counts
            if entry.is_cancelled:
                self._queue.remove(job, now)
            elif entry.deaths >= MOST_DEATHS:
                self._queue.remove(job, now)
                reason = f"the worker died {entry.deaths} times while it ran this job: {worker.ending}"
                self._calls.append(partial(self._on_failed, job, reason, False))
            else:
                self._queue.waits_again(entry, now)

    def _cancel(self, entry: Entry) -> None:
        """No callback follows. A job that runs is told to end."""
        if entry.started_s is None:
            self._queue.remove(entry.spec.job, time.monotonic())
            return
        entry.is_cancelled, entry.told_s = True, time.monotonic()
        for worker in self._workers.values():
            if entry.spec.job in worker.jobs:
                worker.channel.tell("cancel", job=entry.spec.job)

    def _expire(self) -> None:
        """Jobs whose deadline, or bound, is over. One that runs is told to end, and its worker goes on."""
        now = time.monotonic()
        for entry in [*self._queue.late(now), *self._queue.running()]:
            if entry.is_cancelled:
                continue
            if reason := self.bounds.over(entry, self._queue.predicted_s(entry), now):
                self._cancel(entry)
                self._expiries.append(partial(self._on_failed, entry.spec.job, reason, False))

    def _hand_out(self) -> None:
        """Give jobs to workers that have room."""
        while not self._paused:
            running = self._queue.running()
            if len(running) >= self.settings.abreast:
                break
            entry = self._queue.next(self._residents(), partial(self._may_run, running), time.monotonic())
            if entry is None:
                break
            worker = self._worker_of(self._owner(entry.spec.tenant))
            self._queue.started(entry, time.monotonic())
            # With what its program took here, too: a long job yields to shorter ones.
            took_s, yields = self._queue.predicted_s(entry), self._queue.yields(entry, time.monotonic())
            worker.run(replace(entry.spec, compute_s=took_s, yields=yields))
            self._calls.append(partial(self._on_started, entry.spec.job))
        self._tell_coming()

    def _tell_coming(self) -> None:
        """The plan of the next jobs: it changes with arrivals, starts and ends."""
        for name, worker in self._workers.items():
            coming = self._queue.coming(self._residents(), time.monotonic(), self._most_coming, name or None)
            worker.plan([entry.spec for entry in coming])

    def _sample(self) -> None:
        running, read = len(self._queue.running()), self._counters()["read_bytes"]
        waiting = len(self._queue) - running
        self._record.sample(PoolSample(time.monotonic(), waiting, running, self._now("resident_bytes"), read))

    def _fits(self, running: Sequence[Entry], entry: Entry) -> bool:
        """Whether its memory fits with the running jobs' into the whole, and with its tenant's into a tenant's part."""
        memory, size = self.limits.memory_bytes, entry.spec.memory_bytes
        if memory is None or not running:
            return True
        own = sum(other.spec.memory_bytes for other in running if other.spec.tenant == entry.spec.tenant)
        taken = sum(other.spec.memory_bytes for other in running)
        return taken + size <= memory and own + size <= memory_of_one(memory)

    def _may_run(self, running: Sequence[Entry], entry: Entry) -> bool:
        """Whether a job may begin now. One that has taken a worker with it runs alone there."""
        owner = self._owner(entry.spec.tenant)
        beside = [other for other in running if self._owner(other.spec.tenant) == owner]
        if self._pauses.holds(owner) or (beside and (entry.deaths or any(other.deaths for other in beside))):
            return False
        own = sum(other.spec.tenant == entry.spec.tenant for other in running)
        if own >= places_of_one(self.settings.abreast) or not self._fits(running, entry):
            return False
        if owner in self._workers:
            return not self._workers[owner].is_leaving
        if len(self._workers) < self._max_workers:
            return True
        return self._stop_one_idle()

    def _stop_one_idle(self) -> bool:
        idle = [(worker.idle_since_s, name) for name, worker in self._workers.items() if not worker.jobs]
        if idle:
            self._gone(min(idle)[1])
        return bool(idle)

    def _stop_idle(self) -> None:
        if self.isolation is Isolation.PROCESS:
            now = time.monotonic()
            for name, worker in list(self._workers.items()):
                if not worker.jobs and (worker.is_leaving or now - worker.idle_since_s > self._idle_s):
                    self._gone(name)

    def _residents(self) -> dict[str, dict[str, int]]:
        caches = [worker.cache.get("residents", {}) for worker in self._workers.values()]
        return {tenant: keys for residents in caches for tenant, keys in residents.items()}

    def _owner(self, tenant: str) -> str:
        return tenant if self.isolation is Isolation.PROCESS else ""

    def _worker_of(self, name: str) -> WorkerProcess:
        if name not in self._workers:
            self._workers[name] = WorkerProcess(self._own_settings, name)
        return self._workers[name]
