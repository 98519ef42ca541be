"""penstock's own results: the rows of a `bench run` as measurements, their parameter sets made again."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Floats
from penstock.base.runs.folder import RunFolder
from penstock.base.system.outside import json_of
from penstock.base.types import Row, RowView
from penstock.errors import CapabilityMissing, ParamsError, PenstockError, check_known
from penstock.lab.fit.measurements import CONDITIONS, OPENFHE, Measurement, primitive_shape, quiet_seconds
from penstock.lab.measure.bench.catalogue import PRIMITIVES
from penstock.lab.measure.bench.results import BENCH_SCHEMA, IDENTITY, finished_runs, load_results, stored_parameters
from penstock.lab.measure.bench.spec import CONDITIONS as MEASURED
from penstock.lab.measure.bench.spec import GROUPS, named
from penstock.lab.prediction.importers.rows import ImportLog, Origin, energy_joules, positive_seconds, spread, whole
from penstock.program import workloads
from penstock.scheme.operations import TRAITS
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.spec import CkksSpec

SUITE = "fit"
"""The suite that measures what fitting and validating need."""


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of a point."""

    index: int
    """Its row."""
    seconds: float
    """Median of its calls; their mean where none was kept."""
    calls: Floats
    """(n,) seconds of each call that was kept."""
    row: RowView


_FROM_DRIVE = "timed with keys from the drive: machines are fitted to keys in memory"
_ACROSS = "timed together with other operations: machines are fitted to one operation at a time"
_FAILED = "its encrypted result was wrong"
_TOGETHER = (
    "a program whose row does not say server_s, the time of the server's operations: an older penstock measured it; "
    "measure again to compare it with predictions"
)


def load(path: Path, log: ImportLog) -> list[Measurement]:
    """The measurements of a run folder, finished or not, or of a `bench.parquet`.

    Raises: as `load_results` and `measurements`.
    """
    table = load_results(path)
    log.origins[str(path)] = _origin(path, set(table["reading"].to_pylist()))
    return measurements(table, str(path), log)


def _origin(path: Path, readings: Collection[str]) -> Origin:
    """What the `run.json` of a run folder says; a table alone says nothing."""
    try:
        record = RunFolder.open(path).record
    except PenstockError:
        return Origin()
    version = record.get("openfhe_version") if OPENFHE in readings else None
    return Origin(
        cpu=record.get("host", {}).get("cpu_model"),
        library=None if version is None else f"OpenFHE {version}",
        date=record.get("started"),
        noise=record.get("noise", {}).get("during_spread"),
    )


def measurements(table: pa.Table, where: str, log: ImportLog) -> list[Measurement]:
    """Rows of `BENCH_SCHEMA` as measurements: the runs of a point are one, its time the median of their medians.

    The quiet time of a primitive comes from the calls of all its runs together.

    Raises: BadTiming: a row that no measurement can have, named by `where` and its number from 1.
    """
    calls = _calls(table)
    rows = table.drop_columns(["samples_s"]).to_pylist()
    groups: dict[tuple[Hashable, ...], list[_Run]] = {}
    seen: dict[tuple[Hashable, ...], int] = {}
    for index, (row, kept) in enumerate(zip(rows, calls, strict=True)):
        key = tuple(row[name] for name in (*IDENTITY, "params", "parameters"))
        first = seen.setdefault((*key, row["run"]), index)
        try:
            _check_filled(row)
            parameters_of(row)
            median = float(np.median(kept)) if len(kept) else row["seconds_per_call"]
            seconds = positive_seconds(median, f"the time of '{row['item']}'")
            _check_units(row, float(np.mean(kept)) if len(kept) else seconds)
            if len(kept) and not (np.isfinite(kept).all() and kept.min() > 0):
                raise ValueError(f"samples_s of '{row['item']}' holds a call that is 0, negative or no number")
            energy_joules(row["joules_per_call"], f"the energy of '{row['item']}'")
            if first != index:
                raise ValueError(f"'{row['item']}', run {row['run']}, is in row {first + 1} already: a duplicated row")
            reason = _unfit(row)
        except (ValueError, PenstockError) as error:
            log.refuse(f"{where}: row {index + 1}: {error}")
            continue
        if reason is not None:
            log.leave_out(reason)
        else:
            groups.setdefault(key, []).append(_Run(index, seconds, kept, row))
    measured = []
    for runs in groups.values():
        try:
            measured.append(_measurement(runs, where))
        except (ValueError, PenstockError) as error:
            place = f"{where}: row {runs[0].index + 1}: "  # some errors know it themselves
            log.refuse(place + str(error).removeprefix(place))
    means = sum(not len(run.calls) for runs in groups.values() for run in runs if run.row["group"] == "primitives")
    if means:
        log.warnings.append(
            f"{where}: {means} runs of primitives keep no single calls (column samples_s): their means are used, in "
            "which every disturbance is, and they have no quiet time"
        )
    return measured


