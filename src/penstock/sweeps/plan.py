"""From a sweep file to its points: names looked up, impossible combinations put aside, points cut into chunks.

The order of points is that of the file, with the program (workload, parameters, machine, key form) slowest, then the
cache, then the cluster. It depends on nothing but the file and those that it names, so that an interrupted
sweep finds its chunks again.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from penstock.errors import UnknownName, UsageError
from penstock.machines import STUDY_TIERS, Machine, Tier, load_machines, load_tiers
from penstock.machines.networks import Network, load_networks
from penstock.params import catalogue
from penstock.params.ckks import CkksParameters, KeyForm
from penstock.simulation.caches import Cache, ForcedHitRatio, NoCache, SizedCache
from penstock.simulation.cluster.cluster import Cluster
from penstock.simulation.cluster.partitions import ByCiphertext, Together, partition_named
from penstock.simulation.memory.hierarchy import MODES, Mode
from penstock.simulation.memory.prefetch import Prefetch, parse_prefetch
from penstock.simulation.memory.tenants import ORDERS
from penstock.sweeps.points import ENGINES, OWN_ENGINE, Chunk, Plan, Program, SweepPoint, digest, no_point
from penstock.sweeps.spec import SweepSpec, TableSpec
from penstock.traces import is_trace_file
from penstock.traces.schema import Trace
from penstock.units import parse_bytes, parse_rate
from penstock.workloads import own

CLASSES = {"keys": "key", "plaintexts": "plaintext", "ciphertexts": "ciphertext"}
NATIVE = "native"
ON_CHIP = "on-chip"
MAX_POINTS = 2_000_000
MOST_CHUNKS = 250
"""Chunks that a sweep is cut into, unless they would be too small or too large."""
CHUNK_POINTS = 24, 400
SIMGRID_POINTS = 8
"""Most points of a chunk that SimGrid plays: it takes seconds for each."""


def plan(sweep: SweepSpec) -> Plan:
    """The points of a sweep, each once, in chunks.

    Raises: UnknownName: a name that does not exist, with the nearest; UsageError, UnitError: a value that breaks a
            rule, too many points, or no point at all; as the files of machines, tiers and networks.
    """
    skipped: Counter[tuple[str, str]] = Counter()
    programs: dict[str, Program] = {}
    points: dict[str, dict[str, SweepPoint]] = {}
    asked = sum(_most(table) for table in sweep.tables)
    if asked > MAX_POINTS:
        raise UsageError(f"sweep '{sweep.name}' has {asked} points; at most {MAX_POINTS}: cut it into several files")
    clusters: dict[tuple[Any, ...], Cluster | str] = {}
    for table in sweep.tables:
        for program, found in _table_points(table, clusters, skipped):
            programs.setdefault(program.id, program)
            # The same point in two tables is one point.
            points.setdefault(program.id, {}).update({point.id: point for point in found})
    _check_names(programs.values(), [point for found in points.values() for point in found.values()])
    total = sum(map(len, points.values()))
    if not total:
        raise no_point(sweep.name, skipped)
    size = min(max(-(-total // MOST_CHUNKS), CHUNK_POINTS[0]), CHUNK_POINTS[1])
    chunks: list[Chunk] = []
    used = [program for program in programs.values() if points[program.id]]
    for i, program in enumerate(used):
        for engine in ENGINES:
            mine = [point for point in points[program.id].values() if point.engine == engine]
            most = size if engine == OWN_ENGINE else SIMGRID_POINTS
            for start in range(0, len(mine), most):
                chunks.append(Chunk(index=len(chunks), program=i, points=tuple(mine[start : start + most])))
    return Plan(name=sweep.name, programs=used, chunks=chunks, skipped=skipped)


def _check_names(programs: Iterable[Program], points: Iterable[SweepPoint]) -> None:
    """Tables are read one by one: two of them may name different files whose machine, tier or network is named alike.

    Raises: UsageError: no row could tell them apart.
    """
    named: dict[tuple[str, str], Machine | Tier | Network] = {}

    def told_apart(what: str, each: Machine | Tier | Network | None) -> None:
        if each is None:
            return
        known = named.setdefault((what, each.name), each)
        if known is not each and known != each:
            raise UsageError(
                f"two {what}s of the sweep are named '{each.name}': results could not be told apart; change 'name' in "
                "one of the files"
            )

    for program in programs:
        told_apart("machine", program.machine)
    for point in points:
        told_apart("network", point.cluster.network)
        if point.hierarchy is None:
            told_apart("tier", point.tier)


def _most(table: TableSpec) -> int:
    """Points of a table before any is put aside."""
    caches = len(table.cache or ()) * len(table.policy or ("lru",)) + len(table.hit_ratio or ())
    count = max(caches, 1)
    if table.levels is not None:
        count = _level_count(table)
    tiers = ("levels",) if table.levels is not None else table.tier or STUDY_TIERS
    axes = (
        table.workload, table.size, table.params, table.machine, table.key_form, tiers, table.mode,
        table.prefetch, table.hosts, table.network, table.topology, table.partition, table.engine,
    )  # fmt: skip
    for axis in axes:
        count *= len(axis or (None,))
    return count


def _table_points(
    table: TableSpec, clusters: dict[tuple[Any, ...], Cluster | str], skipped: Counter[tuple[str, str]]
) -> Iterator[tuple[Program, list[SweepPoint]]]:
    for mode in table.mode:
        if mode not in MODES:
            raise UnknownName("time mode", mode, MODES)
    if table.interleave not in ORDERS:
        raise UnknownName("order", table.interleave, ORDERS)
    tiers = load_tiers(table.tier or STUDY_TIERS)
    rate = None if table.decode is None else parse_rate(table.decode, "decode")
    buffer = None if table.prefetch_buffer is None else parse_bytes(table.prefetch_buffer, "prefetch_buffer")
    prefetches = [parse_prefetch(text, None if text == "none" else buffer) for text in dict.fromkeys(table.prefetch)]
    places = [
        (tier, mode, ahead)
        for tier in tiers
        for mode in dict.fromkeys(table.mode)
        for ahead in (prefetches if mode == "overlap" else (None,))
    ]
    if table.levels is not None:
        yield from _level_points(table, rate, prefetches, skipped)
        return
    engines = tuple(dict.fromkeys(table.engine or (OWN_ENGINE,)))
    for engine in engines:
        if engine not in ENGINES:
            raise UnknownName("engine", engine, ENGINES)
    found = [
        (what, each, [] if isinstance(each, str) else _cluster_text(each)) for what, each in _clusters(table, clusters)
    ]
    per_cluster = len(places) * len(engines)
    for program, machine in _programs(table, skipped, len(found) * per_cluster * max(1, _cache_count(table))):
        points: list[SweepPoint] = []
        for cache in _caches(table, machine, skipped, len(found) * per_cluster):
            text = _cache_text(cache)
            for what, cluster, cluster_text in found:
                if isinstance(cluster, str):
                    skipped[what, cluster] += per_cluster
                    continue
                described = [program.id, text, cluster_text]
                for engine, (tier, mode, ahead) in itertools.product(engines, places):
                    why = _unsuitable(cluster, cache, mode)
                    if why is not None:
                        skipped[f"partition {cluster.partition}", why] += 1
                        continue
                    if engine != OWN_ENGINE and (why := _without_messages(cluster)) is not None:
                        skipped[f"engine {engine}", why] += 1
                        continue
                    identity = [*described, repr(tier), mode, _prefetch_text(ahead), rate]
                    if engine != OWN_ENGINE:
                        identity.append(engine)
                    if table.write_back:
                        identity.append("write back")
                    points.append(
                        SweepPoint(
                            id=digest(identity), cache=cache, cluster=cluster, tier=tier, mode=cast(Mode, mode),
                            prefetch=ahead, decode_bytes_per_s=rate, engine=engine,
                            write_back=table.write_back,
                        )
                    )  # fmt: skip
        yield program, points


def _level_count(table: TableSpec) -> int:
    return len(table.levels or ()) * len(table.policy or ("lru",)) * len(table.inclusion or (None,))


def _level_points(
    table: TableSpec, rate: float | None, prefetches: Sequence[Prefetch], skipped: Counter[tuple[str, str]]
) -> Iterator[tuple[Program, list[SweepPoint]]]:
    """Points over several memory levels, on one host."""
    from penstock.sweeps.levels import hierarchies

    ways = [
        (mode, ahead) for mode in dict.fromkeys(table.mode) for ahead in (prefetches if mode == "overlap" else (None,))
    ]
    alone = Cluster(hosts=1)
    writing = ["write back"] if table.write_back else []
    for program, machine in _programs(table, skipped, len(ways) * _level_count(table)):
        of_classes: dict[tuple[str, ...], list[SweepPoint]] = {}
        for what, found in hierarchies(
            table.levels or (), table.policy or (), table.inclusion or (), machine, rate, write_back=table.write_back
        ):
            if isinstance(found, str):
                skipped[what, found] += len(ways)
                continue
            classes = tuple(dict.fromkeys((*program.classes, *found.classes)))
            if table.write_back and "ciphertext" not in classes:
                skipped[what, "write_back is of ciphertexts: add them to classes, or pin them in a level"] += len(ways)
                continue
            of = _with_classes(program, classes).id
            for mode, ahead in ways:
                of_classes.setdefault(classes, []).append(
                    SweepPoint(
                        id=digest([of, "levels", repr(found), mode, _prefetch_text(ahead), *writing]),
                        cache=NoCache(), cluster=alone, tier=cast(Tier, found.levels[-1].tier), mode=cast(Mode, mode),
                        prefetch=ahead, decode_bytes_per_s=found.levels[-1].decode_bytes_per_s, hierarchy=found,
                        write_back=table.write_back,
                    )
                )  # fmt: skip
        for classes, points in of_classes.items():
            yield _with_classes(program, classes), points


def _with_classes(program: Program, classes: tuple[str, ...]) -> Program:
    """The program where these are not resident: what levels pin or share is played, whatever else is."""
    if classes == program.classes:
        return program
    beside = tuple(_with_classes(each, classes) for each in program.beside)
    return replace(program, classes=classes, beside=beside, id=digest([program.id, classes]))


# Programs -------------------------------------------------------------------------------------------------------------
def _programs(table: TableSpec, skipped: Counter[tuple[str, str]], points: int) -> Iterator[tuple[Program, Machine]]:
    machines = load_machines(table.machine or ())
    forms: list[KeyForm | None] = [_key_form(text) for text in dict.fromkeys(table.key_form or ())]
    forms = forms or [None]
    for each in table.classes:
        if each not in CLASSES:
            raise UnknownName("class", each, CLASSES)
    classes = tuple(dict.fromkeys(CLASSES[name] for name in table.classes))
    _check_sizes(table)
    given = {name: catalogue.get(name) for name in table.params or () if name != NATIVE}
    sizes: tuple[str | None, ...] = table.size or (None,)
    sets: tuple[str | None, ...] = table.params or (None,)
    for text, machine in itertools.product(dict.fromkeys(table.workload or ()), machines):
        for size, name in itertools.product(dict.fromkeys(sizes), dict.fromkeys(sets)):
            try:
                made = _read(text, size, _params(name, machine, given), table.seed)
            except UsageError as error:
                what = " ".join(part for part in (text, size, name and f"at {name}", f"on {machine.name}") if part)
                skipped[what, str(error)] += points * len(forms)
                continue
            workload, made_size, params, trace, said = made
            try:
                others = [
                    _read(other, *_taken(other, size, _params(name, machine, given)), table.seed)
                    for other in table.beside or ()
                ]
            except UsageError as error:
                skipped[f"{text} with {', '.join(table.beside or ())}", str(error)] += points * len(forms)
                continue
            for form in forms:
                identity = [said, repr(machine), form and form.value, classes, table.seed if trace is None else None]
                first = Program(
                    workload=workload, size=made_size, params=params, seed=table.seed, trace=trace,
                    source=None if trace is None else text, machine=machine, key_form=form, classes=classes,
                    id=digest(identity),
                )  # fmt: skip
                if not others:
                    yield first, machine
                    continue
                beside = tuple(
                    replace(
                        first, workload=each[0], size=each[1], params=each[2], trace=each[3],
                        source=None if each[3] is None else named,
                    )
                    for named, each in zip(table.beside or (), others, strict=True)
                )  # fmt: skip
                together = [*identity, [each[4] for each in others], table.interleave, table.seed]
                yield replace(first, beside=beside, order=table.interleave, id=digest(together)), machine


def _taken(text: str, size: str | None, params: CkksParameters | None) -> tuple[str | None, CkksParameters | None]:
    """What a program beside another takes of it: a trace nothing, a workload its size and parameters."""
    return (None, None) if is_trace_file(text) else (size, params)


def _read(
    text: str, size: str | None, params: CkksParameters | None, seed: int
) -> tuple[str, str | None, CkksParameters | None, Trace | None, Any]:
    """Workload, size, parameters, trace; and what tells it from others."""
    path = Path(text)
    if is_trace_file(text):
        from penstock.traces.io import read_trace

        trace = read_trace(path)
        if params is not None or size is not None:
            raise UsageError("a trace has its parameters and size: list it in a table without params and size")
        return trace.meta.workload, trace.meta.size, None, trace, hashlib.sha256(path.read_bytes()).hexdigest()
    from penstock.running.reading import resolve
    from penstock.running.trace import trace_workload

    workload, size_name, checked = resolve(text, params, size)
    said = [text, size_name, checked.to_dict()]
    if not own.is_own(text):
        return text, size_name, checked, None, said
    # Workers need no file of the user's: its trace goes to them.
    trace = trace_workload(text, checked, size_name, seed)
    return workload.NAME, size_name, checked, trace, [*said, own.identity(text)]


def _params(name: str | None, machine: Machine, given: dict[str, CkksParameters]) -> CkksParameters | None:
    if name != NATIVE:
        return None if name is None else given[name]
    if machine.native_params is None:
        raise UsageError(f"machine '{machine.name}' names no parameter set of its own: set native_params in its file")
    return catalogue.get(machine.native_params)


def _check_sizes(table: TableSpec) -> None:
    """A size that no workload of the table has is a slip; one that some have is an impossible combination."""
    from penstock import workloads

    named = [text for text in table.workload or () if not is_trace_file(text)]
    known = {size for name in named for size in workloads.get(name).SIZES}
    for size in table.size or ():
        if size not in known:
            raise UnknownName("size", size, known)


def _key_form(text: str) -> KeyForm:
    known = [form.value for form in KeyForm]
    if text not in known:
        raise UnknownName("key form", text, known)
    return KeyForm(text)


# Caches and clusters --------------------------------------------------------------------------------------------------
def _cache_count(table: TableSpec) -> int:
    return len(table.cache or ()) * len(table.policy or ("lru",)) + len(table.hit_ratio or ())


def _caches(table: TableSpec, machine: Machine, skipped: Counter[tuple[str, str]], points: int) -> Iterator[Cache]:
    """Stated hit ratios, then caches of each size and policy."""
    ratios: Sequence[float] = table.hit_ratio or (() if table.cache else (0.0,))
    yield from (ForcedHitRatio(float(ratio)) for ratio in dict.fromkeys(ratios))
    policies = tuple(dict.fromkeys(table.policy or ("lru",)))
    for text in dict.fromkeys(table.cache or ()):
        if text == ON_CHIP and not machine.on_chip_bytes:
            skipped[f"cache {ON_CHIP} of {machine.name}", "the machine states no on-chip memory; give a size"] += (
                points * len(policies)
            )
            continue
        capacity = (machine.on_chip_bytes or 0) if text == ON_CHIP else parse_bytes(text, "cache")
        yield from (SizedCache(policy, capacity) for policy in policies)


def _clusters(table: TableSpec, known: dict[tuple[Any, ...], Cluster | str]) -> Iterator[tuple[str, Cluster | str]]:
    """Every cluster of a table with its description; for one that cannot be, the reason in its place."""
    networks = load_networks(table.network) if table.network else [None]
    axes = itertools.product(
        dict.fromkeys(table.partition), dict.fromkeys(table.topology), networks, dict.fromkeys(table.hosts)
    )
    for partition, topology, network, hosts in axes:
        key = (hosts, network, topology, partition, table.all_gather, table.broadcast)
        if key not in known:
            try:
                known[key] = Cluster(
                    hosts=hosts, network=network, topology=topology, partition=partition, algorithm=table.all_gather,
                    broadcast=table.broadcast,
                )  # fmt: skip
            except UnknownName:
                raise
            except UsageError as error:
                known[key] = str(error)
        yield f"{hosts} hosts, {network.name if network else 'no network'}, {topology}, {partition}", known[key]


def _unsuitable(cluster: Cluster, cache: Cache, mode: str) -> str | None:
    """Why a cluster cannot be played so; as `play_clusters` says it, before anything is priced."""
    if cluster.partition != ByCiphertext.name:
        return None
    if mode == "bound":
        return "it has modes serial and overlap, not bound"
    if not isinstance(cache, NoCache | ForcedHitRatio):
        return "which operations a host runs depends on times, and so would a cache of a size: state a hit ratio"
    if cluster.layout.name != "star":
        return "it is modelled on topology star only"
    return None


def _without_messages(cluster: Cluster) -> str | None:
    """Why a cluster has no messages that SimGrid could play."""
    if cluster.hosts == 1:
        return "one host sends no messages"
    if not isinstance(partition_named(cluster.partition), Together):
        return f"it plays exchanges of hosts that work together; with partition {cluster.partition} they do not"
    return None


def _cache_text(cache: Cache) -> str:
    if isinstance(cache, ForcedHitRatio):
        return f"hit ratio {cache.hit_ratio!r}"
    return "none" if isinstance(cache, NoCache) else f"{cache.policy} {cache.capacity_bytes}"


def _prefetch_text(ahead: Prefetch | None) -> str | None:
    """With every byte of the buffer; as people read it, it is rounded."""
    if ahead is None:
        return None
    return str(ahead) if ahead.buffer_bytes is None else f"{replace(ahead, buffer_bytes=None)}, {ahead.buffer_bytes}"


def _cluster_text(cluster: Cluster) -> list[Any]:
    layout = cluster.layout
    described: list[Any] = [
        cluster.hosts, repr(cluster.network), layout.name, cluster.topology, cluster.partition, cluster.algorithm,
        cluster.broadcast,
    ]  # fmt: skip
    if cluster.topology.endswith(".toml"):  # the name of a file says nothing about its links
        links = layout.width, layout.route_start, layout.route_link
        described.append(digest([each.tolist() for each in links]))
    return described
