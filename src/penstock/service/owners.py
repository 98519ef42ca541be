"""The tenants' side of a queue: inputs are encrypted before a worker sees them, results decrypted after.

A program becomes a package of public data (`blank`), which the workers run. It runs here twice more, without
cryptography: on the tenant's data, which gives the inputs, and with the decrypted results in the place of decryptions.
A secret key stays in the client's process of its tenant; this one asks it for ciphertexts, values and evaluation keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from penstock.base.system.files import os_errors, write_atomic
from penstock.base.system.temporary import temporary_folder
from penstock.errors import PenstockError, UsageError
from penstock.program.evaluator.circuits.bootstrap import with_few_keys
from penstock.program.evaluator.protocol import Values
from penstock.program.package.capture import CaptureEvaluator, Course, DigestSink, run_captured
from penstock.program.package.file import write_package
from penstock.program.package.replay import trace_package
from penstock.program.running.clear import run_clear
from penstock.program.running.packaging import package_workload
from penstock.program.running.reading import resolve
from penstock.program.workloads import Check
from penstock.runtime.keystore import KeyStore
from penstock.runtime.native.client_process import ClientProcess
from penstock.runtime.native.prepared import key_uses
from penstock.runtime.native.store import add_missing_keys, kept_folder
from penstock.scheme.params.ckks import CkksParameters
from penstock.service.tenants import Job
from penstock.service.work.messages import JobSpec
from penstock.service.work.programs import Planned

_SPARE = "or give the queue a smaller budget"
"""Where memory may come from, if a client's process finds none."""


@dataclass(frozen=True, kw_only=True)
class Packaged(Planned):
    """A program at a set, in a package file."""

    path: Path
    size: str

    @cached_property
    def uses(self) -> tuple[tuple[str, int], ...]:
        """(key, limbs) of each key switch, in order."""
        return tuple(key_uses(self.trace))

    @property
    def switches(self) -> list[tuple[str, int]]:
        """(key with the digest of its set, bytes) of each key switch, in order."""
        return [(f"{self.digest}/{key}", self.params.key_bytes(limbs, key=key)) for key, limbs in self.uses]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedJob:
    """A job as the workers get it: no secret key, no value in the clear."""

    job: Job
    program: Packaged
    spec: JobSpec
    """Its inputs are encrypted with the key pair of `secret_tag`."""

    @property
    def key_pair(self) -> tuple[str, str]:
        """Tenant and parameters: jobs that are equal in them have one key pair."""
        return self.job.tenant, self.program.params.name

    @property
    def key_bytes(self) -> int:
        """Rows that its key switches use, one after another."""
        return sum(size for _, size in self.program.switches)