def newest_results(root: Path = Path("runs"), *, groups: Sequence[str] = ("primitives",)) -> Path:
    """The newest finished `bench run` below `root` that measured all of `groups`.

    Raises: CapabilityMissing: there is none; the message has the command that makes one.
    """
    for run in finished_runs(root):
        with suppress(PenstockError):
            if run.config.get("verb") == "bench" and set(groups) <= {*load_results(run.path)["group"].to_pylist()}:
                return run.path
    raise CapabilityMissing(
        f"{root}/ holds no finished benchmark results with {' and '.join(groups)}: make some with "
        f"'penstock predict fit --measure' (ten minutes) or 'penstock bench run --suite {SUITE}' (about half an hour), "
        "or name a run folder"
    )


def _calls(table: pa.Table) -> list[Floats]:
    """Of each row: the seconds of the calls that were kept one by one."""
    kept = table["samples_s"].combine_chunks()
    if isinstance(kept, pa.ChunkedArray):  # some versions keep an empty column chunked
        return []
    values = np.asarray(kept.flatten(), dtype=np.float64)
    lengths = np.nan_to_num(np.asarray(kept.value_lengths().fill_null(0)))
    ends = np.cumsum(lengths)
    return [values[int(end - n) : int(end)] for end, n in zip(ends.tolist(), lengths.tolist(), strict=True)]


_REQUIRED = tuple(column.name for column in BENCH_SCHEMA if not column.nullable)
_UNIT_FACTOR = 30.0
"""Times of one run that are further apart than this are in two units: a disturbance of a tenth of a second in a run of
milliseconds moves a mean by less."""


def _check_filled(row: RowView) -> None:
    """Raises: ValueError: a column is empty that every row needs."""
    for name in _REQUIRED:
        if row[name] is None:
            raise ValueError(f"column '{name}' is empty; every row needs it")
    check_known("condition", row["condition"], MEASURED)


def _check_units(row: RowView, mean_s: float) -> None:
    """Raises: ValueError: a time that cannot be, or times of one run that contradict each other."""
    item = row["item"]
    mean = positive_seconds(row["seconds_per_call"], f"seconds_per_call of '{item}'")
    total, calls = positive_seconds(row["total_s"], f"total_s of '{item}'"), whole(row["calls"], "calls", 1, 1 << 62)
    for name, other in (("the mean of samples_s", mean_s), ("total_s / calls", total / calls)):
        if not 1 / _UNIT_FACTOR < other / mean < _UNIT_FACTOR:
            raise ValueError(
                f"seconds_per_call of '{item}' is {mean:g} s, and {name} {other:g} s: one of them is in another unit"
            )


def _unfit(row: RowView) -> str | None:
    """Why a sound row is not used."""
    if row["passed"] is False:
        return _FAILED
    if row["across"] != 1:
        return _ACROSS
    if row["condition"] not in CONDITIONS:
        return _FROM_DRIVE
    return _TOGETHER if row["group"] in GROUPS[1:] and _server_seconds(row) is None else None


