"""Runs jobs on packages inside a worker: files of ciphertexts in, files of ciphertexts out.

One cache holds the keys of all tenants under one budget. Each job follows a plan of the keys that it uses; the jobs
that come next are planned behind them, anew at each arrival. Jobs side by side have an evaluator each.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from penstock import _engine
from penstock.base.system.collector import collector_paused
from penstock.base.system.files import FileError, os_errors, write_atomic
from penstock.base.types import Row
from penstock.errors import BudgetTooSmall, KeyMissing, KeyRefused, PenstockError, StoreUnusable, UsageError
from penstock.runtime.keystore import KeyCache, KeyName, KeyPlan, KeyStore, KeyUse
from penstock.runtime.keystore.stated import check_tag, stated_pair
from penstock.runtime.native.compute import Computed, WholeOptions, compute_compiled
from penstock.runtime.native.keys import SessionKeys
from penstock.service.work.kept import Evaluator, KeptWork
from penstock.service.work.messages import COUNTERS, Channel, JobFigures, JobSpec, WorkerSettings, content_of
from penstock.service.work.programs import VECTOR_BYTES, WorkerProgram, compile_planned, names_of, plan_program
from penstock.service.work.record import SHORTEST_WAIT_S, JobTimes, merged

_MORE_INPUT = 65536
"""Bytes that an input may have above its words."""
_NAMES_KEPT = 1024
_COMING_USES = 4096
"""Key uses of coming jobs that are planned at most."""

_TELL_S = 0.5
"""Between two words on memory and progress while jobs run."""

_YIELDS = ((10.0, 9), (1.0, 5))
"""Predicted seconds, and the niceness of a longer job: next to short ones it has an eighth, or a third, of a core."""
_SWITCH_S = 1e-3
"""One thread holds the interpreter so long at most while others want it."""
_PASS_S = 1e-3
"""That compiling leaves the interpreter to others' jobs, about as long as it then holds it."""

FileState = tuple[str, int, int]


class Cancelled(PenstockError):
    """Nobody wants the results any more."""


