"""The plots of a comparison, as plain data for `drawing`; a run has one colour, symbol and pattern in all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from penstock.reports.numbers import seconds
from penstock.reports.plots import IDEAL_80, PATTERNS, SYMBOLS, Figure, colour, frame, label, plain_axis


def _layout(x: Figure, y: Figure, **more: object) -> Figure:
    return {
        **frame(x, y),
        "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0, "xanchor": "left"},
        "showlegend": False,
        **more,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def bars(values: Sequence[tuple[str, float]], axis: str) -> Figure:
    """Horizontal bars, one a run, the first on top."""
    names, found = [label(name) for name, _ in values], [value for _, value in values]
    return {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "x": [_rounded(v) for v in found],
                "y": list(range(len(names))),
                "text": [seconds(v) for v in found],
                "textposition": "outside",
                "cliponaxis": False,
                "marker": {"color": [colour(i) for i in range(len(names))]},
                "hoverinfo": "text",
            }
        ],
        "layout": _layout(
            plain_axis(axis, tickformat="~s", ticksuffix="s", range=[0, max(found, default=0.0) * 1.22 or 1.0]),
            plain_axis("", tickvals=list(range(len(names))), ticktext=names, autorange="reversed"),
        ),
    }


def grouped(kinds: Sequence[str], runs: Sequence[tuple[str, Mapping[str, float]]]) -> Figure:
    """Horizontal bars of seconds, a group for each kind, a bar for each run."""
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": label(name),
            "y": [label(kind) for kind in kinds],
            "x": [_rounded(found.get(kind)) for kind in kinds],
            "marker": {
                "color": colour(i),
                "pattern": {"shape": PATTERNS[i % len(PATTERNS)], "fillmode": "overlay", "solidity": 0.25, "size": 7},
            },
            "hovertemplate": "%{y}: %{x:.4s}s<extra>%{fullData.name}</extra>",
        }
        for i, (name, found) in enumerate(runs)
    ]
    x = plain_axis("Total time (s)", tickformat="~s", ticksuffix="s")
    y = plain_axis("", type="category", autorange="reversed")
    return {"data": data, "layout": _layout(x, y, barmode="group", showlegend=True)}


def dots(points: Sequence[tuple[str, str]], runs: Sequence[tuple[str, Mapping[tuple[str, str], float]]]) -> Figure:
    """Dots on a logarithmic axis: a row for each (machine, tier), a symbol for each run."""
    top = max([2.0, *(v for _, found in runs for v in found.values() if math.isfinite(v))]) * 1.25
    ticks = [m * 10.0**e for e in range(math.ceil(math.log10(top)) + 1) for m in (1, 2, 5) if m * 10.0**e <= top]
    data = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": label(name),
            "y": list(range(len(points))),
            "x": [_rounded(found.get(point)) for point in points],
            "marker": {
                "color": colour(i),
                "symbol": SYMBOLS[i % len(SYMBOLS)],
                "size": 12,
                "line": {"color": "@@bg", "width": 1},
            },
            "hovertemplate": "%{fullData.name}: %{x:.4g}×<extra></extra>",
        }
        for i, (name, found) in enumerate(runs)
    ]
    x = plain_axis(
        "Slowdown against ideal memory (×, log)",
        type="log",
        range=[-0.03, math.log10(top)],
        tickvals=ticks,
        ticktext=[f"{tick:g}×" for tick in ticks],
    )
    y = plain_axis(
        "", tickvals=list(range(len(points))), ticktext=[label(f"{m}, {t}") for m, t in points], autorange="reversed"
    )
    line = {
        "type": "line", "x0": IDEAL_80, "x1": IDEAL_80, "y0": 0, "y1": 1, "yref": "paper",
        "line": {"color": "@@muted", "width": 1.5, "dash": "dash"},
    }  # fmt: skip
    return {"data": data, "layout": _layout(x, y, showlegend=True, shapes=[line])}
