"""Curves of a simulated run: bandwidth of each channel, loaded bytes on chip, operations whose loads run ahead.

A curve is its steps: (time in seconds, value from then on), the times rising, 0 at the end. The integral of a bandwidth
is the bytes that crossed the channel.
"""

from __future__ import annotations

import numpy as np

from penstock.base.arrays import Floats, Ints
from penstock.scheme.play.accesses import Accesses

Steps = list[tuple[float, float]]


def rates(start_s: Floats, end_s: Floats, loaded_bytes: Ints | Floats) -> Steps:
    """Bytes a second of one channel, whose loads follow each other.

    Args:   start_s, end_s, loaded_bytes: (n,) of the load of each operation.
    >>> rates(np.array([0.0, 2.0, 5.0]), np.array([2.0, 3.0, 5.0]), np.array([8, 2, 0]))
    [(0.0, 4.0), (2.0, 2.0), (3.0, 0.0)]
    """
    busy = np.flatnonzero((end_s > start_s) & (loaded_bytes > 0))
    starts, ends = start_s[busy].tolist(), end_s[busy].tolist()
    values = (loaded_bytes[busy] / (end_s[busy] - start_s[busy])).tolist()
    steps: Steps = []
    for i, (start, end, value) in enumerate(zip(starts, ends, values, strict=True)):
        steps.append((start, value))
        if i + 1 == len(starts) or starts[i + 1] > end:
            steps.append((end, 0.0))
    return steps


def heights(begin_s: Floats, end_s: Floats, height: Ints | Floats) -> Steps:
    """The sum of the heights of the intervals around each time.

    >>> heights(np.array([0.0, 1.0]), np.array([2.0, 3.0]), np.array([1, 5]))
    [(0.0, 1.0), (1.0, 6.0), (2.0, 5.0), (3.0, 0.0)]
    """
    kept = (end_s > begin_s) & (height > 0)
    if not kept.any():
        return []
    times = np.concatenate([begin_s[kept], end_s[kept]])
    changes = np.concatenate([height[kept], -np.asarray(height[kept])]).astype(np.float64)
    order = np.argsort(times, kind="stable")
    times, values = times[order], np.cumsum(changes[order])
    values[np.abs(values) < 1e-9 * float(height[kept].max())] = 0.0  # fractions of bytes of a stated hit ratio
    last = np.append(times[1:] > times[:-1], True)
    times, values = times[last], values[last]
    different = np.append(True, values[1:] != values[:-1])
    return list(zip(times[different].tolist(), values[different].tolist(), strict=True))


def ahead(io_start_s: Floats, compute_start_s: Floats, loaded_bytes: Ints | Floats) -> Steps:
    """Operations whose loads have begun, and that do not compute yet."""
    return heights(io_start_s, compute_start_s, (loaded_bytes > 0).astype(np.int64))


def resident(
    accesses: Accesses, missed: Ints, io_start_s: Floats, compute_start_s: Floats, compute_end_s: Floats
) -> Steps:
    """Bytes on chip that are in use, or will be before they are loaded again.

    An operation holds its data from the start of its load to its end. Between two uses of an object, the bytes are
    on chip that the second use finds there. A policy may hold more, which saves nothing.

    Args:   missed: (m,) bytes that each access loads; times: (n,) of the operations that are drawn.
    """
    drawn = len(compute_end_s)
    operation = np.repeat(np.arange(accesses.num_operations, dtype=np.int64), np.diff(accesses.access_start))
    chosen = np.flatnonzero(accesses.is_read & (operation < drawn))
    by_object = accesses.access_object[chosen]
    order = np.lexsort((chosen, by_object))
    chosen, by_object = chosen[order], by_object[order]
    op, need, loaded = operation[chosen], accesses.access_bytes[chosen], missed[chosen]
    begin = np.where(loaded > 0, io_start_s[op], compute_start_s[op])
    end = compute_end_s[op].copy()
    again = np.append(False, by_object[1:] == by_object[:-1]) if len(op) else np.zeros(0, dtype=bool)
    before_s = np.append(0.0, end[:-1]) if len(op) else end
    begin = np.where(again, np.maximum(begin, before_s), begin)  # the use before holds it until its own end
    kept_begin, kept_end = before_s[again], begin[again]
    return heights(
        np.concatenate([begin, kept_begin]),
        np.concatenate([end, kept_end]),
        np.concatenate([need, (need - loaded)[again]]),
    )
