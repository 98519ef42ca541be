"""Still pictures of a validation: predicted against measured, errors by protocol, and the coverage of the intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from penstock.base.system.drawing import Axis, Panel, Picture, Rule, Series, write_figures
from penstock.base.system.palette import NAMES
from penstock.base.types import Row
from penstock.lab.prediction.models import LEVEL
from penstock.lab.prediction.validation.compared import models
from penstock.lab.prediction.validation.protocols import ALL
from penstock.lab.prediction.validation.scores import Scored, Validation

MARKS = ("circle", "triangle-up", "square", "diamond")
BAND = 0.1
"""Half width of the shaded band around equality."""
LEAST = 1e-4
"""Smaller errors are drawn here."""
COVERAGE = (0.85, 0.95)
"""Coverage of 90 % intervals that counts as calibrated."""


def draw(validation: Validation, folder: Path) -> list[Path]:
    """One SVG each; a picture without points is not written. Raises: FileError: the disk."""
    rows = [row for row in validation.rows() if row["application"] == ALL]
    stated = [row for row in rows if row["coverage90"] is not None]
    drawn = {"predicted-measured": _points(validation.points), "errors": _errors(rows), "coverage": _coverage(stated)}
    return write_figures(drawn, folder)


def _series(model: str, x: Sequence[float], y: Sequence[float], size: float, *, outlined: bool = False) -> Series:
    """Points with the colour and mark that a model has in all pictures."""
    i = list(models()).index(model)
    return Series(x, y, model, NAMES[i], MARKS[i] + ("-open" if outlined else ""), size=size)


def _points(points: Sequence[Scored]) -> Picture | None:
    """One panel a protocol, logarithmic on both axes, with the line of equality and a band of 10 % around it."""
    scored = {point.model for point in points}
    names = [name for name in models() if name in scored]
    panels = []
    for protocol in dict.fromkeys(point.protocol for point in points):
        here = [point for point in points if point.protocol == protocol]
        values = [v for p in here for v in (p.measurement.seconds, p.estimate.seconds) if v > 0]
        ends = [min(values) / 1.3, max(values) * 1.3]
        low, high = ([end * side for end in ends] for side in (1 - BAND, 1 + BAND))
        series = [Series(ends, ends, f"±{BAND:.0%}", "muted", "area", "dash", low=low, high=high)]
        for name in reversed(names):  # ours on top
            pairs = [(p.measurement.seconds, p.estimate.seconds) for p in here if p.model == name]
            series.append(_series(name, [x for x, _ in pairs], [y for _, y in pairs], 5, outlined=name != names[0]))
        x, y = (Axis(title, "s", True, (ends[0], ends[1])) for title in ("measured", "predicted"))
        panels.append(Panel(series, x, y, protocol))
    return Picture(panels, columns=3, width=400, height=360) if panels else None


def _by_protocol(rows: Sequence[Row], column: str, ends: tuple[str, str] | None = None) -> list[Series]:
    """A series for each model: its values of a column near the place of each protocol, with its ends."""
    protocols = list(dict.fromkeys(row["protocol"] for row in rows))
    names = [name for name in models() if any(row["model"] == name for row in rows)]
    series = []
    for i, name in enumerate(names):
        own = [row for row in rows if row["model"] == name]
        aside = (i - (len(names) - 1) / 2) * 0.2
        sides = [[max(row[side], LEAST) for row in own] for side in (column, *(ends or ()))]
        points = _series(name, [protocols.index(row["protocol"]) + aside for row in own], sides[0], 9)
        series.append(replace(points, low=sides[1], high=sides[2]) if ends else points)
    return series


def _errors(rows: Sequence[Row]) -> Picture | None:
    """Mean absolute error by protocol and model, logarithmic; a line reaches from the median to the 90th percentile."""
    series = _by_protocol(rows, "mean_abs_error", ("median_abs_error", "p90_abs_error"))
    y = Axis("mean |error| (line: median to 90th percentile)", "%", True)
    return _figure(rows, series, y, BAND, "Predicted against measured, by hold-out")


def _coverage(rows: Sequence[Row]) -> Picture | None:
    """Share of held-out measurements inside the 90 % interval, for the models that state one."""
    ends, (low, high) = [-0.5, len({row["protocol"] for row in rows}) - 0.5], ([share] * 2 for share in COVERAGE)
    name = f"{COVERAGE[0]:.0%} to {COVERAGE[1]:.0%}"
    band = Series(ends, [None, None], name, "muted", "area", low=low, high=high)
    y = Axis("measurements inside the 90 % interval", "%", ends=(0, 1.03))
    return _figure(rows, [band, *_by_protocol(rows, "coverage90")], y, LEVEL, "Coverage of the intervals, by hold-out")


def _figure(rows: Sequence[Row], series: Sequence[Series], y: Axis, line: float, title: str) -> Picture | None:
    """A figure over the protocols of the rows; `None` without rows. `line`: a value of `y` to look for."""
    x = Axis(names=list(dict.fromkeys(row["protocol"] for row in rows)))
    panel = Panel(series, x, y, title, rules=[Rule("y", line)])
    return Picture([panel], width=max(520, 120 * len(x.names)), height=400) if rows else None
