"""Random drives, caches, levels, clusters, servers and schedules: what they say of themselves is possible.

A case draws one simulated run and checks `tests/support/invariants.py` of its result. Nothing is written.

    python tests/faults physics --count 1000        # some hundredths of a second a run
    python tests/faults physics --count 1 --seed 137        # one run again, by its seed
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from faults.frame import Result, over, reported
from penstock.errors import PenstockError
from penstock.lab.instorage.drive import drive_rates
from penstock.lab.instorage.engine import played_in_storage, played_on_host
from penstock.lab.instorage.flash import spec as ssd
from penstock.lab.instorage.flash.input import engine_input
from penstock.lab.instorage.flash.scan import scan_drive
from penstock.lab.instorage.flash.timeline import scan_timeline
from penstock.lab.instorage.machine import UnitAccelerator
from penstock.lab.instorage.machine_spec import load_instorage
from penstock.lab.instorage.ordinary import Modes, Ordinary, in_storage_under, most_reads, on_host_under
from penstock.lab.instorage.policies import BASE, HOST_POLICIES, Contention, Switches
from penstock.lab.instorage.queries import Inside
from penstock.lab.instorage.query import Query, filter_query, match_query, pir_query, ssc_query
from penstock.lab.simulation.cluster.cluster import one_host, play_clusters
from penstock.lab.simulation.cluster.collectives import (
    ALL_GATHERS,
    BROADCASTS,
    AllGather,
    Broadcast,
    Collective,
    ReduceScatter,
    pattern_of,
)
from penstock.lab.simulation.cluster.flows import flow_seconds, pattern_seconds
from penstock.lab.simulation.cluster.partitions import PARTITIONS
from penstock.lab.simulation.cluster.program import ClusterProgram, prepare
from penstock.lab.simulation.cluster.spec import Cluster
from penstock.lab.simulation.cluster.topology import build
from penstock.lab.simulation.inside.timeline import HELD, INSIDE, kernel_timeline
from penstock.lab.simulation.memory.levels import INCLUSIONS, INDEPENDENT, Hierarchy, Level
from penstock.lab.simulation.memory.levels_replay import replay_levels
from penstock.lab.simulation.memory.levels_time import play_levels
from penstock.lab.simulation.memory.residents import Reservation
from penstock.lab.simulation.memory.tenants import ORDERS, interleave
from penstock.lab.simulation.play import play_group
from penstock.lab.simulation.question import Point
from penstock.lab.simulation.servers.fleet import Arrangement, Fleet, Loading
from penstock.lab.simulation.servers.play import play as play_servers
from penstock.lab.simulation.servers.rows import row_of as servers_row
from penstock.lab.simulation.servers.stream import Application, poisson
from penstock.lab.simulation.timelines import AHEAD, BANDWIDTH, RESIDENT, simulated_timeline
from penstock.program.running import trace_workload
from penstock.scheme.machines import load_machine, load_tier
from penstock.scheme.machines.drives import Drive, load_drive
from penstock.scheme.machines.networks import load_network
from penstock.scheme.machines.prices import load_prices
from penstock.scheme.operations import OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import POLICIES, Cache, ForcedHitRatio, NoCache, SizedCache
from penstock.scheme.play.hierarchy import Pace, Prefetch, Rates, play_many, replay
from penstock.scheme.play.kernels import resources_of
from penstock.scheme.play.price import ACCESS_CLASSES, PricedTrace, price_trace, program_of
from penstock.scheme.play.schedule import WINDOW, held_bytes, schedule_listed, schedule_operation
from penstock.scheme.traces.schema import Trace
from penstock.scheme.work.shapes import Objects, server_rows, shapes_of
from support import invariants
from support.timeline_format import check_format

MODES = ("serial", "overlap", "bound")
TIERS = ("hbm", "ddr5", "nvme-gen4", "pcie5", "rdma")
ONLINE = ("lru", "fifo")


class Draw:
    """Random choices of one case."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 41])

    def whole(self, low: int, high: int) -> int:
        """From `low` to `high`, both among them."""
        return int(self.rng.integers(low, high + 1))

    def size(self, low: float, high: float) -> float:
        """By its logarithm."""
        return float(np.exp(self.rng.uniform(np.log(low), np.log(high))))

    def of(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)


