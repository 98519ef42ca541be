"""Fit the costs of a program beyond the kernels of its warm operations: cold caches, the client's tasks, the record.

Cold timings are compared with warm ones of the same operations. Warm timings of `encode`, `encrypt` and `decrypt` give
the client's work beyond its kernels, and `recorded_...` primitives the record of a program's calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.base.arrays import Floats, Ints
from penstock.errors import MachineError
from penstock.lab.fit.heldout import MIN_SD, ONE_SD
from penstock.lab.fit.measurements import Measurement
from penstock.lab.fit.regression import robust_nnls
from penstock.scheme.machines.calibration import ELEMENT_WISE, KEY_SWITCHING, operation_class
from penstock.scheme.machines.client import TERMS, ClientModel, task_work
from penstock.scheme.machines.cold import ColdModel, operand_bytes
from penstock.scheme.machines.figure import Evidence, Figure
from penstock.scheme.machines.record_cost import EXPANDED, MEASURES, VALUES, RecordingModel
from penstock.scheme.machines.schema import Machine
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.work.shapes import shape_work

FEWEST_PAIRS = 6
"""Pairs of a warm and a cold timing that the two numbers can be fitted to."""
MOST_SD = 1.0
"""The cost lies between nothing (everything was cached) and about twice the fitted value. The data say no more."""
FEWEST_TOGETHER = 4
"""Operations of one configuration whose sum says how far off the cost of a program is."""

UNCHECKED_SD = 0.2
"""Of a task with a single timing, which one cost meets exactly."""

PREFIX = "recorded_"
"""Of the primitives that time it."""
DECRYPT, SERIES = "recorded_decrypt", "recorded_chebyshev_series"
FEWEST_CALLS = 3
"""Timings that a term needs."""
UNIFORM = math.sqrt(3)
"""A number anywhere between two ends is off one of them by their distance over this, root mean square."""

RowCount = Callable[["Measurement"], float]


def _figure(
    value: float, unit: str, scale: float, source: str, kind: Evidence = Evidence.CALIBRATED, digits: int = 6
) -> Figure:
    """A fitted value in a unit of `scale` base units, rounded as its file has it."""
    shown = f"{value:.{digits}g}"
    return Figure(value=float(shown) * scale, text=f"{shown} {unit}", source=source, kind=kind)


# Cold caches.


def fit_cold(measurements: Iterable[Measurement]) -> ColdModel | None:
    """The costs that meet the cold timings, given the warm ones of the same operations; `None` with too few pairs."""
    warm: dict[object, float] = {}
    cold: list[Measurement] = []
    for m in measurements:
        if m.group != "primitives" or m.shape is None or TRAITS[OpKind(m.shape.kind)].client:
            continue
        if m.condition == "warm":
            warm[_key(m)] = m.seconds
        else:
            cold.append(m)
    paired = [(m, warm[_key(m)]) for m in cold if _key(m) in warm]
    if len(paired) < FEWEST_PAIRS:
        return None
    num_bytes = np.asarray([operand_bytes(shape_work(m.shape, m.params)) for m, _ in paired if m.shape], dtype=float)
    if np.ptp(num_bytes) == 0:
        return None
    seconds, known = np.asarray([m.seconds for m, _ in paired]), np.asarray([warm_s for _, warm_s in paired])
    columns = np.stack([np.ones(len(paired)), num_bytes], axis=1)
    costs = robust_nnls(columns, seconds, np.ones(len(paired)), known=known).coefficients
    more = columns @ costs
    if not more.all():
        return None
    counts = ", ".join(str(n) for n in sorted({m.threads for m, _ in paired}))
    rings = [m.params.ring_dim for m, _ in paired]
    together = [(m.params, m.shape.limbs_in if m.shape else 0, m.threads) for m, _ in paired]
    source = (
        f"fitted to {len(paired)} primitives, each timed warm and cold, {counts} thread{'' if counts == '1' else 's'}"
    )

    call, each_byte = costs.tolist()
    return ColdModel(
        call=_figure(call * 1e6, "us", 1e-6, source) if call else None,
        operands=_figure(1e-9 / each_byte, "GB/s", 1e9, source) if each_byte else None,
        log_sd=min(float(f"{_cold_sd(columns, seconds, known, rings, together):.4g}"), MOST_SD),
    )


def _cold_sd(
    columns: Floats, seconds: Floats, known: Floats, rings: Sequence[int], together: Sequence[Hashable]
) -> float:
    """The joint error of the cost of several operations, at ring dimensions outside the fit.

    The common error counts in full. Single operations count with their scatter where a configuration has too few, or
    with one ring dimension only.
    """
    groups: dict[Hashable, list[int]] = {}
    for row, name in enumerate(together):
        groups.setdefault(name, []).append(row)
    several = [rows for rows in groups.values() if len(rows) >= FEWEST_TOGETHER]
    logs = []
    for ring in sorted(set(rings)):
        rest = np.asarray([dim != ring for dim in rings])
        if rest.sum() < FEWEST_PAIRS:
            continue
        costs = robust_nnls(columns[rest], seconds[rest], np.ones(int(rest.sum())), known=known[rest]).coefficients
        for rows in several:
            predicted, measured = float((columns[rows] @ costs).sum()), float((seconds - known)[rows].sum())
            if rings[rows[0]] == ring and predicted > 0 and measured > 0:
                logs.append(np.log(predicted / measured))
    if logs:
        return float(np.percentile(np.abs(logs), ONE_SD))
    more = columns @ robust_nnls(columns, seconds, np.ones(len(seconds)), known=known).coefficients
    return float(np.percentile(np.abs((seconds - known - more) / more), ONE_SD))


def _key(m: Measurement) -> object:
    return m.item, m.params, m.shape, m.threads


# The client.


def fit_client(measurements: Iterable[Measurement], machine: Machine) -> ClientModel | None:
    """The costs that meet the warm timings of the client's tasks; `None` where one of the three was not timed.

    Args:   machine: fitted already: kernel work is priced on it.
    """
    timed: dict[str, list[Measurement]] = {task: [] for task in TERMS}
    for m in measurements:
        if m.group == "primitives" and m.condition == "warm" and m.item in timed and _limbs(m) is not None:
            timed[m.item].append(m)
    costs, deviations = {}, []
    for task, of_task in timed.items():
        fitted = _fit_task(task, of_task, machine)
        if fitted is None:
            return None
        costs[task], errors = fitted
        deviations.append(errors)
    sd = float(np.percentile(np.abs(np.concatenate(deviations)), ONE_SD))
    return ClientModel(costs=costs, log_sd=max(float(f"{sd:.4g}"), MIN_SD))


def _fit_task(task: str, timed: list[Measurement], machine: Machine) -> tuple[dict[str, Figure], Floats] | None:
    """Term -> cost, and (n,) residuals of the logarithm. The residuals are held out by ring dimension if there are
    three; else they come from the fit, widened by the degrees of freedom of the terms."""
    terms = TERMS[task]
    known, rows, seconds, rings = [], [], [], []
    for m in timed:
        limbs = _limbs(m)
        try:
            at = machine.at(m.threads)
        except MachineError:
            continue
        assert limbs is not None
        known.append(at.price(task_work(task, m.params, limbs)).seconds)
        rows.append([term.amount(m.params, limbs, m.threads) for term in terms.values()])
        seconds.append(m.seconds)
        rings.append(m.params.ring_dim)
    if not rows:
        return None
    columns, measured, kernels = np.asarray(rows), np.asarray(seconds), np.asarray(known)
    while True:
        used = np.flatnonzero(columns.any(axis=0))
        per_term = robust_nnls(columns, measured, np.ones(len(rows)), known=kernels).coefficients
        if len(used) < max(len(rows), 2):
            break
        # As many terms as timings meet any times; the term that counts least goes.
        columns[:, used[np.argmin((columns * per_term).sum(axis=0)[used])]] = 0.0
    errors = np.log((kernels + columns @ per_term) / measured) * math.sqrt(len(rows) / max(len(rows) - len(used), 1))
    if len(rows) == 1:
        errors = np.full(1, UNCHECKED_SD)
    unseen = _held_out(columns, measured, kernels, np.asarray(rings), len(used))
    source = f"fitted to {len(rows)} timings of '{task}', in addition to its kernel work at the fitted rates"
    figures = {
        name: _figure(cost * 1e9, f"ns/{term.measure}", 1e-9, source)
        for (name, term), cost in zip(terms.items(), per_term.tolist(), strict=True)
        if cost > 0
    }
    return figures, errors if unseen is None else unseen


def _held_out(columns: Floats, measured: Floats, kernels: Floats, rings: Ints, terms: int) -> Floats | None:
    """(n,) residuals at each ring dimension of the fit to the others; `None` with fewer than three of them."""
    values = np.unique(rings)
    if len(values) < 3 or min((rings != value).sum() for value in values) <= terms:
        return None
    errors = np.zeros(len(measured))
    for value in values:
        rest, here = rings != value, rings == value
        ones = np.ones(int(rest.sum()))
        costs = robust_nnls(columns[rest], measured[rest], ones, known=kernels[rest]).coefficients
        errors[here] = np.log((kernels[here] + columns[here] @ costs) / measured[here])
    return errors


def _limbs(m: Measurement) -> int | None:
    return m.shape.limbs_in if m.shape is not None else m.limbs


# The record.


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


def fit_recording(measurements: Iterable[Measurement], rows: RowCount) -> RecordingModel | None:
    """Medians of what recorded calls took; `None` where either class of operations was timed too seldom.

    Args:   rows: rows that the expansion of a recorded composite writes; 0 where it is not known.
    """
    pairs = _pairs(measurements)
    of_class: dict[str, list[_Pair]] = {ELEMENT_WISE: [], KEY_SWITCHING: []}
    for pair in pairs:
        item = pair.measurement.item
        if item not in (DECRYPT, SERIES):
            of_class[operation_class(item.removeprefix(PREFIX))].append(pair)
    if min(len(calls) for calls in of_class.values()) < FEWEST_CALLS:
        return None
    of_term: dict[str, list[_Pair]] = dict(of_class)
    call = _median([pair.cold_s for pair in of_class[ELEMENT_WISE]])
    composite = _median([pair.cold_s for pair in of_class[KEY_SWITCHING]])
    of_term[VALUES] = [p.per(p.measurement.params.slots, call) for p in pairs if p.measurement.item == DECRYPT]
    series = [(p, rows(p.measurement)) for p in pairs if p.measurement.item == SERIES]
    of_term[EXPANDED] = [p.per(count, composite) for p, count in series if count]
    known = {term: calls for term, calls in of_term.items() if len(calls) >= FEWEST_CALLS}
    return RecordingModel(
        costs={
            term: _figure(
                _median([pair.cold_s for pair in calls]) * 1e6,
                f"us/{MEASURES[term]}" if MEASURES[term] else "us",
                1e-6,
                f"median of {len(calls)} recorded calls with cold caches, less the library's time in the same call",
                Evidence.MEASURED,
                digits=4,
            )
            for term, calls in known.items()
        },
        log_sd=float(f"{_recording_sd(list(of_class.values())):.4g}"),
    )


def _pairs(measurements: Iterable[Measurement]) -> list[_Pair]:
    by_condition: dict[str, dict[object, Measurement]] = {"warm": {}, "cold": {}}
    for m in measurements:
        if m.group == "primitives" and m.item.startswith(PREFIX):
            by_condition[m.condition][m.item, m.params, m.limbs, m.threads] = m
    warm, cold = by_condition["warm"], by_condition["cold"]
    return [_Pair(m, m.seconds, warm[key].seconds) for key, m in cold.items() if key in warm]


def _recording_sd(classes: Sequence[Sequence[_Pair]]) -> float:
    """Relative error of the cost of a class, the widest: the scatter of its calls, and the gap between cold and
    warm."""
    errors = []
    for pairs in classes:
        middle = _median([pair.cold_s for pair in pairs])
        scatter = float(np.std([math.log(pair.cold_s / middle) for pair in pairs]))
        open_ = max(middle - _median([pair.warm_s for pair in pairs]), 0.0) / middle / UNIFORM
        errors.append(math.hypot(scatter, open_))
    return max(errors)


def _median(values: Sequence[float]) -> float:
    return float(np.median(values))
