"""Fit the cost of recording a program's calls to the `recorded_…` primitives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.fit.measurements import Measurement
from penstock.machines.calibration import ELEMENT_WISE, KEY_SWITCHING, operation_class
from penstock.machines.figure import Evidence, Figure
from penstock.machines.record_cost import EXPANDED, MEASURES, VALUES, RecordingModel

PREFIX = "recorded_"
"""Of the primitives that time it."""
DECRYPT, SERIES = "recorded_decrypt", "recorded_chebyshev_series"
FEWEST = 3
"""Timings that a term needs."""
UNIFORM = math.sqrt(3)
"""A number anywhere between two ends is off one of them by their distance over this, root mean square."""

Rows = Callable[["Measurement"], float]


@dataclass(frozen=True, slots=True)
class _Pair:
    """A recorded call, cold and warm: seconds beyond the library's."""

    measurement: Measurement
    cold_s: float
    warm_s: float

    def per(self, units: float, less: float = 0.0) -> _Pair:
        """Seconds of one unit, without the other terms."""
        cold, warm = max(self.cold_s - less, 0.0) / units, max(self.warm_s - less, 0.0) / units
        return _Pair(self.measurement, cold, warm)


def fit_recording(measurements: Iterable[Measurement], rows: Rows) -> RecordingModel | None:
    """Medians of what recorded calls took; `None` where either class of operations was timed too seldom.

    Args:   rows: rows that the expansion of a recorded composite writes; 0 where it is not known.
    """
    pairs = _pairs(measurements)
    of_class: dict[str, list[_Pair]] = {ELEMENT_WISE: [], KEY_SWITCHING: []}
    for pair in pairs:
        item = pair.measurement.item
        if item not in (DECRYPT, SERIES):
            of_class[operation_class(item.removeprefix(PREFIX))].append(pair)
    if min(len(found) for found in of_class.values()) < FEWEST:
        return None
    of_term: dict[str, list[_Pair]] = dict(of_class)
    call = _median([pair.cold_s for pair in of_class[ELEMENT_WISE]])
    composite = _median([pair.cold_s for pair in of_class[KEY_SWITCHING]])
    of_term[VALUES] = [p.per(p.measurement.params.slots, call) for p in pairs if p.measurement.item == DECRYPT]
    series = [(p, rows(p.measurement)) for p in pairs if p.measurement.item == SERIES]
    of_term[EXPANDED] = [p.per(count, composite) for p, count in series if count]
    known = {term: found for term, found in of_term.items() if len(found) >= FEWEST}
    return RecordingModel(
        costs={term: _figure(term, found) for term, found in known.items()},
        log_sd=float(f"{_log_sd(list(of_class.values())):.4g}"),
    )


def _pairs(measurements: Iterable[Measurement]) -> list[_Pair]:
    by_condition: dict[str, dict[object, Measurement]] = {"warm": {}, "cold": {}}
    for m in measurements:
        if m.group == "primitives" and m.item.startswith(PREFIX):
            by_condition[m.condition][m.item, m.params, m.limbs, m.threads] = m
    warm, cold = by_condition["warm"], by_condition["cold"]
    return [_Pair(m, m.seconds, warm[key].seconds) for key, m in cold.items() if key in warm]


def _figure(term: str, found: Sequence[_Pair]) -> Figure:
    value = float(f"{_median([pair.cold_s for pair in found]) * 1e6:.4g}")
    unit = f"us/{MEASURES[term]}" if MEASURES[term] else "us"
    return Figure(
        value=value * 1e-6,
        text=f"{value:.4g} {unit}",
        source=f"median of {len(found)} recorded calls with cold caches, less the library's time in the same call",
        kind=Evidence.MEASURED,
    )


def _log_sd(classes: Sequence[Sequence[_Pair]]) -> float:
    """Relative error of the cost of a class, the widest: the scatter of its calls, and the gap between cold and
    warm."""
    found = []
    for pairs in classes:
        middle = _median([pair.cold_s for pair in pairs])
        scatter = float(np.std([math.log(pair.cold_s / middle) for pair in pairs]))
        open_ = max(middle - _median([pair.warm_s for pair in pairs]), 0.0) / middle / UNIFORM
        found.append(math.hypot(scatter, open_))
    return max(found)


def _median(values: Sequence[float]) -> float:
    return float(np.median(values))
