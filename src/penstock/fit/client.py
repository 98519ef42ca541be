"""Fit the cost of the client's tasks beyond their kernel work to warm timings of `encode`, `encrypt` and `decrypt`."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from penstock.errors import MachineError
from penstock.fit.measurements import Measurement
from penstock.fit.regression import Floats, robust_nnls
from penstock.machines.client import TERMS, ClientModel, task_work
from penstock.machines.figure import Evidence, Figure
from penstock.machines.schema import Machine

ONE_SD = 68.27
"""Percentage of a normal distribution within one standard deviation."""
MIN_SD = 0.005
UNCHECKED_SD = 0.2
"""Of a task with a single timing, which one cost meets exactly."""


def fit_client(measurements: Iterable[Measurement], machine: Machine) -> ClientModel | None:
    """The costs that meet the warm timings of the client's tasks; `None` where one of the three was not timed.

    Args:   machine: fitted already: kernel work is priced on it.
    """
    timed: dict[str, list[Measurement]] = {task: [] for task in TERMS}
    for m in measurements:
        if m.group == "primitives" and m.condition == "warm" and m.item in timed and _limbs(m) is not None:
            timed[m.item].append(m)
    costs, deviations = {}, []
    for task, found in timed.items():
        fitted = _fit_task(task, found, machine)
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
        found = robust_nnls(columns, measured, np.ones(len(rows)), known=kernels).coefficients
        if len(used) < max(len(rows), 2):
            break
        # As many terms as timings meet any times; the term that counts least goes.
        columns[:, used[np.argmin((columns * found).sum(axis=0)[used])]] = 0.0
    errors = np.log((kernels + columns @ found) / measured) * math.sqrt(len(rows) / max(len(rows) - len(used), 1))
    if len(rows) == 1:
        errors = np.full(1, UNCHECKED_SD)
    unseen = _held_out(columns, measured, kernels, np.asarray(rings), len(used))
    source = f"fitted to {len(rows)} timings of '{task}', in addition to its kernel work at the fitted rates"
    figures = {
        name: Figure(
            value=float(f"{cost * 1e9:.6g}") * 1e-9,
            text=f"{cost * 1e9:.6g} ns/{term.measure}",
            source=source,
            kind=Evidence.CALIBRATED,
        )
        for (name, term), cost in zip(terms.items(), found.tolist(), strict=True)
        if cost > 0
    }
    return figures, errors if unseen is None else unseen


def _held_out(
    columns: Floats, measured: Floats, kernels: Floats, rings: npt.NDArray[np.int64], terms: int
) -> Floats | None:
    """(n,) residuals at each ring dimension of the fit to the others; `None` with fewer than three of them."""
    values = np.unique(rings)
    if len(values) < 3 or min((rings != value).sum() for value in values) <= terms:
        return None
    errors = np.zeros(len(measured))
    for value in values:
        rest, here = rings != value, rings == value
        ones = np.ones(int(rest.sum()))
        found = robust_nnls(columns[rest], measured[rest], ones, known=kernels[rest]).coefficients
        errors[here] = np.log((kernels[here] + columns[here] @ found) / measured[here])
    return errors


def _limbs(m: Measurement) -> int | None:
    return m.shape.limbs_in if m.shape is not None else m.limbs
