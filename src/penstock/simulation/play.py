"""Plays points: the one way from a question to rows, for `penstock simulate`, sweeps, the explorer and notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from typing import NamedTuple

from penstock.errors import UsageError
from penstock.machines.schema import Machine, Tier
from penstock.params.rlwe import KeyForm
from penstock.simulation.caches import NoCache
from penstock.simulation.cluster.cluster import one_host, play_clusters
from penstock.simulation.cluster.program import ClusterProgram, prepare
from penstock.simulation.cluster.simgrid import SimGrid
from penstock.simulation.crowd import Crowd
from penstock.simulation.host import over_levels, over_tier
from penstock.simulation.memory.levels import Hierarchy
from penstock.simulation.memory.prefetch import Prefetch
from penstock.simulation.memory.tenants import Tenants, Turns, interleave
from penstock.simulation.points import SIMGRID, Hold, Point, paces_over
from penstock.simulation.price import PricedTrace, price_trace
from penstock.simulation.question import Question
from penstock.simulation.rows import CROWD_COLUMNS, Result, Row, columns, row_of
from penstock.simulation.timing import Mode, paces_of
from penstock.traces.schema import Trace


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ready:
    """A program, or several that run together, priced on a machine. Built by `make_ready`; travels to workers."""

    priced: PricedTrace
    tenants: Tenants | None = None
    """The programs that `priced` is made of, where it is several."""
    on_hosts: ClusterProgram | None = None
    """What points on clusters need."""


def make_ready(
    trace: Trace,
    machine: Machine,
    *,
    key_form: KeyForm | None = None,
    classes: Sequence[str] = ("key",),
    beside: Sequence[Trace] = (),
    order: Turns = "round-robin",
    clusters: bool = False,
) -> Ready:
    """A program that can be played.

    Args:   key_form, classes: as in `price_trace`; beside: programs that run on the machine at the same time; clusters:
            whether it is played on clusters.
    Raises: as `price_trace`, `interleave` and `prepare`.
    """
    priced = price_trace(trace, machine, key_form=key_form, classes=classes)
    if beside:
        others = [price_trace(other, machine, key_form=key_form, classes=classes) for other in beside]
        tenants = interleave([priced, *others], order)
        return Ready(priced=tenants.together, tenants=tenants)
    return ready_for_hosts(trace, machine, priced, key_form) if clusters else Ready(priced=priced)


def ready_for_hosts(trace: Trace, machine: Machine, priced: PricedTrace, key_form: KeyForm | None = None) -> Ready:
    """A priced program that can be played on clusters too."""
    found = prepare(trace, machine, key_form=key_form, classes=priced.classes, priced=priced)
    return Ready(priced=priced, on_hosts=found)


class Answer(NamedTuple):
    """What a point came to."""

    point: Point
    result: Result
    single: Result
    """On one host."""
    own: Result
    """With messages by penstock's own engine."""

    def row(self, ready: Ready) -> Row:
        """The row, with every column of `penstock.simulation.rows`."""
        return row_of(ready.priced, self.point, self.result, self.single)


def groups(points: Iterable[Point]) -> list[list[Point]]:
    """Points that one call plays: what holds the data once for all its paces, on hosts of the same engine and paces."""
    by_place: dict[tuple[int, int, str, bool], list[Point]] = {}
    for point in points:
        key = id(point.hold), id(point.cluster), point.engine, point.by_level
        by_place.setdefault(key, []).append(point)
    found: dict[tuple[object, ...], list[Point]] = {}
    for (hold, cluster, engine, by_level), mine in by_place.items():
        paces = tuple(id(point.pace) for point in mine)
        alone = cluster if mine[0].cluster is None or by_level else None
        found.setdefault((hold, alone, engine, by_level, mine[0].write_back, paces), []).extend(mine)
    return list(found.values())


