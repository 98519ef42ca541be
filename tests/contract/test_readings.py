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
from penstock.program.evaluator.circuits.linear import bsgs_diagonals, diagonals_of, linear_transform
from penstock.program.evaluator.circuits.sums import fold
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.running import READINGS
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.traces.inspect import differences, problems
from penstock.scheme.traces.schema import Trace
from support.readings import PROGRAMS, SERIES, X, read
from support.toy import toy, toy_bootstrap

SCALINGS = tuple(Scaling)
SMALL_RING = 2**10
"""Of refreshes: their time grows with the ring, and their circuit does not."""


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
    page = (Path(__file__).parents[2] / "docs" / "guides" / "concepts.md").read_text()
    assert f"| `{each.name}` | {each.meaning} | {each.returns} | `{each.verb}` |\n" in page


def test_the_native_evaluator_imports_neither_a_client_nor_openfhe() -> None:
    script = "import sys, penstock.runtime.native.evaluator; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = done.stdout.split()
    assert not [
        name
        for name in imported
        if name.startswith(("penstock.program.openfhe", "penstock.runtime.native.client", "openfhe"))
    ]


def test_an_unknown_reading_is_named() -> None:
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
@pytest.mark.parametrize("slots", [1, 2, 128, 512])
@pytest.mark.usefixtures("openfhe")
def test_openfhes_refresh_leaves_limbs_as_the_circuit_says(scaling: Scaling, tolerance: float, slots: int) -> None:
    params = toy_bootstrap(scaling, slots, SMALL_RING)

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


ALONE: dict[str, Any] = {
    "polynomial of degree 0": lambda ev, a: ev.polynomial(a, [0.5]),
    "polynomial of degree 1": lambda ev, a: ev.polynomial(a, [0.5, 0.25]),
    "polynomial of degree 2": lambda ev, a: ev.polynomial(a, [0.5, 0.25, 0.125]),
    "polynomial of degree 6": lambda ev, a: ev.polynomial(a, SERIES),
    "series of degree 0": lambda ev, a: ev.chebyshev_series(a, [0.5], -1, 1),
    "series of degree 1": lambda ev, a: ev.chebyshev_series(a, [0.5, 0.25], -2, 2),
    "series of degree 2": lambda ev, a: ev.chebyshev_series(a, [0.5, 0.25, 0.125], -1, 1),
    "function": lambda ev, a: ev.chebyshev_function(a, np.exp, -1, 1, 7),
    "weighted sum": lambda ev, a: ev.weighted_sum([a, a], [ev.encode(X), ev.encode(X)]),
    "sum of slots": lambda ev, a: fold(ev, a, 64),
    "matrix": lambda ev, a: linear_transform(ev, a, bsgs_diagonals(ev, diagonals_of(np.outer(X, X) / 64), name="m")),
    "square": lambda ev, a: ev.square(a),
    "conjugate": lambda ev, a: ev.conjugate(a),
    "refresh": lambda ev, a: ev.bootstrap(ev.mod_drop(a, 3)),
    "refresh of a fresh one": lambda ev, a: ev.bootstrap(a),
    "refresh of a product": lambda ev, a: ev.bootstrap(ev.mult(a, 0.5)),
    "refresh of few slots": lambda ev, a: ev.bootstrap(ev.mod_drop(ev.mult(a, 0.0), 3), 2),
    "refresh, then a rotation": lambda ev, a: ev.rotate(ev.conjugate(ev.bootstrap(ev.mod_drop(a, 3))), 5),
    "refreshes": lambda ev, a: ev.add(*ev.bootstrap_many([ev.mod_drop(a, 3), ev.mod_drop(a, 4)])),
}


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("scaling", [Scaling.FLEXIBLE_AUTO, Scaling.FIXED_MANUAL])
@pytest.mark.parametrize("reading", ["native", "openfhe"])
def test_a_reading_has_the_keys_of_a_composite_that_is_alone(
    reading: str, scaling: Scaling, name: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("openfhe" if reading == "openfhe" else "encrypting")
    refreshes = name.startswith("refresh")
    params = toy_bootstrap(scaling, 64, SMALL_RING) if refreshes else toy(scaling=scaling)

    def program(ev: Any) -> list[Any]:
        return [ALONE[name](ev, ev.encrypt(X / 4))]

    with READINGS[reading].evaluator(params, symbolic_trace(params, program)) as ev:
        values, recorded = read(ev, program)
    assert agree(values, params, program) < (2e-3 if refreshes else 1e-6)
    symbolic = symbolic_trace(params, program)
    assert list(differences(recorded, symbolic.view() if reading == "native" else symbolic)) == []


def test_keys_for_openfhe_are_those_of_the_operations_and_a_refresh_makes_its_own() -> None:
    from penstock.program.openfhe.evaluator import needed_keys

    def needed(name: str) -> dict[str, Any]:
        params = toy_bootstrap(Scaling.FLEXIBLE_AUTO, 64)
        return needed_keys(symbolic_trace(params, lambda ev: [ALONE[name](ev, ev.encrypt(X / 4))]))

    nothing = {"rotation_steps": [], "relinearize": False, "conjugate": False, "bootstrap": set()}
    for name in ("polynomial of degree 0", "polynomial of degree 1", "series of degree 1", "weighted sum"):
        assert needed(name) == nothing
    for name in ("polynomial of degree 2", "polynomial of degree 6", "series of degree 2", "function", "square"):
        assert needed(name) == nothing | {"relinearize": True}
    assert needed("sum of slots") == nothing | {"rotation_steps": [1, 2, 4, 8, 16, 32]}
    assert needed("conjugate") == nothing | {"conjugate": True}
    refreshed = nothing | {"relinearize": True, "bootstrap": {64}}
    assert needed("refresh") == needed("refreshes") == refreshed
    assert needed("refresh of few slots") == refreshed | {"bootstrap": {2}}
    assert needed("refresh, then a rotation") == refreshed | {"rotation_steps": [5], "conjugate": True}
