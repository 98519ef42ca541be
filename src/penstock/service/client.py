"""The tenants' side of a job: inputs are encrypted before the server sees it, results decrypted after.

A program is oblivious: its encryptions and their order do not depend on ciphertexts. So it is run three times: without
cryptography on the tenant's data, which gives the inputs; on the server, from ciphertexts to ciphertexts; and without
cryptography again, with the decrypted results in the place of decryptions. A secret key stays in the client's process
of its tenant; this one asks it for ciphertexts, values and evaluation keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError
from penstock.keystore import KeyStore
from penstock.native.client_process import ClientProcess
from penstock.native.prepared import highest_limbs, key_uses
from penstock.native.store import add_missing_keys, kept_folder
from penstock.params.ckks import CkksParameters
from penstock.program.call import Cipher, Executed
from penstock.program.circuits.bootstrap import with_few_keys
from penstock.program.evaluator import Values
from penstock.program.symbolic import SymbolicEvaluator
from penstock.running.clear import run_clear
from penstock.running.reading import describe, resolve
from penstock.service.queue import Job

_SPARE = "or give the queue a smaller budget"
"""Where memory may come from, if a client's process finds none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedJob:
    """A job as the server gets it: no secret key, no value in the clear."""

    job: Job
    size: str
    params: CkksParameters
    inputs: tuple[bytes, ...]
    """Ciphertexts in OpenFHE's bytes, in the order in which the program encrypts them."""
    uses: tuple[tuple[str, int], ...]
    """(key, limbs) of each key switch, in order."""
    key_tag: str
    """The tag of the key pair that the inputs were encrypted with."""

    @property
    def key_pair(self) -> tuple[str, str]:
        """Tenant and parameters: jobs that are equal in them have one key pair."""
        return self.job.tenant, self.params.name

    @property
    def key_bytes(self) -> int:
        """Rows that its key switches use, one after another."""
        return sum(self.params.key_bytes(limbs, key=key) for key, limbs in self.uses)


class InputsOf(SymbolicEvaluator):
    """Keeps the encryptions of a program."""

    def __init__(self, params: CkksParameters) -> None:
        super().__init__(params)
        self.inputs: list[Values] = []
        self._decrypted = False

    def _encrypt(self, values: Values) -> Executed:
        if self._decrypted:
            raise PenstockError(
                "the program encrypts after it has decrypted: such a dialogue with its client is not a job of a queue; "
                "run it alone, with --reading native"
            )
        self.inputs.append(values)
        return super()._encrypt(values)

    def _decrypt(self, a: Cipher) -> tuple[Values, Executed]:
        self._decrypted = True
        return super()._decrypt(a)


class ResultsOf(SymbolicEvaluator):
    """Gives a program the values that were computed elsewhere, where it decrypts."""

    def __init__(self, params: CkksParameters, results: Sequence[Values]) -> None:
        super().__init__(params)
        self._results = iter(results)

    def _decrypt(self, a: Cipher) -> tuple[Values, Executed]:
        return next(self._results), Executed(a.state)


