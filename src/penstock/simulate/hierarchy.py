"""A memory hierarchy: an on-chip cache in front of one backing tier. Typed facade of the engine.

`replay` plays accesses through a cache and says what each operation loads; `play_replay` plays that over a tier and
says how long it takes; `play` does both; `play_many` plays one replay at many points at once.
The rules of cache, time modes and clock are in the documentation of the crate `penstock-sim`, and once more as plain
Python in `penstock.simulate.oracle`.

>>> accesses = Accesses.of([[(1, 600)], [(2, 400)], [(1, 600)]])
>>> kept = replay(accesses, Lru(1000))
>>> kept.hits, kept.misses, kept.miss_bytes
(1, 2, 1000)
>>> play_replay([1e-6] * 3, kept, Rates(bandwidth_bytes_per_s=1e9)).total_s
4e-06
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from penstock.errors import CapabilityMissing, PenstockError, UnknownName, UsageError
from penstock.units import format_bytes

try:
    from penstock import _engine
except ImportError as error:
    raise CapabilityMissing(
        f"the engine penstock._engine cannot be loaded ({error}); build it with `make demo`, or with "
        "`maturin develop --release` in the environment that runs penstock"
    ) from error

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]

Mode = Literal["serial", "overlap", "bound"]
MODES: tuple[str, ...] = get_args(Mode)

_INT64_MAX = 2**63 - 1


class SimulationInputError(UsageError):
    """Accesses, costs, a cache or a tier that break a rule; the message names it."""


class ClockOverflow(PenstockError):
    """The simulated time passes the end of the clock, 2^63 picoseconds or about 106 days."""


class ConservationError(PenstockError):
    """The engine's accounts do not add up: a defect of penstock."""


@contextmanager
def _engine_errors() -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError) as error:
        raise SimulationInputError(str(error)) from error
    except OverflowError as error:
        raise ClockOverflow(str(error)) from error
    except RuntimeError as error:
        raise ConservationError(str(error)) from error


# Caches -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class NoCache:
    """Every access is loaded whole."""


@dataclass(frozen=True, slots=True)
class ForcedHitRatio:
    """A stated share of every access is served; deterministic, so bytes and transfers are expected values."""

    hit_ratio: float

    def __post_init__(self) -> None:
        if not 0 <= self.hit_ratio <= 1:
            raise SimulationInputError(f"hit ratio {self.hit_ratio}: it lies between 0 and 1")


@dataclass(frozen=True, slots=True)
class _Sized:
    capacity_bytes: int

    policy: ClassVar[str]

    def __post_init__(self) -> None:
        capacity = self.capacity_bytes
        if not isinstance(capacity, (int, np.integer)) or isinstance(capacity, bool):
            raise SimulationInputError(f"cache capacity {capacity!r}: it is a whole number of bytes")
        if not 0 <= capacity <= _INT64_MAX:
            raise SimulationInputError(f"cache capacity {capacity}: it lies between 0 and 2^63 - 1 bytes")


@dataclass(frozen=True, slots=True)
class Lru(_Sized):
    """Evicts what was used longest ago."""

    policy: ClassVar[str] = "lru"


@dataclass(frozen=True, slots=True)
class Belady(_Sized):
    """Knows the future: evicts what is used again last. Optimal for objects of one size."""

    policy: ClassVar[str] = "belady"


SIZED_CACHES: dict[str, type[Lru] | type[Belady]] = {cache.policy: cache for cache in (Lru, Belady)}
"""Caches with a capacity, by the name of their replacement policy."""

Cache: TypeAlias = NoCache | ForcedHitRatio | Lru | Belady


def cache_named(policy: str, capacity_bytes: int) -> Lru | Belady:
    """The cache of `capacity_bytes` with this replacement policy.

    Raises: UnknownName: no policy has this name.
    >>> cache_named("belady", 4096)
    Belady(capacity_bytes=4096)
    """
    if policy not in SIZED_CACHES:
        raise UnknownName("replacement policy", policy, SIZED_CACHES)
    return SIZED_CACHES[policy](capacity_bytes)


# Tiers --------------------------------------------------------------------------------------------------------------
class Tier(Protocol):
    """What a backing tier must say; `energy_j_per_byte`, where it has that too, gives the energy of the I/O."""

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


