"""The engine's memory for rows, as a model: how much a program holds, kept memory included.

The twin of `penstock_ckks::buffer::Arena`, without the memory: a row goes into the smallest kept one that holds it and
is at most four times as large; of too many kept rows the oldest leaves.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterable

MOST_LARGER = 4


class ArenaModel:
    """Rows in use and kept, by capacity in bytes."""

    def __init__(self, keep_bytes: int) -> None:
        self.held_bytes = 0
        """In use and kept."""
        self.most_bytes = 0
        self._keep_bytes = keep_bytes
        self._kept_bytes = 0
        self._by_size: list[tuple[int, int]] = []
        """Capacity and number of each kept row, sorted."""
        self._by_age: OrderedDict[int, int] = OrderedDict()
        """Number -> capacity of each kept row, the oldest first."""
        self._count = 0

    def take(self, sizes: Iterable[int]) -> list[int]:
        """Rows of these bytes; their capacities."""
        taken = []
        for size in sizes:
            place = bisect_left(self._by_size, (size, 0))
            if place < len(self._by_size) and self._by_size[place][0] <= MOST_LARGER * size:
                capacity, number = self._by_size.pop(place)
                del self._by_age[number]
                self._kept_bytes -= capacity
            else:
                capacity = size
                self.held_bytes += size
            taken.append(capacity)
        self.most_bytes = max(self.most_bytes, self.held_bytes)
        return taken

    def give(self, capacities: Iterable[int]) -> None:
        """Rows that are dropped."""
        for capacity in capacities:
            if capacity > self._keep_bytes:
                self.held_bytes -= capacity
                continue
            self._count += 1
            insort(self._by_size, (capacity, self._count))
            self._by_age[self._count] = capacity
            self._kept_bytes += capacity
            while self._kept_bytes > self._keep_bytes:
                number, oldest = self._by_age.popitem(last=False)
                del self._by_size[bisect_left(self._by_size, (oldest, number))]
                self._kept_bytes -= oldest
                self.held_bytes -= oldest
