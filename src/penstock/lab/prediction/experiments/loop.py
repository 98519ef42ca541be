"""Measures visit after visit, each the one that teaches most, until the error to expect or the time is reached."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.base.types import Row
from penstock.base.units import format_seconds
from penstock.errors import UsageError
from penstock.lab.measure.bench.results import run_median_s
from penstock.lab.measure.bench.spec import BenchPoint, ProgramSpec, SuiteSpec, plan
from penstock.lab.measure.bench.visits import Visits, of_points
from penstock.lab.prediction.experiments.candidates import SUITE
from penstock.lab.prediction.experiments.outlook import Expected, Foreseen, Outlook, Step
from penstock.lab.prediction.experiments.programs import CHECKED

PROGRAM_RUNS = 2
CHECK_SHARE = 0.15
"""Of the budget, for programs that nothing is fitted to."""
_PACE = 0.5
"""Share of a visit's surprise about its time that the next ones expect."""
_MICRO = ("matrix-multiplication", "logistic-function", "sign-evaluation")

Seconds = Mapping[str, float]
"""Key of a point -> median seconds of a call."""


class Lab:
    """Whatever measures: a reading on this machine."""

    def __init__(self, visits: Visits) -> None:
        self._visits = visits

    def stored(self) -> dict[int, Seconds]:
        """The visits of an interrupted measurement, by their numbers."""
        return {number: _medians(rows) for number, rows in self._visits.stored.items()}

    def visit(self, points: Sequence[BenchPoint]) -> Seconds:
        """Measure these points of one parameter set."""
        return _medians(self._visits.visit(points))

    def program(self, point: BenchPoint) -> Seconds:
        """Run a program."""
        return _medians(self._visits.program(point))

    def clock(self) -> float:
        """Seconds from any origin."""
        return time.monotonic()


