"""The key store's rules in plain form: the next read, whether it can wait, and the rows that leave for it.

The twin of `penstock-store`'s cache under its policy `future`, without rows and without time; `play` adds both. A read
that can wait takes only the room of rows that Belady's rule gives up at its use. A read that would come too late takes
the room of any row with a later use. The store decides this from moving means of past times; this twin does the same.
Rows leave limb by limb, first from the key whose top limb has the latest next use.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_NEVER = 1 << 62
_SHARE = 0.125
"""How much a new value counts in a moving mean."""
_SPARED_DEVIATIONS = 2.0
"""By how many standard deviations a read may be late before it is begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUses:
    """The uses of keys by a program, in order."""

    operations: tuple[int, ...]
    """(n,) which operation each use belongs to, rising."""
    uses: tuple[tuple[str, int], ...]
    """(n,) key and limbs."""
    bytes_at: tuple[int, ...]
    """`[l]`: bytes of a key's rows at `l` limbs; rows at fewer limbs are part of those at more."""
    own_bytes: Mapping[str, int] = field(default_factory=dict)
    """Bytes of keys that are always read whole."""


@dataclass(slots=True)
class HeldKey:
    """A key of which the rows of `limbs` limbs are there."""

    limbs: int = 0
    loading: bool = False
    last_use: int = 0


@dataclass(slots=True)
class Load:
    """Rows that are being read: of `key`, up to `limbs` limbs."""

    key: str
    limbs: int
    bytes: int
    left_bytes: float
    begun_s: float


@dataclass(slots=True)
class Moving:
    """The moving mean and variance of past values; `None`: there are none."""

    mean: float | None = None
    variance: float = 0.0

    def take(self, value: float) -> None:
        if self.mean is None:
            self.mean = value
            return
        step = value - self.mean
        self.mean += _SHARE * step
        self.variance += _SHARE * (step * step - self.variance)


@dataclass(slots=True)
class Cache:
    """The rows in memory, and the rows that leave when room is needed."""

    program: KeyUses
    budget_bytes: int
    cursor: int = 0
    """Uses before it are over or under way."""
    used_bytes: int = 0
    clock: int = 0
    residents: dict[str, HeldKey] = field(default_factory=dict)
    pinned: tuple[str, int] | None = None
    """Key and limbs of the operation under way."""
    wanted: tuple[str, int] | None = None
    """Key and limbs of a use that waits."""
    positions: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    use_s: Moving = field(default_factory=Moving)
    """Seconds from one use to the next, without waits."""
    byte_s: Moving = field(default_factory=Moving)
    """Seconds of reading a byte."""

    def __post_init__(self) -> None:
        for position, (key, _) in enumerate(self.program.uses):
            self.positions[key].append(position)

    def size(self, key: str, limbs: int) -> int:
        return self.program.own_bytes.get(key, self.program.bytes_at[limbs]) if limbs else 0

    def next_use(self, key: str, limbs: int, after: int = 0) -> int:
        """The number of uses until the key is used with at least this many limbs, without the first `after`."""
        positions = self.positions[key]
        for position in positions[bisect_left(positions, self.cursor + after) :]:
            if self.program.uses[position][1] >= limbs:
                return position - self.cursor
        return _NEVER

    def floor(self, key: str, resident: HeldKey) -> int:
        """Limbs that may not be given up."""
        floor = resident.limbs if resident.loading else 0
        for held in (self.pinned, self.wanted):
            if held is not None and held[0] == key and held[1] <= resident.limbs:
                floor = max(floor, held[1])
        return floor

    def make_room(self, key: str, needed: int, distance: int | None = None, *, waits: bool = False) -> bool:
        """Room for more rows of `key`, or nothing changes.

        Args:   distance: of the use that rows are read ahead of; `None`: a use waits. waits: whether the read can wait.
        """
        kept: dict[str, int] = {}
        used = self.used_bytes
        while used + needed > self.budget_bytes:
            best: tuple[tuple[int, bool, int], str, int] | None = None
            for other, resident in sorted(self.residents.items()):
                limbs = kept.get(other, resident.limbs)
                if other == key or limbs == 0:
                    continue
                following = self.next_use(other, limbs)
                leaves = limbs > self.floor(other, resident) and (distance is None or following > distance)
                if not leaves and not waits:
                    continue
                last = self.next_use(other, limbs, distance or 0) if waits else following
                rank = (last, leaves, -resident.last_use)
                if best is None or rank > best[0]:
                    best = rank, other, limbs
            if best is None or not best[0][1]:
                return False
            _, other, limbs = best
            used -= self.size(other, limbs) - self.size(other, limbs - 1)
            kept[other] = limbs - 1
        for other, limbs in kept.items():
            self.residents[other].limbs = limbs
            if limbs == 0 and not self.residents[other].loading:
                del self.residents[other]
        self.used_bytes = used
        return True

    def claim(self, key: str, limbs: int, now: float) -> Load:
        """Set the bytes aside; the rows are there when the load has ended."""
        self.clock += 1
        resident = self.residents.setdefault(key, HeldKey(last_use=self.clock))
        resident.loading = True
        needed = self.size(key, limbs) - self.size(key, resident.limbs)
        self.used_bytes += needed
        return Load(key, limbs, needed, needed, now)

    def missing(self, most: int) -> Iterator[tuple[str, int, int]]:
        """Key, limbs and distance of the coming uses whose rows are neither there nor on their way."""
        for distance, (key, limbs) in enumerate(self.program.uses[self.cursor : self.cursor + most]):
            resident = self.residents.get(key)
            if resident is None or (not resident.loading and resident.limbs < limbs):
                yield key, limbs, distance

    def is_urgent(self, most: int) -> bool:
        """Whether some use would wait if nothing were read now; so it is before anything is known."""
        use_s, byte_s = self.use_s, self.byte_s
        if use_s.mean is None or byte_s.mean is None:
            return True
        promised: dict[str, int] = {}
        reading_s = variance = 0.0
        for key, limbs, distance in self.missing(most):
            resident = self.residents.get(key)
            have = promised.get(key, 0 if resident is None else resident.limbs)
            promised[key] = max(have, limbs)
            more = self.size(key, promised[key]) - self.size(key, have)
            reading_s += more * byte_s.mean
            variance += more * more * byte_s.variance
            spared = _SPARED_DEVIATIONS * math.sqrt(variance + distance * use_s.variance)
            if reading_s + spared >= distance * use_s.mean:
                return True
        return False

    def is_starving(self) -> bool:
        """Whether a use waits and nobody reads for it."""
        if self.wanted is None:
            return False
        resident = self.residents.get(self.wanted[0])
        return resident is None or (resident.limbs < self.wanted[1] and not resident.loading)
