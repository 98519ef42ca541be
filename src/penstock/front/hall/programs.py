"""`penstock.trace`: a program without cryptography, as the operations that the simulator and the predictor take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import pyarrow as pa

from penstock.errors import UsageError
from penstock.front.hall.arguments import names_arguments
from penstock.front.hall.result import Result
from penstock.program.running.native_set import set_for
from penstock.program.running.trace import trace_workload
from penstock.program.workloads import valued
from penstock.scheme.machines import Machine
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.sizes import bytes_by_form
from penstock.scheme.traces import is_trace_file
from penstock.scheme.traces.inspect import read_program, summary
from penstock.scheme.traces.io import write_trace
from penstock.scheme.traces.schema import Trace
from penstock.scheme.unpriced import AT_LEAST, UNPRICED


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Traced(Result):
    """A program as a trace. Rows count its operations by kind; `to_arrow` and `to_pandas` have every operation."""

    trace: Trace
    params: CkksParameters
    num_operations: int | None = 0
    """Of the server, composites expanded. This and the next three are `None` where the inside of one is not known."""
    num_keys: int | None = 0
    key_bytes: int | None = 0
    """All evaluation keys that are used, each once, in the form that the parameter set stores."""
    key_bytes_touched: int | None = 0
    """Bytes of keys that all operations together read."""
    unpriced: Mapping[str, int] | None = None
    """Kind -> composites whose inside is not known."""
    at_least: Mapping[str, float | None] | None = None
    """Total, as `penstock trace info` names it -> its lower bound, where there are such."""
    DRAWN: ClassVar = ("operation", "count")

    @property
    def key_limbs(self) -> dict[str, int]:
        """The most limbs at which each evaluation key is used, composites expanded."""
        return self.trace.view().key_limbs()

    @property
    def key_bytes_by_form(self) -> dict[str, int | None]:
        """All evaluation keys as each form stores them; `None` where some are not known."""
        rows = bytes_by_form(self.params, self.key_limbs, self.unpriced)
        return {row["key_form"]: row["stored_key_bytes"] for row in rows}

    def to_arrow(self) -> pa.Table:
        """Every operation, as docs/reference/trace-format.md describes the columns."""
        return self.trace.view().operations

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the trace to a .parquet file, which every verb and `penstock.trace` read.

        Raises: WouldOverwrite: the file exists, and not `force`; FileError.
        """
        write_trace(self.trace, Path(path), force=force)
        return Path(path)


Program = str | Path | Trace | Traced
"""What stands for a program: a workload's name, a Python file, a trace file, or a trace. A recorded context too."""
AskedSet = str | Path | CkksParameters | None
"""A parameter set that is asked for: its name, its file, or itself; `None`: the usual one."""
Spelled = Callable[[str], str]
"""How a front end writes a word."""


@names_arguments
def trace(
    program: Program | object,
    params: str | Path | CkksParameters | None = None,
    *,
    size: str | None = None,
    seed: int = 0,
) -> Traced:
    """Trace a program. Nothing is encrypted, no values are read.

    Args:   program: a workload's name, a .py file of your own, a package, a .parquet trace, a trace, or an OpenFHE
            context that `penstock.record` records; params: a parameter set, its name or file (default: the size's own,
            or the trace's); size: of a workload (default: the one that the parameters imply); seed: noted in the trace.
    Returns: counts by kind, keys and bytes; pass `.trace` to `simulate` and `predict`. A trace that is taken to other
            parameters has `warnings` of what could not be.
    Raises: UnknownName: no such workload, set or size; ParamsError: the program is deeper than the parameters;
            UsageError: a size for a trace.
    """
    warnings: tuple[str, ...] = ()
    if params is not None and size is None and not _is_traced_here(program):
        from penstock.program.package.retrace import retrace

        chosen = set_of(params)
        assert chosen is not None
        traced, warnings = retrace(trace_of(program, None, None), chosen)
    else:
        traced = trace_of(program, params, size, seed)
    counts = summary(traced)
    return Traced(
        rows=tuple({"operation": kind, "count": count} for kind, count in counts["by_kind"].items()),
        title=f"{counts['workload']} ({counts['size'] or 'recorded'}) at {counts['params']}",
        provenance=counts["provenance"],
        warnings=warnings,
        trace=traced,
        params=traced.parameters(),
        num_operations=counts["num_operations"],
        num_keys=counts["num_keys"],
        key_bytes=counts["key_bytes_unique"],
        key_bytes_touched=counts["key_bytes_touched"],
        unpriced=counts[UNPRICED],
        at_least=counts[AT_LEAST],
    )


