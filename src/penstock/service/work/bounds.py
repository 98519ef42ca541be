"""Bounds of one job, next to its prediction, and of one tenant's part of the workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from penstock.base.units import format_bytes
from penstock.service.work.messages import EXPIRED, WorkerSettings
from penstock.service.work.waiting import Entry

if TYPE_CHECKING:
    from penstock.base.types import Row

PROCESS_BYTES = 256 << 20
"""Of a worker besides its keys, its jobs' values and its kept work: the interpreter, libraries, messages, reads."""


class Isolation(str, Enum):
    """Who shares a process."""

    SHARED = "shared"
    """All tenants, and one budget of keys."""
    PROCESS = "process"
    """Each tenant has its own, which is stopped when it has nothing to do; the budget is dealt in equal parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBounds:
    """In wall time of one job."""

    compile_s: float = 120.0
    """Until a package is compiled, waiting for another job that compiles it included."""
    most_over: float = 20.0
    """Times its prediction that a job may compute."""
    least_s: float = 30.0
    """That each job may compute, whatever its prediction."""
    grace_s: float = 5.0
    """For the end of a job that was told to end; then its worker is killed."""

    def compute_s(self, predicted_s: float) -> float:
        """The longest time of computing."""
        return max(self.least_s, self.most_over * predicted_s)

    def figures(self, entry: Entry, predicted_s: float, now: float, progress: Mapping[str, tuple[int, int]]) -> Row:
        """Of a running job, for the snapshot. `progress`: of jobs whose operations have begun."""
        computing_s = None if entry.computing_s is None else now - entry.computing_s
        most_s = self.compile_s if computing_s is None else self.compute_s(predicted_s)
        done = dict(zip(("tasks_ended", "tasks"), progress.get(entry.spec.job, ()), strict=False))
        return {"computing_s": computing_s, "predicted_s": predicted_s, "bound_s": most_s, **done}

    def over(self, entry: Entry, predicted_s: float, now: float) -> str:
        """Why a job has to end; empty: it may go on."""
        if entry.deadline_at_s is not None and now > entry.deadline_at_s:
            when = "before it began" if entry.started_s is None else f"while it {entry.does}"
            return f"{EXPIRED}its deadline of {entry.spec.deadline_s:g} s was over {when}"
        if entry.started_s is None:
            return ""
        if entry.computing_s is None:
            compiled_s = now - entry.started_s
            if compiled_s <= self.compile_s:
                return ""
            return f"it compiled for {compiled_s:.1f} s, the bound is {self.compile_s:g} s: split the program"
        ran_s, most_s = now - entry.computing_s, self.compute_s(predicted_s)
        if ran_s > most_s:
            return f"it ran {ran_s:.1f} s, predicted {predicted_s:.2g} s, the bound is {most_s:.3g} s: ask the operator"
        return ""


def places_of_one(abreast: int) -> int:
    """The most jobs of one tenant that run at the same time: half of the places, and never the last one.

    >>> [places_of_one(abreast) for abreast in (1, 2, 3, 4, 8)]
    [1, 1, 2, 2, 4]
    """
    return (abreast + 1) // 2


def memory_of_one(memory_bytes: int) -> int:
    """The most bytes of one tenant's running jobs: the last quarter is for others.

    >>> memory_of_one(8)
    6
    """
    return memory_bytes - memory_bytes // 4


def stated_bytes(settings: WorkerSettings, memory_bytes: int | None) -> int:
    """The memory of a worker: keys, its jobs' values, its work kept for the next ones, and itself; 0: not bounded."""
    if memory_bytes is None:
        return 0
    return PROCESS_BYTES + settings.budget_bytes + memory_bytes + settings.kept_bytes


def above(resident_bytes: int, stated: int) -> str:
    """Why a worker is killed; empty: it stays."""
    if not stated or resident_bytes <= stated:
        return ""
    return f"it held {format_bytes(resident_bytes)}, more than its stated memory of {format_bytes(stated)}"
