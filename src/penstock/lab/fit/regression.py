"""Non-negative least squares on relative errors, with Huber's weights: a few disturbed timings do not move it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Floats

_HUBER = 1.345  # 95 % efficiency where errors are normal (Huber, 1981)
_ROUNDS = 40
_SETTLED = 1e-6
"""Relative change of predictions at which the rounds end."""
_FLAT = 1e-9
"""A slope of the squared error, relative to the steepest, that is none."""
NORMAL_MEDIAN = 0.6745  # median of the absolute value of a standard normal


class Expectation(NamedTuple):
    """The expectation of the coefficients before any timing: `rows @ coefficients` near `values`."""

    rows: Floats
    """(p, m)"""
    values: Floats
    """(p,)"""


class Fitted(NamedTuple):
    """Non-negative coefficients, and their residuals."""

    coefficients: Floats
    """(m,)"""
    loss: float
    """Weighted mean of the Huber loss of the relative errors: for comparing models of the same rows."""
    scale: float
    """Relative error that stands for one standard deviation."""


def robust_nnls(
    columns: Floats,
    seconds: Floats,
    weights: Floats,
    *,
    known: Floats | None = None,
    expected: Expectation | None = None,
    scale: float | None = None,
    start: Floats | None = None,
) -> Fitted:
    """Coefficients >= 0 that minimise Huber's loss of the weighted relative errors of `columns @ coefficients`.

    Args:   columns: (n, m); seconds, weights: (n,); known: (n,) what `columns @ coefficients` come on top of (default:
            nothing); errors stay relative to `seconds`; expected: misses count squared with the mean squared
            relative error; scale: of the loss that is returned (default: estimated from the median error, as it always
            is for the fit itself); start: coefficients near the solution, to be there in fewer rounds.
    """
    weights = weights / weights.sum()
    relative = columns / seconds[:, None]
    size = relative.max(axis=0)
    size[size == 0] = 1.0
    relative = relative / size
    target = np.ones(len(seconds)) if known is None else 1 - known / seconds
    goals = target if expected is None else np.concatenate([target, expected.values])
    more = None if expected is None else expected.rows / size
    solution = np.zeros(relative.shape[1]) if start is None else start * size
    robust, spread = _huber(relative, solution, target, weights) if start is not None else (np.ones(len(seconds)), 1e-6)
    for _ in range(_ROUNDS):
        row = np.sqrt(weights * robust)
        system = relative * row[:, None]
        if more is not None:
            system = np.concatenate([system, more])
            row = np.concatenate([row, np.ones(len(more))])
        before = solution
        solution = _nnls(system, row * goals, before)
        robust, spread = _huber(relative, solution, target, weights)
        if np.max(np.abs(relative @ (solution - before))) < _SETTLED:
            break
    error = np.abs(relative @ solution - target)
    scale = scale or spread
    bound = _HUBER * scale
    loss = np.where(error <= bound, error**2 / 2, bound * (error - bound / 2))
    return Fitted(solution / size, float(loss @ weights), scale)


def _huber(relative: Floats, solution: Floats, target: Floats, weights: Floats) -> tuple[Floats, float]:
    """(n,) weights of rows whose errors are large, and the error that stands for one standard deviation."""
    error = np.abs(relative @ solution - target)
    spread = max(weighted_median(error, weights) / NORMAL_MEDIAN, 1e-6)
    return np.minimum(1.0, _HUBER * spread / np.maximum(error, 1e-12)), spread


def _nnls(system: Floats, goals: Floats, near: Floats) -> Floats:
    """Non-negative least squares, from the normal equations where there are many rows.

    If a solution with the non-zero coefficients of `near` meets the Karush-Kuhn-Tucker conditions, it is the solution.
    """
    from scipy.linalg import solve_triangular  # slow to import, and most who import this fit nothing
    from scipy.optimize import nnls

    rows, unknowns = system.shape
    if rows <= 4 * unknowns:
        return np.asarray(nnls(system, goals)[0])
    gram, moment = system.T @ system, system.T @ goals
    used = near > 0
    try:
        if used.any():
            candidate = np.zeros(unknowns)
            candidate[used] = np.linalg.solve(gram[np.ix_(used, used)], moment[used])
            slope = moment - gram @ candidate
            if (candidate >= 0).all() and (slope <= _FLAT * np.abs(moment).max()).all():
                return candidate
        factor = np.linalg.cholesky(gram)
        return np.asarray(nnls(factor.T, solve_triangular(factor, moment, lower=True))[0], dtype=np.float64)
    except np.linalg.LinAlgError:  # columns that are multiples of each other
        return np.asarray(nnls(system, goals)[0])


def weighted_median(values: Floats, weights: Floats) -> float:
    """The value that half of the weight lies below."""
    order = np.argsort(values)
    middle = int(np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2))
    return float(values[order[min(middle, len(order) - 1)]])
