"""Traces in other formats: JSON lines, CSV, and Chrome/Perfetto timelines of measured ones."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from penstock.errors import UsageError
from penstock.files import write_atomic
from penstock.trace.schema import Trace

MICROSECONDS = 1e6
EXPORTERS = ("jsonl", "csv", "chrome")


def export(trace: Trace, path: Path, exporter: str, *, force: bool = False) -> list[Path]:
    """Write `trace` as `exporter` and return the files. CSV writes a second file for the objects.

    Raises: UsageError: a timeline of a trace without times.
    """
    if exporter == "jsonl":
        write_atomic(path, _jsonl(trace), force=force)
        return [path]
    if exporter == "chrome":
        write_atomic(path, json.dumps(timeline(trace), separators=(",", ":")).encode(), force=force)
        return [path]
    objects = path.with_name(f"{path.stem}.objects{path.suffix}")
    write_atomic(path, _csv(trace.operations.to_pylist(), trace.operations.schema.names), force=force)
    write_atomic(objects, _csv(trace.objects.to_pylist(), trace.objects.schema.names), force=force)
    return [path, objects]


def _jsonl(trace: Trace) -> bytes:
    """One line for the metadata, one an object, one an operation; `record` names which."""
    lines: list[dict[str, Any]] = [{"record": "meta", **trace.meta.to_dict()}]
    lines += [{"record": "object", **row} for row in trace.objects.to_pylist()]
    lines += [{"record": "operation", **row} for row in trace.operations.to_pylist()]
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()


def _csv(rows: list[dict[str, Any]], columns: list[str]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([" ".join(map(str, v)) if isinstance(v, list) else v for v in row.values()])
    return text.getvalue().encode()


def timeline(trace: Trace) -> dict[str, Any]:
    """The Trace Event format: operations as complete events, one lane for the client and one for the server.

    Raises: UsageError: the trace has no times.
    """
    events: list[dict[str, Any]] = []
    for lane, name in ((0, "client"), (1, "server")):
        events.append({"name": "thread_name", "ph": "M", "pid": 0, "tid": lane, "args": {"name": name}})
    timed = 0
    for op in trace.operations.to_pylist():
        if op["start_s"] is None:
            continue
        timed += 1
        shown = {k: op[k] for k in ("id", "limbs_in", "limbs_out", "key", "step", "scope") if op[k] is not None}
        events.append(
            {
                "name": op["kind"], "cat": op["origin"], "ph": "X", "pid": 0,
                "tid": 0 if op["kind"] in ("encrypt", "decrypt") else 1,
                "ts": op["start_s"] * MICROSECONDS, "dur": (op["end_s"] - op["start_s"]) * MICROSECONDS, "args": shown,
            }
        )  # fmt: skip
    if not timed:
        raise UsageError(
            "this trace has no times: it was made without running anything. Record one with "
            "'penstock run --reading openfhe --trace FILE', or export it as jsonl or csv"
        )
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"workload": trace.meta.workload}}
