"""A package equals its program: every shipped workload at its smallest size, in every reading without encryption."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from penstock.program import workloads
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.noisy import NoisyEvaluator
from penstock.program.package.content import Package, Verb
from penstock.program.package.derive import Derivation
from penstock.program.package.replay import run_package, trace_package
from penstock.program.running.packaging import package_workload
from penstock.program.running.trace import trace_workload
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from support.narrow_networks import NETWORKS, narrow_network

COMPARED = (
    "kind", "origin", "limbs_in", "limbs_out", "key", "step", "implied_rescales", "implied_scalar_mults", "scope",
)  # fmt: skip

PROGRAMS = [name for name in workloads.names() if name != "fetch-by-similarity"]
"""That begins in a smaller ring, which a package has no operations for."""


PACKAGES: dict[str, Package] = {}


@dataclass(frozen=True)
class Case:
    """A program at its smallest size."""

    name: str
    size: str
    params: CkksParameters
    data: Any

    @property
    def package(self) -> Package:
        """Made once in a process."""
        if self.name not in PACKAGES:
            PACKAGES[self.name] = package_workload(self.name, self.params, self.size, 0, self.data)
        return PACKAGES[self.name]


@pytest.fixture(params=PROGRAMS)
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Case:
    """The networks are narrow."""
    name = request.param
    workload = workloads.get(name)
    size, chosen = next(iter(workload.SIZES.items()))
    if name in NETWORKS:
        params, data = narrow_network(name, monkeypatch)
    else:
        params = catalogue.get(chosen.params)
        data = workload.data(chosen, params.slots, 0)
    return Case(name, size, params, data)


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


def run_both(case: Case, make) -> tuple[list, list]:
    """What a program and its package decrypt, each on an evaluator of its own."""
    workload, package = workloads.get(case.name), case.package
    ev = Kept(make(case.params))
    workload.program(ev, case.data, workload.SIZES[case.size])
    inputs = {each.name: values for each, values in zip(package.inputs, ev.encrypted, strict=True)}
    found = run_package(make(package.params), package, inputs)
    cut = [values[: each.length] for each, values in zip(package.outputs, ev.decrypted, strict=True)]
    return cut, list(found.values())


def test_a_package_has_the_trace_of_its_program(case):
    package = case.package
    ours, theirs = trace_package(package), trace_workload(case.name, case.params, case.size, 0, case.data)
    for column in COMPARED:
        assert ours.operations[column].equals(theirs.operations[column]), column
    assert dataflow(ours) == dataflow(theirs)
    assert package.keys == theirs.view().key_limbs()


def test_a_package_computes_what_its_program_does_in_the_clear(case):
    program, package = run_both(case, ClearEvaluator)
    # In the clear a program has all the levels that it asks for, and refreshes nothing.
    refreshes = any(each.verb is Verb.BOOTSTRAP for each in case.package.instructions)
    error = max(float(np.max(np.abs(one - two))) for one, two in zip(program, package, strict=True))
    assert error <= (1e-9 if refreshes else 0)


def test_a_package_has_the_noise_of_its_program(case):
    if case.params.library != "openfhe":
        pytest.skip("the noise of operations is OpenFHE's")
    program, package = run_both(case, lambda params: NoisyEvaluator(params, 1))
    assert all(np.array_equal(one, two) for one, two in zip(program, package, strict=True))


def test_a_package_at_its_own_set_is_itself(case):
    package = case.package
    again = Derivation(package, package.params).run()
    assert (again.instructions, again.inputs, again.keys) == (package.instructions, package.inputs, package.keys)
