"""Reads a workload: in the clear, symbolically, or encrypted with OpenFHE."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ParamsError
from penstock.params.ckks import CkksParameters
from penstock.program.clear import ClearEvaluator
from penstock.program.symbolic import SymbolicEvaluator
from penstock.system.temporary import temporary_folder
from penstock.traces.schema import Trace, TraceMeta
from penstock.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One encrypted run: what it computed, its trace, and what it cost."""

    result: Any
    trace: Trace
    wall_s: float
    """Seconds from the first encryption to the last decryption."""
    setup_s: dict[str, float] = field(default_factory=dict)
    encode_s: float = 0.0
    """Seconds spent on encoding vectors, those that are encrypted too."""
    key_load_s: float = 0.0
    """Seconds spent on loading rotation keys from disk, where they are paged."""
    num_key_loads: int = 0

    @property
    def server_s(self) -> float:
        """Seconds that the calls of the server's operations took, one after another: no encryption, no encoding, no
        loading of keys, nothing of the program between the calls."""
        table = self.trace.server_operations()
        starts, ends = table["start_s"].to_pylist(), table["end_s"].to_pylist()
        return sum(end - start for start, end in zip(starts, ends, strict=True) if start is not None)


def describe(name: str, params: CkksParameters, reading: str, size: str, seed: int | None) -> TraceMeta:
    """The metadata of a trace that this process makes."""
    versions = {"penstock": __version__, "python": platform.python_version()}
    return TraceMeta(workload=name, params=params.to_dict(), reading=reading, size=size, seed=seed, versions=versions)


def resolve(name: str, params: str | CkksParameters | None, size: str | None) -> tuple[Any, str, CkksParameters]:
    """The workload, the name of its size and the parameters that a user's words mean."""
    from penstock import workloads
    from penstock.params import catalogue

    workload = workloads.get(name)
    checked = catalogue.get(params) if isinstance(params, str) else params
    size_name = size or (workloads.implied_size(workload, checked) if checked is not None else workload.DEFAULT_SIZE)
    chosen = workloads.size_of(workload, size_name)
    return workload, size_name, checked if checked is not None else catalogue.get(chosen.params)


def trace_workload(
    name: str,
    params: str | CkksParameters | None = None,
    size: str | None = None,
    seed: int = 0,
    data: Any = None,
) -> Trace:
    """The trace of a workload by the `trace` reading: nothing is encrypted, no values are read.

    Args:   name: a workload or a Python file; params: a set or its name (default: the size's own); size: default: the
            one that the parameters imply, see `penstock workloads`; seed: noted in the metadata, since a trace depends
            on no values; data: of the user's own, where its shape is not the size's.
    Raises: UnknownName; ParamsError: the program is deeper than the parameters.
    """
    workload, size_name, checked = resolve(name, params, size)
    chosen = workload.SIZES[size_name]
    evaluator = SymbolicEvaluator(checked)
    workload.program(evaluator, workload.blank(chosen, checked.slots) if data is None else data, chosen)
    return evaluator.builder.finish(describe(workload.NAME, checked, "trace", size_name, seed))


def run_clear(
    name: str, params: str | CkksParameters | None = None, size: str | None = None, seed: int = 0, data: Any = None
) -> Any:
    """The result of a workload on plain vectors."""
    workload, size_name, checked = resolve(name, params, size)
    chosen = workload.SIZES[size_name]
    data = workload.data(chosen, checked.slots, seed) if data is None else data
    return workload.program(ClearEvaluator(checked), data, chosen)


def record_openfhe(
    name: str,
    params: str | CkksParameters | None = None,
    size: str | None = None,
    seed: int = 0,
    data: Any = None,
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
    data: Any = None,
    *,
    threads: int | None = None,
    key_budget_bytes: int | None = None,
) -> Iterator[Callable[..., Run]]:
    """A workload with its context and keys made: `run(evaluator=OpenFheEvaluator, on_operation=None)` runs it.

    It may be called again and again on the same keys; `evaluator` makes the evaluator of a run from the context,
    `other` is the data of a run where it is not `data`.
    Raises: as `record_openfhe`.
    """
    from penstock.openfhe.evaluator import OpenFheContext, OpenFheEvaluator, load_openfhe, needed_keys, set_threads
    from penstock.program.circuits.bootstrap import slots_in

    workload, size_name, checked = resolve(name, params, size)
    chosen = workload.SIZES[size_name]
    load_openfhe()
    expected = trace_workload(name, checked, size_name, seed, data)
    called = expected.view(composites=True)
    steps, relinearize, conjugate = needed_keys(called.key_ids(), called.operations["step"].to_pylist())
    kinds = called.count_by_kind()
    if checked.bootstrap is not None and checked.bootstrap.rotations == "few-keys":
        raise ParamsError(
            f"set '{checked.name}': OpenFHE's bootstrapping takes its own steps, not bootstrap.rotations "
            "'few-keys': take 'hoisted', or run it with --reading native"
        )
    refreshes = called.operations.filter(pc.equal(called.operations["kind"].cast(pa.string()), "bootstrap"))
    bootstrap = slots_in(checked, refreshes["scope"].unique().to_pylist())
    # The rows of a composite do not say that it multiplies.
    relinearize = relinearize or bool(bootstrap) or "chebyshev" in kinds
    if threads is not None:
        set_threads(threads)
    data = workload.data(chosen, checked.slots, seed) if data is None else data
    budget = getattr(chosen, "key_budget_bytes", None) if key_budget_bytes is None else key_budget_bytes

    def run(
        evaluator: Callable[[OpenFheContext], OpenFheEvaluator] = OpenFheEvaluator,
        on_operation: Callable[[int, int], None] | None = None,
        other: Any = None,
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
            result=result, trace=trace, wall_s=wall_s, setup_s=context.setup_s, encode_s=made.encode_s,
            key_load_s=paged.load_s if paged else 0.0, num_key_loads=paged.num_loads if paged else 0,
        )  # fmt: skip

    with ExitStack() as stack:
        folder = None
        if budget is not None:
            folder = stack.enter_context(temporary_folder("penstock-keys-"))
        context = OpenFheContext.create(
            checked, rotation_steps=steps, relinearize=relinearize, conjugate=conjugate, bootstrap=bootstrap,
            key_folder=folder, key_budget_bytes=budget or 0,
        )  # fmt: skip
        stack.callback(context.release)
        yield run


def report_to(report: Callable[[int, int], None], total: int) -> Callable[[int], None]:
    """What a builder calls for each operation, to report `(done, total)`."""

    def on_add(op_id: int) -> None:
        report(op_id + 1, total)

    return on_add
