"""From a sweep file to its points: names looked up, impossible combinations put aside, points cut into chunks.

Points follow the order of the file, with the program (workload, parameters, machine, key form) slowest, then the cache,
then the cluster. It depends only on the file and the files that it names, so an interrupted sweep finds its chunks
again.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, cast

from penstock.base.system.files import file_sha256
from penstock.base.types import Row
from penstock.errors import UnknownName, UsageError
from penstock.lab.simulation.cluster.cluster import without_messages
from penstock.lab.simulation.cluster.spec import Cluster
from penstock.lab.simulation.memory.levels import Hierarchy
from penstock.lab.simulation.question import ENGINES, OWN_ENGINE, Point, Question, RefusedPoints
from penstock.lab.simulation.worded import clusters_of, question_in
from penstock.lab.simulation.words import KEYS
from penstock.lab.sweeps.points import Chunk, Plan, SweptProgram, digest, no_point
from penstock.lab.sweeps.spec import SweepSpec, SweepTable
from penstock.program.workloads import identity, is_file
from penstock.scheme.machines import Machine, Tier
from penstock.scheme.machines.networks import Network, load_networks
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.play.caches import Cache, ForcedHitRatio, NoCache, SizedCache
from penstock.scheme.play.hierarchy import Prefetch
from penstock.scheme.traces import is_trace_file
from penstock.scheme.traces.schema import Trace

T = TypeVar("T")
NATIVE = "native"
MAX_POINTS = 2_000_000
MOST_CHUNKS = 250
"""Chunks that a sweep is cut into, unless they would be too small or too large."""
CHUNK_POINTS = 24, 400
_AXES = ("machine", "key_form", "mode", "prefetch", "network", "topology", "partition", "engine")
"""Words besides hosts, tiers, and what holds data on chip."""
SIMGRID_POINTS = 8
"""Most points of a chunk that SimGrid plays: it takes seconds for each."""


def plan(sweep: SweepSpec) -> Plan:
    """The points of a sweep, each once, in chunks.

    Raises: UnknownName: a name that does not exist, with the nearest; UsageError, UnitError: a value that breaks a
            rule, too many points, or no point at all; as the files of machines, tiers and networks.
    """
    skipped: Counter[tuple[str, str]] = Counter()
    programs: dict[str, SweptProgram] = {}
    points: dict[str, dict[str, Point]] = {}
    notes: dict[str, None] = {}
    most = sum(_most(table) for table in sweep.tables)
    if most > MAX_POINTS:
        raise UsageError(f"sweep '{sweep.name}' has {most} points; at most {MAX_POINTS}: cut it into several files")
    for table in sweep.tables:
        for program, placed in _table_points(table, skipped, notes):
            programs.setdefault(program.id, program)
            # The same point in two tables is one point.
            points.setdefault(program.id, {}).update({point.id: point for point in placed})
    _check_names(programs.values(), [point for placed in points.values() for point in placed.values()])
    total = sum(map(len, points.values()))
    if not total:
        raise no_point(sweep.name, skipped)
    size = min(max(-(-total // MOST_CHUNKS), CHUNK_POINTS[0]), CHUNK_POINTS[1])
    chunks: list[Chunk] = []
    used = [program for program in programs.values() if points[program.id]]
    for i, program in enumerate(used):
        for engine in ENGINES:
            mine = [point for point in points[program.id].values() if point.engine == engine]
            long = size if engine == OWN_ENGINE else SIMGRID_POINTS
            for start in range(0, len(mine), long):
                chunks.append(Chunk(index=len(chunks), program=i, points=tuple(mine[start : start + long])))
    return Plan(name=sweep.name, programs=used, chunks=chunks, skipped=skipped, notes=tuple(notes))


def _check_names(programs: Iterable[SweptProgram], points: Iterable[Point]) -> None:
    """Tables are read one by one: two of them may name different files whose machine, tier or network is named alike.

    Raises: UsageError: no row could tell them apart.
    """
    named: dict[tuple[str, str], Machine | Tier | Network] = {}

    def told_apart(what: str, part: Machine | Tier | Network | None) -> None:
        if part is None:
            return
        known = named.setdefault((what, part.name), part)
        if known is not part and known != part:
            raise UsageError(
                f"two {what}s of the sweep are named '{part.name}': results could not be told apart; change 'name' in "
                "one of the files"
            )

    for program in programs:
        told_apart("machine", program.machine)
    for point in points:
        told_apart("network", point.cluster.network if point.cluster else None)
        if not isinstance(point.hold, Hierarchy):
            told_apart("tier", cast(Tier, point.tier))


def _most(table: SweepTable) -> int:
    """Points of a table before any is put aside."""
    words = table.words
    policies = max(1, len(words.policy))
    holds = len(words.cache) * policies + len(words.hit_ratio)
    if words.levels:
        holds = len(words.levels) * policies * max(1, len(words.inclusion or ()))
    axes: list[Sequence[object]] = [
        table.workload,
        table.size,
        table.params,
        table.hosts,
        () if words.levels else words.tier,
    ]
    axes += [getattr(words, name) or () for name in _AXES]
    return max(holds, 1) * math.prod(max(1, len(values)) for values in axes)


def question_of(table: SweepTable) -> Question:
    """The question of a table, about each of its programs."""
    words = table.words
    clusters = [] if words.levels else clusters_of(words, table.hosts, load_networks(words.network))
    return question_in(words, clusters, KEYS)


def _table_points(
    table: SweepTable, skipped: Counter[tuple[str, str]], notes: dict[str, None]
) -> Iterator[tuple[SweptProgram, list[Point]]]:
    question = question_of(table)
    texts: dict[int, tuple[object, object]] = {}
    for program, machine in _programs(table, question, skipped, notes):
        # Classes that levels pin or share out are played, whatever else is resident: they make another program.
        of_classes: dict[tuple[str, ...], list[Point]] = {}
        refused = list[RefusedPoints]()
        for point in question.points_on(machine, refused):
            if point.engine != OWN_ENGINE and point.cluster and (why := without_messages(point.cluster)) is not None:
                skipped[f"engine {point.engine}", why] += 1
                continue
            named = point.hold.classes if isinstance(point.hold, Hierarchy) else ()
            classes = tuple(dict.fromkeys((*program.classes, *named)))
            placed = replace(point, id=digest(_identity(_with_classes(program, classes), point, texts)))
            of_classes.setdefault(classes, []).append(placed)
        for out in refused:
            skipped[out.what, out.why] += out.points
        for classes, points in of_classes.items() or [(program.classes, [])]:
            yield _with_classes(program, classes), points


def _identity(program: SweptProgram, point: Point, texts: dict[int, tuple[object, object]]) -> list[object]:
    """The identity of a point; `texts` caches the texts of clusters, levels and tiers, which are slow to make."""

    def text(part: T, say: Callable[[T], object]) -> object:
        if id(part) not in texts:
            texts[id(part)] = part, say(part)
        return texts[id(part)][1]

    ahead = _prefetch_text(point.prefetch)
    if isinstance(point.hold, Hierarchy):
        identity = [program.id, "levels", text(point.hold, _levels_text), point.mode, ahead]
    else:
        identity = [
            program.id,
            _cache_text(point.hold),
            None if point.cluster is None else text(point.cluster, _cluster_text),
            text(point.tier, repr),
            point.mode,
            ahead,
            point.decode_bytes_per_s,
        ]
    if point.engine != OWN_ENGINE:
        identity.append(point.engine)
    return [*identity, "write back"] if point.write_back else identity


def _with_classes(program: SweptProgram, classes: tuple[str, ...]) -> SweptProgram:
    """The program where these are not resident: what levels pin or share is played, whatever else is."""
    if classes == program.classes:
        return program
    beside = tuple(_with_classes(other, classes) for other in program.beside)
    return replace(program, classes=classes, beside=beside, id=digest([program.id, classes]))


# Programs -------------------------------------------------------------------------------------------------------------
def _programs(
    table: SweepTable, question: Question, skipped: Counter[tuple[str, str]], notes: dict[str, None]
) -> Iterator[tuple[SweptProgram, Machine]]:
    machines, forms, classes, points = question.machines, question.key_forms, question.classes, len(question)
    _check_sizes(table)
    given = {name: catalogue.get(name) for name in table.params if name != NATIVE}
    sizes: tuple[str | None, ...] = table.size or (None,)
    sets: tuple[str | None, ...] = table.params or (None,)
    for text, machine in itertools.product(dict.fromkeys(table.workload), machines):
        for size, name in itertools.product(dict.fromkeys(sizes), dict.fromkeys(sets)):
            try:
                params_taken, note = _params(name, machine, given, text, size, table.words.beside)
                if note is not None:
                    notes.setdefault(f"{text}: {note}")
                made = _read(text, size, params_taken, table.seed)
            except UsageError as error:
                what = " ".join(part for part in (text, size, name and f"at {name}", f"on {machine.name}") if part)
                skipped[what, str(error)] += points * len(forms)
                continue
            facts, about = made
            try:
                others = [_read(other, *_taken(other, size, params_taken), table.seed) for other in table.words.beside]
            except UsageError as error:
                skipped[f"{text} with {', '.join(table.words.beside)}", str(error)] += points * len(forms)
                continue
            for form in forms:
                seed = table.seed if facts["trace"] is None else None
                identity = [about, _machine_text(machine), form and form.value, classes, seed]
                first = SweptProgram(
                    **facts, seed=table.seed, machine=machine, key_form=form, classes=classes, id=digest(identity)
                )
                if not others:
                    yield first, machine
                    continue
                beside = tuple(replace(first, **other) for other, _ in others)
                turns = getattr(question.order, "sha256", table.words.interleave)
                together = [*identity, [about for _, about in others], turns, table.seed]
                yield replace(first, beside=beside, order=question.order, id=digest(together)), machine


def _taken(text: str, size: str | None, params: CkksParameters | None) -> tuple[str | None, CkksParameters | None]:
    """The inheritance of a second program: a trace takes nothing, a workload size and parameters."""
    return (None, None) if is_trace_file(text) else (size, params)


def _read(text: str, size: str | None, params: CkksParameters | None, seed: int) -> tuple[Row, object]:
    """The fields of a `SweptProgram` that say what runs; and what tells it from others."""

    def facts(workload: str, size: str | None, params: CkksParameters | None, trace: Trace | None) -> Row:
        source = None if trace is None else text
        return {"workload": workload, "size": size, "params": params, "trace": trace, "source": source}

    path = Path(text)
    if is_trace_file(text):
        from penstock.scheme.traces.inspect import read_program

        trace = read_program(path)
        if params is not None or size is not None:
            raise UsageError("a trace has its parameters and size: list it in a table without params and size")
        checksum = file_sha256(path)
        return facts(trace.meta.workload, trace.meta.size, None, trace), checksum
    from penstock.program.running.reading import resolve
    from penstock.program.running.trace import trace_workload

    workload, size_name, checked = resolve(text, params, size)
    about = [text, size_name, checked.to_dict()]
    if not is_file(text):
        return facts(text, size_name, checked, None), about
    # Workers need no file of the user's: its trace goes to them.
    trace = trace_workload(text, checked, size_name, seed)
    return facts(workload.NAME, size_name, checked, trace), [*about, identity(text)]


def _params(
    name: str | None,
    machine: Machine,
    given: dict[str, CkksParameters],
    text: str,
    size: str | None,
    beside: Sequence[str],
) -> tuple[CkksParameters | None, str | None]:
    """The set of a program on a machine, and a line about it where the table names none."""
    if name is None:
        from penstock.program.running.native_set import set_for

        taken = set_for(text, None, size, [machine], beside=beside)
        return None if taken.params is None else catalogue.get(taken.params), taken.note
    if name != NATIVE:
        return given[name], None
    if machine.native_params is None:
        raise UsageError(f"machine '{machine.name}' names no parameter set: set native_params in its file")
    return catalogue.get(machine.native_params), None


def _check_sizes(table: SweepTable) -> None:
    """A size that no workload of the table has is a slip; one that some have is an impossible combination."""
    from penstock.program import workloads

    named = [text for text in table.workload if not is_trace_file(text)]
    known = {size for name in named for size in workloads.get(name).SIZES}
    for size in table.size:
        if size not in known:
            raise UnknownName("size", size, known)


# What tells points apart ----------------------------------------------------------------------------------------------
def _machine_text(machine: Machine) -> str:
    """Every value of it, with the name of its enumeration that the ids of sweeps that are stored have."""
    return repr(machine).replace(f"<{type(machine.inside).__name__}.", "<Inside.")


def _cache_text(cache: Cache) -> str:
    if isinstance(cache, ForcedHitRatio):
        return f"hit ratio {cache.hit_ratio!r}"
    if isinstance(cache, NoCache):
        return "none"
    own = "" if cache.own is None else f" {cache.own.sha256}"
    return f"{cache.policy}{own} {cache.capacity_bytes}"


def _levels_text(hierarchy: Hierarchy) -> str:
    """Each cache as `S3Fifo(capacity_bytes=…)`, as the ids of sweeps that are stored have it."""
    text = re.sub(
        r"SizedCache\(policy='([^']+)', ",
        lambda match: "".join(word.capitalize() for word in match[1].split("-")) + "(",
        repr(hierarchy),
    )
    own = [level.cache.own for level in hierarchy.levels if isinstance(level.cache, SizedCache)]
    return text + "".join(f" {policy.sha256}" for policy in own if policy is not None)


def _prefetch_text(ahead: Prefetch | None) -> str | None:
    """With every byte of the buffer; as people read it, it is rounded."""
    if ahead is None:
        return None
    if ahead.own is not None:
        return f"{ahead.own.sha256} {ahead.buffer_bytes}"
    return str(ahead) if ahead.buffer_bytes is None else f"{replace(ahead, buffer_bytes=None)}, {ahead.buffer_bytes}"


def _cluster_text(cluster: Cluster) -> list[object]:
    layout = cluster.layout
    described: list[object] = [
        cluster.hosts,
        repr(cluster.network),
        layout.name,
        cluster.topology,
        cluster.partition,
        cluster.algorithm,
        cluster.broadcast,
    ]
    if cluster.topology.endswith(".toml"):  # the name of a file says nothing about its links
        links = layout.width, layout.route_start, layout.route_link
        described.append(digest([array.tolist() for array in links]))
    return described