class Owners:
    """The tenants of a queue. Each key pair has a process, of which one at most is there at a time.

    Another one starts where another pair is asked, so ask for the jobs of a pair together (`PreparedJob.key_pair`).

    Args:   threads: of each process; `None`: as many as its library takes. library: as `chosen_library`.
    Raises, all methods: PenstockError: a client refuses, or its process died.
    """

    def __init__(self, store: Path, *, threads: int | None = None, library: str | None = None) -> None:
        self.store = KeyStore(store)
        self.processes: dict[tuple[str, str], ClientProcess] = {}
        """By key pair."""
        self._threads, self._library = threads, library
        self._stack = ExitStack()
        self.folder = self._stack.enter_context(temporary_folder("penstock-queue-"))
        """Packages, and ciphertexts of both directions; it goes at `release`."""
        self._programs: dict[tuple[str, str, str], Packaged] = {}
        self._count = 0

    def prepare(self, jobs: Sequence[Job], on_job: Callable[[], object] | None = None) -> list[PreparedJob]:
        """Encrypt the jobs' inputs, and make the evaluation keys that the store lacks; no process of a client is left.

        Raises: NotOblivious: a program's calls depend on decrypted values. PenstockError: the store's keys are of
                another secret key.
        """
        programs = [self._packaged(job) for job in jobs]
        made: dict[int, PreparedJob] = {}
        for at in sorted(range(len(jobs)), key=lambda at: (jobs[at].tenant, programs[at].params.name)):
            made[at] = self._prepared(jobs[at], programs[at])
            if on_job is not None:
                on_job()
        self.rest()
        return [made[at] for at in range(len(jobs))]

    def check(self, prepared: PreparedJob) -> Check:
        """The workload's own comparison of a job's results, which lie in its files, with its clear result."""
        job, program = prepared.job, prepared.program
        try:
            contents = [_read(path) for path in prepared.spec.outputs.values()]
            with self._asked(prepared.key_pair, program.params) as client:
                values = [client.decrypt(content).values for content in contents]
        except PenstockError as error:
            raise PenstockError(f"a result of tenant '{job.tenant}' does not decrypt: {error}") from error
        try:
            (_, result), data = _run(job, program, partial(next, iter(values)))
        except StopIteration as error:
            raise PenstockError(
                f"{job.workload} decrypts more on its data than the {len(values)} results of its package"
            ) from error
        workload, size_name, params = resolve(job.workload, program.params, program.size)
        clear = run_clear(job.workload, params, size_name, job.seed, data)
        checked: Check = workload.check(clear, result, data, workload.SIZES[size_name])
        return checked

    def rest(self) -> None:
        """End all processes; a later request starts a process again."""
        for process in self.processes.values():
            process.release()

    def release(self) -> None:
        """No tenant is asked any more; inputs and results go."""
        self.rest()
        self._stack.close()

    def _packaged(self, job: Job) -> Packaged:
        workload, size, params = resolve(job.workload, job.params, job.size)
        params = with_few_keys(params)
        name = job.workload, size, params.name
        if name not in self._programs:
            blank = workload.blank(workload.SIZES[size], params.slots)
            package = package_workload(job.workload, params, size, data=blank)
            path = self.folder / f"{len(self._programs)}.pkg"
            write_package(package, path)
            self._programs[name] = Packaged(package=package, trace=trace_package(package), path=path, size=size)
        return self._programs[name]

    def _prepared(self, job: Job, program: Packaged) -> PreparedJob:
        (ev, _), _ = _run(job, program)
        if list(ev.inputs) != list(program.inputs):
            given, known = (", ".join(names) or "nothing" for names in (ev.inputs, program.inputs))
            raise UsageError(
                f"job of tenant '{job.tenant}', {job.workload} with seed {job.seed}: it encrypts {given}, and its "
                f"package has the inputs {known}: name inputs the same on any data"
            )
        number, self._count = self._count, self._count + 1
        files = {name: self.folder / f"{number}-input-{at}.ct" for at, name in enumerate(program.inputs)}
        with self._asked((job.tenant, program.params.name), program.params) as client:
            add_missing_keys(client, self.store, job.tenant, program.keys)
            for name, path in files.items():
                write_atomic(path, client.encrypt(ev.inputs[name]).content, mode=0o600, is_synced=False)
        spec = JobSpec(
            job=str(number),
            tenant=job.tenant,
            program=job.workload,
            package=program.path,
            store=self.store.folder,
            secret_tag=client.key_tag,
            inputs=files,
            outputs={name: self.folder / f"{number}-output-{at}.ct" for at, name in enumerate(program.outputs)},
        )
        return PreparedJob(job=job, program=program, spec=spec)

    @contextmanager
    def _asked(self, pair: tuple[str, str], params: CkksParameters) -> Iterator[ClientProcess]:
        """The process of a key pair, there or started. One that was left in the midst of an answer gives no other."""
        for name, process in self.processes.items():
            if name != pair:
                process.release()
        if pair not in self.processes:
            kept = kept_folder(params, self.store, pair[0])
            self.processes[pair] = ClientProcess(
                params, kept, library=self._library, threads=self._threads, spare=_SPARE
            )
        try:
            yield self.processes[pair]
        except BaseException:
            self.processes[pair].release()
            raise


def _read(path: Path) -> bytes:
    with os_errors(path, "read"):
        return path.read_bytes()


def _run(
    job: Job, program: Packaged, decrypts: Callable[[], Values] | None = None
) -> tuple[tuple[CaptureEvaluator, object], object]:
    """A job's program on its tenant's data without cryptography: its evaluator and result, and the data."""
    workload, size_name, params = resolve(job.workload, program.params, program.size)
    size = workload.SIZES[size_name]
    data = workload.data(size, params.slots, job.seed)
    return run_captured(lambda ev: workload.program(ev, data, size), params, Course(DigestSink()), decrypts), data
