"""A program whose data does not fit in fast memory, on a machine and over tiers: flat rows, one a simulated point.

The storage-I/O study's law is the closed form of the time mode `serial`: with D bytes that have to come from the tier
per second of ideal time, and a tier of bandwidth BW, the slowdown is 1 + D / BW.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from penstock.errors import UsageError
from penstock.machines.schema import Machine, Tier
from penstock.params.ckks import KeyForm
from penstock.simulation.memory.locality import locality_table as locality_table
from penstock.simulation.memory.prefetch import Prefetch
from penstock.simulation.price import Floats, PricedTrace, price_trace
from penstock.traces.schema import Trace

if TYPE_CHECKING:
    from penstock.simulation.memory.hierarchy import Cache, Point, Replay
    from penstock.simulation.memory.tenants import Tenants

ROW_NAMES = (
    "workload", "params", "machine", "tier", "mode", "cache_bytes", "policy", "hit_ratio", "hosts", "network",
    "compute_s", "io_s", "decode_s", "communication_s", "total_s", "slowdown", "energy_j", "key_bytes", "io_bytes",
    "prefetch", "provenance",
)  # fmt: skip
"""Names of a row of `simulate`, in their order."""
FORCED_POLICY = "forced"
"""`policy` of a row whose hit ratio was stated, not the outcome of a cache."""
IDEAL_SHARE = 0.8
"""The share of the ideal speed that the study asks the hit ratio for."""


def serial_slowdown(
    bytes_per_ideal_s: float,
    bandwidth_bytes_per_s: float,
    *,
    hit_ratio: float = 0.0,
    decode_bytes_per_s: float | None = None,
) -> float:
    """Total over ideal time where compute, transfer (and decoding) follow each other: 1 + D / BW.

    Args:   bytes_per_ideal_s: D, bytes asked for per second of ideal time; hit_ratio: share of them that is resident.
    Raises: UsageError: a negative demand, a bandwidth that is not positive, a hit ratio outside 0 to 1.
    Source: the storage-I/O study's law; bandwidths in decimal GB/s.
    >>> round(serial_slowdown(1633e9, 12.5e9), 1)
    131.6
    """
    _check(bytes_per_ideal_s, bandwidth_bytes_per_s)
    if not 0 <= hit_ratio <= 1:
        raise UsageError(f"hit ratio {hit_ratio}: it lies between 0 and 1")
    seconds_per_byte = 1 / bandwidth_bytes_per_s
    if decode_bytes_per_s is not None:
        _check(bytes_per_ideal_s, decode_bytes_per_s)
        seconds_per_byte += 1 / decode_bytes_per_s
    return 1 + (1 - hit_ratio) * bytes_per_ideal_s * seconds_per_byte


def required_hit_ratio(
    bytes_per_ideal_s: float,
    bandwidth_bytes_per_s: float,
    target: float = IDEAL_SHARE,
    *,
    reads_per_ideal_s: float = 0.0,
    latency_s: float = 0.0,
) -> float:
    """Share of the bytes that must be resident to reach `target` of the ideal speed, by the serial law.

    `target` of the ideal speed is a slowdown of 1 / target, so at most (1 / target - 1) BW bytes may come from the tier
    in each second of ideal time; each read takes `latency_s` beside its bytes. 0 where the tier alone is fast enough.
    Raises: UsageError: as for `serial_slowdown`; a target outside 0 to 1, or 0.
    >>> round(required_hit_ratio(1633e9, 64e9), 4)
    0.9902
    """
    _check(bytes_per_ideal_s, bandwidth_bytes_per_s)
    if not 0 < target <= 1:
        raise UsageError(f"target {target}: it is a share of the ideal speed, more than 0 and at most 1")
    if not (reads_per_ideal_s >= 0 and 0 <= latency_s < float("inf")):
        raise UsageError(f"{reads_per_ideal_s} reads a second of {latency_s} s latency: neither is negative")
    if bytes_per_ideal_s == 0:
        return 0.0
    waiting_s = reads_per_ideal_s * latency_s
    if waiting_s:
        bandwidth_bytes_per_s = bytes_per_ideal_s / (bytes_per_ideal_s / bandwidth_bytes_per_s + waiting_s)
    return max(0.0, 1 - (1 / target - 1) * bandwidth_bytes_per_s / bytes_per_ideal_s)


def _check(bytes_per_ideal_s: float, bandwidth_bytes_per_s: float) -> None:
    if not bytes_per_ideal_s >= 0:
        raise UsageError(f"a demand of {bytes_per_ideal_s} bytes a second: it is not negative")
    if not bandwidth_bytes_per_s > 0:
        raise UsageError(f"a bandwidth of {bandwidth_bytes_per_s} bytes a second: it is more than zero")


def simulate(
    trace: Trace,
    machine: Machine,
    tiers: Sequence[Tier],
    *,
    caches: Iterable[Cache] | None = None,
    modes: Sequence[str] = ("serial",),
    classes: Sequence[str] = ("key",),
    key_form: KeyForm | None = None,
    decode_bytes_per_s: float | None = None,
    prefetch_depth: int = 1,
    prefetches: Sequence[Prefetch] | None = None,
    priced: PricedTrace | None = None,
    tenants: Tenants | None = None,
    warnings: list[str] | None = None,
) -> list[dict[str, Any]]:
    """One row for each cache, tier and time mode.

    Args:   caches: what holds the classes that are not resident: `NoCache()`, `ForcedHitRatio(h)`, `Lru(capacity)`,
            `Belady(capacity)` of `penstock.simulation.memory.hierarchy` (default: every access comes from the tier);
            classes, key_form: as in `price_trace`; decode_bytes_per_s: rate of a decode stage behind the tier;
            prefetch_depth: operations that `overlap` loads ahead; prefetches: a row for each of these in `overlap`
            instead; priced: the trace priced on this machine already; tenants: the programs that `priced` is made of,
            for a list `tenants` in each row; warnings: gets what makes a result less than it seems, once each.
    Returns: rows with the names `ROW_NAMES`. `hit_ratio` is the stated one, or the share of the bytes that the cache
            served; `slowdown` is `total_s / compute_s`; `key_bytes` counts every read of an evaluation key;
            `io_bytes` came from the tier; `energy_j` is that of computing and of the transfers, `None` where either
            is not known.
    Raises: as `price_trace`; UnknownName: no such time mode; SimulationInputError.
    """
    from penstock.simulation.memory.hierarchy import NoCache, Point, play_many, replay

    if priced is None:
        priced = price_trace(trace, machine, key_form=key_form, classes=classes)
    accesses = priced.accesses
    compute_j = float(priced.joules.sum()) if priced.joules is not None else None
    places = [
        (tier, mode, ahead)
        for tier in tiers
        for mode in modes
        for ahead in (prefetches or (Prefetch(prefetch_depth),) if mode == "overlap" else (None,))
    ]
    points = [
        Point(
            tier=tier,
            mode=cast(Literal["serial", "overlap", "bound"], mode),
            decode_bytes_per_s=decode_bytes_per_s,
            prefetch_depth=1 if ahead is None else ahead.depth,
            prefetch_buffer_bytes=None if ahead is None else ahead.buffer_bytes,
        )
        for tier, mode, ahead in places
    ]
    rows: list[dict[str, Any]] = []
    for cache in [NoCache()] if caches is None else caches:
        loaded = replay(accesses, cache)
        capacity, policy, stated = _described(cache)
        timelines = play_many(priced.compute_s, loaded, points)
        for (tier, mode, ahead), point, played in zip(places, points, timelines, strict=True):
            io_j = 0.0 if loaded.miss_bytes == 0 else played.io_energy_j
            rows.append(
                {
                    "workload": priced.workload,
                    "params": priced.params,
                    "machine": machine.name,
                    "tier": tier.name,
                    "mode": mode,
                    "cache_bytes": capacity,
                    "policy": policy,
                    "hit_ratio": loaded.byte_hit_ratio if stated is None else stated,
                    "hosts": 1,
                    "network": None,
                    "compute_s": played.compute_s,
                    "io_s": played.io_s,
                    "decode_s": played.decode_s,
                    "communication_s": 0.0,
                    "total_s": played.total_s,
                    "slowdown": played.slowdown,
                    "energy_j": None if compute_j is None or io_j is None else compute_j + io_j,
                    "key_bytes": priced.bytes_by_class["key"],
                    "io_bytes": loaded.miss_bytes,
                    "prefetch": None if ahead is None else str(ahead),
                    "provenance": "simulated",
                }
            )
            if warnings is not None:
                warnings += [warning for warning in played.warnings if warning not in warnings]
            if tenants is not None:
                rows[-1]["tenants"] = tenants.summary(_ends(priced, loaded, point), loaded.operation_bytes)
    return rows


def _ends(priced: PricedTrace, loaded: Replay, point: Point) -> Floats | None:
    """(n,) when each operation ends; `None` where the mode puts none at a time."""
    from penstock.simulation.memory.hierarchy import play_replay

    if point.mode == "bound":
        return None
    schedule = play_replay(
        priced.compute_s,
        loaded,
        point.tier,
        mode=point.mode,
        decode_bytes_per_s=point.decode_bytes_per_s,
        prefetch_depth=point.prefetch_depth,
        prefetch_buffer_bytes=point.prefetch_buffer_bytes,
        timeline=True,
    ).schedule
    return None if schedule is None else schedule.compute_end_s


def _described(cache: Cache) -> tuple[int | None, str, float | None]:
    """Capacity, policy and stated hit ratio of a cache."""
    from penstock.simulation.memory.hierarchy import ForcedHitRatio, NoCache

    if isinstance(cache, NoCache):
        return None, FORCED_POLICY, 0.0
    if isinstance(cache, ForcedHitRatio):
        return None, FORCED_POLICY, float(cache.hit_ratio)
    return int(cache.capacity_bytes), cache.policy, None