# Drives.
def a_drive(draw: Draw, *, most: int = 4) -> Drive:
    """A small drive, so that its garbage is collected soon."""
    spare = draw.whole(6, 9)
    return load_drive(
        draw.of(["ssd-s", "ssd-l", "samsung-990-pro"]),
        {
            "channels": f"{draw.whole(1, most)} channels",
            "chips_per_channel": f"{draw.whole(1, 3)} chips/channel",
            "dies_per_chip": f"{draw.whole(1, 2)} dies/chip",
            "planes_per_die": f"{draw.whole(1, 3)} planes/die",
            "blocks": f"{spare + draw.whole(10, 40)} blocks/plane",
            "spare_blocks": f"{spare} blocks/plane",
            "pages_per_block": f"{draw.whole(4, 32)} pages/block",
            "stripe": draw.of(["pcwd", "cwdp", "wdpc", "dpcw"]),
            "sense": f"{draw.of([0, 3, 30, 60])} us",
            "program": f"{draw.of([20, 390, 800])} us",
            "erase": f"{draw.of([100, 1000, 3800])} us",
            "multi_plane": draw.of(["yes", "no"]),
            "cache_read": draw.of(["yes", "no"]),
            "correction": f"{draw.of([0, 0, 10])} us",
            "retry": f"{draw.of([0, 0, 5, 40])} %",
            "dram": f"{draw.of([2, 51.2])} GB/s",
            "host_buffer": f"{draw.of([1, 256])} MiB",
            "wear_gap": f"{draw.of([0, 2, 8])} erases",
        },
    )


def _traffic(draw: Draw, drive: Drive, *, alone: bool) -> ssd.HostTraffic | None:
    if not alone and draw.chance(0.4):
        return None
    return ssd.HostTraffic(
        bytes_per_s=draw.size(1e3 if not alone else 1e7, 2e9),
        span_bytes=max(drive.page_bytes, int(drive.capacity_bytes * draw.of([1.0, 0.1]))),
        requests=draw.whole(1, 400) if alone or draw.chance(0.2) else None,
        seed=draw.whole(0, 9),
    )


def _consumer(draw: Draw, drive: Drive, channels: tuple[int, ...]) -> ssd.Consumer:
    chunk = draw.whole(1, 6)
    return ssd.Consumer(
        channels=channels,
        service_ps_per_chunk=draw.whole(0, 10**8),
        chunk_pages=chunk,
        buffer_bytes=(chunk + draw.whole(0, 12)) * drive.page_bytes,
        output_bytes_per_chunk=draw.of([0, 100, 10**5]),
        final_output_bytes=draw.of([0, 10**5]),
        dram_bytes_per_chunk=draw.of([0, 10**5]),
        edram_bytes_per_chunk=draw.of([0, 10**5]),
    )


def drive_run(draw: Draw) -> Iterator[str]:
    """A scan, with a host or accelerators, next to other traffic."""
    drive = a_drive(draw)
    pages = drive.capacity_bytes // drive.page_bytes
    random, nothing = draw.chance(), draw.chance(0.1)
    size = 0 if nothing else draw.whole(1, min(pages, 2000)) * drive.page_bytes
    where = draw.of(["none", "pcie", "pcie", "host consumer", "consumers"])
    groups = draw.whole(1, drive.channels)
    asked: dict[str, Any] = {
        "host": ssd.ScanTarget.PCIE if where in ("pcie", "host consumer") else ssd.ScanTarget.NONE,
        "arbitration": draw.of(list(ssd.Arbitration)),
        "engine": draw.of(list(ssd.ScanEngine)),
        "consumers": [_consumer(draw, drive, tuple(range(at, drive.channels, groups))) for at in range(groups)]
        if where == "consumers"
        else [],
        "host_consumer": None,
        "aggregator": ssd.Aggregator(service_ps_per_output=draw.whole(0, 10**7)) if draw.chance(0.3) else None,
        "mapping": draw.of([None, None, ssd.NandMapping(), ssd.CachedMapping(cache_bytes=drive.page_bytes)]),
        "reads": _traffic(draw, drive, alone=nothing),
        "writes": _traffic(draw, drive, alone=False),
    }
    if where == "host consumer":
        chunk = draw.whole(1, 9)
        asked["host_consumer"] = ssd.HostConsumer(
            service_ps_per_chunk=draw.whole(0, 10**8), chunk_pages=chunk, buffer_bytes=2 * chunk * drive.page_bytes
        )
    scan = ssd.Scan(
        size_bytes=size,
        pattern=ssd.ScanPattern.RANDOM if random else ssd.ScanPattern.SEQUENTIAL,
        queue_depth=draw.of([1, 4, 32, 1024]),
        request_bytes=draw.of([None, None, 4096]),
        seed=draw.whole(0, 9),
    )
    given = engine_input(drive, scan, **asked)
    got = scan_drive(drive, scan, **asked)
    yield from invariants.of_scan(drive, given, got)
    if size and draw.chance(0.3):
        most = draw.whole(200, 5000)
        drawn = scan_timeline(given, max_events=most)
        yield from invariants.of_drawing(drawn, check_format, most, got.simulated_s)
        if not drawn["otherData"]["pages_left_out"] and drawn["otherData"]["end_s"] != got.simulated_s:
            yield f"a whole scan is drawn until {drawn['otherData']['end_s']} s, and ends after {got.simulated_s} s"
        yield from _counters(drawn, drive.channels)