# Accesses -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, eq=False)
class Accesses:
    """What each operation reads: operation i makes the accesses `access_start[i]:access_start[i + 1]`, in order.

    The arrays are held as read-only views, not copies, where dtype and layout allow; do not write to their originals.
    """

    access_start: Ints
    """(n + 1,) int64, rising from 0 to m."""
    access_object: npt.NDArray[np.int32] | Ints
    """(m,) int32 or int64, not negative; sparse ids cost one sorting."""
    access_bytes: Ints
    """(m,) int64, at least 1: what this access needs of the object. The needs of one object are nested: a smaller one
    is part of every larger one, as the limbs of a key are."""

    def __post_init__(self) -> None:
        for name in ("access_start", "access_object", "access_bytes"):
            narrow = name == "access_object"
            object.__setattr__(self, name, _integers(getattr(self, name), name, keep_int32=narrow))

    @property
    def num_operations(self) -> int:
        return len(self.access_start) - 1

    def __len__(self) -> int:
        return len(self.access_object)

    @classmethod
    def of(cls, rows: Iterable[Iterable[tuple[int, int]]]) -> Accesses:
        """Accesses from one list of (object, bytes) an operation."""
        lists = [list(row) for row in rows]
        flat = [access for row in lists for access in row]
        return cls(
            np.cumsum([0, *(len(row) for row in lists)], dtype=np.int64),
            np.array([obj for obj, _ in flat], dtype=np.int64),
            np.array([size for _, size in flat], dtype=np.int64),
        )

    @classmethod
    def one_each(cls, objects: npt.ArrayLike, sizes: npt.ArrayLike) -> Accesses:
        """Operations of one access each."""
        start = np.arange(np.size(np.asarray(objects)) + 1, dtype=np.int64)
        return cls(start, np.asarray(objects), np.asarray(sizes))


def _integers(values: npt.ArrayLike, name: str, *, keep_int32: bool) -> Any:
    array = np.asarray(values)
    if array.ndim != 1:
        raise SimulationInputError(f"{name} has shape {array.shape}: it is one-dimensional")
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise SimulationInputError(f"{name} has dtype {array.dtype}: it holds whole numbers (int64)")
    if array.dtype.kind == "u" and array.size and int(array.max()) > _INT64_MAX:
        raise SimulationInputError(f"{name} holds {int(array.max())}: it must stay below 2^63")
    dtype = np.int32 if keep_int32 and array.dtype == np.int32 else np.int64
    view = np.ascontiguousarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view


# Replay -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replay:
    """What a cache leaves to load. With a forced hit ratio the counts are expected values, and floats."""

    cache: Cache
    operation_bytes: Ints | Floats
    """(n,) bytes that each operation loads from the tier."""
    operation_transfers: Ints | Floats
    """(n,) transfers of each operation: one a miss."""
    accesses: int
    requested_bytes: int
    hits: float
    """Accesses served whole from the cache; `hits + misses = accesses`."""
    misses: float
    hit_bytes: float
    """Bytes served from the cache, also by misses on objects that are there in part."""
    miss_bytes: float
    """Bytes loaded; `hit_bytes + miss_bytes = requested_bytes`."""
    evictions: int
    """Objects pushed out by others."""
    streamed: int
    """Misses that asked for more than the whole cache holds; they pass by it."""
    peak_resident_bytes: int
    hit_mask: Bools | None
    """(m,) whether each access was a hit; `None` unless asked for."""

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
        if not self.streamed or not isinstance(self.cache, _Sized):
            return ()
        return (
            f"{self.streamed} of {self.accesses} accesses need more than the whole cache "
            f"({format_bytes(self.cache.capacity_bytes)}) and pass by it; give the cache room for the largest object",
        )


def replay(accesses: Accesses, cache: Cache, *, hit_mask: bool = False) -> Replay:
    """Plays `accesses` through `cache`, which starts empty.

    Args:   hit_mask: also say of each access whether it was a hit.
    Raises: SimulationInputError: the accesses break a rule, or a hit mask is asked of a forced hit ratio, which decides
            on no single access.
    """
    rows = (accesses.access_start, accesses.access_object, accesses.access_bytes)
    if isinstance(cache, ForcedHitRatio):
        if hit_mask:
            raise SimulationInputError("a forced hit ratio decides on no single access: it has no hit mask")
        return _replay_forced(accesses, cache)
    with _engine_errors():
        if isinstance(cache, NoCache):
            got = _engine.replay_uncached(*rows, hit_mask=hit_mask)
        else:
            got = _engine.replay(*rows, cache.policy, int(cache.capacity_bytes), hit_mask=hit_mask)
    return Replay(
        cache=cache,
        operation_bytes=got.miss_bytes,
        operation_transfers=got.transfers,
        accesses=len(accesses),
        requested_bytes=got.hit_bytes + got.total_miss_bytes,
        hits=got.hits,
        misses=got.misses,
        hit_bytes=got.hit_bytes,
        miss_bytes=got.total_miss_bytes,
        evictions=got.evictions,
        streamed=got.streamed,
        peak_resident_bytes=got.peak_resident_bytes,
        hit_mask=got.hit_mask,
    )


def _replay_forced(accesses: Accesses, cache: ForcedHitRatio) -> Replay:
    with _engine_errors():
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
        evictions=0,
        streamed=0,
        peak_resident_bytes=0,
        hit_mask=None,
    )


