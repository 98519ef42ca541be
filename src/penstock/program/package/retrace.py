"""A recorded trace as a package without constants, to be taken to other parameters and priced there.

A trace has the calls of a program, and neither its vectors nor its numbers: prices do not depend on them. Of a series
only the degree counts, which the rows inside the call tell.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from penstock.base.types import Row
from penstock.errors import PenstockError, TraceError
from penstock.program.evaluator.protocol import Values
from penstock.program.evaluator.scaling import ScaleState
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import ConstantsInMemory, Input, Output, Package, PackageSeries, Scope
from penstock.program.package.derive import derive, fitted
from penstock.program.package.replay import trace_package
from penstock.scheme.operations import TRAITS, OpKind, Verb
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.schema import ORIGIN_COMPOSITE, ORIGIN_MODELLED, Trace

MOST_DEGREE = 1023
"""Of the series that are tried."""
_NEAR = 12
"""Degrees that are tried on both sides of the likeliest."""
_INTERVALS = ((-1.0, 1.0), (-2.0, 2.0), (-2.0, 1.0))
"""Steps before the series: none; a product; a product and a sum."""
_VERBS = {kind: Verb(row.name) for kind, row in TRAITS.items() if row.code is not None and row.actor == "server"}
"""Kinds that are one call of a package with the same name."""
_PLACE = re.compile(r"(.*)\[(\d+)\]$", re.DOTALL)


class _NoConstants:
    """The vectors of a program whose trace alone is known."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def values(self, number: int) -> Values:
        raise PenstockError("a trace has no constants: a package that was made of one is priced, and cannot be run")


class Retraced(NamedTuple):
    """A trace at other parameters, and what could not be carried over."""

    trace: Trace
    notes: tuple[str, ...]


def retrace(trace: Trace, params: CkksParameters) -> Retraced:
    """A recorded trace as its program would have it at another set.

    Raises: TraceError: it has steps of circuits without their call; ParamsError: the program
            does not fit the set.
    """
    package, notes = package_of_trace(trace)
    made = trace_package(derive(package, fitted(package, params)))
    left_out = unknown_elsewhere(trace)
    meta = replace(made.meta, size=trace.meta.size, versions=trace.meta.versions, left_out=left_out)
    return Retraced(replace(made, meta=meta), tuple(notes))


def unknown_elsewhere(trace: Trace) -> dict[str, int]:
    """Kind -> calls of which nobody knows what they are at other parameters.

    A bootstrap that was recorded whole may have several iterations; any other one with a row is the circuit of the set.
    """
    whole, kind = trace.whole_composites(), OpKind.BOOTSTRAP.value
    if trace.meta.reading != "record" and kind in whole:
        whole[kind] = trace.meta.left_out.get(kind, 0)
    return {kind: count for kind, count in whole.items() if count}


def package_of_trace(trace: Trace) -> tuple[Package, list[str]]:
    """A package with the calls of a trace, without its vectors, and notes of all calls that were left out.

    Raises: TraceError: steps of circuits without their call.
    """
    return _TraceReader(trace).package()


