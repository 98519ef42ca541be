"""The time of a queue in simulation: its key switches played through a cache and one tier of storage."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.native.play import ReadRates
from penstock.service.queue import Policy
from penstock.service.schedule import Demand
from penstock.simulation.accesses import Accesses
from penstock.simulation.caches import Lru, Optimal
from penstock.simulation.memory.replay import replay
from penstock.simulation.timing import Mode, Rates, play_replay


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedQueue:
    """One order of a queue (provenance: simulated)."""

    total_s: float
    compute_s: float
    io_s: float
    read_bytes: int
    hits: int
    misses: int


def simulate_queue(
    demands: Sequence[Demand],
    compute_s: Sequence[float],
    order: Sequence[int],
    policy: Policy,
    budget_bytes: int,
    reading: ReadRates,
    *,
    bound: bool = False,
) -> SimulatedQueue:
    """The queue in `order`, its keys under a budget.

    `lru` does not know the future, so every missing byte is waited for. `future` reads ahead as far as the budget
    allows and keeps the data with the soonest next use, bytes first: no policy reads fewer bytes. (The store keeps the
    key in use whole, and so reads more under a budget of few keys.) What is read while the machine computes takes from
    computing what `reading` says, evenly over the queue. `bound` is the least that a machine could take in this order:
    all computing and all reading, at once where that is faster, and no wait for either.

    Args:   compute_s: seconds of each job with all its keys in memory and nothing read, dealt evenly to its key
            switches; order: positions in both.
    """
    numbers: dict[Hashable, int] = {}
    rows: list[tuple[int, int]] = []
    seconds: list[float] = []
    for at in order:
        uses = demands[at].uses
        rows += [(numbers.setdefault(key, len(numbers)), size) for key, size in uses]
        seconds += [compute_s[at] / len(uses) for _ in uses]
    keyless = sum(compute_s[at] for at in order if not demands[at].uses)
    objects, sizes = (np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1))
    cache = Lru(budget_bytes) if policy is Policy.LRU else Optimal(budget_bytes)
    played = replay(Accesses.one_each(objects, sizes), cache)
    read_bytes, computing_s = int(played.miss_bytes), sum(seconds)
    if bound:
        total_s, io_s = reading.least_s(computing_s + keyless, read_bytes), read_bytes / reading.bytes_per_s
    else:
        mode: Mode = "serial" if policy is Policy.LRU else "overlap"
        if policy is Policy.LRU or not computing_s:
            rate, slower = reading.bytes_per_s, 1.0
        else:
            rate, slower = reading.beside_bytes_per_s, 1 + reading.lost_s(read_bytes) / computing_s
        line = play_replay(
            slower * np.array(seconds),
            played,
            Rates(bandwidth_bytes_per_s=rate),
            mode=mode,
            prefetch_depth=None,
            prefetch_buffer_bytes=budget_bytes if mode == "overlap" else None,
        )
        total_s, io_s = line.total_s + keyless, line.io_s
    return SimulatedQueue(
        total_s=total_s,
        compute_s=computing_s + keyless,
        io_s=io_s,
        read_bytes=read_bytes,
        hits=int(played.hits),
        misses=int(played.misses),
    )
