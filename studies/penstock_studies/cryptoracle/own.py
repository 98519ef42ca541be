"""CryptOracle's prediction study on this machine's own measurements: all models, our programs, no published value."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.base.types import Row, Rows
from penstock.errors import CapabilityMissing, PenstockError, UsageError
from penstock.lab.fit.measurements import Measurement
from penstock.lab.prediction.importers import load, newest_results
from penstock.lab.prediction.models import Fit, Model, predictable
from penstock.lab.prediction.validation.compared import models
from penstock_studies.cryptoracle.counts import MEASURED
from penstock_studies.cryptoracle.data import PredictedApplication, Priced
from penstock_studies.cryptoracle.predictions import HERE, error_rows, point_rows
from penstock_studies.cryptoracle.tables import row

GROUPS = ("primitives", "micro")
"""The measurements that a run must have."""


def own_rows(results: Path | None) -> Rows:
    """Rows of figure 9 from a run folder of `penstock bench run`, or from the newest one.

    Without anything to predict, or a basis for predictions, one row names the missing part and how to get it. The other
    rows of the study do not depend on it.
    """
    if results is None:
        try:
            results = newest_results(groups=GROUPS)
        except CapabilityMissing as error:
            return [_missing(str(error))]
    try:
        measured = load(results)
    except UsageError as error:
        return [_missing(str(error))]
    programs = [m for m in measured if m.group != "primitives" and predictable(m)]
    if not programs or len(programs) == len(measured):
        held = " and ".join(sorted({m.group for m in measured}))
        return [_missing(f"{results} holds {held} only; 'penstock bench run' a suite with primitives and micro")]
    points = own_points(measured, programs)
    return [*point_rows(points), *error_rows(points, MEASURED)]


def own_points(measured: Sequence[Measurement], programs: Sequence[Measurement]) -> list[PredictedApplication]:
    """A point for each program that was measured. All models see the primitives only."""
    primitives = [m for m in measured if m.group == "primitives"]
    fits = models()
    additive, ours, regression = (_fitted(fits[n], primitives) for n in ("additive", "penstock", "log-quadratic"))
    return [
        PredictedApplication(
            vendor=HERE,
            name=m.item,
            params=m.params,
            threads=m.threads,
            seconds=m.seconds,
            joules=m.joules,
            runs=m.runs,
            size=m.size or "",
            additive=_predicted(additive, m),
            ours=_predicted(ours, m),
            regression=_predicted(regression, m),
        )
        for m in sorted(programs, key=lambda m: (m.item, m.params.ring_dim, m.params.depth, m.threads))
    ]


def _fitted(fit: Fit, primitives: Sequence[Measurement]) -> Model | str:
    try:
        return fit(primitives)
    except PenstockError as error:
        return str(error)


def _predicted(model: Model | str, measurement: Measurement) -> Priced | str:
    if isinstance(model, str):
        return model
    try:
        predicted = model.predict(measurement)
    except PenstockError as error:
        return str(error)
    return Priced(
        seconds=predicted.seconds,
        joules=None,
        by_operation={},
        joules_by_operation={},
        low_s=predicted.low,
        high_s=predicted.high,
    )


def _missing(note: str) -> Row:
    return row("figure9.missing", "figure9-errors", "runtime", note, unit="s", policy=MEASURED)