def _measurement(runs: Sequence[_Run], where: str) -> Measurement:
    first, row = runs[0].index, runs[0].row
    group, item = row["group"], row["item"]
    check_known("group", group, GROUPS)
    known = PRIMITIVES if group == "primitives" else workloads.names()
    check_known("primitive" if group == "primitives" else "workload", item, known)
    params, shape, limbs = parameters_of(row), None, None
    if group == "primitives":
        kind = PRIMITIVES[item].kind
        asked = params.num_q if row["limbs"] is None and (kind is None or TRAITS[kind].composite) else row["limbs"]
        limbs = whole(asked, f"limbs of '{item}'", PRIMITIVES[item].lowest, params.num_q)
        if kind is not None and not TRAITS[kind].composite:
            shape = primitive_shape(kind, params, limbs)
    stated = [run.seconds if group == "primitives" else _server_seconds(run.row) for run in runs]
    seconds = [timing for timing in stated if timing is not None]
    middle = statistics.median(seconds)
    walls = [] if group == "primitives" else [_wall_seconds(run.row) for run in runs]
    joules = [run.row["joules_per_call"] for run in runs if run.row["joules_per_call"] is not None]
    kept = [run.calls for run in runs if len(run.calls)] if group == "primitives" else []
    quiet = quiet_seconds(np.concatenate(kept)) if kept else None
    return Measurement(
        item=item,
        group=group,
        params=params,
        shape=shape,
        size=row["size"],
        degree=row["degree"],
        limbs=limbs,
        condition=row["condition"],
        wall_s=statistics.median(walls) if walls else None,
        threads=row["threads"],
        reading=row["reading"],
        seconds=middle,
        spread=spread(seconds, middle),
        joules=statistics.median(joules) if joules else None,
        runs=len(runs),
        source=f"{where}: row {first + 1}",
        quiet_s=quiet,
        quiet_spread=spread([quiet_seconds(run_calls) for run_calls in kept], quiet) if quiet else None,
        calls=sum(len(run_calls) for run_calls in kept),
    )


def _server_seconds(row: RowView) -> float | None:
    """Of a run of a program: the time of the calls of the server's operations, the predicted quantity.

    `None` where the row does not say. Raises: ValueError: it says something that no time can be.
    """
    stated = _note(row).get("server_s")
    return None if stated is None else positive_seconds(stated, f"server_s of '{row['item']}'")


def _wall_seconds(row: RowView) -> float:
    """Of a run of a program: from its start to its end, without the waits for keys from a drive.

    Raises: ValueError: a time that cannot be.
    """
    waited = _note(row).get("key_load_s") or 0.0
    return positive_seconds(row["seconds_per_call"] - waited, f"seconds_per_call less key_load_s of '{row['item']}'")


def _note(row: RowView) -> Row:
    """Raises: ValueError: not a JSON object."""
    try:
        note = json_of(row["note"] or "{}")
    except ValueError:
        note = None
    if not isinstance(note, dict):
        raise ValueError(f"column 'note' of '{row['item']}' is not a JSON object; measure again")
    return note


# Parameter sets.


def parameters_of(row: RowView) -> CkksParameters:
    """The parameter set of a row of `BENCH_SCHEMA`.

    Files of format 1 have no `parameters`: there the set is the catalogue's of that name, or one that a suite's axes
    made, whose name proves that it is the same again.

    Raises: ParamsError: the set cannot be made again, or contradicts the other columns.
    """
    text = row["parameters"]
    params = stored_parameters(text) if text is not None else _older(*(row[name] for name in _OLDER))
    for name in ("ring_dim", "depth", "num_q", "num_p", "dnum"):
        if row[name] is not None and row[name] != getattr(params, name):
            raise ParamsError(
                f"set '{row['params']}' has {name} {getattr(params, name)}, and the row says {row[name]}: the set was "
                "changed since; measure again"
            )
    return params


_OLDER = (
    "params", "ring_dim", "slots", "depth", "dnum", "scale_bits", "scaling", "secret", "security_asked",
)  # fmt: skip


@lru_cache(maxsize=1024)
def _older(name: str | None, *columns: object) -> CkksParameters:
    if name in catalogue.names():
        return catalogue.get(str(name))
    values: Row = dict(zip(_OLDER[1:], columns, strict=True))
    if name is not None and name.startswith("bench-") and None not in values.values():
        values["security"] = values.pop("security_asked") or "none"
        made = named(CkksSpec(name="bench", **values).build())
        if made.name == name:
            return made
    raise ParamsError(
        f"the results were written by an older penstock, without the primes of set '{name}', which is not a named set: "
        "measure again with 'penstock bench run'"
    )
