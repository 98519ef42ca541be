"""Levels of memory: their capacity, and the rate of their channels. `levels_replay` has the rules.

A hierarchy is its levels, fastest first. Every level but the last is a cache of any kind; the last holds everything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from penstock.base.arrays import Floats, Ints
from penstock.errors import SimulationInputError, check_known
from penstock.lab.simulation.memory.residents import Reservation
from penstock.scheme.play.caches import Cache, ForcedHitRatio, NoCache, SizedCache
from penstock.scheme.play.hierarchy import BackingTier, Rates

INDEPENDENT, INCLUSIVE, EXCLUSIVE = "independent", "inclusive", "exclusive"
INCLUSIONS = (INDEPENDENT, INCLUSIVE, EXCLUSIVE)
"""Relation of levels: none; a copy above requires one below; an object is in one level."""
NOT_TIMED = Rates(bandwidth_bytes_per_s=math.inf, energy_j_per_byte=0.0)
"""The channel of memory whose time and energy are in the price of the operations: a machine's own on-chip memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level of memory, and the channel from it to the next faster one."""

    name: str
    cache: Cache | None = None
    """How it chooses what to hold; `None`: it holds everything."""
    tier: BackingTier = NOT_TIMED
    decode_bytes_per_s: float | None = None
    """Rate of decoding behind the channel; `None`: no decoding."""
    reserved: tuple[Reservation, ...] = ()
    shares: Mapping[str, int] = field(default_factory=dict)
    """Class -> bytes of this level that it has for itself; 0: it passes by."""

    def __post_init__(self) -> None:
        if self.decode_bytes_per_s is not None and not self.decode_bytes_per_s > 0:
            raise SimulationInputError(f"level '{self.name}': decode rate {self.decode_bytes_per_s}: it is positive")
        if not isinstance(self.cache, SizedCache) and (self.shares or self.reserved_bytes):
            raise SimulationInputError(
                f"level '{self.name}' has no capacity to share or reserve; give it a size, or leave them out"
            )
        for name, size in self.shares.items():
            if size < 0:
                raise SimulationInputError(f"level '{self.name}': the share of '{name}' is {size} bytes; not negative")
        if self.bandwidth_share >= 1:
            raise SimulationInputError(f"level '{self.name}': reservations leave nothing of its bandwidth")

    @property
    def capacity_bytes(self) -> int | None:
        """`None` where no size is stated."""
        return int(self.cache.capacity_bytes) if isinstance(self.cache, SizedCache) else None

    @property
    def reserved_bytes(self) -> int:
        return sum(resident.capacity_bytes for resident in self.reserved)

    @property
    def bandwidth_share(self) -> float:
        """What reservations take of the bandwidth."""
        return sum(resident.bandwidth_share for resident in self.reserved)

    @property
    def channel(self) -> BackingTier:
        """The tier, with the bandwidth that reservations leave."""
        return self._left_of(self.tier.bandwidth_bytes_per_s)

    def _left_of(self, bandwidth_bytes_per_s: float) -> Rates:
        return Rates(
            bandwidth_bytes_per_s=bandwidth_bytes_per_s * (1 - self.bandwidth_share),
            latency_s=self.tier.latency_s,
            energy_j_per_byte=getattr(self.tier, "energy_j_per_byte", None),
        )

    @property
    def write_channel(self) -> BackingTier:
        """The channel downwards: the tier's rate of writing, or of reading where it states none."""
        stated = self.stated_write_bandwidth
        return self.channel if stated is None else self._left_of(stated)

    @property
    def stated_write_bandwidth(self) -> float | None:
        """Bytes a second; `None` where the tier states none."""
        rate: float | None = getattr(self.tier, "write_bandwidth_bytes_per_s", None)
        return rate

    @property
    def is_timed(self) -> bool:
        return (
            math.isfinite(self.tier.bandwidth_bytes_per_s)
            or self.tier.latency_s > 0
            or self.decode_bytes_per_s is not None
        )


