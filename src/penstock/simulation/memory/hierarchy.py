"""A memory hierarchy: an on-chip cache in front of one backing tier. Typed facade of the engine.

`replay` plays accesses through a cache and returns the loads of each operation; `play_replay` plays these over a tier
and returns the time; `play_many` plays one replay at many points at once. The rules of cache, time
modes and clock are in the documentation of the crate `penstock-sim`, and once more as plain Python in `tests/twins`.

>>> accesses = Accesses.of([[(1, 600)], [(2, 400)], [(1, 600)]])
>>> kept = replay(accesses, Lru(1000))
>>> kept.hits, kept.misses, kept.miss_bytes
(1, 2, 1000)
>>> play_replay([1e-6] * 3, kept, Rates(bandwidth_bytes_per_s=1e9)).total_s
4e-06
"""

from __future__ import annotations

from penstock.simulation.accesses import Accesses
from penstock.simulation.caches import POLICIES, Belady, Cache, ForcedHitRatio, Lru, NoCache, Optimal, SizedCache
from penstock.simulation.engine import ClockOverflow, ConservationError, SimulationInputError
from penstock.simulation.memory.replay import Replay, replay
from penstock.simulation.timing import (
    MODES,
    Mode,
    Pace,
    Rates,
    Schedule,
    Tier,
    Timeline,
    channel_seconds,
    play_many,
    play_replay,
)

__all__ = [
    "MODES", "POLICIES", "Accesses", "Belady", "Cache", "ClockOverflow", "ConservationError", "ForcedHitRatio", "Lru",
    "Mode", "NoCache", "Optimal", "Pace", "Rates", "Replay", "Schedule", "SimulationInputError", "SizedCache", "Tier",
    "Timeline", "channel_seconds", "play_many", "play_replay", "replay",
]  # fmt: skip
