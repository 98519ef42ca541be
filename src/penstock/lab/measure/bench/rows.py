"""The rows of a measured point: its columns of `BENCH_SCHEMA`, the run folder's tidy rows, and its events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from penstock.base.types import Row, Rows
from penstock.lab.measure.bench import timing
from penstock.lab.measure.bench.catalogue import PRIMITIVES
from penstock.lab.measure.bench.results import COLUMNS
from penstock.lab.measure.bench.spec import BenchPoint
from penstock.lab.measure.events import EventRow, Unavailable

Done = TypeVar("Done")


def dimensions(suite: str, point: BenchPoint) -> Row:
    """The identity of a point: the columns that its rows of `BENCH_SCHEMA` share."""
    params = point.params
    of = {"point": point, "set": params}
    return {
        "point": point.key,
        "suite": suite,
        **{name: getattr(of[row["of"]], name) for name, row in COLUMNS.items() if "of" in row},
        "params": params.name,
        "scaling": str(params.scaling),
        "parameters": json.dumps(params.to_dict()),
        "provenance": "measured",
    }


def timed(number: int, run: timing.TimedRun) -> Row:
    """What one run of a point took (`number` from 0): its columns of `BENCH_SCHEMA`."""
    return {
        "run": number, "calls": run.calls, "seconds_per_call": run.seconds_per_call,
        "joules_per_call": None if run.joules is None else run.joules / run.calls, "started_s": run.started_s,
        "total_s": run.total_s,
        "wall_s": run.wall_s, "cpu_s": run.cpu_s, "samples_s": list(run.samples_s),
        "calls_per_s": run.calls / run.wall_s if run.wall_s > 0 else None,
    }  # fmt: skip


def tidy(point: BenchPoint, rows: Rows) -> Iterable[Row]:
    """Rows of the run folder's own results: one measurement each."""
    first, common, where = rows[0], _common(point), _where(point)
    for row in rows:
        note = _note(where | {"run": row["run"], "calls": row["calls"]})
        yield common | {"quantity": "seconds_per_call", "value": row["seconds_per_call"], "unit": "s", "note": note}
    for quantity, unit in (("setup_s", "s"), ("peak_rss_bytes", "B"), ("max_abs_error", "1")):
        if first.get(quantity) is not None:
            yield common | {"quantity": quantity, "value": first[quantity], "unit": unit, "note": _note(where)}


def _common(point: BenchPoint) -> Row:
    kind = PRIMITIVES[point.item].kind if point.item in PRIMITIVES else None
    return {
        "provenance": "measured",
        "params": point.params.name,
        "kind": None if kind is None else str(kind),
        "limbs": point.limbs,
        "workload": None if point.group == "primitives" else point.item,
    }


def _where(point: BenchPoint) -> Row:
    """The dimensions that the run folder's table has no column for."""
    return {
        **{name: getattr(point, name) for name in ("group", "item", "size")},
        **{name: getattr(point.params, name) for name in ("ring_dim", "depth", "dnum")},
        **{name: getattr(point, name) for name in ("threads", "across", "condition", "reading")},
    }


def _note(values: Row) -> str:
    return json.dumps(values, separators=(",", ":"))


def event_rows(
    point: BenchPoint, events: Sequence[str], region: Callable[[], Done], calls: Callable[[Done], int]
) -> Rows:
    """Events a call, counted in a separate pass. An event that the machine cannot count has no value, and a reason."""
    from penstock.lab.measure.perf import Counters

    with Counters(list(events)) as counters:
        counters.on()
        done = region()
        counters.off()
    return [_event_row(point, row, calls(done)) for row in counters.rows()]


_FLUSHED = Unavailable(
    "what runs ahead of each cold call, the flush of the caches, would be counted with it: the counters cannot be "
    "switched within microseconds",
    "take the events of the same point with condition 'warm'",
)


_RECORDED = Unavailable(
    "the record of each native call would be counted with it", "take --reading openfhe, or count a program's events"
)


def uncounted_events(point: BenchPoint, events: Sequence[str]) -> Rows:
    """The rows of events of a cold point or a native call: without values, and why."""
    why = _FLUSHED if point.condition != "warm" else _RECORDED
    return [_event_row(point, why.row(event), 0) for event in events]


def _event_row(point: BenchPoint, row: EventRow, calls: int) -> Row:
    return _common(point) | {
        "quantity": f"{row.event}_per_call",
        "value": None if row.value is None else row.value / calls,
        "unit": row.unit,
        "note": _note(
            _where(point)
            | {"calls": calls, "status": row.status, "source": row.source, "reason": row.reason, "remedy": row.remedy}
        ),
    }
