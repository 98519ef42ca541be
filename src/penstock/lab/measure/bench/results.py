"""`bench.parquet`: one row a run of a point, with all that it depends on; the run folder's tidy rows; and Google
Benchmark's JSON, both ways."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from penstock.base.runs.folder import RunFolder, check_written
from penstock.base.runs.tables import check_signed
from penstock.base.system import toml
from penstock.base.system.outside import content_of, json_of, reason
from penstock.base.system.tables import parquet
from penstock.base.system.tables.parquet import Bounds, checked_columns, read_table
from penstock.base.system.tables.seal import SealBroken
from penstock.base.types import Row, Rows, RowView
from penstock.errors import ParamsError, PenstockError, UnknownName, UsageError
from penstock.lab.fit.measurements import OPENFHE
from penstock.lab.measure.bench.spec import params_identity
from penstock.lab.measure.grouping import grouped
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces import fhe_benchmarking

SCHEMA_VERSION = 3
"""2: the whole parameter set, energy and start of each run. 3: the reading. Files of 1 and 2 are
read as OpenFHE's; in files of 1 the columns of 2 are null."""
_VERSION_KEY = b"penstock_bench_schema"
COLUMNS: dict[str, Row] = toml.packaged("penstock.lab.measure.bench", "columns.toml")
"""The columns of results, and what they are."""


def _column(name: str, row: Row) -> pa.Field:
    kind = pa.type_for_alias(row["type"])
    return pa.field(name, pa.list_(kind) if "list" in row else kind, nullable="required" not in row)


BENCH_SCHEMA = pa.schema(
    [_column(name, row) for name, row in COLUMNS.items()], metadata={_VERSION_KEY: str(SCHEMA_VERSION)}
)
"""One run a row. A dimension that does not apply is null."""

IDENTITY = tuple(name for name, row in COLUMNS.items() if "identity" in row)
"""Columns that two rows must share to be measurements of the same thing: neither names nor how long it was repeated.
`identity` has the whole parameter set besides."""

FILE = "bench.parquet"
_BOUNDS = Bounds(
    schema=BENCH_SCHEMA,
    what="table of benchmark results",
    remedy="measure again",
    error=PenstockError,
    partial=True,
)


def table_of(rows: Iterable[RowView]) -> pa.Table:
    """Rows as a table; a column that a row leaves out is null, and its reading OpenFHE's."""
    listed = [row if row.get("reading") else {**row, "reading": OPENFHE} for row in rows]
    unknown = sorted({name for row in listed for name in row} - set(BENCH_SCHEMA.names))
    if unknown:
        raise ValueError(f"unknown columns {unknown} in benchmark rows")
    columns = {f.name: pa.array([row.get(f.name) for row in listed], f.type) for f in BENCH_SCHEMA}
    return pa.table(columns, schema=BENCH_SCHEMA)


# Reading.


def load_results(path: str | Path) -> pa.Table:
    """The measurements of a run folder (finished or not), a `bench.parquet`, or a JSON file of another suite.

    JSON is Google Benchmark's, or a result file of the fhe-benchmarking suite.

    Returns: a table of `BENCH_SCHEMA`, one run of a point a row, in the order in which they were measured.
    Raises: UsageError: there are none; PenstockError: the file is damaged.
    """
    path = Path(path)
    if path.is_dir():
        if (path / FILE).is_file():
            check_written(path / FILE)
            return _read(path / FILE)
        parts = sorted((path / "bench").glob("*.parquet"), key=lambda part: part.stat().st_mtime_ns)
        if not parts:
            raise UsageError(
                f"{path} holds no benchmark results (no {FILE}); name the folder of a 'penstock bench run'"
            )
        run = RunFolder.open(path).id if (path / "run.json").is_file() else None
        return pa.concat_tables([read_part(part, run) for part in parts])
    if not path.exists():
        raise UsageError(f"{path} does not exist; name the folder of a 'penstock bench run'")
    if path.suffix == ".json":
        return from_json(content_of(path), path)
    if path.name == FILE:
        check_written(path)
    return _read(path)


def finished_runs(root: Path) -> list[RunFolder]:
    """The finished run folders below `root` that hold benchmark results, the newest first."""
    runs = []
    for path in root.iterdir() if root.is_dir() else ():
        with suppress(PenstockError):  # of another version, damaged, or no run folder
            run = RunFolder.open(path)
            if run.complete and (path / FILE).is_file():
                runs.append(run)
    return sorted(runs, key=begun, reverse=True)


def begun(run: RunFolder) -> tuple[str, str]:
    """What puts runs in order."""
    return str(run.record.get("started", "")), run.path.name


def read_part(path: Path, run: str | None) -> pa.Table:
    """The runs of one point, of the run of that identity.

    Raises: PenstockError: it is damaged, or another run's.
    """
    table = _read(path)
    try:
        check_signed(table, run)
    except ValueError as error:
        raise PenstockError(f"{path} is not the file that the run wrote: {error}; measure again") from error
    return table.replace_schema_metadata(BENCH_SCHEMA.metadata)