def _counters(drawn: dict[str, Any], channels: int) -> Iterator[str]:
    """Pages on buses and buses that are taken, from nothing to nothing."""
    for name in ("pages under way", "channels at work"):
        steps = [e["args"] for e in drawn["traceEvents"] if e["ph"] == "C" and e["name"] == name]
        values = [next(iter(each.values())) for each in steps] or [0]
        if max(values) > channels or values[-1]:
            yield f"{name}: at most {max(values)} and {values[-1]} at the end, of {channels} channels"


@lru_cache(maxsize=64)
def _query(kind: str, megabytes: int) -> Query:
    size = megabytes * 10**6
    if kind == "pir":
        return pir_query(catalogue.get("fheins-pir"), database_bytes=size, record_bytes=288, slot_bits=16, stages=2)
    if kind == "match":
        return match_query(catalogue.get("fheins-pir"), database_bytes=size, starts=1)
    params = catalogue.get("fheins-ssc")
    if kind == "filter":
        return filter_query(params, database_bytes=size, categories=8)
    return ssc_query(params, database_bytes=size, batch=512)


def query_run(draw: Draw) -> Iterator[str]:
    """A query over a database in storage: inside the drive, or by a host; closed, played, and next to other reads."""
    changes = {
        "sense": f"{draw.of([3, 30, 120])} us",
        "dies_per_chip": f"{draw.of([1, 2])} dies/chip",
        "dram": f"{draw.of([5, 51.2])} GB/s",
        "multi_plane": draw.of(["yes", "no"]),
    }
    drive = load_drive(draw.of(["ssd-s", "ssd-l"]), changes if draw.chance() else {})
    kind, megabytes = draw.of(["pir", "ssc", "match", "filter"]), draw.of([20, 77, 200, 1111, 2000])
    query, batch, rates = _query(kind, megabytes), draw.of([1, 3, 64]), drive_rates(drive)
    reads = min(draw.of([0.0, 1e8, 2e9, 7.1e9]), most_reads(rates))
    if draw.chance():
        accelerator = load_instorage("fheins")
        assert isinstance(accelerator, UnitAccelerator)
        inside = Inside(
            contention=draw.of(list(Contention)),
            switches=draw.of([Switches(), BASE, Switches(keys_in_dram=False), Switches(broadcast=False)]),
            dram_efficiency=draw.of([1.0, 0.7]),
            clock_ratio=draw.of([1.0, 2.5]),
            chained=draw.chance(),
        )
        ordinary = Ordinary(bytes_per_s=reads, modes=draw.of(list(Modes)))
        closed = in_storage_under(query, rates, accelerator, ordinary, batch=batch, inside=inside)
        yield from invariants.of_answer(closed, rates)
        played = played_in_storage(query, drive, accelerator, batch=batch, inside=inside, ordinary_bytes_per_s=reads)
        yield from invariants.of_answer(played, rates)
    else:
        machine, policy = load_machine(draw.of(["sharp", "ark"])), draw.of(list(HOST_POLICIES.values()))
        closed = on_host_under(query, rates, machine, policy, Ordinary(bytes_per_s=reads), batch=batch)
        yield from invariants.of_answer(closed, rates, policy)
        if not policy.cached_bytes:
            played = played_on_host(query, drive, machine, policy, batch=batch, ordinary_bytes_per_s=reads)
            yield from invariants.of_answer(played, rates, policy)


