"""The distance of predictions from measurements, by hold-out protocol, model and application.

An error is predicted / measured - 1. Tables hold its mean, median, 90th percentile and worst absolute value, its signed
mean (`bias`), the share of measurements inside the 90 % interval (`coverage90`), and the kind of the times
(`statistic`). Errors are never averaged geometrically: that hides the large ones.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from penstock.base.types import Row, Rows
from penstock.errors import PenstockError
from penstock.lab.fit.measurements import MEDIAN, Measurement, statistic_of
from penstock.lab.prediction.models import NORMAL_90, Estimate, Fit, Model, served
from penstock.lab.prediction.validation.baselines import FREE, fit_paper
from penstock.lab.prediction.validation.compared import models
from penstock.lab.prediction.validation.protocols import ALL, COMBINATION, Fold, Given, Protocol
from penstock.lab.prediction.validation.statistics import AUTO, Cuts, label
from penstock.scheme.machines.calibration import operation_class
from penstock.scheme.operations import OpKind
from penstock.scheme.work.shapes import Shape

PAPER = "paper"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One held-out measurement and its prediction."""

    protocol: str
    model: str
    measurement: Measurement
    held_out: str
    where: str | None
    estimate: Estimate
    statistic: str = MEDIAN
    """The kind of the predicted time; `A for B` if the model was fitted to another kind."""

    @property
    def error(self) -> float:
        """Predicted / measured - 1."""
        return self.estimate.seconds / self.measurement.seconds - 1

    def applications(self) -> list[str]:
        """The rows of a table that it counts in."""
        m = self.measurement
        if m.group != "primitives":
            names = [ALL, f"{ALL}/threads={m.threads}", m.item, f"{m.item}/threads={m.threads}"]
        else:
            names = [ALL, m.item, *([operation_class(m.shape.kind)] if m.shape is not None else [])]
        if self.where == COMBINATION:  # there is no other part to tell it from
            names.append(COMBINATION)
        elif self.where is not None:
            names += [self.where, *(f"{name}/{self.where}" for name in names if name != ALL and "=" not in name)]
        return names


@dataclass(slots=True)
class Validation:
    """Every scored point, and what could not be scored and why."""

    points: list[Scored] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def rows(self) -> Rows:
        """One row a model, protocol and application, in the order of the protocols; `all` is first."""
        groups: dict[tuple[str, str, str], list[Scored]] = defaultdict(list)
        for point in self.points:
            for application in point.applications():
                groups[point.protocol, point.model, application].append(point)
        protocols = list(dict.fromkeys(point.protocol for point in self.points))
        names = list(models())
        order = sorted(groups, key=lambda k: (protocols.index(k[0]), rank(k[2]), k[2], names.index(k[1])))
        return [
            {"model": model, "protocol": protocol, "application": application, **statistics_of(groups[key])}
            for key in order
            for protocol, model, application in [key]
        ]

    def error_of(self, model: str, protocol: str) -> float | None:
        """Mean absolute error of a model over all that a protocol held out; `None` where nothing was scored."""
        errors = [abs(p.error) for p in self.points if p.model == model and p.protocol == protocol]
        return statistics.fmean(errors) if errors else None

    def why_not(self, model: str, protocol: str) -> list[str]:
        """The measurements that a protocol misses, and the failures of a model in it."""
        heads = (f"{protocol}: ", f"{protocol}, {model}: ")
        return [text.partition(": ")[2] for text in self.warnings if text.startswith(heads)]


def rank(application: str) -> int:
    """All, its parts, classes of operations, then single items."""
    if application == ALL:
        return 0
    head = application.split("/")[0]
    if head in (ALL, "interior", "edge", "combination"):
        return 1
    return 2 if head in ("key-switching", "element-wise") else 3


def statistics_of(points: Sequence[Scored]) -> Row:
    """The columns of a row; `coverage90` is `None` where a model states no interval."""
    errors = np.asarray([point.error for point in points])
    size = np.abs(errors)
    held = [point.estimate.holds(point.measurement.seconds) for point in points]
    known = [h for h in held if h is not None]
    return {
        "statistic": " and ".join(sorted({point.statistic for point in points})),
        "n": len(points),
        "mean_abs_error": float(size.mean()),
        "median_abs_error": float(np.median(size)),
        "p90_abs_error": float(np.percentile(size, 90)),
        "worst_abs_error": float(size.max()),
        "bias": float(errors.mean()),
        "coverage90": sum(known) / len(known) if known else None,
    }


