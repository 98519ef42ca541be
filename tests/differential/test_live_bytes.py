"""The peak of live data in columns, against a reading of the trace row by row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from penstock.program import workloads
from penstock.program.evaluator.tally import peak, tally_of
from penstock.program.running import trace_workload
from penstock.scheme.traces.schema import ORIGIN_MODELLED, Trace
from penstock.scheme.work.shapes import Objects


def row_by_row(trace: Trace) -> int:
    """Peak of live data, as one would count it by hand."""
    table = trace.operations
    scopes, kinds = table["scope"].to_pylist(), table["origin"].to_pylist()
    columns = (table[name].to_pylist() for name in ("operands", "output", "plaintext"))
    rows = list(zip(kinds, scopes, *columns, strict=True))
    composites = {scope: i for i, (origin, scope, *_) in enumerate(rows) if origin == "composite"}
    sizes = Objects(trace, trace.parameters()).bytes.tolist()
    size = dict(zip(trace.objects["id"].to_pylist(), sizes, strict=True))
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    inner: dict[int, list[tuple[int, ...]]] = {}
    for i, (origin, scope, operands, output, plaintext) in enumerate(rows):
        held = [object_id for object_id in (*operands, output) if object_id is not None]
        if origin == ORIGIN_MODELLED:
            owner = _owner(scope, composites)
            if owner is not None:
                inner.setdefault(owner, []).append(tuple(held))
                continue
        for object_id in (*held, plaintext):
            if object_id is not None:
                first.setdefault(object_id, i)
                last[object_id] = i
    besides = {}
    for owner, steps in inner.items():
        ends = {*rows[owner][2], rows[owner][3]}
        begin: dict[int, int] = {}
        end: dict[int, int] = {}
        for i, held_inside in enumerate(steps):
            for object_id in held_inside:
                if object_id not in ends:
                    begin.setdefault(object_id, i)
                    end[object_id] = i
        besides[owner] = peak(list(begin.values()), list(end.values()), [size[object_id] for object_id in begin])
    return peak(list(first.values()), list(last.values()), [size[object_id] for object_id in first], besides)


def _owner(scope: str, composites: Mapping[str, int]) -> int | None:
    """The row of the composite whose expansion an operation of this scope belongs to: the outermost one."""
    at = -1
    while (at := scope.find("/", at + 1)) >= 0:
        if scope[:at] in composites:
            return composites[scope[:at]]
    return composites.get(scope)


@pytest.mark.parametrize("name", workloads.names())
def test_columns_tell_the_same_peak_as_rows(name: str) -> None:
    trace = trace_workload(name, size="ci")
    assert tally_of(trace).live_bytes == row_by_row(trace)


@pytest.mark.parametrize("name", ["logistic-regression", "resnet20"])
def test_the_inside_of_composites_counts_in_their_own_step(name: str) -> None:
    trace = trace_workload(name, "sharp")
    assert tally_of(trace).live_bytes == row_by_row(trace)


def test_parts_of_a_trace_have_their_own_peaks() -> None:
    trace = trace_workload("logistic-regression", "sharp")
    for begin in range(0, len(trace), max(1, len(trace) // 7)):
        part = replace(trace, operations=trace.operations.slice(begin, 997))
        assert tally_of(part).live_bytes == row_by_row(part)
    empty = replace(trace, operations=trace.operations.slice(0, 0))
    assert tally_of(empty).live_bytes == row_by_row(empty) == 0
