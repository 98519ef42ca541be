"""The results of a tenant's job, on any engine, and on this machine with its keys on disk."""

from __future__ import annotations

from pathlib import Path

from penstock.program import workloads
from penstock.runtime.keystore import KeyStore
from penstock.runtime.native.client import PreparedEnds
from penstock.runtime.native.engine import EngineHere, make_context
from penstock.runtime.native.evaluator import NativeEvaluator
from penstock.runtime.native.keys import KeysOnDisk
from penstock.service.owners import PreparedJob


def inputs_of(job: PreparedJob) -> list[bytes]:
    """Its ciphertexts, in the order in which the program encrypts them."""
    return [path.read_bytes() for path in job.spec.inputs.values()]


def outputs(engine: EngineHere, job: PreparedJob) -> list[bytes]:
    """Its results in OpenFHE's bytes, call by call."""
    params = job.program.params
    ends = PreparedEnds(params, inputs_of(job))
    workload = workloads.get(job.job.workload)
    size = workload.SIZES[job.program.size]
    workload.program(NativeEvaluator(engine, ends), workload.blank(size, params.slots), size)
    return ends.outputs


def outputs_here(store: Path, job: PreparedJob) -> list[bytes]:
    """Its results with the keys of a store."""
    params, tag = job.program.params, job.spec.secret_tag
    budget = 8 * params.key_bytes()
    keys = KeysOnDisk(params, KeyStore(store), job.job.tenant, budget, job.program.uses, secret_tag=tag)
    try:
        return outputs(EngineHere(params, make_context(params, 1), keys), job)
    finally:
        keys.close()
