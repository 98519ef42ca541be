"""Bootstrapping as a circuit: it computes, and it takes what its plan says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from penstock.errors import ParamsError
from penstock.program.evaluator.circuits.bootstrap import (
    MESSAGE_BITS,
    bootstrap_circuit,
    input_levels,
    refreshed_levels,
)
from penstock.program.evaluator.circuits.slot_transform import diagonals_of_stage, layers_of, stages_of
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.protocol import Values
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import BootstrapPlan, CkksParameters
from penstock.scheme.traces.schema import Trace, TraceMeta
from support.toy import toy

Complex = npt.NDArray[np.complex128]


class ClearCircuits(ClearEvaluator):
    """The clear reading of circuits that stand for a composite: bootstrapping computed step by step.

    A vector represents the polynomial with these values, so that the mod raise can act on it: it adds multiples of q_0
    to every coefficient.
    """

    def __init__(self, params: CkksParameters, raised: Callable[[], Values] | None = None) -> None:
        super().__init__(params)
        self._raised = raised
        self._shared: dict[str, object] = {}

    def mod_raise(self, a: Values) -> Values:
        """`a` plus what `raised` returns: the values of a polynomial of multiples of q_0; nothing if it is omitted."""
        return a if self._raised is None else a + self._raised()

    def lowered(self, a: Values, levels: int) -> Values:
        return a

    def rescale_limbs(self, a: Values, limbs: int) -> Values:
        return a

    def shared(self, name: str, make: Callable[[], object]) -> object:
        if name not in self._shared:
            self._shared[name] = make()
        return self._shared[name]


def plan(**changes: Any) -> BootstrapPlan:
    fields: dict[str, Any] = {"cts_stages": 3, "stc_stages": 2, "chebyshev_degree": 30, "double_angles": 3}
    return BootstrapPlan(**{**fields, **changes})


def parameters(slots: int = 64, **changes: Any) -> CkksParameters:
    return toy(
        ring_dim=2 * slots,
        slots=slots,
        q_bits=(36,) * 40,
        p_bits=(36,) * 14,
        word_bits=36,
        library="accelerator",
        bootstrap=plan(**changes),
    )


def values_of(coefficients: Complex) -> Complex:
    """The slots of the polynomial with coefficients w_k = m_k + i m_(k+n), by its definition: no stages."""
    n = len(coefficients)
    powers = np.asarray([pow(5, j, 4 * n) for j in range(n)])
    return np.asarray(np.exp(2j * np.pi * np.outer(powers, np.arange(n)) / (4 * n)) @ coefficients)


def dense(stage_list: list[Any], slots: int) -> Complex:
    """The matrix of some stages, by their diagonals."""
    whole = np.eye(slots, dtype=np.complex128)
    for stage in stage_list:
        matrix = np.zeros((slots, slots), dtype=np.complex128)
        for number, values in diagonals_of_stage(replace(stage, lead=0, shift=0)).items():
            rows = np.arange(slots)
            matrix[rows, (rows + number * stage.stride) % slots] += values
        whole = matrix @ whole
    return whole


@pytest.mark.parametrize("stages", [1, 2, 3, 6])
def test_the_stages_are_the_transform_and_its_inverse(stages: int) -> None:
    slots = 64
    reversed_bits = [int(f"{k:06b}"[::-1], 2) for k in range(slots)]
    decode = dense(stages_of(slots, stages, decode=True, halves=False, factor=1.0), slots)
    expected = np.stack([values_of(column) for column in np.eye(slots, dtype=np.complex128)[reversed_bits]], axis=1)
    assert np.allclose(decode, expected)
    encode = dense(stages_of(slots, stages, decode=False, halves=False, factor=1.0), slots)
    assert np.allclose(encode @ decode, np.eye(slots))


@pytest.mark.parametrize("order", ["stc-last", "stc-first"])
@pytest.mark.parametrize("rotations", ["hoisted", "min-ks"])
@pytest.mark.parametrize(
    ("period", "stages"),
    [(64, (3, 2)), (64, (1, 1)), (32, (2, 3)), (8, (3, 3)), (8, (1, 2)), (2, (1, 1)), (2, (3, 2)), (1, (2, 2))],
)
def test_the_circuit_removes_what_raising_the_modulus_adds(
    order: str, rotations: str, period: int, stages: tuple[int, int]
) -> None:
    """Random multiples of q_0, on all coefficients of the ring, over values that repeat."""
    params = parameters(order=order, rotations=rotations, cts_stages=stages[0], stc_stages=stages[1])
    generator = np.random.default_rng(period)
    multiples = generator.integers(-12, 13, (2, 64))
    added = 2.0**MESSAGE_BITS * values_of(multiples[0] + 1j * multiples[1])
    small = generator.uniform(-0.01, 0.01, (2, period))
    values = small[0] + 0j if order == "stc-first" else values_of(small[0] + 1j * small[1])
    values = np.tile(values, 64 // period)
    got = bootstrap_circuit(ClearCircuits(params, lambda: added), values, period)
    # The sine of a coefficient c differs from its angle by (2 pi c / q_0)^2 / 6 of it: 6e-7 here.
    assert np.allclose(got, values, atol=1e-6)
    without = bootstrap_circuit(ClearCircuits(params, lambda: 0.25 * added), values, period)
    assert not np.allclose(without, values, atol=1e-2)


def symbolic(params: CkksParameters, slots: int | None = None) -> Trace:
    ev = SymbolicEvaluator(params)
    result = ev.bootstrap(ev.fresh(1 + input_levels(params)), slots)
    assert ev.levels(result) == refreshed_levels(params)
    return ev.builder.finish(TraceMeta(workload="test", params=params.to_dict(), reading="trace"))


def rotations_by_stage(trace: Trace) -> dict[str, int]:
    rows = trace.view().operations.to_pylist()
    return Counter(row["scope"].rpartition("/")[2] for row in rows if (row["key"] or "").startswith("rot"))


def test_sharp_takes_the_published_rotations_at_the_published_limbs() -> None:
    trace = symbolic(catalogue.get("sharp"))
    found = rotations_by_stage(trace)
    assert [found[f"cts[{i}]"] for i in range(3)] == [10, 14, 14]
    assert [found[f"stc[{i}]"] for i in range(3)] == [14, 14, 10]
    rows = trace.view().operations.to_pylist()
    limbs = {row["scope"].rpartition("/")[2]: row["limbs_in"] for row in rows if row["kind"] == "rotate"}
    assert [limbs[f"cts[{i}]"] for i in range(3)] == [35, 33, 31]
    # Two keys a stage, of which those of CtS and StC by opposite steps differ; conjugation and relinearization.
    assert len(trace.key_ids()) == 12


def test_minimum_key_switching_takes_two_keys_a_stage_and_no_hoisting() -> None:
    few, many = (symbolic(parameters(512, rotations=choice)) for choice in ("min-ks", "hoisted"))
    counts = [trace.view().count_by_kind() for trace in (few, many)]
    assert "decompose" not in counts[0]
    assert counts[1]["decompose"] == 5
    assert rotations_by_stage(few) == rotations_by_stage(many)
    assert len(few.key_ids()) < len(many.key_ids())
    for stage in ("cts[0]", "cts[1]", "stc[1]"):
        rows = few.view().operations.to_pylist()
        assert len({row["key"] for row in rows if row["scope"].endswith(stage) and row["key"]}) <= 2


def test_few_slots_take_the_subring_sum_one_modular_reduction_and_fewer_rotations() -> None:
    params = parameters(512)
    whole, sparse = symbolic(params), symbolic(params, 64)
    assert rotations_by_stage(sparse)["mod_raise[0]"] == 3
    assert "mod_raise[0]" not in rotations_by_stage(whole)
    squares = [trace.view().count_by_kind()["square"] for trace in (whole, sparse)]
    assert squares[0] == 2 * squares[1]
    assert sum(rotations_by_stage(sparse).values()) - 3 < sum(rotations_by_stage(whole).values())
    scopes = {row["scope"].split("/")[0] for row in sparse.operations.to_pylist()}
    assert scopes == {"bootstrap-64[0]"}


def test_beginning_with_slots_to_coefficients_moves_it_to_few_limbs() -> None:
    params = parameters(512, order="stc-first", stc_stages=2)
    assert input_levels(params) == 2
    rows = symbolic(params).view().operations.to_pylist()
    assert max(row["limbs_in"] for row in rows if "/stc[" in row["scope"]) == 3
    ev = SymbolicEvaluator(params)
    with pytest.raises(ParamsError, match="bootstrap earlier"):
        ev.bootstrap(ev.fresh(2))


def test_double_prime_levels_take_two_limbs_each() -> None:
    one, two = parameters(), parameters(cts_limbs=2, eval_mod_limbs=2)
    # Three stages and 5 + 3 levels of EvalMod.
    assert refreshed_levels(one) - refreshed_levels(two) == 3 + 8


@pytest.mark.parametrize("slots", [3, 0, -2, 128])
def test_slots_that_are_no_period_are_refused(slots: int) -> None:
    ev = SymbolicEvaluator(parameters())
    with pytest.raises(ParamsError, match="power of two from 1"):
        ev.bootstrap(ev.fresh(1), slots)


def test_layers_share_the_transform() -> None:
    for log_slots in range(1, 16):
        for stages in range(1, 6):
            for decode in (False, True):
                assert sum(layers_of(1 << log_slots, stages, decode=decode)) == log_slots
