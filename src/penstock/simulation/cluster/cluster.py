"""A program on several hosts: compute, loads from each host's tier, and communication between them.

Each host has a machine, a tier and a cache of its own; a network of some topology joins them. What a host computes,
loads and sends follows from the partition (`partitions`), and how long messages take from the
network (`flows`). Hosts that run an operation together wait for each other in every exchange, so the
busiest host sets the time: operation by operation, at its limbs, kernel by kernel.

Time modes: `serial` adds compute, loads and communication; `overlap` lets loads run ahead of compute and
communication, which stay in turn; `bound` takes the largest of the three sums.

>>> from penstock.machines.networks import load_network
>>> Cluster(hosts=4, network=load_network("ethernet-400"), topology="fat-tree").described
'4 hosts, ethernet-400, fat-tree:k=4, rplp'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from penstock.errors import UsageError
from penstock.machines.networks import Network
from penstock.machines.schema import Machine
from penstock.params.ckks import KeyForm
from penstock.simulation.caches import Cache, ForcedHitRatio, NoCache
from penstock.simulation.cluster.collectives import check_algorithms
from penstock.simulation.cluster.exchanges import Exchanges
from penstock.simulation.cluster.flows import STAR, Sharing
from penstock.simulation.cluster.partitions import ByCiphertext, ByTenant, Together, partition_named
from penstock.simulation.cluster.program import ClusterProgram, prepare
from penstock.simulation.cluster.shapes import dealt
from penstock.simulation.cluster.simgrid import SimGrid
from penstock.simulation.cluster.topology import Topology, build
from penstock.simulation.engine import ConservationError
from penstock.simulation.engine import native as _engine
from penstock.simulation.memory.hierarchy import Point, Replay, Tier, Timeline, channel_seconds, play_many, replay
from penstock.traces.schema import Trace

Mode: TypeAlias = Literal["serial", "overlap", "bound"]
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Hosts, what joins them and how the work is cut. One host needs no network."""

    hosts: int
    network: Network | None = None
    topology: str = STAR
    """A name of `TOPOLOGIES`, with parameters after a colon, or a .toml file."""
    partition: str = "rplp"
    """A name of `PARTITIONS`."""
    algorithm: str = "direct"
    """How all-gathers and reduce-scatters are done: a name of `ALL_GATHERS`."""
    broadcast: str = "scatter"
    """How broadcasts are done: a name of `BROADCASTS`."""
    sharing: Sharing = "equal"
    """How messages share a link."""

    def __post_init__(self) -> None:
        if isinstance(self.hosts, bool) or not isinstance(self.hosts, int | np.integer) or self.hosts < 1:
            raise UsageError(f"a cluster of {self.hosts!r} hosts: it is a whole number from 1 on")
        partition_named(self.partition)
        check_algorithms(self.algorithm, self.broadcast)
        if self.network is None and self.hosts > 1 and self.partition != ByTenant.name:
            raise UsageError(f"{self.hosts} hosts with partition '{self.partition}' talk to each other: name a network")
        build(self.topology, int(self.hosts))

    @property
    def layout(self) -> Topology:
        """Hosts, links and routes."""
        return build(self.topology, int(self.hosts))

    @property
    def described(self) -> str:
        """In one line."""
        network = self.network.name if self.network else "no network"
        return f"{self.hosts} hosts, {network}, {self.layout.name}, {self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterResult:
    """How long a program takes on a cluster (simulated). Times are those of the host that ends last."""

    cluster: Cluster
    point: Point
    """Tier and time mode."""
    programs: int
    """Programs that have ended after `total_s`: more than one where every tenant has a host."""
    compute_s: float
    io_s: float
    decode_s: float
    communication_s: float
    """In which messages are under way and this host waits for them."""
    total_s: float
    io_bytes: float
    """Loaded by this host."""
    loaded_bytes: float
    """Loaded by all hosts; with a cache, as if the others' hit ratios were this one's."""
    sent_bytes: float
    """Of all hosts."""
    hit_ratio: float | None
    """Share of the bytes that this host's cache serves; `None` where nothing is asked for."""
    energy_j: float | None
    """Of computing, loads and messages on all hosts; `None` where one of them is not known."""
    warnings: tuple[str, ...] = ()

    @property
    def wait_s(self) -> float:
        """Time that is none of the four: dependencies that keep a host idle. Negative where work overlaps."""
        return self.total_s - self.compute_s - self.io_s - self.decode_s - self.communication_s

    def speedup(self, single: ClusterResult) -> float:
        """Programs a second against those of one host; of a program without operations, programs against programs."""
        if not self.total_s:
            return self.programs / single.programs
        return self.programs * single.total_s / (single.programs * self.total_s)


