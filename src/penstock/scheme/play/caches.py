"""What may stand between compute and a tier: nothing, a stated hit ratio, or a cache with a replacement policy.

A policy is one file of `crates/penstock-sim/src/policy`, with its name from the engine, or a Python file of the user's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np

from penstock.errors import SimulationInputError, check_known
from penstock.scheme.play.engine import _engine
from penstock.scheme.play.own import OwnFile, is_own, own_file_at

POLICIES = {policy.name: policy for policy in _engine.policies()}
"""The engine's replacement policies by name."""


@dataclass(frozen=True, slots=True)
class NoCache:
    """Every access is loaded whole."""


@dataclass(frozen=True, slots=True)
class ForcedHitRatio:
    """A stated share of every access is served; deterministic, so bytes and transfers are expected values."""

    hit_ratio: float

    def __post_init__(self) -> None:
        if not 0 <= self.hit_ratio <= 1:
            raise SimulationInputError(f"hit ratio {self.hit_ratio}: it lies between 0 and 1")


@dataclass(frozen=True, slots=True)
class SizedCache:
    """A cache of so many bytes under one of the engine's replacement policies, or one of the user's own.

    Raises: UnknownName: no policy has this name; UsageError: of the user's file; SimulationInputError: a capacity that
            is not a number of bytes.
    """

    policy: str
    """Its name. A Python file may be given by its path."""
    capacity_bytes: int
    own: OwnFile | None = field(default=None, repr=False)
    """The user's file, of a policy of the user's own."""

    def __post_init__(self) -> None:
        if self.own is None and is_own(self.policy):
            object.__setattr__(self, "own", own_file_at(self.policy))
        if self.own is not None:
            object.__setattr__(self, "policy", self.own.name)
        else:
            check_known("replacement policy", self.policy, POLICIES)
        capacity = self.capacity_bytes
        if not isinstance(capacity, (int, np.integer)) or isinstance(capacity, bool):
            raise SimulationInputError(f"cache capacity {capacity!r}: it is a whole number of bytes")
        if not 0 <= capacity < 2**63:
            raise SimulationInputError(f"cache capacity {capacity}: it lies between 0 and 2^63 - 1 bytes")


Lru = partial(SizedCache, "lru")
Belady = partial(SizedCache, "belady")
Optimal = partial(SizedCache, "optimal")

Cache: TypeAlias = NoCache | ForcedHitRatio | SizedCache
