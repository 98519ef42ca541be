"""Bootstrapping by the native reading beside OpenFHE's EvalBootstrap: one secret, one message, precision and steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from penstock.program.evaluator.circuits.bootstrap import with_few_keys
from penstock.program.evaluator.circuits.openfhe.bootstrapping import Sine, sine_series
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.running import trace_workload
from penstock.program.workloads import bootstrapping
from penstock.runtime.native.engine import EngineHere, make_context
from penstock.runtime.native.evaluator import NativeEvaluator
from penstock.runtime.native.keys import KeysInMemory
from penstock.runtime.native.openfhe_client import OpenFheClient, make_keys
from penstock.runtime.native.prepared import ClientPlace
from penstock.runtime.native.reading import READING
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.traces.inspect import differences, problems
from penstock.scheme.traces.schema import TraceMeta
from support.native_runs import record_native
from support.toy import toy_bootstrap

Floats = npt.NDArray[np.float64]
PRECISION_BITS = 1.0
"""How much less precise than OpenFHE's a refresh may be."""
MANUAL, AUTO, EXT = Scaling.FIXED_MANUAL, Scaling.FLEXIBLE_AUTO, Scaling.FLEXIBLE_AUTO_EXT
FIXED_AUTO = Scaling.FIXED_AUTO


