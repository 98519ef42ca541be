"""A program on a machine with several memory levels: rows as of `slowdowns`, and each level's part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from penstock.machines.schema import Machine
from penstock.simulation.memory.prefetch import Prefetch
from penstock.simulation.price import ACCESS_CLASSES, PricedTrace

if TYPE_CHECKING:
    from penstock.simulation.memory.levels import Hierarchy
    from penstock.simulation.memory.levels_replay import LevelsReplay
    from penstock.simulation.memory.levels_time import LevelsTimeline
    from penstock.simulation.memory.tenants import Tenants

TEMPORARY = ("ciphertext",)
"""Classes whose objects a program makes and is done with; keys and plaintexts are there all the time."""
LEVEL_NAMES = (
    "level", "capacity_bytes", "policy", "reserved_bytes", "pinned_bytes", "hits", "misses", "evictions", "streamed",
    "served_bytes", "channel_bytes", "transfers", "busy_s", "decode_s", "energy_j", "invalidated", "demoted_bytes",
    "written_bytes",
)  # fmt: skip
"""Names of an entry of a row's `levels`, in their order."""


def simulate_levels(
    priced: PricedTrace,
    machine: Machine,
    hierarchies: Sequence[Hierarchy],
    *,
    modes: Sequence[str] = ("serial",),
    prefetches: Sequence[Prefetch] = (Prefetch(),),
    tenants: Tenants | None = None,
    write_back: bool = False,
) -> tuple[list[dict[str, Any]], list[str]]:
    """One row for each hierarchy and time mode (and each way of prefetching in `overlap`), and warnings.

    Returns: rows with the names `ROW_NAMES` of `slowdowns` and a list `levels`, fastest first. `tier` is
            the names of the levels; `cache_bytes`, `policy` and `hit_ratio` are those of the levels above the fastest
            channel that takes time, and `io_bytes` is what crosses it upwards; `io_s` adds up the channels of all
            levels. With `write_back` each row has `written_bytes` too, what crosses that channel downwards.
    Raises: as `replay_levels` and `play_levels`.
    """
    from penstock.simulation.memory.levels_replay import replay_levels
    from penstock.simulation.memory.levels_time import play_levels

    accesses = priced.accesses
    compute_j = float(priced.joules.sum()) if priced.joules is not None else None
    rows, warnings = [], []
    for hierarchy in hierarchies:
        loaded = replay_levels(
            accesses, hierarchy, access_class=priced.access_class, class_names=ACCESS_CLASSES, temporary=TEMPORARY,
            write_back=write_back,
        )  # fmt: skip
        for mode in modes:
            for ahead in prefetches if mode == "overlap" else (None,):
                played = play_levels(
                    priced.compute_s,
                    loaded,
                    mode=cast(Literal["serial", "overlap", "bound"], mode),
                    prefetch_depth=1 if ahead is None else ahead.depth,
                    prefetch_buffer_bytes=None if ahead is None else ahead.buffer_bytes,
                    timeline=tenants is not None and mode != "bound",
                )
                warnings += [warning for warning in played.warnings if warning not in warnings]
                row = _row(priced, machine, loaded, played, compute_j, ahead)
                if write_back:
                    row["written_bytes"] = loaded.waited_for.written_bytes
                row["levels"] = [_level(loaded, played, i) for i in range(len(loaded.loads))]
                if tenants is not None:
                    row["tenants"] = tenants.summary(played.stages[-1].end_s, loaded.waited_for.operation_bytes)
                rows.append(row)
    return rows, warnings


def _row(
    priced: PricedTrace,
    machine: Machine,
    loaded: LevelsReplay,
    played: LevelsTimeline,
    compute_j: float | None,
    ahead: Prefetch | None,
) -> dict[str, Any]:
    above = [load.level for load in loaded.loads[: loaded.hierarchy.fastest_timed]]
    sizes = [level.capacity_bytes for level in above if level.capacity_bytes is not None]
    io_j = played.io_energy_j
    return {
        "workload": priced.workload,
        "params": priced.params,
        "machine": machine.name,
        "tier": loaded.hierarchy.name,
        "mode": played.mode,
        "cache_bytes": sum(sizes) if sizes else None,
        "policy": "+".join(dict.fromkeys(_policy(level.cache) or "" for level in above)) or "forced",
        "hit_ratio": loaded.byte_hit_ratio,
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
        "io_bytes": loaded.waited_for.channel_bytes,
        "prefetch": None if ahead is None else str(ahead),
        "provenance": "simulated",
    }


def _level(loaded: LevelsReplay, played: LevelsTimeline, i: int) -> dict[str, Any]:
    from penstock.simulation.memory.levels_time import decoding

    load = loaded.loads[i]
    values = (
        load.level.name,
        load.level.capacity_bytes,
        _policy(load.level.cache),
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


def _policy(cache: object) -> str | None:
    """The policy's name; `None` for a level that holds everything."""
    from penstock.simulation.caches import SizedCache

    if cache is None:
        return None
    return cache.policy if isinstance(cache, SizedCache) else "forced"
