"""Packages in memory: what they hold, and their replay on evaluators."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ParamsError, UsageError
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import (
    ConstantsInMemory,
    Input,
    Output,
    Package,
    PackageSeries,
    Scope,
    Verb,
    scope_moves,
    trimmed,
)
from penstock.program.package.replay import run_package, trace_package
from penstock.scheme.params import catalogue


def small() -> Package:
    """Twice (x * ramp) and its rotation by one, through 1 + x/2 + x^2/4, in a scope."""
    params = catalogue.get("openfhe-demo")
    constants = ConstantsInMemory()
    builder = PackageBuilder(constants)
    x = builder.encrypt(Input("x", 8))
    with builder.open_scope("layer"):
        product = builder.add(Verb.MULT_PLAIN, [x], constants=[builder.constant(np.arange(8.0))])
        product = builder.add(Verb.RESCALE, [product])
        digits = builder.add(Verb.DECOMPOSE, [product])
        rotated = builder.add(Verb.ROTATE_HOISTED, [product, digits], argument=1)
    series = builder.series(Verb.POLYNOMIAL, builder.add(Verb.ADD, [product, rotated]), PackageSeries((1.0, 0.5, 0.25)))
    builder.output(series, Output("y", 7))
    return builder.finish("small", params, constants)


def test_a_package_computes_in_the_clear() -> None:
    package, x = small(), np.linspace(-0.5, 0.5, 8)
    found = run_package(ClearEvaluator(package.params), package, {"x": x})
    value = x * np.arange(8)
    value = value[:7] + value[1:]
    assert np.allclose(found["y"], 1 + value / 2 + value**2 / 4)


def test_a_package_states_its_keys_and_keeps_its_scopes() -> None:
    package = small()
    assert package.keys == {"rot:5": 13, "relin": 13}
    scopes = set(trace_package(package).view().operations["scope"].to_pylist())
    assert scopes == {"", "layer[0]", "polynomial[0]"}


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({}, "needs input 'x', 8 values"),
        ({"x": np.zeros(8), "z": np.zeros(8)}, "has no input 'z'; it has x"),
        ({"x": np.zeros(9)}, "has shape (9,); it takes (8,)"),
        ({"x": np.array(["a"] * 8)}, "it takes numbers"),
        ({"x": np.full(8, np.nan)}, "not finite"),
        ({"x": np.full(8, 1j)}, "imaginary parts"),
    ],
)
def test_a_wrong_input_is_named(inputs: dict[str, np.ndarray], says: str) -> None:
    package = small()
    with pytest.raises(UsageError, match=says.replace("(", r"\(").replace(")", r"\)")):
        run_package(ClearEvaluator(package.params), package, inputs)


def test_constants_are_held_once_and_without_zeros_at_their_end() -> None:
    held = ConstantsInMemory()
    assert held.add(np.array([1.0, 2.0, 0.0])) == held.add(np.array([1 + 0j, 2 + 0j]))
    assert held.add(np.zeros(4)) == 1
    assert len(held) == 2
    assert trimmed(np.array([1, 1j])).dtype == np.complex128


def test_moves_between_scopes_go_through_the_nearest_common_one() -> None:
    scopes = [Scope("", 0), Scope("a", 0), Scope("b", 1), Scope("c", 1), Scope("d", 3)]
    left, entered = scope_moves(scopes, 2, 4)
    assert (left, list(entered)) == (1, [3, 4])
    left, entered = scope_moves(scopes, 4, 0)
    assert (left, list(entered)) == (3, [])


def test_values_are_freed_after_their_last_use() -> None:
    freed = small().last_uses()
    assert sorted(value for each in freed for value in each) == list(range(7))
    assert freed[1] == (0,)  # the input, after its only product


def test_an_operand_of_another_scale_is_named_with_its_instruction() -> None:
    params = catalogue.get("openfhe-demo")
    constants = ConstantsInMemory()
    builder = PackageBuilder(constants)
    x = builder.encrypt(Input("x", 8))
    product = builder.add(Verb.MULT, [x, x])
    builder.output(builder.add(Verb.ADD, [x, product]), Output("y", 8))
    with pytest.raises(ParamsError, match=r"'wrong', instruction 2 \(add\): operands of a sum differ in scale"):
        builder.finish("wrong", params, constants)
