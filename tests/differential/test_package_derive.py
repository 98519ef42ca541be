"""Packages at other parameter sets: the traces that their programs have there, and the same values."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from penstock.errors import ParamsError
from penstock.program import workloads
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.noisy import NoisyEvaluator
from penstock.program.package.builder import PackageBuilder
from penstock.program.package.capture import capture
from penstock.program.package.content import ConstantsInMemory, Input, Output, Package, Verb
from penstock.program.package.derive import derive, fitted
from penstock.program.package.replay import run_package, trace_package
from penstock.program.running.packaging import package_workload
from penstock.program.running.trace import trace_workload
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.params.spec import CkksSpec
from penstock.scheme.traces.inspect import problems
from penstock.scheme.traces.schema import Trace

COMPARED = (
    "kind", "origin", "limbs_in", "limbs_out", "key", "step", "implied_rescales", "implied_scalar_mults", "scope",
)  # fmt: skip
FROM_MANUAL = (
    "chi-square", "filter-aggregate", "inner-product", "logistic-function", "logistic-regression",
    "matrix-multiplication", "sign-evaluation",
)  # fmt: skip
"""Workloads at a manual set, whose calls are the same at each set."""


@lru_cache(maxsize=16)
def packaged(name: str) -> tuple[Package, str]:
    size = next(iter(workloads.get(name).SIZES))
    return package_workload(name, size=size), size


def variant(params: CkksParameters, **changes: object) -> CkksParameters:
    """A set of the catalogue with other values."""
    written = catalogue.spec(params.name).model_dump()
    return CkksSpec(**{**written, "name": f"{params.name}-changed", "security": "none", **changes}).build()


def same_rows(one: Trace, two: Trace) -> bool:
    return all(one.operations[column].equals(two.operations[column]) for column in COMPARED)


@pytest.mark.parametrize("scaling", ["flexible-auto", "flexible-auto-ext", "fixed-auto"])
@pytest.mark.parametrize("name", FROM_MANUAL)
def test_a_package_at_an_automatic_set_has_the_trace_of_its_program_there(name, scaling):
    package, size = packaged(name)
    assert package.params.scaling is Scaling.FIXED_MANUAL
    other = variant(package.params, scaling=scaling)
    derived = derive(package, other)
    assert same_rows(trace_package(derived), trace_workload(name, other, size))
    assert not any(each.verb is Verb.RESCALE for each in derived.instructions)


@pytest.mark.parametrize("name", [*FROM_MANUAL, "cnn", "bootstrapping", "cryptoracle-sign-evaluation", "ssc"])
def test_a_package_on_a_longer_chain_and_in_a_larger_ring_has_the_trace_of_its_program_there(name):
    package, size = packaged(name)
    params = package.params
    longer = variant(params, depth=params.depth + 3)
    larger = variant(params, ring_dim=2 * params.ring_dim, slots=params.slots)
    for other in (longer, larger):
        assert same_rows(trace_package(derive(package, other)), trace_workload(name, other, size))


@pytest.mark.parametrize("name", [*FROM_MANUAL, "cnn", "hdc-classify"])
def test_a_package_at_an_accelerators_set_has_the_trace_of_its_program_there(name):
    package, size = packaged(name)
    sharp = fitted(package, catalogue.get("sharp"))
    derived = derive(package, sharp)
    trace = trace_package(derived)
    assert same_rows(trace, trace_workload(name, sharp, size))
    assert derived.keys == trace.view().key_limbs()


def random_program(seed: int):
    """A program of twenty calls that fit eight levels, of values up to 1."""

    def program(ev):
        rng = np.random.default_rng(seed)
        values = [ev.encrypt(rng.uniform(-0.7, 0.7, 64), name=f"x{at}") for at in range(3)]
        for _ in range(20):
            a, b = (values[at] for at in rng.integers(len(values), size=2))
            if ev.levels(a) < 2 or ev.levels(b) < 2:
                a, b = values[0], values[1]
            plain = ev.encode(rng.uniform(-0.5, 0.5, 64))
            match int(rng.integers(10)):
                case 0:
                    made = ev.mult(a, b)
                case 1:
                    made = ev.mult(ev.add(a, b), 0.5)
                case 2:
                    made = ev.mult(ev.sub(a, b), plain)
                case 3:
                    made = ev.add(ev.mult(ev.square(a), 0.5), ev.mult(b, 0.25))
                case 4:
                    made = ev.rotate(a, int(rng.integers(1, 20)))
                case 5:
                    made = ev.weighted_sum(ev.rotate_many(a, [0, 1, 5]), [plain, plain, lambda: np.full(64, 0.2)])
                case 6:
                    made = ev.sub(0.5, ev.mult(a, 0.5))
                case 7:
                    made = ev.relinearize(ev.mult(ev.mult_no_relin(a, b), 0.5)) if ev.levels(b) > 3 else ev.negate(b)
                case 8:
                    made = ev.mod_drop(a, max(2, ev.levels(a) - 1))
                case _:
                    made = ev.polynomial(a, [0.1, 0.2, 0.3]) if ev.levels(a) > 3 else ev.conjugate(a)
            values.append(made)
        total = values[-1]
        for each in values[-4:-1]:
            total = ev.add(total, each)
        return ev.decrypt(total)

    return program


SET = CkksSpec(
    name="insecure-derive", ring_dim=2**12, depth=8, scale_bits=50, first_mod_bits=60, security="none",
    scaling=Scaling.FLEXIBLE_AUTO,
)  # fmt: skip


def at(**changes: object) -> CkksParameters:
    return CkksSpec(**{**SET.model_dump(), **changes}).build()


@pytest.mark.parametrize("seed", range(30))
def test_a_derived_package_computes_the_same_by_the_rules_of_traces(seed):
    constants = ConstantsInMemory()
    package = capture(random_program(seed), SET.build(), constants, "random")
    inputs = {each.name: np.random.default_rng(each.length).uniform(-0.7, 0.7, 64) for each in package.inputs}
    expected = run_package(ClearEvaluator(package.params), package, inputs)["output[0]"]
    manual = derive(package, at(scaling=Scaling.FIXED_MANUAL, name="insecure-manual"))
    assert any(each.verb is Verb.RESCALE for each in manual.instructions)
    for derived in (
        manual,
        derive(manual, SET.build()),
        derive(package, at(scaling=Scaling.FLEXIBLE_AUTO_EXT)),
        derive(package, at(scaling=Scaling.FIXED_AUTO, depth=11)),
        derive(package, at(ring_dim=2**13, slots=2**11)),
        derive(manual, fitted(package, catalogue.get("sharp"))),
    ):
        assert not list(problems(trace_package(derived)))
        assert np.array_equal(run_package(ClearEvaluator(derived.params), derived, inputs)["output[0]"], expected)
        if derived.params.library == "openfhe":
            noisy = run_package(NoisyEvaluator(derived.params, 1), derived, inputs)["output[0]"]
            assert 0 < np.max(np.abs(noisy - expected)) < 1e-6


def test_a_product_is_rescaled_once_for_all_its_uses():
    constants = ConstantsInMemory()

    def program(ev):
        x = ev.encrypt(np.ones(4))
        product = ev.square(x)
        return ev.decrypt(ev.add(ev.mult(product, 2.0), ev.mult(product, ev.encode(np.ones(4)))))

    package = capture(program, SET.build(), constants, "shared")
    verbs = [each.verb for each in derive(package, at(scaling=Scaling.FIXED_MANUAL)).instructions]
    assert verbs == [
        Verb.ENCRYPT, Verb.SQUARE, Verb.RESCALE, Verb.MULT_SCALAR, Verb.MULT_PLAIN, Verb.ADD, Verb.OUTPUT,
    ]  # fmt: skip


def test_limbs_of_inputs_follow_the_levels():
    constants = ConstantsInMemory()
    builder = PackageBuilder(constants)
    builder.output(builder.add(Verb.SQUARE, [builder.encrypt(Input("x", 4, limbs=3))]), Output("y", 4))
    package = builder.finish("low", SET.build(), constants)
    assert derive(package, at(depth=20)).inputs[0].limbs == 3
    assert derive(package, at(scaling=Scaling.FLEXIBLE_AUTO_EXT)).inputs[0].limbs == 3
    assert derive(package, at(depth=2)).inputs[0].limbs == 0


def test_steps_have_one_name_in_a_ring_with_other_keys():
    constants = ConstantsInMemory()
    builder = PackageBuilder(constants)
    x = builder.encrypt(Input("x", 4))
    turned = builder.add(Verb.ROTATE, [x], argument=2**11 - 1)
    builder.output(builder.add(Verb.ROTATE, [turned], argument=2**11), Output("y", 4))
    package = builder.finish("turns", at(slots=2**11, ring_dim=2**12), constants)
    assert [each.argument for each in derive(package, at(depth=9)).instructions[1:3]] == [2**11 - 1, 2**11]
    other = derive(package, at(ring_dim=2**13, slots=2**11))
    assert [(each.verb, each.argument) for each in other.instructions[1:3]] == [(Verb.ROTATE, -1), (Verb.OUTPUT, 0)]


def test_slots_that_do_not_fit_depth_and_refreshes_without_a_plan_are_refused():
    package, _ = packaged("logistic-regression")
    with pytest.raises(ParamsError, match=r"packs 16384 values .* 2048 slots"):
        fitted(package, catalogue.get("insecure-ci"))
    with pytest.raises(ParamsError, match="rotations turn over other vectors"):
        derive(package, catalogue.get("insecure-ci"))
    assert fitted(package, catalogue.get("sharp")).slots == 16384
    shallow = variant(package.params, depth=2)
    with pytest.raises(ParamsError, match=r"set 'openfhe.*', call \d+ \(.*deeper than the parameters"):
        derive(package, shallow)
    refreshed, _ = packaged("bootstrapping")
    with pytest.raises(ParamsError, match=r"call \d+ \(bootstrap\): the program needs bootstrapping"):
        derive(refreshed, variant(refreshed.params, bootstrap=None))
