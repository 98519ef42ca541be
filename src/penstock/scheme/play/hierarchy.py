"""A cache in front of one backing tier: what is loaded, and the time that it takes. Typed facade of the engine.

`replay` plays accesses through a cache and returns the loads of each operation; `play_many` plays these over tiers and
returns the time at each pace. The crate `penstock-sim` has the rules, and `tests/twins` once more as plain Python.

>>> from penstock.scheme.play.caches import Lru
>>> accesses = Accesses.of([[(1, 600)], [(2, 400)], [(1, 600)]])
>>> kept = replay(accesses, Lru(1000))
>>> kept.hits, kept.misses, kept.miss_bytes
(1, 2, 1000)
>>> play_many([1e-6] * 3, kept, [Pace(tier=Rates(bandwidth_bytes_per_s=1e9))])[0].total_s
4e-06
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Floats, Ints
from penstock.base.types import Row
from penstock.base.units import format_bytes
from penstock.errors import ConservationError, SimulationInputError, UsageError, check_known
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import Cache, ForcedHitRatio, NoCache, SizedCache
from penstock.scheme.play.engine import _engine
from penstock.scheme.play.own import OperationLoads, OwnFile, depths_of, replay_own

Mode = Literal["serial", "overlap", "bound"]
MODES: tuple[str, ...] = get_args(Mode)
COMPUTE = "compute"


class BackingTier(Protocol):
    """The required attributes of a backing tier; an optional `energy_j_per_byte` gives the energy of the I/O."""

    @property
    def bandwidth_bytes_per_s(self) -> float: ...

    @property
    def latency_s(self) -> float:
        """Added once a transfer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """A tier that is nothing but its rates."""

    bandwidth_bytes_per_s: float
    latency_s: float = 0.0
    energy_j_per_byte: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replay:
    """The loads that remain behind a cache. With a forced hit ratio the counts are expected values, and floats."""

    cache: Cache
    operation_bytes: Ints | Floats
    """(n,) bytes that each operation loads from the tier."""
    operation_transfers: Ints | Floats
    """(n,) transfers of each operation: one a miss."""
    accesses: int
    """Reads: a result is neither hit nor miss."""
    requested_bytes: int
    hits: float
    """Accesses served whole from the cache; `hits + misses = accesses`."""
    misses: float
    hit_bytes: float
    """Bytes served from the cache, also by misses on objects that are there in part."""
    miss_bytes: float
    """Bytes loaded; `hit_bytes + miss_bytes = requested_bytes`."""
    evictions: int = 0
    """Objects pushed out by others."""
    streamed: int = 0
    """Misses and results larger than the whole cache; they pass by it."""
    peak_resident_bytes: int = 0
    access_miss_bytes: Ints | None = None
    """(m,) bytes that each access loads, 0 for a hit and for a result; `None` unless asked for."""
    results: int = 0
    """Accesses that make their object; they take room, and nothing is loaded for them."""

    @property
    def num_operations(self) -> int:
        return len(self.operation_bytes)

    @property
    def hit_ratio(self) -> float | None:
        """Share of the accesses; `None` without any."""
        return self.hits / self.accesses if self.accesses else None

    @property
    def byte_hit_ratio(self) -> float | None:
        """Share of the bytes; `None` without any."""
        return self.hit_bytes / self.requested_bytes if self.requested_bytes else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the result less than it seems, with the remedy."""
        if not self.streamed or not isinstance(self.cache, SizedCache):
            return ()
        return (
            f"{self.streamed} of {self.accesses + self.results} accesses need more than the whole cache "
            f"({format_bytes(self.cache.capacity_bytes)}) and pass by it; give the cache room for the largest object",
        )


def replay(accesses: Accesses, cache: Cache, *, detail: bool = False) -> Replay:
    """Plays `accesses` through `cache`, which starts empty.

    A result takes its place in the cache as a read would, and nothing is loaded for it.

    Args:   detail: also return the loads of each access, and so whether it was a hit.
    Raises: SimulationInputError: the accesses break a rule, or detail is asked of a forced hit ratio, which decides on
            no single access.
    """
    rows = (accesses.access_start, accesses.access_object, accesses.access_bytes)
    if accesses.is_result is not None:
        as_reads = Accesses(*rows)
        if not isinstance(cache, ForcedHitRatio):
            return _results_for_nothing(replay(as_reads, cache, detail=True), accesses, detail=detail)
        replay(as_reads, cache, detail=detail)  # checks all accesses
        return replace(replay(accesses.reads, cache), results=len(accesses) - int(accesses.is_read.sum()))
    if isinstance(cache, ForcedHitRatio):
        if detail:
            raise SimulationInputError("a forced hit ratio decides on no single access: it has no detail")
        return _replay_forced(accesses, cache)
    if isinstance(cache, NoCache):
        got = _engine.replay_uncached(*rows, detail=detail)
    elif cache.own is not None:
        got = replay_own(*rows, cache.own, int(cache.capacity_bytes), detail=detail)
    else:
        got = _engine.replay(*rows, cache.policy, int(cache.capacity_bytes), detail=detail)
    return Replay(
        cache=cache,
        operation_bytes=got.miss_bytes,
        operation_transfers=got.transfers,
        accesses=len(accesses),
        requested_bytes=got.hit_bytes + got.total_miss_bytes,
        miss_bytes=got.total_miss_bytes,
        **{name: getattr(got, name) for name in _COUNTED},
    )


_COUNTED = (
    "hits", "misses", "hit_bytes", "evictions", "streamed", "peak_resident_bytes", "access_miss_bytes",
)  # fmt: skip
"""What the engine counts under the names of `Replay`."""


def _results_for_nothing(kept: Replay, accesses: Accesses, *, detail: bool) -> Replay:
    """The remaining loads if results are played as reads: they change the cache, and move nothing."""
    if kept.access_miss_bytes is None or accesses.is_result is None:
        raise ConservationError("results without the detail of their replay: please report it")
    missed = np.where(accesses.is_result, 0, kept.access_miss_bytes)
    requested, loaded = int(accesses.access_bytes[accesses.is_read].sum()), int(missed.sum())
    reads, misses = int(accesses.is_read.sum()), int(np.count_nonzero(missed))
    return replace(
        kept,
        operation_bytes=accesses.by_operation(missed),
        operation_transfers=accesses.by_operation((missed > 0).astype(np.int64)),
        accesses=reads,
        results=len(accesses) - reads,
        requested_bytes=requested,
        hits=reads - misses,
        misses=misses,
        hit_bytes=requested - loaded,
        miss_bytes=loaded,
        access_miss_bytes=missed if detail else None,
    )


def _replay_forced(accesses: Accesses, cache: ForcedHitRatio) -> Replay:
    got = _engine.replay_forced(accesses.access_start, accesses.access_bytes, cache.hit_ratio)
    misses, miss_bytes = (1 - cache.hit_ratio) * got.accesses, (1 - cache.hit_ratio) * got.requested_bytes
    return Replay(
        cache=cache,
        operation_bytes=got.miss_bytes,
        operation_transfers=got.transfers,
        accesses=got.accesses,
        requested_bytes=got.requested_bytes,
        hits=got.accesses - misses,
        misses=misses,
        hit_bytes=got.requested_bytes - miss_bytes,
        miss_bytes=miss_bytes,
    )


@dataclass(frozen=True, slots=True)
class Prefetch:
    """How far transfers run ahead of compute: by operations, by bytes, by both or by neither."""

    depth: int | None = 1
    """Operations; 0: a transfer starts when its own operation may; `None`: no limit."""
    buffer_bytes: int | None = None
    """Bytes of the operations under way; `None`: no limit."""
    own: OwnFile | None = field(default=None, repr=False)
    """A prefetcher of the user's own, which says how far each operation's loads run ahead."""

    def __post_init__(self) -> None:
        for value, what in ((self.depth, "depth"), (self.buffer_bytes, "buffer")):
            if value is not None and value < 0:
                raise UsageError(f"prefetch {what} {value}: it is not negative")

    def __str__(self) -> str:
        names = {None: "perfect", 0: "none"}
        name = self.own.name if self.own else names.get(self.depth, f"next-{self.depth}")
        return name if self.buffer_bytes is None else f"{name}, {format_bytes(self.buffer_bytes).split(' (')[0]}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pace:
    """The timing of loads: their tier, the time mode, and how far they run ahead."""

    tier: BackingTier
    mode: Mode = "serial"
    decode_bytes_per_s: float | None = None
    """Rate of the stage between tier and compute that turns loaded bytes into usable ones; `None`: there is none."""
    prefetch: Prefetch | None = None
    """How far loads run ahead in mode `overlap` (default: by one operation); `None` in the others."""

    def __post_init__(self) -> None:
        check_known("time mode", self.mode, MODES)
        object.__setattr__(self, "prefetch", (self.prefetch or Prefetch()) if self.mode == "overlap" else None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlayedStage:
    """One resource that every operation passes."""

    name: str
    """`compute`, the name of a tier or level, or `decode` and that name."""
    busy_s: float
    idle_s: float
    """`total_s - busy_s`."""
    start_s: Floats | None = None
    """(n,) when each operation starts here, from the start of the first; `None` unless a timeline was asked for."""
    end_s: Floats | None = None
    loaded_bytes: Ints | Floats | None = None
    """(n,) what passes it for each operation; `None`: it moves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlayedPoint:
    """A program at one point (simulated). Times belong to the host that ends last."""

    programs: int = 1
    """Programs that have ended after `total_s`: more than one where every tenant has a host."""
    compute_s: float
    io_s: float
    """Busy time of the channels to the tiers."""
    decode_s: float
    communication_s: float = 0.0
    """In which messages are under way and this host waits for them."""
    total_s: float
    """From the start of the first operation to the end of the last."""
    io_bytes: float
    """Loaded by this host."""
    loaded_bytes: float
    """Loaded by all hosts; with a cache, as if the others' hit ratios were this one's."""
    sent_bytes: float = 0.0
    """Of all hosts."""
    hit_ratio: float | None
    """Share of the bytes that this host's cache serves; `None` where nothing is asked for."""
    energy_j: float | None
    """Of computing, loads and messages on all hosts; `None` where one of them is not known."""
    oversized: int = 0
    """Operations that load more than the whole prefetch buffer: they wait until it is empty."""
    warnings: tuple[str, ...] = ()
    """What makes the result less than it seems, with the remedy."""
    written_bytes: int | None = None
    """Downward time of results on the fastest channel that takes time; `None`: they are not written back."""
    levels: tuple[Row, ...] | None = None
    """What each level did, fastest first; `None`: one cache and one tier."""
    tenants: tuple[Row, ...] | None = None
    """When each of several programs ends; `None`: one program."""
    stages: tuple[PlayedStage, ...] = ()
    """In the order in which an operation passes them, compute last; of one tier empty unless a timeline was asked for,
    and in mode `bound`."""
    single: PlayedPoint | None = None
    """On one host, which the speed-up of several is against."""
    own_communication_s: float | None = None
    """`communication_s` by penstock's own engine, where another one played the messages."""

    @property
    def slowdown(self) -> float | None:
        """Total time over compute time; `None` without compute."""
        return self.total_s / self.compute_s if self.compute_s else None

    @property
    def tenant_slowdown(self) -> float | None:
        """The end of the program that is worst off over its own compute time, alone and with every key at hand.

        `None`: one program, or a time mode that puts no end to each.
        """
        known = [row["slowdown"] for row in self.tenants or () if row["slowdown"] is not None]
        return max(known, default=None)

    @property
    def wait_s(self) -> float:
        """Time that is none of the four: dependencies that keep a host idle. Negative where work overlaps."""
        return self.total_s - self.compute_s - self.io_s - self.decode_s - self.communication_s

    def speedup(self, single: PlayedPoint) -> float:
        """Programs a second relative to one host; without operations, the number of programs."""
        if not self.total_s:
            return self.programs / single.programs
        return self.programs * single.total_s / (single.programs * self.total_s)


