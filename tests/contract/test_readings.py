"""Every operation of the protocol, in every reading: the same values, the same trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from penstock.params.ckks import CkksParameters, Scaling
from penstock.program.clear import ClearEvaluator
from penstock.program.symbolic import SymbolicEvaluator
from penstock.traces.inspect import differences, problems
from penstock.traces.schema import Trace
from readings import PROGRAMS, X, read
from toy import toy, toy_bootstrap

SCALINGS = tuple(Scaling)


def encrypted(params: CkksParameters, program: Any) -> tuple[list[np.ndarray], Trace, Trace]:
    """Values and trace of the openfhe reading, and the trace of the trace reading."""
    from penstock.openfhe.evaluator import OpenFheContext, OpenFheEvaluator, needed_keys

    _, symbolic = read(SymbolicEvaluator(params), program)
    assert symbolic is not None
    called = symbolic.view(composites=True)
    steps, relinearize, conjugate = needed_keys(called.key_ids(), called.operations["step"].to_pylist())
    context = OpenFheContext.create(
        params, rotation_steps=steps, relinearize=relinearize, conjugate=conjugate,
        bootstrap={params.slots} if "bootstrap" in called.count_by_kind() else (),
    )  # fmt: skip
    try:
        values, recorded = read(OpenFheEvaluator(context), program)
    finally:
        context.release()
    assert recorded is not None
    return values, recorded, symbolic


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.usefixtures("openfhe")
def test_openfhe_and_trace_readings_agree_operation_by_operation(name: str, scaling: Scaling) -> None:
    params = toy(scaling=scaling)
    values, recorded, symbolic = encrypted(params, PROGRAMS[name])
    assert list(differences(recorded, symbolic)) == []
    assert list(problems(recorded)) == []
    expected, _ = read(ClearEvaluator(params), PROGRAMS[name])
    assert max(float(np.max(np.abs(e - v))) for e, v in zip(expected, values, strict=True)) < 1e-6
    times = recorded.view(composites=True).operations
    assert all(
        end >= start for start, end in zip(times["start_s"].to_pylist(), times["end_s"].to_pylist(), strict=True)
    )


@pytest.mark.parametrize(("scaling", "tolerance"), [(Scaling.FIXED_MANUAL, 2e-3), (Scaling.FLEXIBLE_AUTO, 1e-6)])
@pytest.mark.parametrize("slots", [256, 1024])
@pytest.mark.usefixtures("openfhe")
def test_bootstrapping_refreshes_limbs_as_the_circuit_says(scaling: Scaling, tolerance: float, slots: int) -> None:
    params = toy_bootstrap(scaling, slots)

    def program(ev: Any) -> list[Any]:
        low = ev.mod_drop(ev.encrypt(np.linspace(-0.25, 0.25, slots)), 2)
        fresh = ev.bootstrap(low)
        return [ev.rescale(ev.mult(fresh, fresh)), ev.rotate(ev.conjugate(fresh), 3)]

    values, recorded, symbolic = encrypted(params, program)
    assert list(differences(recorded, symbolic)) == []
    expected, _ = read(ClearEvaluator(params), program)
    assert max(float(np.max(np.abs(e - v))) for e, v in zip(expected, values, strict=True)) < tolerance


def test_a_program_deeper_than_the_parameters_is_refused_with_the_rule() -> None:
    from penstock.errors import ParamsError

    ev = SymbolicEvaluator(toy(q_bits=(60, 50)))
    once = ev.rescale(ev.square(ev.encrypt(X)))
    with pytest.raises(ParamsError, match="deeper than the parameters"):
        ev.rescale(ev.square(once))


def test_bootstrapping_without_a_plan_is_refused_with_the_remedy() -> None:
    from penstock.errors import ParamsError

    ev = SymbolicEvaluator(toy())
    with pytest.raises(ParamsError, match="bootstrap plan"):
        ev.bootstrap(ev.encrypt(X))


def test_an_unrescaled_product_is_not_multiplied_again_under_manual_scaling() -> None:
    from penstock.errors import PenstockError

    ev = SymbolicEvaluator(toy())
    product = ev.square(ev.encrypt(X))
    with pytest.raises(PenstockError, match="rescale"):
        ev.square(product)
    with pytest.raises(PenstockError, match="differ in scale"):
        ev.add(product, ev.encrypt(X))
    with pytest.raises(PenstockError, match="not a product"):
        ev.rescale(ev.encrypt(X))
