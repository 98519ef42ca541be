"""A package equals its program: every shipped workload at its smallest size, in every reading without encryption."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from penstock import workloads
from penstock.package.content import Package, Verb
from penstock.package.derive import Derivation
from penstock.package.replay import run_package, trace_package
from penstock.program.clear import ClearEvaluator
from penstock.program.noisy import NoisyEvaluator
from penstock.running.packaging import package_workload
from penstock.running.trace import trace_workload

COMPARED = (
    "kind", "origin", "limbs_in", "limbs_out", "key", "step", "implied_rescales", "implied_scalar_mults", "scope",
)  # fmt: skip

PROGRAMS = [name for name in workloads.names() if name != "fetch-by-similarity"]
"""That begins in a smaller ring, which a package has no operations for."""


@lru_cache(maxsize=32)
def packaged(name: str) -> tuple[Package, str]:
    size = next(iter(workloads.get(name).SIZES))
    return package_workload(name, size=size), size


def dataflow(trace) -> list:
    """Operands and results of each row, numbered as they come: plaintexts of equal values are one in a package."""
    order: dict[int, int] = {}
    rows = trace.operations.select(["operands", "output"]).to_pylist()
    return [
        [order.setdefault(each, len(order)) for each in (*row["operands"], row["output"]) if each is not None]
        for row in rows
    ]


class Kept:
    """An evaluator that keeps what is encrypted and decrypted."""

    def __init__(self, ev):
        self.ev, self.encrypted, self.decrypted = ev, [], []

    def __getattr__(self, name):
        return getattr(self.ev, name)

    def encrypt(self, values, *, name=None):
        self.encrypted.append(np.asarray(values))
        return self.ev.encrypt(values, name=name)

    def decrypt(self, a):
        self.decrypted.append(self.ev.decrypt(a))
        return self.decrypted[-1]


def run_both(name: str, make) -> tuple[list, list]:
    """What a program and its package decrypt, each on an evaluator of its own."""
    package, size = packaged(name)
    workload = workloads.get(name)
    chosen = workload.SIZES[size]
    ev = Kept(make(package.params))
    workload.program(ev, workload.data(chosen, package.params.slots, 0), chosen)
    inputs = {each.name: values for each, values in zip(package.inputs, ev.encrypted, strict=True)}
    found = run_package(make(package.params), package, inputs)
    cut = [values[: each.length] for each, values in zip(package.outputs, ev.decrypted, strict=True)]
    return cut, list(found.values())


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_package_has_the_trace_of_its_program(name):
    package, size = packaged(name)
    ours, theirs = trace_package(package), trace_workload(name, size=size)
    for column in COMPARED:
        assert ours.operations[column].equals(theirs.operations[column]), column
    assert dataflow(ours) == dataflow(theirs)
    assert package.keys == theirs.view().key_limbs()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_package_computes_what_its_program_does_in_the_clear(name):
    program, package = run_both(name, ClearEvaluator)
    # In the clear a program has all the levels that it asks for, and refreshes nothing.
    refreshes = any(each.verb is Verb.BOOTSTRAP for each in packaged(name)[0].instructions)
    error = max(float(np.max(np.abs(one - two))) for one, two in zip(program, package, strict=True))
    assert error <= (1e-9 if refreshes else 0)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_package_has_the_noise_of_its_program(name):
    if packaged(name)[0].params.library != "openfhe":
        pytest.skip("the noise of operations is OpenFHE's")
    program, package = run_both(name, lambda params: NoisyEvaluator(params, 1))
    assert all(np.array_equal(one, two) for one, two in zip(program, package, strict=True))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_package_at_its_own_set_is_itself(name):
    package, _ = packaged(name)
    again = Derivation(package, package.params).run()
    assert (again.instructions, again.inputs, again.keys) == (package.instructions, package.inputs, package.keys)
