"""Runs a queue of jobs of several tenants under one key budget: ciphertexts in, ciphertexts out.

One job computes at a time; the key store's thread reads ahead for it and for those behind it. A job that fails stops
alone. A finished result is handed out at once, so an interruption loses only the running job.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from penstock import _engine, workloads
from penstock.errors import PenstockError
from penstock.keystore import KeyCache, KeyName, KeyPlan, KeyRefused, KeySession, KeyStore, KeyUse, parameter_digest
from penstock.keystore.stated import check_pair
from penstock.native.ends import PreparedEnds
from penstock.native.engine import EngineHere, make_context
from penstock.native.evaluator import NativeEvaluator
from penstock.native.keys import KeyTraffic
from penstock.params.ckks import CkksParameters
from penstock.service.client import PreparedJob
from penstock.service.queue import Policy
from penstock.service.schedule import Demand

_READ_AHEAD_USES = 64
_KEPT_CIPHERTEXTS = 32
"""Memory of dropped results that one job leaves to the next, in fresh ciphertexts. A job gets memory beyond that from
the system each time, at a fault a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """One job that ran, or failed."""

    prepared: PreparedJob
    position: int
    """Place in the order of running, from 0."""
    error: str | None
    """Why it failed; `None`: it did not."""
    wait_s: float
    """From the start of the queue to the start of the job."""
    run_s: float
    key_wait_s: float
    """Part of `run_s`: the job's waits for keys."""
    key_read_bytes: int
    """Rows that were read while it ran, for it or ahead for others."""
    hits: int
    misses: int
    evictions: int
    outputs: tuple[bytes, ...]
    """The ciphertexts that the program hands to its client, in OpenFHE's bytes."""


class SessionKeys:
    """One tenant's keys while one job runs."""

    def __init__(self, session: KeySession) -> None:
        self._session = session
        self.waits_s: list[float] = []

    @contextmanager
    def get(self, key: str, limbs: int) -> Iterator[Any]:
        """Raises: KeyMissing, KeyRefused, KeyDamaged, BudgetTooSmall, StoreUnusable."""
        started = time.perf_counter()
        pinned = self._session.get(key, limbs)
        self.waits_s.append(time.perf_counter() - started)
        with pinned:
            yield pinned

    def traffic(self) -> KeyTraffic:
        """The counters belong to the cache, for all jobs; see `JobResult`."""
        return KeyTraffic(key_bytes=0, wait_s=sum(self.waits_s))

    def close(self) -> None:
        """The session ends with the job."""


