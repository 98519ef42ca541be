"""Plays loads over one tier: the time of a program. Typed facade of the engine's second step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

from penstock.errors import check_known
from penstock.simulation.engine import Floats, SimulationInputError, _engine
from penstock.simulation.memory.prefetch import Prefetch
from penstock.simulation.memory.replay import Replay
from penstock.simulation.own import OperationLoads, OwnFile, depths_of

Mode = Literal["serial", "overlap", "bound"]
MODES: tuple[str, ...] = get_args(Mode)


class Tier(Protocol):
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
    """The simulated time of a program over a tier, and its parts."""

    mode: Mode
    replay: Replay
    """Counts of the loads: hits, misses, evictions."""
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
    oversized: int = 0
    """Operations that load more than the whole prefetch buffer: they wait until it is empty."""
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

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the result less than it seems, with the remedy."""
        if not self.oversized:
            return self.replay.warnings
        return (
            *self.replay.warnings,
            f"{self.oversized} of {self.replay.num_operations} operations load more than the whole prefetch buffer and "
            "wait until it is empty; give the buffer room for the largest operation",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The timing of a replay: its tier, its mode, and its prefetch distance."""

    tier: Tier
    mode: Mode = "serial"
    decode_bytes_per_s: float | None = None
    """Rate of the stage between tier and compute that turns loaded bytes into usable ones; `None`: there is none."""
    prefetch_depth: int | None = 1
    """By how many operations transfers may run ahead of compute; `None`: no limit. Only `overlap` looks at it."""
    prefetch_buffer_bytes: int | None = None
    """Bytes that the loads under way may hold at once; `None`: no limit. Only `overlap` looks at it."""
    prefetch_own: OwnFile | None = None
    """A prefetcher of the user's own. Only `overlap` looks at it."""

    def __post_init__(self) -> None:
        check_known("time mode", self.mode, MODES)

    @property
    def prefetch(self) -> Prefetch | None:
        """How far loads run ahead; `None` in a mode that loads nothing ahead."""
        if self.mode != "overlap":
            return None
        return Prefetch(self.prefetch_depth, self.prefetch_buffer_bytes, self.prefetch_own)

    @property
    def by_stages(self) -> bool:
        """Whether loads run ahead in another way than by so many operations."""
        return self.mode == "overlap" and (self.prefetch_buffer_bytes is not None or self.prefetch_own is not None)


def paces_of(
    tiers: Iterable[Tier],
    modes: Iterable[Mode] = ("serial",),
    prefetches: Sequence[Prefetch] = (Prefetch(),),
    decode_bytes_per_s: float | None = None,
) -> list[Pace]:
    """Every tier in every mode, and in `overlap` with each way of loading ahead."""
    return [
        Pace(
            tier=tier,
            mode=mode,
            decode_bytes_per_s=decode_bytes_per_s,
            prefetch_depth=ahead.depth,
            prefetch_buffer_bytes=ahead.buffer_bytes,
            prefetch_own=ahead.own,
        )
        for tier in tiers
        for mode in modes
        for ahead in (prefetches if mode == "overlap" else (Prefetch(),))
    ]


def play_replay(
    compute_s: npt.ArrayLike,
    replay: Replay,
    tier: Tier,
    *,
    mode: Mode = "serial",
    decode_bytes_per_s: float | None = None,
    prefetch_depth: int | None = 1,
    prefetch_buffer_bytes: int | None = None,
    timeline: bool = False,
) -> Timeline:
    """As `play`, from a replay that is there already."""
    pace = Pace(
        tier=tier,
        mode=mode,
        decode_bytes_per_s=decode_bytes_per_s,
        prefetch_depth=prefetch_depth,
        prefetch_buffer_bytes=prefetch_buffer_bytes,
    )
    return play_pace(compute_s, replay, pace, timeline=timeline)


def play_pace(compute_s: npt.ArrayLike, replay: Replay, pace: Pace, *, timeline: bool = False) -> Timeline:
    """One replay at one pace.

    Args:   timeline: also give the schedule of all operations.
    """
    if pace.by_stages:
        return _play_buffered(compute_s, replay, pace, timeline=timeline)
    times = _engine.play_time(
        *_work(compute_s, replay),
        pace.tier.bandwidth_bytes_per_s,
        pace.tier.latency_s,
        _decode_rate(pace),
        pace.mode,
        _depth(pace, replay),
        timeline,
    )
    schedule = None
    if times.schedule is not None:
        schedule = Schedule(**{name: getattr(times.schedule, name) for name in Schedule.__slots__})
    seconds = (times.io_s, times.decode_s, times.compute_s, times.total_s, times.stall_s)
    return _timeline(pace, replay, seconds, schedule=schedule)


def play_many(compute_s: npt.ArrayLike, replay: Replay, paces: Sequence[Pace]) -> list[Timeline]:
    """One replay at many paces, in their order; costs and loads are checked and converted once."""
    at_once = [p for p in paces if not p.by_stages]
    times = _engine.play_time_many(
        *_work(compute_s, replay),
        [pace.tier.bandwidth_bytes_per_s for pace in at_once],
        [pace.tier.latency_s for pace in at_once],
        [_decode_rate(pace) for pace in at_once],
        [pace.mode for pace in at_once],
        [_depth(pace, replay) for pace in at_once],
    )
    columns = (times.io_s, times.decode_s, times.compute_s, times.total_s, times.stall_s)
    seconds = np.stack(columns, axis=1).tolist()
    played = iter([_timeline(pace, replay, each) for pace, each in zip(at_once, seconds, strict=True)])
    return [_play_buffered(compute_s, replay, pace) if pace.by_stages else next(played) for pace in paces]


def _play_buffered(compute_s: npt.ArrayLike, replay: Replay, pace: Pace, *, timeline: bool = False) -> Timeline:
    """Overlap with a buffer of so many bytes, or a prefetcher of the user's: a channel, a decode stage and compute."""
    compute, loaded, transfers = _work(compute_s, replay)
    rate = _decode_rate(pace)
    if not rate > 0:
        raise SimulationInputError(f"decode_bytes_per_s is {rate}: a rate is a positive number")
    stages = [channel_seconds(loaded, transfers, pace.tier), loaded / rate, compute]
    depths = None
    if pace.prefetch_own is not None:
        depths = depths_of(
            pace.prefetch_own,
            OperationLoads(
                bytes=loaded,
                transfers=transfers,
                load_s=stages[0] + stages[1],
                compute_s=compute,
                buffer_bytes=pace.prefetch_buffer_bytes,
            ),
        )
    times = _engine.play_stages(
        stages, loaded, "overlap", pace.prefetch_depth, pace.prefetch_buffer_bytes, timeline, depths
    )
    schedule = None
    if times.start_s is not None and times.end_s is not None:
        schedule = Schedule(**dict(zip(Schedule.__slots__, _alternating(times.start_s, times.end_s), strict=True)))
    seconds = (*times.busy_s, times.total_s, times.idle_s[2])
    return _timeline(pace, replay, seconds, oversized=times.oversized, schedule=schedule)


def _timeline(
    pace: Pace, replay: Replay, seconds: Sequence[float], *, oversized: int = 0, schedule: Schedule | None = None
) -> Timeline:
    """Args:   seconds: of the channel, of decoding, of compute, in all, and in which compute waits."""
    io_s, decode_s, compute_s, total_s, stall_s = seconds
    return Timeline(
        mode=pace.mode,
        replay=replay,
        compute_s=compute_s,
        io_s=io_s,
        decode_s=decode_s,
        total_s=total_s,
        stall_s=stall_s,
        io_energy_j=energy_j(pace.tier, replay.miss_bytes),
        oversized=oversized,
        schedule=schedule,
    )


def _alternating(starts: Sequence[Floats], ends: Sequence[Floats]) -> list[Floats]:
    return [each for pair in zip(starts, ends, strict=True) for each in pair]


def channel_seconds(loaded_bytes: Floats, transfers: Floats, tier: Tier) -> Floats:
    """(n,) seconds that each operation takes on the channel of `tier`: bytes over bandwidth, and the latencies.

    Raises: SimulationInputError: a bandwidth that is not positive, a latency that is negative or not finite.
    """
    bandwidth, latency = tier.bandwidth_bytes_per_s, tier.latency_s
    if not bandwidth > 0:
        raise SimulationInputError(f"bandwidth_bytes_per_s is {bandwidth}: a rate is a positive number")
    if not 0 <= latency < math.inf:
        raise SimulationInputError(f"latency_s is {latency}: a latency is finite and not negative")
    return np.asarray(loaded_bytes / bandwidth + transfers * latency, dtype=np.float64)


def _work(compute_s: npt.ArrayLike, replay: Replay) -> tuple[Floats, Floats, Floats]:
    return (
        compute_of(compute_s, replay.num_operations),
        np.ascontiguousarray(replay.operation_bytes, dtype=np.float64),
        np.ascontiguousarray(replay.operation_transfers, dtype=np.float64),
    )


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


def _depth(pace: Pace, replay: Replay) -> int:
    """No limit is the number of operations."""
    return replay.num_operations if pace.prefetch_depth is None else pace.prefetch_depth


def energy_j(tier: object, num_bytes: float) -> float | None:
    """Joules of so many bytes over a tier; `None` where it does not say its energy a byte."""
    per_byte: float | None = getattr(tier, "energy_j_per_byte", None)
    return None if per_byte is None else per_byte * num_bytes
