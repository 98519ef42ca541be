"""CryptOracle's figures 5 to 11 as pictures: of this machine's `bench run`, of the models' errors, of the artifact.

Published medians have marks, and predictions are dashed.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from penstock.base.system.drawing import SYMBOLS, Axis, Panel, Picture, Series, bars, write_figures
from penstock.base.system.palette import NAMES
from penstock.base.types import RowView
from penstock_studies.cryptoracle.data import PredictedApplication, Priced
from penstock_studies.cryptoracle.errors import errors
from penstock_studies.cryptoracle.figures import PRIMITIVES, FigurePoint
from penstock_studies.cryptoracle.predictions import pairs
from penstock_studies.cryptoracle.tables import is_default

MODELS = {"additive": "calibrated", "penstock": "first_principles", "log-quadratic": "regression"}
"""Name of a model -> its column."""
_SWEEP = re.compile(r"^(figure[578])\.(\w+)\.(.+)\.threads(\d+)\.runtime$")
_GAIN = re.compile(r"^figure11\.gain\.(\w+)\.d(\d+)-over-d(\d+)\.t(\d+)\.runtime$")
TITLES = {
    "figure5": "Primitives, N = 2^16, depth 10",
    "figure7": "Microbenchmarks, N = 2^16, depth 10",
    "figure8": "Matrix products, depth 10",
    "figure11": "Rectangular product over algorithm 5",
}
THREADS = "threads inside one operation"


def draw_measured(points: Sequence[FigurePoint], folder: Path) -> list[Path]:
    """One SVG for each figure, and for each of its quantities, that has points. Raises: FileError: the disk."""
    figures: dict[str, Picture] = {}
    for figure, quantity in sorted({(p.figure, p.quantity) for p in points}):
        own = [p for p in points if (p.figure, p.quantity) == (figure, quantity)]
        names = sorted({p.line for p in own}, key=_order)
        lines = [_line(i, name, sorted((p.x, p.value) for p in own if p.line == name)) for i, name in enumerate(names)]
        ticks = sorted({p.x for p in own})
        texts = [f"2^{x.bit_length() - 1}" if figure == "figure8" else str(x) for x in ticks]
        is_time = quantity == "runtime"
        shown = "time of a call, median" if is_time else f"{quantity} a call [{own[0].unit}]"
        x = Axis("ring dimension N" if figure == "figure8" else THREADS, log=True, ticks=ticks, names=texts)
        y = Axis(f"{shown} (measured here)", "s" if is_time else "", log=all(p.value > 0 for p in own))
        subject = TITLES.get(figure, TITLES["figure5"]).partition(",")[0]
        title = f"{subject}: CryptOracle's figure {figure[-1]} on this machine"
        name = figure if is_time else f"{figure}-{re.sub('[^0-9A-Za-z]', '-', quantity)}"
        figures[name] = Picture([Panel(lines, x, y, title)], width=640, height=400)
    return write_figures(figures, folder)


def _line(number: int, name: str, points: Iterable[tuple[float, float]], dash: str | None = "solid") -> Series:
    """Points, with a mark and joined; with marks only without a dash; with a line only where it is not solid."""
    x, y = ([*side] for side in zip(*points, strict=True))
    mark = SYMBOLS[number % len(SYMBOLS)] if dash in (None, "solid") else ""
    return Series(x, y, name, NAMES[number % len(NAMES)], mark, dash)


def _order(name: str) -> tuple[int, str]:
    return (PRIMITIVES.index(name) if name in PRIMITIVES else len(PRIMITIVES), name)


def draw_predictions(points: Sequence[PredictedApplication], folder: Path) -> list[Path]:
    """SVG files: errors against threads, predicted against measured time, and shares of operations.

    Raises: FileError: the disk.
    """
    shares = _shares([p for p in points if is_default(p)])
    drawn = {"figure9-errors": _errors(points), "figure9-correlation": _correlation(points), "figure10": shares}
    return write_figures(drawn, folder)


def _errors(points: Sequence[PredictedApplication]) -> Picture | None:
    """Figure 9(a): mean |error| against threads, a panel for each model."""
    threads = sorted({p.threads for p in points})
    x, y = Axis(THREADS, names=[str(count) for count in threads]), Axis("mean |error| of the runtime [%]")
    panels = []
    for model, column in MODELS.items():
        lines = []
        for i, name in enumerate(sorted({p.name for p in points})):
            own = [[p for p in points if (p.name, p.threads) == (name, count)] for count in threads]
            of_all = [errors(pairs(of_vendor, column, "runtime")) for of_vendor in own]
            known = [(at, 100 * error["mean_abs_error"]) for at, error in enumerate(of_all) if error]
            lines += [_line(i, name, known)] if known else []
        panels.append(Panel(lines, x, y, model))
    title = "CryptOracle's figure 9(a), from its data"
    return Picture(panels, title, columns=3, width=420, same="y") if threads else None


def _correlation(points: Sequence[PredictedApplication]) -> Picture | None:
    """Figure 9(b) as points: predicted against measured."""
    panels, ends = [], [math.inf, 0.0]
    x, y = Axis("measured (the paper's data)", "s", True), Axis("predicted", "s", True)
    for model, column in MODELS.items():
        dots = []
        for i, name in enumerate(sorted({p.name for p in points})):
            both = pairs([p for p in points if p.name == name], column, "runtime")
            if both:
                ends = [min(ends[0], *map(min, both)), max(ends[1], *map(max, both))]
                dots.append(_line(i, name, both, None))
        panels.append(Panel(dots, x, y, model))
    equal = Series(ends, ends, "", "muted", dash="solid")
    panels = [replace(panel, series=[equal, *panel.series]) for panel in panels]
    title = "CryptOracle's figure 9(b), from its data"
    return Picture(panels, title, columns=3, width=420, same="xy") if ends[1] else None


def _shares(points: Sequence[PredictedApplication]) -> Picture | None:
    """Figure 10: the contribution of each operation to the predicted time."""
    priced = {f"{p.name} {model}": p.models[column] for p in points for model, column in MODELS.items()}
    parts = {name: seconds.by_operation for name, seconds in priced.items() if isinstance(seconds, Priced)}
    if not parts:
        return None
    series = []
    for i, operation in enumerate(dict.fromkeys(name for seconds in parts.values() for name in seconds)):
        shares = [100 * seconds.get(operation, 0.0) / sum(seconds.values()) for seconds in parts.values()]
        series.append(bars(shares, operation, NAMES[i % len(NAMES)]))
    title = "CryptOracle's figure 10, 8 threads, N = 2^16, depth 10"
    x, y = Axis(names=list(parts)), Axis("share of the predicted time [%]")
    return Picture([Panel(series, x, y, title, stack=True)], width=760, height=440)


def draw_sweeps(rows: Iterable[RowView], folder: Path) -> list[Path]:
    """SVG files of the artifact's rows, one for each figure and CPU that has rows. Raises: FileError: the disk."""
    curves: dict[str, dict[str, list[tuple[int, RowView]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if match := _SWEEP.match(row["id"]):
            figure, vendor, line, threads = match.groups()
            if figure != "figure5" or line in PRIMITIVES:
                curves[f"{figure}-{vendor}"][line].append((int(threads), row))
        elif match := _GAIN.match(row["id"]):
            vendor, many, few, threads = match.groups()
            curves["figure11"][f"{vendor}: depth {many} over depth {few}"].append((int(threads), row))
    return write_figures({name: _curves(name, lines) for name, lines in sorted(curves.items())}, folder)


def _curves(name: str, lines: Mapping[str, Sequence[tuple[int, RowView]]]) -> Picture:
    """Published medians with marks, and our predictions dashed in the same colour."""
    figure, _, vendor = name.partition("-")
    series = []
    for number, (line, points) in enumerate(sorted(lines.items())):
        for column, dash in (("published", "solid"), ("first_principles", "dash")):
            known = sorted((threads, row[column]) for threads, row in points if row[column] is not None)
            series += [_line(number, line, known, dash)] if known else []
    what, unit = ("times as long", "x") if figure == "figure11" else ("time", "s")
    x = Axis(THREADS, log=True, ticks=sorted({threads for points in lines.values() for threads, _ in points}))
    y = Axis(f"{what} (markers: published; dashed: penstock)", unit, True)
    title = ", ".join(filter(None, (TITLES[figure], vendor)))
    return Picture([Panel(series, x, y, title)], width=640, height=400)
