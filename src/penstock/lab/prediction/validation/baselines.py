"""The models that ours has to beat: CryptOracle's additive one, and a direct log-quadratic regression.

- `additive` (CryptOracle, section on performance prediction): a program takes the sum of its operations' counts times
  the time of each primitive, measured on fresh operands at the same configuration. It scales nothing: where that
  configuration was not measured it takes the nearest one, and an operation costs the same whatever limbs are left.
- `log-quadratic`: for every operation, log time is a quadratic polynomial of log ring dimension, log limbs of the
  operand, log limbs of the chain, log digits and log threads. No kernel work is known to it; where its points do not
  say otherwise, time is proportional to ring dimension and limbs.

An operation that was never timed takes the time of the one that is most like it (`LIKE`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from penstock.base.arrays import Floats
from penstock.base.system import toml
from penstock.errors import MachineError
from penstock.lab.fit.measurements import WARM, Configuration, Measurement
from penstock.lab.prediction.models import (
    NORMAL_90,
    UNKNOWN_CLIENT,
    CannotPredict,
    Estimate,
    Model,
    log_interval,
    served,
)
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.work.shapes import Shape

LIKE: Mapping[str, Sequence[str]] = toml.packaged("penstock.lab.prediction.validation", "alike.toml")
"""Operation -> operations whose time can replace its own, the most similar first."""

Key = TypeVar("Key", bound=Hashable)
FREE = frozenset({"mod_drop"})
"""Operations that neither baseline charges for."""

COMPOSITES = {"bootstrap": "bootstrap", "chebyshev_series": "chebyshev", "chebyshev_function": "chebyshev"}
"""Composite primitives of the benchmark -> their kind in traces."""


def stand_in(kind: str, known: Iterable[str]) -> str:
    """The kind whose time is taken for `kind`: itself, or the likest one that is known.

    Raises: CannotPredict: none of them was timed.
    >>> stand_in("conjugate", ["add", "rotate"])
    'rotate'
    """
    timed_kinds = set(known)
    for candidate in (kind, *LIKE.get(kind, ())):
        if candidate in timed_kinds:
            return candidate
    like = ", ".join(LIKE.get(kind, ()))
    raise CannotPredict(
        f"neither '{kind}' nor an operation like it ({like}) was timed"
        if like
        else f"'{kind}' was not timed, and no operation is like it"
    )


# Additive.


@dataclass(slots=True)
class Additive:
    """Counts times the cost of each fresh primitive. It states no interval."""

    costs: dict[str, dict[Configuration, float]]
    """Kind -> configuration -> seconds."""
    whole: bool = False
    """Price composite calls whole where each was timed at the very configuration; else their expansion."""

    def cost(self, kind: str, where: Configuration) -> float:
        """Seconds of one operation, at the nearest configuration that was timed.

        Raises: CannotPredict: no operation like it was timed.
        """
        if kind in FREE:
            return 0.0
        known = self.costs[stand_in(kind, self.costs)]
        return known[min(known, key=where.distance)]

    def predict(self, measurement: Measurement) -> Estimate:
        _refuse_whole(measurement)
        where = measurement.configuration
        if measurement.shape is not None:
            return Estimate(self.cost(measurement.shape.kind, where))
        return Estimate(math.fsum(n * self.cost(kind, where) for kind, n in self._counts(measurement, where).items()))

    def _counts(self, measurement: Measurement, where: Configuration) -> Mapping[str, int]:
        counted = served(measurement)
        if self.whole:
            composites = [kind for kind in counted.calls if TRAITS[OpKind(kind)].composite]
            if all(where in self.costs.get(kind, {}) for kind in composites):
                return counted.calls
        expanded: dict[str, int] = defaultdict(int)
        for shape, count in counted.counts.items():
            expanded[shape.kind] += count
        return expanded


def _refuse_whole(measurement: Measurement) -> None:
    """Raises: CannotPredict: it is the time of a whole run."""
    if measurement.whole:
        raise CannotPredict(UNKNOWN_CLIENT)


def _additive(measurements: Sequence[Measurement], *, whole: bool) -> Additive:
    best: dict[tuple[str, Configuration], tuple[int, float]] = {}
    for m in measurements:
        kind = COMPOSITES.get(m.item) if m.shape is None else m.shape.kind
        if kind is None or m.group != "primitives" or m.condition != WARM:
            continue
        key, limbs = (kind, m.configuration), m.shape.limbs_in if m.shape else 0
        if key not in best or limbs > best[key][0]:
            best[key] = (limbs, m.seconds)
    if not best:
        raise MachineError("additive: no timed primitive among the measurements; 'penstock bench run --suite fit'")
    costs: dict[str, dict[Configuration, float]] = defaultdict(dict)
    for (kind, where), (_, seconds) in best.items():
        costs[kind][where] = seconds
    return Additive(dict(costs), whole)


def fit_additive(measurements: Sequence[Measurement]) -> Model:
    """The additive model with composites expanded, so that it needs no timing of them.

    Raises: MachineError: no primitive was timed.
    """
    return _additive(measurements, whole=False)


def fit_paper(measurements: Sequence[Measurement]) -> Model:
    """The additive model on the paper's recipe: a composite call is one operation with one cost.

    Raises: MachineError: no primitive was timed.
    """
    return _additive(measurements, whole=True)


# Log-quadratic.

CONDITION = 1e-3
"""A term is taken where at least this share of it is not in the terms before it."""


@dataclass(slots=True)
class Regression:
    """Log seconds as a polynomial of degree 2 at most in scaled variables; as many terms as the points carry.

    The polynomial is added to a fixed power law. The power law alone remains for a variable that the points do not
    vary.
    """

    powers: Floats
    """(v,) exponents of that power law."""
    middle: Floats
    half: Floats
    terms: list[tuple[int, ...]]
    """Each the variables whose product it is; `()` is the constant."""
    weights: Floats
    spread: float | None
    """Standard deviation of the residuals; `None` where no point is left over."""
    inverse: Floats
    freedom: int

    @classmethod
    def fit(cls, points: Floats, log_seconds: Floats, powers: Sequence[float] | None = None) -> Regression:
        """Least squares. points: (n, v) variables, logarithms to base 2; log_seconds: (n,); powers: default 0."""
        power_law = np.zeros(points.shape[1]) if powers is None else np.asarray(powers, dtype=np.float64)
        low, high = points.min(axis=0), points.max(axis=0)
        middle, half = (low + high) / 2, np.where(high > low, (high - low) / 2, 1.0)
        scaled = (points - middle) / half
        terms = _terms(scaled)
        design = _design(scaled, terms)
        left = log_seconds - math.log(2) * (points @ power_law)
        weights: Floats = np.asarray(np.linalg.lstsq(design, left, rcond=None)[0], dtype=np.float64)
        inverse: Floats = np.asarray(np.linalg.pinv(design.T @ design), dtype=np.float64)
        freedom = len(points) - len(terms)
        residual = left - design @ weights
        spread = math.sqrt(float(residual @ residual) / freedom) if freedom > 0 else None
        return cls(power_law, middle, half, terms, weights, spread, inverse, freedom)

    def at(self, point: Floats) -> tuple[float, float | None]:
        """Seconds, and the standard deviation of their logarithm that gives the 90 % prediction interval."""
        row = _design(((point - self.middle) / self.half)[None, :], self.terms)[0]
        seconds = math.exp(min(math.log(2) * float(point @ self.powers) + float(row @ self.weights), 700.0))
        if self.spread is None:
            return seconds, None
        from scipy.stats import t as student  # slow to import

        width = float(student.ppf(0.95, self.freedom)) * self.spread * math.sqrt(1 + float(row @ self.inverse @ row))
        return seconds, width / NORMAL_90


def _terms(scaled: Floats) -> list[tuple[int, ...]]:
    """Constant, then linear terms, then squares, then products; at most half as many terms beyond linear as points."""
    n, variables = scaled.shape
    values = [len(np.unique(np.round(scaled[:, v], 9))) for v in range(variables)]
    linear = [(v,) for v in range(variables) if values[v] > 1]
    squares = [(v, v) for v in range(variables) if values[v] > 2]
    products = [(v, w) for v in range(variables) for w in range(v + 1, variables) if min(values[v], values[w]) > 1]
    taken: list[tuple[int, ...]] = [()]
    basis = [np.ones(n) / math.sqrt(n)]
    for term in (*linear, *squares, *products):
        if len(taken) >= (n if len(term) == 1 else n // 2):
            continue
        column = _design(scaled, [term])[:, 0]
        size = float(np.linalg.norm(column))
        rest = column - sum((float(column @ b) * b for b in basis), start=np.zeros(n))
        if size > 0 and float(np.linalg.norm(rest)) > CONDITION * size:
            taken.append(term)
            basis.append(rest / np.linalg.norm(rest))
    return taken


def _design(scaled: Floats, terms: Sequence[tuple[int, ...]]) -> Floats:
    return np.stack([np.prod(scaled[:, list(term)], axis=1) for term in terms], axis=1)


POWERS = (1.0, 1.0, 0.0, 0.0, 0.0)
"""The default dependence of time where the points do not decide: ring dimension, limbs of the operand and of the chain,
digits, threads."""


def _variables(params: CkksParameters, threads: int, limbs: int) -> Floats:
    return np.log2(np.asarray([params.ring_dim, max(limbs, 1), params.num_q, params.dnum, threads], dtype=np.float64))


KNOWN_PROGRAM = 3
"""From so many configurations of a program on, its own times are regressed; below, its operations are added up."""


@dataclass(slots=True)
class LogQuadratic:
    """One regression for each operation, and for each program that was timed at several configurations."""

    operations: dict[str, Regression]
    programs: dict[tuple[str, str | None], Regression]

    def operation(self, shape: Shape, params: CkksParameters, threads: int) -> tuple[str, float, float | None]:
        """(kind whose times were taken, seconds, standard deviation of their logarithm).

        Raises: CannotPredict: no operation like it was timed.
        """
        kind = stand_in(shape.kind, self.operations)
        return kind, *self.operations[kind].at(_variables(params, threads, shape.limbs_in))

    def predict(self, measurement: Measurement) -> Estimate:
        _refuse_whole(measurement)
        params, threads = measurement.params, measurement.threads
        if measurement.shape is not None:
            _, seconds, sd = self.operation(measurement.shape, params, threads)
            return log_interval(seconds, sd)
        own = self.programs.get((measurement.item, measurement.size))
        if own is not None:
            return log_interval(*own.at(_variables(params, threads, params.num_q)))
        seconds_of: dict[str, float] = defaultdict(float)
        width_of: dict[str, float] = defaultdict(float)
        bounded = True
        for shape, count in served(measurement).counts.items():
            if shape.kind in FREE:
                continue
            kind, seconds, sd = self.operation(shape, params, threads)
            rescale = self.operations.get("rescale")
            if shape.implied_rescales and rescale is not None:
                above = min(shape.limbs_in + 1, params.num_q)
                seconds += shape.implied_rescales * rescale.at(_variables(params, threads, above))[0]
            seconds_of[kind] += count * seconds
            width_of[kind] += count * seconds * (sd or 0.0)
            bounded &= sd is not None
        total = sum(seconds_of.values())
        # Errors of one regression are common to all its prices; errors of two regressions are independent.
        sd = math.sqrt(sum(width**2 for width in width_of.values())) / total if bounded and total else None
        return log_interval(total, sd)


def fit_log_quadratic(measurements: Sequence[Measurement]) -> Model:
    """One least-squares regression for each kind of operation, and for each program with times enough.

    Raises: MachineError: no primitive was timed.
    """
    programs = _regressions(
        (((m.item, m.size), m, m.params.num_q) for m in measurements if m.group != "primitives"), least=KNOWN_PROGRAM
    )
    return LogQuadratic(fit_operations(measurements).operations, programs)


def fit_operations(measurements: Sequence[Measurement]) -> LogQuadratic:
    """One least-squares regression for each kind of operation; programs are added up.

    Raises: MachineError: no primitive was timed.
    """
    operations = _regressions(
        ((m.shape.kind, m, m.shape.limbs_in) for m in measurements if m.shape and m.condition == WARM), least=1
    )
    if not operations:
        raise MachineError("log-quadratic: no timed primitive among the measurements; 'penstock bench run --suite fit'")
    return LogQuadratic(operations, {})


def _regressions(rows: Iterable[tuple[Key, Measurement, int]], *, least: int) -> dict[Key, Regression]:
    """A regression of each key's rows (key, measurement, limbs of the operand) that has at least so many."""
    points_of: dict[Key, list[tuple[Floats, float]]] = defaultdict(list)
    for key, m, limbs in rows:
        points_of[key].append((_variables(m.params, m.threads, limbs), math.log(m.seconds)))
    return {
        key: Regression.fit(np.stack([point for point, _ in points]), np.asarray([log for _, log in points]), POWERS)
        for key, points in points_of.items()
        if len(points) >= least
    }