def play_many(
    compute_s: npt.ArrayLike,
    loaded: Replay,
    paces: Sequence[Pace],
    *,
    compute_j: float | None = 0.0,
    timeline: bool = False,
) -> list[PlayedPoint]:
    """A program behind one cache at many paces, in their order; costs and loads are checked and converted once.

    Args:   compute_s: (n,) seconds that each operation computes; compute_j: joules of all of them, `None` where they
            are not known; timeline: also say when each operation was in each stage.
    Raises: SimulationInputError: an input breaks a rule; ClockOverflow; UsageError: of a prefetcher of the user's.
    """
    work = (
        compute_of(compute_s, loaded.num_operations),
        np.ascontiguousarray(loaded.operation_bytes, dtype=np.float64),
        np.ascontiguousarray(loaded.operation_transfers, dtype=np.float64),
    )
    stepped = [_by_stages(pace) or (timeline and pace.mode != "bound") for pace in paces]
    at_once = [pace for pace, by_stages in zip(paces, stepped, strict=True) if not by_stages]
    times = _engine.play_time_many(
        *work,
        [pace.tier.bandwidth_bytes_per_s for pace in at_once],
        [pace.tier.latency_s for pace in at_once],
        [_decode_rate(pace) for pace in at_once],
        [pace.mode for pace in at_once],
        [_depth(pace, loaded) for pace in at_once],
    )
    seconds = iter(np.stack((times.io_s, times.decode_s, times.compute_s, times.total_s), axis=1).tolist())
    results = []
    for pace, by_stages in zip(paces, stepped, strict=True):
        stages, oversized = tuple[PlayedStage, ...](), 0
        if by_stages:
            io_s, decode_s, busy_s, total_s, stages, oversized = _play_stages(work, loaded, pace, timeline=timeline)
        else:
            io_s, decode_s, busy_s, total_s = next(seconds)
        io_j = energy_j(pace.tier, loaded.miss_bytes) if loaded.miss_bytes else 0.0
        results.append(
            PlayedPoint(
                compute_s=busy_s,
                io_s=io_s,
                decode_s=decode_s,
                total_s=total_s,
                io_bytes=loaded.miss_bytes,
                loaded_bytes=loaded.miss_bytes,
                hit_ratio=loaded.byte_hit_ratio,
                energy_j=None if compute_j is None or io_j is None else compute_j + io_j,
                oversized=oversized,
                warnings=(*loaded.warnings, *outgrown(oversized, loaded.num_operations, "load")),
                stages=stages,
            )
        )
    return results