def play_cluster(
    trace: Trace | ClusterProgram,
    machine: Machine,
    tier: Tier,
    cluster: Cluster,
    *,
    mode: Mode = "serial",
    cache: Cache | None = None,
    key_form: KeyForm | None = None,
    classes: Sequence[str] = ("key",),
    decode_bytes_per_s: float | None = None,
    prefetch_depth: int = 1,
    simgrid: SimGrid | None = None,
) -> ClusterResult:
    """Plays a trace on one cluster over one tier.

    Args:   trace: or what `prepare` made of it, with this machine; cache: of each host; simgrid: lets SimGrid play the
            messages instead of the flow engine.
    Raises: as `play_clusters` and `prepare`.
    """
    program = trace
    if isinstance(program, Trace):
        program = prepare(program, machine, key_form=key_form, classes=classes)
    elif program.machine != machine:
        raise UsageError(f"the program was prepared for machine '{program.machine.name}', not for '{machine.name}'")
    point = Point(tier=tier, mode=mode, decode_bytes_per_s=decode_bytes_per_s, prefetch_depth=prefetch_depth)
    return play_clusters(program, [cluster], [point], cache=cache, simgrid=simgrid)[0]


def play_clusters(
    program: ClusterProgram,
    clusters: Sequence[Cluster],
    points: Sequence[Point],
    *,
    cache: Cache | None = None,
    simgrid: SimGrid | None = None,
) -> list[ClusterResult]:
    """Plays a program on many clusters over many tiers: all points of the first cluster, then of the second, ….

    Work is priced once for each shape and number of hosts, messages once for each exchange and network.

    Raises: UsageError: a partition that does not go with the time mode, the cache or the topology; UnknownName;
            SimulationInputError; CapabilityMissing: SimGrid is asked for and not there.
    """
    table = _Table(program, NoCache() if cache is None else cache, simgrid)
    return [result for cluster in clusters for result in _play(table, cluster, points)]


def _play(table: _Table, cluster: Cluster, points: Sequence[Point]) -> list[ClusterResult]:
    partition = partition_named(cluster.partition)
    if isinstance(partition, Together):
        return _play_together(table, cluster, partition, points)
    if isinstance(partition, ByCiphertext):
        return [_play_by_ciphertext(table, cluster, point) for point in points]
    return _play_by_tenant(table, cluster, points)


class _Table:
    """What the results of one call share."""

    def __init__(self, program: ClusterProgram, cache: Cache, simgrid: SimGrid | None) -> None:
        self.program, self.cache, self.simgrid = program, cache, simgrid
        self._loaded: dict[tuple[str, int], Replay] = {}

    def loaded(self, partition: Together, hosts: int) -> Replay:
        """What the busiest host loads."""
        key = partition.name, hosts
        if key not in self._loaded:
            self._loaded[key] = replay(self.program.accesses(partition, hosts), self.cache)
        return self._loaded[key]


