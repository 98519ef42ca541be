"""What a worker does: price a program, and play a chunk of its points. Nothing here raises for a point that cannot be;
a machine that lacks SimGrid for those who ask for it does.

Both functions take and give values that travel between processes, so that a pool and a cluster run the same code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, cast

import pyarrow as pa

from penstock.errors import CapabilityMissing, PenstockError
from penstock.params.ckks import CkksParameters
from penstock.simulation.caches import Cache
from penstock.simulation.cluster.cluster import Cluster, ClusterResult, play_clusters
from penstock.simulation.cluster.program import ClusterProgram, prepare
from penstock.simulation.cluster.rows import cluster_row
from penstock.simulation.cluster.simgrid import SimGrid, SimGridFailed
from penstock.simulation.memory.hierarchy import Point
from penstock.simulation.memory.tenants import Order, interleave
from penstock.simulation.price import price_trace
from penstock.sweeps.levels import TogetherProgram, level_rows
from penstock.sweeps.points import OWN_ENGINE, SIMGRID, Chunk, Program, SweepPoint
from penstock.traces.schema import Trace

_TEXT, _REAL, _WHOLE = pa.string(), pa.float64(), pa.int64()
SCHEMA = pa.schema(
    [
        pa.field("point_id", _TEXT, nullable=False),
        pa.field("workload", _TEXT, nullable=False),
        pa.field("params", _TEXT, nullable=False),
        pa.field("machine", _TEXT, nullable=False),
        pa.field("tier", _TEXT, nullable=False),
        pa.field("mode", _TEXT, nullable=False),
        pa.field("cache_bytes", _WHOLE),
        pa.field("policy", _TEXT, nullable=False),
        pa.field("hit_ratio", _REAL),
        pa.field("hosts", _WHOLE, nullable=False),
        pa.field("network", _TEXT),
        pa.field("compute_s", _REAL, nullable=False),
        pa.field("io_s", _REAL, nullable=False),
        pa.field("decode_s", _REAL, nullable=False),
        pa.field("communication_s", _REAL, nullable=False),
        pa.field("total_s", _REAL, nullable=False),
        pa.field("slowdown", _REAL),
        pa.field("energy_j", _REAL),
        pa.field("key_bytes", _WHOLE, nullable=False),
        pa.field("io_bytes", _REAL, nullable=False),
        pa.field("prefetch", _TEXT),
        pa.field("provenance", _TEXT, nullable=False),
        pa.field("topology", _TEXT, nullable=False),
        pa.field("partition", _TEXT, nullable=False),
        pa.field("all_gather", _TEXT, nullable=False),
        pa.field("broadcast", _TEXT, nullable=False),
        pa.field("programs", _WHOLE, nullable=False),
        pa.field("speedup", _REAL, nullable=False),
        pa.field("sent_bytes", _REAL, nullable=False),
        pa.field("loaded_bytes", _REAL, nullable=False),
        pa.field("size", _TEXT),
        pa.field("key_form", _TEXT),  # null: as the parameter set says
        pa.field("classes", _TEXT, nullable=False),  # joined by commas
        pa.field("decode_bytes_per_s", _REAL),  # null: nothing is decoded
        pa.field("beside", _TEXT),  # programs that run at the same time, joined by commas; null: none
        pa.field("levels", _TEXT),  # JSON, as `simulate` has it; null: one cache and one tier
        pa.field("tenants", _TEXT),  # JSON: when each of several programs ends; null: one program
        pa.field("engine", _TEXT, nullable=False),  # what plays the messages
        pa.field("simgrid_difference", _REAL),  # of communication_s to penstock's engine, relative; null: that engine
        pa.field("trace", _TEXT),  # the file, as the sweep names it; null: a workload
        pa.field("seed", _WHOLE),  # of a workload's trace; null: a file
        pa.field("written_bytes", _WHOLE),  # results over the channel downwards; null: they are not written back
        pa.field("interleave", _TEXT),  # how programs that run together take turns; null: one program
    ]
)
"""A row of `penstock simulate` on a cluster, with the point's id before it and what else tells points apart after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpriced:
    """A program that cannot be on its machine and parameters."""

    why: str