def _medians(rows: Sequence[Row]) -> Seconds:
    return {key: statistics.median(map(run_median_s, runs)) for key, runs in of_points(list(rows)).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """When to stop."""

    budget_s: float
    target: float
    """Expected mean |error| of programs."""


@dataclass(slots=True, kw_only=True)
class Report:
    """The measured points, and the error to expect after them."""

    spent_s: float = 0.0
    visits: int = 0
    points: int = 0
    """Different ones."""
    expected: Expected
    """After the last visit."""
    reached: bool = False
    """Whether the target was."""
    exhausted: bool = False
    """Whether there was time, and nothing left to measure."""
    programs: list[str] = field(default_factory=list)
    """Keys of the programs that were run."""


@dataclass(slots=True, kw_only=True)
class Watcher:
    """Who hears of the progress."""

    planned: Callable[[Sequence[Step], Expected], None] | None = None
    """The visits to come, and the error now; said before the first visit and again after it."""
    starts: Callable[[str, float], None] = lambda what, spent: None
    """The next points, and the seconds so far."""
    done: Callable[[float, Expected], None] = lambda spent, expected: None
    """The seconds so far, and the expected error."""


class MeasurementLoop:
    """One measurement, resumed or new.

    Args:   spent_s: seconds that earlier parts of it took.
    """

    def __init__(self, lab: Lab, outlook: Outlook, asked: Goal, watcher: Watcher, spent_s: float = 0.0) -> None:
        self._lab, self._outlook, self._asked, self._watcher = lab, outlook, asked, watcher
        self._started, self._spent_before = lab.clock(), spent_s
        self._places = outlook.candidates.by_key()
        self._measured: set[str] = set()
        self._visits = 0

    def run(self) -> Report:
        """Measure until the target or the budget is reached, then run programs to check.

        Raises: UsageError: the budget is too small for the first visit.
        """
        for seconds in dict(sorted(self._lab.stored().items())).values():
            self._take(seconds)
        report = Report(expected=self._outlook.expected())
        self._tell_plan()
        first = not self._visits
        while not (self._visits and self._outlook.expected().mean <= self._asked.target):
            choice = self._outlook.next_visit(self._left())
            if choice is None:
                break
            points = [self._outlook.candidates.points[number] for number in choice.at]
            self._watcher.starts(_label(points), self.spent_s)
            began = self._lab.clock()
            self._take(self._lab.visit(points))
            self._pace((self._lab.clock() - began) / choice.seconds, 1.0 if first else _PACE)
            self._watcher.done(self.spent_s, self._outlook.expected())
            if first:
                self._tell_plan()
            first = False
        if not self._visits:
            least = self._outlook.seconds_of_start() / (1 - CHECK_SHARE)
            raise UsageError(
                f"--budget {format_seconds(self._asked.budget_s)}: the first points alone take about "
                f"{format_seconds(least)}; give more time"
            )
        report.expected = self._outlook.expected()
        report.reached = report.expected.mean <= self._asked.target
        report.exhausted = not report.reached and len(self._measured & set(self._places)) == len(self._places)
        report.visits = self._visits
        report.points = len(self._measured & set(self._places))
        report.programs = self._check()
        report.spent_s = self.spent_s
        return report

    @property
    def spent_s(self) -> float:
        """Seconds so far, with interrupted parts."""
        return self._spent_before + self._lab.clock() - self._started

    def _left(self) -> float:
        """Seconds for visits."""
        return (1 - CHECK_SHARE) * self._asked.budget_s - self.spent_s

    def _take(self, seconds: Seconds) -> None:
        self._measured |= set(seconds)
        known = {self._places[key]: call_s for key, call_s in seconds.items() if key in self._places}
        if known:
            self._visits += 1
            self._outlook.add(self._visits, known)

    def _pace(self, ratio: float, share: float) -> None:
        self._outlook.slowness *= min(max(ratio, 0.2), 5.0) ** share

    def _tell_plan(self) -> None:
        if self._watcher.planned is not None:
            self._watcher.planned(self._outlook.plan(self._left(), self._asked.target), self._outlook.expected())

    def _check(self) -> list[str]:
        """Run the programs that there is time for, each at every number of threads; their keys."""
        checked = []
        for program, point in self.checks():
            done = point.key in self._measured
            if not done:
                if self.spent_s + self._outlook.seconds_to_run(program, point.runs) > self._asked.budget_s:
                    continue
                self._watcher.starts(f"check: {point.label()}", self.spent_s)
                self._lab.program(point)
                self._watcher.done(self.spent_s, self._outlook.expected())
            checked.append(point.key)
        return checked

    def checks(self) -> list[tuple[Foreseen, BenchPoint]]:
        """Programs that may be run, in order."""
        foreseen = {
            (run.program.tally.workload, run.program.tally.size, run.program.threads): run
            for run in self._outlook.foreseen()
        }
        threads = sorted({count for _, _, count in foreseen})
        of_point = {
            (p.item, p.size, p.threads): p for p in program_points(threads, self._outlook.candidates.points[0].reading)
        }
        order = [(name, size, count) for name, size in CHECKED for count in threads]
        return [(foreseen[run], of_point[run]) for run in order if run in foreseen and run in of_point]


def program_points(threads: Sequence[int], reading: str) -> list[BenchPoint]:
    """The points of the programs that check a fit; `reading` computes them."""

    def specs(micro: bool) -> tuple[ProgramSpec, ...]:
        return tuple(
            ProgramSpec(workload=name, sizes=(size,), threads=tuple(threads), runs=PROGRAM_RUNS)
            for name, size in CHECKED
            if (name in _MICRO) == micro
        )

    return plan(SuiteSpec(name=SUITE, micro=specs(True), workloads=specs(False)), reading=reading).points


def _label(points: Sequence[BenchPoint]) -> str:
    params = points[0].params
    power = params.ring_dim.bit_length() - 1
    return f"2^{power}, {params.num_q} limbs, {params.dnum} digits: {len(points)} points"
