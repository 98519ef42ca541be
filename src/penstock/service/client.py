"""The tenants' side of a job: inputs are encrypted before the server sees it, results decrypted after.

A program is oblivious: what it encrypts and in which order does not depend on ciphertexts. So it is run three times:
without cryptography on the tenant's data, which gives the inputs; on the server, from ciphertexts to ciphertexts; and
without cryptography again, with the decrypted results in the place of decryptions. Secret keys stay in this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError
from penstock.keystore import KeyStore
from penstock.native.client import ClientHere
from penstock.native.reading import key_uses
from penstock.native.store import add_missing_keys, open_client
from penstock.params.ckks import CkksParameters
from penstock.program.call import Cipher, Executed
from penstock.program.circuits.bootstrap import with_few_keys
from penstock.program.evaluator import Values
from penstock.program.symbolic import SymbolicEvaluator
from penstock.running.clear import run_clear
from penstock.running.reading import describe, resolve
from penstock.service.queue import Job


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
    """OpenFHE's tag of the key pair that the inputs were encrypted with."""

    @property
    def key_bytes(self) -> int:
        """Rows that its key switches use, one after another."""
        return sum(self.params.key_bytes(limbs) for _, limbs in self.uses)


class InputsOf(SymbolicEvaluator):
    """Keeps what a program encrypts."""

    def __init__(self, params: CkksParameters) -> None:
        super().__init__(params)
        self.inputs: list[Values] = []
        self._decrypted = False

    def _encrypt(self, values: Values) -> Executed:
        if self._decrypted:
            raise PenstockError(
                "the program encrypts after it has decrypted: such a dialogue with its client is no job of a queue; "
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


class TenantClient:
    """One tenant with its key pair, for one set of parameters."""

    def __init__(self, params: CkksParameters, store: KeyStore, tenant: str) -> None:
        self.params, self.store, self.tenant = params, store, tenant
        self.context = open_client(params, store, tenant)

    @property
    def key_tag(self) -> str:
        """OpenFHE's tag of this key pair."""
        return str(self.context.secret_key.GetKeyTag())

    def prepare(self, job: Job) -> PreparedJob:
        """Encrypt a job's inputs, and make the evaluation keys that the store lacks.

        Raises: PenstockError: the program is interactive, or the store's keys are of another secret key.
        """
        workload, size_name, _ = resolve(job.workload, self.params, job.size)
        size = workload.SIZES[size_name]
        found = InputsOf(self.params)
        workload.program(found, workload.data(size, self.params.slots, job.seed), size)
        trace = found.builder.finish(_described(job, self.params, size_name))
        add_missing_keys(ClientHere(self.context), self.store, self.tenant, trace.view().key_ids())
        return PreparedJob(
            job=job,
            size=size_name,
            params=self.params,
            inputs=tuple(self._encrypted(v) for v in found.inputs),
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

    def _encrypted(self, values: Values) -> bytes:
        return ClientHere(self.context).encrypt(values).content

    def _decrypted(self, content: bytes) -> Values:
        try:
            return ClientHere(self.context).decrypt(content).values
        except PenstockError as error:
            raise PenstockError(f"a result of tenant '{self.tenant}' does not decrypt: {error}") from error


class Clients:
    """The tenants of a queue; each key pair is opened once.

    Args:   few_keys: jobs bootstrap with few keys, as the `native` reading does; else by the plan of their parameters.
    """

    def __init__(self, store: Path, *, few_keys: bool = True) -> None:
        self.store = KeyStore(store)
        self._few_keys = few_keys
        self._open: dict[tuple[str, str], TenantClient] = {}

    def of(self, job: Job) -> TenantClient:
        """The client of a job's tenant at the job's parameters."""
        _, _, params = resolve(job.workload, job.params, job.size)
        params = with_few_keys(params) if self._few_keys else params
        name = (job.tenant, params.name)
        if name not in self._open:
            self._open[name] = TenantClient(params, self.store, job.tenant)
        return self._open[name]

    def release(self) -> None:
        """Give OpenFHE's memory back."""
        for client in self._open.values():
            client.context.release()
        self._open.clear()


def _described(job: Job, params: CkksParameters, size: str) -> Any:
    return describe(job.workload, params, "trace", size, job.seed)
