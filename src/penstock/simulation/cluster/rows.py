"""Flat rows of a program on clusters: those of `penstock.simulation.memory.slowdowns`, with what several hosts add."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.machines.schema import Tier
from penstock.simulation.caches import Cache, ForcedHitRatio, NoCache
from penstock.simulation.cluster.cluster import Cluster, ClusterResult, play_clusters
from penstock.simulation.cluster.program import ClusterProgram
from penstock.simulation.cluster.simgrid import SimGrid
from penstock.simulation.memory.hierarchy import Mode, Point
from penstock.simulation.memory.prefetch import Prefetch
from penstock.simulation.memory.slowdowns import FORCED_POLICY, ROW_NAMES

CLUSTER_NAMES = (
    "topology",
    "partition",
    "all_gather",
    "broadcast",
    "programs",
    "speedup",
    "sent_bytes",
    "loaded_bytes",
)
"""Names that a row of a cluster has beside `ROW_NAMES`, in their order."""


def cluster_rows(
    program: ClusterProgram,
    clusters: Sequence[Cluster],
    tiers: Sequence[Tier],
    *,
    modes: Sequence[Mode] = ("serial",),
    caches: Sequence[Cache] | None = None,
    decode_bytes_per_s: float | None = None,
    prefetches: Sequence[Prefetch] = (Prefetch(),),
    simgrid: SimGrid | None = None,
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """One row for each cache, cluster, tier and time mode; and what the results warn of, each warning once.

    Returns: `compute_s`, `io_s` and `io_bytes` are those of the host that ends last, `loaded_bytes`, `sent_bytes` and
            `energy_j` those of all hosts; `speedup` is programs a second against one host on the same tier.
    Raises: as `play_clusters`.
    """
    places = [
        (tier, mode, ahead)
        for tier in tiers
        for mode in modes
        for ahead in (prefetches if mode == "overlap" else (None,))
    ]
    points = [
        Point(
            tier=tier,
            mode=mode,
            decode_bytes_per_s=decode_bytes_per_s,
            prefetch_depth=1 if ahead is None else ahead.depth,
            prefetch_buffer_bytes=None if ahead is None else ahead.buffer_bytes,
        )
        for tier, mode, ahead in places
    ]
    rows, warnings = list[dict[str, Any]](), dict[str, None]()
    for cache in [NoCache()] if caches is None else caches:
        # One host first, which the others are compared with; no messages, so that it does not matter who plays them.
        both = play_clusters(program, [Cluster(hosts=1), *clusters], points, cache=cache, simgrid=simgrid)
        single, played = both[: len(points)], both[len(points) :]
        for i, result in enumerate(played):
            tier, _, ahead = places[i % len(points)]
            rows.append(cluster_row(program, result, tier, ahead, cache, single[i % len(points)]))
            warnings.update(dict.fromkeys(result.warnings))
    return rows, tuple(warnings)


def cluster_row(
    program: ClusterProgram,
    result: ClusterResult,
    tier: Tier,
    ahead: Prefetch | None,
    cache: Cache,
    single: ClusterResult,
) -> dict[str, Any]:
    """The row of one result; `single`: that of one host on the same tier, for the speedup."""
    priced, cluster = program.priced, result.cluster
    known = {
        "workload": priced.workload,
        "params": priced.params,
        "machine": priced.machine,
        "tier": tier.name,
        "mode": result.point.mode,
        "cache_bytes": getattr(cache, "capacity_bytes", None),
        "policy": getattr(cache, "policy", FORCED_POLICY),
        "hit_ratio": cache.hit_ratio if isinstance(cache, ForcedHitRatio) else result.hit_ratio,
        "hosts": cluster.hosts,
        "network": cluster.network.name if cluster.network else None,
        "compute_s": result.compute_s,
        "io_s": result.io_s,
        "decode_s": result.decode_s,
        "communication_s": result.communication_s,
        "total_s": result.total_s,
        "slowdown": result.total_s / result.compute_s if result.compute_s else None,
        "energy_j": result.energy_j,
        "key_bytes": priced.bytes_by_class["key"],
        "io_bytes": result.io_bytes,
        "prefetch": None if ahead is None else str(ahead),
        "provenance": "simulated",
        "topology": cluster.layout.name,
        "partition": cluster.partition,
        "all_gather": cluster.algorithm,
        "broadcast": cluster.broadcast,
        "programs": result.programs,
        "speedup": result.speedup(single),
        "sent_bytes": result.sent_bytes,
        "loaded_bytes": result.loaded_bytes,
    }
    return {name: known.get(name) for name in (*ROW_NAMES, *CLUSTER_NAMES)}
