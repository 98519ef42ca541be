"""The engine's twin: slow, obvious, and equal to it integer for integer. Only tests and benchmarks use it.

The rules are those of the crate `penstock-sim`; its documentation says why each is as it is. Here they are once more,
with plain lists and dictionaries. Input is checked by the engine alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol


@dataclass(slots=True)
class OracleReplay:
    """As `_engine.Replay`, with lists."""

    miss_bytes: list[int] = field(default_factory=list)
    transfers: list[int] = field(default_factory=list)
    hit_mask: list[bool] = field(default_factory=list)
    hits: int = 0
    misses: int = 0
    hit_bytes: int = 0
    total_miss_bytes: int = 0
    evictions: int = 0
    streamed: int = 0
    peak_resident_bytes: int = 0


class _Policy(Protocol):
    def touch(self, obj: int, at: int) -> bool:
        """A resident object is accessed; false if it gives up its room at once."""

    def admits(self, obj: int, at: int) -> bool:
        """Whether an object that is not resident may come in."""

    def leaving_order(self, obj: int, at: int) -> list[int]:
        """The residents that may leave for `obj`, first to leave first."""

    def insert(self, obj: int, at: int) -> None: ...

    def remove(self, obj: int) -> None: ...


class _Lru:
    def __init__(self, objects: Sequence[int]) -> None:
        self._by_age: list[int] = []

    def touch(self, obj: int, at: int) -> bool:
        self._by_age.remove(obj)
        self._by_age.append(obj)
        return True

    def admits(self, obj: int, at: int) -> bool:
        return True

    def leaving_order(self, obj: int, at: int) -> list[int]:
        return [other for other in self._by_age if other != obj]

    def insert(self, obj: int, at: int) -> None:
        self._by_age.append(obj)

    def remove(self, obj: int) -> None:
        self._by_age.remove(obj)


class _Belady:
    def __init__(self, objects: Sequence[int]) -> None:
        self._uses: dict[int, list[int]] = {}
        for at, obj in enumerate(objects):
            self._uses.setdefault(obj, []).append(at)
        self._residents: set[int] = set()

    def _next_use(self, obj: int, at: int) -> int | None:
        uses = self._uses[obj]
        after = bisect_right(uses, at)
        return uses[after] if after < len(uses) else None

    def touch(self, obj: int, at: int) -> bool:
        return self._next_use(obj, at) is not None

    def admits(self, obj: int, at: int) -> bool:
        return self._next_use(obj, at) is not None

    def leaving_order(self, obj: int, at: int) -> list[int]:
        own = self._next_use(obj, at)
        later: list[tuple[int, int]] = []
        for other in self._residents:
            use = self._next_use(other, at)
            # Every resident is used again: it would have left otherwise.
            if use is not None and own is not None and use > own:
                later.append((use, other))
        return [other for _, other in sorted(later, reverse=True)]

    def insert(self, obj: int, at: int) -> None:
        self._residents.add(obj)

    def remove(self, obj: int) -> None:
        self._residents.remove(obj)


POLICIES: dict[str, type[_Lru] | type[_Belady]] = {"lru": _Lru, "belady": _Belady}


def replay(
    access_start: Sequence[int],
    access_object: Sequence[int],
    access_bytes: Sequence[int],
    policy: str,
    capacity_bytes: int,
) -> OracleReplay:
    """Accesses through an empty cache of `capacity_bytes`."""
    order: _Policy = POLICIES[policy](access_object)
    resident: dict[int, int] = {}
    out = OracleReplay()
    for first, end in pairwise(access_start):
        row_bytes = row_transfers = 0
        for at in range(first, end):
            obj, wanted = access_object[at], access_bytes[at]
            have = resident.get(obj, 0)
            missing = max(0, wanted - have)
            out.hit_mask.append(missing == 0)
            row_bytes += missing
            row_transfers += missing > 0
            out.hit_bytes += wanted - missing

            if have > 0:
                stays = order.touch(obj, at)
                if not stays:
                    order.remove(obj)
                    del resident[obj]
            else:
                stays = order.admits(obj, at)
            if missing == 0:
                continue
            if wanted > capacity_bytes:
                out.streamed += 1
                continue
            if not stays:
                continue
            victims = _victims(
                order.leaving_order(obj, at), resident, sum(resident.values()) + missing - capacity_bytes
            )
            if victims is None:
                continue
            for victim in victims:
                order.remove(victim)
                del resident[victim]
                out.evictions += 1
            if have == 0:
                order.insert(obj, at)
            resident[obj] = wanted
            out.peak_resident_bytes = max(out.peak_resident_bytes, sum(resident.values()))
        out.miss_bytes.append(row_bytes)
        out.transfers.append(row_transfers)
    out.hits = sum(out.hit_mask)
    out.misses = len(out.hit_mask) - out.hits
    out.total_miss_bytes = sum(out.miss_bytes)
    return out


def _victims(leaving: list[int], resident: dict[int, int], needed: int) -> list[int] | None:
    """The first of `leaving` that free `needed` bytes; `None` if all of them do not."""
    victims: list[int] = []
    for obj in leaving:
        if needed <= 0:
            break
        victims.append(obj)
        needed -= resident[obj]
    return victims if needed <= 0 else None


def replay_uncached(
    access_start: Sequence[int], access_object: Sequence[int], access_bytes: Sequence[int]
) -> OracleReplay:
    """Every access loaded whole."""
    rows = list(pairwise(access_start))
    return OracleReplay(
        miss_bytes=[sum(access_bytes[first:end]) for first, end in rows],
        transfers=[end - first for first, end in rows],
        hit_mask=[False] * len(access_object),
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


def _seconds(attoseconds: int) -> float:
    return float(attoseconds) / ATTOSECONDS_PER_SECOND
