"""The expected error of programs now and after more visits, and the next visit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.lab.measure.bench.estimate import KEY_GENERATION_KEY_SWITCHES
from penstock.lab.prediction.experiments.candidates import (
    CONTEXT_S_PER_POINT,
    Candidates,
    noise_sd,
    point_seconds,
    set_seconds,
)
from penstock.lab.prediction.experiments.choice import MEAN_OF_NORMAL, Choice, Costs, Situation, best_visit
from penstock.lab.prediction.experiments.items import Items, of_point, of_program, operation_amounts
from penstock.lab.prediction.experiments.posterior import (
    Posterior,
    Timings,
    misfits,
    posterior,
    prior,
    scales_of,
    surprises,
)
from penstock.lab.prediction.experiments.prior import COST_SD, COSTS, PROGRAM_SD, SCALE_SD, SECONDS, Columns, of_threads
from penstock.lab.prediction.experiments.programs import ThreadedProgram
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.work.kernels import key_switch

Stored = Callable[[CkksParameters], bool]
"""Whether the context and keys of a set are made already."""
PROGRAM_S = 1.0
"""A run of a program beyond its operations: data, the clear reading, the check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The expected mean |error| of programs."""

    by_threads: dict[int, float]

    @property
    def mean(self) -> float:
        """Over all numbers of threads alike."""
        return sum(self.by_threads.values()) / len(self.by_threads)


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """A program before it runs."""

    program: ThreadedProgram
    seconds: float
    """Of a whole run."""
    error: float
    """Expected |error| of its predicted time, relative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A visit of a plan."""

    params: CkksParameters
    choice: Choice
    expected: Expected
    """After it."""


class Outlook:
    """What the timings so far say, and what others would.

    Args:   stored: which sets need no keys to be made.
    """

    def __init__(self, candidates: Candidates, programs: Sequence[ThreadedProgram], stored: Stored) -> None:
        rings = {p.params.ring_dim for p in candidates.points} | {p.tally.params.ring_dim for p in programs}
        columns = Columns(rings)
        known = [(i, parts) for i, p in enumerate(candidates.points) if (parts := of_point(p, columns))]
        of_programs = [of_program(program.tally, program.threads, columns) for program in programs]
        self.candidates, self.programs, self._stored = candidates, list(programs), stored
        self._row = {number: row for row, (number, _) in enumerate(known)}
        self._numbers = [number for number, _ in known]
        self._items = Items([parts for _, parts in known], columns)
        self._programs = Items(of_programs, columns)
        self._of_program = np.asarray([program.threads for program in programs])
        self._own = np.asarray([of_threads(PROGRAM_SD, program.threads) ** 2 for program in programs])
        self._noise = np.asarray([noise_sd(candidates.points[number]) for number in self._numbers])
        self._threads = np.asarray([candidates.points[number].threads for number in self._numbers])
        self.known: Posterior = prior(len(columns))
        self._timings: Timings | None = None
        self._seen: list[dict[int, tuple[float, float]]] = []
        self._opened: set[CkksParameters] = set()
        self._timed: set[int] = set()
        """Points that are not timed again: a point's deviation from the model would repeat."""
        self.slowness = 1.0
        """Measured over predicted seconds of visits."""

    # What was timed.

    def add(self, visit: int, seconds: dict[int, float]) -> None:
        """Take in the times of one visit: number of a candidate -> seconds of a call."""
        at = [number for number in seconds if number in self._row]
        self._timed |= set(seconds)
        self._opened |= {self.candidates.points[number].params for number in seconds}
        if not at:
            return
        rows = np.asarray([self._row[number] for number in at], dtype=np.int64)
        new = Timings(
            at=rows,
            logs=np.log([seconds[number] for number in at]),
            visits=np.full(len(at), visit),
            threads=self._threads[rows],
            sds=self._noise[rows],
        )
        first = self._timings is None  # before it the machine is hardly known
        if not first:
            self._seen.append(surprises(self._items, self.known, new))
        self._timings = new if self._timings is None else self._timings.joined(new)
        fitted = posterior(self._items, self._timings, self.known.mean)
        if first:
            self._seen.append(misfits(self._items, fitted, new))
        self.known = replace(fitted, scales=scales_of(self._seen))

    # What is expected.

    def expected(self) -> Expected:
        """The error to expect of programs now."""
        return self._expected(self._situation())

    def foreseen(self) -> list[Foreseen]:
        """Each program as it is expected to run."""
        situation = self._situation()
        logs, _ = self._programs.linear(self.known.mean)
        sds = np.sqrt(situation.variances() + self._own)
        return [
            Foreseen(
                program=program,
                seconds=float(np.exp(log)),
                error=MEAN_OF_NORMAL * self.known.scale(program.threads) * float(sd),
            )
            for program, log, sd in zip(self.programs, logs.tolist(), sds.tolist(), strict=True)
        ]

    def seconds_to_run(self, foreseen: Foreseen, runs: int) -> float:
        """Predicted time of `runs` runs of a program, one more that does not count, and its context and keys."""
        tally = foreseen.program.tally
        keys = len(tally.keys) * KEY_GENERATION_KEY_SWITCHES * self._key_switch_s(tally.params)
        context = CONTEXT_S_PER_POINT * tally.params.ring_dim * (tally.params.num_q + tally.params.num_p)
        return self.slowness * (PROGRAM_S + keys + context + (1 + runs) * foreseen.seconds)

    def seconds_of_start(self) -> float:
        """Predicted time of the first visit."""
        costs = self._costs()
        return float(costs.points[list(self.candidates.start)].sum() + costs.sets[self._set_of(self.candidates.start)])

    def next_visit(self, limit_s: float) -> Choice | None:
        """The visit to make; the first is the same for all machines. `None`: none takes so little time."""
        if self._timings is None:
            seconds = self.seconds_of_start()
            return Choice(at=self.candidates.start, seconds=seconds, gain=0.0) if seconds <= limit_s else None
        return self._best(self._situation(), self._costs(), limit_s, self._timed)

    def plan(self, budget_s: float, target: float) -> list[Step]:
        """Every visit to come, and the error after it, until the budget or the target ends them."""
        situation, costs, left = self._situation(), self._costs(), budget_s
        steps: list[Step] = []
        opened = np.asarray([self._set_cost(at, opened=True) for at in self.candidates.sets])
        timed = set(self._timed)
        while not steps or steps[-1].expected.mean > target:
            if self._timings is None and not steps:
                choice = self.next_visit(left)
            else:
                choice = self._best(situation, costs, left, timed)
            if choice is None:
                break
            timed |= set(choice.at)
            at = [self._row[number] for number in choice.at if number in self._row]
            situation = replace(situation, covariance=situation.after(at))
            place = self._set_of(choice.at)
            costs.sets[place] = min(costs.sets[place], opened[place])
            left -= choice.seconds
            params = self.candidates.points[choice.at[0]].params
            steps.append(Step(params=params, choice=choice, expected=self._expected(situation)))
        return steps

    # Inside.

    def _situation(self) -> Situation:
        _, slopes = self._items.linear(self.known.mean)
        _, of_programs = self._programs.linear(self.known.mean)
        scale = np.asarray([self.known.scale(int(count)) for count in self._of_program])
        return Situation(
            covariance=self.known.covariance,
            slopes=slopes,
            of_programs=of_programs,
            weights=scale**2 / len(scale),
            noise=self._noise**2,
            threads=self._threads,
        )

    def _expected(self, situation: Situation) -> Expected:
        sds = np.sqrt(situation.variances() + self._own)
        errors = {}
        for count in sorted(set(self._of_program.tolist())):
            mean = float(sds[self._of_program == count].mean())
            errors[count] = MEAN_OF_NORMAL * self.known.scale(count) * mean
        return Expected(by_threads=errors)

    def _best(self, situation: Situation, costs: Costs, limit_s: float, timed: Collection[int]) -> Choice | None:
        twins = {i: twin for i, twin in enumerate(self.candidates.twins) if twin is not None}
        sets = [[i for i in at if i in self._row and i not in timed] for at in self.candidates.sets]
        choice = best_visit(
            situation,
            [[self._row[i] for i in at] for at in sets],
            {self._row[i]: self._row[t] for i, t in twins.items() if i in self._row and t in self._row},
            Costs(points=costs.points[self._numbers], sets=costs.sets),
            limit_s,
        )
        if choice is None:
            return None
        numbers = [self._numbers[row] for row in choice.at]
        # The warm calls that recorded ones are compared with teach nothing by themselves.
        lacking = [twins[number] for number in numbers if number in twins and twins[number] not in timed]
        return replace(choice, at=tuple(dict.fromkeys([*numbers, *lacking])))

    def _set_of(self, numbers: Sequence[int]) -> int:
        return next(i for i, at in enumerate(self.candidates.sets) if numbers[0] in at)

    def _costs(self) -> Costs:
        logs, _ = self._items.linear(self.known.mean)
        call = np.full(len(self.candidates.points), 1e-3)
        call[self._numbers] = np.exp(logs)
        points = [
            point_seconds(point, float(seconds))
            for point, seconds in zip(self.candidates.points, call.tolist(), strict=True)
        ]
        sets = [self._set_cost(at) for at in self.candidates.sets]
        return Costs(points=self.slowness * np.asarray(points), sets=np.asarray(sets))

    def _set_cost(self, at: Sequence[int], *, opened: bool = False) -> float:
        params = self.candidates.points[at[0]].params
        stored = opened or params in self._opened or self._stored(params)
        return self.slowness * set_seconds(params, stored, self._key_switch_s(params))

    def _key_switch_s(self, params: CkksParameters) -> float:
        costs = SECONDS * np.exp(SCALE_SD * self.known.mean[0] + COST_SD * self.known.mean[1 : 1 + len(COSTS)])
        return float(operation_amounts(key_switch(params, params.num_q), 1) @ costs)
