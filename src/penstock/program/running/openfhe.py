"""The `openfhe` reading: the program encrypted, each operation by OpenFHE, and timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from penstock.base.system.own_file import is_own, one_at_a_time
from penstock.base.system.temporary import temporary_folder
from penstock.base.types import Row
from penstock.errors import ParamsError
from penstock.program.openfhe.evaluator import OpenFheContext, OpenFheEvaluator, load_openfhe, needed_keys, set_threads
from penstock.program.openfhe.turn import TURN
from penstock.program.running.reading import Reading, Run, describe, report_to, resolve
from penstock.program.running.trace import trace_workload
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.schema import Trace


def record_openfhe(
    name: str,
    params: str | CkksParameters | None = None,
    size: str | None = None,
    seed: int = 0,
    data: object = None,
    *,
    threads: int | None = None,
    key_budget_bytes: int | None = None,
    on_operation: Callable[[int, int], None] | None = None,
) -> Run:
    """Run a workload encrypted with OpenFHE and record it.

    The keys that it needs are found by the `trace` reading first. `on_operation(done, total)` reports progress.
    With `key_budget_bytes` (or where the size has such a field) rotation keys are paged: they lie in files in the
    folder for temporary files, and so many bytes of them in memory.
    Raises: CapabilityMissing: OpenFHE cannot be imported; ParamsError: the program does not fit the parameters.
    """
    with prepared_openfhe(name, params, size, seed, data, threads=threads, key_budget_bytes=key_budget_bytes) as run:
        return run(on_operation=on_operation)


@contextmanager
def prepared_openfhe(
    name: str,
    params: str | CkksParameters | None = None,
    size: str | None = None,
    seed: int = 0,
    data: object = None,
    *,
    threads: int | None = None,
    key_budget_bytes: int | None = None,
) -> Iterator[Callable[..., Run]]:
    """A workload with its context and keys made: `run(evaluator=OpenFheEvaluator, on_operation=None)` runs it.

    It may be called again and again on the same keys; `evaluator` makes the evaluator of a run from the context,
    `other` is the data of a run where it is not `data`.
    Raises: as `record_openfhe`.
    """
    workload, size_name, checked = resolve(name, params, size)
    chosen = workload.SIZES[size_name]
    expected = trace_workload(name, checked, size_name, seed, data)
    needed = _needed(checked, expected)
    load_openfhe()
    data = workload.data(chosen, checked.slots, seed) if data is None else data
    budget = getattr(chosen, "key_budget_bytes", None) if key_budget_bytes is None else key_budget_bytes

    def run(
        evaluator: Callable[[OpenFheContext], OpenFheEvaluator] = OpenFheEvaluator,
        on_operation: Callable[[int, int], None] | None = None,
        other: object = None,
    ) -> Run:
        made = evaluator(context)
        if on_operation is not None:
            made.builder.on_add = report_to(on_operation, len(expected))
        started = time.perf_counter()
        result = workload.program(made, data if other is None else other, chosen)
        wall_s = time.perf_counter() - started
        trace = made.builder.finish(describe(workload.NAME, checked, "openfhe", size_name, seed))
        paged = context.paged
        return Run(
            result=result,
            trace=trace,
            wall_s=wall_s,
            setup_s=context.setup_s,
            encode_s=made.encode_s,
            key_load_s=paged.load_s if paged else 0.0,
            num_key_loads=paged.num_loads if paged else 0,
        )

    with ExitStack() as stack:
        if is_own(name):
            stack.enter_context(one_at_a_time())  # first, as in a program that itself runs another with OpenFHE
        stack.enter_context(TURN.taken())
        if threads is not None:
            set_threads(threads)
        folder = None
        if budget is not None:
            folder = stack.enter_context(temporary_folder("penstock-keys-"))
        context = OpenFheContext.create(checked, **needed, key_folder=folder, key_budget_bytes=budget or 0)
        stack.callback(context.release)
        yield run


def _needed(params: CkksParameters, expected: Trace) -> Row:
    """The keys of a context for a program with this trace.

    Raises: ParamsError: the set's bootstrapping is not the library's.
    """
    if params.bootstrap is not None and params.bootstrap.rotations == "few-keys":
        raise ParamsError(
            f"set '{params.name}': OpenFHE's bootstrapping takes its own steps, not bootstrap.rotations "
            "'few-keys': take 'hoisted', or run it with --reading native"
        )
    return needed_keys(expected)


@contextmanager
def _evaluator(params: CkksParameters, expected: Trace) -> Iterator[OpenFheEvaluator]:
    context = OpenFheContext.create(params, **_needed(params, expected))
    try:
        yield OpenFheEvaluator(context)
    finally:
        context.release()


READING = Reading(
    name="openfhe",
    meaning="encrypted, each operation by OpenFHE",
    returns="a `Run`: the result, the trace, and what it cost",
    library=True,
    keys=True,
    verb="run",
    read=record_openfhe,
    prepared=prepared_openfhe,
    evaluator=_evaluator,
)
