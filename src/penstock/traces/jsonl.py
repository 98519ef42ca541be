"""Traces from JSON lines, as `export` writes them: a line for the metadata, then one an object and one an operation."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from penstock.errors import ParamsError, TraceError
from penstock.traces.io import check_version, meta_of
from penstock.traces.schema import OBJECTS_SCHEMA, OPERATIONS_SCHEMA, Trace, TraceMeta


def read_jsonl(lines: Iterable[str], where: str = "JSON lines") -> Trace:
    """The trace in these lines.

    Raises: TraceError: a line that is no record, a record of another type, no metadata, a newer version.
    """
    meta: TraceMeta | None = None
    rows: dict[str, list[dict[str, Any]]] = {"object": [], "operation": []}
    number = 0
    try:
        for line in lines:
            number += 1
            if not line.strip():
                continue
            record = json.loads(line)
            kind = record.pop("record")
            if kind == "meta":
                meta = meta_of(record)
            else:
                rows[kind].append(record)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise TraceError(
            f"{where}, line {number}: no record of a trace ({type(error).__name__}: {error}); a line is an object with "
            "'record': meta, object or operation"
        ) from error
    if meta is None:
        raise TraceError(f"{where}: no line with 'record': 'meta'; write it with 'penstock trace export --to jsonl'")
    check_version(where, meta.schema_version)
    try:
        trace = Trace(
            meta,
            pa.Table.from_pylist(rows["operation"], schema=OPERATIONS_SCHEMA),
            pa.Table.from_pylist(rows["object"], schema=OBJECTS_SCHEMA),
        )
        for table, what in ((trace.operations, "operation"), (trace.objects, "object")):
            for field in table.schema:
                if not field.nullable and table[field.name].null_count:
                    raise TraceError(f"{where}: an {what} lacks '{field.name}'")
        trace.parameters()
    except (pa.ArrowException, ParamsError, TypeError, KeyError, ValueError, OverflowError) as error:
        raise TraceError(f"{where}: {error}") from error
    return trace
