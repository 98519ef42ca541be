"""Every workload at each machine's own parameter set: it has a price, or there is a sentence that says why not.

The traces are those of `make traces`, the longest programs at a smaller size. A new machine file and a new workload
join by themselves.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pytest

from penstock.errors import ParamsError
from penstock.program import workloads
from penstock.program.running.reading import resolve
from penstock.program.running.trace import trace_workload
from penstock.scheme.machines import load_machine, machine_names
from penstock.scheme.params import catalogue
from penstock.scheme.play.price import PricedTrace, price_trace
from penstock.scheme.traces.schema import Trace

OWN_SETS = {name: load_machine(name).native_params for name in machine_names()}
FULL_SIZE = "sharp"
"""The set at which the longest programs run at the size of the trace pack; elsewhere at their smallest, for time."""
LONG = ("sorting", "sorting-three-way", "sorting-k-way")


@lru_cache(maxsize=1)
def trace_or_reason(set_name: str, workload: str) -> Trace | str:
    """The trace of a workload as the trace pack has it, or why the set does not carry the workload."""
    try:
        smallest = next(iter(workloads.get(workload).SIZES)) if workload in LONG and set_name != FULL_SIZE else None
        _, size, params = resolve(workload, set_name, smallest)
        return trace_workload(workload, params, size)
    except ParamsError as error:
        return str(error)


@lru_cache
def small_trace(set_name: str) -> Trace | str:
    """Of a workload that every set carries: each machine prices it."""
    return trace_or_reason(set_name, "inner-product")


def machines_of(set_name: str) -> list[str]:
    return [name for name, own in OWN_SETS.items() if own == set_name]


def check(priced: PricedTrace, trace: Trace) -> None:
    assert len(priced) > 0
    assert math.isfinite(priced.ideal_s)
    assert priced.ideal_s > 0
    assert np.isfinite(priced.compute_s).all()
    assert (priced.compute_s >= 0).all()
    assert priced.bytes_by_class["key"] >= 0
    assert priced.unpriced == {}
    watts = load_machine(priced.machine).watts
    if watts is None:
        assert priced.joules is None
    else:
        assert priced.joules is not None
        assert priced.joules.sum() == pytest.approx(watts * priced.ideal_s)
    assert priced.params == trace.parameters().name


@pytest.mark.parametrize("workload", workloads.names())
@pytest.mark.parametrize("set_name", sorted({own for own in OWN_SETS.values() if own is not None}))
def test_a_workload_has_a_price_on_each_machine_of_a_set_or_a_reason(set_name: str, workload: str) -> None:
    found = trace_or_reason(set_name, workload)
    if isinstance(found, str):
        assert len(found) > 40  # what does not fit, and what would
        assert ": " in found
        return
    for name in machines_of(set_name):
        machine = load_machine(name)
        assert machine.architecture.misfit(name, found.parameters()) is None
        check(price_trace(found, machine), found)


@pytest.mark.parametrize("name", machine_names())
def test_a_machine_prices_every_set_that_fits_it_and_names_those_that_do_not(name: str) -> None:
    machine, fitting = load_machine(name), 0
    for set_name in sorted({own for own in OWN_SETS.values() if own is not None}):
        params = catalogue.get(set_name)
        trace = small_trace(set_name)
        assert isinstance(trace, Trace)
        priced = price_trace(trace, machine)
        assert priced.ideal_s > 0
        reason = machine.architecture.misfit(name, params)
        fitting += reason is None
        assert (reason in priced.warnings) == (reason is not None)
    assert fitting >= 1
