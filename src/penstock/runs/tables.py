"""Results of a run as tables: one measurement a row, in Parquet with a checksum of the rows, and in CSV."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

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

COLUMNS: tuple[str, ...] = tuple(RESULTS_SCHEMA.names)

_REQUIRED = ("quantity", "unit", "provenance")


def results_table(stage: str, rows: Iterable[Mapping[str, Any]], defaults: Mapping[str, Any]) -> pa.Table:
    """The rows of a stage as a table of `RESULTS_SCHEMA`; `defaults` fill the columns that a row leaves out.

    Raises: ValueError: a column is unknown or required and missing.
    """
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for row in rows:
        unknown = sorted(set(row) - set(COLUMNS))
        if unknown:
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


def _cell(value: Any) -> Any:
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


def read_stage(path: Path) -> tuple[int, pa.Table]:
    """Sequence number and rows of a stage file. Raises ValueError where the rows are not those written."""
    table = pq.read_table(path, page_checksum_verification=True)
    described = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
    table = table.replace_schema_metadata(None)
    if not table.schema.equals(RESULTS_SCHEMA):
        raise ValueError("its columns are not those of a results table")
    if digest(table) != described.get("penstock.rows_sha256"):
        raise ValueError("its checksum does not match")
    return int(described["penstock.sequence"]), table


def sequence_of(path: Path) -> int:
    """The sequence number of a stage file; -1 where it cannot be read."""
    with suppress(pa.ArrowException, OSError, KeyError, ValueError, TypeError):
        return int(pq.read_schema(path).metadata[b"penstock.sequence"])
    return -1


def as_csv(table: pa.Table) -> bytes:
    """The rows as CSV; what is not known is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in table.to_pylist():
        writer.writerow(["" if row[name] is None else row[name] for name in COLUMNS])
    return text.getvalue().encode()
