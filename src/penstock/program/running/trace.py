"""The `trace` reading: nothing is encrypted, no values are read; the program's operations become a trace."""

from __future__ import annotations

from contextlib import nullcontext

from penstock.base.system.collector import collector_paused
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.running.reading import Reading, describe, resolve
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.schema import Trace


def trace_workload(
    name: str,
    params: str | CkksParameters | None = None,
    size: str | None = None,
    seed: int = 0,
    data: object = None,
) -> Trace:
    """The trace of a workload by the `trace` reading: nothing is encrypted, no values are read.

    Args:   name: a workload or a Python file; params: a set or its name (default: the size's own); size: default: the
            one that the parameters imply, see `penstock workloads`; seed: noted in the metadata, since a trace depends
            on no values; data: of the user's own, where its shape is not the size's.
    Raises: UnknownName; ParamsError: the program is deeper than the parameters.
    """
    workload, size_name, checked = resolve(name, params, size)
    chosen = workload.SIZES[size_name]
    with collector_paused():
        evaluator = SymbolicEvaluator(checked, repeats=True)
        workload.program(evaluator, workload.blank(chosen, checked.slots) if data is None else data, chosen)
        return evaluator.builder.finish(describe(workload.NAME, checked, "trace", size_name, seed))


READING = Reading(
    name="trace",
    meaning="each call is a row of a trace",
    returns="the trace",
    computes=False,
    verb="trace",
    read=trace_workload,
    evaluator=lambda params, expected: nullcontext(SymbolicEvaluator(params)),
)
