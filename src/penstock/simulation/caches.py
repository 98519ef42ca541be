"""What may stand between compute and a tier: nothing, a stated hit ratio, or a cache with a replacement policy.

A policy is a module of the crate `penstock-sim` with a line in its registry, a twin in
`penstock.simulation.oracle_policies`, and a class here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from penstock.errors import UnknownName
from penstock.simulation.engine import INT64_MAX, SimulationInputError


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
class SizedCache:
    """A cache of so many bytes; its subclasses are the replacement policies."""

    capacity_bytes: int

    policy: ClassVar[str]

    def __post_init__(self) -> None:
        capacity = self.capacity_bytes
        if not isinstance(capacity, (int, np.integer)) or isinstance(capacity, bool):
            raise SimulationInputError(f"cache capacity {capacity!r}: it is a whole number of bytes")
        if not 0 <= capacity <= INT64_MAX:
            raise SimulationInputError(f"cache capacity {capacity}: it lies between 0 and 2^63 - 1 bytes")


@dataclass(frozen=True, slots=True)
class Lru(SizedCache):
    """Evicts what was used longest ago."""

    policy: ClassVar[str] = "lru"


@dataclass(frozen=True, slots=True)
class Fifo(SizedCache):
    """Evicts what came in longest ago."""

    policy: ClassVar[str] = "fifo"


@dataclass(frozen=True, slots=True)
class Lfu(SizedCache):
    """Evicts what was used the fewest times since it came in."""

    policy: ClassVar[str] = "lfu"


@dataclass(frozen=True, slots=True)
class S3Fifo(SizedCache):
    """A small queue for newcomers, a main queue for what is used again (SOSP 2023)."""

    policy: ClassVar[str] = "s3-fifo"


@dataclass(frozen=True, slots=True)
class Arc(SizedCache):
    """Adapts between what was used lately and what is used often (FAST 2003)."""

    policy: ClassVar[str] = "arc"


@dataclass(frozen=True, slots=True)
class Belady(SizedCache):
    """Knows the future: evicts the object that is used again last. Optimal for objects of one size."""

    policy: ClassVar[str] = "belady"


@dataclass(frozen=True, slots=True)
class Optimal(SizedCache):
    """Knows the future and keeps parts of objects, first bytes first: no policy loads fewer bytes."""

    policy: ClassVar[str] = "optimal"


SIZED_CACHES: dict[str, type[SizedCache]] = {
    cache.policy: cache for cache in (Lru, Fifo, Lfu, S3Fifo, Arc, Belady, Optimal)
}
"""Caches with a capacity, by the name of their replacement policy."""

Cache: TypeAlias = NoCache | ForcedHitRatio | SizedCache


def cache_named(policy: str, capacity_bytes: int) -> SizedCache:
    """The cache of `capacity_bytes` with this replacement policy.

    Raises: UnknownName: no policy has this name.
    >>> cache_named("belady", 4096)
    Belady(capacity_bytes=4096)
    """
    if policy not in SIZED_CACHES:
        raise UnknownName("replacement policy", policy, SIZED_CACHES)
    return SIZED_CACHES[policy](capacity_bytes)