Priced: TypeAlias = ClusterProgram | TogetherProgram | Unpriced


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Played:
    """What a chunk came to: `table` has a row of `SCHEMA` for each point that is not counted in `skipped`."""

    index: int
    table: pa.Table
    skipped: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Points of each (what, why)."""
    warnings: tuple[str, ...] = ()


class Made(NamedTuple):
    """A point that was played."""

    point: SweepPoint
    result: ClusterResult
    single: ClusterResult
    """Of one host."""
    own: ClusterResult
    """By penstock's engine."""


def price_program(program: Program) -> Priced:
    """A program ready to be played; where its trace or price cannot be made, the reason."""
    try:
        if program.beside:
            return _together(program)
        trace = _trace_of(program)
        return prepare(trace, program.machine, key_form=program.key_form, classes=program.classes)
    except PenstockError as error:
        return Unpriced(why=str(error))


def impossible(program: Program) -> str | None:
    """Why a program cannot be on its machine and parameters; `None` where it can."""
    priced = price_program(program)
    return priced.why if isinstance(priced, Unpriced) else None


def _together(program: Program) -> TogetherProgram:
    priced = [
        price_trace(_trace_of(each), program.machine, key_form=program.key_form, classes=program.classes)
        for each in (program, *program.beside)
    ]
    return TogetherProgram(tenants=interleave(priced, cast(Order, program.order)), machine=program.machine)


def _trace_of(program: Program) -> Trace:
    if program.trace is not None:
        return program.trace
    return _trace(program.workload, program.params, program.size, program.seed)


@lru_cache(maxsize=2)
def _trace(workload: str, params: CkksParameters | None, size: str | None, seed: int) -> Trace:
    """Programs that differ in their machine or key form follow each other, and share a trace."""
    from penstock.running import trace_workload

    return trace_workload(workload, params, size, seed)


def play_chunk(program: Program, priced: Priced, chunk: Chunk) -> Played:
    """The rows of a chunk, in the order of its points.

    Raises: CapabilityMissing: a point is SimGrid's, and it is not there.
    """
    if isinstance(priced, Unpriced):
        skipped = Counter({(program.label(), priced.why): len(chunk.points)})
        return Played(index=chunk.index, table=SCHEMA.empty_table(), skipped=skipped)
    known = {
        "size": program.size,
        "key_form": program.key_form.value if program.key_form else None,
        "classes": ",".join(program.classes),
        "beside": ",".join(other.name for other in program.beside) or None,
        "trace": program.source,
        "seed": None if program.source else program.seed,
        "interleave": program.order if program.beside else None,
    }
    none = {"levels": None, "tenants": None, "written_bytes": None}
    rows: dict[str, dict[str, Any]] = {}
    skipped = Counter()
    warnings = dict.fromkeys(priced.priced.warnings)
    apart = [p for p in chunk.points if _is_levels(p) or isinstance(priced, TogetherProgram)]
    for point in apart:
        try:
            row, said = level_rows(priced, point)
        except PenstockError as error:
            skipped[f"{program.label()}, {point.mode}", str(error)] += 1
            continue
        rate = point.decode_bytes_per_s
        rows[point.id] = {"point_id": point.id, **row, **known, "decode_bytes_per_s": rate, **_compared(point)}
        warnings.update(dict.fromkeys(said))
    on_hosts = [] if isinstance(priced, TogetherProgram) else [p for p in chunk.points if not _is_levels(p)]
    for group in _groups(on_hosts):
        assert isinstance(priced, ClusterProgram), "programs that run together are played on one host"
        try:
            made = _play(priced, group)
        except CapabilityMissing:
            raise
        except PenstockError:
            made = []
            for point in group:
                try:
                    made += _again(priced, point)
                except CapabilityMissing:
                    raise
                except PenstockError as error:
                    skipped[_label(program, point), str(error)] += 1
        for point, result, single, own in made:
            row = cluster_row(priced, result, point.tier, point.prefetch, point.cache, single)
            rate = point.decode_bytes_per_s
            by = _compared(point, result, own)
            rows[point.id] = {"point_id": point.id, **row, **known, **none, "decode_bytes_per_s": rate, **by}
            warnings.update(dict.fromkeys(result.warnings))
    ordered = [rows[point.id] for point in chunk.points if point.id in rows]
    table = pa.table(
        {each.name: pa.array([row[each.name] for row in ordered], each.type) for each in SCHEMA}, schema=SCHEMA
    )
    return Played(index=chunk.index, table=table, skipped=skipped, warnings=tuple(warnings))