def validate(
    given: Given,
    protocols: Mapping[str, Protocol],
    fits: Mapping[str, Fit],
    on_step: Callable[[int, int], None] = lambda done, total: None,
    statistic: str = AUTO,
) -> Validation:
    """Every protocol with every model. A protocol or model for which there is too little leaves a warning.

    Two folds that are fitted to the same measurements share the fit.

    Args:   on_step(done, total): called after each protocol with each model; statistic: one of
            `penstock.lab.prediction.validation.statistics.STATISTICS`.
    Raises: UnknownName: another one.
    """
    cuts = Cuts(given, statistic)
    scores, steps = Validation(), 0
    fitted: dict[tuple[str, tuple[int, ...]], Model | PenstockError] = {}
    for protocol, cut_by in protocols.items():
        cut = cuts.of(protocol, cut_by)
        scores.warnings += [f"{protocol}: {warning}" for warning in cut.warnings]
        for name, fit in fits.items():
            chosen = fit_paper if (protocol, name) == (PAPER, "additive") else fit
            misses = _Misses(defaultdict(list), defaultdict(list))
            for fold in cut.folds:
                key = (f"{name} {chosen.__name__}", tuple(id(m) for m in fold.train))
                if key not in fitted:
                    fitted[key] = _fitted(chosen, fold.train)
                model = fitted[key]
                if isinstance(model, PenstockError):
                    misses.fits[str(model)].append(fold.held_out)
                else:
                    scores.points += _scored(protocol, name, fold, model, misses)
            for why, names in misses.fits.items():
                scores.warnings.append(f"{protocol}, {name}: no fit without {_listed(names)}: {why}")
            for why, names in misses.points.items():
                text = f"{len(names)} measurements left out ({_listed(names)}): {why}"
                scores.warnings.append(f"{protocol}, {name}: {text}")
            steps += 1
            on_step(steps, len(protocols) * len(fits))
    return scores


def _fitted(fit: Fit, train: Sequence[Measurement]) -> Model | PenstockError:
    try:
        return fit(train)
    except PenstockError as error:
        return error


def _scored(protocol: str, name: str, fold: Fold, model: Model, misses: _Misses) -> Iterable[Scored]:
    try:
        used = Rescaled.by(model, fold.anchors) if fold.anchors else model
    except PenstockError as error:
        misses.fits[str(error)].append(fold.held_out)
        return
    fitted = statistic_of(m for m in fold.train if m.group == "primitives")
    for m in fold.test:
        try:
            estimate = used.predict(m)
        except PenstockError as error:
            misses.points[str(error)].append(m.item)
            continue
        yield Scored(
            protocol=protocol,
            model=name,
            measurement=m,
            held_out=fold.held_out,
            where=fold.where,
            estimate=estimate,
            statistic=label(fitted, m.statistic),
        )


class _Misses(NamedTuple):
    """The failures of one model in one protocol: reason -> what it hit."""

    fits: dict[str, list[str]]
    points: dict[str, list[str]]


def _listed(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(names))
    more = f" and {len(distinct) - 3} more" if len(distinct) > 3 else ""
    return ", ".join(distinct[:3]) + more


# Another machine's model.


@dataclass(slots=True)
class Rescaled:
    """A model of another machine, times one factor for each class of operations.

    The cost of a program beyond its operations as timed (cold caches, the client) takes the joint factor of all
    anchors.
    """

    model: Model
    factors: Mapping[str, float]
    default: float
    disagreement: float
    """Standard deviation of the logarithms of the anchors' own factors around that of their class: it widens the
    model's interval."""

    @classmethod
    def by(cls, model: Model, anchors: Sequence[Measurement]) -> Rescaled:
        """The factors that meet a few primitives of this machine: the mean of log(measured / predicted).

        Raises: PenstockError: the model predicts none of them.
        """
        ratios: dict[str, list[float]] = defaultdict(list)
        for m in anchors:
            assert m.shape is not None
            ratios[operation_class(m.shape.kind)].append(math.log(m.seconds / model.predict(m).seconds))
        factors = {name: math.exp(statistics.fmean(logs)) for name, logs in ratios.items()}
        every = [log for logs in ratios.values() for log in logs]
        rest = sum((log - math.log(factors[name])) ** 2 for name, logs in ratios.items() for log in logs)
        freedom = max(len(every) - len(ratios), 1)
        return cls(model, factors, math.exp(statistics.fmean(every)), math.sqrt(rest / freedom))

    def predict(self, measurement: Measurement) -> Estimate:
        if measurement.shape is not None:
            return self._widened(self.model.predict(measurement).times(self._factor(measurement.shape)))
        whole = self.model.predict(measurement)
        operations = scaled = 0.0
        for shape, count in served(measurement).counts.items():
            if shape.kind in FREE:
                continue
            seconds = count * self.model.predict(_alone(measurement, shape)).seconds
            operations += seconds
            scaled += seconds * self._factor(shape)
        besides = max(whole.seconds - operations, 0.0) * self.default
        return self._widened(whole.times((scaled + besides) / whole.seconds))

    def _widened(self, estimate: Estimate) -> Estimate:
        if estimate.low is None or estimate.high is None:
            return estimate
        own = NORMAL_90 * self.disagreement
        low = math.exp(-math.hypot(math.log(estimate.seconds / estimate.low), own))
        high = math.exp(math.hypot(math.log(estimate.high / estimate.seconds), own))
        return Estimate(estimate.seconds, estimate.seconds * low, estimate.seconds * high)

    def _factor(self, shape: Shape) -> float:
        return self.factors.get(operation_class(shape.kind), self.default)


def _alone(program: Measurement, shape: Shape) -> Measurement:
    """One operation of a program, as if it had been timed."""
    return replace(program, item=OpKind(shape.kind).value, group="primitives", shape=shape, size=None)
