"""The plots of a comparison, as plain data for `drawing`; a run has one colour, symbol and pattern in all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.reports.numbers import seconds
from penstock.reports.plots import (
    IDEAL_80,
    Figure,
    colour,
    flat_bars,
    label,
    log_slowdown,
    page_layout,
    plain_axis,
    reference_line,
    rounded,
    si_axis,
    spots,
    symbol_of,
    with_room,
)


def _named_places(names: Sequence[str]) -> Figure:
    """An axis of names, the first on top; names may be equal."""
    return plain_axis("", tickvals=list(range(len(names))), ticktext=names, autorange="reversed")


def bars(values: Sequence[tuple[str, float]], axis: str) -> Figure:
    """Horizontal bars, one a run, the first on top."""
    names, found = [label(name) for name, _ in values], [value for _, value in values]
    places = list(range(len(names)))
    bar = {
        "type": "bar", "orientation": "h", "x": rounded(found), "y": places, "text": [seconds(v) for v in found],
        "marker": {"color": [colour(i) for i in places]},
    }  # fmt: skip
    return {"data": [bar], "layout": page_layout(si_axis(axis, "s", **with_room(found)), _named_places(names))}


def grouped(kinds: Sequence[str], runs: Sequence[tuple[str, Mapping[str, float]]]) -> Figure:
    """Horizontal bars of seconds, a group for each kind, a bar for each run."""
    data = flat_bars(kinds, [(name, [found.get(kind) for kind in kinds]) for name, found in runs])
    x, y = si_axis("Total time (s)", "s"), plain_axis("", type="category", autorange="reversed")
    return {"data": data, "layout": page_layout(x, y, barmode="group", showlegend=True)}


def dots(points: Sequence[tuple[str, str]], runs: Sequence[tuple[str, Mapping[tuple[str, str], float]]]) -> Figure:
    """Dots on a logarithmic axis: a row for each (machine, tier), a symbol for each run."""
    x = log_slowdown(v for _, found in runs for v in found.values())
    y = _named_places([label(f"{machine}, {tier}") for machine, tier in points])
    places = list(range(len(points)))
    data = [
        spots(rounded(found.get(point) for point in points), places, name, symbol_of(i, 12))
        for i, (name, found) in enumerate(runs)
    ]
    return {"data": data, "layout": page_layout(x, y, showlegend=True, **reference_line(IDEAL_80, "", axis="x"))}
