"""Timelines of simulated runs: the activity of each unit, channel and network over time, and the loads that serve it.

One simulated point gives one timeline. Lanes: under the machine, one for each unit that binds some operation (an
operation lies in the lane of its binding unit); under `memory`, one for each tier or level and for its decoding; under
`network`, the messages of a cluster. A flow leads from the load of an operation's keys to the operation. Counters under
`memory` are curves: the bandwidth of each channel, loaded bytes on chip, and operations whose loads run ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from penstock.base.arrays import Floats, Ints
from penstock.base.types import Row
from penstock.errors import UsageError
from penstock.lab.simulation import counters
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.hierarchy import PlayedStage
from penstock.scheme.play.price import ACCESS_CLASSES, PricedTrace
from penstock.scheme.traces.perfetto import DEFAULT_EVENTS, Lane, Timeline
from penstock.scheme.traces.schema import Trace
from penstock.scheme.work.shapes import server_rows

MEMORY, NETWORK = "memory", "network"
BANDWIDTH, RESIDENT, AHEAD = "bandwidth", "loaded bytes on chip", "operations loaded ahead"
"""Counters; the name of a channel follows the first."""
COUNTED = 5
"""Events at most of an operation in the curves of loads ahead (2) and of bytes on chip (3)."""
NAMED_LOADS = 4
"""Objects that the name of a load lists; the others are counted."""
_Channel: TypeAlias = tuple[str, Floats, Floats, Ints | Floats]


def simulated_timeline(
    trace: Trace,
    priced: PricedTrace,
    stages: Sequence[PlayedStage],
    *,
    exchange_s: Floats | None = None,
    accesses: Accesses | None = None,
    access_miss_bytes: Ints | None = None,
    max_events: int = DEFAULT_EVENTS,
    **facts: object,
) -> Row:
    """The timeline of one simulated point, from its start, as many whole operations as the bound allows.

    Args:   stages: of the result, played with a timeline; exchange_s: (n,) seconds at the end of each operation in
            which hosts exchange messages; accesses: of the host that is drawn (default: the program's);
            access_miss_bytes: (m,) what each of them loads, which names the loads; max_events: slices, flow events and
            counters at most; facts: more of `otherData`.
    Returns: a file of the Trace Event Format. `otherData` counts the operations that were left out.
    Raises: UsageError: no operation fits, or the arrays are of another program.
    """
    if not stages:
        raise UsageError("this time mode puts no operation at a time; use serial or overlap")
    *channels, (_, compute_start_s, compute_end_s, _) = map(_drawn, stages)
    rows = server_rows(trace.view().operations)
    if rows.num_rows != len(priced):
        raise UsageError(f"the trace has {rows.num_rows} operations, the priced one {len(priced)}: price this trace")
    timeline = Timeline(max_events=max_events)
    units = {int(i): timeline.lane(priced.machine, priced.units[int(i)]) for i in np.unique(priced.bound_by)}
    network = timeline.lane(NETWORK, "messages") if exchange_s is not None else None
    lanes = [timeline.lane(MEMORY, name) for name, *_ in channels]
    names = _object_names(trace)
    facts_of = rows.select(["id", "kind", "limbs_in", "key", "step", "scope"])
    drawn = counted = 0
    read = priced.accesses if accesses is None else accesses
    curves = partial(_curves, timeline, read, channels, compute_start_s, compute_end_s, access_miss_bytes)
    for op in (op for batch in facts_of.to_batches(max_chunksize=4096) for op in batch.to_pylist()):
        passed = [
            (lane, float(start_s[drawn]), float(end_s[drawn]))
            for lane, (_, start_s, end_s, _) in zip(lanes, channels, strict=True)
            if end_s[drawn] > start_s[drawn]
        ]
        more = (2 * len(passed) + COUNTED) if passed or channels else 0
        if not timeline.room(counted + more + 3 * len(passed) + 1 + (exchange_s is not None)):
            break
        counted += more
        load, moved = _load(priced, names, access_miss_bytes, drawn)
        at = _draw_loads(timeline, passed, load, {"operation": op["id"], **moved})
        begun, end = float(compute_start_s[drawn]), float(compute_end_s[drawn])
        ended = end if exchange_s is None else end - float(exchange_s[drawn])
        if network is not None and exchange_s is not None and exchange_s[drawn] > 0:
            timeline.slice(network, op["kind"], ended, end, category="exchange", args={"operation": op["id"]})
        unit = units[int(priced.bound_by[drawn])]
        shown = {name: value for name, value in op.items() if value not in (None, "")}
        timeline.slice(unit, op["kind"], begun, ended, category="operation", args=shown)
        if at is not None:
            timeline.flow("load", at, (unit, begun))
        drawn += 1
    curves(drawn)
    return _finished(timeline, priced, drawn, facts)


def _draw_loads(
    timeline: Timeline, passed: Sequence[tuple[Lane, float, float]], load: str, args: Row
) -> tuple[Lane, float] | None:
    """The load of an operation in each lane that it passes; the last one and its start."""
    at: tuple[Lane, float] | None = None
    for lane, begun, ended in passed:
        timeline.slice(lane, load, begun, ended, category="load", args=args)
        if at is not None:
            timeline.flow("load", at, (lane, begun))
        at = lane, begun
    return at


def _curves(
    timeline: Timeline,
    accesses: Accesses,
    channels: Sequence[_Channel],
    compute_start_s: Floats,
    compute_end_s: Floats,
    missed: Ints | None,
    drawn: int,
) -> None:
    """The counters of the operations that are drawn."""
    if not channels or not drawn:
        return
    start, end = compute_start_s[:drawn], compute_end_s[:drawn]
    io_start, waited = channels[0][1][:drawn], channels[-1][3][:drawn]
    for name, start_s, end_s, loaded_bytes in channels:
        for at_s, value in counters.rates(start_s[:drawn], end_s[:drawn], loaded_bytes[:drawn]):
            timeline.counter(MEMORY, f"{BANDWIDTH} {name}", at_s, {"bytes_per_s": value})
    for at_s, value in counters.ahead(io_start, start, waited):
        timeline.counter(MEMORY, AHEAD, at_s, {"operations": value})
    held = (
        counters.heights(io_start, end, waited)  # from load to end: nothing is known of single accesses
        if missed is None
        else counters.resident(accesses, missed, io_start, start, end)
    )
    for at_s, value in held:
        timeline.counter(MEMORY, RESIDENT, at_s, {"bytes": value})


def _drawn(stage: PlayedStage) -> _Channel:
    """Name, (n,) start and end in seconds, and (n,) bytes of a stage.

    Raises: UsageError: it was played without a timeline.
    """
    if stage.start_s is None or stage.end_s is None:
        raise UsageError("this time mode puts no operation at a time; use serial or overlap")
    moved = np.zeros(len(stage.start_s)) if stage.loaded_bytes is None else stage.loaded_bytes
    return stage.name, stage.start_s, stage.end_s, moved


def _finished(timeline: Timeline, priced: PricedTrace, drawn: int, facts: Row) -> Row:
    if not drawn and len(priced):
        raise UsageError(f"a timeline of {timeline.max_events} events holds no operation; allow more")
    return timeline.to_dict(
        workload=priced.workload,
        params=priced.params,
        machine=priced.machine,
        provenance="simulated",
        operations=drawn,
        operations_left_out=len(priced) - drawn,
        **facts,
    )


def _object_names(trace: Trace) -> list[str]:
    """(objects,) the name of each object, or its class and number."""
    stored = trace.objects.select(["id", "class", "name"]).to_pylist()
    return [row["name"] or f"{row['class']} {row['id']}" for row in stored]


def _load(priced: PricedTrace, names: Sequence[str], missed: Ints | None, operation: int) -> tuple[str, Row]:
    """The loads of an operation in words, and their bytes if they are known access by access."""
    start, end = int(priced.access_start[operation]), int(priced.access_start[operation + 1])
    read = [i for i in range(start, end) if not priced.access_is_result[i]]
    accesses = [i for i in read if missed is None or missed[i] > 0]
    objects = [names[int(priced.access_object[i])] for i in accesses]
    classes = dict.fromkeys(ACCESS_CLASSES[int(priced.access_class[i])] for i in accesses)
    more = f" and {len(objects) - NAMED_LOADS} more" if len(objects) > NAMED_LOADS else ""
    moved: Row = {"classes": ", ".join(classes)}
    if missed is not None:
        moved["bytes"] = int(sum(int(missed[i]) for i in accesses))
    return ", ".join(objects[:NAMED_LOADS]) + more, moved