def values(slots: int, period: int) -> Floats:
    return np.tile(np.random.default_rng(7).uniform(-1, 1, period), slots // period)


def refreshed(ev: Any, x: Floats, period: int | None) -> tuple[Any, Floats]:
    """The message at the last level that the refresh takes, refreshed."""
    a = ev.encrypt(x)
    a = ev.bootstrap(ev.mod_drop(a, 2), period)
    return a, np.asarray(ev.decrypt(a)).real


def traced(ev: Any, params: CkksParameters) -> Any:
    return ev.builder.finish(TraceMeta(workload="refresh", params=params.to_dict(), reading="trace"))


def bits(found: Floats, x: Floats) -> float:
    """Of precision: of the root mean square of the errors."""
    return -float(np.log2(np.sqrt(np.mean(np.abs(found - x) ** 2))))


@pytest.mark.usefixtures("openfhe")
@pytest.mark.parametrize(
    ("scaling", "ring_dim", "slots", "period", "budget"),
    [
        (MANUAL, 512, 256, None, (3, 3)),  # all slots of the ring
        (MANUAL, 512, 64, 16, (2, 2)),  # values that repeat in the program's slots
        (FIXED_AUTO, 512, 256, None, (3, 3)),
        (FIXED_AUTO, 512, 64, 16, (2, 2)),
        (AUTO, 1024, 512, None, (3, 3)),  # 9 layers: stages of one length
        (AUTO, 1024, 256, None, (3, 3)),  # half of the ring's slots
        (AUTO, 512, 128, None, (3, 2)),  # 7 layers: a short last stage, and other numbers of stages
        (AUTO, 512, 16, None, (1, 1)),  # each transform one matrix
        (AUTO, 512, 16, None, (2, 1)),  # one of them
        (AUTO, 512, 1, None, (2, 2)),  # one slot: the library cuts both to one stage
        (MANUAL, 512, 16, 2, (3, 2)),  # one layer
        (EXT, 512, 64, None, (3, 3)),
    ],
)
def test_a_refresh_is_as_precise_as_openfhes_and_traces_its_steps(
    scaling: Scaling, ring_dim: int, slots: int, period: int | None, budget: tuple[int, int]
) -> None:
    from penstock.program.openfhe.evaluator import OpenFheContext, OpenFheEvaluator

    made = toy_bootstrap(scaling, slots)
    assert made.bootstrap is not None
    plan = replace(made.bootstrap, cts_stages=budget[0], stc_stages=budget[1])
    params = replace(made, ring_dim=ring_dim, bootstrap=plan)
    x = values(slots, slots if period is None else period)
    # The library's own steps, and those of few keys.
    plans = [params, with_few_keys(params)]
    traces = [traced_refresh(each, x, period) for each in plans]
    client = OpenFheContext.create(params, bootstrap=[slots if period is None else period])
    try:
        theirs, expected = refreshed(OpenFheEvaluator(client), x, period)
        # Refreshed until there are 64 errors: then their root mean square scatters by 0.13 bits.
        draws = -(-64 // (period or slots))
        again = [refreshed(OpenFheEvaluator(client), x, period)[1] for _ in range(draws - 1)]
        their_bits = bits(np.stack([expected, *again]), x)
        engine = make_context(params)
        keys = KeysInMemory(params, engine)
        make_keys(client, {key for trace in traces for key in trace.view().key_ids()}, keys.put)
        for each, trace in zip(plans, traces, strict=True):
            ev = NativeEvaluator(EngineHere(each, engine, keys), OpenFheClient(client))
            ours, found = refreshed(ev, x, period)
            recorded = traced(ev, each)
            assert list(differences(recorded, trace.view())) == []
            assert list(problems(recorded)) == []
            assert ours.state == theirs.state
            again = [refreshed(ev, x, period)[1] for _ in range(draws - 1)]
            assert bits(np.stack([found, *again]), x) > their_bits - PRECISION_BITS
    finally:
        client.release()
    few = traces[1].view().key_ids()
    assert len(few) <= len(traces[0].view().key_ids())


def traced_refresh(params: CkksParameters, x: Floats, period: int | None) -> Any:
    symbolic = SymbolicEvaluator(params)
    refreshed(symbolic, x, period)
    return traced(symbolic, params)


@pytest.mark.parametrize(
    ("degree", "sine_range", "double_angles"), [(48, 28, 3), (104, 512, 6), (36, 16, 3), (56, 16, 2)]
)
def test_the_series_and_its_double_angles_are_the_sine(degree: int, sine_range: int, double_angles: int) -> None:
    x = np.linspace(-1, 1, 40001)
    series = np.array(sine_series(Sine(degree, double_angles, sine_range)))
    series[0] /= 2
    found = np.polynomial.chebyshev.chebval(x, series)
    for _ in range(double_angles):
        found = 2 * found**2 - 1
    np.testing.assert_allclose(found, np.sin(2 * np.pi * sine_range * x), atol=2e-8)


@pytest.mark.parametrize("scaling", [MANUAL, AUTO])
def test_ciphertexts_that_are_refreshed_together_have_the_words_of_each_alone(scaling: Scaling) -> None:
    params = with_few_keys(toy_bootstrap(scaling, 64))
    vectors = [values(64, 16), values(64, 16)[::-1].copy(), np.full(64, 0.5)]

    def program(ev: Any, *, together: bool) -> list[Any]:
        given = [ev.mod_drop(ev.encrypt(each), 2) for each in vectors]
        return ev.bootstrap_many(given, 16) if together else [ev.bootstrap(each, 16) for each in given]

    symbolic = SymbolicEvaluator(params)
    program(symbolic, together=True)
    expected = traced(symbolic, params).view()
    with READING.evaluator(params, expected) as ev:
        given = [ev.mod_drop(ev.encrypt(each), 2) for each in vectors]
        together = ev.bootstrap_many(given, 16)
        recorded = traced(ev, params)
        assert list(differences(recorded, expected)) == []
        assert list(problems(recorded)) == []
        for a, refreshed_too, x in zip(given, together, vectors, strict=True):
            assert ev.engine.give(ev.bootstrap(a, 16)) == ev.engine.give(refreshed_too)
            assert bits(np.asarray(ev.decrypt(refreshed_too)).real, x) > 12


@pytest.mark.parametrize(("size", "changes"), [("ci", {}), ("ci-all-slots", {}), ("ci-all-slots", {"slots": 2**11})])
def test_slots_to_coeffs_first_is_as_precise_natively(size: str, changes: dict[str, Any]) -> None:
    last = with_few_keys(replace(catalogue.get("insecure-resnet20"), **changes))
    assert last.bootstrap is not None
    first = replace(last, bootstrap=replace(last.bootstrap, order="stc-first"))
    found = {}
    for params in (last, first):
        given = bootstrapping.data(bootstrapping.SIZES[size], params.slots, 0)
        run = record_native("bootstrapping", params, size, client=ClientPlace.INSIDE)
        assert list(differences(run.trace, trace_workload("bootstrapping", params, size).view())) == []
        found[params.bootstrap.order] = bits(run.result, given.values)
    assert found["stc-first"] > found["stc-last"] - PRECISION_BITS