# Time ---------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedule:
    """When each operation was on each resource, (n,) float64 seconds from the start of the first."""

    io_start_s: Floats
    io_end_s: Floats
    decode_start_s: Floats
    decode_end_s: Floats
    compute_start_s: Floats
    compute_end_s: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timeline:
    """How long a program takes over a tier (simulated), and where the time goes."""

    mode: Mode
    replay: Replay
    """What was loaded: hits, misses, evictions."""
    compute_s: float
    io_s: float
    """Busy time of the channel to the tier."""
    decode_s: float
    total_s: float
    """From the start of the first operation to the end of the last."""
    stall_s: float
    """Time in which compute waits: `total_s - compute_s`."""
    io_energy_j: float | None
    """Energy of the transfers; `None` where the tier does not say its energy a byte."""
    schedule: Schedule | None
    """`None` unless asked for."""

    @property
    def io_bytes(self) -> float:
        """Bytes loaded from the tier."""
        return self.replay.miss_bytes

    @property
    def slowdown(self) -> float | None:
        """Total time over compute time; `None` without compute."""
        return self.total_s / self.compute_s if self.compute_s else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One way to play a replay in time."""

    tier: Tier
    mode: Mode = "serial"
    decode_bytes_per_s: float | None = None
    """Rate of the stage between tier and compute that turns loaded bytes into usable ones; `None`: there is none."""
    prefetch_depth: int = 1
    """By how many operations transfers may run ahead of compute; only `overlap` looks at it."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UnknownName("time mode", self.mode, MODES)


def play(
    compute_s: npt.ArrayLike,
    accesses: Accesses,
    cache: Cache,
    tier: Tier,
    *,
    mode: Mode = "serial",
    decode_bytes_per_s: float | None = None,
    prefetch_depth: int = 1,
    timeline: bool = False,
) -> Timeline:
    """Plays a program through a cache and a tier.

    Args:   compute_s: (n,) seconds that each operation computes; timeline: also give the schedule of all operations.
    Raises: SimulationInputError: an input breaks a rule; ClockOverflow.
    """
    return play_replay(
        compute_s,
        replay(accesses, cache),
        tier,
        mode=mode,
        decode_bytes_per_s=decode_bytes_per_s,
        prefetch_depth=prefetch_depth,
        timeline=timeline,
    )


def play_replay(
    compute_s: npt.ArrayLike,
    replay: Replay,
    tier: Tier,
    *,
    mode: Mode = "serial",
    decode_bytes_per_s: float | None = None,
    prefetch_depth: int = 1,
    timeline: bool = False,
) -> Timeline:
    """As `play`, from a replay that is there already."""
    point = Point(tier=tier, mode=mode, decode_bytes_per_s=decode_bytes_per_s, prefetch_depth=prefetch_depth)
    with _engine_errors():
        times = _engine.play_time(
            *_work(compute_s, replay),
            tier.bandwidth_bytes_per_s,
            tier.latency_s,
            _decode_rate(point),
            mode,
            prefetch_depth,
            timeline,
        )
    schedule = None
    if times.schedule is not None:
        schedule = Schedule(**{name: getattr(times.schedule, name) for name in Schedule.__slots__})
    return Timeline(
        mode=mode,
        replay=replay,
        compute_s=times.compute_s,
        io_s=times.io_s,
        decode_s=times.decode_s,
        total_s=times.total_s,
        stall_s=times.stall_s,
        io_energy_j=_io_energy_j(replay, tier),
        schedule=schedule,
    )


def play_many(compute_s: npt.ArrayLike, replay: Replay, points: Sequence[Point]) -> list[Timeline]:
    """One replay at many points, in their order; costs and loads are checked and converted once."""
    with _engine_errors():
        times = _engine.play_time_many(
            *_work(compute_s, replay),
            [point.tier.bandwidth_bytes_per_s for point in points],
            [point.tier.latency_s for point in points],
            [_decode_rate(point) for point in points],
            [point.mode for point in points],
            [point.prefetch_depth for point in points],
        )
    return [
        Timeline(
            mode=point.mode,
            replay=replay,
            compute_s=float(times.compute_s[i]),
            io_s=float(times.io_s[i]),
            decode_s=float(times.decode_s[i]),
            total_s=float(times.total_s[i]),
            stall_s=float(times.stall_s[i]),
            io_energy_j=_io_energy_j(replay, point.tier),
            schedule=None,
        )
        for i, point in enumerate(points)
    ]


def _work(compute_s: npt.ArrayLike, replay: Replay) -> tuple[Floats, Floats, Floats]:
    try:
        compute = np.ascontiguousarray(compute_s, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SimulationInputError(f"compute_s is no array of seconds: {error}") from error
    if compute.shape != (replay.num_operations,):
        raise SimulationInputError(
            f"compute_s has shape {compute.shape}, the accesses are of {replay.num_operations} operations: "
            "give one time for each operation"
        )
    return (
        compute,
        np.ascontiguousarray(replay.operation_bytes, dtype=np.float64),
        np.ascontiguousarray(replay.operation_transfers, dtype=np.float64),
    )


def _decode_rate(point: Point) -> float:
    return math.inf if point.decode_bytes_per_s is None else point.decode_bytes_per_s


def _io_energy_j(replay: Replay, tier: Tier) -> float | None:
    per_byte: float | None = getattr(tier, "energy_j_per_byte", None)
    return None if per_byte is None else per_byte * replay.miss_bytes