# Caches and levels.
def _accesses(draw: Draw) -> Accesses:
    """Needs of objects of one size or many, some of them results."""
    objects, operations = draw.whole(1, 30), draw.whole(0, 80)
    sizes = draw.rng.integers(1, draw.of([2, 40]), objects) * draw.of([1, 1000])
    whole, made = draw.chance(), draw.chance()
    rows, results, seen = [], list[bool](), set[int]()
    for _ in range(operations):
        row = []
        for _ in range(draw.whole(0, 4)):
            obj = int(draw.rng.zipf(1.5)) % objects
            row.append((obj, int(sizes[obj]) if whole else draw.whole(1, int(sizes[obj]))))
            results.append(made and obj not in seen and draw.chance(0.3))
            seen.add(obj)
        rows.append(row)
    found = Accesses.of(rows)
    if not made:
        return found
    return Accesses(found.access_start, found.access_object, found.access_bytes, np.asarray(results, dtype=np.bool_))


def _needs(accesses: Accesses) -> dict[int, int]:
    """The most that is read of each object that the program does not make."""
    made = set(accesses.access_object[~accesses.is_read].tolist())
    found: dict[int, int] = {}
    for obj, need in zip(accesses.access_object.tolist(), accesses.access_bytes.tolist(), strict=True):
        if obj not in made:
            found[obj] = max(need, found.get(obj, 0))
    return found


def _cache(draw: Draw, policies: Sequence[str] = (*POLICIES,), *, forced: bool = True) -> Cache:
    if forced and draw.chance(0.15):
        return draw.of([NoCache(), ForcedHitRatio(float(draw.rng.random()))])
    return SizedCache(draw.of(policies), draw.of([0, draw.whole(0, 60), draw.whole(0, 60_000)]))


def _rates(draw: Draw) -> Rates:
    return Rates(bandwidth_bytes_per_s=draw.size(1e2, 1e9), latency_s=draw.of([0.0, 1e-6, 0.01]))


def _ahead(draw: Draw) -> Prefetch:
    return Prefetch(draw.of([None, 0, 1, 5]), draw.of([None, None, draw.whole(0, 10_000)]))


def cache_run(draw: Draw) -> Iterator[str]:
    """Accesses through one cache, over one tier."""
    accesses, cache, tier = _accesses(draw), _cache(draw), _rates(draw)
    kept = replay(accesses, cache, detail=not isinstance(cache, ForcedHitRatio))
    yield from invariants.of_replay(kept, _needs(accesses))
    compute_s, mode = draw.rng.exponential(0.01, accesses.num_operations), draw.of(MODES)
    decode = draw.of([None, draw.size(1e3, 1e9)])
    pace = Pace(tier=tier, mode=mode, decode_bytes_per_s=decode, prefetch=_ahead(draw))
    (played,) = play_many(compute_s, kept, [pace], timeline=mode != "bound")
    yield from invariants.of_timeline(played, mode, tier, decode)


