"""Plays points: the one way from a question to rows, for `penstock simulate`, sweeps, the explorer and notebooks.

On one host a cache in front of a tier is the special case of levels that `levels.cache_over` makes; it has the same
numbers, and is played at all paces at once. The storage-I/O study's law is the closed form of the time mode `serial`
(`memory.serial_law`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from penstock.base.arrays import Floats, Ints
from penstock.base.types import Row
from penstock.errors import UsageError
from penstock.lab.simulation.cluster.cluster import one_host, play_clusters
from penstock.lab.simulation.cluster.program import ClusterProgram, prepare
from penstock.lab.simulation.cluster.simgrid import SimGrid
from penstock.lab.simulation.cluster.spec import Cluster
from penstock.lab.simulation.crowd import Crowd
from penstock.lab.simulation.memory.levels import Hierarchy
from penstock.lab.simulation.memory.levels_replay import LevelsReplay, replay_levels
from penstock.lab.simulation.memory.levels_time import play_levels
from penstock.lab.simulation.memory.tenants import interleave, summary
from penstock.lab.simulation.question import SIMGRID, Point, Question
from penstock.scheme.machines.schema import Machine
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.play.caches import Cache, ForcedHitRatio, NoCache
from penstock.scheme.play.hierarchy import BackingTier, Mode, PlayedPoint, play_many, replay, tier_name
from penstock.scheme.play.price import ACCESS_CLASSES, PricedTrace, price_trace
from penstock.scheme.play.rows import CROWD_COLUMNS, FORCED_POLICY, LEVEL_NAMES, columns
from penstock.scheme.traces.schema import Trace
from penstock.scheme.unpriced import bounded, opaque

Ready: TypeAlias = PricedTrace | ClusterProgram
"""A program, or several that run together, priced on a machine; and ready for clusters. Travels to workers."""
TEMPORARY = ("ciphertext",)
"""Classes whose objects a program makes and is done with; keys and plaintexts are there all the time."""


def ready_for(
    question: Question, trace: Trace, machine: Machine, key_form: KeyForm | None, beside: Sequence[Trace] = ()
) -> Ready:
    """A program that can be played on a machine, for the points of a question.

    Args:   key_form: as in `price_trace`; beside: programs that run on the machine at the same time.
    Raises: as `price_trace`, `interleave` and `prepare`.
    """
    classes = question.classes_on(machine)
    priced, *others = (price_trace(one, machine, key_form=key_form, classes=classes) for one in (trace, *beside))
    if others:
        return interleave([priced, *others], question.order)
    return prepare(trace, machine, priced, key_form) if question.on_clusters else priced


def groups(points: Iterable[Point]) -> list[list[Point]]:
    """Points that one call plays: what holds the data once for all its paces, on hosts of the same engine and paces."""
    by_place: dict[tuple[int, int, str, bool], list[Point]] = {}
    for point in points:
        key = id(point.hold), id(point.cluster), point.engine, point.by_level
        by_place.setdefault(key, []).append(point)
    grouped: dict[tuple[object, ...], list[Point]] = {}
    for (hold, cluster, engine, by_level), mine in by_place.items():
        paces = tuple((id(point.tier), point.mode, point.prefetch, point.decode_bytes_per_s) for point in mine)
        alone = cluster if mine[0].cluster is None or by_level else None
        grouped.setdefault((hold, alone, engine, by_level, mine[0].write_back, paces), []).extend(mine)
    return list(grouped.values())


def play_group(ready: Ready, group: Sequence[Point], simgrid: SimGrid | None = None) -> list[PlayedPoint]:
    """The results of one of `groups`, in its order.

    Args:   simgrid: plays the messages of points of its engine.
    Raises: as `play_clusters`, `replay_levels` and `play_levels`.
    """
    first, priced = group[0], ready.priced
    if first.by_level:
        return _over_levels(priced, group)
    assert not isinstance(first.hold, Hierarchy)
    if first.cluster is None or priced.tenants is not None:
        loaded = replay(priced.accesses, first.hold)
        played = play_many(
            priced.compute_s, loaded, group, compute_j=priced.compute_j, timeline=priced.tenants is not None
        )
        return played if priced.tenants is None else [_shared(priced, one, loaded.operation_bytes) for one in played]
    if not isinstance(ready, ClusterProgram):
        raise UsageError("a program is played on clusters, and was not made ready for them: please report it")
    clusters = list({id(point.cluster): point.cluster for point in group if point.cluster is not None}.values())
    paces = group[: len(group) // len(clusters)]
    # One host of each kind first, which the others are compared with; it sends nothing.
    alone = list(dict.fromkeys(map(one_host, clusters)))
    both = play_clusters(ready, [*alone, *clusters], paces, cache=first.hold)
    own = both[len(alone) * len(paces) :]
    single = [both[alone.index(one_host(cluster)) * len(paces) + i] for cluster in clusters for i in range(len(paces))]
    played = own
    if first.engine == SIMGRID:
        played = play_clusters(ready, clusters, paces, cache=first.hold, simgrid=simgrid)
    return [
        replace(result, single=one, own_communication_s=mine.communication_s)
        for result, one, mine in zip(played, single, own, strict=True)
    ]


def _over_levels(priced: PricedTrace, group: Sequence[Point]) -> list[PlayedPoint]:
    """Points of one store, level by level. A cache over one tier is a case of levels too, with the row of a cache."""
    results, loads = list[PlayedPoint](), dict[object, LevelsReplay]()
    for point in group:
        one_tier = not isinstance(point.hold, Hierarchy)
        key = (id(point.tier), point.decode_bytes_per_s) if one_tier else None
        if key not in loads:
            loads[key] = level_loads(priced, point.levels, write_back=point.write_back)
        result = play_levels(
            priced.compute_s,
            loads[key],
            mode=point.mode,
            prefetch=point.prefetch,
            compute_j=priced.compute_j,
            timeline=priced.tenants is not None and point.mode != "bound",
        )
        result = _shared(priced, result, loads[key].waited_for.operation_bytes)
        results.append(replace(result, levels=None, io_bytes=int(result.io_bytes)) if one_tier else result)
    return results


def level_loads(priced: PricedTrace, hierarchy: Hierarchy, *, write_back: bool = False) -> LevelsReplay:
    """The loads of each level of a program."""
    return replay_levels(
        priced.accesses,
        hierarchy,
        access_class=priced.access_class,
        class_names=ACCESS_CLASSES,
        temporary=TEMPORARY,
        write_back=write_back,
    )


def _shared(priced: PricedTrace, result: PlayedPoint, operation_bytes: Ints | Floats) -> PlayedPoint:
    """With the end of each program, where several run together."""
    if priced.tenants is None:
        return result
    end_s = result.stages[-1].end_s if result.stages else None
    tenants = summary(priced, end_s, operation_bytes)
    return replace(result, programs=len(priced.tenants.names), tenants=tenants, stages=())


def play(ready: Ready, points: Sequence[Point], simgrid: SimGrid | None = None) -> tuple[list[Row], list[str]]:
    """The rows of points, in their order and with every column, and what makes them less than they seem, each once.

    Raises: as `play_group`.
    """
    results: dict[int, PlayedPoint] = {}
    for group in groups(points):
        results.update(zip(map(id, group), play_group(ready, group, simgrid), strict=True))
    warnings = dict.fromkeys(warning for point in points for warning in results[id(point)].warnings)
    return [row_of(ready.priced, point, results[id(point)]) for point in points], list(warnings)


class OnMachine(NamedTuple):
    """The points of a question about a program on one machine."""

    trace: Trace
    beside: Sequence[Trace]
    """Programs that run at the same time."""
    machine: Machine
    ready: Ready
    points: list[Point]
    rows: list[Row]
    """With the columns that say something."""
    warnings: list[str]


def answers(
    question: Question, machine: Machine, trace: Trace, beside: Sequence[Trace] = (), simgrid: SimGrid | None = None
) -> Iterator[OnMachine]:
    """The answers to a question about a program on a machine, one for each form of keys.

    Args:   beside: programs that run on the machine at the same time.
    Raises: UsageError: a point of the question cannot be, with the reason; as `ready_for` and `play_group`.
    """
    points = question.points_on(machine)
    for key_form in question.key_forms:
        ready = ready_for(question, trace, machine, key_form, beside)
        rows, warnings = play(ready, points, simgrid)
        shown = columns(rows, of_clusters=question.on_clusters)
        notes = list(dict.fromkeys((*ready.priced.warnings, *warnings)))
        yield OnMachine(trace, beside, machine, ready, points, shown, notes)


def answers_among(question: Question, machine: Machine, trace: Trace, crowd: Crowd) -> list[tuple[int, OnMachine]]:
    """The answers for growing numbers of users of one program, each number with it; rows have `CROWD_COLUMNS`.

    With a limit they end with the first number at which tenants wait longer than it at every point, which is told too.
    They end before a number for which a level has no room, with a warning.
    Raises: as `answers`; UsageError: the least number has no room.
    """
    crowd_answers = list[tuple[int, OnMachine]]()
    points = question.points_on(machine)
    for key_form in question.key_forms:
        priced = ready_for(question, trace, machine, key_form).priced
        alone: list[float] | None = None
        for count in sorted({1, *crowd.counts}):
            ready = interleave([priced] * count, question.order)
            try:
                rows, warnings = play(ready, points)
            except UsageError as error:
                if count <= crowd.counts[0]:
                    raise
                crowd_answers[-1][1].warnings.append(f"{count} tenants and more are left out: {error}")
                break
            alone = [row["total_s"] for row in rows] if alone is None else alone
            for row, own_s in zip(rows, alone, strict=True):
                row["num_tenants"], row["times_alone"] = count, row["total_s"] / own_s if own_s else None
            if count not in crowd.counts:
                continue  # one alone is the measure of the others
            names = [column.name for column in CROWD_COLUMNS]
            shown = columns(rows, of_clusters=False)
            shown = [{**few, **{name: row[name] for name in names}} for few, row in zip(shown, rows, strict=True)]
            notes = list(dict.fromkeys((*priced.warnings, *warnings)))
            played = priced if count == 1 else ready
            others = [trace] * (count - 1)
            crowd_answers.append((count, OnMachine(trace, others, machine, played, points, shown, notes)))
            if crowd.is_limited and all(crowd.exceeded(row) for row in rows):
                break
    return crowd_answers


def row_of(priced: PricedTrace, point: Point, result: PlayedPoint) -> Row:
    """The row of a point, with every column.

    Returns: `hit_ratio` is stated, or the share of the bytes that the cache served. `slowdown` is `total_s /
            compute_s`; for programs that run together, of both sums: the load of the machine, not the wait of a tenant,
            which is `tenant_slowdown`. `key_bytes` counts every read of an evaluation key; `stored_key_bytes` each key
            once, as its form stores it, whatever is read of it. `compute_s`, `io_s` and
            `io_bytes` belong to the host that ends last; `loaded_bytes`, `sent_bytes` and `energy_j` to all hosts.
    """
    tier, capacity, policy, stated = _held(point)
    cluster = point.cluster or _ONE_HOST
    ahead = point.prefetch
    row: Row = {
        **{name: getattr(priced, name) for name in ("workload", "params", "machine")},
        "tier": tier,
        "mode": point.mode,
        "cache_bytes": capacity,
        "policy": policy,
        "hit_ratio": result.hit_ratio if stated is None else stated,
        "hosts": cluster.hosts,
        "network": cluster.network.name if cluster.network else None,
        **{name: getattr(result, name) for name in _OF_RESULT},
        "key_bytes": priced.bytes_by_class["key"],
        "stored_key_bytes": priced.stored_key_bytes,
        "io_bytes": result.io_bytes,
        "prefetch": None if ahead is None else str(ahead),
        "provenance": "simulated",
        "topology": cluster.layout.name,
        "partition": cluster.partition,
        "all_gather": cluster.algorithm,
        "broadcast": cluster.broadcast,
        "programs": result.programs,
        "speedup": result.speedup(result.single or result),
        **{name: getattr(result, name) for name in ("sent_bytes", "loaded_bytes", "written_bytes")},
        "levels": None if result.levels is None else list(result.levels),
        "tenants": None if result.tenants is None else list(result.tenants),
        "tenant_slowdown": result.tenant_slowdown,
    }
    return _bounded(row, priced, point, result)


def _bounded(row: Row, priced: PricedTrace, point: Point, result: PlayedPoint) -> Row:
    """The row, with bounds in place of what operations without a price make unknown."""
    if not opaque(priced.unpriced):
        return bounded(row, priced.unpriced, _TIMES, _RATIOS)
    loads = list(_LOADS)
    if result.decode_s or result.levels is not None or point.decode_bytes_per_s is not None:
        loads.append("decode_s")
    if row["hosts"] > 1:
        loads += ["communication_s", "sent_bytes"]
    if row["cache_bytes"] is None and row["levels"] is None:
        return bounded(row, priced.unpriced, (*_TIMES, *_KEYS, *loads), _RATIOS)
    # More operations in between make a cache of a size load more, or less: computing alone bounds the rest.
    row |= {"total_s": result.compute_s, "energy_j": priced.compute_j}
    bounded_row = bounded(row, priced.unpriced, (*_TIMES, *_KEYS), (*_RATIOS, *loads, "hit_ratio"))
    if result.levels is not None:
        known = [{name: level[name] for name in LEVEL_NAMES[:_LEVEL_FACTS]} for level in result.levels]
        bounded_row["levels"] = [dict.fromkeys(LEVEL_NAMES) | level for level in known]
    return bounded_row


_OF_RESULT = ("compute_s", "io_s", "decode_s", "communication_s", "total_s", "slowdown", "energy_j")
_TIMES = ("compute_s", "total_s", "energy_j")
_KEYS = ("key_bytes", "stored_key_bytes")
_LOADS = ("io_s", "io_bytes", "loaded_bytes", "written_bytes")
_RATIOS = ("slowdown", "speedup", "tenant_slowdown")
_LEVEL_FACTS = 4
"""Of `LEVEL_NAMES`: the description of a level, whatever passes through it."""
_ONE_HOST = Cluster(hosts=1)


def _held(point: Point) -> tuple[str, int | None, str, float | None]:
    """Tier, capacity, policy, and stated hit ratio of what holds the data of a point."""
    hold = point.hold
    if isinstance(hold, Hierarchy):
        above = hold.levels[: hold.fastest_timed]
        sizes = [level.capacity_bytes for level in above if level.capacity_bytes is not None]
        policies = dict.fromkeys(getattr(level.cache, "policy", FORCED_POLICY) for level in above)
        return hold.name, sum(sizes) if sizes else None, "+".join(policies) or FORCED_POLICY, None
    tier = tier_name(point.tier)
    if isinstance(hold, NoCache | ForcedHitRatio):
        return tier, None, FORCED_POLICY, float(hold.hit_ratio) if isinstance(hold, ForcedHitRatio) else 0.0
    return tier, int(hold.capacity_bytes), hold.policy, None


def simulate(
    priced: PricedTrace,
    tiers: Sequence[BackingTier],
    *,
    caches: Iterable[Cache] = (NoCache(),),
    modes: Sequence[Mode] = ("serial",),
) -> list[Row]:
    """Rows of a priced program from values that are checked already: each cache, tier and time mode.

    Args:   caches: for the classes that are not resident (default: every access comes from the tier).
    Returns: rows as `row_of` makes them, with the columns that say something.
    Raises: as `play_group`.
    """
    points = [Point(hold=cache, tier=tier, mode=mode) for cache in caches for tier in tiers for mode in modes]
    return columns(play(priced, points)[0], of_clusters=False)
