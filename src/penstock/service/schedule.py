"""In which order jobs of several tenants run.

`locality` takes the job next that has the smallest share of its key bytes to read, given what earlier jobs leave in
memory; so jobs of one tenant, and jobs that share keys, run together. A job that `max_overtaken` later ones have
overtaken comes next whatever it reads, so every wait is bounded. The order depends on nothing but the queue: the whole
future is known before the first job starts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from penstock.service.queue import Scheduling


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a job asks of memory."""

    number: int
    """Place in the queue."""
    uses: tuple[tuple[Hashable, int], ...]
    """(key, bytes) of each key switch, in order. Bytes of one key are nested: a smaller need is part of a larger."""

    def largest(self) -> dict[Hashable, int]:
        """Key -> the most bytes of it that the job needs at once."""
        needs: dict[Hashable, int] = {}
        for key, size in self.uses:
            needs[key] = max(size, needs.get(key, 0))
        return needs


class Residents:
    """The keys in memory, by least recent use: a scheduler's model of the cache."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes, self.used_bytes = budget_bytes, 0
        self._sizes: OrderedDict[Hashable, int] = OrderedDict()

    def missing(self, needs: Mapping[Hashable, int]) -> int:
        """Bytes of `needs` that are not there."""
        return sum(max(0, size - self._sizes.get(key, 0)) for key, size in needs.items())

    def use(self, needs: Mapping[Hashable, int]) -> None:
        """Load the missing keys; the least recently used ones leave."""
        for key, size in needs.items():
            there = self._sizes.pop(key, 0)
            self._sizes[key] = max(size, there)
            self.used_bytes += max(0, size - there)
            while self.used_bytes > self.budget_bytes and len(self._sizes) > 1:
                self.used_bytes -= self._sizes.popitem(last=False)[1]


def order_jobs(
    demands: Sequence[Demand], scheduling: Scheduling, budget_bytes: int, max_overtaken: int
) -> tuple[int, ...]:
    """Positions in `demands`, in the order in which they run.

    >>> a = Demand(number=0, uses=(("a", 4),))
    >>> b = Demand(number=1, uses=(("b", 4),))
    >>> order_jobs([a, b, a, b], Scheduling.LOCALITY, budget_bytes=4, max_overtaken=9)
    (0, 2, 1, 3)
    """
    if scheduling is Scheduling.FIFO:
        return tuple(range(len(demands)))
    needs = [demand.largest() for demand in demands]
    waiting = list(range(len(demands)))
    overtaken = [0] * len(demands)
    residents, order = Residents(budget_bytes), []
    while waiting:
        chosen = waiting[0]
        if overtaken[chosen] < max_overtaken:
            chosen = min(waiting, key=lambda at: (_missing_share(residents, needs[at]), at))
        for at in waiting:
            if at >= chosen:
                break
            overtaken[at] += 1
        waiting.remove(chosen)
        residents.use(needs[chosen])
        order.append(chosen)
    return tuple(order)


def _missing_share(residents: Residents, needs: Mapping[Hashable, int]) -> float:
    total = sum(needs.values())
    return residents.missing(needs) / total if total else 0.0