class Turns:
    """Tenants with a client process: the `most` most recent ones."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._awake: list[TenantClient] = []

    def make_room(self) -> None:
        """Room for one process more."""
        while self._awake and len(self._awake) >= self._most:
            self._awake.pop(0).rest()

    def take(self, client: TenantClient) -> None:
        """The process of `client` is asked now."""
        if client in self._awake:
            self._awake.remove(client)
        self.make_room()
        self._awake.append(client)


class TenantClient:
    """One tenant with its key pair, for one set of parameters. The pair is in a separate process, which may rest.

    Raises, all methods: PenstockError: the client refuses, or its process died.
    """

    def __init__(
        self,
        params: CkksParameters,
        store: KeyStore,
        tenant: str,
        turns: Turns,
        *,
        threads: int | None = None,
        library: str | None = None,
    ) -> None:
        self.params, self.store, self.tenant = params, store, tenant
        self._turns = turns
        folder = kept_folder(params, store, tenant)
        turns.make_room()
        self._process = ClientProcess(params, folder, library=library, threads=threads, spare=_SPARE)
        turns.take(self)

    @property
    def key_tag(self) -> str:
        """The tag of this key pair."""
        return self._process.key_tag

    @property
    def pid(self) -> int | None:
        """Of its process; `None` while that rests."""
        return self._process.pid

    def rest(self) -> None:
        """End the process; the next question starts another."""
        self._process.release()

    @contextmanager
    def _asked(self) -> Iterator[ClientProcess]:
        """The process, there or started. One that was left in the midst of an answer gives no other."""
        self._turns.take(self)
        try:
            yield self._process
        except BaseException:
            self.rest()
            raise

    def prepare(self, job: Job) -> PreparedJob:
        """Encrypt a job's inputs, and make the evaluation keys that the store lacks.

        Raises: PenstockError: the program is interactive, or the store's keys are of another secret key.
        """
        workload, size_name, _ = resolve(job.workload, self.params, job.size)
        size = workload.SIZES[size_name]
        found = InputsOf(self.params)
        workload.program(found, workload.data(size, self.params.slots, job.seed), size)
        trace = found.builder.finish(_described(job, self.params, size_name))
        with self._asked() as client:
            add_missing_keys(client, self.store, self.tenant, highest_limbs(trace))
            inputs = tuple(client.encrypt(values).content for values in found.inputs)
        return PreparedJob(
            job=job,
            size=size_name,
            params=self.params,
            inputs=inputs,
            uses=tuple(key_uses(trace)),
            key_tag=self.key_tag,
        )

    def result(self, job: Job, size_name: str, outputs: Sequence[bytes]) -> Any:
        """What the program computes from the ciphertexts that it decrypts."""
        workload, _, _ = resolve(job.workload, self.params, size_name)
        size = workload.SIZES[size_name]
        ev = ResultsOf(self.params, [self._decrypted(content) for content in outputs])
        return workload.program(ev, workload.data(size, self.params.slots, job.seed), size)

    def check(self, job: Job, size_name: str, outputs: Sequence[bytes]) -> Any:
        """The workload's own comparison with its clear result."""
        workload, _, _ = resolve(job.workload, self.params, size_name)
        size = workload.SIZES[size_name]
        data = workload.data(size, self.params.slots, job.seed)
        clear = run_clear(job.workload, self.params, size_name, job.seed, data)
        return workload.check(clear, self.result(job, size_name, outputs), data, size)

    def _decrypted(self, content: bytes) -> Values:
        try:
            with self._asked() as client:
                return client.decrypt(content).values
        except PenstockError as error:
            raise PenstockError(f"a result of tenant '{self.tenant}' does not decrypt: {error}") from error


class Clients:
    """The tenants of a queue, each key pair with its process.

    Args:   few_keys: jobs bootstrap with few keys, as the `native` reading does; else by the plan of their parameters;
            most_processes: how many of the processes may be there at one time; each has a client's memory. One that is
            asked again is started again, so ask for the jobs of a key pair together (`PreparedJob.key_pair`);
            threads: of each process; `None`: as many as its library takes. library: as `chosen_library`.
    """

    def __init__(
        self,
        store: Path,
        *,
        few_keys: bool = True,
        most_processes: int = 2,
        threads: int | None = None,
        library: str | None = None,
    ) -> None:
        self.store = KeyStore(store)
        self._few_keys, self._chosen = few_keys, dict[str, Any](threads=threads, library=library)
        self._turns = Turns(most_processes)
        self._known: dict[tuple[str, str], TenantClient] = {}

    def of(self, job: Job) -> TenantClient:
        """The client of a job's tenant at the job's parameters."""
        name, params = self._pair_of(job)
        if name not in self._known:
            self._known[name] = TenantClient(params, self.store, job.tenant, self._turns, **self._chosen)
        return self._known[name]

    def prepare(self, jobs: Sequence[Job], on_job: Callable[[], object] | None = None) -> list[PreparedJob]:
        """Each job as `TenantClient.prepare` makes it; no process of a client is left."""
        made: dict[int, PreparedJob] = {}
        for at in sorted(range(len(jobs)), key=lambda at: self._pair_of(jobs[at])[0]):
            made[at] = self.of(jobs[at]).prepare(jobs[at])
            if on_job is not None:
                on_job()
        self.rest()
        return [made[at] for at in range(len(jobs))]

    def rest(self) -> None:
        """End all processes; a later request starts a process again."""
        for client in self._known.values():
            client.rest()

    def release(self) -> None:
        """No tenant is asked any more."""
        self.rest()
        self._known.clear()

    def _pair_of(self, job: Job) -> tuple[tuple[str, str], CkksParameters]:
        _, _, params = resolve(job.workload, job.params, job.size)
        params = with_few_keys(params) if self._few_keys else params
        return (job.tenant, params.name), params


def _described(job: Job, params: CkksParameters, size: str) -> Any:
    return describe(job.workload, params, "trace", size, job.seed)
