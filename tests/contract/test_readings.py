"""Every operation of the protocol, in every reading: the same values, the same trace."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.errors import ParamsError, PenstockError, UnknownName
from penstock.params.ckks import CkksParameters, Scaling
from penstock.program.clear import ClearEvaluator
from penstock.program.symbolic import SymbolicEvaluator
from penstock.running import READINGS
from penstock.traces.inspect import differences, problems
from penstock.traces.schema import Trace
from readings import PROGRAMS, SERIES, X, read
from toy import toy, toy_bootstrap

SCALINGS = tuple(Scaling)


def symbolic_trace(params: CkksParameters, program: Any) -> Trace:
    trace = read(SymbolicEvaluator(params), program)[1]
    assert trace is not None
    return trace


def agree(values: list[np.ndarray], params: CkksParameters, program: Any) -> float:
    """The largest difference from the clear reading."""
    expected, _ = read(ClearEvaluator(params), program)
    return max(float(np.max(np.abs(e - v))) for e, v in zip(expected, values, strict=True))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("reading", READINGS)
def test_a_reading_has_the_values_and_the_trace_that_it_promises(
    reading: str, scaling: Scaling, name: str, request: pytest.FixtureRequest
) -> None:
    chosen, params, program = READINGS[reading], toy(scaling=scaling), PROGRAMS[name]
    if chosen.keys:
        request.getfixturevalue("openfhe" if chosen.library else "encrypting")
    symbolic = symbolic_trace(params, program)
    with chosen.evaluator(params, symbolic) as ev:
        values, recorded = read(ev, program)
    if chosen.computes:
        assert agree(values, params, program) < 1e-6
    assert (recorded is not None) == chosen.records
    if recorded is None:
        return
    assert list(differences(recorded, symbolic.view() if chosen.expands else symbolic)) == []
    assert list(problems(recorded)) == []
    if chosen.expands:
        assert not {"bootstrap", "chebyshev", "composite"} & set(recorded.count_by_kind())
    if chosen.keys:
        table = recorded.view(composites=True).operations
        times = zip(table["start_s"].to_pylist(), table["end_s"].to_pylist(), strict=True)
        assert all(end >= start for start, end in times)


@pytest.mark.parametrize("reading", READINGS)
def test_every_reading_is_asked_for_alike(reading: str) -> None:
    chosen = READINGS[reading]
    assert chosen.name == reading
    assert list(inspect.signature(chosen.read).parameters)[:5] == ["name", "params", "size", "seed", "data"]
    assert chosen.options >= ({"threads", "key_budget_bytes", "on_operation"} if chosen.keys else set())


@pytest.mark.parametrize("reading", READINGS)
def test_the_page_of_concepts_has_the_reading(reading: str) -> None:
    each = READINGS[reading]
    page = (Path(__file__).parents[2] / "docs" / "concepts.md").read_text()
    assert f"| `{each.name}` | {each.meaning} | {each.returns} | `{each.verb}` |\n" in page


def test_the_native_evaluator_imports_neither_a_client_nor_openfhe() -> None:
    script = "import sys, penstock.native.evaluator; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = done.stdout.split()
    assert not [name for name in imported if name.startswith(("penstock.openfhe", "penstock.native.client", "openfhe"))]


def test_a_reading_is_registered_once_and_an_unknown_one_is_named() -> None:
    with pytest.raises(ValueError, match="registered already"):
        READINGS.register("clear", "elsewhere")
    with pytest.raises(UnknownName, match="did you mean 'native'"):
        READINGS["nativ"]


def unread(ev: Any) -> list[str]:
    """Near the last limb, of results that nobody decrypts: whether each is computed."""
    a, found = ev.encrypt(X), []
    last = ev.mod_drop(a, 1)
    for limbs in (1, 2, 3, 4):
        high = ev.mod_drop(a, limbs)
        for compute in (
            lambda high=high: ev.chebyshev_series(high, SERIES, -1, 1),
            lambda high=high: ev.chebyshev_series(high, [*SERIES, *SERIES], -1, 1),
            lambda high=high: ev.add(ev.mult(last, last), high),
            lambda high=high: ev.sub(high, ev.square(last)),
            lambda high=high: ev.add(ev.mult(last, last), ev.mult(high, high)),
        ):
            try:
                compute()
                found.append("computed")
            except PenstockError as error:
                found.append(type(error).__name__)
    return found


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("reading", READINGS)
def test_what_nobody_decrypts_is_refused_in_each_reading_or_in_none(
    reading: str, scaling: Scaling, request: pytest.FixtureRequest
) -> None:
    chosen, params = READINGS[reading], toy(scaling=scaling)
    if chosen.keys:
        request.getfixturevalue("openfhe" if chosen.library else "encrypting")
    if not chosen.records:
        return
    expected = unread(SymbolicEvaluator(params))
    assert {"computed", "ParamsError"} == set(expected)
    with chosen.evaluator(params, symbolic_trace(params, PROGRAMS["series"])) as ev:
        assert unread(ev) == expected


@pytest.mark.parametrize(("scaling", "tolerance"), [(Scaling.FIXED_MANUAL, 2e-3), (Scaling.FLEXIBLE_AUTO, 1e-6)])
@pytest.mark.parametrize("slots", [256, 1024])
@pytest.mark.usefixtures("openfhe")
def test_openfhes_refresh_leaves_limbs_as_the_circuit_says(scaling: Scaling, tolerance: float, slots: int) -> None:
    params = toy_bootstrap(scaling, slots)

    def program(ev: Any) -> list[Any]:
        low = ev.mod_drop(ev.encrypt(np.linspace(-0.25, 0.25, slots)), 2)
        fresh = ev.bootstrap(low)
        return [ev.rescale(ev.mult(fresh, fresh)), ev.rotate(ev.conjugate(fresh), 3)]

    symbolic = symbolic_trace(params, program)
    with READINGS["openfhe"].evaluator(params, symbolic) as ev:
        values, recorded = read(ev, program)
    assert recorded is not None
    assert list(differences(recorded, symbolic)) == []
    assert agree(values, params, program) < tolerance


def test_a_program_deeper_than_the_parameters_is_refused_with_the_rule() -> None:
    ev = SymbolicEvaluator(toy(q_bits=(60, 50)))
    once = ev.rescale(ev.square(ev.encrypt(X)))
    with pytest.raises(ParamsError, match="deeper than the parameters"):
        ev.rescale(ev.square(once))


def test_bootstrapping_without_a_plan_is_refused_with_the_remedy() -> None:
    ev = SymbolicEvaluator(toy())
    with pytest.raises(ParamsError, match="bootstrap plan"):
        ev.bootstrap(ev.encrypt(X))


def test_an_unrescaled_product_is_not_multiplied_again_under_manual_scaling() -> None:
    ev = SymbolicEvaluator(toy())
    product = ev.square(ev.encrypt(X))
    with pytest.raises(PenstockError, match="rescale"):
        ev.square(product)
    with pytest.raises(PenstockError, match="differ in scale"):
        ev.add(product, ev.encrypt(X))
    with pytest.raises(PenstockError, match="not a product"):
        ev.rescale(ev.encrypt(X))
