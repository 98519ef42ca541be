"""The unknowns after some timings: likely values, covariance, and how well the timings were foreseen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Floats, Ints
from penstock.lab.fit.regression import NORMAL_MEDIAN
from penstock.lab.prediction.experiments.items import Items
from penstock.lab.prediction.experiments.prior import VISIT_SD, of_threads

_ROUNDS = 15
_SETTLED = 1e-2
_LARGEST_STEP = 1.0
"""Of an unknown in one round, in its standard deviations: times are not linear in the unknowns far away."""
_HUBER = 2.0
"""Standard deviations beyond which a timing counts less."""
_WORST = 10.0
"""A whole visit that is off counts as at most so many standard deviations."""
PRIOR_SURPRISES = 20.0
"""Timings that the stated standard deviations weigh as much as."""
COMMON_WEIGHT = 5.0
"""A common error of a visit counts as so many timings: it adds up in programs."""
LEAST_SCALE = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Timed candidates."""

    at: Ints
    """(n,) numbers of the candidates."""
    logs: Floats
    """(n,) logarithms of their seconds."""
    visits: Ints
    """(n,)"""
    threads: Ints
    """(n,)"""
    sds: Floats
    """(n,) of the noise of one visit."""

    def __len__(self) -> int:
        return len(self.at)

    def take(self, chosen: npt.NDArray[np.bool_]) -> Timings:
        """Some of them."""
        return Timings(**{column.name: getattr(self, column.name)[chosen] for column in fields(self)})

    def joined(self, other: Timings) -> Timings:
        """These, and the other ones behind them."""
        both = {column.name: (getattr(self, column.name), getattr(other, column.name)) for column in fields(self)}
        return Timings(**{name: np.concatenate(pair) for name, pair in both.items()})


@dataclass(slots=True, kw_only=True)
class Posterior:
    """A normal distribution of the unknowns, and the scales of its errors."""

    mean: Floats
    """(p,)"""
    covariance: Floats
    """(p, p)"""
    scales: dict[int, float] = field(default_factory=dict)
    """Threads -> how many times the stated deviations the errors of unseen timings were."""

    def scale(self, threads: int) -> float:
        """1 before anything was foreseen."""
        return self.scales.get(threads, 1.0)


def prior(size: int) -> Posterior:
    """Nothing is known beyond the nominal machine."""
    return Posterior(mean=np.zeros(size), covariance=np.eye(size))


def posterior(items: Items, timings: Timings, start: Floats) -> Posterior:
    """Fit the unknowns to the timings, by Gauss and Newton from `start`.

    Each visit has one effect on all its timings. Timings far from the fit count less (Huber).
    """
    size = len(start)
    groups = sorted(set(zip(timings.visits.tolist(), timings.threads.tolist(), strict=True)))
    of_visit = np.zeros((len(timings), len(groups)))
    for row, group in enumerate(zip(timings.visits.tolist(), timings.threads.tolist(), strict=True)):
        of_visit[row, groups.index(group)] = of_threads(VISIT_SD, group[1])
    timed = items.take(timings.at)
    solution = np.concatenate([start, np.zeros(len(groups))])
    identity, information = np.eye(len(solution)), np.eye(len(solution))
    for _ in range(_ROUNDS):
        logs, slopes = timed.linear(solution[:size])
        full = np.concatenate([slopes, of_visit], axis=1)
        missed = timings.logs - logs - of_visit @ solution[size:]
        away = np.abs(missed) / timings.sds
        weights = np.minimum(1.0, _HUBER / np.maximum(away, 1e-9)) / timings.sds**2
        information = (full * weights[:, None]).T @ full + identity
        step = np.linalg.solve(information, full.T @ (weights * missed) - solution)
        step = np.clip(step, -_LARGEST_STEP, _LARGEST_STEP)
        solution = solution + step
        if np.abs(step).max() < _SETTLED:
            break
    covariance: Floats = np.asarray(np.linalg.inv(information), dtype=np.float64)
    return Posterior(mean=solution[:size], covariance=covariance[:size, :size])


def surprises(items: Items, before: Posterior, new: Timings) -> dict[int, tuple[float, float]]:
    """Threads -> (sum of squares, weight) of the errors of one visit's timings, predicted from earlier visits.

    Errors are in the standard deviations that were stated for them. Their median stands for all, so that a few
    disturbed timings change little. Their mean over the visit counts apart.
    """
    squares = {}
    for threads in sorted(set(new.threads.tolist())):
        here = new.take(new.threads == threads)
        logs, of_here = items.take(here.at).linear(before.mean)
        visit = of_threads(VISIT_SD, threads)
        covariance = of_here @ before.covariance @ of_here.T + visit**2 + np.diag(here.sds**2)
        missed = here.logs - logs
        sizes = np.abs(np.linalg.solve(np.linalg.cholesky(covariance), missed))
        typical = float(np.median(sizes)) / NORMAL_MEDIAN
        mean_sd = math.sqrt(float(covariance.mean()))
        together = min(abs(float(missed.mean())) / mean_sd, _WORST)
        squares[threads] = (len(here) * typical**2 + COMMON_WEIGHT * together**2, len(here) + COMMON_WEIGHT)
    return squares


def misfits(items: Items, after: Posterior, timings: Timings) -> dict[int, tuple[float, float]]:
    """The same of the first visit, from the errors that its own fit leaves: at least the stated deviations."""
    squares = {}
    for threads in sorted(set(timings.threads.tolist())):
        here = timings.take(timings.threads == threads)
        missed = here.logs - items.take(here.at).linear(after.mean)[0]
        typical = float(np.median(np.abs(missed - np.median(missed)) / here.sds)) / NORMAL_MEDIAN
        squares[threads] = (len(here) * max(typical, 1.0) ** 2, float(len(here)))
    return squares


def scales_of(seen: Sequence[dict[int, tuple[float, float]]]) -> dict[int, float]:
    """Threads -> factor on the stated deviations, from the surprises of several visits.

    >>> scales_of([{1: (160.0, 35.0)}])[1]
    1.8090680674665818
    """
    totals: dict[int, list[float]] = {}
    for of_visit in seen:
        for threads, (squares, weight) in of_visit.items():
            total = totals.setdefault(threads, [PRIOR_SURPRISES, PRIOR_SURPRISES])
            total[0] += squares
            total[1] += weight
    return {
        threads: max(math.sqrt(squares / weight), LEAST_SCALE) for threads, (squares, weight) in sorted(totals.items())
    }
