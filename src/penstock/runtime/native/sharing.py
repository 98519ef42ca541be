"""One byte budget for all classes of data of a run: the least of each, and the order in which they get the rest.

A class lives in some phases of a run, and only classes of one phase are in memory together. Bytes go first where a byte
saves most seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.base.types import Row
from penstock.base.units import format_bytes
from penstock.errors import BudgetTooSmall


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The bytes that a program could use, and the seconds that they save."""

    all_bytes: int
    """With which nothing is read or encoded twice."""
    least_bytes: int
    """Without which it does not run."""
    saved_s: float = 0.0
    """Seconds that all bytes save over the least."""
    step_bytes: int = 1
    """Above the least it takes multiples of this."""

    @property
    def saved_s_per_byte(self) -> float:
        return self.saved_s / max(1, self.all_bytes - self.least_bytes)

    @classmethod
    def always(cls, num_bytes: int) -> Wanted:
        """What has one size."""
        return cls(all_bytes=num_bytes, least_bytes=num_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A class of data, when it is in memory, and what it gets."""

    name: str
    wanted: Wanted
    phases: tuple[str, ...]
    given_bytes: int = 0


def parts_of(wanted: Mapping[str, Wanted], phase: str) -> list[Part]:
    """Classes of data that are in memory all through one phase."""
    return [Part(name=name, wanted=own, phases=(phase,)) for name, own in wanted.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """The memory of a run before it runs, by classes of data."""

    memory_bytes: int | None
    """The budget; `None`: no limit."""
    shares: tuple[Part, ...]

    def given(self, name: str) -> int:
        """Bytes of a class; 0 where there is no such class."""
        return sum(share.given_bytes for share in self.shares if share.name == name)

    @property
    def total_bytes(self) -> int:
        """Predicted peak of the process: of the phase that holds most."""
        return sum(share.given_bytes for share in self._peak())

    @property
    def least_bytes(self) -> int:
        """The least budget."""
        return least_of(self.shares)

    def _peak(self) -> Sequence[Part]:
        """The classes of the phase that holds most."""
        phases = [own for _, own in _by_phase(self.shares)]
        return max(phases, key=lambda own: sum(share.given_bytes for share in own), default=())

    def words(self) -> str:
        """The peak and its parts, in a sentence."""
        return f"predicted peak {short(self.total_bytes)}, at least {short(self.least_bytes)}: {self.shares_at_peak()}"

    def shares_at_peak(self) -> str:
        """The classes of the peak and their bytes."""
        return ", ".join(f"{share.name} {short(share.given_bytes)}" for share in self._peak() if share.given_bytes)

    def to_dict(self) -> Row:
        """For a report, in bytes."""
        return {
            "memory_bytes": self.memory_bytes,
            "predicted_peak_bytes": self.total_bytes,
            "least_bytes": self.least_bytes,
            "classes": {
                share.name: {
                    "given_bytes": share.given_bytes,
                    "least_bytes": share.wanted.least_bytes,
                    "all_bytes": share.wanted.all_bytes,
                    "phases": list(share.phases),
                }
                for share in self.shares
            },
        }


def plan_memory(parts: Sequence[Part], memory_bytes: int | None, option: str) -> MemoryPlan:
    """Share a budget among classes of data; without one each gets all that it can use.

    Each gets its least, and then what is free in its phases, those first whose bytes save most seconds.

    Args:   option: what states the budget, for messages: `--memory`.
    Raises: BudgetTooSmall: the least of all classes is more than the budget.
    """
    given = {part.name: part.wanted.all_bytes for part in parts}
    if memory_bytes is not None:
        _check(parts, memory_bytes, option)
        given = {part.name: part.wanted.least_bytes for part in parts}
        phases = _by_phase(parts)
        for part in sorted(parts, key=lambda part: -part.wanted.saved_s_per_byte):
            wanted = part.wanted
            held = max(sum(given[other.name] for other in own) for phase, own in phases if phase in part.phases)
            more = max(0, min(memory_bytes - held, wanted.all_bytes - wanted.least_bytes))
            given[part.name] += more - more % wanted.step_bytes
    shares = tuple(replace(part, given_bytes=given[part.name]) for part in parts)
    return MemoryPlan(memory_bytes=memory_bytes, shares=shares)


def least_of(parts: Sequence[Part]) -> int:
    """The least budget of these classes."""
    return max((sum(part.wanted.least_bytes for part in own) for _, own in _by_phase(parts)), default=0)


def _check(parts: Sequence[Part], memory_bytes: int, option: str) -> None:
    """Raises: BudgetTooSmall: naming the first class that does not fit any more, and the least that does."""
    least = least_of(parts)
    if least <= memory_bytes:
        return
    phase, own = max(_by_phase(parts), key=lambda phased: sum(part.wanted.least_bytes for part in phased[1]))
    left = memory_bytes
    for part in own:
        size = part.wanted.least_bytes
        if size > left:
            needs = ", ".join(f"{part.name} {short(part.wanted.least_bytes)}" for part in own)
            raise BudgetTooSmall(
                f"{option} {format_bytes(memory_bytes)} is too little: in the phase '{phase}' the class "
                f"'{part.name}' needs {format_bytes(size)} at least, and {format_bytes(left)} are left. All classes "
                f"need {format_bytes(least)} ({needs}); raise {option} to {least} B or more"
            )
        left -= size


def _by_phase(parts: Sequence[Part]) -> list[tuple[str, list[Part]]]:
    names = dict.fromkeys(phase for part in parts for phase in part.phases)
    return [(phase, [part for part in parts if phase in part.phases]) for phase in names]


def short(size: int) -> str:
    """In decimal units only."""
    return format_bytes(size).partition(" (")[0]
