"""What a program would take at other parameters, with other threads, on other machines: thousands of predictions.

Configurations with the same operations share one tally, and those that also read the same keys share one set of kernel
work. The rest of each is a few array products. Tallies are counted in several processes where that is worth it.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

from penstock.base.system.workers import Lost, Workers
from penstock.base.types import Row
from penstock.errors import ParamsError, PenstockError, UsageError
from penstock.lab.prediction.counted import Counted
from penstock.lab.prediction.memory import memory_of
from penstock.lab.prediction.prediction import RANGES, priced, sums_of, threads_without_effect
from penstock.program import workloads
from penstock.program.evaluator.counting import structure
from penstock.program.evaluator.tally import Tally, tally_of
from penstock.program.package.content import Package
from penstock.program.package.derive import derive, fitted
from penstock.program.package.replay import trace_package
from penstock.program.package.retrace import package_of_trace, unknown_elsewhere
from penstock.program.running.counting import count_variants
from penstock.scheme.machines.schema import Machine
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.params.variation import varied
from penstock.scheme.traces.schema import Trace
from penstock.scheme.unpriced import AT_LEAST, UNPRICED, bounded

WORTH_A_POOL = 64
"""Programs to be read from which further processes pay for their start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfAxes:
    """The values that are tried, each with each. `None` keeps the program's value, or the machine's."""

    ring_dim: tuple[int | None, ...] = (None,)
    depth: tuple[int | None, ...] = (None,)
    dnum: tuple[int | None, ...] = (None,)
    security: tuple[int | None, ...] = (None,)
    """Bits that must hold; 0 asks for none."""
    key_form: tuple[KeyForm | None, ...] = (None,)
    threads: tuple[int | None, ...] = (None,)

    def __len__(self) -> int:
        return math.prod(len(getattr(self, axis.name)) for axis in fields(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A program of penstock, or of the user's own, counted anew at each parameter set."""

    name: str
    """A workload, or a Python file."""
    size: str
    params: CkksParameters

    @property
    def title(self) -> str:
        """As results name it."""
        return str(workloads.get(self.name).NAME)

    def count(self, variants: Sequence[CkksParameters]) -> list[Tally]:
        """The tallies at sets of one structure. Raises: ParamsError: the program does not fit them."""
        return count_variants(self.name, variants, self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A tally of a trace: its operations stay, and with them ring dimension and depth."""

    tally: Tally

    @property
    def title(self) -> str:
        return self.tally.workload

    @property
    def size(self) -> str:
        return self.tally.size

    @property
    def params(self) -> CkksParameters:
        return self.tally.params

    def count(self, variants: Sequence[CkksParameters]) -> list[Tally]:
        """The same operations, at sets that differ in their digits only."""
        return [replace(self.tally, params=params) for params in variants]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Carried:
    """A trace that is taken to other parameters: its calls are priced there as its program would have them."""

    package: Package
    """The calls, without vectors."""
    size: str
    params: CkksParameters
    unknown: Mapping[str, int]
    """Kind -> calls of which nobody knows what they are elsewhere."""

    @classmethod
    def of(cls, trace: Trace, params: CkksParameters | None = None) -> Carried:
        """A trace, at its own parameters or at others.

        Raises: TraceError: it has steps of circuits without their call.
        """
        package, _ = package_of_trace(trace)
        return cls(
            package=package,
            size=trace.meta.size or "recorded",
            params=params or trace.parameters(),
            unknown=unknown_elsewhere(trace),
        )

    @property
    def title(self) -> str:
        return self.package.name

    def count(self, variants: Sequence[CkksParameters]) -> list[Tally]:
        """The tallies at sets of one structure. Raises: ParamsError: the calls do not fit them."""
        first = variants[0]
        try:
            made = trace_package(derive(self.package, fitted(self.package, first)))
        except UsageError:
            raise
        except PenstockError as error:
            raise ParamsError(str(error)) from error
        tally = replace(tally_of(made), workload=self.title, size=self.size, left_out=self.unknown)
        return [replace(tally, params=variant) for variant in variants]


Program = Workload | Recorded | Carried


def what_if(
    program: Program,
    axes: WhatIfAxes,
    machines: Sequence[Machine],
    *,
    workers: int = 1,
    on_row: Callable[[int, int], None] | None = None,
) -> list[Row]:
    """One row a combination, in the order of the axes, the last fastest; machines come before threads. An impossible
    one has `None` for its numbers, and the `reason`.

    Args:   workers: processes that count programs; on_row: told how many rows are done, and of how many.
    Raises: UsageError: other ring dimensions or depths of a trace.
    """
    if isinstance(program, Recorded) and {*axes.ring_dim, *axes.depth} != {None}:
        raise UsageError(
            "a trace has the ring dimension and the depth at which it was made: for others name the workload, or make "
            "a trace at each"
        )
    total, done = len(axes) * len(machines), 0
    standing = [(machine, count, _standing(machine, count)) for machine in machines for count in axes.threads]
    study = _Study(program, axes.key_form, standing)
    rows: list[Row] = []
    for of_set in _found(study, _jobs(_parameter_sets(program.params, axes)), workers):
        rows += of_set
        done += len(of_set)
        if on_row is not None:
            on_row(done, total)
    return rows


def _parameter_sets(base: CkksParameters, axes: WhatIfAxes) -> Iterator[CkksParameters | _Impossible]:
    own = (base.ring_dim, base.depth, base.dnum, base.security_asked)
    for asked in itertools.product(axes.ring_dim, axes.depth, axes.dnum, axes.security):
        try:
            ring_dim, depth, dnum, security = asked
            yield varied(base, ring_dim=ring_dim, depth=depth, dnum=dnum, security=security)
        except PenstockError as error:
            taken = [mine if value is None else value for value, mine in zip(asked, own, strict=True)]
            yield _Impossible._make([*taken, str(error)])


class _Impossible(NamedTuple):
    """A combination that is not a valid parameter set."""

    ring_dim: int
    depth: int
    dnum: int
    security_asked: int
    reason: str


@dataclass(frozen=True, slots=True)
class _Study:
    """The common part of all configurations."""

    program: Program
    forms: Sequence[KeyForm | None]
    standing: Sequence[tuple[Machine, int | None, Machine | str]]
    """Each machine, its threads, and the machine at so many or why it cannot stand there."""

    def rows(self, job: _Job) -> Iterator[list[Row]]:
        """Those of each set."""
        readings = self._readings([variant for variant in job if isinstance(variant, CkksParameters)])
        for params in job:
            reading = params.reason if isinstance(params, _Impossible) else readings[_digits(params)]
            rows: list[Row] = []
            for form in self.forms:
                common = _common(self.program, params, reading, form)
                counted = reading if isinstance(reading, str) else reading[1][form]
                rows += [_row(common, counted, machine, at, threads) for machine, threads, at in self.standing]
            yield rows

    def _readings(self, sets: Sequence[CkksParameters]) -> dict[Hashable, _Reading | str]:
        """Digits -> the program there, or why it cannot run; the sets are of one structure, so that it is read once."""
        variants: dict[Hashable, CkksParameters] = {}
        for params in sets:
            variants.setdefault(_digits(params), params)
        try:
            return {
                _digits(tally.params): (tally, {form: Counted.of_tally(tally, form) for form in self.forms})
                for tally in (self.program.count(tuple(variants.values())) if variants else ())
            }
        except PenstockError as error:
            # The message names the set that was read; the others fail alike.
            read = f"'{sets[0].name}'"
            return {digits: str(error).replace(read, f"'{variant.name}'") for digits, variant in variants.items()}


_Reading = tuple[Tally, dict[KeyForm | None, Counted]]
"""A program at one parameter set, with its kernel work at each form of keys."""
_Job = list[CkksParameters | _Impossible]


def _jobs(sets: Iterable[CkksParameters | _Impossible]) -> list[_Job]:
    """The sets of one structure together; they follow each other. An invalid set stays with the ones before it."""
    jobs: list[_Job] = []
    at: Hashable = None
    for params in sets:
        of = at if isinstance(params, _Impossible) else structure(params)
        if not jobs or (at is not None and of != at):
            jobs.append([])
        jobs[-1].append(params)
        at = of
    return jobs


def _found(study: _Study, jobs: Sequence[_Job], workers: int) -> Iterator[list[Row]]:
    """The rows in the order of their sets."""
    if workers > 1 and len(jobs) >= WORTH_A_POOL and isinstance(study.program, Workload):
        with Workers[int](workers, _begin, study) as pool:
            yield from _in_order(pool, jobs)
    else:
        for job in jobs:
            yield from study.rows(job)


def _in_order(pool: Workers[int], jobs: Sequence[_Job]) -> Iterator[list[Row]]:
    waiting, finished, given_back = deque(enumerate(jobs)), dict[int, list[Row]](), 0
    while given_back < len(jobs):
        while pool.has_room and waiting:
            number, job = waiting.popleft()
            pool.give(number, _rows_of_job, job)
        for number, rows in pool.finished():
            if isinstance(rows, Lost):
                raise PenstockError(
                    "a process that reads programs was killed, most often for lack of memory: ask for fewer "
                    "combinations, or give fewer cores (taskset)"
                )
            finished[number] = rows
        while given_back in finished:
            yield finished.pop(given_back)
            given_back += 1


_STUDY: list[_Study] = []
"""This process's part, if it is one of several."""


def _begin(study: _Study) -> None:
    _STUDY[:] = [study]


def _rows_of_job(job: _Job) -> list[Row]:
    return [row for rows in _STUDY[0].rows(job) for row in rows]


def _digits(params: CkksParameters) -> tuple[int, int]:
    return params.dnum, params.num_p


def _standing(machine: Machine, threads: int | None) -> Machine | str:
    """The machine at so many threads, or why it cannot stand there."""
    try:
        return machine if threads is None else machine.at(threads)
    except PenstockError as error:
        return str(error)


def _common(
    program: Program, params: CkksParameters | _Impossible, reading: _Reading | str, form: KeyForm | None
) -> Row:
    """What all rows of a parameter set and key form share."""
    made = params if isinstance(params, CkksParameters) else None
    own = program.params.key_form if form is None and made is not None else form
    row: Row = {
        "workload": program.title,
        "size": program.size,
        "params": made and made.name,
        **{name: getattr(params, name) for name in ("ring_dim", "depth", "dnum", "security_asked")},
        "security_bits": made and made.security_bits,
        "key_form": own and own.value,
    }
    if isinstance(reading, str):
        return row | dict.fromkeys(("peak_bytes", "key_bytes", "num_keys", "num_operations", "bootstraps"))
    tally, _ = reading
    return row | {
        "peak_bytes": memory_of(tally, key_form=form).peak_bytes,
        "key_bytes": tally.key_bytes(form),
        "num_keys": len(tally.keys),
        "num_operations": tally.num_operations,
        "bootstraps": tally.calls.get("bootstrap", 0),
    }


def _row(common: Row, counted: Counted | str, machine: Machine, at: Machine | str, threads: int | None) -> Row:
    row: Row = {
        **common,
        "machine": machine.name,
        "threads": machine.thread_count if threads is None else threads,
        **dict.fromkeys(("predicted_s", "low_s", "high_s", "predicted_j", "low_j", "high_j", "reason")),
        **dict.fromkeys((UNPRICED, AT_LEAST)),
        "warnings": [],
        "provenance": "predicted",
    }
    for refusal in (counted, at):
        if isinstance(refusal, str):
            row["reason"] = refusal
            return row
    assert isinstance(counted, Counted)
    assert isinstance(at, Machine)
    total = priced(counted, at)
    totals = {name: value for name, value in total.totals.items() if name in row}
    row |= totals | {"warnings": [*total.warnings, *threads_without_effect(machine, threads)]}
    return bounded(row, total.unpriced, sums_of(total.unpriced), RANGES)