class _TraceReader:
    """One trace, row by row."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.params = trace, trace.parameters()
        self.builder = PackageBuilder(ConstantsInMemory())
        self.notes: dict[str, int] = defaultdict(int)
        self._value: dict[int, int] = {}
        """Object of the trace -> value of the package."""
        self._constants: dict[int, int] = {}
        objects = trace.objects.to_pylist()
        self._names: dict[int, str | None] = {entry["id"]: entry["name"] for entry in objects}
        self._limbs: dict[int, int] = {entry["id"]: entry["limbs"] for entry in objects}
        self._used_names: set[str] = set()
        self._products: set[int] = set()
        """Values with the scale of a product."""
        self._scopes = _Scopes(self.builder)
        self._outputs = 0

    def package(self) -> tuple[Package, list[str]]:
        rows = self.trace.operations.to_pylist()
        for group in _groups(rows):
            self._group(group)
        meta = self.trace.meta
        made = self.builder.finish(meta.workload, self.params, _NoConstants(len(self._constants)), keyed=False)
        return made, [f"{what} ({count} times)" if count > 1 else what for what, count in self.notes.items()]

    def _group(self, rows: Sequence[Row]) -> None:
        """A row that the program called, or a composite with the rows inside it."""
        calls = [row for row in rows if row["origin"] == ORIGIN_COMPOSITE]
        inside = [row for row in rows if row["origin"] == ORIGIN_MODELLED]
        if not calls:
            for row in rows:
                if row["origin"] == ORIGIN_MODELLED and row["kind"] not in _VERBS:
                    raise TraceError(
                        f"operation {row['id']} ({row['kind']}) is a step of bootstrapping, and the trace has not the "
                        "call that it belongs to: take a trace of the 'trace' or 'openfhe' reading, or of a recorded "
                        "script"
                    )
                self._row(row)
            return
        kind = OpKind(calls[0]["kind"])
        scope = _outside(calls[0]["scope"]) if inside else calls[0]["scope"]
        if kind is OpKind.BOOTSTRAP:
            if not inside and self.trace.meta.reading == "record":
                self.notes["the inside of a bootstrap call is not known: one bootstrap is taken, a lower bound"] += 1
            self._bootstrap(calls, scope)
        elif kind is OpKind.CHEBYSHEV and (series := self._series(calls[0], inside)) is not None:
            with self._scopes.at(scope):
                made = self.builder.series(Verb.CHEBYSHEV, self._operand(calls[0]["operands"][0]), series)
            self._value[calls[0]["output"]] = made
        elif inside:
            for row in inside:
                self._row(row)
            self._value[calls[0]["output"]] = self._value[inside[-1]["output"]]
        else:
            self._unknown(calls[0], scope)

    def _bootstrap(self, calls: Sequence[Row], scope: str) -> None:
        name = _PLACE.sub(r"\1", calls[0]["scope"].rpartition("/")[2])
        period = int(name.removeprefix("bootstrap-")) if re.fullmatch(r"bootstrap-\d+", name) else 0
        operands = [self._operand(row["operands"][0]) for row in calls]
        with self._scopes.at(scope):
            first = self.builder.add(
                Verb.BOOTSTRAP, operands, results=len(operands), argument=period if period < self.params.slots else 0
            )
        for at, row in enumerate(calls):
            self._value[row["output"]] = first + at

    def _series(self, call: Row, inside: Sequence[Row]) -> PackageSeries | None:
        if not inside:
            return None
        series = series_of(self.params, call["limbs_in"], tuple(row["kind"] for row in inside))
        if series is None:
            self.notes["the trace does not tell the degree of a series: its recorded steps are taken"] += 1
        return series

    def _unknown(self, call: Row, scope: str) -> None:
        """A composite whose inside nobody knows: its result has the limbs that it was recorded with."""
        self.notes[f"the inside of a {call['kind']} call is not known, and left out"] += 1
        value = self._operand(call["operands"][0])
        with self._scopes.at(scope):
            if call["limbs_out"] < call["limbs_in"]:
                state = ScaleState(call["limbs_out"])
                value = self.builder.add(Verb.MOD_DROP, [value], argument=call["limbs_out"], state=state)
        self._value[call["output"]] = value

    def _row(self, row: Row) -> None:
        kind = OpKind(row["kind"])
        with self._scopes.at(row["scope"]):
            if kind is OpKind.ENCRYPT:
                self._input(row["output"], row["limbs_out"])
                return
            operands = [self._operand(object_id) for object_id in row["operands"]]
            if kind is OpKind.DECRYPT:
                self.builder.output(operands[0], Output(f"output[{self._outputs}]", self.params.slots))
                self._outputs += 1
                return
            verb = _VERBS.get(kind)
            if verb is None:
                raise TraceError(f"operation {row['id']} ({kind}) is a step of a circuit, not a call of a program")
            if TRAITS[kind].takes == ("ciphertext", "ciphertext") and len(operands) == 1:
                operands = operands * 2
            constants = [] if row["plaintext"] is None else [self._constant(row["plaintext"])]
            argument = row["limbs_out"] if kind is OpKind.MOD_DROP else row["step"] or 0
            product = self._is_product(kind, operands)
            made = self.builder.add(
                verb,
                operands,
                constants=constants,
                argument=argument,
                number=_some_number(kind),
                state=ScaleState(row["limbs_out"], 2 if product else 1),
            )
            self._value[row["output"]] = made
            if product:
                self._products.add(made)

    def _is_product(self, kind: OpKind, operands: Sequence[int]) -> bool:
        """Whether the result has the scale of a product."""
        if TRAITS[kind].is_product:
            return True
        if kind is OpKind.RESCALE or (kind is OpKind.MOD_DROP and self.params.scaling.automatic):
            return False
        return any(value in self._products for value in operands)

    def _input(self, object_id: int, limbs: int) -> int:
        stem = self._names.get(object_id) or f"input[{len(self.builder.inputs)}]"
        name, again = stem, 0
        while name in self._used_names:
            again += 1
            name = f"{stem}[{again}]"
        self._used_names.add(name)
        given = Input(name, self.params.slots, limbs=limbs if limbs < self.params.num_q else 0)
        self._value[object_id] = self.builder.encrypt(given, ScaleState.encrypted(self.params, limbs))
        return self._value[object_id]

    def _operand(self, object_id: int) -> int:
        """A value; one that comes from outside of the trace is an input."""
        if object_id in self._value:
            return self._value[object_id]
        return self._input(object_id, self._limbs[object_id])

    def _constant(self, object_id: int) -> int:
        return self._constants.setdefault(object_id, len(self._constants))


class _Scopes:
    """Opens the scopes of rows, each once. Numbers that a trace leaves out are scopes without calls."""

    def __init__(self, builder: PackageBuilder) -> None:
        self._builder = builder
        self._known: dict[str, int] = {"": 0}
        self._counts: dict[str, int] = defaultdict(int)

    def at(self, path: str) -> AbstractContextManager[None]:
        return self._builder.in_scope(self._number(path))

    def _number(self, path: str) -> int:
        if path not in self._known:
            place_match = _PLACE.match(path)
            if place_match is None:
                stem, place = path, self._counts[path]
            else:
                stem, place = place_match.group(1), int(place_match.group(2))
            parent, _, name = stem.rpartition("/")
            outside = self._number(parent)
            while self._counts[stem] <= place:
                self._known[f"{stem}[{self._counts[stem]}]"] = self._builder.new_scope(Scope(name, outside))
                self._counts[stem] += 1
            self._known.setdefault(path, self._known[f"{stem}[{place}]"])
        return self._known[path]


def _groups(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows one by one, and the rows of a composite together: its inside, then the call."""
    at = 0
    ends = _composite_ends(rows)
    while at < len(rows):
        end = ends.get(at, at)
        yield list(rows[at : end + 1])
        at = end + 1


