"""A program on several hosts: compute, loads from each host's tier, and communication between them.

Each host has a machine, a tier and a cache; a network of some topology joins them. What a host computes, loads and
sends follows from the partition (`partitions`), and how long messages take from the network (`flows`). Hosts that run
an operation together wait for each other in every exchange, so the busiest host sets the time: operation by operation,
at its limbs, kernel by kernel.

Time modes: `serial` adds compute, loads and communication; `overlap` lets loads run ahead of compute and
communication, which stay in turn; `bound` takes the largest of the three sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from penstock.errors import ConservationError, UsageError
from penstock.lab.simulation.cluster.flows import STAR
from penstock.lab.simulation.cluster.partitions import ByCiphertext, Together, partition_named
from penstock.lab.simulation.cluster.program import ClusterProgram
from penstock.lab.simulation.cluster.shapes import dealt, exchanges
from penstock.lab.simulation.cluster.simgrid import SimGrid
from penstock.lab.simulation.cluster.spec import Cluster
from penstock.scheme.play.caches import Cache, ForcedHitRatio, NoCache
from penstock.scheme.play.engine import _engine
from penstock.scheme.play.hierarchy import (
    BackingTier,
    Pace,
    PlayedPoint,
    Replay,
    channel_seconds,
    energy_j,
    play_many,
    replay,
)

ROUNDING = 1e-9


def play_clusters(
    program: ClusterProgram,
    clusters: Sequence[Cluster],
    paces: Sequence[Pace],
    *,
    cache: Cache | None = None,
    simgrid: SimGrid | None = None,
) -> list[PlayedPoint]:
    """Plays a program on many clusters over many tiers: all paces of the first cluster, then of the second, ….

    Work is priced once for each shape and number of hosts, messages once for each exchange and network.

    Raises: UsageError: a partition that does not go with the time mode, the cache or the topology; UnknownName;
            SimulationInputError; CapabilityMissing: SimGrid is asked for and not there.
    """
    table = _Table(program, NoCache() if cache is None else cache, simgrid)
    return [result for cluster in clusters for result in _play(table, cluster, paces)]


def _play(table: _Table, cluster: Cluster, paces: Sequence[Pace]) -> list[PlayedPoint]:
    partition = partition_named(cluster.partition)
    if isinstance(partition, Together):
        return _play_together(table, cluster, partition, paces)
    if isinstance(partition, ByCiphertext):
        return [_play_by_ciphertext(table, cluster, pace) for pace in paces]
    return _play_by_tenant(table, cluster, paces)


def one_host(cluster: Cluster) -> Cluster:
    """The one host that a cluster's speed-up is against, by the same model of time.

    List scheduling lets the loads of an operation run next to its own computing; the others prefetch.
    """
    return Cluster(hosts=1, partition=ByCiphertext.name if cluster.partition == ByCiphertext.name else "rplp")


def unsuitable(cluster: Cluster, cache: Cache, mode: str) -> str | None:
    """Why a cluster cannot be played so; `None` where it can."""
    if cluster.partition != ByCiphertext.name:
        return None
    if mode == "bound":
        return "it has modes serial and overlap, not bound"
    if not isinstance(cache, NoCache | ForcedHitRatio):
        return (
            "which operations a host runs depends on times, and so does what a cache of a size holds: state a hit ratio"
        )
    if cluster.layout.name != STAR:
        return f"it is modelled with one switch that never blocks: use topology {STAR}"
    return None


def without_messages(cluster: Cluster) -> str | None:
    """Why a cluster has no messages that SimGrid could play; `None` where it has."""
    if cluster.hosts == 1:
        return "one host sends no messages"
    if not isinstance(partition_named(cluster.partition), Together):
        return f"it plays exchanges of hosts that work together; with partition {cluster.partition} they do not"
    return None


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


def _play_together(table: _Table, cluster: Cluster, partition: Together, paces: Sequence[Pace]) -> list[PlayedPoint]:
    program, counts = table.program, table.program.shapes.counts
    loaded = table.loaded(partition, cluster.hosts)
    shared = dealt(program, partition, cluster.hosts)
    exchange = exchanges(program, partition, cluster, table.simgrid)
    compute_s, communication_s = float(shared.compute_s @ counts), float(exchange.seconds @ counts)
    loaded_bytes = _all_hosts_load(program, loaded, cluster.hosts, partition)
    # Together they stay in turn in every mode but `bound`, which treats communication as a separate resource.
    played: dict[int, PlayedPoint] = {}
    for apart, seconds in ((False, shared.compute_s + exchange.seconds), (True, shared.compute_s)):
        chosen = [i for i, pace in enumerate(paces) if (pace.mode == "bound") == apart]
        if chosen:
            busy = seconds[program.shapes.of_row]
            played.update(zip(chosen, play_many(busy, loaded, [paces[i] for i in chosen]), strict=True))
    sent_bytes, sent_j = float(exchange.sent_bytes @ counts), exchange.joules(counts)
    warnings, results = _warnings(program, cluster), []
    for i, pace in enumerate(paces):
        result = replace(
            played[i],
            compute_s=compute_s,
            communication_s=communication_s,
            total_s=max(played[i].total_s, communication_s) if pace.mode == "bound" else played[i].total_s,
            loaded_bytes=loaded_bytes,
            sent_bytes=sent_bytes,
            warnings=(*played[i].warnings, *warnings),
        )
        if pace.mode == "serial" and abs(result.wait_s) > ROUNDING * max(result.total_s, 1e-12):
            raise ConservationError(
                f"serial parts of {cluster.described} miss the total by {result.wait_s} s of {result.total_s} s; "
                "please report it"
            )
        results.append(replace(result, energy_j=_energy(result, pace.tier, shared.joules, sent_j)))
    return results


def _play_by_ciphertext(table: _Table, cluster: Cluster, pace: Pace) -> PlayedPoint:
    program, network = table.program, cluster.network
    why = unsuitable(cluster, table.cache, pace.mode)
    if why is not None:
        raise UsageError(f"partition {ByCiphertext.name}: {why}")
    loaded = replay(program.accesses(), table.cache)
    loads = np.asarray(loaded.operation_bytes, dtype=np.float64)
    io = channel_seconds(loads, np.asarray(loaded.operation_transfers, dtype=np.float64), pace.tier)
    decode = loads / (np.inf if pace.decode_bytes_per_s is None else pace.decode_bytes_per_s)
    compute = program.priced.compute_s
    duration = compute + io + decode if pace.mode == "serial" else np.maximum(compute, io + decode)
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
    got = min(tried, key=lambda played: played.total_s)
    last = int(got.host[np.argmax(got.start_s + duration)]) if len(duration) else 0
    mine = got.host == last
    result = PlayedPoint(
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
    return replace(result, energy_j=_energy(result, pace.tier, program.priced.compute_j, sent))


def _play_by_tenant(table: _Table, cluster: Cluster, paces: Sequence[Pace]) -> list[PlayedPoint]:
    """As one host; everything that is counted over all hosts is so many times as much."""
    alone = replace(cluster, hosts=1, topology=STAR, partition="rplp")
    hosts = cluster.hosts
    return [
        replace(
            single,
            programs=hosts,
            loaded_bytes=hosts * single.loaded_bytes,
            energy_j=None if single.energy_j is None else hosts * single.energy_j,
        )
        for single in _play(table, alone, paces)
    ]


def _all_hosts_load(program: ClusterProgram, loaded: Replay, hosts: int, partition: Together) -> float:
    """Loads of the busiest host, times the ratio of all hosts' requests to its own."""
    if hosts == 1 or not loaded.requested_bytes:
        return loaded.miss_bytes
    is_read = ~program.priced.access_is_result
    asked = int((program.priced.access_bytes * program.copies(partition, hosts))[is_read].sum())
    return loaded.miss_bytes * asked / loaded.requested_bytes


def _energy(result: PlayedPoint, tier: BackingTier, compute: float | None, messages: float | None) -> float | None:
    loads = energy_j(tier, result.loaded_bytes) if result.loaded_bytes else 0.0
    parts = (compute, loads, messages)
    return None if any(part is None for part in parts) else sum(part for part in parts if part is not None)


def _warnings(program: ClusterProgram, cluster: Cluster) -> tuple[str, ...]:
    limbs, special = int(program.shapes.limbs_in.max(initial=0)), program.params.num_p
    # Opposed, P is dealt from the last host down: on hosts that hold no limb of Q, as long as there are such.
    most = limbs + special if cluster.partition == "rplp-opposed" else max(limbs, special)
    if not cluster.partition.startswith("rplp") or not limbs or cluster.hosts <= most:
        return ()
    return (
        f"{cluster.hosts} hosts for {limbs} limbs of Q and {special} of P at most: a limb is not cut, so "
        f"{cluster.hosts - most} hosts never hold one and only make exchanges longer; use {most} hosts at most, or "
        "partition by-ciphertext or by-tenant",
    )