class Computer:
    """The worker's side of the messages, and threads that compute."""

    def __init__(self, settings: WorkerSettings, channel: Channel) -> None:
        self.settings, self._channel = settings, channel
        # A filter refuses io_uring, where there is one.
        self.store = KeyStore(settings.store, reader="pread", reading=True)
        self.cache = KeyCache(
            self.store,
            settings.budget_bytes,
            policy=settings.policy,
            prefetch_uses=64 if settings.policy == "future" else 0,
            floor_bytes=settings.floor_bytes,
        )
        self._kept, self._nice = KeptWork(settings), os.getpriority(os.PRIO_PROCESS, 0)
        self._names: OrderedDict[tuple[str, str | None, tuple[FileState, int]], dict[str, KeyName]] = OrderedDict()
        """Tenant, pair and program -> the names of keys that were all there."""
        self._lock = threading.Lock()
        self._running: dict[str, tuple[JobSpec, threading.Event]] = {}
        self._plans: dict[str, KeyPlan] = {}
        self._forgotten: set[str] = set()
        self._coming: KeyPlan | None = None
        self._slots = deque(range(settings.abreast))
        """Free numbers, the longest unused first."""
        self._progress: dict[str, tuple[int, int]] = {}
        """Job -> tasks that have ended, and all."""
        sys.setswitchinterval(_SWITCH_S)
        threading.Thread(target=self._tell, daemon=True).start()

    # Messages.
    def serve(self) -> None:
        """Do what the front says. Raises: EOFError, OSError: it is gone."""
        while True:
            content = json.loads(self._channel.recv_bytes())
            kind = content["kind"]
            if kind == "run":
                job = JobSpec.of(content["job"])
                with self._lock:
                    self._running[job.job] = job, threading.Event()
                    slot = self._slots.popleft() if self._slots else self.settings.abreast
                threading.Thread(target=self._job, args=(job, slot), daemon=True).start()
            elif kind == "coming":
                self._plan_coming([JobSpec.of(fields) for fields in content["jobs"]])
            elif kind == "cancel":
                with self._lock:
                    for job, cancelled in self._running.values():
                        if job.job == content["job"]:
                            cancelled.set()
            elif kind == "forget":
                self._forget(content["tenant"])

    def _forget(self, tenant: str) -> None:
        with self._lock:
            self._forgotten.add(tenant)
            for known in [known for known in self._names if known[0] == tenant]:
                del self._names[known]
            for job, cancelled in self._running.values():
                if job.tenant == tenant:
                    cancelled.set()
        self._forget_idle()

    def _plan_coming(self, jobs: Sequence[JobSpec]) -> None:
        """The jobs that run next, in order: their keys are kept, and read ahead, behind the running ones'."""
        uses: list[KeyUse] = []
        for spec in jobs:
            # One that fails says so when it runs; one that was never compiled has no known uses yet.
            with suppress(PenstockError, OSError):
                program = self._kept.known(self._name(spec))
                if program is not None:
                    uses += self._uses(spec, program)
            if len(uses) > _COMING_USES:
                break
        with self._lock:
            lead = sum(map(self._remaining, self._running))
            before, self._coming = self._coming, None
            if uses and self.settings.policy == "future":
                self._coming = self.cache.plan(uses[:_COMING_USES], lead=lead)
        if before is not None:
            before.close()

    def _remaining(self, job: str) -> int:
        """Key uses that a job has before it, with the lock held. One without a plan is about to begin."""
        if job in self._plans:
            return self._plans[job].remaining
        with suppress(OSError):  # a job without its package says so when it runs
            program = self._kept.known(self._name(self._running[job][0]))
            return 0 if program is None else len(program.compiled.key_uses)
        return 0

    # Threads.
    def _tell(self) -> None:
        """Say now and then what memory holds and how far jobs are, where that has changed."""
        before: tuple[object, ...] | None = None
        while True:
            time.sleep(_TELL_S)
            stats, progress, kept = self.cache.stats(), dict(self._progress), self._kept.figures()
            read = stats.read_bytes, stats.expanded_bytes
            now = stats.hits, stats.misses, read, stats.resident_bytes, progress, kept
            if now != before:
                before = now
                self._channel.tell(
                    "figures", cache=self.cache_figures(), progress=progress, kept=kept, reads=self._reads()
                )

    def _reads(self) -> list[tuple[object, ...]]:
        """The latest reads of keys, as a `ReadRecord` without its worker."""
        reads, now = self.cache.take_reads(), time.monotonic()
        return [
            (name.tenant, name.key, read, expanded, ahead, now - began, now - ended)
            for name, read, expanded, ahead, began, ended in reads
        ]

    def _job(self, spec: JobSpec, slot: int) -> None:
        """One job, and its end."""
        cancelled = self._running[spec.job][1]
        kind, answer = "failed", Row()
        try:
            _go_on(cancelled)  # of a tenant that was forgotten meanwhile nothing is compiled
            figures, times = self._compute(spec, cancelled, slot)
            kind, answer = "done", {"figures": figures, "times": times}
        except PenstockError as error:
            answer = {"reason": str(error), "retry": isinstance(error, BudgetTooSmall | StoreUnusable | FileError)}
        except MemoryError:
            answer = {"reason": "out of memory", "retry": True}
        except BaseException as error:  # a panic of the engine is not an `Exception`
            answer = {"reason": f"{type(error).__name__}: {error}", "retry": False}
        with self._lock:
            self._running.pop(spec.job)
            self._progress.pop(spec.job, None)
            self._slots.append(slot)
        self._forget_idle()
        self._channel.tell(kind, **answer, job=spec.job, cache=self.cache_figures(), reads=self._reads())

    def cache_figures(self) -> Row:
        """Counters of the cache, and the resident bytes: tenant -> key with its digest -> bytes."""
        stats = self.cache.stats()
        residents: dict[str, dict[str, int]] = {}
        for name, _, size in self.cache.residents():
            residents.setdefault(name.tenant, {})[f"{name.digest}/{name.key}"] = size
        return {
            **{name: getattr(stats, name) for name in (*COUNTERS, "resident_bytes", "peak_resident_bytes")},
            "residents": residents,
        }

    def _forget_idle(self) -> None:
        """Let go of the keys of forgotten tenants that no job uses any more."""
        with self._lock:
            busy = {spec.tenant for spec, _ in self._running.values()}
            now = self._forgotten - busy
            self._forgotten -= now
        for tenant in now:
            self.cache.forget_tenant(tenant)
            self._kept.forget(tenant)

    # One job.
    def _compute(self, spec: JobSpec, cancelled: threading.Event, slot: int) -> tuple[JobFigures, JobTimes]:
        begun_s = time.monotonic()
        program = self._program(spec, cancelled)
        if spec.store.resolve() != self.store.folder.resolve():
            raise UsageError(f"job {spec.job} names another key store ({spec.store}) than its worker's")
        # Ahead of all work: every input and output by its name, every key.
        _same_names("inputs", program.name, spec.inputs, program.inputs)
        _same_names("outputs", program.name, spec.outputs, program.outputs)
        self._channel.tell("computing", job=spec.job)
        evaluator = self._kept.take(program.params, _yielding(spec.compute_s, spec.yields))
        try:
            return self._computed(spec, cancelled, program, evaluator, slot, begun_s)
        finally:
            evaluator.keys.update(program.keys)
            self._kept.give(evaluator)

    def _computed(
        self,
        spec: JobSpec,
        cancelled: threading.Event,
        program: WorkerProgram,
        evaluator: Evaluator,
        slot: int,
        begun_s: float,
    ) -> tuple[JobFigures, JobTimes]:
        context = evaluator.context
        uses = self._uses(spec, program)
        plan = self.cache.plan(uses) if self.settings.policy == "future" else None
        keys = SessionKeys(self.cache.session(spec.tenant, program.digest, plan, secret_tag=spec.secret_tag))
        try:
            if plan is not None:
                with self._lock:
                    self._plans[spec.job] = plan
            contents = _Inputs(spec, program)
            tasks = len(program.compiled.tasks)

            def go_on(ended: int) -> None:
                self._progress[spec.job] = ended, tasks
                _go_on(cancelled)

            run_s = time.monotonic()
            done = compute_compiled(
                program.compiled,
                context,
                keys,
                partial(contents.take_yielding, self._nice + evaluator.level),
                _options(spec, program),
                go_on,
            )
            ran_s = time.monotonic()
            # Each output is whole or not there. The front syncs them.
            writer = _engine.CkksWriter(contents.first)
            for name, ciphertext in zip(program.outputs, done.outputs, strict=True):
                _go_on(cancelled)
                content = context.export_ciphertext(ciphertext, writer)
                write_atomic(spec.outputs[name], content, force=True, mode=0o600, is_synced=False)
        finally:
            with self._lock:
                self._plans.pop(spec.job, None)
            if plan is not None:
                plan.close()
        (hits, misses, miss_bytes), ended_s = keys.session.counts(), time.monotonic()
        waits = _waits_for_keys(done, run_s, ran_s)
        times = JobTimes(slot=slot, begun_s=begun_s, run_s=run_s, ran_s=ran_s, ended_s=ended_s, key_waits=waits)
        figures = JobFigures(
            queue_s=0.0,
            key_wait_s=sum(keys.waits_s),
            compute_s=ended_s - begun_s,
            read_bytes=miss_bytes,
            hits=hits,
            misses=misses,
            peak_bytes=done.counts["peak_value_bytes"] + done.counts["peak_vector_bytes"],
        )
        return figures, times

    def _name(self, spec: JobSpec) -> tuple[FileState, int]:
        """The identity of a compiled program: its package, and the key budget of its plan."""
        return _state(spec.package), spec.planned_key_bytes or self.settings.budget_bytes

    def _program(self, spec: JobSpec, cancelled: threading.Event) -> WorkerProgram:
        with os_errors(spec.package, "read"):
            name = self._name(spec)

        def go_on() -> None:
            _go_on(cancelled)
            if any(other.tenant != spec.tenant for other, _ in list(self._running.values())):
                time.sleep(_PASS_S)

        def made() -> WorkerProgram:
            with collector_paused():  # a look at all its objects would hold up every thread
                planned = plan_program(spec.package, name[1], go_on)
                evaluator = self._kept.take(planned.params, 0)
                try:
                    known = compile_planned(planned, evaluator.context, self.settings.threads, go_on)
                finally:
                    self._kept.give(evaluator)
            self._channel.tell(
                "program",
                package=str(spec.package),
                needs={f"{planned.digest}/{key}": size for key, size in planned.needs.items()},
                compute_s=planned.compute_s,
            )
            return known

        return self._kept.program(name, spec.tenant, made, partial(_go_on, cancelled))

    def _uses(self, spec: JobSpec, program: WorkerProgram) -> list[KeyUse]:
        """The job's key uses, with names of the tenant's pair; every key is there with enough limbs.

        Keys that were all there for an earlier job of the tenant are not looked up again: a session refuses one that is
        gone or of another pair since.

        Raises: KeyMissing, KeyRefused.
        """
        known = spec.tenant, spec.secret_tag, self._name(spec)
        names = self._names.get(known)
        if names is None:
            names, lacking = names_of(self.store, spec.tenant, program, spec.secret_tag)
            if lacking:
                raise KeyMissing(
                    f"tenant '{spec.tenant}' lacks {len(lacking)} keys of '{program.name}': "
                    f"{', '.join(lacking)}; make and upload them"
                )
            with self._lock:
                self._names[known] = names
                while len(self._names) > _NAMES_KEPT:
                    self._names.popitem(last=False)
        return [KeyUse(names[key], limbs) for key, limbs in program.compiled.key_uses]


