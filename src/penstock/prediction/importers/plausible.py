"""Timings that cannot be, judged by the others of their kind: written in another unit, or with a slip of the pen.

A fit is to relative errors. A timing that is too long is off by less than all of itself, however long it is; one that
is too short is off without bound, and no weight of a robust fit starts out small enough for it. So such a timing is
named before anything is fitted.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from penstock.fit.cpu import NOMINAL_COST, UNITS, exclusive_amounts
from penstock.fit.measurements import Measurement
from penstock.measure.bench.estimate import CALL_S, SECONDS_PER_MULTIPLICATION
from penstock.prediction.importers.rows import ImportLog
from penstock.units import format_seconds
from penstock.work.shapes import shape_work

ENOUGH = 5
"""Timings whose median predicts one more."""
OFF = 100.0
"""A time that is this many times longer or shorter than the others suggest is in another unit."""
DOUBTFUL = 10.0
"""The same for a time that is far from others of the same kind, condition and threads, with a warning. A shorter one is
left out, since from about 15 times on one in fifty decides a fit alone; a longer one counts little."""
_NAMED = 3


def plausible(found: Sequence[Measurement], log: ImportLog) -> list[Measurement]:
    """The measurements without primitives whose time cannot be, or is so short that it would decide the fit.

    A time is compared with the nominal cost of its work, times the median ratio of the others.
    Raises: BadTiming: there is one, unless bad rows are skipped; the message names file and row.
    """
    logs = {id(m): math.log(m.seconds / nominal_seconds(m)) for m in found if m.shape is not None}
    groups: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for m in found:
        if id(m) in logs:
            for each in _groups(m):
                groups[each].append(logs[id(m)])
    middles = {name: statistics.median(of_group) for name, of_group in groups.items() if len(of_group) > ENOUGH}
    kept: list[Measurement] = []
    long: list[Measurement] = []
    short: list[Measurement] = []
    for m in found:
        group = next((each for each in _groups(m) if each in middles), None) if id(m) in logs else None
        if group is not None:
            own = len(group) == _OWN
            off = logs[id(m)] - middles[group]
            times = math.exp(abs(off))
            if times > OFF:
                log.refuse(
                    f"{m.source}: '{m.item}' takes {format_seconds(m.seconds)}, {times:.3g} times "
                    f"{'less' if off < 0 else 'more'} than {'others of its kind' if own else 'other timings'} suggest "
                    "for its work: it is probably in another unit of time"
                )
                continue
            if own and times > DOUBTFUL:
                (short if off < 0 else long).append(m)
                if off < 0:
                    continue
        kept.append(m)
    for doubtful, said in ((long, "longer"), (short, "shorter")):
        if doubtful:
            log.warnings.append(
                f"{len(doubtful)} timing{'s are' if len(doubtful) > 1 else ' is'} more than {DOUBTFUL:.0f} times "
                f"{said} than others of the kind suggest ({_named(doubtful)})"
                + (", and left out: one that is too short outweighs all others" if said == "shorter" else "")
                + ": something disturbed the measurement, or another unit of time is meant"
            )
    return kept


def _named(doubtful: Sequence[Measurement]) -> str:
    more = f" and {len(doubtful) - _NAMED} more" if len(doubtful) > _NAMED else ""
    return "; ".join(f"{m.source}, '{m.item}', {format_seconds(m.seconds)}" for m in doubtful[:_NAMED]) + more


def nominal_seconds(m: Measurement) -> float:
    """The time of a primitive at nominal costs on one thread: good to a factor, for comparing timings."""
    assert m.shape is not None
    amounts = exclusive_amounts(shape_work(m.shape, m.params))
    work = sum(NOMINAL_COST[unit] * amount for unit, amount in zip(UNITS, amounts, strict=True))
    return CALL_S + SECONDS_PER_MULTIPLICATION * work


_OWN = 4
"""Length of the name of the narrowest group."""


def _groups(m: Measurement) -> Iterator[tuple[Any, ...]]:
    """Names of the groups that a timing is compared with, the narrowest first."""
    assert m.shape is not None
    yield m.reading, m.shape.kind, m.condition, m.threads
    yield m.reading, m.shape.kind, m.condition
    yield m.reading, m.condition