class QueueRunner:
    """A key store, a budget, and an evaluator for each set of parameters."""

    def __init__(self, store: KeyStore, budget_bytes: int, policy: Policy, *, threads: int) -> None:
        ahead = _READ_AHEAD_USES if policy is Policy.FUTURE else 0
        self.store, self.policy, self.threads = store, policy, threads
        self.budget_bytes = budget_bytes
        self.cache = KeyCache(store, budget_bytes, policy=policy.value, prefetch_uses=ahead)
        self._contexts: dict[Hashable, _engine.CkksContext] = {}

    def prepare(self, jobs: Sequence[PreparedJob]) -> None:
        """Get ready what outlasts a queue: an evaluator for each set of parameters, and memory for the keys."""
        most_bytes: dict[CkksParameters, dict[Hashable, int]] = {}
        for job in jobs:
            known = most_bytes.setdefault(job.params, {})
            for key, size in demand_of(job).largest().items():
                known[key] = max(size, known.get(key, 0))
        left_bytes = self.budget_bytes
        for params, sizes in most_bytes.items():
            taken_bytes = min(left_bytes, sum(sizes.values()))
            self.cache.reserve(params.ring_dim, taken_bytes)
            left_bytes -= taken_bytes
            with suppress(PenstockError):  # the job that needs it says so
                self._context_of(params)

    def _context_of(self, params: CkksParameters) -> _engine.CkksContext:
        # Sets of one digest may share keys, and yet scale otherwise.
        known_by = (parameter_digest(params), params.scaling, params.scale_bits)
        if known_by not in self._contexts:
            self._contexts[known_by] = make_context(params, self.threads, kept_ciphertexts=_KEPT_CIPHERTEXTS)
        return self._contexts[known_by]

    def run(self, jobs: Sequence[PreparedJob]) -> Iterator[JobResult]:
        """Run jobs in the order given; each is handed out when it has ended. The clock starts when all is prepared."""
        self.prepare(jobs)
        started = time.perf_counter()
        plan = self._plan(jobs)
        try:
            for position, job in enumerate(jobs):
                result = self._run_one(job, position, started, plan)
                if result.error is not None and plan is not None:
                    # The failed job's remaining uses are removed from the plan.
                    plan.close()
                    plan = self._plan(jobs[position + 1 :])
                yield result
        finally:
            if plan is not None:
                plan.close()

    def _plan(self, jobs: Sequence[PreparedJob]) -> KeyPlan | None:
        if self.policy is Policy.LRU:
            return None
        digests = {job.params.name: parameter_digest(job.params) for job in jobs}
        return self.cache.plan(
            KeyUse(names[key], limbs)
            for job in jobs
            for names in [self._names(job, digests[job.params.name])]
            for key, limbs in job.uses
        )

    def _names(self, prepared: PreparedJob, digest: str) -> dict[str, KeyName]:
        """The names of a job's keys, of the pair that its inputs were encrypted with."""
        return {key: key_of_job(self.store, prepared, digest, key) for key in {key for key, _ in prepared.uses}}

    def _run_one(self, prepared: PreparedJob, position: int, started: float, plan: KeyPlan | None) -> JobResult:
        job, params = prepared.job, prepared.params
        digest = parameter_digest(params)
        before, begun = self.cache.stats(), time.perf_counter()
        keys = SessionKeys(self.cache.session(job.tenant, digest, plan, secret_tag=prepared.key_tag))
        error: str | None = None
        outputs: tuple[bytes, ...] = ()
        try:
            admit(self.store, prepared, digest)
            ends = PreparedEnds(params, prepared.inputs)
            ev = NativeEvaluator(EngineHere(params, self._context_of(params), keys), ends)
            workload = workloads.get(job.workload)
            size = workload.SIZES[prepared.size]
            workload.program(ev, workload.blank(size, params.slots), size)
            outputs = tuple(ends.outputs)
        except PenstockError as failure:
            error = str(failure)
        after, ended = self.cache.stats(), time.perf_counter()
        return JobResult(
            prepared=prepared,
            position=position,
            error=error,
            wait_s=begun - started,
            run_s=ended - begun,
            key_wait_s=sum(keys.waits_s),
            key_read_bytes=after.read_bytes - before.read_bytes,
            hits=after.hits - before.hits,
            misses=after.misses - before.misses,
            evictions=after.evictions - before.evictions,
            outputs=outputs,
        )


def key_of_job(store: KeyStore, prepared: PreparedJob, digest: str, key: str) -> KeyName:
    """The name of a key for a job: of its own key pair, if its tenant has several."""
    return store.name_for(prepared.job.tenant, digest, key, secret_tag=prepared.key_tag)


def admit(store: KeyStore, prepared: PreparedJob, digest: str) -> None:
    """Make sure that every key of a job is its tenant's, of the key pair that its inputs were encrypted with.

    Raises: KeyMissing: a key is not there. KeyRefused: keys or inputs of another key pair.
    """
    tenant = prepared.job.tenant
    for key in sorted({key for key, _ in prepared.uses}):
        tag = store.key(key_of_job(store, prepared, digest, key)).secret_tag
        if tag != prepared.key_tag:
            raise KeyRefused(
                f"key {key} of tenant '{tenant}' was made from another secret key ({tag}) than the job's inputs "
                f"({prepared.key_tag}): import the keys of that key pair, or encrypt again"
            )
    for number, content in enumerate(prepared.inputs):
        check_pair(content, f"input {number}", [prepared.key_tag], f"the keys of tenant '{tenant}'")


def demand_of(prepared: PreparedJob) -> Demand:
    """What a job asks of memory, for the scheduler and the simulation."""
    digest, tenant = parameter_digest(prepared.params), prepared.job.tenant
    return Demand(
        number=prepared.job.number,
        uses=tuple(
            (KeyName(tenant, digest, key), prepared.params.key_bytes(limbs, key=key)) for key, limbs in prepared.uses
        ),
    )