def _read(path: Path) -> pa.Table:
    try:
        schema = parquet.read_metadata(path).schema.to_arrow_schema()
    except (pa.ArrowException, OSError, SealBroken) as error:
        raise PenstockError(
            f"{path} is truncated, corrupt or no Parquet file ({reason(error)}); measure again"
        ) from error
    version = (schema.metadata or {}).get(_VERSION_KEY, b"1").decode(errors="replace")[:40]
    if version not in map(str, range(1, SCHEMA_VERSION + 1)):
        raise PenstockError(
            f"{path} has benchmark results of format {version}, and this version reads formats 1 to {SCHEMA_VERSION}: "
            "install a newer penstock"
        )
    checked_columns(path, schema, _BOUNDS)
    for name in schema.names:
        if name not in BENCH_SCHEMA.names:
            unknown = UnknownName("column", name, BENCH_SCHEMA.names)
            raise PenstockError(f"{path}: {unknown}; rename it, or leave it out")
    table = read_table(path, _BOUNDS)
    place = table.schema.get_field_index("reading")
    return table.set_column(place, table.schema.field(place), table["reading"].fill_null(OPENFHE))


_SHOWN = ("item", "size", "params", "ring_dim", "limbs", "threads", "across", "condition", "reading")


def summary_rows(table: pa.Table) -> Rows:
    """One row a point: median of the runs' medians, and their spread."""
    rows = []
    for runs in by_point(table).values():
        first, times = runs[0], [run_median_s(run) for run in runs]
        rows.append(
            {
                **{name: first[name] for name in _SHOWN},
                "runs": len(runs),
                "calls": sum(run["calls"] for run in runs), "median_s": statistics.median(times),
                "spread": spread(times),
                "calls_per_s": _median([run["calls_per_s"] for run in runs]),
                "setup_s": first["setup_s"], "peak_rss_bytes": first["peak_rss_bytes"], "passed": first["passed"],
                "provenance": first["provenance"],
            }
        )  # fmt: skip
    return rows


def run_median_s(run: RowView) -> float:
    """Seconds of a call of one run: the median of the calls that were kept one by one, the mean where none was.

    A disturbance of a few calls moves the mean and not the median.
    """
    samples = run.get("samples_s")
    return statistics.median(samples) if samples else run["seconds_per_call"]


Identity: TypeAlias = tuple[Hashable, ...]
"""What makes two rows the same thing."""


def by_point(table: pa.Table) -> dict[Identity, Rows]:
    """Runs of the same thing, by their `identity`."""
    return grouped(table.to_pylist(), identity)


def identity(row: RowView) -> Identity:
    """What makes two rows the same thing: the columns of `IDENTITY`, and all of the parameter set but its texts.

    Raises: ParamsError: the row's parameter set is damaged.
    """
    return (*(row[name] for name in IDENTITY), _set_identity(row["parameters"]))


@lru_cache(maxsize=1024)
def _set_identity(text: str | None) -> str | None:
    return None if text is None else json.dumps(params_identity(stored_parameters(text)), sort_keys=True)


@lru_cache(maxsize=1024)
def stored_parameters(text: str) -> CkksParameters:
    """The parameter set that column `parameters` holds.

    Raises: ParamsError: it holds none.
    """
    try:
        return CkksParameters.from_dict(json_of(text))
    except (ValueError, AttributeError) as error:
        raise ParamsError(f"column 'parameters' holds no parameter set ({error}); measure again") from error


def spread(values: Sequence[float]) -> float | None:
    """From the smallest to the largest, relative to the median; one value has none."""
    return (max(values) - min(values)) / statistics.median(values) if len(values) > 1 else None


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


# Google Benchmark.

_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def to_google_benchmark(table: pa.Table, context: RowView) -> Row:
    """The rows as Google Benchmark's JSON output has them, one `iteration` entry a run.

    Our own columns go along as counters under `penstock`, so that nothing is lost on the way back.
    """
    entries = []
    for family, runs in enumerate(by_point(table).values()):
        name = _name(runs[0])
        for run in runs:
            entries.append(
                {
                    "name": name, "family_index": family, "per_family_instance_index": 0, "run_name": name,
                    "run_type": "iteration", "repetitions": len(runs), "repetition_index": run["run"],
                    "threads": run["threads"] * run["across"], "iterations": run["calls"],
                    "real_time": run["seconds_per_call"] * 1e9,
                    "cpu_time": (run["cpu_s"] / run["calls"] if run["cpu_s"] is not None else run["seconds_per_call"])
                    * 1e9,
                    "time_unit": "ns", "penstock": run,
                }
            )  # fmt: skip
    return {"context": dict(context), "benchmarks": entries}


def google_context(record: RowView) -> Row:
    """The `context` object from the `run.json` of a run folder."""
    host, readings = record.get("host", {}), record.get("config", {}).get("reading", [OPENFHE])
    return {
        "date": record.get("started"), "executable": "penstock bench", "num_cpus": host.get("cores"),
        "mhz_per_cpu": None, "cpu_scaling_enabled": host.get("governor") not in (None, "performance"), "caches": [],
        "library_build_type": "release", "penstock_version": record.get("penstock_version"),
        "openfhe_version": record.get("openfhe_version") if OPENFHE in readings else None,
        "cpu_model": host.get("cpu_model"),
        "governor": host.get("governor"),
    }  # fmt: skip


