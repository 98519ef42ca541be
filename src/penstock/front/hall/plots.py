"""Pictures of rows: bars over names, lines over numbers, one colour a series."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.base.system.palette import COLOURS, GRID, MARKERS, tier_colours
from penstock.base.types import Row
from penstock.base.units import format_named, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOGARITHMIC = 20.0
"""Values that reach over more than this factor are drawn on a logarithmic axis."""
MOST_NAMED = 3
"""Rows without a value that a picture names."""
SLANTED = 8
"""Characters from which names below the bars are slanted."""


def draw(rows: Sequence[Row], x: str, y: str, by: str | None, apart: Sequence[str], ax: Axes | None) -> Axes:
    """`y` over `x` on matplotlib axes: lines where `x` is a number that several rows of a series have, bars elsewhere.

    Args:   by: the column of the series; apart: without `by`, the columns whose values together name it.
    """
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots(figsize=(7.2, 4.0), layout="constrained")
    series: dict[str, list[tuple[object, float]]] = {}
    gone: dict[str, None] = {}
    for row in rows:
        name = (
            str(row.get(by)) if by is not None else ", ".join(format_named(column, row.get(column)) for column in apart)
        )
        if isinstance(row.get(y), int | float) and row.get(x) is not None:
            series.setdefault(name, []).append((row[x], float(row[y])))
        else:
            gone[", ".join(filter(None, (name, format_named("", row.get(x)))))] = None
    paint = [COLOURS[i % len(COLOURS)] for i in range(len(series))]
    if by == "tier":
        paint = [COLOURS[index] for index in tier_colours(series).values()]
    across = [value for points in series.values() for value, _ in points]
    numbers = [value for value in across if isinstance(value, int | float)]
    if len(numbers) == len(across) and any(len(points) > 1 for points in series.values()):
        for i, (name, points) in enumerate(series.items()):
            mark = MARKERS[i % len(MARKERS)]
            ax.plot(*zip(*sorted(points), strict=True), label=name, color=paint[i], marker=mark)
        _logarithmic(ax.set_xscale, numbers)
    else:
        _bars(ax, series, paint)
    ax.set_xlabel("\n".join([_axis(x), *_not_drawn(y, list(gone))]))
    ax.set_ylabel(_axis(y))
    heights = [value for points in series.values() for _, value in points]
    if _logarithmic(ax.set_yscale, heights) and ax.patches:
        # Bars of a logarithmic axis begin at a power of ten: of a slowdown at 1, the ideal.
        ax.set_ylim(bottom=10.0 ** math.floor(math.log10(min(heights))))
    ax.grid(axis="y", which="both", color=GRID)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    if len(series) > 1:
        ax.legend(frameon=False, fontsize="small")
    return ax


def _bars(ax: Axes, series: dict[str, list[tuple[object, float]]], paint: Sequence[str]) -> None:
    places = list(dict.fromkeys(format_named("", value) for points in series.values() for value, _ in points))
    width = 0.8 / max(1, len(series))
    for i, (name, points) in enumerate(series.items()):
        at = [places.index(format_named("", value)) + (i + 0.5) * width - 0.4 for value, _ in points]
        ax.bar(at, [value for _, value in points], width, label=name, color=paint[i])
    slanted = any(len(place) > SLANTED for place in places) and len(places) > 4
    ax.set_xticks(range(len(places)), places, rotation=30 if slanted else 0, ha="right" if slanted else "center")


def _logarithmic(scale: Callable[[str], object], values: Sequence[float]) -> bool:
    wide = bool(values) and min(values) > 0 and max(values) > LOGARITHMIC * min(values)
    if wide:
        scale("log")
    return wide


def _axis(name: str) -> str:
    unit = unit_of(name)
    words = name.removesuffix(f"_{unit.suffix}") if unit is not None else name
    return words.replace("_", " ") + (f" ({unit.sign})" if unit is not None else "")


def _not_drawn(y: str, gone: Sequence[str]) -> list[str]:
    """A line below the picture about rows without a value.

    >>> _not_drawn("total_s", ["ark, hbm", "bts, hbm", "sharp, hbm", "x, hbm"])
    ['not drawn, as no total is known: ark, hbm; bts, hbm; sharp, hbm; 1 more']
    """
    if not gone:
        return []
    more = [f"{len(gone) - MOST_NAMED} more"] if len(gone) > MOST_NAMED else []
    return [f"not drawn, as no {_axis(y).split(' (')[0]} is known: {'; '.join([*gone[:MOST_NAMED], *more])}"]
