"""The time of a program over several levels: a stage for each channel, one for each decoding, and compute.

Written-back data shares its channel with reads.

`serial`: one after the other, level by level. `overlap`: a pipeline in program order. Its first transfers run ahead of
compute as far as depth and buffer allow. An operation holds the buffer, with its bytes over the fastest channel that
takes time, from the start of its first transfer to the end of its compute. `bound`: the busiest stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from penstock.base.types import Row
from penstock.errors import check_known
from penstock.lab.simulation.memory.levels_replay import LevelsReplay
from penstock.scheme.play import hierarchy
from penstock.scheme.play.caches import SizedCache
from penstock.scheme.play.rows import FORCED_POLICY, LEVEL_NAMES


def play_levels(
    compute_s: npt.ArrayLike,
    replay: LevelsReplay,
    *,
    mode: hierarchy.Mode = "serial",
    prefetch: hierarchy.Prefetch | None = None,
    compute_j: float | None = 0.0,
    timeline: bool = False,
) -> hierarchy.PlayedPoint:
    """Plays a program whose loads are known.

    Args:   compute_s: (n,) seconds that each operation computes; prefetch: how far `overlap` runs ahead (default: by
            one operation); compute_j: joules of all operations, `None` where they are not known; timeline: also say
            when each operation was in each stage.
    Returns: `hit_ratio` of the levels above the fastest channel that takes time, and `io_bytes` that cross it upwards;
            `io_s` and `decode_s` add up the channels and the decoding of all levels; `levels` has an entry with the
            names `LEVEL_NAMES` for each.
    Raises: SimulationInputError: an input breaks a rule; ClockOverflow; UnknownName: no such mode.
    """
    check_known("time mode", mode, hierarchy.MODES)
    compute, ahead = hierarchy.compute_of(compute_s, replay.num_operations), prefetch or hierarchy.Prefetch()
    stages: list[hierarchy.TimedStage] = [*_stages(replay), (hierarchy.COMPUTE, compute, None)]
    waited = replay.waited_for
    held = np.ascontiguousarray(waited.operation_bytes, dtype=np.float64)
    transfers = np.ascontiguousarray(waited.operation_transfers, dtype=np.float64)
    times, played = hierarchy.through_stages(stages, held, transfers, mode, ahead, timeline=timeline)
    busy_s: dict[str, float] = {}
    for stage in played:
        busy_s[stage.name] = busy_s.get(stage.name, 0) + stage.busy_s
    levels = [_level(replay, i, busy_s) for i in range(len(replay.loads))]
    joules = [level["energy_j"] for level in levels]
    return hierarchy.PlayedPoint(
        compute_s=times.busy_s[-1],
        io_s=sum(level["busy_s"] for level in levels),
        decode_s=sum(level["decode_s"] for level in levels),
        total_s=times.total_s,
        io_bytes=waited.channel_bytes,
        loaded_bytes=waited.channel_bytes,
        hit_ratio=replay.byte_hit_ratio,
        energy_j=None if compute_j is None or None in joules else compute_j + sum(joule or 0.0 for joule in joules),
        oversized=times.oversized,
        warnings=(*replay.warnings, *hierarchy.outgrown(times.oversized, replay.num_operations, "get")),
        written_bytes=None if waited.written is None else waited.written_bytes,
        levels=tuple(levels),
        stages=played,
    )


def _level(replay: LevelsReplay, i: int, busy_s: Mapping[str, float]) -> Row:
    load = replay.loads[i]
    cache, moved = load.level.cache, load.channel_bytes + load.written_bytes
    values = (
        load.level.name,
        load.level.capacity_bytes,
        None if cache is None else cache.policy if isinstance(cache, SizedCache) else FORCED_POLICY,
        load.level.reserved_bytes,
        load.pinned_bytes,
        load.hits,
        load.misses,
        load.evictions,
        load.streamed,
        load.served_bytes,
        load.channel_bytes,
        float(load.operation_transfers.sum()),
        busy_s.get(load.level.name, 0),
        busy_s.get(hierarchy.decoding(load.level.name), 0),
        hierarchy.energy_j(load.level.tier, moved) if moved else 0.0,
        load.invalidated,
        load.demoted_bytes,
        load.written_bytes,
    )
    return dict(zip(LEVEL_NAMES, values, strict=True))


def _stages(replay: LevelsReplay) -> Iterator[hierarchy.TimedStage]:
    """Name, (n,) seconds and (n,) bytes of each channel and each decoding, the deepest first."""
    for load in reversed(replay.loads):
        if not load.level.is_timed:
            continue
        crossing = np.ascontiguousarray(load.operation_bytes, dtype=np.float64)
        transfers = np.ascontiguousarray(load.operation_transfers, dtype=np.float64)
        busy = hierarchy.channel_seconds(crossing, transfers, load.level.channel)
        if load.written is not None:
            down, writes = (np.ascontiguousarray(amounts, dtype=np.float64) for amounts in load.written)
            busy = busy + hierarchy.channel_seconds(down, writes, load.level.write_channel)
        yield load.level.name, busy, load.operation_bytes
        if load.level.decode_bytes_per_s is not None:
            yield hierarchy.decoding(load.level.name), crossing / load.level.decode_bytes_per_s, load.operation_bytes
