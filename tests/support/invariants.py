"""What physics allows of any simulated result: each function yields, in words, what a result breaks of it.

Busy time is at most the time times the units; bytes are at most bandwidth times the time; counted work has ended by
the reported end, so that the busy times have room for it; and what one level or host gives another gets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from penstock.base.units import PICOSECONDS_PER_SECOND as PICO
from penstock.lab.instorage.drive import DriveRates
from penstock.lab.instorage.flash.input import EngineInput
from penstock.lab.instorage.flash.scan import ScanResult
from penstock.lab.instorage.policies import HostPolicy, Passes
from penstock.lab.instorage.queries import CLOSED_FORM, Answered
from penstock.lab.simulation.cluster.collectives import AllGather, Broadcast, Collective, Pattern, ReduceScatter
from penstock.lab.simulation.cluster.flows import link_bytes
from penstock.lab.simulation.cluster.spec import Cluster
from penstock.lab.simulation.cluster.topology import Topology
from penstock.lab.simulation.memory.levels import EXCLUSIVE
from penstock.lab.simulation.memory.levels_replay import LevelsReplay
from penstock.lab.simulation.servers.fleet import Fleet
from penstock.lab.simulation.servers.play import ServedStream
from penstock.lab.simulation.servers.stream import Stream
from penstock.scheme.machines.drives import Drive
from penstock.scheme.machines.networks import Network
from penstock.scheme.play.caches import SizedCache
from penstock.scheme.play.hierarchy import BackingTier, PlayedPoint, Replay
from penstock.scheme.play.schedule import Placed, Schedule

ROUNDING = 1e-9
"""Of sums of doubles, relative."""
Broken = Iterator[str]


def _most(what: str, value: float, limit: float) -> Broken:
    """Nothing where `value` is a number from 0 to `limit`."""
    if not -ROUNDING * abs(limit) <= value <= limit + ROUNDING * abs(limit) + 1e-15:
        yield f"{what}: {value!r}, not from 0 to {limit!r}"


def _same(what: str, value: float, other: float) -> Broken:
    if not abs(value - other) <= ROUNDING * max(abs(value), abs(other)):
        yield f"{what}: {value!r} is not {other!r}"


# Drives.
def of_scan(drive: Drive, given: EngineInput, got: ScanResult) -> Broken:
    """A scan of a drive, next to other traffic. Whole picoseconds: the drive's own durations."""
    whole = round(got.simulated_s * PICO)
    reads, wear, written = got.read_latency.count, got.wear, got.write_latency.count
    host, run = got.pages if given.to_host else 0, got.run
    planes = drive.planes_per_die if drive.multi_plane else 1
    programmed = wear.host_pages + wear.moved_pages
    senses = got.pages + reads + wear.moved_pages + got.mapping_reads + got.retries
    services = [each.serve for each in (*given.consumers, *filter(None, [given.host_consumer]))]
    metadata = [(each.dram, each.edram) for each in (*given.consumers, *filter(None, [given.host_consumer]))]
    # (busy share, units, picoseconds of work that is counted)
    small, edram_busy = min(given.data_out, given.data_in), run.edram_busy_ps / max(whole, 1)
    for what, share, units, work in (
        ("bus", got.bus_busy, drive.channels,
         (got.pages + reads) * given.data_out + (got.mapping_reads + wear.moved_pages) * given.data_in
         + got.retries * small + programmed * (given.data_in + given.program_command)
         + wear.erases * given.erase_command + senses // planes * min(given.read_command, given.further_plane)),
        ("dies", got.array_busy, drive.dies,
         wear.erases * given.erase + -(-programmed // planes) * given.program + -(-senses // planes) * given.sense),
        ("DRAM", got.dram_busy, 1,
         (host + reads) * given.dram + written * given.dram
         + sum(chunks * dram for chunks, (dram, _) in zip(run.chunks, metadata, strict=True))),
        ("eDRAM", edram_busy, 1, sum(n * edram for n, (_, edram) in zip(run.chunks, metadata, strict=True))),
        ("PCIe to the host", got.pcie_up_busy, 1,
         (host + reads) * given.upload
         + sum(chunks * each.upload for chunks, each in zip(run.chunks, given.consumers, strict=False))),
        ("PCIe to the drive", got.pcie_down_busy, 1, written * given.download),
    ):  # fmt: skip
        yield from _most(f"busy share of {what}", share, 1)
        yield from _most(f"counted work of {what} in its busy time", work, share * units * whole)
    yield from _same("mean of the channels' shares", sum(got.channel_busy) / drive.channels, got.bus_busy)
    for i, each in enumerate(got.channel_busy):
        yield from _most(f"busy share of channel {i}", each, 1)
    for i, (busy, wait, service) in enumerate(zip(run.consumer_busy_ps, run.consumer_wait_ps, services, strict=True)):
        yield from _most(f"consumer {i} busy and waiting", busy + wait, whole)
        yield from _same(f"service of consumer {i}", run.chunks[i] * service, busy)
    yield from _most("aggregator", run.aggregator_busy_ps, whole)
    rate = drive.channels * drive.channel_bytes_per_s
    yield from _most("bytes of the scan", got.bytes, 1.01 * rate * got.simulated_s)
    if given.pages:
        yield from _same("pages and latencies", got.latency.count, given.pages)
        most = max(given.queue_depth, drive.channels)
        yield from _most("pages under way", (got.latency.mean_s or 0) * got.pages, most * got.simulated_s)
    for what, traffic, count in (("reads", given.reads, reads), ("writes", given.writes, written)):
        yield from _most(f"{what} that have come", count * traffic.interval, whole)
    yield from _most("programmed pages of those written", wear.host_pages, written)
    yield from _most("pages in the write buffer", written - wear.host_pages, given.host_buffer_pages)
    yield from _most("erases of one block", run.max_erases * given.erase, min(whole, wear.erases * given.erase))
    yield from _most("pages of erased blocks", wear.erases * drive.pages_per_block, programmed + _at_first(drive))
    victims = wear.erases + drive.planes
    yield from _most("pages moved out of victims", wear.moved_pages, victims * drive.pages_per_block)
    if wear.host_pages:
        amplification = programmed / wear.host_pages
        yield from _same("write amplification", wear.write_amplification or 0, amplification)
    for what, each in (("pages", got.latency), ("reads", got.read_latency), ("writes", got.write_latency)):
        if each.count and each.mean_s is not None and each.max_s is not None:
            yield from _most(f"mean latency of {what}", each.mean_s, each.max_s)
            yield from _most(f"median latency of {what}", each.p50_s or 0, each.p99_s or 0)
            yield from _most(f"99 % of latencies of {what}", each.p99_s or 0, each.max_s)
            yield from _most(f"largest latency of {what}", each.max_s, got.simulated_s)


def _at_first(drive: Drive) -> int:
    """Pages that a drive holds before the first write, all of which may be erased."""
    return drive.planes * drive.pages_per_block * (drive.blocks_per_plane - drive.spare_blocks)


def of_answer(got: Answered, drive: DriveRates, policy: HostPolicy | None = None) -> Broken:
    """Queries over a database in storage: resources work at once, or in turn. `policy`: of a host that reads it."""
    for name, busy in got.busy.items():
        yield from _most(f"{got.engine}: busy time of {name}", busy, got.seconds)
    own = got.batch * (got.query.work.query_bytes + got.query.work.answer_bytes)
    if policy is not None:
        again = got.batch - 1 if policy.passes is Passes.RESTREAM else 0
        own = got.query.database_bytes + again * max(0, got.query.database_bytes - policy.cached_bytes)
    read = got.ordinary_served_bytes_per_s * got.seconds
    yield from _most(f"{got.engine}: bytes over the link", own + read, drive.pcie_bytes_per_s * got.seconds)
    yield from _most(f"{got.engine}: bytes from flash", read, drive.flash_bytes_per_s * got.seconds)
    # Reads come every so many whole picoseconds.
    asked = got.ordinary_bytes_per_s * (1 + 1e-6)
    yield from _most(f"{got.engine}: reads that are served", got.ordinary_served_bytes_per_s, asked)
    if got.engine != CLOSED_FORM:  # whose times are the query's own, at the rate that reads leave
        yield from _same("busy time of the link", got.busy["pcie"], (own + read) / drive.pcie_bytes_per_s)


# Caches and levels.
def of_replay(got: Replay, needs: Mapping[int, int]) -> Broken:
    """A cache. `needs`: object -> the most that is read of it, of objects that are not made by the program."""
    yield from _same("hits and misses", got.hits + got.misses, got.accesses)
    yield from _same("hit and missed bytes", got.hit_bytes + got.miss_bytes, got.requested_bytes)
    yield from _same("loads of operations", float(got.operation_bytes.sum()), got.miss_bytes)
    yield from _same("transfers of operations", float(got.operation_transfers.sum()), got.misses)
    yield from _most("hits", got.hits, got.accesses)
    yield from _most("loaded bytes", got.miss_bytes, got.requested_bytes)
    if isinstance(got.cache, SizedCache):
        yield from _most("bytes in the cache", got.peak_resident_bytes, got.cache.capacity_bytes)
        yield from _most("first loads", sum(needs.values()), got.miss_bytes)
        yield from _most("evictions", got.evictions, got.misses + got.results)
        yield from _most("accesses that pass by", got.streamed, got.misses + got.results)
    if got.access_miss_bytes is not None:
        yield from _same("loads of accesses", int(got.access_miss_bytes.sum()), got.miss_bytes)


def of_timeline(got: PlayedPoint, mode: str, tier: BackingTier, decode_bytes_per_s: float | None) -> Broken:
    """A program through one cache over one tier."""
    for what, busy in (("compute", got.compute_s), ("channel", got.io_s), ("decoding", got.decode_s)):
        yield from _most(f"{mode}: busy time of {what}", busy, got.total_s)
    yield from _most("bytes of the tier", got.io_bytes, tier.bandwidth_bytes_per_s * got.io_s)
    if decode_bytes_per_s is not None:
        yield from _same("decoded bytes", got.io_bytes, decode_bytes_per_s * got.decode_s)
    yield from _most("total", got.total_s, got.compute_s + got.io_s + got.decode_s)
    if mode == "serial":
        yield from _same("serial parts", got.total_s, got.compute_s + got.io_s + got.decode_s)
    for stage in got.stages:
        yield from _in_turn(stage.name, stage.start_s, stage.end_s, got.total_s)
        yield from _same(f"idle time of {stage.name}", stage.busy_s + stage.idle_s, got.total_s)


def _in_turn(what: str, start_s: Any, end_s: Any, total_s: float) -> Broken:
    """Slices of one unit in the order of the program."""
    start, end = np.asarray(start_s), np.asarray(end_s)
    if (end < start).any() or (start[1:] < end[:-1]).any():
        yield f"{what} does two things at once"
    if len(end):
        yield from _most(f"last end of {what}", float(end[-1]), total_s)


def of_levels(got: LevelsReplay, sizes: Sequence[int]) -> Broken:
    """Where every byte came from. `sizes`: bytes of each object."""
    loads = got.loads
    yield from _same("served bytes", sum(load.served_bytes for load in loads), got.requested_bytes)
    yield from _same("hits", sum(load.hits for load in loads), got.accesses)
    for i, load in enumerate(loads):
        name = load.level.name
        below = sum(each.served_bytes for each in loads[i:])
        yield from _same(f"hits and misses of {name}", load.hits + load.misses, float(load.operation_transfers.sum()))
        if i + 1 < len(loads):
            yield from _same(f"misses of {name}", load.misses, float(loads[i + 1].operation_transfers.sum()))
        if got.hierarchy.inclusion == EXCLUSIVE:
            yield from _most(f"bytes over the channel of {name}", below + load.demoted_bytes, load.channel_bytes)
        else:
            yield from _same(f"bytes over the channel of {name}", load.channel_bytes, below)
            yield from _same(f"demoted into {name}", load.demoted_bytes, 0)
        capacity = load.level.capacity_bytes
        if capacity is not None and capacity < min(sizes, default=0):
            for what in ("served_bytes", "hits", "evictions", "demoted_bytes", "invalidated"):
                yield from _same(f"{what} of {name}, which holds nothing", getattr(load, what), 0)
        if capacity is None:
            yield from _same(f"demoted or evicted in {name}", load.demoted_bytes + load.evictions, 0)
        evicted = sum(each.evictions for each in loads[:i])
        yield from _most(f"demoted into {name}", load.demoted_bytes, evicted * max(sizes, default=0))
        yield from _most(f"pinned in {name}", load.pinned_bytes, float("inf") if capacity is None else capacity)
        yield from _most(f"written over {name}", load.written_bytes, got.results * max(sizes, default=0))
        if i:
            yield from _most(f"written over {name} and not above", load.written_bytes, loads[i - 1].written_bytes)


def of_levels_time(got: PlayedPoint, loaded: LevelsReplay, mode: str) -> Broken:
    """The time of this."""
    for stage in got.stages:
        yield from _most(f"{mode}: busy time of {stage.name}", stage.busy_s, got.total_s)
        yield from _same(f"idle time of {stage.name}", stage.busy_s + stage.idle_s, got.total_s)
        if stage.start_s is not None:
            yield from _in_turn(stage.name, stage.start_s, stage.end_s, got.total_s)
    yield from _most("total", got.total_s, sum(stage.busy_s for stage in got.stages))
    if mode == "serial":
        yield from _same("serial parts", got.total_s, sum(stage.busy_s for stage in got.stages))
    for load, row in zip(loaded.loads, got.levels or (), strict=True):
        busy, level = row["busy_s"], load.level
        if level.is_timed:
            taken = load.channel_bytes / level.channel.bandwidth_bytes_per_s
            taken += load.written_bytes / level.write_channel.bandwidth_bytes_per_s
            yield from _most(f"bytes over {level.name}", taken, busy)
        if level.decode_bytes_per_s is not None:
            decoded = row["decode_s"] * level.decode_bytes_per_s
            yield from _same(f"bytes decoded from {level.name}", load.channel_bytes, decoded)


def of_result(got: PlayedPoint, mode: str, tier: BackingTier | None = None) -> Broken:
    """A point that `simulate` shows; with levels or tenants as far as it has them."""
    levels = got.levels or ()
    channels = max(1, len(levels))
    for what, busy, units in (
        ("compute", got.compute_s, 1), ("channels", got.io_s, channels), ("decoding", got.decode_s, channels),
        ("communication", got.communication_s, 1),
    ):  # fmt: skip
        yield from _most(f"{mode}: busy time of {what}", busy, units * got.total_s)
    if tier is not None:
        yield from _most("loaded bytes", got.io_bytes, tier.bandwidth_bytes_per_s * got.io_s)
    for row in levels:
        yield from _most(f"busy time of {row['level']}", row["busy_s"], got.total_s)
        yield from _most(f"decoding from {row['level']}", row["decode_s"], got.total_s)
    if got.tenants:
        yield from _same("compute of all tenants", sum(row["compute_s"] for row in got.tenants), got.compute_s)
        yield from _same("loads of all tenants", sum(row["io_bytes"] for row in got.tenants), got.io_bytes)
        ends = [row["finish_s"] for row in got.tenants]
        if None not in ends:
            yield from _same("the last tenant's end", max(ends), got.total_s)
        for row in got.tenants:
            yield from _most(f"compute of {row['tenant']}", row["compute_s"], row["finish_s"] or got.total_s)


# Clusters and servers.
def of_pattern(collective: Collective, pattern: Pattern) -> Broken:
    """Messages of a collective: every member gets what it lacks, and nobody sends to itself."""
    members = collective.members
    sent, received = (np.zeros(max(members) + 1, dtype=np.int64) for _ in range(2))
    np.add.at(sent, pattern.source, pattern.size)
    np.add.at(received, pattern.target, pattern.size)
    yield from _same("sent and received", int(sent.sum()), int(received.sum()))
    if (pattern.source == pattern.target).any():
        yield "a host sends to itself"
    if isinstance(collective, Broadcast):
        needs = {host: collective.num_bytes for host in members if host != collective.root}
    else:
        whole = sum(collective.blocks)
        needs = {host: whole - block for host, block in zip(members, collective.blocks, strict=True)}
    for host, least in needs.items():
        given = sent if isinstance(collective, ReduceScatter) else received
        only = isinstance(collective, AllGather) and collective.receivers is not None
        if not (only and host not in (collective.receivers or ())):
            yield from _most(f"needed by host {host}", least, int(given[host]))


def of_flows(topology: Topology, network: Network, pattern: Pattern, seconds: Any) -> Broken:
    """Rounds of messages: bytes of each link in the time of each round."""
    rates = topology.width * network.bandwidth_bytes_per_s
    for i, (carried, taken) in enumerate(zip(link_bytes(topology, pattern), seconds, strict=True)):
        for link in np.flatnonzero(carried > rates * taken * (1 + ROUNDING)):
            yield f"link {link} carries {carried[link]} B in round {i} of {taken} s"


def of_cluster(
    got: PlayedPoint, cluster: Cluster, mode: str, tier: BackingTier, single: PlayedPoint | None = None
) -> Broken:
    """A program on several hosts. `single`: on one; without a cache of a size, of which more hosts have more."""
    yield from of_result(got, mode, tier)
    if single is not None:
        yield from _most(f"{cluster.partition}: speed-up", got.speedup(single), cluster.hosts)
        if cluster.hosts == 1:
            yield from _same(f"{cluster.partition}: speed-up of one host", got.speedup(single), 1)
    hosts, network = cluster.hosts, cluster.network
    if cluster.partition == "by-tenant" or network is None:
        yield from _same("messages", got.sent_bytes + got.communication_s, 0)
    else:
        # A message goes over one link of its sender at least.
        out = cluster.layout.width.sum() * network.bandwidth_bytes_per_s
        whole = got.total_s if cluster.partition == "by-ciphertext" else got.communication_s
        yield from _most("sent bytes", got.sent_bytes, out * whole)
    yield from _most("bytes that all hosts load", got.loaded_bytes, hosts * tier.bandwidth_bytes_per_s * got.total_s)
    if cluster.partition != "by-ciphertext":
        yield from _most("bytes that all hosts load", got.loaded_bytes, hosts * got.io_bytes)
    yield from _most("bytes that one host loads", got.io_bytes, got.loaded_bytes)


def of_servers(stream: Stream, fleet: Fleet, got: ServedStream, row: Mapping[str, Any]) -> Broken:
    """Runs on servers: none does two things at once, and no key comes faster than its tier gives it."""
    for name in ("utilisation", "stalled_share", "idle_share", "loads_share"):
        yield from _most(name, row[name], 1)
    yield from _same("shares", row["utilisation"] + row["stalled_share"] + row["idle_share"], 1)
    ends = got.start_s + stream.run_s
    if not np.allclose(ends, got.end_s, rtol=1e-12):
        yield "a run does not take its time"
    if (got.start_s < stream.at_s).any():
        yield "a run begins before it arrives"
    loaded = got.loaded_bytes > 0
    least = stream.at_s + fleet.tier_latency_s + got.loaded_bytes / fleet.tier_bytes_per_s
    if (got.start_s < least - ROUNDING * got.span_s)[loaded].any():
        yield "a run begins before its keys can be there"
    for server in range(fleet.servers):
        mine = np.flatnonzero(got.server == server)
        order = mine[np.argsort(got.start_s[mine], kind="stable")]
        if (got.start_s[order][1:] < got.end_s[order][:-1] - ROUNDING * got.span_s).any():
            yield f"server {server} computes two runs at once"
        loads = int(got.loaded_bytes[mine].sum())
        yield from _most(f"keys loaded by server {server}", loads, fleet.tier_bytes_per_s * got.span_s)
    yield from _most("installed keys", got.installed_bytes, fleet.servers * fleet.memory_bytes)
    yield from _most("overtaken", got.most_overtaken, fleet.max_overtaken)
    yield from _most("switches", got.switches, len(stream))
    yield from _most("runs with loads", float((got.loaded_bytes > 0).sum()), len(stream))


# Schedules and drawings.
def of_schedule(got: Schedule, placed: Placed) -> Broken:
    """Kernels on the units of a machine."""
    for name, bound in got.bounds_s.items():
        yield from _most(f"bound of {name}", bound, got.total_s)
    for unit, share in got.busy_shares.items():
        yield from _most(f"busy share of {unit}", share, 1)
    names = np.asarray(placed.unit)
    for unit, ports in zip(got.units, got.ports, strict=True):
        mine = names == unit
        start, end = placed.start_s[mine], placed.end_s[mine]
        yield from _same(f"work of {unit}", float((end - start).sum()), got.busy_s[unit] * ports)
        yield from _most(f"limbs in {unit} at once", _at_once(start, end), ports)
    if len(placed.end_s):
        yield from _most("last end", float(placed.end_s.max()), got.total_s)
        yield from _most("first start", 0.0, float(placed.start_s.min()))


def _at_once(start_s: Any, end_s: Any) -> int:
    """The most intervals around one time; an end makes room for a start."""
    changes = sorted([*((float(at), 1) for at in start_s), *((float(at), -1) for at in end_s)])
    return int(np.cumsum([change for _, change in changes]).max(initial=0))


def of_drawing(
    drawn: Mapping[str, Any], check: Callable[[dict[str, Any]], None], most: int, end_s: float = math.inf
) -> Broken:
    """A timeline of at most so many events, none behind the end. `check`: of its format. Counters are not negative."""
    yield from _most("events", sum(event["ph"] != "M" for event in drawn["traceEvents"]), most)
    last = max((each["ts"] + each.get("dur", 0) for each in drawn["traceEvents"] if "ts" in each), default=0)
    yield from _most("end of what is drawn", last * 1e-6, end_s)
    try:
        check(dict(drawn))
    except AssertionError as error:
        yield f"timeline: {error or 'its format'}"
    counted: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for event in drawn["traceEvents"]:
        if event["ph"] == "C":
            value = next(iter(event["args"].values()))
            counted.setdefault((event["pid"], event["name"]), []).append((event["ts"], value))
    for (_, name), steps in counted.items():
        if min(value for _, value in steps) < 0 or any(left[0] > right[0] for left, right in pairwise(steps)):
            yield f"counter '{name}' falls below nothing, or back in time"
