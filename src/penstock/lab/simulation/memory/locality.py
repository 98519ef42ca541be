"""The savings of a runtime that knows the program: FHE is oblivious, so every future access is known beforehand.

Beside the baseline, LRU that loads on demand, stand Belady's policy on whole objects, the optimum (Belady's policy on
parts of objects, which loads the fewest bytes that any policy can), and perfect prefetching (as early as a buffer
allows). The buffer is part of the same memory: a runtime that prefetches has so much less cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.base.types import Row, Rows
from penstock.errors import UsageError
from penstock.scheme.machines.schema import Machine, Tier
from penstock.scheme.play.caches import SizedCache
from penstock.scheme.play.hierarchy import Mode, Pace, Prefetch, play_many, replay
from penstock.scheme.play.price import PricedTrace
from penstock.scheme.unpriced import refuse

RUNTIMES: tuple[tuple[str, str, bool], ...] = (
    ("lru", "lru", False),
    ("lru+prefetch", "lru", True),
    ("belady", "belady", False),
    ("belady+prefetch", "belady", True),
    ("optimal", "optimal", False),
    ("optimal+prefetch", "optimal", True),
)
"""Name, replacement policy, and whether it prefetches; the first is the baseline."""


def locality_table(
    priced: PricedTrace,
    machine: Machine,
    tiers: Sequence[Tier],
    *,
    memory_bytes: int | None = None,
    prefetch_buffer_bytes: int | None = None,
    decode_bytes_per_s: float | None = None,
    warnings: list[str] | None = None,
) -> Rows:
    """One row for each tier and runtime: LRU, Belady and the optimum, each on demand and with perfect prefetching.

    Args:   memory_bytes: of a runtime for cache and buffer together (default: the machine's on-chip memory);
            prefetch_buffer_bytes: its buffer (default: room for the two largest needs of one operation, but at most
            half of the memory); warnings: gets what makes a row less than it seems, once each.
    Returns: rows with what each runtime loads and takes. Runtimes without prefetching load on demand (mode `serial`);
            `saved_*` is against LRU on demand, shares of its bytes and seconds.
    Raises: UsageError: the machine states no on-chip memory, or the buffer takes all of it.
    """
    refuse(priced.unpriced, f"{priced.workload} on '{machine.name}': what a runtime saves is a share of the whole")
    memory, buffer = _memory_and_buffer(machine, priced, memory_bytes, prefetch_buffer_bytes)
    loaded = {
        (policy, ahead): replay(priced.accesses, SizedCache(policy, memory - buffer if ahead else memory))
        for _, policy, ahead in RUNTIMES
    }
    rows: Rows = []
    for tier in tiers:
        baseline: Row | None = None
        for runtime, policy, ahead in RUNTIMES:
            kept = loaded[policy, ahead]
            mode: Mode = "overlap" if ahead else "serial"
            window = Prefetch(None, buffer) if ahead else Prefetch()
            pace = Pace(tier=tier, mode=mode, decode_bytes_per_s=decode_bytes_per_s, prefetch=window)
            (played,) = play_many(priced.compute_s, kept, [pace])
            row: Row = {
                "workload": priced.workload,
                "params": priced.params,
                "machine": machine.name,
                "tier": tier.name,
                "runtime": runtime,
                "policy": policy,
                "memory_bytes": memory,
                "cache_bytes": memory - buffer if ahead else memory,
                "prefetch_buffer_bytes": buffer if ahead else 0,
                "hit_ratio": kept.byte_hit_ratio,
                "io_bytes": int(kept.miss_bytes),
                **{name: getattr(played, name) for name in ("compute_s", "io_s", "total_s", "slowdown")},
            }
            if warnings is not None:
                warnings += [warning for warning in played.warnings if warning not in warnings]
            baseline = baseline or row
            rows.append({**row, **_saved(baseline, row), "provenance": "simulated"})
    return rows


def _memory_and_buffer(
    machine: Machine, priced: PricedTrace, memory_bytes: int | None, buffer_bytes: int | None
) -> tuple[int, int]:
    """Bytes of a runtime's memory, and of its prefetch buffer in it."""
    memory = machine.on_chip_bytes if memory_bytes is None else memory_bytes
    if memory <= 0 and memory_bytes is not None:
        raise UsageError(f"a cache of {memory_bytes} bytes keeps nothing, whatever the policy: name a larger one")
    if memory <= 0:
        raise UsageError(f"machine '{machine.name}' states no on-chip memory: say how large the cache is")
    if buffer_bytes is None:
        largest = int(replay(priced.accesses, SizedCache("lru", 0)).operation_bytes.max(initial=0))
        buffer_bytes = min(2 * largest, memory // 2)
    if not 0 <= buffer_bytes <= memory:
        raise UsageError(
            f"a prefetch buffer of {buffer_bytes} bytes in a memory of {memory}: it is a part of the memory"
        )
    return memory, buffer_bytes


def _saved(baseline: Row, row: Row) -> Row:
    """What a runtime saves against the baseline, and its shares of that."""
    columns = {}
    for name, unit in (("io_bytes", "bytes"), ("total_s", "s")):
        saved = baseline[name] - row[name]
        columns[f"saved_{unit}"] = saved
        columns[f"saved_{unit}_share"] = saved / baseline[name] if baseline[name] else None
    return columns