def play_group(ready: Ready, group: Sequence[Point], simgrid: SimGrid | None = None) -> list[Answer]:
    """The answers to one of `groups`, in its order.

    Args:   simgrid: plays the messages of points of its engine.
    Raises: as `play_clusters`, `replay_levels` and `play_levels`.
    """
    first = group[0]
    if first.by_level or first.cluster is None or ready.tenants is not None:
        return [Answer(point, each, each, each) for point, each in zip(group, _on_one_host(ready, group), strict=True)]
    if ready.on_hosts is None or isinstance(first.hold, Hierarchy):
        raise UsageError("a program is played on clusters, and was not made ready for them: please report it")
    clusters = list({id(point.cluster): point.cluster for point in group if point.cluster is not None}.values())
    paces = [point.pace for point in group[: len(group) // len(clusters)]]
    # One host of each kind first, which the others are compared with; it sends nothing.
    alone = list(dict.fromkeys(map(one_host, clusters)))
    both = play_clusters(ready.on_hosts, [*alone, *clusters], paces, cache=first.hold)
    own = both[len(alone) * len(paces) :]
    single = [both[alone.index(one_host(each)) * len(paces) + i] for each in clusters for i in range(len(paces))]
    played = own
    if first.engine == SIMGRID:
        played = play_clusters(ready.on_hosts, clusters, paces, cache=first.hold, simgrid=simgrid)
    return [Answer(point, played[i], single[i], own[i]) for i, point in enumerate(group)]


def _on_one_host(ready: Ready, group: Sequence[Point]) -> list[Result]:
    first, paces = group[0], [point.pace for point in group]
    if not first.by_level:
        assert not isinstance(first.hold, Hierarchy)
        return over_tier(ready.priced, first.hold, paces, tenants=ready.tenants)
    if isinstance(first.hold, Hierarchy):
        return over_levels(ready.priced, first.hold, paces, write_back=first.write_back, tenants=ready.tenants)
    # A cache over one tier is a case of levels too, tier by tier; its row is that of the cache.
    results = []
    for _, mine in groupby(group, key=lambda point: id(point.tier)):
        points = list(mine)
        results += over_levels(
            ready.priced, points[0].levels, [point.pace for point in points], write_back=True, tenants=ready.tenants
        )
    return [replace(each, levels=None, io_bytes=int(each.io_bytes)) for each in results]


def play(ready: Ready, points: Sequence[Point], simgrid: SimGrid | None = None) -> tuple[list[Row], list[str]]:
    """The rows of points, in their order and with every column, and what makes them less than they seem, each once.

    Raises: as `play_group`.
    """
    found = {id(a.point): a for group in groups(points) for a in play_group(ready, group, simgrid)}
    answers = [found[id(point)] for point in points]
    warnings = dict.fromkeys(warning for answer in answers for warning in answer.result.warnings)
    return [answer.row(ready) for answer in answers], list(warnings)


class OnMachine(NamedTuple):
    """The points of a question on one machine."""

    machine: Machine
    ready: Ready
    points: list[Point]
    rows: list[Row]
    """With the columns that say something."""
    warnings: list[str]


def answers(
    question: Question, trace: Trace, beside: Sequence[Trace] = (), simgrid: SimGrid | None = None
) -> Iterator[OnMachine]:
    """The answers to a question about a program, machine by machine.

    Args:   beside: programs that run on the machine at the same time.
    Raises: UsageError: a point of the question cannot be, with the reason; as `make_ready` and `play_group`.
    """
    for machine, key_form in product(question.machines, question.key_forms):
        points = question.points_on(machine)
        ready = ready_for(question, trace, machine, key_form, beside)
        rows, warnings = play(ready, points, simgrid)
        shown = columns(rows, of_clusters=question.on_clusters)
        yield OnMachine(machine, ready, points, shown, list(dict.fromkeys((*ready.priced.warnings, *warnings))))


def answers_among(question: Question, trace: Trace, crowd: Crowd) -> list[tuple[int, OnMachine]]:
    """The answers for growing numbers of users of one program, each number with it; rows have `CROWD_COLUMNS`.

    With a limit they end with the first number at which tenants wait longer than it at every point, which is told too.
    They end before a number for which a level has no room, with a warning.
    Raises: as `answers`; UsageError: the least number has no room.
    """
    found = list[tuple[int, OnMachine]]()
    for machine, key_form in product(question.machines, question.key_forms):
        points = question.points_on(machine)
        priced = ready_for(question, trace, machine, key_form).priced
        alone: list[float] | None = None
        for count in sorted({1, *crowd.counts}):
            together = interleave([priced] * count, question.order)
            ready = Ready(priced=together.together, tenants=together)
            try:
                rows, warnings = play(ready, points)
            except UsageError as error:
                if count <= crowd.counts[0]:
                    raise
                found[-1][1].warnings.append(f"{count} tenants and more are left out: {error}")
                break
            alone = [row["total_s"] for row in rows] if alone is None else alone
            for row, own_s in zip(rows, alone, strict=True):
                row["num_tenants"], row["times_alone"] = count, row["total_s"] / own_s if own_s else None
            if count not in crowd.counts:
                continue  # one alone is the measure of the others
            names = [column.name for column in CROWD_COLUMNS]
            shown = columns(rows, of_clusters=False)
            shown = [{**few, **{name: row[name] for name in names}} for few, row in zip(shown, rows, strict=True)]
            said = list(dict.fromkeys((*priced.warnings, *warnings)))
            by_itself = Ready(priced=priced) if count == 1 else ready
            found.append((count, OnMachine(machine, by_itself, points, shown, said)))
            if crowd.is_limited and all(crowd.exceeded(row) for row in rows):
                break
    return found


def ready_for(
    question: Question, trace: Trace, machine: Machine, key_form: KeyForm | None, beside: Sequence[Trace] = ()
) -> Ready:
    """As `make_ready`, for the parts of a question on a machine."""
    return make_ready(
        trace,
        machine,
        key_form=key_form,
        classes=question.classes_on(machine),
        beside=beside,
        order=question.order,
        clusters=question.on_clusters,
    )


def simulate(
    trace: Trace | None,
    machine: Machine,
    tiers: Sequence[Tier] = (),
    *,
    caches: Iterable[Hold] | None = None,
    modes: Sequence[Mode] = ("serial",),
    classes: Sequence[str] = ("key",),
    key_form: KeyForm | None = None,
    decode_bytes_per_s: float | None = None,
    prefetches: Sequence[Prefetch] = (Prefetch(),),
    priced: PricedTrace | None = None,
    tenants: Tenants | None = None,
    write_back: bool = False,
    warnings: list[str] | None = None,
) -> list[Row]:
    """Rows of one machine from values that are checked already: each cache or hierarchy, tier and time mode.

    Args:   caches: what holds the classes that are not resident (default: every access comes from the tier); levels
            have tiers of their own; classes, key_form: as in `price_trace`; decode_bytes_per_s: rate of a decode stage
            behind the tier; priced: the trace priced on this machine already (then `trace` may be `None`); tenants: the
            programs that `priced` is made of; warnings: gets what makes a result less than it seems, once each.
    Returns: rows as `row_of` makes them, with the columns that say something.
    Raises: as `price_trace` and `play_group`.
    """
    if priced is None:
        if trace is None:
            raise UsageError("a simulation is of a program: give a trace, or one that is priced")
        priced = price_trace(trace, machine, key_form=key_form, classes=classes)
    over_tiers = paces_of(tiers, modes, prefetches, decode_bytes_per_s)
    points = [
        Point(hold=hold, pace=pace, write_back=write_back)
        for hold in ([NoCache()] if caches is None else caches)
        for pace in (paces_over(hold, modes, prefetches) if isinstance(hold, Hierarchy) else over_tiers)
    ]
    rows, said = play(Ready(priced=priced, tenants=tenants), points)
    if warnings is not None:
        warnings += [warning for warning in said if warning not in warnings]
    return columns(rows, of_clusters=False)