def _composite_ends(rows: Sequence[Row]) -> dict[int, int]:
    """First row of each composite -> its last one."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    composites = {row["scope"] for row in rows if row["origin"] == ORIGIN_COMPOSITE}
    for at, row in enumerate(rows):
        scope = row["scope"]
        while scope:
            if scope in composites and row["origin"] in (ORIGIN_COMPOSITE, ORIGIN_MODELLED):
                first.setdefault(scope, at)
                last[scope] = at
            scope = _outside(scope)
    whole: dict[int, int] = {}
    for scope, start in first.items():
        inside = all(row["origin"] in (ORIGIN_COMPOSITE, ORIGIN_MODELLED) for row in rows[start : last[scope] + 1])
        if inside and any(row["origin"] == ORIGIN_MODELLED for row in rows[start : last[scope] + 1]):
            whole[start] = max(whole.get(start, 0), last[scope])
    return whole


def _outside(scope: str) -> str:
    return scope.rpartition("/")[0]


def _some_number(kind: OpKind) -> float:
    """A number that stands for one that a trace does not have; no call leaves it out."""
    return 0.5 * TRAITS[kind].numbers


@lru_cache(maxsize=256)
def series_of(params: CkksParameters, limbs: int, kinds: tuple[str, ...]) -> PackageSeries | None:
    """A Chebyshev series whose evaluation has these steps: with every term, else with odd or even ones alone.

    >>> from penstock.scheme.params import catalogue
    >>> series_of(catalogue.get("openfhe-demo"), 10, ("mult", "add")) is None
    True
    """
    for (lower, upper), (every, first) in product(_INTERVALS, ((1, 0), (2, 1), (2, 0))):
        # Nearly as many steps as terms: the degree is near where their number is right.
        low, high = 1, MOST_DEGREE
        while low < high:
            middle = (low + high) // 2
            steps = _steps(params, limbs, _some_series(middle, every, first, lower, upper))
            low, high = (middle + 1, high) if steps is not None and len(steps) < len(kinds) else (low, middle)
        for degree in range(max(1, low - _NEAR), low + _NEAR):
            series = _some_series(degree, every, first, lower, upper)
            if _steps(params, limbs, series) == list(kinds):
                return series
    return None


def _some_series(degree: int, every: int, first: int, lower: float, upper: float) -> PackageSeries:
    """A series with terms of degrees `every` apart from the first on, and of the last degree."""
    kept = {*range(first, degree + 1, every), degree}
    return PackageSeries(tuple(1.0 / (k + 2) if k in kept else 0.0 for k in range(degree + 1)), lower, upper)


def _steps(params: CkksParameters, limbs: int, series: PackageSeries) -> list[str] | None:
    """The steps of a series; `None`: it takes more levels than there are."""
    ev = SymbolicEvaluator(params)
    try:
        ev.chebyshev_series(ev.fresh(limbs), series.coefficients, series.lower, series.upper)
    except PenstockError:
        return None
    return ev.builder.kinds()[:-1]
