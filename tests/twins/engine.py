"""The engine's twin: slow, obvious, and equal to it integer for integer. Only tests and benchmarks use it.

The rules are those of the crate `penstock-sim`; its documentation says why each is as it is. Here they are once more,
with plain lists and dictionaries. Input is checked by the engine alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from twins.policies import POLICIES, Optimal, Policy

TWINS = (*POLICIES, "optimal")
"""Names of the policies that have a twin."""


@dataclass(slots=True)
class OracleReplay:
    """As `_engine.Replay`, with lists."""

    miss_bytes: list[int] = field(default_factory=list)
    transfers: list[int] = field(default_factory=list)
    access_miss_bytes: list[int] = field(default_factory=list)
    hits: int = 0
    misses: int = 0
    hit_bytes: int = 0
    total_miss_bytes: int = 0
    evictions: int = 0
    streamed: int = 0
    peak_resident_bytes: int = 0


class OracleCache:
    """One cache, access by access."""

    def __init__(self, access_object: Sequence[int], policy: str | Policy, capacity_bytes: int) -> None:
        self._order = POLICIES[policy](access_object, capacity_bytes) if isinstance(policy, str) else policy
        self._capacity = capacity_bytes
        self._resident: dict[int, int] = {}
        self.evictions = 0
        self.streamed = 0
        self.peak_resident_bytes = 0

    def access(self, obj: int, wanted: int, at: int) -> int:
        """The access at position `at`; gives the bytes of it that are not there, 0 for a hit."""
        resident, order = self._resident, self._order
        have = resident.get(obj, 0)
        missing = max(0, wanted - have)
        if have > 0:
            stays = order.touch(obj, at)
            if not stays:
                del resident[obj]
        else:
            stays = order.admits(obj, at)
        if missing == 0:
            return 0
        if wanted > self._capacity:
            self.streamed += 1
            return missing
        if not stays:
            return missing
        needed = sum(resident.values()) + missing - self._capacity
        if needed > 0:
            victims = order.make_room(obj, at, needed, resident)
            if victims is None:
                return missing
            for victim in victims:
                del resident[victim]
                self.evictions += 1
        resident[obj] = wanted
        order.insert(obj, at, resident)
        self.peak_resident_bytes = max(self.peak_resident_bytes, sum(resident.values()))
        return missing


def replay(
    access_start: Sequence[int],
    access_object: Sequence[int],
    access_bytes: Sequence[int],
    policy: str | Policy,
    capacity_bytes: int,
) -> OracleReplay:
    """Accesses through an empty cache of `capacity_bytes`."""
    cache: OracleCache | Optimal = (
        Optimal(access_object, access_bytes, capacity_bytes)
        if policy == "optimal"
        else OracleCache(access_object, policy, capacity_bytes)
    )
    missing = [cache.access(access_object[at], access_bytes[at], at) for at in range(len(access_object))]
    rows = [missing[first:end] for first, end in pairwise(access_start)]
    return OracleReplay(
        miss_bytes=[sum(row) for row in rows],
        transfers=[sum(each > 0 for each in row) for row in rows],
        access_miss_bytes=missing,
        hits=missing.count(0),
        misses=len(missing) - missing.count(0),
        hit_bytes=sum(access_bytes) - sum(missing),
        total_miss_bytes=sum(missing),
        evictions=cache.evictions,
        streamed=cache.streamed,
        peak_resident_bytes=cache.peak_resident_bytes,
    )


def replay_uncached(
    access_start: Sequence[int], access_object: Sequence[int], access_bytes: Sequence[int]
) -> OracleReplay:
    """Every access loaded whole."""
    rows = list(pairwise(access_start))
    return OracleReplay(
        miss_bytes=[sum(access_bytes[first:end]) for first, end in rows],
        transfers=[end - first for first, end in rows],
        access_miss_bytes=list(access_bytes),
        misses=len(access_object),
        total_miss_bytes=sum(access_bytes),
    )


def replay_forced(
    access_start: Sequence[int], access_bytes: Sequence[int], hit_ratio: float
) -> tuple[list[float], list[float]]:
    """Bytes and transfers of each operation, as expected values."""
    rows = list(pairwise(access_start))
    return (
        [(1.0 - hit_ratio) * sum(access_bytes[first:end]) for first, end in rows],
        [(1.0 - hit_ratio) * (end - first) for first, end in rows],
    )


ATTOSECONDS_PER_SECOND = 1e18
CLOCK_LIMIT = (2**63 - 1) * 10**6
"""The end of the clock, in attoseconds: the largest 64-bit number of picoseconds."""


@dataclass(slots=True)
class OracleTimes:
    """As `_engine.Times`; the schedule is six lists in the order of `_engine.Schedule`, empty for `bound`."""

    compute_s: float
    io_s: float
    decode_s: float
    total_s: float
    stall_s: float
    schedule: list[list[float]]


def play_time(
    compute_s: Sequence[float],
    io_bytes: Sequence[float],
    transfers: Sequence[float],
    bandwidth_bytes_per_s: float,
    latency_s: float,
    decode_bytes_per_s: float,
    mode: str,
    prefetch_depth: int,
) -> OracleTimes:
    """Compute and loads over one tier, in whole attoseconds; Python's `round` is half to even, as the engine's.

    Raises: OverflowError: past the end of the clock.
    """
    compute = [round(s * ATTOSECONDS_PER_SECOND) for s in compute_s]
    io = [
        round((b / bandwidth_bytes_per_s + t * latency_s) * ATTOSECONDS_PER_SECOND)
        for b, t in zip(io_bytes, transfers, strict=True)
    ]
    decode = [round(b / decode_bytes_per_s * ATTOSECONDS_PER_SECOND) for b in io_bytes]
    n = len(compute)

    rows: list[tuple[int, int, int, int, int, int]] = []
    if mode == "serial":
        now = 0
        for i in range(n):
            io_end = now + io[i]
            decode_end = io_end + decode[i]
            compute_end = decode_end + compute[i]
            rows.append((now, io_end, io_end, decode_end, decode_end, compute_end))
            now = compute_end
        total = now
    elif mode == "overlap":
        for i in range(n):
            before = rows[i - 1] if i > 0 else (0,) * 6
            buffer_free = rows[i - 1 - prefetch_depth][5] if i - 1 - prefetch_depth >= 0 else 0
            io_start = max(before[1], buffer_free)
            io_end = io_start + io[i]
            decode_start = max(io_end, before[3])
            decode_end = decode_start + decode[i]
            compute_start = max(decode_end, before[5])
            rows.append((io_start, io_end, decode_start, decode_end, compute_start, compute_start + compute[i]))
        total = rows[-1][5] if rows else 0
    elif mode == "bound":
        total = max(sum(compute), sum(io), sum(decode))
    else:
        raise ValueError(mode)
    if max(total, sum(compute), sum(io), sum(decode)) > CLOCK_LIMIT:
        raise OverflowError("past the end of the clock")

    return OracleTimes(
        compute_s=_seconds(sum(compute)),
        io_s=_seconds(sum(io)),
        decode_s=_seconds(sum(decode)),
        total_s=_seconds(total),
        stall_s=_seconds(total - sum(compute)),
        schedule=[[_seconds(row[column]) for row in rows] for column in range(6)] if mode != "bound" else [],
    )


@dataclass(slots=True)
class OracleLevel:
    """What crossed the channel of a level, and what it served."""

    operation_bytes: list[int]
    operation_transfers: list[int]
    served_bytes: int = 0
    hits: int = 0


def replay_levels(
    rows: Sequence[Sequence[tuple[int, int]]], levels: Sequence[tuple[str, int] | None]
) -> list[OracleLevel]:
    """Accesses through several levels, one after the other down all levels; a level is a policy and a capacity.

    The last level is `None` and holds everything. Policies that know the
    future have no twin here: a lower level would have to know which accesses will reach it.
    """
    caches = [None if level is None else OracleCache([], *level) for level in levels]
    out = [OracleLevel([0] * len(rows), [0] * len(rows)) for _ in levels]
    at = 0
    for i, row in enumerate(rows):
        for obj, wanted in row:
            held = 0
            for cache, level in zip(caches, out, strict=True):
                level.operation_transfers[i] += 1
                level.operation_bytes[i] += wanted - held
                has = wanted if cache is None else wanted - cache.access(obj, wanted, at)
                if has > held:
                    level.served_bytes += has - held
                    held = has
                if has == wanted:
                    level.hits += 1
                    break
            at += 1
    return out


def written_back(
    rows: Sequence[Sequence[tuple[int, int, bool]]], levels: Sequence[tuple[str, int] | None]
) -> list[list[int]]:
    """Bytes of results that each operation writes down over the channel of each level, byte by byte.

    Args:   rows: of each operation (object, bytes, whether it is made); levels: as of `replay_levels`.
    """
    caches = [None if level is None else OracleCache([], *level) for level in levels]
    written = [[0] * len(rows) for _ in levels]
    down: list[set[tuple[int, int]]] = [set() for _ in levels]
    moved: dict[int, int] = {}
    at = 0
    for i, row in enumerate(rows):
        for obj, wanted, made in row:
            if made:
                moved.setdefault(obj, min(i + 1, len(rows) - 1))
            held = 0
            for j, cache in enumerate(caches):
                if obj in moved and not made:
                    for byte in range(held, wanted):
                        if (obj, byte) not in down[j]:
                            down[j].add((obj, byte))
                            written[j][moved[obj]] += 1
                has = wanted if cache is None else wanted - cache.access(obj, wanted, at)
                held = max(held, has)
                if has == wanted:
                    break
            at += 1
    return written


@dataclass(slots=True)
class OracleStages:
    """As `_engine.StageTimes`; starts and ends are empty for `bound`."""

    busy_s: list[float]
    idle_s: list[float]
    total_s: float
    oversized: int
    start_s: list[list[float]]
    end_s: list[list[float]]


def play_stages(
    stages_s: Sequence[Sequence[float]],
    held_bytes: Sequence[float],
    mode: str,
    depth: int | None,
    buffer_bytes: float | None,
    depths: Sequence[int] | None = None,
) -> OracleStages:
    """Operations through stages in program order; `depths`: of each operation, next to `depth`.

    Raises: OverflowError: past the end of the clock.
    """
    stages = [[round(s * ATTOSECONDS_PER_SECOND) for s in stage] for stage in stages_s]
    sums = list(accumulate(held_bytes, initial=0.0))
    starts: list[list[int]] = [[] for _ in stages]
    ends: list[list[int]] = [[] for _ in stages]
    for i in range(len(held_bytes)):
        ready = 0
        if mode == "serial":
            ready = ends[-1][i - 1] if i > 0 else 0
        if mode == "overlap":
            waits_for = [] if depth is None else list(range(i - depth))
            if depths is not None:
                waits_for += range(i - depths[i])
            if buffer_bytes is not None:
                waits_for += [j for j in range(i) if sums[i + 1] - sums[j] > buffer_bytes]
            ready = max((ends[-1][j] for j in waits_for), default=0)
        for stage, durations in enumerate(stages):
            start = max(ready, ends[stage][i - 1] if i > 0 else 0)
            ready = start + durations[i]
            starts[stage].append(start)
            ends[stage].append(ready)
    busy = [sum(stage) for stage in stages]
    total = max(busy) if mode == "bound" else (ends[-1][-1] if held_bytes else 0)
    if max(total, *busy) > CLOCK_LIMIT:
        raise OverflowError("past the end of the clock")
    oversized = 0
    if mode == "overlap" and buffer_bytes is not None:
        oversized = sum(held > buffer_bytes for held in held_bytes)
    shown = [] if mode == "bound" else starts, [] if mode == "bound" else ends
    return OracleStages(
        busy_s=[_seconds(each) for each in busy],
        idle_s=[_seconds(total - each) for each in busy],
        total_s=_seconds(total),
        oversized=oversized,
        start_s=[[_seconds(each) for each in stage] for stage in shown[0]],
        end_s=[[_seconds(each) for each in stage] for stage in shown[1]],
    )


def _seconds(attoseconds: int) -> float:
    return float(attoseconds) / ATTOSECONDS_PER_SECOND