def _is_levels(point: SweepPoint) -> bool:
    """Whether a point is played level by level."""
    return point.hierarchy is not None or point.write_back


def _groups(points: Sequence[SweepPoint]) -> list[list[SweepPoint]]:
    """Points that one call plays: one engine and cache, the same tiers and modes on each cluster; by cluster."""
    by_cluster: dict[tuple[str, Cache, int], list[SweepPoint]] = {}
    for point in points:
        by_cluster.setdefault((point.engine, point.cache, id(point.cluster)), []).append(point)
    groups: dict[tuple[Any, ...], list[SweepPoint]] = {}
    for (engine, cache, _), mine in by_cluster.items():
        groups.setdefault((engine, cache, *(_place(point) for point in mine)), []).extend(mine)
    return list(groups.values())


def _place(point: SweepPoint) -> tuple[Any, ...]:
    return id(point.tier), point.mode, point.prefetch, point.decode_bytes_per_s


def _again(priced: ClusterProgram, point: SweepPoint) -> list[Made]:
    """A point of a group that failed, alone. SimGrid's worker may have been killed: a new one tries, twice at most.

    Raises: PenstockError: it failed again.
    """
    try:
        return _play(priced, [point])
    except SimGridFailed:
        return _play(priced, [point])


def _play(priced: ClusterProgram, group: Sequence[SweepPoint]) -> list[Made]:
    clusters = list({id(point.cluster): point.cluster for point in group}.values())
    places = [_point(point) for point in group[: len(group) // len(clusters)]]
    cache = group[0].cache
    single = play_clusters(priced, [Cluster(hosts=1)], places, cache=cache)
    own = played = play_clusters(priced, clusters, places, cache=cache)
    if group[0].engine == SIMGRID:
        played = play_clusters(priced, clusters, places, cache=cache, simgrid=_simgrid())
    return [Made(point, played[i], single[i % len(places)], own[i]) for i, point in enumerate(group)]


@lru_cache(maxsize=1)
def _simgrid() -> SimGrid:
    """One for the process: it remembers the exchanges that it has played."""
    return SimGrid()


def _compared(
    point: SweepPoint, result: ClusterResult | None = None, own: ClusterResult | None = None
) -> dict[str, Any]:
    """The columns about the engine."""
    difference = None
    if point.engine == SIMGRID and result is not None and own is not None and own.communication_s:
        difference = (result.communication_s - own.communication_s) / own.communication_s
    return {"engine": point.engine, "simgrid_difference": difference}


def _label(program: Program, point: SweepPoint) -> str:
    by = f", {point.engine}" if point.engine != OWN_ENGINE else ""
    return f"{program.label()}, {point.cluster.described}, {point.mode}{by}"


def _point(point: SweepPoint) -> Point:
    ahead = point.prefetch
    return Point(
        tier=point.tier,
        mode=point.mode,
        decode_bytes_per_s=point.decode_bytes_per_s,
        prefetch_depth=1 if ahead is None else ahead.depth,
        prefetch_buffer_bytes=None if ahead is None else ahead.buffer_bytes,
    )