def outgrown(oversized: int, operations: int, do: str) -> tuple[str, ...]:
    """The warning of operations that the prefetch buffer has no room for."""
    if not oversized:
        return ()
    return (
        f"{oversized} of {operations} operations {do} more than the whole prefetch buffer and wait until it is empty; "
        "give the buffer room for the largest operation",
    )


def _by_stages(pace: Pace) -> bool:
    """Whether loads run ahead in another way than by so many operations."""
    return pace.prefetch is not None and (pace.prefetch.buffer_bytes is not None or pace.prefetch.own is not None)


def _play_stages(
    work: tuple[Floats, Floats, Floats], loaded: Replay, pace: Pace, *, timeline: bool
) -> tuple[float, float, float, float, tuple[PlayedStage, ...], int]:
    """Seconds of the channel, of decoding, of compute and in all, the stages, and operations larger than the buffer.

    For a buffer of so many bytes, a prefetcher of the user's, or a timeline.
    """
    compute, load_bytes, transfers = work
    rate, name, moved = _decode_rate(pace), tier_name(pace.tier), loaded.operation_bytes
    if not rate > 0:
        raise SimulationInputError(f"decode_bytes_per_s is {rate}: a rate is a positive number")
    stages: list[TimedStage] = [
        (name, channel_seconds(load_bytes, transfers, pace.tier), moved),
        (decoding(name), load_bytes / rate, moved),
        (COMPUTE, compute, None),
    ]
    times, played = through_stages(
        stages, load_bytes, transfers, pace.mode, pace.prefetch or Prefetch(), timeline=timeline
    )
    io_s, decode_s, compute_s = times.busy_s
    shown = tuple(stage for stage in played if stage.name != decoding(name) or stage.busy_s > 0) if timeline else ()
    return io_s, decode_s, compute_s, times.total_s, shown, times.oversized


