"""A program under a key budget in simulated time: the order of reads, and the waits of uses.

The rules are the store's (`cache`). One thread reads ahead along the known uses, nearest first; a use reads its missing
rows itself. Both share the disk.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.errors import UsageError
from penstock.runtime.keystore.cache import DEFAULT_PREFETCH_USES
from penstock.runtime.native.cache import Cache, KeyUses, Load


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRates:
    """How the disk reads while a program runs, and what reading and computing take from each other.

    Reading takes processor time (checksums, system calls), room in the caches and the memory bus; so does computing.
    Both shares are measured where each goes on without end (`of`), and taken to be the same whenever
    something is read while the program computes.
    """

    bytes_per_s: float
    """While nothing computes."""
    computing_share: float = 1.0
    """Speed of computing during reads, relative to its speed otherwise."""
    reading_share: float = 1.0
    """How fast the disk reads while the program computes, of `bytes_per_s`."""

    @classmethod
    def of(cls, *, alone_s: float, beside_s: float, alone_bytes_per_s: float, beside_bytes_per_s: float) -> ReadRates:
        """Of the same program alone and next to a thread that reads keys without end, and of the disk in both cases.

        Args:   alone_s: seconds of computing with all keys in memory; beside_s: the same next to the reading thread.
                alone_bytes_per_s: of the disk while nothing computes; beside_bytes_per_s: of the reading thread.
        """
        return cls(
            bytes_per_s=alone_bytes_per_s,
            computing_share=min(1.0, alone_s / beside_s),
            reading_share=beside_bytes_per_s / alone_bytes_per_s,
        )

    @property
    def beside_bytes_per_s(self) -> float:
        """While the program computes."""
        return self.bytes_per_s * self.reading_share

    def lost_s(self, read_bytes: float) -> float:
        """Seconds of computing that are lost to reading so many bytes meanwhile.

        >>> ReadRates(bytes_per_s=2.0, computing_share=0.75, reading_share=0.5).lost_s(8)
        2.0
        """
        return (1 - self.computing_share) * read_bytes / self.beside_bytes_per_s

    def least_s(self, compute_s: float, read_bytes: float) -> float:
        """The least time in which so much can be computed and read, in whatever order.

        With both at once for x seconds, computing alone for y and reading alone for z, x + y + z is least under
        `computing_share x + y = compute_s` and `beside_bytes_per_s x + bytes_per_s z = read_bytes`.
        >>> disk = ReadRates(bytes_per_s=2.0, computing_share=0.75, reading_share=0.5)
        >>> disk.least_s(10, 8), disk.least_s(3, 8), ReadRates(bytes_per_s=2.0).least_s(3, 8)
        (12.0, 6.0, 4.0)
        """
        if self.computing_share + self.reading_share <= 1:
            return compute_s + read_bytes / self.bytes_per_s  # each at its turn
        beside_s = compute_s / self.computing_share
        left_bytes = read_bytes - beside_s * self.beside_bytes_per_s
        if left_bytes <= 0:
            return compute_s + self.lost_s(read_bytes)
        return beside_s + left_bytes / self.bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedReads:
    """A simulated run."""

    total_s: float
    wait_s: float
    """That uses waited for rows."""
    read_bytes: int
    misses: int
    """Uses that read rows themselves."""


def play_reads(
    program: KeyUses,
    compute_s: npt.NDArray[np.float64],
    budget_bytes: int,
    reading: ReadRates,
    *,
    prefetch_uses: int = DEFAULT_PREFETCH_USES,
) -> PlayedReads:
    """Play a program under a budget.

    Args:   compute_s: (operations,) seconds from the end of one operation to the end of the next, without waits.
    Raises: UsageError: a use needs more than the whole budget.
    """
    run = _ReadPlay(program, budget_bytes, reading, prefetch_uses)
    use = 0
    for operation, seconds in enumerate(compute_s.tolist()):
        key = None
        if use < len(program.uses) and program.operations[use] == operation:
            key, limbs = program.uses[use]
            run.get(key, limbs)
            use += 1
        run.compute(seconds)
        if key is not None:
            run.release(key)
    return PlayedReads(total_s=run.now, wait_s=run.wait_s, read_bytes=run.read_bytes, misses=run.misses)


class _ReadPlay:
    """Two that take time: the program, and the thread that reads ahead."""

    def __init__(self, program: KeyUses, budget_bytes: int, reading: ReadRates, prefetch_uses: int) -> None:
        self.now = self.wait_s = 0.0
        self.read_bytes = self.misses = 0
        self._cache = Cache(program, budget_bytes)
        self._reading, self._prefetch_uses = reading, prefetch_uses
        self._ahead: Load | None = None
        self._own: Load | None = None
        self._last_s: float | None = None
        self._read_ahead()  # as soon as the uses are known

    def get(self, key: str, limbs: int) -> None:
        """The next use: wait until its rows are there."""
        cache, started = self._cache, self.now
        if cache.size(key, limbs) > cache.budget_bytes:
            raise UsageError(f"{key} at {limbs} limbs needs {cache.size(key, limbs)} bytes, more than the whole budget")
        cache.wanted = key, limbs
        if self._last_s is not None:
            cache.use_s.take(self.now - self._last_s)
        cache.cursor += 1
        missed = False
        while True:
            self._read_ahead()
            resident = cache.residents.get(key)
            if resident is not None and resident.limbs >= limbs:
                break
            if resident is None or not resident.loading:
                have = 0 if resident is None else resident.limbs
                if cache.make_room(key, cache.size(key, limbs) - cache.size(key, have)):
                    self._own, missed = cache.claim(key, limbs, self.now), True
            self._until_a_load_ends()
        self.misses += missed
        cache.clock += 1
        cache.residents[key].last_use = cache.clock
        cache.pinned, cache.wanted = (key, limbs), None
        self.wait_s += self.now - started
        self._last_s = self.now

    def release(self, key: str) -> None:
        """The operation is over."""
        self._cache.pinned = None
        self._read_ahead()

    def compute(self, seconds: float) -> None:
        """Compute, while loads go on."""
        while True:
            self._read_ahead()
            rate = self._reading.beside_bytes_per_s
            load_s = self._next_end_s(rate)
            speed = 1.0 if load_s is None else self._reading.computing_share
            if load_s is None or seconds <= load_s * speed:
                self._advance(seconds / speed, rate)
                return
            self._advance(load_s, rate)
            seconds -= load_s * speed

    def _read_ahead(self) -> None:
        """Give the idle reading thread something to read."""
        cache = self._cache
        if self._ahead is not None or cache.is_starving():
            return
        missing = next(cache.missing(self._prefetch_uses), None)
        if missing is None:
            return
        key, limbs, distance = missing
        waits = not cache.is_urgent(self._prefetch_uses)
        resident = cache.residents.get(key)
        have = 0 if resident is None else resident.limbs
        if cache.make_room(key, cache.size(key, limbs) - cache.size(key, have), distance, waits=waits):
            self._ahead = cache.claim(key, limbs, self.now)

    def _loads(self) -> list[Load]:
        return [load for load in (self._ahead, self._own) if load is not None]

    def _next_end_s(self, bytes_per_s: float) -> float | None:
        """Seconds until a load ends; those under way share the disk."""
        loads = self._loads()
        if not loads:
            return None
        return min(load.left_bytes for load in loads) * len(loads) / bytes_per_s

    def _until_a_load_ends(self) -> None:
        rate = self._reading.bytes_per_s
        seconds = self._next_end_s(rate)
        assert seconds is not None, "a use waits and nothing is being read"
        self._advance(seconds, rate)

    def _advance(self, seconds: float, bytes_per_s: float) -> None:
        """Time goes on; what has been read is in place."""
        loads = self._loads()
        self.now += seconds
        done = seconds * bytes_per_s / max(1, len(loads))
        for load in loads:
            load.left_bytes -= done
        for load in loads:
            if load.left_bytes > 0.5:
                continue
            resident = self._cache.residents[load.key]
            self.read_bytes += load.bytes
            self._cache.byte_s.take((self.now - load.begun_s) / load.bytes)
            resident.limbs, resident.loading = load.limbs, False
            if load is self._ahead:
                self._ahead = None
            else:
                self._own = None
