"""The timeline of a schedule: a lane for each port of each unit, a slice for each limb of each kernel."""

from __future__ import annotations

from collections import Counter

import numpy as np

from penstock.base.types import Row
from penstock.errors import UsageError
from penstock.lab.simulation.counters import heights
from penstock.scheme.machines.schema import Machine
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.play.price import program_of
from penstock.scheme.play.schedule import Placed, ProgramShapes, Schedule, held_bytes, schedule_listed
from penstock.scheme.traces.perfetto import DEFAULT_EVENTS, Timeline
from penstock.scheme.traces.schema import Trace
from penstock.scheme.work.shapes import Objects, server_rows, shapes_of

OPERATIONS = "operations"
INSIDE, HELD = "operations under way", "bytes that they hold on chip"
COUNTED = 4
"""Steps of counters that an operation makes at most."""


def kernel_timeline(
    trace: Trace,
    machine: Machine,
    *,
    key_form: KeyForm | None = None,
    max_events: int = DEFAULT_EVENTS,
    **facts: object,
) -> Row:
    """The kernels of a program on the units of a machine, every byte on chip, as many whole operations as fit.

    Args:   max_events: slices at most; facts: more of `otherData`.
    Returns: a file of the Trace Event Format. `otherData` counts the operations that were left out.
    Raises: UsageError: no operation fits; as `schedule_program`.
    """
    params = trace.parameters()
    table = server_rows(trace.view().operations)
    objects = Objects(trace, params)
    program = program_of(table, objects, shapes_of(table, objects))
    schedule, placed = schedule_listed(program, params, machine, key_form, listed=len(program.of_row))
    kept = _operations_that_fit(program, placed, max_events)
    timeline = Timeline(max_events=max_events)
    lanes = {
        (unit, port): timeline.lane(machine.name, unit if ports == 1 else f"{unit} {port + 1}")
        for unit, ports in zip(schedule.units, schedule.ports, strict=True)
        for port in range(ports)
    }
    above = timeline.lane(OPERATIONS, "in program order")
    ids, kinds = table["id"].to_pylist(), table["kind"].to_pylist()
    added = np.maximum.accumulate(schedule.end_s)
    for i in range(kept):
        begun = float(added[i - 1]) if i else 0.0
        timeline.slice(above, kinds[i], begun, float(added[i]), category="operation", args={"operation": ids[i]})
    begun_s, left_s = schedule.start_s[:kept], schedule.end_s[:kept]
    held = np.asarray(held_bytes(program, params, machine, key_form), dtype=np.float64)[:kept]
    for at_s, value in heights(begun_s, left_s, np.ones(kept, dtype=np.int64)):
        timeline.counter(OPERATIONS, INSIDE, at_s, {"operations": value})
    for at_s, value in heights(begun_s, left_s, held):
        timeline.counter(OPERATIONS, HELD, at_s, {"bytes": value})
    columns = (placed.operation.tolist(), placed.limb.tolist(), placed.start_s.tolist(), placed.end_s.tolist())
    of_kernels = zip(placed.name, placed.unit, _ports(schedule, placed), *columns, strict=True)
    for name, unit, port, at, limb, start, end in of_kernels:
        if at < kept:
            args = {"operation": ids[at], "kind": kinds[at], "limb": limb}
            timeline.slice(lanes[unit, port], name, start, end, category="kernel", args=args)
    return timeline.to_dict(
        workload=trace.meta.workload,
        params=params.name,
        machine=machine.name,
        provenance="simulated",
        operations=kept,
        operations_left_out=len(program.of_row) - kept,
        total_s=schedule.total_s,
        shown="kernels on units, every byte on chip",
        **facts,
    )


def _operations_that_fit(program: ProgramShapes, placed: Placed, max_events: int) -> int:
    """So many first operations have slices for all their limbs, one each for themselves, and their counters."""
    count = Counter(placed.operation.tolist())
    events = 0
    for i in range(len(program.of_row)):
        events += count[i] + 1 + COUNTED
        if events > max_events:
            if i == 0:
                raise UsageError(f"a timeline of {max_events} events holds no operation; allow more")
            return i
    return len(program.of_row)


def _ports(schedule: Schedule, placed: Placed) -> list[int]:
    """The port of each limb: the first of its unit that is free."""
    free = {unit: [0.0] * ports for unit, ports in zip(schedule.units, schedule.ports, strict=True)}
    ports_taken = []
    for unit, start, end in zip(placed.unit, placed.start_s.tolist(), placed.end_s.tolist(), strict=True):
        times = free[unit]
        port = next((i for i, time in enumerate(times) if time <= start), None)
        if port is None:
            port = times.index(min(times))
        times[port] = end
        ports_taken.append(port)
    return ports_taken