def levels_run(draw: Draw) -> Iterator[str]:
    """Accesses through several levels that do, or do not, know of each other."""
    accesses, inclusion = _accesses(draw), draw.of(INCLUSIONS)
    apart = inclusion == INDEPENDENT
    online = [name for name, each in POLICIES.items() if not each.knows_future] if apart else ONLINE
    levels = []
    for i in range(draw.whole(0, 3)):
        cache = _cache(draw, online, forced=apart)
        cache = ForcedHitRatio(0.0) if isinstance(cache, NoCache) else cache
        reserved = ()
        if apart and isinstance(cache, SizedCache) and cache.capacity_bytes and draw.chance(0.3):
            reserved = (Reservation(name="other", capacity_bytes=cache.capacity_bytes // 3, bandwidth_share=0.3),)
        levels.append(Level(name=f"level {i}", cache=cache, tier=_rates(draw), reserved=reserved))
    last = Level(name="last", tier=_rates(draw), decode_bytes_per_s=draw.of([None, 1e6]))
    forced = any(isinstance(level.cache, ForcedHitRatio) for level in levels)
    hierarchy = Hierarchy((*levels, last), inclusion=inclusion)
    got = replay_levels(accesses, hierarchy, write_back=apart and not forced and draw.chance())
    yield from invariants.of_levels(got, accesses.access_bytes.tolist())
    mode = draw.of(MODES)
    compute_s = draw.rng.exponential(0.01, accesses.num_operations)
    timed = play_levels(compute_s, got, mode=mode, prefetch=_ahead(draw), timeline=mode != "bound")
    yield from invariants.of_levels_time(timed, got, mode)


WORKLOADS = ("inner-product", "logistic-regression")


@lru_cache(maxsize=4)
def _trace(workload: str) -> Trace:
    return trace_workload(workload, "sharp")


@lru_cache(maxsize=16)
def _priced(workload: str, machine: str, classes: tuple[str, ...]) -> PricedTrace:
    return price_trace(_trace(workload), load_machine(machine), classes=classes)


def tenants_run(draw: Draw) -> Iterator[str]:
    """Programs that run together over a tier or levels."""
    machine = draw.of(["sharp", "ark"])
    classes = draw.of([("key",), ACCESS_CLASSES])
    programs = [_priced(draw.of(WORKLOADS[:1]), machine, classes) for _ in range(draw.whole(1, 4))]
    priced = interleave(programs, draw.of(ORDERS))
    tier, mode = load_tier(draw.of(TIERS)), draw.of(MODES)
    decode, ahead = draw.of([None, 2e10]), _ahead(draw)
    size = draw.of([0, draw.whole(1, 4 * 10**8)])
    if draw.chance():
        cache = draw.of([NoCache(), SizedCache("lru", size)])
        point = Point(hold=cache, tier=tier, mode=mode, prefetch=ahead, decode_bytes_per_s=decode)
        (got,) = play_group(priced, [point])
        yield from invariants.of_result(got, mode, tier)
        return
    first = Level(name="on-chip", cache=SizedCache("lru", size), tier=load_tier("hbm"))
    below = Level(name="second", cache=SizedCache("fifo", draw.of([0, 10**8, 10**9])), tier=load_tier("hbm2"))
    inclusion = draw.of(INCLUSIONS)
    hierarchy = Hierarchy((first, below, Level(name="last", tier=tier)), inclusion=inclusion)
    back = inclusion == INDEPENDENT and draw.chance()
    point = Point(hold=hierarchy, tier=tier, mode=mode, prefetch=ahead, write_back=back)
    (got,) = play_group(priced, [point])
    yield from invariants.of_result(got, mode)


def timeline_run(draw: Draw) -> Iterator[str]:
    """When each unit and channel is busy, in slices and curves."""
    priced = _priced(draw.of(WORKLOADS), "sharp", draw.of([("key",), ACCESS_CLASSES]))
    accesses, mode, ahead = priced.accesses, draw.of(MODES[:2]), _ahead(draw)
    tiers = [load_tier(draw.of(TIERS)), load_tier("rdma-400g")]
    cache: Cache = draw.of([NoCache(), SizedCache("lru", draw.whole(0, 4 * 10**8)), ForcedHitRatio(0.6)])
    events: dict[str, Any] = {"max_events": draw.whole(500, 5000)}
    if draw.chance():
        kept = replay(accesses, cache, detail=not isinstance(cache, ForcedHitRatio))
        pace = Pace(tier=tiers[0], mode=mode, prefetch=ahead, decode_bytes_per_s=draw.of([None, 2e10]))
        (timed,) = play_many(priced.compute_s, kept, [pace], timeline=True)
        events |= {"accesses": accesses, "access_miss_bytes": kept.access_miss_bytes}
        rates = {tiers[0].name: tiers[0].bandwidth_bytes_per_s}
    else:
        sized = SizedCache("lru", draw.whole(0, 10**9))
        first = Level(name="on-chip", cache=sized if isinstance(cache, NoCache) else cache, tier=load_tier("hbm"))
        second = Level(name="second", cache=SizedCache("lru", 4 * 10**8), tier=tiers[1])
        levels = (first, second, Level(name="last", tier=tiers[0]))
        timed = play_levels(
            priced.compute_s, replay_levels(accesses, Hierarchy(levels)), mode=mode, prefetch=ahead, timeline=True
        )
        rates = {level.name: level.tier.bandwidth_bytes_per_s for level in levels}
    drawn = simulated_timeline(_trace(priced.workload), priced, timed.stages, **events)
    yield from invariants.of_drawing(drawn, check_format, events["max_events"])
    for name, rate in rates.items():
        yield from _counted(drawn, f"{BANDWIDTH} {name}", rate)
    depth = 0 if mode == "serial" else ahead.depth
    if depth is not None and isinstance(cache, SizedCache) and len(rates) == 1:
        needs = np.add.reduceat(np.append(accesses.access_bytes, 0), accesses.access_start[:-1])
        yield from _counted(drawn, RESIDENT, cache.capacity_bytes + (depth + 1) * int(needs.max()))
        yield from _counted(drawn, AHEAD, depth + 1)


# Clusters and servers.
@lru_cache(maxsize=4)
def _program(machine: str) -> ClusterProgram:
    return prepare(
        _trace("inner-product"),
        load_machine(machine),
        price_trace(_trace("inner-product"), load_machine(machine), classes=("key", "plaintext")),
    )


def _topology(draw: Draw, hosts: int) -> str:
    ring = ["ring", "torus"] if hosts > 1 else []
    return str(draw.of(["star", "star", "fat-tree", "clos", f"clos:leaf=2,spines=1,oversubscription={draw.whole(1, 4)}",
                        *ring]))  # fmt: skip


def cluster_run(draw: Draw) -> Iterator[str]:
    """A program on hosts that a network joins."""
    hosts = draw.of([1, 2, 3, 4, 5, 8, 16, 40])
    partition, mode = draw.of([*PARTITIONS]), draw.of(MODES)
    alone = partition == "by-ciphertext"
    cluster = Cluster(
        hosts=hosts,
        network=load_network(draw.of(["ethernet-400", "infiniband-ndr", "nvlink4"])),
        topology="star" if alone else _topology(draw, hosts),
        partition=partition,
        algorithm=draw.of(["direct", "ring", "bruck"]),
        broadcast=draw.of([*BROADCASTS]),
    )
    cache: Cache = NoCache() if draw.chance() else ForcedHitRatio(0.7)
    if not alone and draw.chance():
        cache = SizedCache("lru", draw.whole(0, 4 * 10**8))
    tier = load_tier(draw.of(TIERS))
    mode = "overlap" if alone and mode == "bound" else mode
    pace = Pace(tier=tier, mode=mode, prefetch=Prefetch(draw.of([0, 1, None])))
    single, got = play_clusters(_program(draw.of(["sharp", "ark"])), [one_host(cluster), cluster], [pace], cache=cache)
    compared = None if isinstance(cache, SizedCache) else single
    yield from invariants.of_cluster(got, cluster, mode, tier, compared)


def messages_run(draw: Draw) -> Iterator[str]:
    """A collective of any blocks on any topology."""
    hosts = draw.whole(2, 12)
    topology, network = build(_topology(draw, hosts), hosts), load_network(draw.of(["ethernet-400", "infiniband-ndr"]))
    count = draw.whole(2, hosts)
    members = tuple(int(each) for each in draw.rng.permutation(hosts)[:count])
    blocks = tuple(draw.of([0, 1000, draw.whole(0, 10**6)]) for _ in members)
    made: Collective = draw.of([
        AllGather(members, blocks),
        AllGather(members, blocks, tuple(each for each in members if draw.chance())),
        ReduceScatter(members, blocks),
        Broadcast(members, draw.of(members), draw.whole(0, 10**6)),
    ])  # fmt: skip
    names = [name for name in ALL_GATHERS if name != "recursive-doubling" or not count & (count - 1)]
    pattern = pattern_of(made, draw.of(names), draw.of([*BROADCASTS]))
    yield from invariants.of_pattern(made, pattern)
    seconds = flow_seconds(topology, network, pattern, sharing=draw.of(["equal", "by-latency"]))
    yield from invariants.of_flows(topology, network, pattern, seconds)
    least = float(flow_seconds(topology, network, pattern).sum())
    if abs(pattern_seconds(topology, network, pattern) - least) > 1e-9 * least:
        yield f"closed form {pattern_seconds(topology, network, pattern)} s and engine {least} s"


def servers_run(draw: Draw) -> Iterator[str]:
    """Runs of several users on a fleet."""
    users = draw.whole(1, 9)
    kinds = [
        Application(name=f"app {i}", run_s=draw.size(1e-3, 2), key_bytes=draw.whole(0, 2000), joules=1.0)
        for i in range(draw.whole(1, 3))
    ]
    zipf = draw.of([0.0, 1.2])
    stream = poisson(
        kinds,
        users=users,
        rate_per_s=draw.size(0.1, 100),
        runs=draw.whole(1, 300),
        zipf=zipf,
        seed=draw.whole(0, 99),
    )
    arrangement = draw.of(list(Arrangement))
    fleet = Fleet(
        arrangement=arrangement,
        servers=users if arrangement is Arrangement.DEDICATED else draw.whole(1, 5),
        loading=draw.of(list(Loading)),
        memory_bytes=4000 + draw.whole(0, 8000),
        tier="disk",
        tier_bytes_per_s=draw.size(1e2, 1e6),
        tier_latency_s=draw.of([0.0, 0.01]),
        switch_s=draw.of([0.0, 0.1]),
        max_overtaken=draw.of([0, 2, 16]),
    )
    played = play_servers(stream, fleet)
    row = servers_row(stream, fleet, played, load_prices(), machine=load_machine("sharp"), is_gpu=False, zipf=zipf)
    yield from invariants.of_servers(stream, fleet, played, row)


# Inside of operations.
def schedule_run(draw: Draw) -> Iterator[str]:
    """An operation's kernels on the units of a machine; sometimes a whole program, drawn."""
    machine, params = load_machine(draw.of(["sharp", "ark", "bts"])), catalogue.get("sharp")
    kind = draw.of([OpKind.ROTATE, OpKind.MULT, OpKind.RESCALE, OpKind.ADD, OpKind.CONJUGATE])
    limbs = draw.whole(2, params.num_q)
    schedule, placed = schedule_operation(kind, params, limbs, machine, loads=draw.chance())
    yield from invariants.of_schedule(schedule, placed)
    if draw.chance(0.1):
        table, objects, shapes = _rows("inner-product")
        program, most = program_of(table, objects, shapes), draw.whole(2000, 20_000)
        yield from invariants.of_schedule(*schedule_listed(program, params, machine, listed=len(program.of_row)))
        drawn = kernel_timeline(_trace("inner-product"), machine, max_events=most)
        yield from invariants.of_drawing(drawn, check_format, most)
        room = resources_of(machine, params).capacity_bytes
        largest = float(held_bytes(program, params, machine).max())
        yield from _counted(drawn, INSIDE, WINDOW)
        yield from _counted(drawn, HELD, max(room, largest))


def _counted(drawn: dict[str, Any], name: str, most: float) -> Iterator[str]:
    values = [next(iter(e["args"].values())) for e in drawn["traceEvents"] if e["ph"] == "C" and e["name"] == name]
    if max(values, default=0) > most * (1 + 1e-9):
        yield f"{name}: {max(values)}, at most {most}"


@lru_cache(maxsize=2)
def _rows(workload: str) -> tuple[Any, Any, Any]:
    trace = _trace(workload)
    table = server_rows(trace.view().operations)
    objects = Objects(trace, trace.parameters())
    return table, objects, shapes_of(table, objects)


KINDS: dict[str, Callable[[Draw], Iterator[str]]] = {
    "drive": drive_run, "query in storage": query_run, "cache": cache_run, "levels": levels_run,
    "tenants": tenants_run, "timeline": timeline_run, "cluster": cluster_run, "messages": messages_run,
    "servers": servers_run, "schedule": schedule_run,
}  # fmt: skip
WEIGHTS = (6, 1, 3, 4, 1, 1, 3, 2, 2, 1)


def case(seed: int, kind: str | None = None) -> Result:
    """The run of a seed; of a kind that is drawn, too, unless it is named."""
    began, draw = time.monotonic(), Draw(seed)
    drawn = draw.of([name for name, weight in zip(KINDS, WEIGHTS, strict=True) for _ in range(weight)])
    name = drawn if kind is None else kind
    try:
        faults, ended = tuple(KINDS[name](draw)), "possible"
    except PenstockError as error:
        faults, ended = (f"refused: {type(error).__name__}: {error}",), "refused"
    return Result("physics", name, seed, ended, faults, time.monotonic() - began)


def bench(folder: Path, count: int, seed: int, jobs: int) -> list[Result]:
    """Check the runs of `count` seeds from `seed` on."""
    return reported(over(case, range(seed, seed + count), jobs), count)
