"""Traces in other formats: JSON lines, CSV, HERACLES; and of measured ones timelines and fhe-benchmarking results."""

from __future__ import annotations

import json
from collections import Counter
from itertools import takewhile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.system.files import write_atomic
from penstock.base.system.plain import csv_of
from penstock.base.types import Row, Rows
from penstock.errors import UsageError
from penstock.scheme.traces.fhe_benchmarking import result_of
from penstock.scheme.traces.heracles import to_heracles
from penstock.scheme.traces.inspect import check_rules
from penstock.scheme.traces.perfetto import DEFAULT_EVENTS, Timeline, write_timeline
from penstock.scheme.traces.schema import CLIENT_KINDS, Trace
from penstock.scheme.unpriced import added, counted, reason

EXPORTERS = ("jsonl", "csv", "chrome", "heracles", "fhe-benchmarking")


def export(
    trace: Trace, path: Path, exporter: str, *, force: bool = False, max_events: int = DEFAULT_EVENTS
) -> tuple[list[Path], list[str]]:
    """Write `trace` as `exporter`; return the files, and sentences about losses in the other format.

    CSV writes a second file for the objects. `max_events` bounds a timeline.
    Raises: UsageError: a timeline, or a result, of a trace without times; TraceError: the trace breaks a rule
            of the format, which JSON lines and CSV show and no other format has.
    """
    if exporter not in ("jsonl", "csv"):
        check_rules(trace)
    if exporter == "heracles":
        data, passed_over = to_heracles(trace)
        write_atomic(path, data, force=force)
        counts = ", ".join(f"{count} {kind}" for kind, count in passed_over.items())
        return [path], [f"HERACLES has no instruction for {counts}: its tools pass over them"] if counts else []
    if exporter == "fhe-benchmarking":
        result, notes = result_of(trace)
        write_atomic(path, result, force=force)
        return [path], notes
    if exporter == "jsonl":
        write_atomic(path, _jsonl(trace), force=force)
        return [path], []
    if exporter == "chrome":
        drawn = timeline(trace, max_events=max_events)
        write_timeline(path, drawn, force=force)
        untimed = added([_untimed(trace), trace.meta.left_out])
        late = drawn["otherData"]["operations_left_out"] - sum(untimed.values())
        notes = [f"{late} later operations are left out: raise --max-events"] if late else []
        return [path], [*notes, *([f"{reason(untimed, 'time')}, and left out"] if untimed else [])]
    objects = path.with_name(f"{path.stem}.objects{path.suffix}")
    write_atomic(path, _csv(trace.operations), force=force)
    write_atomic(objects, _csv(trace.objects), force=force)
    gone = trace.meta.left_out
    return [path, objects], [f"CSV has no place for {counted(gone)} that the trace left out"] if gone else []


def _jsonl(trace: Trace) -> bytes:
    """One line for the metadata, one an object, one an operation; `record` names which."""
    lines: Rows = [{"record": "meta", **trace.meta.to_dict()}]
    lines += [{"record": "object", **row} for row in trace.objects.to_pylist()]
    lines += [{"record": "operation", **row} for row in trace.operations.to_pylist()]
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()


def _csv(table: pa.Table) -> bytes:
    lines = ([" ".join(map(str, v)) if isinstance(v, list) else v for v in row.values()] for row in table.to_pylist())
    return csv_of(table.schema.names, lines)


def timeline(trace: Trace, *, max_events: int = DEFAULT_EVENTS) -> Row:
    """The Trace Event Format of a measured run: a lane for the client, one for the server, one for the scopes; more of
    them where operations ran side by side.

    Args:   max_events: slices at most; operations from the start as far as they fit, `otherData` counts the others.
    Raises: UsageError: the trace has no times.
    """
    drawn = Timeline(max_events=max_events)
    lanes = [drawn.lane("run", name) for name in ("client", "server")]
    scopes = drawn.lane("run", "scopes", nests=True)
    opened: list[tuple[str, float, float]] = []
    timed = left_out = 0

    def close(keep: int) -> None:
        while len(opened) > keep:
            name, begun, ended = opened.pop()
            drawn.slice(scopes, name, begun, ended, category="scope")

    for op in trace.operations.to_pylist():
        if op["start_s"] is None:
            continue
        timed += 1
        path = op["scope"].split("/") if op["scope"] else []
        if left_out or not drawn.room(1 + max(len(path), len(opened))):
            left_out += 1
            continue
        keep = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1][0], zip(path, opened, strict=False)))
        close(keep)
        opened += [(name, op["start_s"], op["end_s"]) for name in path[keep:]]
        opened[:] = [(name, min(begun, op["start_s"]), max(ended, op["end_s"])) for name, begun, ended in opened]
        shown = {k: op[k] for k in ("id", "limbs_in", "limbs_out", "key", "step", "scope") if op[k] is not None}
        lane = lanes[0 if op["kind"] in CLIENT_KINDS else 1]
        drawn.slice(lane, op["kind"], op["start_s"], op["end_s"], category=op["origin"], args=shown)
    close(0)
    if not timed:
        raise UsageError(
            "this trace has no times: it was made without running anything. Record one with "
            "'penstock run --reading openfhe --trace FILE', or export it as jsonl or csv"
        )
    untimed = sum(added([_untimed(trace), trace.meta.left_out]).values())
    return drawn.to_dict(
        workload=trace.meta.workload,
        provenance="measured",
        operations=timed - left_out,
        operations_left_out=left_out + untimed,
    )


def _untimed(trace: Trace) -> dict[str, int]:
    """Kind -> operations that ran and have no time; the inside of a composite has none."""
    view = trace.view(composites=True).operations
    rows = view.filter(pc.is_null(view["start_s"])).column("kind").to_pylist()
    return dict(Counter(rows))
