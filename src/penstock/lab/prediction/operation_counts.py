"""Predictions for someone who knows only how often each operation runs: a table of counts instead of a program.

A file is CSV with the columns `operation,count` and, if known, `limbs` (and `degree` of a Chebyshev series); or JSON: a
list of such rows, or names with counts; or YAML: names with counts. Names come from OpenFHE (EvalMult, EvalRotate, …),
CryptOracle (CKKS_Mult, …) or traces (mult, rotate, …).

Operations without stated limbs are spread evenly over all limbs that they can have. The interval reaches from the
prediction with each at its cheapest limbs to the prediction with each at its dearest. These are often the last and the
fresh ones, but a product of fresh ciphertexts may save a rescaling, and a raise to all limbs is cheaper from more
limbs.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from penstock.base.system.outside import content_of, decoded, json_of
from penstock.base.types import Row, RowView
from penstock.errors import UnknownName, UsageError, check_known
from penstock.lab.fit.measurements import primitive_shape
from penstock.lab.measure.bench.catalogue import PRIMITIVES, chebyshev_depth
from penstock.lab.prediction.importers import yaml
from penstock.lab.prediction.importers.calls import COUNTED, CRYPTORACLE_CALLS, OPENFHE_CALLS, OPENFHE_NAMES
from penstock.lab.prediction.prediction import Prediction, predict
from penstock.program.evaluator.call import Cipher
from penstock.program.evaluator.counting import CountingEvaluator
from penstock.program.evaluator.scaling import ScaleState
from penstock.scheme.machines.schema import Machine
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.work.shapes import Shape

COLUMNS = ("operation", "count", "limbs", "degree")
HIGHEST_COUNT = 10**15
"""Calls of one operation; a program of an hour on the fastest machine has fewer by far."""
HIGHEST_DEGREE = 2**12 - 1
"""Of a Chebyshev series."""
HIGHEST_LIMBS = 10_000
_PRODUCTS = {kind for kind, row in TRAITS.items() if row.is_product}
_ENCODED = {OpKind.MULT_PLAIN, OpKind.ADD_PLAIN, OpKind.SUB_PLAIN}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCount:
    """One row of a table of counts."""

    kind: OpKind
    count: int
    limbs: int | None
    """At the operation; `None`: not stated."""
    degree: int | None
    """Of a Chebyshev series."""
    source: str
    """File and row, for messages."""


def read_operation_counts(path: Path) -> list[OperationCount]:
    """The rows of a file.

    Raises: UsageError: it cannot be read as such a table, or a row breaks a rule; UnknownName: an operation that is
            not known. Each names file and row.
    """
    content = content_of(path)
    try:
        text = decoded(content)
    except ValueError as error:
        raise UsageError(f"{path}: {error}; give CSV, JSON or YAML") from error
    rows = list(_rows(path, text))
    if not rows:
        raise UsageError(f"{path} has no counts; write a line 'operation,count,limbs' and below it a row an operation")
    return [_checked(row, where) for where, row in rows]


def predict_counts(
    rows: Iterable[OperationCount],
    params: CkksParameters,
    machine: Machine,
    *,
    threads: int | None = None,
    key_form: KeyForm | None = None,
) -> Prediction:
    """The prediction of a table of counts. It knows no keys and no memory.

    Raises: UsageError: limbs that the parameter set does not have; ParamsError: bootstrapping without a plan.
    """
    rows, calls = list(rows), Counter[str]()
    priced = partial(predict, machine=machine, params=params, threads=threads, key_form=key_form)
    for row in rows:
        calls[row.kind.value] += row.count

    def at(places: Sequence[Sequence[int]]) -> Prediction:
        counts = Counter[Shape]()
        for row, limbs in zip(rows, places, strict=True):
            for shape, count in _shapes(row, params, limbs):
                counts[shape] += count
        return priced(counts, calls=calls)

    spread = [_places(row, params) for row in rows]
    evenly = at(spread)
    encoding = sum(row.count for row in rows if row.kind in _ENCODED)
    if encoding and machine.client is not None:
        note = (
            f"encoding is not in it: {encoding} operations have plaintexts, and counts do not say how many of these "
            "are encoded, or when; give the program or its trace for the time of encoding"
        )
        evenly = replace(evenly, warnings=(note, *evenly.warnings))
    unstated = sum(row.count for row in rows if row.limbs is None and row.kind is not OpKind.BOOTSTRAP)
    if not unstated or evenly.unpriced:
        return evenly

    alone = [
        [(limbs, priced(dict(_shapes(row, params, [limbs])), calls={row.kind.value: row.count})) for limbs in places]
        for row, places in zip(rows, spread, strict=True)
    ]
    ends: Row = {
        f"{end}_{unit}": _furthest(alone, evenly, at, f"{end}_{unit}", f"predicted_{unit}")
        for unit in "sj"
        for end in ("low", "high")
    }
    share = unstated / max(1, sum(row.count for row in rows))
    return replace(
        evenly,
        **ends,
        warnings=(
            f"{unstated} operations ({share:.0%}) state no limbs: they are spread evenly from fresh ciphertexts "
            f"({params.num_q} limbs) to the last, and the interval spans from each at the limbs where it is cheapest "
            "to each where it is dearest; add a column 'limbs', or give a trace, for a narrower one",
            *evenly.warnings,
        ),
    )


def _furthest(
    alone: Sequence[Sequence[tuple[int, Prediction]]],
    evenly: Prediction,
    at: Callable[[Sequence[Sequence[int]]], Prediction],
    end: str,
    total: str,
) -> float | None:
    """The end of an interval that lies furthest out, of all rows at the limbs where they are cheapest or dearest, and
    of the limbs that are spread. A machine without an interval still has the span over the limbs.

    Args:   alone: of each row, (limbs, the row there alone); at: the prediction with each row at its limbs.
    """
    furthest = min if end.startswith("low") else max
    outside = at([[furthest(places, key=lambda place: getattr(place[1], total) or 0.0)[0]] for places in alone])
    candidates = (getattr(prediction, name) for prediction in (outside, evenly) for name in (end, total))
    return furthest((value for value in candidates if value is not None), default=None)


def kind_named(name: str) -> OpKind:
    """The kind of operation that a name stands for.

    Raises: UnknownName: none, with the nearest.
    >>> kind_named("EvalMult (Plaintext)").value, kind_named("CKKS_Rotate").value, kind_named("rotate").value
    ('mult_plain', 'rotate', 'rotate')
    """
    known = _names()
    named = known.get(_plain_name(name))
    if named is None:
        # The nearest of the names in their original spelling.
        kinds = [kind.value for kind in OpKind if kind is not OpKind.COMPOSITE]
        raise UnknownName("operation", name, [*kinds, *OPENFHE_NAMES, *CRYPTORACLE_CALLS])
    return named


def _plain_name(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum()).replace("plaintext", "plain").replace("const", "scalar")


def _names() -> dict[str, OpKind]:
    known: dict[str, OpKind] = {}
    calls = {**OPENFHE_CALLS, **COUNTED, **{name: item for name, (item, _) in CRYPTORACLE_CALLS.items()}}
    for name, item in calls.items():
        kind = PRIMITIVES[item].kind if item in PRIMITIVES else OpKind(item)
        if kind is not None:
            known[_plain_name(name)] = kind
    return known | {_plain_name(kind.value): kind for kind in OpKind if kind is not OpKind.COMPOSITE}


def _rows(path: Path, text: str) -> Iterable[tuple[str, RowView]]:
    """(file and row, fields)."""
    if path.suffix == ".json":
        try:
            data = json_of(text, partial(_names_once, path))
        except ValueError as error:
            raise UsageError(f"{path}:{getattr(error, 'lineno', 1)}: not valid JSON ({error})") from error
        yield from _listed(path, data)
    elif path.suffix in (".yaml", ".yml"):
        yield from _listed(path, yaml.loads(text, str(path)))
    else:
        if "\0" in text:  # which CPython 3.11 and later take for a character
            line = text.count("\n", 0, text.index("\0")) + 1
            raise UsageError(f"{path}:{line}: not CSV (line contains NUL)")
        reader = csv.DictReader(io.StringIO(text), skipinitialspace=True, restkey="…")
        try:
            header = [name.strip().lower() for name in reader.fieldnames or ()]
            _known_columns(path, header)
            reader.fieldnames = header
            for row in reader:
                if any(row.values()):
                    yield f"{path}:{reader.line_num}", row
        except csv.Error as error:
            raise UsageError(f"{path}:{reader.line_num + 1}: not CSV ({error})") from error


def _names_once(path: Path, pairs: list[tuple[str, object]]) -> Row:
    """A JSON object. Raises: UsageError: a name that is there twice, of which JSON would keep the last."""
    members: Row = {}
    for name, value in pairs:
        if name in members:
            raise UsageError(f"{path}: '{name}' is there twice in one object; write one row with the sum of its counts")
        members[name] = value
    return members


def _known_columns(path: Path, header: list[str]) -> None:
    for name in header:
        check_known(f"column of {path}:1", name, COLUMNS)
    twice = [name for name in COLUMNS if header.count(name) > 1]
    if twice:
        raise UsageError(f"{path}:1: column '{twice[0]}' is there twice; one of them has to go")
    missing = {"operation", "count"} - set(header)
    if missing:
        raise UsageError(f"{path}:1: column '{min(missing)}' is missing; the first line names operation,count[,limbs]")


def _listed(path: Path, data: object) -> Iterable[tuple[str, RowView]]:
    if isinstance(data, dict):
        # A configuration of CryptOracle's performance model has its counts one level down.
        data = data.get("operation_counts", data)
    if isinstance(data, dict):
        data = [{"operation": name, "count": count} for name, count in data.items()]
    if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
        raise UsageError(f"{path} holds neither names with counts nor a list of rows with operation and count")
    for number, row in enumerate(data, 1):
        _known_columns_of_row(f"{path}: row {number}", row)
        yield f"{path}: row {number}", row


def _known_columns_of_row(where: str, row: RowView) -> None:
    for name in row:
        check_known(f"key of {where}", str(name), COLUMNS)
    for name in ("operation", "count"):
        if name not in row:
            raise UsageError(f"{where}: '{name}' is missing; a row has operation, count and, if known, limbs")


def _checked(row: RowView, where: str) -> OperationCount:
    if row.get("…"):
        raise UsageError(f"{where}: more cells than the first line names columns")
    name = str(row["operation"] or "").strip()
    if not name:
        raise UsageError(f"{where}: the operation is empty; name one, EvalMult or mult")
    try:
        kind = kind_named(name)
    except UnknownName as error:
        raise UnknownName(f"operation of {where}", name, error.known) from None
    count = _whole(row["count"], f"{where}: count of '{name}'", lowest=0, highest=HIGHEST_COUNT)
    if count is None:
        raise UsageError(f"{where}: '{name}' has no count; it is a whole number of calls")
    degree = _whole(row.get("degree"), f"{where}: degree of '{name}'", lowest=1, highest=HIGHEST_DEGREE)
    if kind is OpKind.CHEBYSHEV and degree is None:
        raise UsageError(f"{where}: '{name}' is a series, and its cost depends on its degree: add a column 'degree'")
    limbs = _whole(row.get("limbs"), f"{where}: limbs of '{name}'", lowest=1, highest=HIGHEST_LIMBS)
    return OperationCount(kind=kind, count=count, limbs=limbs, degree=degree, source=where)


def _whole(value: str | float | None, what: str, *, lowest: int, highest: int) -> int | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        number = float(value)
        whole = int(number)
    except (TypeError, ValueError, OverflowError):
        number, whole = 0.5, 0
    if isinstance(value, bool) or number != whole or not lowest <= whole <= highest:
        raise UsageError(f"{what} is {repr(value)[:60]}; it is a whole number from {lowest} to {highest}")
    return whole


def _places(row: OperationCount, params: CkksParameters) -> list[int]:
    """The limbs that a row can have, from fresh ones down: the stated ones, or all.

    Raises: UsageError: it states limbs at which it cannot run.
    """
    if row.limbs is not None and row.limbs > params.num_q:
        raise UsageError(
            f"{row.source}: {row.limbs} limbs; a ciphertext of set '{params.name}' has 1 to {params.num_q}"
        )
    if row.kind is OpKind.BOOTSTRAP:
        # Bootstrapping comes when the levels are used up.
        return [row.limbs or min(2, params.num_q)]
    lowest, highest = _lowest(row, params), params.num_q
    if row.kind in (OpKind.RESCALE, OpKind.CHEBYSHEV) and row.limbs is not None and row.limbs < lowest:
        raise UsageError(
            f"{row.source}: {row.limbs} limbs; '{row.kind}' leaves a ciphertext only from {lowest} limbs on"
        )
    if row.kind in _PRODUCTS:
        # A rule that rescales before the first product never multiplies on the full chain.
        highest -= ScaleState.encrypted(params, highest).degree - 1
    return [min(row.limbs, highest)] if row.limbs is not None else list(range(highest, lowest - 1, -1))


def _shapes(row: OperationCount, params: CkksParameters, places: Sequence[int]) -> Iterable[tuple[Shape, int]]:
    """The shapes of a row whose operations are spread evenly over `places`."""
    for i, limbs in enumerate(places):
        count = _dealt(row.count, i + 1, len(places)) - _dealt(row.count, i, len(places))
        if not count:
            continue
        if TRAITS[row.kind].composite:
            for shape, inner in _expanded(row, params, limbs).items():
                yield shape, inner * count
        else:
            shape = primitive_shape(row.kind, params, limbs)
            # Under an automatic rule a product's operand is rescaled inside the call.
            implied = params.scaling.automatic and row.kind in _PRODUCTS and limbs < params.num_q
            yield shape._replace(implied_rescales=int(implied)), count


def _dealt(count: int, upto: int, places: int) -> int:
    """The number of `count` items in the first `upto` places, spread evenly: a single one is in the middle.

    >>> [_dealt(1, each, 5) for each in range(6)], [_dealt(2, each, 4) for each in range(5)]
    ([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2])
    """
    return -((places - 2 * upto * count) // (2 * places))


def _lowest(row: OperationCount, params: CkksParameters) -> int:
    """Fewest limbs at which the operation can run."""
    if row.kind is OpKind.CHEBYSHEV:
        return min(params.num_q, chebyshev_depth(row.degree or 1) + 1)
    if row.kind in _PRODUCTS or row.kind in (OpKind.RESCALE, OpKind.RELINEARIZE):
        return min(2, params.num_q)
    return 1


def _expanded(row: OperationCount, params: CkksParameters, limbs: int) -> Mapping[Shape, int]:
    """The operations of a composite."""
    evaluator = CountingEvaluator(params)
    operand = Cipher(evaluator.builder.ciphertext(limbs), ScaleState.encrypted(params, limbs))
    if row.kind is OpKind.BOOTSTRAP:
        evaluator.bootstrap(operand)
    else:
        evaluator.chebyshev_series(operand, np.linspace(1.0, 0.1, (row.degree or 1) + 1).tolist(), -1.0, 1.0)
    return evaluator.tally("", "").counts