TimedStage: TypeAlias = tuple[str, Floats, Ints | Floats | None]
"""Name, (n,) seconds and (n,) bytes of a resource that operations pass."""


def through_stages(
    stages: Sequence[TimedStage], held_bytes: Floats, transfers: Floats, mode: Mode, ahead: Prefetch, *, timeline: bool
) -> tuple[_engine.StageTimes, tuple[PlayedStage, ...]]:
    """A program through stages, compute last.

    Args:   held_bytes, transfers: (n,) what each operation loads over the channel that it waits for.
    """
    *loads, (_, compute_s, _) = stages
    depths: Ints | None = None
    if ahead.own is not None and mode == "overlap":
        seen = OperationLoads(
            bytes=held_bytes,
            transfers=transfers,
            load_s=sum((busy for _, busy, _ in loads), np.zeros_like(compute_s)),
            compute_s=compute_s,
            buffer_bytes=ahead.buffer_bytes,
        )
        depths = depths_of(ahead.own, seen)
    seconds = [busy for _, busy, _ in stages]
    times = _engine.play_stages(seconds, held_bytes, mode, ahead.depth, ahead.buffer_bytes, timeline, depths)
    starts: Sequence[Floats | None] = times.start_s or [None] * len(stages)
    ends: Sequence[Floats | None] = times.end_s or [None] * len(stages)
    sums = zip(stages, times.busy_s, times.idle_s, starts, ends, strict=True)
    return times, tuple(
        PlayedStage(name=name, busy_s=busy, idle_s=idle, start_s=start, end_s=end, loaded_bytes=moved)
        for (name, _, moved), busy, idle, start, end in sums
    )