class _Inputs:
    """The inputs of a job, read when they are used."""

    def __init__(self, spec: JobSpec, program: WorkerProgram) -> None:
        params = program.params
        self._paths = [spec.inputs[name] for name in program.inputs]
        self._names, self._tag = program.inputs, spec.secret_tag
        self._most_bytes = params.ciphertext_bytes(params.num_q) + _MORE_INPUT
        if not self._paths:
            raise UsageError(f"'{program.name}' takes no input, so that nothing says how results are written")
        self.first = self.take(0)

    def take_yielding(self, niceness: int, number: int) -> bytes:
        """As `take`, on a thread that computes, which takes that niceness; those with the interpreter keep theirs."""
        with suppress(OSError):
            os.nice(max(0, niceness - os.getpriority(os.PRIO_PROCESS, 0)))
        return self.take(number)

    def take(self, number: int) -> bytes:
        """Raises: FileError. KeyRefused: it is larger than a ciphertext, or of another pair."""
        path, name = self._paths[number], self._names[number]
        with os_errors(path, "read"), path.open("rb") as file:
            content = file.read(self._most_bytes + 1)
        if len(content) > self._most_bytes:
            raise KeyRefused(
                f"input '{name}' is larger than a fresh ciphertext, {self._most_bytes} bytes: encrypt anew"
            )
        what = f"input '{name}'"
        stated = stated_pair(content, what)
        self._tag = self._tag or stated  # keys that state no pair take the pair of the first input
        check_tag(stated, what, [self._tag], "the job's keys")
        return content


