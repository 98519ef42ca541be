"""Sets whose secret is encapsulated: their level, the trace and the keys of a refresh, its noise."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import ParamsError
from penstock.program.evaluator.circuits.bootstrap import input_levels, with_few_keys
from penstock.program.evaluator.noise import NoiseModel
from penstock.program.evaluator.noisy import NoisyEvaluator
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.scheme.operations import TO_DENSE_KEY, TO_SPARSE_KEY, OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.params.secrets import SPARSE_ENCAPSULATED, SPARSE_TERNARY, UNIFORM_ENCAPSULATED
from penstock.scheme.params.spec import BootstrapSpec, CkksSpec
from penstock.scheme.traces.inspect import problems
from penstock.scheme.traces.schema import TraceMeta

PLAN = BootstrapSpec(cts_stages=3, stc_stages=3, chebyshev_degree=36, double_angles=3, extra_limbs=1)
BOTH = pytest.mark.parametrize("secret", [SPARSE_ENCAPSULATED, UNIFORM_ENCAPSULATED])


def spec(secret: str, **changes: Any) -> CkksSpec:
    values: dict[str, Any] = {
        "name": "encapsulated",
        "ring_dim": 2**12,
        "slots": 2**5,
        "depth": 19,
        "first_mod_bits": 60,
        "scale_bits": 59,
        "dnum": 3,
        "scaling": "flexible-auto",
        "secret": secret,
        "security": "none",
        "bootstrap": PLAN,
    }
    return CkksSpec(**{**values, **changes})


def refreshed(ev: Any, values: Any) -> Any:
    return ev.bootstrap(ev.mod_drop(ev.encrypt(values), input_levels(ev.params) + 1))


def trace_of(params: CkksParameters) -> Any:
    ev = SymbolicEvaluator(params)
    ev.decrypt(refreshed(ev, np.zeros(params.slots)))
    return ev.builder.finish(TraceMeta(workload="refresh", params=params.to_dict(), reading="trace"))


@BOTH
def test_a_long_chain_keeps_the_level_of_the_weaker_of_both_secrets(secret: str) -> None:
    wide = {"ring_dim": 2**16, "depth": 22, "dnum": 4}  # 1,719 bits
    if secret == UNIFORM_ENCAPSULATED:
        params = spec(secret, **wide, security=128).build()
        assert params.security_bits == 128
        assert "ephemeral secret of weight 32, log2 of the modulus 126 at" in params.security_note
    else:
        with pytest.raises(ParamsError, match="Use secret uniform-encapsulated, whose main secret is not sparse"):
            spec(secret, **wide, security=128).build()
    assert spec(secret, ring_dim=2**16, depth=18, dnum=4, security=128).build().security_bits == 128


@BOTH
@pytest.mark.parametrize("few_keys", [False, True])
def test_the_modulus_is_raised_under_the_ephemeral_secret(secret: str, few_keys: bool) -> None:
    params = spec(secret).build()
    params = with_few_keys(params) if few_keys else params
    made = trace_of(params)
    assert list(problems(made)) == []
    rows = made.view().operations.to_pylist()
    at = next(i for i, row in enumerate(rows) if row["kind"] == OpKind.TO_SPARSE)
    assert [row["kind"] for row in rows[at : at + 3]] == [OpKind.TO_SPARSE, OpKind.MOD_RAISE, OpKind.TO_DENSE]
    assert [(row["limbs_in"], row["limbs_out"]) for row in rows[at : at + 3]] == [
        (1, 1),
        (1, params.num_q),
        (params.num_q, params.num_q),
    ]
    assert [row["key"] for row in rows[at : at + 3]] == [TO_SPARSE_KEY, None, TO_DENSE_KEY]
    assert made.view().key_limbs()[TO_SPARSE_KEY] == 1


def test_other_secrets_need_neither_key() -> None:
    keys = trace_of(spec(SPARSE_TERNARY).build()).view().key_ids()
    assert not {TO_SPARSE_KEY, TO_DENSE_KEY} & set(keys)


@pytest.mark.parametrize("form", list(KeyForm))
def test_the_key_to_the_sparse_secret_has_one_digit_over_three_primes(form: KeyForm) -> None:
    params = spec(UNIFORM_ENCAPSULATED).build()
    rows = 3 if form.is_seeded else 6
    assert params.stored_key_bytes(1, form, key=TO_SPARSE_KEY) == rows * 2**12 * 8
    assert params.total_key_bytes({TO_SPARSE_KEY: 1, TO_DENSE_KEY: params.num_q}, form) == (
        rows * 2**12 * 8 + params.key_bytes(params.num_q, form)
    )


def test_a_switch_to_the_sparse_secret_at_two_limbs_breaks_a_rule() -> None:
    made = trace_of(spec(UNIFORM_ENCAPSULATED).build())
    rows = made.operations.to_pylist()
    at = next(i for i, row in enumerate(rows) if row["kind"] == OpKind.TO_SPARSE)
    column = made.operations.schema.get_field_index("limbs_in")
    limbs = made.operations["limbs_in"].to_pylist()
    limbs[at] = 2
    broken = type(made)(
        made.meta,
        made.operations.set_column(column, made.operations.schema.field(column), pa.array(limbs, pa.int32())),
        made.objects,
    )
    assert any("the sparse secret is safe at one limb only" in each for each in problems(broken))


@BOTH
def test_the_multiples_of_the_modulus_are_those_of_the_ephemeral_secret(secret: str) -> None:
    model = NoiseModel(spec(secret).build())
    assert model.overflow == 33 / 12
    # N sigma^2 (q_0 / 2^66)^2 / 12 and the rounding of both halves, under a secret of 32 ones.
    assert model.to_sparse == pytest.approx(2**12 * 3.19**2 * (model.q[0] / 2**66) ** 2 / 12 + 33 / 12)


@BOTH
def test_a_refresh_is_as_precise_as_with_a_sparse_secret(secret: str) -> None:
    x = np.random.default_rng(5).uniform(-0.25, 0.25, 32)

    def bits(params: CkksParameters) -> float:
        ev = NoisyEvaluator(with_few_keys(params), seed=7, exact_ratio=True)
        error = np.real(ev.decrypt(refreshed(ev, x))) - x
        return float(-np.log2(np.sqrt(np.mean(error**2))))

    assert bits(spec(secret).build()) > bits(spec(SPARSE_TERNARY).build()) - 2


@BOTH
def test_a_range_that_overflows_by_design_is_refused_with_the_least_that_does_not(secret: str) -> None:
    plan = PLAN.model_copy(update={"rotations": "few-keys", "sine_range": 9})
    wide = {"ring_dim": 2**16, "depth": 18, "dnum": 4, "security": 128}
    with pytest.raises(ParamsError, match=r"overflows with probability 2\^-10\.2.*needs sine_range 15"):
        spec(secret, **wide, bootstrap=plan).build()
    assert spec(secret, **wide, bootstrap=plan.model_copy(update={"sine_range": 15})).build().security_bits == 128


def test_few_keys_keep_a_sine_of_their_own_and_take_the_librarys_otherwise() -> None:
    taken = with_few_keys(spec(SPARSE_TERNARY).build()).bootstrap
    assert taken is not None
    assert (taken.chebyshev_degree, taken.double_angles, taken.sine_range) == (48, 3, 28)
    own = PLAN.model_copy(update={"rotations": "few-keys", "chebyshev_degree": 56, "double_angles": 2})
    params = spec(UNIFORM_ENCAPSULATED, bootstrap=own).build()
    assert with_few_keys(params) is params
    libraries, fewer = (SymbolicEvaluator(with_few_keys(each)) for each in (spec(UNIFORM_ENCAPSULATED).build(), params))
    lefts = [ev.levels(refreshed(ev, np.zeros(ev.params.slots))) for ev in (libraries, fewer)]
    assert lefts[1] == lefts[0] + 1  # one double angle less


@BOTH
@pytest.mark.parametrize("order", ["stc-last", "stc-first"])
def test_several_ciphertexts_share_the_keys_of_the_ephemeral_secret(secret: str, order: str) -> None:
    plan = PLAN.model_copy(update={"rotations": "few-keys", "order": order})
    params = spec(secret, bootstrap=plan).build()
    x = np.random.default_rng(6).uniform(-0.25, 0.25, (3, 32))

    def together(ev: Any) -> list[Any]:
        given = [ev.mod_drop(ev.encrypt(each), input_levels(params) + 1) for each in x]
        return [ev.decrypt(a) for a in ev.bootstrap_many(given)]

    symbolic = SymbolicEvaluator(params)
    together(symbolic)
    made = symbolic.builder.finish(TraceMeta(workload="refresh", params=params.to_dict(), reading="trace"))
    assert list(problems(made)) == []
    kinds = [row["kind"] for row in made.view().operations.to_pylist()]
    first = kinds.index(OpKind.TO_SPARSE)
    assert kinds[first : first + 3] == [OpKind.TO_SPARSE] * 3
    assert kinds.count(OpKind.TO_DENSE) == 3
    found = np.real(together(NoisyEvaluator(params, seed=8, exact_ratio=True)))
    np.testing.assert_allclose(found, x, atol=1e-6)


@BOTH
def test_a_chain_that_no_secret_carries_is_refused_with_one_that_holds(secret: str) -> None:
    with pytest.raises(ParamsError, match="128-bit security does not hold") as refused:
        spec(secret, ring_dim=2**16, depth=30, dnum=3, security=128).build()
    found = re.search(r"or depth (\d+), the deepest that fits with dnum 3", str(refused.value))
    assert found is not None
    deepest = int(found.group(1))
    assert spec(secret, ring_dim=2**16, depth=deepest, dnum=3, security=128).build().security_bits == 128
    with pytest.raises(ParamsError, match="does not hold"):
        spec(secret, ring_dim=2**16, depth=deepest + 1, dnum=3, security=128).build()
