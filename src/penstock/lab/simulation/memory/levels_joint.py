"""Levels that know of each other: strictly inclusive, or exclusive. Replayed one access at a time.

In `penstock.lab.simulation.memory.levels_replay` levels are independent: data that one evicts may stay above it. Here

- `inclusive`: the data of a level is in every level below it. A level that evicts an object takes it from all levels
  above too (back-invalidation); an object that a level has no room for stays out of those above. The classical price: a
  level above answers for its hot objects, so that they grow cold below and are evicted there.
- `exclusive`: an object is in one level. Data found in a level moves up to the first. Evicted data moves down to the
  next level with room for all of it, over the channels on its way (a victim cache). If no cache below has room, it
  is dropped, and nothing moves: the last level has it. The classical gain: capacities add up.

A result is born in the first level with room for it, or, with inclusive levels, in all of them; only the displaced data
moves.

Policies are LRU and FIFO: the others would need to learn of removals. Channels, parts of objects and the bytes served
by levels are as with independent levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.errors import SimulationInputError
from penstock.lab.simulation.memory.levels import EXCLUSIVE, Hierarchy, Level, LevelLoad
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import SizedCache

JOINT_POLICIES = ("lru", "fifo")


@dataclass(slots=True)
class _Cache:
    """A queue of objects, the next to go first, with the bytes that are here of each."""

    capacity: int
    moves_on_use: bool
    held: dict[int, int] = field(default_factory=dict)
    used: int = 0

    def use(self, obj: int) -> None:
        if self.moves_on_use:
            self.held[obj] = self.held.pop(obj)

    def take(self, obj: int) -> int:
        """The bytes that were here of it."""
        size = self.held.pop(obj, 0)
        self.used -= size
        return size

    def put(self, obj: int, size: int) -> list[tuple[int, int]]:
        """Makes room for `size` bytes of `obj`, which fit; what had to go, with its bytes."""
        grown = size - self.held.get(obj, 0)
        victims: list[tuple[int, int]] = []
        if self.used + grown > self.capacity:
            freed = 0
            for other, bytes_ in self.held.items():
                if other == obj:
                    continue
                victims.append((other, bytes_))
                freed += bytes_
                if self.used + grown - freed <= self.capacity:
                    break
            for other, _ in victims:
                self.take(other)
        self.held[obj] = size
        self.used += grown
        return victims


def replay_joint(accesses: Accesses, hierarchy: Hierarchy) -> list[LevelLoad]:
    """Plays `accesses` through levels that are inclusive or exclusive; a load of each level.

    Raises: SimulationInputError: a policy or a feature that only independent levels have.
    """
    caches = [_cache(level, hierarchy) for level in hierarchy.levels[:-1]]
    n = accesses.num_operations
    loads = [
        LevelLoad(level=level, operation_bytes=np.zeros(n, np.int64), operation_transfers=np.zeros(n, np.int64))
        for level in hierarchy.levels
    ]
    access = _exclusive if hierarchy.inclusion == EXCLUSIVE else _inclusive
    operation = np.repeat(np.arange(n), np.diff(accesses.access_start)).tolist()
    objects, needs = accesses.access_object.tolist(), accesses.access_bytes.tolist()
    for i, obj, need, is_read in zip(operation, objects, needs, accesses.is_read.tolist(), strict=True):
        if is_read:
            access(caches, loads, i, obj, need)
        else:
            _born(caches, loads, i, obj, need, hierarchy.inclusion)
    return loads


def _cache(level: Level, hierarchy: Hierarchy) -> _Cache:
    cache = level.cache
    if hierarchy.pins or level.shares or level.reserved:
        raise SimulationInputError(
            f"levels that are {hierarchy.inclusion} have no pins, shares or reservations: leave them out, or leave the "
            "levels independent"
        )
    if not isinstance(cache, SizedCache) or cache.policy not in JOINT_POLICIES:
        name = cache.policy if isinstance(cache, SizedCache) else "a stated hit ratio"
        raise SimulationInputError(
            f"level '{level.name}' has {name}: levels that are {hierarchy.inclusion} take lru or fifo, which can give "
            "up an object at any time"
        )
    return _Cache(int(cache.capacity_bytes), cache.policy == "lru")


def _asked(loads: Sequence[LevelLoad], level: int, operation: int, size: int) -> None:
    loads[level].operation_bytes[operation] += size
    loads[level].operation_transfers[operation] += 1


def _inclusive(caches: list[_Cache], loads: list[LevelLoad], operation: int, obj: int, need: int) -> None:
    above = reached = 0
    for level in range(len(loads)):
        reached = level
        _asked(loads, level, operation, need - above)
        held = need if level == len(caches) else min(caches[level].held.get(obj, 0), need)
        if level < len(caches) and held:
            caches[level].use(obj)
        if held > above:
            loads[level].served_bytes += held - above
            above = held
        if held == need:
            loads[level].hits += 1
            break
        loads[level].misses += 1
    _take_up(caches, loads, min(reached, len(caches)), obj, need)


def _take_up(caches: list[_Cache], loads: list[LevelLoad], reached: int, obj: int, need: int) -> None:
    """Puts an object into the levels above the one that was reached; from below: each has what those above have."""
    for level in reversed(range(reached)):
        if need > caches[level].capacity:
            # Levels above would hold more than this one.
            for other in range(level + 1):
                loads[other].streamed += need > caches[other].capacity or other < level
            return
        for victim, _ in caches[level].put(obj, need):
            loads[level].evictions += 1
            for other in range(level):
                loads[other].invalidated += caches[other].take(victim) > 0


def _exclusive(caches: list[_Cache], loads: list[LevelLoad], operation: int, obj: int, need: int) -> None:
    holder = next((level for level, cache in enumerate(caches) if obj in cache.held), None)
    held = 0 if holder is None else caches[holder].held[obj]
    serves = min(held, need)
    for level in range(len(loads)):
        behind = holder is not None and level > holder
        _asked(loads, level, operation, need - serves if behind else need)
        if level == holder:
            loads[level].served_bytes += serves
        last = level == len(caches)
        if last:
            loads[level].served_bytes += need - serves
        if last or (level == holder and serves == need):
            loads[level].hits += 1
            break
        loads[level].misses += 1
    size = max(held, need)
    if holder == 0 and size <= caches[0].capacity:
        caches[0].use(obj)
        if size > held:
            _settle(caches, loads, operation, 0, obj, size)
        return
    target = _with_room(caches, size)
    if caches and need > caches[0].capacity:
        loads[0].streamed += 1
    if holder is not None and target in (None, holder):
        caches[holder].use(obj)
    elif holder is not None and target is not None:
        caches[holder].take(obj)
        for level in range(target + 1, holder + 1):
            # Bytes here beyond the need move up with it.
            loads[level].operation_bytes[operation] += held - serves
        # If it has outgrown this level, its bytes here go down to a level with room for all of it.
        _falls(loads, operation, holder, target, held)
        loads[holder].evictions += target > holder
    if target is None:
        return
    _settle(caches, loads, operation, target, obj, size)


def _born(caches: list[_Cache], loads: list[LevelLoad], operation: int, obj: int, size: int, inclusion: str) -> None:
    """A result: inclusive levels take it up from below, exclusive ones have it in the first with room for it."""
    for cache in caches:
        cache.take(obj)
    if inclusion != EXCLUSIVE:
        _take_up(caches, loads, len(caches), obj, size)
        return
    target = _with_room(caches, size)
    if caches and target != 0:
        loads[0].streamed += 1
    if target is not None:
        _settle(caches, loads, operation, target, obj, size)


def _settle(caches: list[_Cache], loads: list[LevelLoad], operation: int, level: int, obj: int, size: int) -> None:
    """Puts an object into a level that has room for it; the displaced data goes down, level by level."""
    falling = {level: [(obj, size)]}
    for at in range(level, len(caches)):
        for fallen, bytes_ in falling.pop(at, []):
            for victim, freed in caches[at].put(fallen, bytes_):
                loads[at].evictions += 1
                target = _with_room(caches, freed, at + 1)
                if target is not None:
                    _falls(loads, operation, at, target, freed)
                    falling.setdefault(target, []).append((victim, freed))


def _with_room(caches: list[_Cache], size: int, first: int = 0) -> int | None:
    """The first level from `first` on that can hold an object of this size; `None`: none."""
    return next((level for level in range(first, len(caches)) if size <= caches[level].capacity), None)


def _falls(loads: list[LevelLoad], operation: int, above: int, target: int, size: int) -> None:
    """Counts bytes on their way down from a level; nothing where the target is not below it."""
    for level in range(above + 1, target + 1):
        loads[level].operation_bytes[operation] += size
    if target > above:
        loads[target].demoted_bytes += size