def exchanges(
    program: ClusterProgram, partition: Together, cluster: Cluster, simgrid: SimGrid | None = None
) -> Exchanges:
    """What hosts exchange; the program keeps it, but for SimGrid's answers and topologies of one's own."""

    def made() -> Exchanges:
        return Exchanges(
            cluster.layout,
            cluster.network,
            dealt(program, partition, cluster.hosts).exchanged,
            all_gather=cluster.algorithm,
            broadcast=cluster.broadcast,
            sharing=cluster.sharing,
            simgrid=simgrid,
        )

    if simgrid is not None or cluster.topology.endswith(".toml"):
        return made()
    return program.keep(("exchanges", cluster), made)


def _play_together(
    table: _Table, cluster: Cluster, partition: Together, points: Sequence[Point]
) -> list[ClusterResult]:
    program, counts = table.program, table.program.shapes.counts
    loaded = table.loaded(partition, cluster.hosts)
    shared = dealt(program, partition, cluster.hosts)
    exchange = exchanges(program, partition, cluster, table.simgrid)
    compute_s, communication_s = float(shared.compute_s @ counts), float(exchange.seconds @ counts)
    # Together they stay in turn in every mode but `bound`, where communication is a resource of its own.
    timelines: dict[int, Timeline] = {}
    for apart, seconds in ((False, shared.compute_s + exchange.seconds), (True, shared.compute_s)):
        chosen = [i for i, point in enumerate(points) if (point.mode == "bound") == apart]
        if chosen:
            played = play_many(seconds[program.shapes.of_row], loaded, [points[i] for i in chosen])
            timelines.update(zip(chosen, played, strict=True))
    results = []
    for i, point in enumerate(points):
        timeline = timelines[i]
        total_s = max(timeline.total_s, communication_s) if point.mode == "bound" else timeline.total_s
        result = ClusterResult(
            cluster=cluster,
            point=point,
            programs=1,
            compute_s=compute_s,
            io_s=timeline.io_s,
            decode_s=timeline.decode_s,
            communication_s=communication_s,
            total_s=total_s,
            io_bytes=loaded.miss_bytes,
            loaded_bytes=_all_hosts_load(program, loaded, cluster.hosts, partition),
            sent_bytes=float(exchange.sent_bytes @ counts),
            hit_ratio=loaded.byte_hit_ratio,
            energy_j=None,
            warnings=(*timeline.warnings, *_warnings(program, cluster)),
        )
        if point.mode == "serial" and abs(result.wait_s) > ROUNDING * max(total_s, 1e-12):
            raise ConservationError(
                f"serial parts of {cluster.described} miss the total by {result.wait_s} s of {total_s} s; "
                "please report it"
            )
        link_joules = exchange.joules(counts)
        results.append(replace(result, energy_j=_energy(result, shared.joules, link_joules)))
    return results


