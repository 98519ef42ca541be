"""Recorded traces, which have no constants, at other parameters."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import PenstockError, TraceError
from penstock.program import workloads
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.package.content import Verb
from penstock.program.package.derive import derive, fitted
from penstock.program.package.replay import run_package, trace_package
from penstock.program.package.retrace import package_of_trace, retrace, series_of
from penstock.program.running.packaging import package_workload
from penstock.program.running.trace import trace_workload
from penstock.scheme.operations import OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.traces.builder import TraceBuilder
from penstock.scheme.traces.inspect import problems
from penstock.scheme.traces.schema import ORIGIN_COMPOSITE, Trace, TraceMeta

COMPARED = (
    "kind", "origin", "limbs_in", "limbs_out", "key", "step", "implied_rescales", "implied_scalar_mults", "scope",
)  # fmt: skip
NAMES = (
    "bootstrapping", "chi-square", "cnn", "cryptoracle-cifar10", "cryptoracle-logistic-regression", "inner-product",
    "logistic-function", "logistic-regression", "sign-evaluation", "sorting", "sorting-three-way",
)  # fmt: skip


def same_rows(one: Trace, two: Trace) -> bool:
    return all(one.operations[column].equals(two.operations[column]) for column in COMPARED)


def smallest(name: str) -> str:
    return next(iter(workloads.get(name).SIZES))


@pytest.mark.parametrize("name", NAMES)
def test_a_trace_as_a_package_has_its_own_rows(name):
    trace = trace_workload(name, size=smallest(name))
    package, notes = package_of_trace(trace)
    assert not notes
    assert same_rows(trace_package(package), trace)


@pytest.mark.parametrize("name", ["chi-square", "cnn", "logistic-function", "logistic-regression", "sorting"])
@pytest.mark.parametrize("params", ["sharp", "craterlake"])
def test_a_trace_goes_where_the_package_of_its_program_goes(name, params):
    trace = trace_workload(name, size=smallest(name))
    package = package_workload(name, size=smallest(name))
    there = catalogue.get(params)
    found = retrace(trace, there)
    assert not found.notes
    assert not list(problems(found.trace))
    assert same_rows(found.trace, trace_package(derive(package, fitted(package, there))))
    assert found.trace.meta.workload == name
    assert found.trace.meta.size == smallest(name)


@pytest.mark.parametrize("degree", [2, 5, 13, 27, 59, 119])
@pytest.mark.parametrize("pattern", [(1, 0), (2, 1)])
def test_the_steps_of_a_series_tell_its_degree(degree, pattern):
    params = catalogue.get("openfhe-bootstrap-50")
    every, first = pattern
    kept = {*range(first, degree + 1, every), degree}
    coefficients = [0.9**k + 0.01 if k in kept else 0.0 for k in range(degree + 1)]
    ev = SymbolicEvaluator(params)
    ev.chebyshev_series(ev.fresh(params.num_q), coefficients, -8.0, 8.0)
    found = series_of(params, params.num_q, tuple(ev.builder.kinds()[:-1]))
    assert found is not None
    again = SymbolicEvaluator(params)
    again.chebyshev_series(again.fresh(params.num_q), found.coefficients, found.lower, found.upper)
    assert again.builder.kinds() == ev.builder.kinds()


def built(write) -> Trace:
    params = catalogue.get("insecure-ci")
    builder = TraceBuilder(params)
    write(builder, params.num_q)
    return builder.finish(TraceMeta(workload="made", params=params.to_dict(), reading="recorded"))


def encrypted(builder: TraceBuilder, limbs: int) -> int:
    fresh = builder.ciphertext(limbs)
    builder.add(OpKind.ENCRYPT, limbs_in=limbs, limbs_out=limbs, output=fresh)
    return fresh


def test_a_call_whose_inside_nobody_knows_is_left_out_and_said():
    def write(builder: TraceBuilder, limbs: int) -> None:
        a, b = encrypted(builder, limbs), builder.ciphertext(limbs - 3)
        with builder.open_scope("EvalSumRows"):
            builder.add(
                OpKind.COMPOSITE, limbs_in=limbs, limbs_out=limbs - 3, operands=(a,), output=b, origin=ORIGIN_COMPOSITE
            )
        builder.add(OpKind.DECRYPT, limbs_in=limbs - 3, limbs_out=limbs - 3, operands=(b,), output=None)

    package, notes = package_of_trace(built(write))
    assert notes == ["the inside of a composite call is not known, and left out"]
    assert [each.verb for each in package.instructions] == [Verb.ENCRYPT, Verb.MOD_DROP, Verb.OUTPUT]


def test_a_ciphertext_from_outside_is_an_input():
    def write(builder: TraceBuilder, limbs: int) -> None:
        loaded, double = builder.ciphertext(limbs - 1, name="loaded"), builder.ciphertext(limbs - 1)
        builder.add(OpKind.ADD, limbs_in=limbs - 1, limbs_out=limbs - 1, operands=(loaded, loaded), output=double)

    package, _ = package_of_trace(built(write))
    assert [(each.name, each.limbs) for each in package.inputs] == [("loaded", 13)]


def test_steps_of_bootstrapping_without_their_call_are_refused():
    def write(builder: TraceBuilder, limbs: int) -> None:
        a, b = encrypted(builder, 1), builder.ciphertext(limbs)
        with builder.open_scope("bootstrap", modelled=True):
            builder.add(OpKind.MOD_RAISE, limbs_in=1, limbs_out=limbs, operands=(a,), output=b)

    with pytest.raises(TraceError, match=r"operation 1 \(mod_raise\) is a step of bootstrapping"):
        package_of_trace(built(write))


def test_a_package_of_a_trace_cannot_be_run():
    package, _ = package_of_trace(trace_workload("cnn", size="ci"))
    inputs = {each.name: np.zeros(each.length) for each in package.inputs}
    with pytest.raises(PenstockError, match="a trace has no constants"):
        run_package(ClearEvaluator(package.params), package, inputs)
