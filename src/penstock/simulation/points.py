"""Points of a simulation: each is one row, and says what holds data, how it is timed, and on which hosts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from penstock.simulation.caches import Cache
from penstock.simulation.cluster.spec import Cluster
from penstock.simulation.memory.levels import Hierarchy, cache_over
from penstock.simulation.memory.prefetch import Prefetch
from penstock.simulation.timing import Mode, Pace, Tier, paces_of

OWN_ENGINE, SIMGRID = "penstock", "simgrid"
ENGINES = (OWN_ENGINE, SIMGRID)
"""What plays the messages between hosts."""

Hold: TypeAlias = Cache | Hierarchy
"""The store above the last tier: a cache, or levels with their tiers."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Point:
    """The point of one row."""

    hold: Hold
    pace: Pace
    """With levels, its tier is the last one's."""
    cluster: Cluster | None = None
    """`None`: one host, and no other program."""
    write_back: bool = False
    """Whether results that are read again from below are written there first."""
    engine: str = OWN_ENGINE
    """Of `ENGINES`."""

    @property
    def tier(self) -> Tier:
        return self.pace.tier

    @property
    def mode(self) -> Mode:
        return self.pace.mode

    @property
    def prefetch(self) -> Prefetch | None:
        return self.pace.prefetch

    @property
    def by_level(self) -> bool:
        """Whether each level is played by itself."""
        return self.write_back or isinstance(self.hold, Hierarchy)

    @property
    def levels(self) -> Hierarchy:
        """The levels; one cache over one tier is a case of them."""
        if isinstance(self.hold, Hierarchy):
            return self.hold
        return cache_over(self.hold, self.tier, tier_name(self.tier), self.pace.decode_bytes_per_s)


def tier_name(tier: Tier) -> str:
    """The name of a tier; rates alone have none."""
    return str(getattr(tier, "name", "tier"))


def paces_over(hierarchy: Hierarchy, modes: Iterable[Mode], prefetches: Sequence[Prefetch]) -> list[Pace]:
    """As `paces_of`, over levels."""
    last = hierarchy.levels[-1]
    return paces_of([last.tier], modes, prefetches, last.decode_bytes_per_s)