def decoding(level: str) -> str:
    """The name of the stage that decodes data from `level`."""
    return f"decode {level}"


def tier_name(tier: BackingTier) -> str:
    """The name of a tier; rates alone have none."""
    return str(getattr(tier, "name", "tier"))


def channel_seconds(loaded_bytes: Floats, transfers: Floats, tier: BackingTier) -> Floats:
    """(n,) seconds that each operation takes on the channel of `tier`: bytes over bandwidth, and the latencies.

    Raises: SimulationInputError: a bandwidth that is not positive, a latency that is negative or not finite.
    """
    bandwidth, latency = tier.bandwidth_bytes_per_s, tier.latency_s
    if not bandwidth > 0:
        raise SimulationInputError(f"bandwidth_bytes_per_s is {bandwidth}: a rate is a positive number")
    if not 0 <= latency < math.inf:
        raise SimulationInputError(f"latency_s is {latency}: a latency is finite and not negative")
    return np.asarray(loaded_bytes / bandwidth + transfers * latency, dtype=np.float64)


def compute_of(compute_s: npt.ArrayLike, operations: int) -> Floats:
    """(operations,) compute times. Raises: SimulationInputError: no numbers, or another number of them."""
    try:
        compute = np.ascontiguousarray(compute_s, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SimulationInputError(f"compute_s is not an array of seconds: {error}") from error
    if compute.shape != (operations,):
        raise SimulationInputError(
            f"compute_s has shape {compute.shape}, the accesses are of {operations} operations: "
            "give one time for each operation"
        )
    return compute


def _decode_rate(pace: Pace) -> float:
    return math.inf if pace.decode_bytes_per_s is None else pace.decode_bytes_per_s


def _depth(pace: Pace, loaded: Replay) -> int:
    """No limit is the number of operations."""
    depth = 1 if pace.prefetch is None else pace.prefetch.depth
    return loaded.num_operations if depth is None else depth


def energy_j(tier: object, num_bytes: float) -> float | None:
    """Joules of so many bytes over a tier; `None` where it does not say its energy a byte."""
    per_byte: float | None = getattr(tier, "energy_j_per_byte", None)
    return None if per_byte is None else per_byte * num_bytes
