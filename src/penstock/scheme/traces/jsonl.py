"""Traces from JSON lines, as `export` writes them: a line for the metadata, then one an object and one an operation."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyarrow import Table

from penstock.base.system.outside import json_of, reason
from penstock.base.types import Row, Rows
from penstock.errors import ParamsError, TraceError
from penstock.scheme.traces.io import check_version, meta_of, most_objects, most_operations, too_many
from penstock.scheme.traces.schema import OBJECTS_SCHEMA, OPERATIONS_SCHEMA, Trace, TraceMeta

ROWS_AT_ONCE = 1 << 16
"""Records that are held as objects of Python, ten times as large as in columns."""


class _Rows:
    """The rows of one table, turned into columns as they come."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema, self.rows, self.parts, self.count = schema, Rows(), [schema.empty_table()], 0

    def add(self, row: Row) -> None:
        self.rows.append(row)
        self.count += 1
        if len(self.rows) == ROWS_AT_ONCE:
            self._turn()

    def table(self) -> pa.Table:
        self._turn()
        return pa.concat_tables(self.parts).combine_chunks()

    def _turn(self) -> None:
        self.parts.append(Table.from_pylist(self.rows, schema=self.schema))
        self.rows = []


def read_jsonl(lines: Iterable[str], where: str = "JSON lines") -> Trace:
    """The trace in these lines.

    Raises: TraceError: a line that is not a record, a record of another type, no metadata, a newer version, more
            operations than the limit.
    """
    operations, objects = _Rows(OPERATIONS_SCHEMA), _Rows(OBJECTS_SCHEMA)
    try:
        meta = _read(lines, where, {"operation": operations, "object": objects})
        trace = Trace(meta, operations.table(), objects.table())
        for table, what in ((trace.operations, "operation"), (trace.objects, "object")):
            for field in table.schema:
                if not field.nullable and table[field.name].null_count:
                    raise TraceError(f"{where}: an {what} lacks '{field.name}'")
        trace.parameters()
    except MemoryError:
        raise
    except (pa.ArrowException, ParamsError, TypeError, KeyError, ValueError, OverflowError) as error:
        raise TraceError(f"{where}: {error}") from error
    return trace


def _read(lines: Iterable[str], where: str, tables: dict[str, _Rows]) -> TraceMeta:
    meta: TraceMeta | None = None
    most = {"operation": most_operations(), "object": most_objects()}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json_of(line)
            kind = record.pop("record")
            if kind == "meta":
                meta = meta_of(record)
                continue
            rows = tables[kind]
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise TraceError(
                f"{where}, line {number}: no record of a trace ({type(error).__name__}: {reason(error)}); a line is an "
                "object with 'record': meta, object or operation"
            ) from error
        if rows.count == most[kind]:
            raise too_many(where, most[kind], f"{kind}s")
        rows.add(record)
    if meta is None:
        raise TraceError(f"{where}: no line with 'record': 'meta'; write it with 'penstock trace export --to jsonl'")
    check_version(where, meta.schema_version)
    return meta