def _options(spec: JobSpec, program: WorkerProgram) -> WholeOptions:
    """A job of predicted memory keeps no more encoded vectors than the prediction counts."""
    repeated = program.compiled.repeated_bytes
    keep_bytes = min(repeated, VECTOR_BYTES) if spec.memory_bytes else repeated
    return WholeOptions(lanes=program.lanes.count, keep_bytes=keep_bytes)


def _waits_for_keys(done: Computed, run_s: float, ran_s: float) -> tuple[tuple[float, float], ...]:
    """Beginning and end of each time in which some lane waited for a key."""
    starts = [(run_s + start, waited) for start, _, waited, _ in done.times.tolist()]
    return merged([(start - waited, start) for start, waited in starts if waited > SHORTEST_WAIT_S], run_s, ran_s)


def _state(path: Path) -> FileState:
    """The name of a program. Tenants that deploy the same package share its compiled form."""
    status, name = path.stat(), content_of(path)
    return name, status.st_mtime_ns if name == str(path) else 0, status.st_size


def _yielding(predicted_s: float, yields: bool = False) -> int:
    """Niceness of a job. `yields`: to those of other tenants.

    >>> [_yielding(seconds) for seconds in (0.0, 1.0, 9.0, 90.0, 1e9)], _yielding(0.0, True)
    ([0, 0, 5, 9, 9], 5)
    """
    return next((more for seconds, more in _YIELDS if predicted_s > seconds), 0) + (_YIELDS[-1][1] if yields else 0)


def _go_on(cancelled: threading.Event) -> None:
    if cancelled.is_set():
        raise Cancelled("cancelled")


def _same_names(what: str, package: str, given: Mapping[str, Path], wanted: Sequence[str]) -> None:
    if set(given) != set(wanted):
        raise UsageError(
            f"'{package}' has the {what} {', '.join(wanted)}, and the job names {', '.join(given) or 'none'}"
        )
