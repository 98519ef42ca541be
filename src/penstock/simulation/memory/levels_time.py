"""The time of a program over several levels: a stage for each channel, one for each decoding, and compute.

Written-back data shares its channel with reads.

`serial`: one after the other, level by level. `overlap`: a pipeline in program order. Its first transfers run ahead of
compute as far as depth and buffer allow. An operation holds the buffer, with its bytes over the fastest channel that
takes time, from the start of its first transfer to the end of its compute. `bound`: the busiest stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.errors import check_known
from penstock.simulation.engine import Floats, _engine
from penstock.simulation.memory.levels_replay import LevelsReplay
from penstock.simulation.own import OperationLoads, OwnFile, depths_of
from penstock.simulation.timing import MODES, Mode, channel_seconds, compute_of, energy_j

COMPUTE = "compute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One resource that every operation passes."""

    name: str
    """`compute`, a level's name, or `decode` and a level's name."""
    busy_s: float
    idle_s: float
    """`total_s - busy_s`."""
    start_s: Floats | None = None
    """(n,) when each operation starts here; `None` unless a timeline was asked for."""
    end_s: Floats | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LevelsTimeline:
    """The simulated time of a program over several levels, and its parts."""

    mode: Mode
    replay: LevelsReplay
    stages: tuple[Stage, ...]
    """In the order in which an operation passes them: the deepest channel first, compute last."""
    total_s: float
    level_energy_j: tuple[float | None, ...]
    """Joules of each level's channel, fastest first; `None` where its energy a byte is not known."""
    oversized: int
    """Operations that hold more than the whole prefetch buffer: they wait until it is empty."""

    def busy_s(self, name: str) -> float:
        """Busy time of a stage; 0 where there is none of that name."""
        return sum(stage.busy_s for stage in self.stages if stage.name == name)

    @property
    def compute_s(self) -> float:
        return self.stages[-1].busy_s

    @property
    def stall_s(self) -> float:
        """Time in which compute waits."""
        return self.stages[-1].idle_s

    @property
    def io_s(self) -> float:
        """Busy time of all channels together."""
        return sum(self.busy_s(load.level.name) for load in self.replay.loads)

    @property
    def decode_s(self) -> float:
        """Busy time of all decoding together."""
        return sum(self.busy_s(decoding(load.level.name)) for load in self.replay.loads)

    @property
    def slowdown(self) -> float | None:
        """Total time over compute time; `None` without compute."""
        return self.total_s / self.compute_s if self.compute_s else None

    @property
    def io_energy_j(self) -> float | None:
        """Energy of all channels; `None` where one that carries bytes does not say its energy a byte."""
        return None if None in self.level_energy_j else sum(each or 0.0 for each in self.level_energy_j)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the result less than it seems, with the remedy."""
        if not self.oversized:
            return self.replay.warnings
        return (
            *self.replay.warnings,
            f"{self.oversized} of {self.replay.num_operations} operations get more than the whole prefetch buffer and "
            "wait until it is empty; give the buffer room for the largest operation",
        )


def decoding(level: str) -> str:
    """The name of the stage that decodes data from `level`."""
    return f"decode {level}"


def play_levels(
    compute_s: npt.ArrayLike,
    replay: LevelsReplay,
    *,
    mode: Mode = "serial",
    prefetch_depth: int | None = 1,
    prefetch_buffer_bytes: int | None = None,
    prefetch_own: OwnFile | None = None,
    timeline: bool = False,
) -> LevelsTimeline:
    """Plays a program whose loads are known.

    Args:   compute_s: (n,) seconds that each operation computes; prefetch_depth, prefetch_buffer_bytes: how far
            `overlap` runs ahead, in operations and in bytes (`None`: no limit); prefetch_own: a prefetcher of the
            user's, which says it for each operation; timeline: also say when each operation
            was in each stage.
    Raises: SimulationInputError: an input breaks a rule; ClockOverflow; UnknownName: no such mode.
    """
    check_known("time mode", mode, MODES)
    compute = compute_of(compute_s, replay.num_operations)
    names, seconds = _stages(replay)
    names.append(COMPUTE)
    seconds.append(compute)
    held = np.ascontiguousarray(replay.waited_for.operation_bytes, dtype=np.float64)
    depths = None
    if prefetch_own is not None and mode == "overlap":
        loads = OperationLoads(
            bytes=held,
            transfers=np.ascontiguousarray(replay.waited_for.operation_transfers, dtype=np.float64),
            load_s=np.sum(seconds[:-1], axis=0) if len(seconds) > 1 else np.zeros_like(compute),
            compute_s=compute,
            buffer_bytes=prefetch_buffer_bytes,
        )
        depths = depths_of(prefetch_own, loads)
    times = _engine.play_stages(seconds, held, mode, prefetch_depth, prefetch_buffer_bytes, timeline, depths)
    starts: Sequence[Floats | None] = times.start_s or [None] * len(names)
    ends: Sequence[Floats | None] = times.end_s or [None] * len(names)
    return LevelsTimeline(
        mode=mode,
        replay=replay,
        stages=tuple(
            Stage(name=name, busy_s=busy, idle_s=idle, start_s=start, end_s=end)
            for name, busy, idle, start, end in zip(names, times.busy_s, times.idle_s, starts, ends, strict=True)
        ),
        total_s=times.total_s,
        level_energy_j=tuple(
            _energy(load.level.tier, load.channel_bytes + load.written_bytes) for load in replay.loads
        ),
        oversized=times.oversized,
    )


def _stages(replay: LevelsReplay) -> tuple[list[str], list[Floats]]:
    names: list[str] = []
    seconds: list[Floats] = []
    for load in reversed(replay.loads):
        if not load.level.is_timed:
            continue
        crossing = np.ascontiguousarray(load.operation_bytes, dtype=np.float64)
        transfers = np.ascontiguousarray(load.operation_transfers, dtype=np.float64)
        names.append(load.level.name)
        busy = channel_seconds(crossing, transfers, load.level.channel)
        if load.written is not None:
            down, writes = (
                np.ascontiguousarray(each, dtype=np.float64)
                for each in (load.written.operation_bytes, load.written.operation_writes)
            )
            busy = busy + channel_seconds(down, writes, load.level.write_channel)
        seconds.append(busy)
        if load.level.decode_bytes_per_s is not None:
            names.append(decoding(load.level.name))
            seconds.append(crossing / load.level.decode_bytes_per_s)
    return names, seconds


def _energy(tier: object, channel_bytes: float) -> float | None:
    return energy_j(tier, channel_bytes) if channel_bytes else 0.0
