"""Twins of the engine's replacement policies: slow, obvious, and equal to them access for access.

A list is in order of arrival, oldest first. Sizes are looked up and summed anew wherever they are needed.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol


class Policy(Protocol):
    def touch(self, obj: int, at: int) -> bool:
        """A resident object is accessed; false if it gives up its room at once, and is then forgotten."""

    def admits(self, obj: int, at: int) -> bool:
        """Whether an object that is not resident may come in."""

    def make_room(self, obj: int, at: int, needed: int, resident: Mapping[int, int]) -> list[int] | None:
        """Residents other than `obj` that free `needed` bytes, forgotten; `None`: nothing changes, no room is made."""

    def insert(self, obj: int, at: int, resident: Mapping[int, int]) -> None:
        """`obj` has become resident, or a larger part of it; `resident` has its bytes."""


def _first(order: Sequence[int], needed: int, resident: Mapping[int, int]) -> list[int] | None:
    """The first of `order` that free `needed` bytes; `None` if all of them do not."""
    victims: list[int] = []
    for obj in order:
        if needed <= 0:
            break
        victims.append(obj)
        needed -= resident[obj]
    return victims if needed <= 0 else None


class Lru:
    def __init__(self, objects: Sequence[int], capacity: int) -> None:
        self._by_age: list[int] = []

    def touch(self, obj: int, at: int) -> bool:
        self._by_age.remove(obj)
        self._by_age.append(obj)
        return True

    def admits(self, obj: int, at: int) -> bool:
        return True

    def make_room(self, obj: int, at: int, needed: int, resident: Mapping[int, int]) -> list[int] | None:
        victims = _first([other for other in self._by_age if other != obj], needed, resident)
        self._by_age = [other for other in self._by_age if other not in (victims or ())]
        return victims

    def insert(self, obj: int, at: int, resident: Mapping[int, int]) -> None:
        if obj not in self._by_age:
            self._by_age.append(obj)


class Fifo(Lru):
    def touch(self, obj: int, at: int) -> bool:
        return True


class Lfu:
    def __init__(self, objects: Sequence[int], capacity: int) -> None:
        self._uses: dict[int, tuple[int, int]] = {}
        """How often, and when last."""

    def touch(self, obj: int, at: int) -> bool:
        self._uses[obj] = (self._uses[obj][0] + 1, at)
        return True

    def admits(self, obj: int, at: int) -> bool:
        return True

    def make_room(self, obj: int, at: int, needed: int, resident: Mapping[int, int]) -> list[int] | None:
        order = sorted((other for other in self._uses if other != obj), key=lambda other: self._uses[other])
        victims = _first(order, needed, resident)
        for victim in victims or ():
            del self._uses[victim]
        return victims

    def insert(self, obj: int, at: int, resident: Mapping[int, int]) -> None:
        if obj not in self._uses:
            self._uses[obj] = (1, at)


class S3Fifo:
    def __init__(self, objects: Sequence[int], capacity: int) -> None:
        self._small: list[int] = []
        self._main: list[int] = []
        self._ghost: list[tuple[int, int]] = []
        """Object and the bytes that it had."""
        self._uses: dict[int, int] = {}
        self._small_limit = capacity // 10
        self._ghost_limit = capacity - capacity // 10

    def touch(self, obj: int, at: int) -> bool:
        self._uses[obj] = min(self._uses[obj] + 1, 3)
        return True

    def admits(self, obj: int, at: int) -> bool:
        return True

    def make_room(self, obj: int, at: int, needed: int, resident: Mapping[int, int]) -> list[int] | None:
        victims: list[int] = []
        while sum(resident[victim] for victim in victims) < needed:
            small = [other for other in self._small if other != obj]
            main = [other for other in self._main if other != obj]
            small_is_full = sum(resident[other] for other in self._small) >= self._small_limit
            if small and (small_is_full or not main):
                oldest = small[0]
                self._small.remove(oldest)
                if self._uses[oldest] > 1:
                    self._uses[oldest] = 0
                    self._main.append(oldest)
                    continue
                victims.append(oldest)
                self._ghost.append((oldest, resident[oldest]))
                while sum(size for _, size in self._ghost) > self._ghost_limit:
                    self._ghost.pop(0)
            else:
                oldest = main[0]
                self._main.remove(oldest)
                if self._uses[oldest] > 0:
                    self._uses[oldest] -= 1
                    self._main.append(oldest)
                    continue
                victims.append(oldest)
        return victims

    def insert(self, obj: int, at: int, resident: Mapping[int, int]) -> None:
        if obj in self._small or obj in self._main:
            return
        self._uses[obj] = 0
        remembered = [entry for entry in self._ghost if entry[0] == obj]
        for entry in remembered:
            self._ghost.remove(entry)
        (self._main if remembered else self._small).append(obj)


class Arc:
    def __init__(self, objects: Sequence[int], capacity: int) -> None:
        self._recent: dict[int, int] = {}
        self._frequent: dict[int, int] = {}
        self._lost_recent: dict[int, int] = {}
        self._lost_frequent: dict[int, int] = {}
        """Object -> bytes, oldest first."""
        self._share = 0
        self._capacity = capacity

    def touch(self, obj: int, at: int) -> bool:
        size = self._recent.pop(obj) if obj in self._recent else self._frequent.pop(obj)
        self._frequent[obj] = size
        return True

    def admits(self, obj: int, at: int) -> bool:
        recent, frequent = sum(self._lost_recent.values()), sum(self._lost_frequent.values())
        if obj in self._lost_recent:
            size = self._lost_recent[obj]
            self._share = min(self._capacity, self._share + max(size, size * frequent // recent))
        elif obj in self._lost_frequent:
            size = self._lost_frequent[obj]
            self._share = max(0, self._share - max(size, size * recent // frequent))
        return True

    def make_room(self, obj: int, at: int, needed: int, resident: Mapping[int, int]) -> list[int] | None:
        victims: list[int] = []
        while sum(resident[victim] for victim in victims) < needed:
            recent = [other for other in self._recent if other != obj]
            frequent = [other for other in self._frequent if other != obj]
            held = sum(self._recent.values())
            over = held > self._share or (held == self._share and obj in self._lost_frequent)
            if recent and (over or not frequent):
                victims.append(recent[0])
                self._lost_recent[recent[0]] = self._recent.pop(recent[0])
            else:
                victims.append(frequent[0])
                self._lost_frequent[frequent[0]] = self._frequent.pop(frequent[0])
        return victims

    def insert(self, obj: int, at: int, resident: Mapping[int, int]) -> None:
        if obj in self._recent or obj in self._frequent:
            (self._recent if obj in self._recent else self._frequent)[obj] = resident[obj]
        else:
            remembered = obj in self._lost_recent or obj in self._lost_frequent
            self._lost_recent.pop(obj, None)
            self._lost_frequent.pop(obj, None)
            (self._frequent if remembered else self._recent)[obj] = resident[obj]

        def held(*lists: dict[int, int]) -> int:
            return sum(sum(each.values()) for each in lists)

        while self._lost_recent and held(self._recent, self._lost_recent) > self._capacity:
            del self._lost_recent[next(iter(self._lost_recent))]
        everything = (self._recent, self._frequent, self._lost_recent, self._lost_frequent)
        while self._lost_frequent and held(*everything) > 2 * self._capacity:
            del self._lost_frequent[next(iter(self._lost_frequent))]


class Belady:
    def __init__(self, objects: Sequence[int], capacity: int) -> None:
        self._uses: dict[int, list[int]] = {}
        for at, obj in enumerate(objects):
            self._uses.setdefault(obj, []).append(at)
        self._residents: set[int] = set()

    def _next_use(self, obj: int, at: int) -> int | None:
        uses = self._uses[obj]
        after = bisect_right(uses, at)
        return uses[after] if after < len(uses) else None

    def touch(self, obj: int, at: int) -> bool:
        if self._next_use(obj, at) is None:
            self._residents.remove(obj)
            return False
        return True

    def admits(self, obj: int, at: int) -> bool:
        return self._next_use(obj, at) is not None

    def make_room(self, obj: int, at: int, needed: int, resident: Mapping[int, int]) -> list[int] | None:
        own = self._next_use(obj, at)
        later: list[tuple[int, int]] = []
        for other in self._residents:
            use = self._next_use(other, at)
            # Every resident is used again: it would have left otherwise.
            if use is not None and own is not None and use > own:
                later.append((use, other))
        victims = _first([other for _, other in sorted(later, reverse=True)], needed, resident)
        self._residents -= set(victims or ())
        return victims

    def insert(self, obj: int, at: int, resident: Mapping[int, int]) -> None:
        self._residents.add(obj)


class Priorities:
    """What is worth least leaves first, by a number for each access (`_engine.replay_priorities`)."""

    def __init__(self, values: Sequence[float], *, on_hit: bool, bypass: bool, aging: bool) -> None:
        self._values, self._on_hit, self._bypass, self._aging = values, on_hit, bypass, aging
        self._place: dict[int, tuple[float, int]] = {}
        self._age = 0.0

    def _new(self, at: int) -> tuple[float, int]:
        return self._values[at] + self._age, at

    def touch(self, obj: int, at: int) -> bool:
        if not self.admits(obj, at):
            del self._place[obj]
            return False
        if self._on_hit:
            self._place[obj] = self._new(at)
        return True

    def admits(self, obj: int, at: int) -> bool:
        return not math.isnan(self._values[at])

    def make_room(self, obj: int, at: int, needed: int, resident: Mapping[int, int]) -> list[int] | None:
        own = self._place.get(obj, self._new(at))
        others = sorted((each for each in self._place if each != obj), key=self._place.__getitem__)
        victims = _first(others, needed, resident)
        if victims is None or (self._bypass and any(self._place[victim] > own for victim in victims)):
            return None
        last = self._place[victims[-1]][0]
        if self._aging and math.isfinite(last):
            self._age = max(self._age, last)
        for victim in victims:
            del self._place[victim]
        return victims

    def insert(self, obj: int, at: int, resident: Mapping[int, int]) -> None:
        self._place.setdefault(obj, self._new(at))


POLICIES: dict[str, Callable[[Sequence[int], int], Policy]] = {
    "lru": Lru, "fifo": Fifo, "lfu": Lfu, "s3-fifo": S3Fifo, "arc": Arc, "belady": Belady,
}  # fmt: skip


class Optimal:
    """Belady's policy on parts of objects, which is a cache of its own: it keeps and drops bytes, not objects."""

    def __init__(self, access_object: Sequence[int], access_bytes: Sequence[int], capacity: int) -> None:
        self._accesses = list(zip(access_object, access_bytes, strict=True))
        self._capacity = capacity
        self._resident: dict[int, int] = {}
        """Object -> how many of its first bytes are there."""
        self.evictions = 0
        self.streamed = 0
        self.peak_resident_bytes = 0

    def access(self, obj: int, wanted: int, at: int) -> int:
        """The access at position `at`; gives the bytes of it that are not there, 0 for a hit."""
        before = dict(self._resident)
        missing = max(0, wanted - before.get(obj, 0))
        self.streamed += missing > 0 and wanted > self._capacity
        there = {**before, obj: max(before.get(obj, 0), wanted)}
        parts = sorted(part for each, size in there.items() for part in self._parts(each, size, at))
        self._resident = {}
        room = self._capacity
        for _, each, size in parts:
            kept = min(size, room)
            room -= kept
            if kept:
                self._resident[each] = self._resident.get(each, 0) + kept
        self.evictions += sum(self._resident.get(each, 0) < size for each, size in before.items() if each != obj)
        self.peak_resident_bytes = max(self.peak_resident_bytes, self._capacity - room)
        return missing

    def _parts(self, obj: int, size: int, at: int) -> list[tuple[int, int, int]]:
        """The first `size` bytes of `obj` as (next use, object, bytes); what is never used again is left out."""
        parts: list[tuple[int, int, int]] = []
        depth = 0
        for later in range(at + 1, len(self._accesses)):
            other, wanted = self._accesses[later]
            if other == obj and min(wanted, size) > depth:
                parts.append((later, obj, min(wanted, size) - depth))
                depth = min(wanted, size)
        return parts
