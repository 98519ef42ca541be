from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ParamsError, UsageError
from penstock.program.evaluator.circuits.bootstrap import bootstrap_limbs
from penstock.program.evaluator.circuits.chebyshev import chebyshev_circuit, chebyshev_levels, divide, evaluate
from penstock.program.evaluator.circuits.linear import bsgs_diagonals, diagonals_of, linear_transform
from penstock.program.evaluator.circuits.sums import fold
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.scheme.params.ckks import BootstrapPlan, Scaling
from support.examples import at_most
from support.toy import toy

CLEAR = ClearEvaluator(toy())


@given(st.lists(st.floats(-2, 2), min_size=2, max_size=80), st.sampled_from([(-1.0, 1.0), (-4.0, 4.0), (0.0, 3.0)]))
@at_most(60)
def test_paterson_stockmeyer_equals_the_series(coefficients: list[float], interval: tuple[float, float]) -> None:
    x = np.linspace(*interval, 64)
    direct = CLEAR.chebyshev_series(x, coefficients, *interval)
    assert np.allclose(chebyshev_circuit(CLEAR, x, coefficients, *interval), direct, atol=1e-9)


@pytest.mark.parametrize("degree", [1, 2, 5, 13, 27, 44, 59, 63, 88])
def test_series_consume_the_levels_that_are_announced(degree: int) -> None:
    ev = SymbolicEvaluator(toy(q_bits=(60,) + (50,) * 20))
    a = ev.encrypt(np.zeros(64))
    result = chebyshev_circuit(ev, a, [1.0] * (degree + 1))
    assert a.state.limbs - result.state.limbs == chebyshev_levels(degree)


@pytest.mark.parametrize(("degree", "products"), [(7, 5), (15, 8), (27, 10)])
def test_odd_series_take_few_products_and_the_least_depth(degree: int, products: int) -> None:
    """By hand for 7: T_2, T_3, T_4; T_4 times the quotient, which is T_2 times its own and its rest."""
    ev = SymbolicEvaluator(toy(q_bits=(60,) + (50,) * 20))
    odd = np.sin(np.arange(degree + 1.0) + 1)
    odd[0::2] = 0
    result = evaluate(ev, ev.fresh(20), odd)
    kinds = [row[1] for row in ev.builder._ops]
    assert kinds.count("mult") + kinds.count("square") == products
    assert 20 - result.state.limbs == chebyshev_levels(degree)


def test_division_by_a_chebyshev_polynomial_leaves_a_smaller_remainder() -> None:
    series = np.arange(1.0, 13.0)
    quotient, remainder = divide(series, 8)
    x = np.linspace(-1, 1, 17)
    value = np.polynomial.chebyshev.chebval
    t8 = value(x, [0] * 8 + [1])
    assert len(remainder) == 8
    assert np.allclose(value(x, quotient) * t8 + value(x, remainder), value(x, series))


@pytest.mark.parametrize("order", [4, 16, 64])
def test_bsgs_equals_the_matrix_vector_product(order: int) -> None:
    generator = np.random.default_rng(order)
    matrix = generator.normal(size=(order, order))
    x = generator.normal(size=order)
    tiled = np.tile(x, 64 // order)
    plains = bsgs_diagonals(CLEAR, {k: np.tile(d, 64 // order) for k, d in diagonals_of(matrix).items()}, name="m")
    assert np.allclose(linear_transform(CLEAR, tiled, plains)[:order], matrix @ x)


def test_bsgs_with_stride_equals_its_definition() -> None:
    generator = np.random.default_rng(0)
    diagonals = {k: generator.normal(size=64) for k in range(-3, 4)}
    x = generator.normal(size=64)
    plains = bsgs_diagonals(CLEAR, diagonals, stride=4, name="m")
    expected = sum(d * np.roll(x, -k * 4) for k, d in diagonals.items())
    assert np.allclose(linear_transform(CLEAR, x, plains, stride=4), expected)


def test_bsgs_needs_about_two_square_roots_of_rotations() -> None:
    ev = SymbolicEvaluator(toy())
    plains = bsgs_diagonals(ev, {k: np.ones(64) for k in range(64)}, name="m")
    linear_transform(ev, ev.encrypt(np.zeros(64)), plains)
    trace = ev.builder
    kinds = [row[1] for row in trace._ops]
    assert kinds.count("rotate_hoisted") == 7
    assert kinds.count("rotate") == 7
    assert kinds.count("mult_plain") == 64


@pytest.mark.parametrize(("length", "stride"), [(1, 1), (8, 1), (8, -1), (4, 16)])
def test_fold_sums_slots_at_the_stride(length: int, stride: int) -> None:
    x = np.arange(64.0)
    expected = sum(np.roll(x, -k * stride) for k in range(length))
    assert np.array_equal(fold(CLEAR, x, length, stride), expected)


def test_fold_over_a_length_that_is_no_power_of_two_is_refused() -> None:
    with pytest.raises(UsageError, match="power of two"):
        fold(CLEAR, np.zeros(64), 3)


def test_sharp_bootstrapping_leaves_eight_levels() -> None:
    plan = BootstrapPlan(
        cts_stages=3,
        stc_stages=3,
        chebyshev_degree=59,
        double_angles=2,
        cts_limbs=2,
        eval_mod_limbs=2,
        stc_limbs=1,
        extra_limbs=1,
    )
    # 3 stages of 2 limbs, 6 + 2 levels of 2 limbs, 3 stages of 1 limb, 1 limb to correct the scale.
    assert bootstrap_limbs(plan) == 6 + 16 + 3 + 1
    params = toy(
        q_bits=(36,) * 35,
        p_bits=(36,) * 12,
        ring_dim=2048,
        slots=1024,
        bootstrap=plan,
        word_bits=36,
        library="accelerator",
    )
    ev = SymbolicEvaluator(params)
    assert ev.levels(ev.bootstrap(ev.fresh(1))) == 8


def test_a_chain_shorter_than_bootstrapping_is_refused() -> None:
    plan = BootstrapPlan(cts_stages=3, stc_stages=3, chebyshev_degree=59, double_angles=2)
    ev = SymbolicEvaluator(toy(bootstrap=plan, scaling=Scaling.FLEXIBLE_AUTO))
    with pytest.raises(ParamsError, match="no level would be left"):
        ev.bootstrap(ev.fresh(2))
