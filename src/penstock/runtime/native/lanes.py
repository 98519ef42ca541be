"""How many operations of a whole program run side by side: a rule by cost, which says why.

An operation on several threads waits for the slowest: 3 limbs on 2 threads take as long as 4, and each of its passes
begins and ends together. Side by side, operations take one thread each, as far as the program has independent ones. The
rule plays both: a list schedule of the program's tasks at nominal times.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.base.units import format_seconds
from penstock.runtime.native.compiled import Compiled
from penstock.runtime.native.plans import nominal_s
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.schema import Trace
from penstock.scheme.work.shapes import Objects, server_rows, shape_work, shapes_of

PASSES = 4
"""Of one operation, each of which the threads end together. Assumed."""
PASS_S = 4e-6
"""To hand one pass to the threads and to wait for them. Calibrated, as `WORTH`, to the four small programs of
`benchmarks/bench_packages.py`, whose choices it is therefore not scored on."""
WORTH = 0.08
"""Side by side must save this share: it takes more memory, and operations share caches, which the rule leaves out."""
WINDOW = 256
"""Tasks that a lane may be ahead of the first unfinished one."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Lanes:
    """The choice."""

    count: int
    why: str


def choose_lanes(compiled: Compiled, trace: Trace, threads: int, *, keys_in_order: bool) -> Lanes:
    """The operations side by side that take the least predicted time.

    Args:   trace: with the rows of the compilation. keys_in_order: whether key switches run one at a time.
    """
    if threads < 2:
        return Lanes(1, "")
    alone_s, together_s = task_times(compiled, trace, compiled.params, threads)
    one_s = float(together_s.sum())
    side_s = play(compiled, alone_s, together_s, threads, keys_in_order=keys_in_order)
    takes = side_s < (1 - WORTH) * one_s
    chosen, other = (side_s, one_s) if takes else (one_s, side_s)
    words = (f"{threads} operations side by side", f"one operation on {threads} threads")
    taken, left = words if takes else reversed(words)
    return Lanes(
        threads if takes else 1, f"{taken}: predicted {format_seconds(chosen)}, and {format_seconds(other)} with {left}"
    )


def task_times(compiled: Compiled, trace: Trace, params: CkksParameters, threads: int) -> tuple[Floats, Floats]:
    """(tasks,) nominal seconds on one thread, and on all."""
    operations = server_rows(trace.operations)
    shapes = shapes_of(operations, Objects(trace, params))
    one = np.asarray([nominal_s(shape_work(shape, params)) for shape in shapes.distinct])
    limbs = np.asarray([max(1, shape.limbs_in) for shape in shapes.distinct], dtype=np.float64)
    several = one * np.ceil(limbs / threads) / limbs + PASSES * PASS_S
    rows = np.asarray(compiled.row_tasks, dtype=np.int64)[operations["id"].to_numpy()]
    count = len(compiled.tasks)
    alone_s: Floats = np.bincount(rows, weights=one[shapes.of_row], minlength=count).astype(np.float64)
    together_s: Floats = np.bincount(rows, weights=several[shapes.of_row], minlength=count).astype(np.float64)
    return alone_s, together_s


def play(compiled: Compiled, alone_s: Floats, together_s: Floats, lanes: int, *, keys_in_order: bool) -> float:
    """Seconds of a list schedule: the first ready task of the program to the next free lane.

    A task that runs alone takes all threads.
    """
    consumers, missing = compiled.graph()
    keyed = np.zeros(len(missing), dtype=bool)
    keyed[compiled.key_tasks] = True
    ready = [task for task, count in enumerate(missing) if not count]
    heapq.heapify(ready)
    running: list[tuple[float, int]] = []
    now, left, key_busy = 0.0, len(missing), False
    while left:
        begun = _begin(ready, lanes - len(running), keyed, key_busy=key_busy, keys_in_order=keys_in_order)
        beside = bool(running) or len(begun) > 1
        for task in begun:
            heapq.heappush(running, (now + float(alone_s[task] if beside else together_s[task]), task))
            key_busy |= keys_in_order and bool(keyed[task])
        now, task = heapq.heappop(running)
        left -= 1
        if keyed[task]:
            key_busy = False
        for consumer in consumers[task]:
            missing[consumer] -= 1
            if not missing[consumer]:
                heapq.heappush(ready, consumer)
    return now


def _begin(
    ready: list[int], free: int, keyed: npt.NDArray[np.bool_], *, key_busy: bool, keys_in_order: bool
) -> list[int]:
    """Tasks that begin now; they leave `ready`."""
    begun: list[int] = []
    passed: list[int] = []
    while ready and len(begun) < free and len(passed) <= WINDOW:
        task = heapq.heappop(ready)
        if keyed[task] and key_busy:
            passed.append(task)
            continue
        begun.append(task)
        key_busy |= keys_in_order and bool(keyed[task])
    for task in passed:
        heapq.heappush(ready, task)
    return begun
