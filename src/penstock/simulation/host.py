"""One host: a program over one cache and one tier, or over several levels, at many paces.

One tier is the special case of levels that `levels.cache_over` makes; it has the same numbers, and is played at all
paces at once. The storage-I/O study's law is the closed form of the time mode `serial` (`memory.serial_law`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.simulation.caches import Cache, SizedCache
from penstock.simulation.memory.levels import Hierarchy
from penstock.simulation.memory.levels_replay import LevelsReplay, replay_levels
from penstock.simulation.memory.levels_time import LevelsTimeline, decoding, play_levels
from penstock.simulation.memory.prefetch import Prefetch
from penstock.simulation.memory.replay import Replay, replay
from penstock.simulation.memory.tenants import Tenants
from penstock.simulation.price import ACCESS_CLASSES, Floats, PricedTrace
from penstock.simulation.rows import FORCED_POLICY, LEVEL_NAMES, Result, Row
from penstock.simulation.timing import Pace, Timeline, play_many, play_pace
from penstock.work.shapes import Ints

TEMPORARY = ("ciphertext",)
"""Classes whose objects a program makes and is done with; keys and plaintexts are there all the time."""


def over_tier(
    priced: PricedTrace,
    cache: Cache | Replay,
    paces: Sequence[Pace],
    *,
    compute_s: Floats | None = None,
    tenants: Tenants | None = None,
) -> list[Result]:
    """A program through one cache, at each pace.

    Args:   cache: or what it has left to load already; compute_s: (n,) seconds of each operation where they are not
            those of `priced`, on one of several hosts; tenants: the programs that `priced` is made of.
    Raises: SimulationInputError; ClockOverflow.
    """
    loaded = cache if isinstance(cache, Replay) else replay(priced.accesses, cache)
    compute_j = _compute_j(priced)
    results = [
        _result(played, loaded.byte_hit_ratio, loaded.miss_bytes, compute_j)
        for played in play_many(priced.compute_s if compute_s is None else compute_s, loaded, paces)
    ]
    if tenants is None:
        return results
    return [
        _shared(each, tenants, _ends(priced, loaded, pace), loaded.operation_bytes)
        for each, pace in zip(results, paces, strict=True)
    ]


def over_levels(
    priced: PricedTrace,
    hierarchy: Hierarchy,
    paces: Sequence[Pace],
    *,
    write_back: bool = False,
    tenants: Tenants | None = None,
) -> list[Result]:
    """A program through several levels, at each pace; a pace's own tier and decoding are not looked at.

    Returns: `hit_ratio` of the levels above the fastest channel that takes time, and `io_bytes` that cross it upwards;
            `io_s` adds up the channels of all levels.
    Raises: as `replay_levels` and `play_levels`.
    """
    loaded = replayed(priced, hierarchy, write_back=write_back)
    results, compute_j = list[Result](), _compute_j(priced)
    for pace in paces:
        played = timed(priced, loaded, pace, timeline=tenants is not None and pace.mode != "bound")
        waited = loaded.waited_for
        result = replace(
            _result(played, loaded.byte_hit_ratio, waited.channel_bytes, compute_j),
            written_bytes=waited.written_bytes if write_back else None,
            levels=tuple(_level(loaded, played, i) for i in range(len(loaded.loads))),
        )
        if tenants is not None:
            result = _shared(result, tenants, played.stages[-1].end_s, waited.operation_bytes)
        results.append(result)
    return results


def replayed(priced: PricedTrace, hierarchy: Hierarchy, *, write_back: bool = False) -> LevelsReplay:
    """What each level serves of a program."""
    return replay_levels(
        priced.accesses,
        hierarchy,
        access_class=priced.access_class,
        class_names=ACCESS_CLASSES,
        temporary=TEMPORARY,
        write_back=write_back,
    )


def timed(priced: PricedTrace, loaded: LevelsReplay, pace: Pace, *, timeline: bool) -> LevelsTimeline:
    """The time of this."""
    ahead = pace.prefetch or Prefetch()
    return play_levels(
        priced.compute_s,
        loaded,
        mode=pace.mode,
        prefetch_depth=ahead.depth,
        prefetch_buffer_bytes=ahead.buffer_bytes,
        prefetch_own=ahead.own,
        timeline=timeline,
    )


def _compute_j(priced: PricedTrace) -> float | None:
    return None if priced.joules is None else float(priced.joules.sum())


def _result(
    played: Timeline | LevelsTimeline, hit_ratio: float | None, io_bytes: float, compute_j: float | None
) -> Result:
    io_j = played.io_energy_j if io_bytes or isinstance(played, LevelsTimeline) else 0.0
    return Result(
        compute_s=played.compute_s,
        io_s=played.io_s,
        decode_s=played.decode_s,
        total_s=played.total_s,
        io_bytes=io_bytes,
        loaded_bytes=io_bytes,
        hit_ratio=hit_ratio,
        energy_j=None if compute_j is None or io_j is None else compute_j + io_j,
        warnings=played.warnings,
    )


def _shared(result: Result, tenants: Tenants, end_s: Floats | None, operation_bytes: Ints | Floats) -> Result:
    """With when each program ends."""
    return replace(result, programs=len(tenants.names), tenants=tuple(tenants.summary(end_s, operation_bytes)))


def _ends(priced: PricedTrace, loaded: Replay, pace: Pace) -> Floats | None:
    """(n,) when each operation ends; `None` where the mode puts none at a time."""
    if pace.mode == "bound":
        return None
    schedule = play_pace(priced.compute_s, loaded, pace, timeline=True).schedule
    return None if schedule is None else schedule.compute_end_s


def _level(loaded: LevelsReplay, played: LevelsTimeline, i: int) -> Row:
    load = loaded.loads[i]
    cache = load.level.cache
    policy = None if cache is None else cache.policy if isinstance(cache, SizedCache) else FORCED_POLICY
    values = (
        load.level.name,
        load.level.capacity_bytes,
        policy,
        load.level.reserved_bytes,
        load.pinned_bytes,
        load.hits,
        load.misses,
        load.evictions,
        load.streamed,
        load.served_bytes,
        load.channel_bytes,
        float(load.operation_transfers.sum()),
        played.busy_s(load.level.name),
        played.busy_s(decoding(load.level.name)),
        played.level_energy_j[i],
        load.invalidated,
        load.demoted_bytes,
        load.written_bytes,
    )
    return dict(zip(LEVEL_NAMES, values, strict=True))
