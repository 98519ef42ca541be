"""What a worker does: price a program, and play a chunk of its points. Nothing here raises for a point that cannot be;
a machine that lacks SimGrid for those who ask for it does.

Both functions take and give values that travel between processes, so that a pool and a cluster run the same code.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import pyarrow as pa

from penstock.base.types import Row
from penstock.errors import CapabilityMissing, PenstockError
from penstock.lab.simulation.cluster.program import prepare
from penstock.lab.simulation.cluster.simgrid import SimGrid, SimGridFailed
from penstock.lab.simulation.memory.tenants import interleave
from penstock.lab.simulation.play import Ready, groups, play_group, row_of
from penstock.lab.simulation.question import OWN_ENGINE, SIMGRID, Point
from penstock.lab.sweeps.points import Chunk, SweptProgram
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.play.hierarchy import PlayedPoint
from penstock.scheme.play.price import price_trace
from penstock.scheme.play.rows import CLUSTER_COLUMNS, COLUMNS, LIST, MORE_COLUMNS, REAL, TEXT, WHOLE, Column
from penstock.scheme.traces.schema import Trace

_TYPES = {TEXT: pa.string(), REAL: pa.float64(), WHOLE: pa.int64(), LIST: pa.string()}
_WRITTEN, _LEVELS, _TENANTS, _TENANT_SLOWDOWN, *_BOUNDS = MORE_COLUMNS
SCHEMA = pa.schema(
    pa.field(column.name, _TYPES[column.kind], nullable=column.nullable)
    for column in (
        Column("point_id", TEXT),
        *COLUMNS,
        *CLUSTER_COLUMNS,
        Column("size", TEXT, nullable=True),
        Column("key_form", TEXT, nullable=True),  # null: as the parameter set says
        Column("classes", TEXT),  # joined by commas
        Column("decode_bytes_per_s", REAL, "B/s", nullable=True),  # null: nothing is decoded
        Column("beside", TEXT, nullable=True),  # programs that run at the same time, joined by commas; null: none
        _LEVELS,
        _TENANTS,
        Column("engine", TEXT),  # what plays the messages
        Column("simgrid_difference", REAL, nullable=True),  # of communication_s to penstock's engine, relative
        Column("trace", TEXT, nullable=True),  # the file, as the sweep names it; null: a workload
        Column("seed", WHOLE, nullable=True),  # of a workload's trace; null: a file
        _WRITTEN,
        Column("interleave", TEXT, nullable=True),  # how programs that run together take turns; null: one program
        _TENANT_SLOWDOWN,
        *_BOUNDS,
    )
)
"""A row of `penstock simulate` with every column, the point's id before it and what else tells points apart after."""


Priced: TypeAlias = Ready | str
"""A program, or why it cannot be on its machine and parameters."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Played:
    """The results of a chunk: `table` has a row of `SCHEMA` for each point that is not counted in `skipped`."""

    index: int
    table: pa.Table
    skipped: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Points of each (what, why)."""
    warnings: tuple[str, ...] = ()


def price_program(program: SweptProgram) -> Priced:
    """A program ready to be played; where its trace or price cannot be made, the reason."""
    try:
        first, *others = [_trace_of(one) for one in (program, *program.beside)]
        form, machine = program.key_form, program.machine
        priced = [price_trace(one, machine, key_form=form, classes=program.classes) for one in (first, *others)]
        return interleave(priced, program.order) if others else prepare(first, machine, priced[0], form)
    except PenstockError as error:
        return str(error)


def impossible(program: SweptProgram) -> str | None:
    """Why a program cannot be on its machine and parameters; `None` where it can."""
    priced = price_program(program)
    return priced if isinstance(priced, str) else None


def _trace_of(program: SweptProgram) -> Trace:
    if program.trace is not None:
        return program.trace
    from penstock.program import workloads

    state = str(workloads.identity(program.workload))  # a file may change
    return _trace(program.workload, program.params, program.size, program.seed, state)


@lru_cache(maxsize=2)
def _trace(workload: str, params: CkksParameters | None, size: str | None, seed: int, state: str) -> Trace:
    """Programs that differ in their machine or key form follow each other, and share a trace."""
    from penstock.program.running import trace_workload

    return trace_workload(workload, params, size, seed)


def play_chunk(program: SweptProgram, priced: Priced, chunk: Chunk) -> Played:
    """The rows of a chunk, in the order of its points.

    Raises: CapabilityMissing: a point is SimGrid's, and it is not there.
    """
    if isinstance(priced, str):
        skipped = Counter({(program.label(), priced): len(chunk.points)})
        return Played(index=chunk.index, table=SCHEMA.empty_table(), skipped=skipped)
    known = {
        "size": program.size,
        "key_form": program.key_form.value if program.key_form else None,
        "classes": ",".join(program.classes),
        "beside": ",".join(other.name for other in program.beside) or None,
        "trace": program.source,
        "seed": None if program.source else program.seed,
        "interleave": getattr(program.order, "name", program.order) if program.beside else None,
    }
    rows: dict[str, Row] = {}
    skipped = Counter()
    warnings = dict.fromkeys(priced.priced.warnings)
    for group in groups(chunk.points):
        results: list[tuple[Point, PlayedPoint]] = []
        try:
            results = _play(priced, group)
        except CapabilityMissing:
            raise
        except PenstockError:
            for point in group:
                try:
                    results += _again(priced, point)
                except CapabilityMissing:
                    raise
                except PenstockError as error:
                    skipped[_label(program, point), str(error)] += 1
        for point, result in results:
            row = row_of(priced.priced, point, result)
            for column in (_LEVELS, _TENANTS, *_BOUNDS):
                row[column.name] = None if row[column.name] is None else json.dumps(row[column.name])
            rows[point.id] = {
                **row,
                **known,
                "point_id": point.id,
                "decode_bytes_per_s": point.decode_bytes_per_s,
                "engine": point.engine,
                "simgrid_difference": _difference(point, result),
            }
            warnings.update(dict.fromkeys(result.warnings))
    ordered = [rows[point.id] for point in chunk.points if point.id in rows]
    table = pa.table(
        {field.name: pa.array([row[field.name] for row in ordered], field.type) for field in SCHEMA}, schema=SCHEMA
    )
    return Played(index=chunk.index, table=table, skipped=skipped, warnings=tuple(warnings))


def _play(ready: Ready, group: Sequence[Point]) -> list[tuple[Point, PlayedPoint]]:
    simgrid = _simgrid() if group[0].engine == SIMGRID else None
    return list(zip(group, play_group(ready, group, simgrid), strict=True))


def _again(ready: Ready, point: Point) -> list[tuple[Point, PlayedPoint]]:
    """A point of a group that failed, alone. SimGrid's worker may have been killed: a new one tries, twice at most.

    Raises: PenstockError: it failed again.
    """
    try:
        return _play(ready, [point])
    except SimGridFailed:
        return _play(ready, [point])


@lru_cache(maxsize=1)
def _simgrid() -> SimGrid:
    """One for the process: it remembers the exchanges that it has played."""
    return SimGrid()


def _difference(point: Point, result: PlayedPoint) -> float | None:
    """The relative difference of SimGrid's messages from penstock's."""
    own_s = result.own_communication_s
    if point.engine != SIMGRID or not own_s:
        return None
    return (result.communication_s - own_s) / own_s


def _label(program: SweptProgram, point: Point) -> str:
    if point.by_level or point.cluster is None or program.beside:
        return f"{program.label()}, {point.mode}"
    by = f", {point.engine}" if point.engine != OWN_ENGINE else ""
    return f"{program.label()}, {point.cluster.described}, {point.mode}{by}"