@dataclass(frozen=True)
class Hierarchy:
    """Levels, fastest first, and the data pinned in each."""

    levels: tuple[Level, ...]
    pins: Mapping[str, str] = field(default_factory=dict)
    """Class -> the level that it lives in."""
    inclusion: str = INDEPENDENT

    def __post_init__(self) -> None:
        check_known("inclusion", self.inclusion, INCLUSIONS)
        names = [level.name for level in self.levels]
        if not names:
            raise SimulationInputError("a hierarchy without levels: name one at least")
        doubled = next((name for i, name in enumerate(names) if name in names[:i]), None)
        if doubled is not None:
            raise SimulationInputError(f"two levels are named '{doubled}': results could not be told apart")
        for level in self.levels[:-1]:
            if level.cache is None:
                raise SimulationInputError(
                    f"level '{level.name}' has no size: only the last level, '{names[-1]}', holds everything; "
                    f"give a size, '{level.name}:40 GB'"
                )
        if self.levels[-1].cache is not None:
            raise SimulationInputError(
                f"the last level, '{names[-1]}', has a size: it holds everything that no other does; leave its size "
                "out, or name the level below it"
            )
        for where in self.pins.values():
            check_known("level", where, names)

    @property
    def name(self) -> str:
        """`on-chip+hbm3+nvme-gen5`, and what levels know of each other where they do."""
        names = "+".join(level.name for level in self.levels)
        return names if self.inclusion == INDEPENDENT else f"{names} ({self.inclusion})"

    @property
    def classes(self) -> tuple[str, ...]:
        """Classes that some level pins or shares out: they have to be played, whatever else is resident."""
        shared = [name for level in self.levels for name in level.shares]
        return tuple(dict.fromkeys([*self.pins, *shared]))

    @cached_property
    def fastest_timed(self) -> int:
        """The index of the first level whose channel takes time: what crosses it has to be waited for."""
        return next((i for i, level in enumerate(self.levels) if level.is_timed), len(self.levels) - 1)


@dataclass(slots=True, kw_only=True, eq=False)
class LevelLoad:
    """The part of one level in a program. With a forced hit ratio at or above it counts are expected values, floats."""

    level: Level
    operation_bytes: Ints | Floats
    """(n,) bytes that each operation gets over the level's channel: from here and from below."""
    operation_transfers: Ints | Floats
    """(n,) accesses of each operation that reach the level."""
    served_bytes: float = 0
    hits: float = 0
    """Accesses that found here all that was left of their need."""
    misses: float = 0
    """Accesses that had to go further down."""
    evictions: int = 0
    streamed: int = 0
    """Misses and results larger than the room that their class has here; they pass by."""
    pinned_bytes: int = 0
    """Bytes of the classes that live here; loaded before the program starts, and not timed."""
    invalidated: int = 0
    """Objects that a level below took away by evicting them (inclusive levels)."""
    demoted_bytes: int = 0
    """Bytes that levels above evicted into this one, over the channel (exclusive levels)."""
    written: tuple[Ints, Ints] | None = None
    """(n,) bytes of results that cross the channel downwards, at the operation whose transfers they join, and (n,) how
    many results; `None`: they are not written back."""

    @property
    def channel_bytes(self) -> float:
        """Bytes over the channel, upwards."""
        return float(self.operation_bytes.sum())

    @property
    def written_bytes(self) -> int:
        """Bytes over the channel, downwards."""
        return 0 if self.written is None else int(self.written[0].sum())


def cache_over(cache: Cache, tier: BackingTier, name: str, decode_bytes_per_s: float | None = None) -> Hierarchy:
    """One cache in front of one tier, as levels; a cache that never has anything is none."""
    behind = Level(name=name, tier=tier, decode_bytes_per_s=decode_bytes_per_s)
    if isinstance(cache, NoCache) or (isinstance(cache, ForcedHitRatio) and not cache.hit_ratio):
        return Hierarchy((behind,))
    return Hierarchy((Level(name="cache", cache=cache), behind))


def changed(
    hierarchy: Hierarchy,
    *,
    pins: Mapping[str, str] | None = None,
    shares: Iterable[tuple[str, str, int]] = (),
    reserves: Iterable[tuple[str, Reservation]] = (),
    decode_bytes_per_s: float | None = None,
    inclusion: str | None = None,
) -> Hierarchy:
    """The hierarchy with more pins, shares (level, class, bytes) and reservations (level, what).

    Args:   decode_bytes_per_s: rate of decoding behind the last level if it states none; inclusion: one of
            `INCLUSIONS`, to replace its own.
    Raises: UnknownName: no such level; SimulationInputError: as for `Level`.
    """
    levels = {level.name: level for level in hierarchy.levels}

    def named(name: str) -> Level:
        check_known("level", name, levels)
        return levels[name]

    for where, name, size in shares:
        levels[where] = replace(named(where), shares={**named(where).shares, name: size})
    for where, what in reserves:
        levels[where] = replace(named(where), reserved=(*named(where).reserved, what))
    last = hierarchy.levels[-1].name
    if decode_bytes_per_s is not None and levels[last].decode_bytes_per_s is None:
        levels[last] = replace(levels[last], decode_bytes_per_s=decode_bytes_per_s)
    return Hierarchy(tuple(levels.values()), {**hierarchy.pins, **(pins or {})}, inclusion or hierarchy.inclusion)


def check_write_back(hierarchy: Hierarchy) -> None:
    """Raises: SimulationInputError: these levels do not state the written data."""
    if hierarchy.inclusion != INDEPENDENT:
        raise SimulationInputError(
            f"results are written back by independent levels; these are {hierarchy.inclusion}, which drop or move what "
            "they evict by rules of their own"
        )
    if any(isinstance(level.cache, ForcedHitRatio) for level in hierarchy.levels):
        raise SimulationInputError(
            "a stated hit ratio does not say which results are read again from below: give a size to write back"
        )