def from_json(text: bytes | str, path: Path) -> pa.Table:
    """A table of `BENCH_SCHEMA` from JSON of Google Benchmark or of the fhe-benchmarking suite.

    Raises: UsageError: it is neither, or holds a time that none can be.
    """
    try:
        data = json_of(text)
    except ValueError as error:
        raise UsageError(f"{path}: not JSON ({error})") from error
    if not fhe_benchmarking.is_result(data):
        return _from_google_benchmark(data, str(path))
    try:
        steps = fhe_benchmarking.rows_of(data)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    number = path.stem.rsplit("-", 1)[-1]
    repetition = int(number) if number.isdecimal() and len(number) < 10 else 0  # else it is a date
    rows = [
        {
            "point": f"{row['where']}: {row['name']}",
            "suite": "fhe-benchmarking",
            "group": "workloads",
            "item": row["name"] if row["where"] == "harness" else f"{row['where']}: {row['name']}",
            "size": path.parent.name or None,
            "threads": 1,
            "across": 1,
            "condition": "warm",
            "run": repetition,
            "calls": 1,
            "seconds_per_call": row["value"],
            "total_s": row["value"],
            "wall_s": row["value"],
            "provenance": "measured",
            "note": "from a result file of the fhe-benchmarking suite, which does not state its threads",
        }
        for row in steps
        if row["quantity"] == "time" and row["value"] > 0  # 0.0s: below the last digit that the suite prints
    ]
    return _imported(rows, str(path))


def _from_google_benchmark(data: RowView, where: str) -> pa.Table:
    try:
        entries = data["benchmarks"]
        rows = [_from_entry(entry) for entry in entries if entry.get("run_type", "iteration") == "iteration"]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise UsageError(
            f"{where}: not Google Benchmark JSON ({type(error).__name__}: {error}); it needs a list 'benchmarks' of "
            "entries with 'name', 'iterations', 'real_time' and 'time_unit'"
        ) from error
    return _imported(rows, where)


def _imported(rows: Sequence[RowView], where: str) -> pa.Table:
    """Raises: UsageError: there are no rows, or contents that no measurement has."""
    if not rows:
        raise UsageError(f"{where} holds no times of single runs: name another file")
    try:
        table = table_of(rows)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise UsageError(
            f"{where}: a value is not of its column's type ({str(error).splitlines()[0]}); export the run again with "
            "'penstock bench export'"
        ) from error
    for row in table.to_pylist():
        check_row(row, where)
    return table


def check_row(row: RowView, where: str) -> None:
    """Refuse what no measurement has: a column that every row needs is empty, or a time is 0, below it, or no number.

    Raises: UsageError.
    """
    empty = [column.name for column in BENCH_SCHEMA if row[column.name] is None and not column.nullable]
    if empty:
        raise UsageError(
            f"{where}: the entry of '{row['item']}' has no '{empty[0]}'; export the run again with 'penstock bench "
            "export'"
        )
    calls = [math.nan if sample is None else sample for sample in row["samples_s"] or ()]
    unsound = [("call in samples_s", sample) for sample in calls if not (math.isfinite(sample) and sample > 0)][:1]
    optional = {"calibration_s": row["calibration_s"]} if row["calibration_s"] is not None else {}
    times = {name: row[name] for name in ("calls", "seconds_per_call", "total_s", "wall_s")}
    for name, value in [*(times | optional).items(), *unsound]:
        if not (math.isfinite(value) and value > 0):
            raise UsageError(
                f"{where}: the {name} of '{row['item']}' is {value:g}, which no measurement has: leave that entry "
                "out, or measure again"
            )


def _from_entry(entry: RowView) -> Row:
    if isinstance(entry.get("penstock"), dict):
        return {name: entry["penstock"].get(name) for name in BENCH_SCHEMA.names}
    unit = _UNITS[entry.get("time_unit", "ns")]
    seconds, calls = float(entry["real_time"]) * unit, int(entry["iterations"])
    cpu = entry.get("cpu_time")
    return {
        "point": entry["name"], "group": "primitives", "item": entry["name"], "threads": int(entry.get("threads", 1)),
        "across": 1, "condition": "warm", "run": int(entry.get("repetition_index", 0)), "calls": calls,
        "seconds_per_call": seconds, "total_s": seconds * calls, "wall_s": seconds * calls,
        "cpu_s": None if cpu is None else float(cpu) * unit * calls,
        "calls_per_s": 1 / seconds if seconds > 0 else None, "provenance": "measured",
        "note": "from Google Benchmark JSON",
    }  # fmt: skip


def _name(run: RowView) -> str:
    parts = [run["item"]]
    parts += [run[name] for name in ("size", "params") if run[name] is not None]
    parts += [f"{name}:{run[name]}" for name in ("limbs", "degree", "threads", "across") if run[name] is not None]
    return "/".join([*parts, run["condition"], *([] if run["reading"] == OPENFHE else [run["reading"]])])
