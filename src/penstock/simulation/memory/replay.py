"""Plays accesses through one cache: the loads of each operation. Typed facade of the engine's first step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from penstock.simulation.accesses import Accesses
from penstock.simulation.caches import Cache, ForcedHitRatio, NoCache, SizedCache
from penstock.simulation.engine import Bools, ConservationError, Floats, Ints, SimulationInputError, _engine
from penstock.simulation.own import replay_own
from penstock.units import format_bytes


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
    evictions: int
    """Objects pushed out by others."""
    streamed: int
    """Misses and results larger than the whole cache; they pass by it."""
    peak_resident_bytes: int
    access_miss_bytes: Ints | None
    """(m,) bytes that each access loads, 0 for a hit and for a result; `None` unless asked for."""
    results: int = 0
    """Accesses that make their object; they take room, and nothing is loaded for them."""

    @property
    def num_operations(self) -> int:
        return len(self.operation_bytes)

    @property
    def hit_mask(self) -> Bools | None:
        """(m,) whether each access was a hit; `None` unless detail was asked for."""
        return None if self.access_miss_bytes is None else self.access_miss_bytes == 0

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
        hits=got.hits,
        misses=got.misses,
        hit_bytes=got.hit_bytes,
        miss_bytes=got.total_miss_bytes,
        evictions=got.evictions,
        streamed=got.streamed,
        peak_resident_bytes=got.peak_resident_bytes,
        access_miss_bytes=got.access_miss_bytes,
    )


def _results_for_nothing(kept: Replay, accesses: Accesses, *, detail: bool) -> Replay:
    """The remaining loads if results are played as reads: they change the cache, and move nothing."""
    if kept.access_miss_bytes is None or accesses.is_result is None:
        raise ConservationError("results without the detail of their replay: please report it")
    missed = np.where(accesses.is_result, 0, kept.access_miss_bytes)
    requested, loaded = int(accesses.access_bytes[accesses.is_read].sum()), int(missed.sum())
    reads, misses = int(accesses.is_read.sum()), int(np.count_nonzero(missed))
    return replace(
        kept,
        operation_bytes=_by_operation(missed, accesses),
        operation_transfers=_by_operation((missed > 0).astype(np.int64), accesses),
        accesses=reads,
        results=len(accesses) - reads,
        requested_bytes=requested,
        hits=reads - misses,
        misses=misses,
        hit_bytes=requested - loaded,
        miss_bytes=loaded,
        access_miss_bytes=missed if detail else None,
    )


def _by_operation(values: Ints, accesses: Accesses) -> Ints:
    sums = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(values)))
    return np.asarray(sums[accesses.access_start[1:]] - sums[accesses.access_start[:-1]], dtype=np.int64)


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
        evictions=0,
        streamed=0,
        peak_resident_bytes=0,
        access_miss_bytes=None,
    )