def _play_by_ciphertext(table: _Table, cluster: Cluster, point: Point) -> ClusterResult:
    program, network = table.program, cluster.network
    if cluster.layout.name != STAR:
        raise UsageError(
            f"partition '{ByCiphertext.name}' on topology '{cluster.topology}': it is modelled with one switch that "
            f"never blocks; use --topology {STAR}"
        )
    if not isinstance(table.cache, NoCache | ForcedHitRatio):
        raise UsageError(
            f"partition '{ByCiphertext.name}' with a cache of a size: which operations a host runs depends on times, "
            "and so does what its cache holds; state a hit ratio instead"
        )
    if point.mode == "bound":
        raise UsageError(f"partition '{ByCiphertext.name}' has modes serial and overlap, not bound")
    loaded = replay(program.accesses(), table.cache)
    loads = np.asarray(loaded.operation_bytes, dtype=np.float64)
    io = channel_seconds(loads, np.asarray(loaded.operation_transfers, dtype=np.float64), point.tier)
    decode = loads / (np.inf if point.decode_bytes_per_s is None else point.decode_bytes_per_s)
    compute = program.priced.compute_s
    duration = compute + io + decode if point.mode == "serial" else np.maximum(compute, io + decode)
    shapes = program.shapes
    start = np.zeros(program.num_operations + 1, dtype=np.int64)
    np.cumsum(np.bincount(shapes.operand_row, minlength=program.num_operations), out=start[1:])
    by_row = np.argsort(shapes.operand_row, kind="stable")
    # More hosts can end later, since each operation is placed for itself: use as many of them as help.
    used = sorted({cluster.hosts, *(2**i for i in range(int(cluster.hosts).bit_length()))})
    tried = [
        _engine.dispatch(
            np.ascontiguousarray(duration),
            start,
            np.ascontiguousarray(shapes.operand[by_row]),
            program.output,
            program.object_bytes.astype(np.float64),
            int(hosts),
            network.bandwidth_bytes_per_s if network else np.inf,
            2 * network.latency_s if network else 0.0,
        )
        for hosts in used
    ]
    got = min(tried, key=lambda each: each.total_s)
    last = int(got.host[np.argmax(got.start_s + duration)]) if len(duration) else 0
    mine = got.host == last
    joules = float(program.priced.joules.sum()) if program.priced.joules is not None else None
    result = ClusterResult(
        cluster=cluster,
        point=point,
        programs=1,
        compute_s=float(compute[mine].sum()),
        io_s=float(io[mine].sum()),
        decode_s=float(decode[mine].sum()),
        communication_s=float(got.receiving_s[last]),
        total_s=got.total_s,
        io_bytes=float(loads[mine].sum()),
        loaded_bytes=loaded.miss_bytes,
        sent_bytes=got.sent_bytes,
        hit_ratio=loaded.byte_hit_ratio,
        energy_j=None,
        warnings=loaded.warnings,
    )
    per_byte = network.energy_j_per_byte if network else None
    sent = 0.0 if got.sent_bytes == 0 else None if per_byte is None else 2 * per_byte * got.sent_bytes
    return replace(result, energy_j=_energy(result, joules, sent))


def _play_by_tenant(table: _Table, cluster: Cluster, points: Sequence[Point]) -> list[ClusterResult]:
    """As one host; everything that is counted over all hosts is so many times as much."""
    alone = replace(cluster, hosts=1, topology=STAR, partition="rplp")
    hosts = cluster.hosts
    return [
        replace(
            single,
            cluster=cluster,
            programs=hosts,
            loaded_bytes=hosts * single.loaded_bytes,
            energy_j=None if single.energy_j is None else hosts * single.energy_j,
        )
        for single in _play(table, alone, points)
    ]


def _all_hosts_load(program: ClusterProgram, loaded: Replay, hosts: int, partition: Together) -> float:
    """What the busiest host loads, times what all hosts ask for over what it asks for."""
    if hosts == 1 or not loaded.requested_bytes:
        return loaded.miss_bytes
    is_read = ~program.priced.access_is_result
    asked = int((program.priced.access_bytes * program.copies(partition, hosts))[is_read].sum())
    return loaded.miss_bytes * asked / loaded.requested_bytes


def _energy(result: ClusterResult, compute: float | None, messages: float | None) -> float | None:
    per_byte: float | None = getattr(result.point.tier, "energy_j_per_byte", None)
    loads = 0.0 if result.loaded_bytes == 0 else None if per_byte is None else per_byte * result.loaded_bytes
    parts = (compute, loads, messages)
    return None if any(part is None for part in parts) else sum(part for part in parts if part is not None)


def _warnings(program: ClusterProgram, cluster: Cluster) -> tuple[str, ...]:
    limbs, special = program.most_limbs, program.params.num_p
    # Opposed, P is dealt from the last host down: on hosts that hold no limb of Q, as long as there are such.
    most = limbs + special if cluster.partition == "rplp-opposed" else max(limbs, special)
    if not cluster.partition.startswith("rplp") or not limbs or cluster.hosts <= most:
        return ()
    return (
        f"{cluster.hosts} hosts for {limbs} limbs of Q and {special} of P at most: a limb is not cut, so "
        f"{cluster.hosts - most} hosts never hold one and only make exchanges longer; use {most} hosts at most, or "
        "partition by-ciphertext or by-tenant",
    )