def _is_traced_here(program: object) -> bool:
    """Whether a program is a workload or a file of one, and no trace."""
    return isinstance(program, str | Path) and not is_trace_file(str(program))


def trace_of(program: object, params: AskedSet, size: str | None, seed: int = 0, spelled: Spelled = str) -> Trace:
    """The trace that a program stands for.

    Raises: as `trace`.
    """
    if isinstance(program, Traced):
        program = program.trace
    text = str(program) if isinstance(program, str | Path) else None
    if text is not None and not is_trace_file(text):
        return trace_workload(text, set_of(params), size, seed)
    if params is not None or size is not None:
        what = text or "a trace"
        raise UsageError(
            f"{what} is a trace and has its parameters and size: leave {spelled('params')} and {spelled('size')} out; "
            "'penstock trace' and penstock.trace() take a trace to other parameters"
        )
    if text is not None:
        return read_program(Path(text))
    return program if isinstance(program, Trace) else _recorded(program)


class Home(NamedTuple):
    """A program on a machine, at the parameter set that it takes there."""

    machine: Machine
    trace: Trace
    beside: list[Trace]
    note: str | None
    """Name the set that was taken by default, and why."""
    params: AskedSet
    """The set that was taken; `None`: the program's own."""


def homes(
    program: object,
    params: AskedSet,
    size: str | None,
    seed: int,
    machines: Sequence[Machine],
    beside: Sequence[object] = (),
    spelled: Spelled = str,
) -> Iterator[Home]:
    """The program on each machine: without `params` each machine has its own set. Equal sets share their traces.

    Raises: as `trace`.
    """
    made: dict[str, tuple[Trace, list[Trace]]] = {}
    for machine in machines:
        taken, note = at_home(program, params, size, [machine], beside)
        key = taken if isinstance(taken, str) else ""
        if key not in made:
            first = trace_of(program, taken, size, seed, spelled)
            # A second program that is a trace has its own parameters, a workload takes the first one's.
            made[key] = (
                first,
                [
                    trace_of(other, taken, size, seed) if _is_traced_here(other) else trace_of(other, None, None)
                    for other in beside
                ],
            )
        yield Home(machine, *made[key], note, taken)


def at_home(
    program: object, params: AskedSet, size: str | None, machines: Sequence[Machine], beside: Sequence[object] = ()
) -> tuple[AskedSet, str | None]:
    """The set of a program on machines, and a line about it where nobody asked for one.

    Returns: the set that is asked for, else the machines' own; `None`: the program's own.
    Raises: UnknownName.
    """
    if params is not None or not isinstance(program, str | Path) or is_trace_file(str(program)):
        return params, None
    named = [str(program) for program in beside if isinstance(program, str | Path)]
    home_set = set_for(str(program), None, size, machines, beside=named)
    return home_set.params, home_set.note


def set_of(params: object) -> CkksParameters | None:
    """The parameter set of that name, in that file, or itself.

    Raises: UsageError: another value; one set is taken at a time.
    """
    if params is None or isinstance(params, CkksParameters):
        return params
    if not isinstance(params, str | Path):
        what = f"params {params!r}"[:80]
        raise UsageError(f"{what}: give one parameter set, by name, as a .toml file, or as a value")
    return catalogue.get(str(params))


def name_of(program: object, verb: str) -> str:
    """The name of a workload or of a Python file, for what reads the program itself.

    Raises: UsageError: a trace, which has operations and no values.
    """
    if isinstance(program, str | Path):
        return valued(str(program), verb)
    raise UsageError(
        f"{verb}: a trace, made at one chain, of operations without values: name the workload, the .py file of your "
        "program, or its package"
    )


def _recorded(context: object) -> Trace:
    """The trace of an OpenFHE context that is recorded."""
    from penstock.program.openfhe.recorder.tap import TAP

    recording = TAP.recordings.get(id(context))
    if recording is None:
        raise UsageError(
            f"{type(context).__name__} is not a program: give a workload's name, a .py file, a .parquet trace, a "
            f"trace, "
            "or a context that penstock.record() records"
        )
    return recording.trace()
