"""Results of a run as tables: one measurement a row, in Parquet with a checksum of the rows, and in CSV."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from penstock.base.runs.record import DamagedRun
from penstock.base.system.plain import csv_of
from penstock.base.system.tables import parquet
from penstock.base.system.tables.parquet import Bounds, read_table
from penstock.base.types import RowView

PROVENANCES = ("measured", "predicted", "simulated", "published")

RESULTS_SCHEMA = pa.schema(
    [
        pa.field("stage", pa.string(), nullable=False),
        pa.field("quantity", pa.string(), nullable=False),
        pa.field("value", pa.float64()),  # null where unknown
        pa.field("unit", pa.string(), nullable=False),  # SI base units: s, B, B/s, J; "1" for counts and ratios
        pa.field("provenance", pa.string(), nullable=False),  # one of PROVENANCES
        pa.field("workload", pa.string()),
        pa.field("params", pa.string()),
        pa.field("machine", pa.string()),
        pa.field("tier", pa.string()),
        pa.field("mode", pa.string()),
        pa.field("cache_bytes", pa.int64()),
        pa.field("policy", pa.string()),
        pa.field("hit_ratio", pa.float64()),
        pa.field("kind", pa.string()),
        pa.field("limbs", pa.int32()),
        pa.field("note", pa.string()),
    ]
)
"""One measurement a row. A dimension that does not apply is null."""

RESULTS_BOUNDS = Bounds(
    schema=RESULTS_SCHEMA, what="results table", remedy="run the same command again with --force", error=DamagedRun
)

_RUN = "penstock.run"
COLUMNS: tuple[str, ...] = tuple(RESULTS_SCHEMA.names)

_REQUIRED = ("quantity", "unit", "provenance")


def results_table(stage: str, rows: Iterable[RowView], defaults: RowView) -> pa.Table:
    """The rows of a stage as a table of `RESULTS_SCHEMA`; `defaults` fill the columns that a row leaves out.

    Raises: ValueError: a column is unknown or required and missing.
    """
    columns: dict[str, list[object]] = {name: [] for name in COLUMNS}
    for row in rows:
        if not row.keys() <= columns.keys():
            unknown = sorted(row.keys() - columns.keys())
            raise ValueError(f"stage '{stage}': unknown columns {unknown}; a row has {', '.join(COLUMNS)}")
        missing = [name for name in _REQUIRED if not row.get(name)] + [n for n in ("value",) if n not in row]
        if missing:
            raise ValueError(f"stage '{stage}': a row of '{row.get('quantity')}' lacks {missing}")
        if row["provenance"] not in PROVENANCES:
            raise ValueError(f"stage '{stage}': provenance '{row['provenance']}' is none of {PROVENANCES}")
        for name in COLUMNS:
            columns[name].append(_cell(row.get(name, defaults.get(name))))
        columns["stage"][-1] = stage
    return pa.table(
        {field.name: pa.array(columns[field.name], field.type) for field in RESULTS_SCHEMA}, schema=RESULTS_SCHEMA
    )


def _cell(value: object) -> object:
    if value is None or type(value) in (str, int, bool):
        return value
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, Mapping):
        raise ValueError(f"a cell holds one value, not {dict(value)!r}")
    return getattr(value, "value", value)


def digest(table: pa.Table) -> str:
    """A digest of the rows, independent of how Parquet lays them out."""
    return hashlib.sha256(json.dumps(table.to_pylist(), sort_keys=True).encode()).hexdigest()


def signed(table: pa.Table, run: str | None, **more: str) -> pa.Table:
    """A table whose metadata says which rows it was written with, and by which run.

    Args:   run: the identity of the run, `None` for one that has none; more: what else the metadata says.
    """
    facts = {"penstock.rows_sha256": digest(table), **({} if run is None else {_RUN: run}), **more}
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **facts})


def check_signed(table: pa.Table, run: str | None) -> None:
    """Check a table that was read against its metadata.

    Args:   run: the identity of the run of this folder; `None`: an older run without one.
    Raises: ValueError: another run wrote it, or its rows have changed.
    """
    facts = {name.decode(): value.decode(errors="replace") for name, value in (table.schema.metadata or {}).items()}
    if run is not None and facts.get(_RUN) != run:
        raise ValueError("it is a table of another run")
    stated = facts.get("penstock.rows_sha256")
    if stated != digest(table) and not (stated is run is None):
        raise ValueError("its checksum does not match")


def read_stage(path: Path, run: str | None) -> tuple[int, pa.Table]:
    """Sequence number and rows of a stage file of the run of that identity.

    Raises: ValueError: the rows are not those written. DamagedRun: it is not a table of results, or a much larger one.
    """
    table = read_table(path, RESULTS_BOUNDS)
    check_signed(table, run)
    described = table.schema.metadata or {}
    if b"penstock.rows_sha256" not in described:
        raise ValueError("it has no checksum")
    stages = table["stage"].unique().to_pylist()
    if stages not in ([], [path.stem]):
        raise ValueError(f"it is stage '{stages[0]}'")
    return int(described[b"penstock.sequence"]), table.replace_schema_metadata(None)


def sequence_of(path: Path) -> int:
    """The sequence number of a stage file; -1 where it cannot be read."""
    with suppress(pa.ArrowException, OSError, KeyError, ValueError, TypeError):
        return int(parquet.read_metadata(path).metadata[b"penstock.sequence"])
    return -1


def as_csv(table: pa.Table) -> bytes:
    """The rows as CSV; unknown values are empty."""
    return csv_of(COLUMNS, ([row[name] for name in COLUMNS] for row in table.to_pylist()))
