"""Timelines of simulated runs: the activity of each unit, channel and network over time, and the loads that serve it.

One simulated point gives one timeline. Lanes: under the machine, one for each unit that binds some operation (an
operation lies in the lane of its binding unit); under `memory`, one for each tier or level and for its decoding; under
`network`, the messages of a cluster. A flow leads from the load of an operation's keys to the operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.errors import UsageError
from penstock.simulation.engine import Floats, Ints
from penstock.simulation.memory.levels_time import LevelsTimeline
from penstock.simulation.price import ACCESS_CLASSES, PricedTrace
from penstock.simulation.timing import Schedule
from penstock.traces.perfetto import DEFAULT_EVENTS, Lane, Timeline
from penstock.traces.schema import Trace
from penstock.work.shapes import server_rows

MEMORY, NETWORK = "memory", "network"
NAMED_LOADS = 4
"""Objects that the name of a load lists; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One resource that loads pass on their way to compute: a tier, a level, a decoder."""

    name: str
    start_s: Floats
    """(n,) when the load of each operation begins here."""
    end_s: Floats


def tier_channels(schedule: Schedule, tier: str) -> list[Channel]:
    """The channel of a tier, and its decoder where it takes time."""
    found = [Channel(name=tier, start_s=schedule.io_start_s, end_s=schedule.io_end_s)]
    if float(np.sum(schedule.decode_end_s - schedule.decode_start_s)) > 0:
        found.append(Channel(name=f"decode {tier}", start_s=schedule.decode_start_s, end_s=schedule.decode_end_s))
    return found


def level_channels(played: LevelsTimeline) -> tuple[list[Channel], Floats, Floats]:
    """The channels of levels, the deepest first, and when each operation computes.

    Raises: UsageError: it was played without a timeline.
    """
    stages = []
    for stage in played.stages:
        if stage.start_s is None or stage.end_s is None:
            raise UsageError(f"time mode '{played.mode}' puts no operation at a time; use serial or overlap")
        stages.append(Channel(name=stage.name, start_s=stage.start_s, end_s=stage.end_s))
    return stages[:-1], stages[-1].start_s, stages[-1].end_s


def simulated_timeline(
    trace: Trace,
    priced: PricedTrace,
    channels: Sequence[Channel],
    compute_start_s: Floats,
    compute_end_s: Floats,
    *,
    exchange_s: Floats | None = None,
    access_miss_bytes: Ints | None = None,
    max_events: int = DEFAULT_EVENTS,
    **facts: Any,
) -> dict[str, Any]:
    """The timeline of one simulated point, from its start, as many whole operations as the bound allows.

    Args:   channels: in the order in which a load passes them; exchange_s: (n,) seconds at the end of each operation in
            which hosts exchange messages; access_miss_bytes: (m,) what each access loads, which names the loads;
            max_events: slices and flow events at most; facts: what `otherData` says beside.
    Returns: a file of the Trace Event Format. `otherData` counts the operations that were left out.
    Raises: UsageError: no operation fits, or the arrays are of another program.
    """
    view = trace.view()
    rows = server_rows(view.operations)
    if rows.num_rows != len(priced):
        raise UsageError(f"the trace has {rows.num_rows} operations, the priced one {len(priced)}: price this trace")
    timeline = Timeline(max_events=max_events)
    units = {int(i): timeline.lane(priced.machine, priced.units[int(i)]) for i in np.unique(priced.bound_by)}
    network = timeline.lane(NETWORK, "messages") if exchange_s is not None else None
    lanes = [timeline.lane(MEMORY, channel.name) for channel in channels]
    names = _object_names(trace)
    facts_of = rows.select(["id", "kind", "limbs_in", "key", "step", "scope"])
    drawn = 0
    for batch in facts_of.to_batches(max_chunksize=4096):
        for op in batch.to_pylist():
            passed = [
                (lane, channel)
                for lane, channel in zip(lanes, channels, strict=True)
                if channel.end_s[drawn] > channel.start_s[drawn]
            ]
            if not timeline.room(3 * len(passed) + 1 + (exchange_s is not None)):
                return _finished(timeline, priced, drawn, facts)
            load, moved = _load(priced, names, access_miss_bytes, drawn)
            at: tuple[Lane, float] | None = None
            for lane, channel in passed:
                begun, ended = float(channel.start_s[drawn]), float(channel.end_s[drawn])
                timeline.slice(lane, load, begun, ended, category="load", args={"operation": op["id"], **moved})
                if at is not None:
                    timeline.flow("load", at, (lane, begun))
                at = lane, begun
            begun, ended = float(compute_start_s[drawn]), float(compute_end_s[drawn])
            if network is not None and exchange_s is not None:
                ended -= float(exchange_s[drawn])
                if exchange_s[drawn] > 0:
                    args = {"operation": op["id"]}
                    timeline.slice(
                        network, op["kind"], ended, float(compute_end_s[drawn]), category="exchange", args=args
                    )
            unit = units[int(priced.bound_by[drawn])]
            shown = {name: value for name, value in op.items() if value not in (None, "")}
            timeline.slice(unit, op["kind"], begun, ended, category="operation", args=shown)
            if at is not None:
                timeline.flow("load", at, (unit, begun))
            drawn += 1
    return _finished(timeline, priced, drawn, facts)


def _finished(timeline: Timeline, priced: PricedTrace, drawn: int, facts: dict[str, Any]) -> dict[str, Any]:
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
    found = trace.objects.select(["id", "class", "name"]).to_pylist()
    return [row["name"] or f"{row['class']} {row['id']}" for row in found]


def _load(priced: PricedTrace, names: Sequence[str], missed: Ints | None, operation: int) -> tuple[str, dict[str, Any]]:
    """The loads of an operation in words, and their bytes if they are known access by access."""
    start, end = int(priced.access_start[operation]), int(priced.access_start[operation + 1])
    read = [i for i in range(start, end) if not priced.access_is_result[i]]
    accesses = [i for i in read if missed is None or missed[i] > 0]
    objects = [names[int(priced.access_object[i])] for i in accesses]
    classes = dict.fromkeys(ACCESS_CLASSES[int(priced.access_class[i])] for i in accesses)
    more = f" and {len(objects) - NAMED_LOADS} more" if len(objects) > NAMED_LOADS else ""
    moved: dict[str, Any] = {"classes": ", ".join(classes)}
    if missed is not None:
        moved["bytes"] = int(sum(int(missed[i]) for i in accesses))
    return ", ".join(objects[:NAMED_LOADS]) + more, moved
