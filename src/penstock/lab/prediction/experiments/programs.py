"""The programs whose time is predicted: their operations decide which timings teach something."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from penstock.base.system import toml
from penstock.program.evaluator.tally import Tally
from penstock.program.running.counting import count_workload

_WRITTEN = toml.packaged("penstock.lab.prediction.experiments", "programs.toml")
PROGRAMS: list[tuple[str, str]] = [(name, size) for name, size in _WRITTEN["foreseen"]]
"""Workloads and sizes on OpenFHE's sets: small and large rings, short and long chains."""
CHECKED: list[tuple[str, str]] = [(name, size) for name, size in _WRITTEN["checked"]]
"""Programs that are run at the end, the first ones that there is time for."""


@dataclass(frozen=True, slots=True)
class ThreadedProgram:
    """A program at one number of threads."""

    tally: Tally
    threads: int


@lru_cache(maxsize=64)
def tally_named(name: str, size: str) -> Tally:
    """The tally of a workload at a named size."""
    return count_workload(name, None, size)


def programs(threads: Sequence[int], named: Sequence[tuple[str, str]] = PROGRAMS) -> list[ThreadedProgram]:
    """Each program at each number of threads."""
    return [ThreadedProgram(tally_named(*name_and_size), count) for name_and_size in named for count in threads]
