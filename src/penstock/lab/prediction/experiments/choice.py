"""The visit that would teach most for its time: greedy reduction of the variance of programs' predicted times."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.base.arrays import Floats, Ints
from penstock.lab.prediction.experiments.prior import VISIT_SD, of_threads

LONGEST_S = 45.0
"""Of a visit: whoever ends a measurement loses no more."""
MEAN_OF_NORMAL = math.sqrt(2 / math.pi)
"""Mean absolute value of a normal variable, in standard deviations."""
_FULL = 0.3
"""A visit grows while a point gains this share of the whole visit's gain for its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Predicted seconds of everything that can be timed."""

    points: Floats
    """(n,) of each candidate."""
    sets: Floats
    """(s,) to open each set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Points of one parameter set."""

    at: tuple[int, ...]
    """Numbers of the candidates."""
    seconds: float
    gain: float
    """By which the mean variance of the programs falls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Covariances and slopes at the current estimate."""

    covariance: Floats
    """(p, p) of the unknowns."""
    slopes: Floats
    """(n, p) of the candidates' logarithms."""
    of_programs: Floats
    """(t, p) of the programs'."""
    weights: Floats
    """(t,) of the programs' variances."""
    noise: Floats
    """(n,) variance of each candidate in one visit."""
    threads: Ints
    """(n,)"""

    def variances(self) -> Floats:
        """(t,) of the programs' logarithms."""
        return np.einsum("tp,pq,tq->t", self.of_programs, self.covariance, self.of_programs)

    def after(self, chosen: Sequence[int]) -> Floats:
        """The covariance of the unknowns after a visit to these candidates; their times do not matter."""
        at = list(chosen)
        rows = self.slopes[at] @ self.covariance
        both = rows @ self.slopes[at].T + self._of_visit(at) + np.diag(self.noise[at])
        return self.covariance - rows.T @ np.linalg.solve(both, rows)

    def _of_visit(self, at: Sequence[int]) -> Floats:
        threads = self.threads[list(at)]
        visit_variance = np.asarray([of_threads(VISIT_SD, int(count)) ** 2 for count in threads])
        return np.where(threads[:, None] == threads[None, :], visit_variance[:, None], 0.0)

    def grown(
        self,
        at: Sequence[int],
        joint: Floats,
        twins: Mapping[int, int],
        costs: Costs,
        setup_s: float,
        limit_s: float,
    ) -> Choice | None:
        """The points of one set that teach most for their time together with the set's own; `None`: none fits.

        Args:   joint: (n, p) covariances of the candidates with the unknowns.
        """
        order = list(at)
        place = {i: k for k, i in enumerate(order)}
        rows = joint[order]
        own = rows @ self.slopes[order].T + self._of_visit(order)
        with_programs = (rows @ self.of_programs.T) * np.sqrt(self.weights)
        noise, seconds = self.noise[order], costs.points[order]
        partner = np.asarray([place.get(twins.get(i, -1), -1) for i in order])
        taken = np.zeros(len(order), dtype=bool)
        spent, gained, ratio = setup_s, 0.0, 0.0
        chosen: list[int] = []
        while not taken.all():
            gains = np.einsum("nt,nt->n", with_programs, with_programs) / (np.diag(own) + noise)
            lacking = (partner >= 0) & ~taken[partner]
            cost = seconds + np.where(lacking, seconds[partner], 0.0)
            worth = np.where(taken | (spent + cost > limit_s), -1.0, gains / cost)
            best = int(np.argmax(worth))
            if worth[best] <= _FULL * ratio:
                break
            for k in [best, int(partner[best])] if lacking[best] else [best]:
                gained += float((with_programs[k] ** 2).sum() / (own[k, k] + noise[k]))
                spent += float(seconds[k])
                share = own[:, k] / (own[k, k] + noise[k])
                with_programs = with_programs - share[:, None] * with_programs[k]
                own = own - share[:, None] * own[k]
                taken[k] = True
                chosen.append(order[k])
            ratio = max(ratio, gained / spent)
        return Choice(at=tuple(chosen), seconds=spent, gain=gained) if chosen else None


def best_visit(
    situation: Situation, sets: Sequence[Sequence[int]], twins: Mapping[int, int], costs: Costs, limit_s: float
) -> Choice | None:
    """The visit with the largest gain for its time that takes at most `limit_s`.

    A visit takes longer than `LONGEST_S` only where its set takes long to open.
    """
    joint = situation.slopes @ situation.covariance
    choices = [
        situation.grown(at, joint, twins, costs, setup, min(limit_s, max(LONGEST_S, 2 * setup)))
        for at, setup in zip(sets, costs.sets.tolist(), strict=True)
        if at
    ]
    known = [choice for choice in choices if choice is not None]
    return max(known, key=lambda choice: choice.gain / choice.seconds, default=None)
