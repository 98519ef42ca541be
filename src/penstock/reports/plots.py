"""The report's plots, as plain data that `drawing` draws. Colours are named; the page's theme fills them in."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.reports.data import ReportData, Row, is_cached, is_forced, is_streamed, last_by, ordered, sum_by
from penstock.reports.numbers import percent, ratio, seconds, short_size, shortened
from penstock.system.palette import COLOURS, tier_colours

NUM_COLOURS = len(COLOURS)
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "x", "star")
PATTERNS = ("", "/", "x", ".", "-", "+", "\\")
IDEAL_80 = 1.25
"""Slowdown at 80 % of the ideal speed."""

Figure = dict[str, Any]


def colour(index: int) -> str:
    """The name of a colour of the page's palette."""
    return f"@@c{index % NUM_COLOURS}"


def tier_colour(tiers: Iterable[str]) -> dict[str, str]:
    """The colour of each tier, the same in every picture."""
    return {name: colour(index) for name, index in tier_colours(tiers).items()}


def differs(figure: Figure) -> bool:
    """Whether a figure of slowdowns has something to show: values that are one percent apart or more."""
    values = [v for trace in figure["data"] for v in trace["y"] if isinstance(v, int | float)]
    for trace in figure["data"]:
        ends = trace.get("error_y")
        if ends:
            values += [v + more for v, more in zip(trace["y"], ends["array"], strict=True) if v is not None]
            values += [v - less for v, less in zip(trace["y"], ends["arrayminus"], strict=True) if v is not None]
    return bool(values) and max(values) > 1.01 * min(values)


def label(text: Any) -> str:
    """Text of a label, as HTML; a long one is cut."""
    return html.escape(shortened(str(text), 32), quote=False)


def _rounded(values: Iterable[float | None]) -> list[float | None]:
    return [None if v is None or not math.isfinite(v) else float(f"{v:.6g}") for v in values]


def plain_axis(title: str, **more: Any) -> Figure:
    """An axis in the colours of the page."""
    return {
        "title": {"text": title, "standoff": 8},
        "automargin": True,
        "gridcolor": "@@grid",
        "linecolor": "@@line",
        "zerolinecolor": "@@line",
        "ticks": "outside",
        "tickcolor": "@@line",
        **more,
    }


def _si(title: str, unit: str, **more: Any) -> Figure:
    """An axis with SI prefixes before the unit: 10 ms, 100 MB."""
    return plain_axis(title, tickformat="~s", ticksuffix=unit, **more)


def _with_room(values: Iterable[float]) -> Figure:
    """The range of a bar axis from 0 that leaves room for the text at the end of the longest bar."""
    return {"range": [0, max(values, default=0.0) * 1.22 or 1.0], "nticks": 6}


def _log_slowdown(values: Iterable[float], title: str = "Slowdown against ideal memory (×, log)") -> Figure:
    """A logarithmic axis from 1, the ideal, to just above the largest value."""
    top = max([2.0, *(v for v in values if math.isfinite(v))]) * 1.25
    ticks = [m * 10.0**e for e in range(math.ceil(math.log10(top)) + 1) for m in (1, 2, 5) if m * 10.0**e <= top]
    return plain_axis(
        title, type="log", range=[-0.03, math.log10(top)], tickvals=ticks, ticktext=[f"{t:g}×" for t in ticks]
    )


def frame(x: Figure, y: Figure) -> Figure:
    """What the layouts of all plots share: their axes, and the colours of the page."""
    return {
        "xaxis": x,
        "yaxis": y,
        "margin": {"l": 8, "r": 12, "t": 12, "b": 8},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "@@fg", "size": 13, "family": "@@font"},
        "hoverlabel": {"bgcolor": "@@bg", "bordercolor": "@@line", "font": {"color": "@@fg"}},
    }


def _layout(x: Figure, y: Figure, **more: Any) -> Figure:
    return {
        **frame(x, y),
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "@@muted", "activecolor": "@@fg"},
        "legend": {
            "orientation": "h",
            "traceorder": "normal",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "x": 0,
            "xanchor": "left",
        },
        "showlegend": False,
        **more,
    }


def layout(x_title: str, y_title: str) -> Figure:
    """Named places along x, seconds from 0 along y, and a legend."""
    return _layout(plain_axis(x_title, type="category"), _si(y_title, "s", rangemode="tozero"), showlegend=True)


def _line(value: float, text: str, *, axis: str) -> dict[str, list[Figure]]:
    """A dashed reference line at `value` of a logarithmic axis, with its text."""
    along = {"x0": 0, "x1": 1, "xref": "paper", "y0": value, "y1": value, "yref": "y"}
    place = {"x": 1, "xref": "paper", "xanchor": "right", "y": math.log10(value), "yref": "y", "yanchor": "bottom"}
    if axis == "x":
        along = {"y0": 0, "y1": 1, "yref": "paper", "x0": value, "x1": value, "xref": "x"}
        place = {"y": 1, "yref": "paper", "yanchor": "top", "x": math.log10(value), "xref": "x", "xanchor": "left"}
    return {
        "shapes": [{"type": "line", "line": {"color": "@@muted", "width": 1.5, "dash": "dash"}, **along}],
        "annotations": [{"text": text, "showarrow": False, "font": {"size": 11, "color": "@@muted"}, **place}]
        if text
        else [],
    }


def time_by_kind(rows: Sequence[Row]) -> Figure:
    """Horizontal bars: total measured seconds of each kind, the largest on top."""
    totals = sorted(sum_by(rows, lambda r: r["kind"]).items(), key=lambda item: item[1])
    return {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "x": _rounded(v for _, v in totals),
                "y": [label(k) for k, _ in totals],
                "text": [seconds(v) for _, v in totals],
                "textposition": "outside",
                "cliponaxis": False,
                "marker": {"color": "@@c0"},
                "hovertemplate": "%{y}: %{x:.4s}s<extra></extra>",
            }
        ],
        "layout": _layout(
            _si("Total time (s)", "s", **_with_room(v for _, v in totals)), plain_axis("", type="category")
        ),
    }


def time_by_limbs(rows: Sequence[Row]) -> Figure:
    """Stacked bars: total measured seconds at each number of limbs, by the kinds that take most."""
    by_kind = sorted(sum_by(rows, lambda r: r["kind"]).items(), key=lambda item: -item[1])
    named = [kind for kind, _ in by_kind[: NUM_COLOURS if len(by_kind) <= NUM_COLOURS else NUM_COLOURS - 1]]
    groups: list[tuple[str, set[str]]] = [(kind, {kind}) for kind in named]
    rest = {kind for kind, _ in by_kind} - set(named)
    if rest:
        groups.append((f"{len(rest)} other kinds", rest))
    limbs = sorted({row["limbs"] for row in rows})
    data = []
    for i, (name, kinds) in enumerate(groups):
        at = sum_by((r for r in rows if r["kind"] in kinds), lambda r: r["limbs"])
        data.append({
            "type": "bar", "name": label(name), "x": limbs, "y": _rounded(at.get(n, 0.0) for n in limbs),
            "marker": {"color": colour(i), "pattern": {"shape": PATTERNS[i % len(PATTERNS)], "fillmode": "overlay",
                                                       "solidity": 0.25, "size": 7}},
            "hovertemplate": "%{y:.4s}s at %{x} limbs<extra>%{fullData.name}</extra>",
        })  # fmt: skip
    x = plain_axis("Limbs of the ciphertext", tickmode="linear", dtick=max(1, len(limbs) // 12), tickangle=0)
    return {"data": data, "layout": _layout(x, _si("Total time (s)", "s"), barmode="stack", showlegend=True)}


def bytes_by_class(touched: dict[str, float], unique: dict[str, float]) -> Figure:
    """Grouped bars: bytes that all accesses add up to, and bytes of the distinct objects."""
    classes = ordered({*touched, *unique}, ("key", "ciphertext", "plaintext"))
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": [label(c) for c in classes],
            "x": _rounded(values.get(c) for c in classes),
            "cliponaxis": False,
            "text": [short_size(values[c]) if c in values else "" for c in classes],
            "textposition": "outside",
            "marker": {"color": colour(i), "pattern": {"shape": PATTERNS[i], "fillmode": "overlay", "solidity": 0.2}},
            "hovertemplate": "%{y}: %{x:.4s}B<extra>%{fullData.name}</extra>",
        }
        for i, (name, values) in enumerate((("touched, every access", touched), ("distinct objects", unique)))
    ]
    y = plain_axis("", type="category", autorange="reversed")
    x = _si("Bytes (B)", "B", **_with_room([*touched.values(), *unique.values()]))
    return {"data": data, "layout": _layout(x, y, barmode="group", showlegend=True)}


def slowdown_by_tier(data: ReportData, mode: str) -> Figure | None:
    """Dots on a logarithmic axis: every key access from the tier, one symbol a machine."""
    rows = [r for r in data.slowdowns() if r["mode"] in (mode, None) and r["tier"] and is_streamed(r)]
    if not rows:
        return None
    tiers = [t for t in data.tiers() if t in {r["tier"] for r in rows}]
    traces = []
    for i, machine in enumerate(data.machines()):
        at = last_by((r for r in rows if r["machine"] == machine), lambda r: r["tier"])
        shown = [t for t in tiers if t in at]
        if not shown:
            continue
        traces.append({
            "type": "scatter", "mode": "markers", "name": label(machine), "x": _rounded(at[t] for t in shown),
            "y": [label(t) for t in shown],
            "marker": {"color": colour(i), "symbol": SYMBOLS[i % len(SYMBOLS)], "size": 13,
                       "line": {"color": "@@bg", "width": 1}},
            "hovertemplate": "%{fullData.name}, %{y}: %{x:.4g}×<extra></extra>",
        })  # fmt: skip
    x = _log_slowdown(r["value"] for r in rows)
    y = plain_axis(
        "Tier that holds the keys",
        type="category",
        categoryorder="array",
        categoryarray=[label(t) for t in reversed(tiers)],
    )
    return {
        "data": traces,
        "layout": _layout(x, y, showlegend=True, **_line(IDEAL_80, " 80 % of the ideal", axis="x")),
    }


def slowdown_by_hit_ratio(data: ReportData, machine: str, mode: str) -> Figure | None:
    """Lines by tier over the forced hit ratio, with a star where 80 % of the ideal is reached."""
    rows = [
        r
        for r in data.slowdowns()
        if r["machine"] == machine and r["mode"] in (mode, None) and r["tier"] and is_forced(r)
    ]
    if len({r["hit_ratio"] or 0.0 for r in rows}) < 2:
        return None
    needed = last_by((r for r in required_rows(data, mode) if r["machine"] == machine), lambda r: r["tier"])
    traces: list[Figure] = []
    paint = tier_colour(data.tiers())
    for i, tier in enumerate(data.tiers()):
        at = sorted(last_by((r for r in rows if r["tier"] == tier), lambda r: r["hit_ratio"] or 0.0).items())
        if not at:
            continue
        traces.append({
            "type": "scatter", "mode": "lines+markers", "name": label(tier), "legendgroup": label(tier),
            "x": _rounded(h for h, _ in at), "y": _rounded(v for _, v in at),
            "line": {"color": paint[tier], "width": 2},
            "marker": {"color": paint[tier], "symbol": SYMBOLS[i % len(SYMBOLS)], "size": 7},
            "hovertemplate": "%{fullData.name}: %{y:.4g}× at %{x:.1%} hits<extra></extra>",
        })  # fmt: skip
        if 0.0 < needed.get(tier, 0.0) <= 1.0:
            traces.append({
                "type": "scatter", "mode": "markers", "name": label(tier), "legendgroup": label(tier),
                "showlegend": False, "x": _rounded([needed[tier]]), "y": [IDEAL_80],
                "marker": {"color": paint[tier], "symbol": "star", "size": 14, "line": {"color": "@@bg", "width": 1}},
                "hovertemplate": f"%{{fullData.name}}: {percent(needed[tier])} hits give 80 % of the ideal"
                                 "<extra></extra>",
            })  # fmt: skip
    x = plain_axis("Hit ratio of evaluation keys (%)", tickformat=".0%", range=[-0.02, 1.02])
    y = _log_slowdown((r["value"] for r in rows), "Slowdown (×, log)")
    return {"data": traces, "layout": _layout(x, y, showlegend=True, **_line(IDEAL_80, "", axis="y"))}


def slowdown_by_cache(data: ReportData, machine: str, mode: str) -> Figure | None:
    """Lines by tier over the cache size: LRU solid, Belady dashed, the optimum in bytes dotted."""
    rows = [
        r
        for r in data.slowdowns()
        if r["machine"] == machine and r["mode"] in (mode, None) and is_cached(r) and r["cache_bytes"] > 0
    ]
    if not rows:
        return None
    traces: list[Figure] = []
    paint = tier_colour(data.tiers())
    for i, tier in enumerate(data.tiers()):
        for j, policy in enumerate(ordered((r["policy"] for r in rows), POLICIES)):
            at = sorted(
                last_by(
                    (r for r in rows if r["tier"] == tier and r["policy"] == policy), lambda r: r["cache_bytes"]
                ).items()
            )
            if not at:
                continue
            traces.append({
                "type": "scatter", "mode": "lines+markers", "name": label(tier), "legendgroup": label(tier),
                "showlegend": j == 0, "x": [size for size, _ in at], "y": _rounded(v for _, v in at),
                "line": {"color": paint[tier], "width": 2, "dash": ("solid", "dash", "dot", "dashdot")[j % 4]},
                "marker": {"color": paint[tier], "symbol": SYMBOLS[i % len(SYMBOLS)] + ("" if j == 0 else "-open"),
                           "size": 7},
                "hovertemplate": f"%{{fullData.name}}, {label(policy)}: %{{y:.4g}}× with %{{x:.4s}}B<extra></extra>",
            })  # fmt: skip
    sizes = [r["cache_bytes"] for r in rows]
    x = plain_axis("Cache for evaluation keys (B, log)", type="log", **_size_ticks(min(sizes), max(sizes)))
    y = _log_slowdown((r["value"] for r in rows), "Slowdown (×, log)")
    return {"data": traces, "layout": _layout(x, y, showlegend=True)}


def spread(heading: str, found: Sequence[tuple[str, float, float, float, int]]) -> Figure:
    """For each value of an axis a dot at the median, with a line from the least to the largest slowdown.

    Args:   found: (value, least, median, largest, points) of each value, in their order.
    """
    # Cut names may be equal, so places are numbers and names are their ticks.
    places = list(range(len(found)))
    names = [label(value) for value, *_ in found]
    middles = [middle for _, _, middle, _, _ in found]
    trace: Figure = {
        "type": "scatter", "mode": "markers", "x": places, "y": _rounded(middles),
        "marker": {"color": colour(0), "size": 9},
        "error_y": {"type": "data", "symmetric": False, "color": colour(0), "thickness": 1.5, "width": 5,
                    "array": _rounded(high - middle for _, _, middle, high, _ in found),
                    "arrayminus": _rounded(middle - low for _, low, middle, _, _ in found)},
        "customdata": [
            [html.escape(value, quote=False), ratio(low), ratio(high), n] for value, low, _, high, n in found
        ],
        "hovertemplate": "%{customdata[0]}: median %{y:.4g}×, %{customdata[1]} to %{customdata[2]}, "
                         "%{customdata[3]} points<extra></extra>",
    }  # fmt: skip
    x = plain_axis(heading, range=[-0.5, len(found) - 0.5], tickvals=places, ticktext=names)
    y = _log_slowdown((high for _, _, _, high, _ in found), "Slowdown (×, log)")
    return {"data": [trace], "layout": _layout(x, y)}


POLICIES = ("lru", "belady", "optimal")


def _size_ticks(low: int, high: int) -> Figure:
    """Ticks of a logarithmic byte axis: powers of ten, with 2 and 5 between where the axis is short."""
    steps = (1, 2, 5) if high / low < 200 else (1,)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [m * 10**e for e in exponents for m in steps if low / 1.2 <= m * 10**e <= high * 1.2]
    return {"tickvals": ticks, "ticktext": [short_size(t) for t in ticks]}


def required_rows(data: ReportData, mode: str) -> list[Row]:
    """Rows of the hit ratio needed for 80 % of the ideal, of one mode where rows name their mode."""
    rows = [r for r in data.of("hit_ratio_for_80_percent") if r["tier"]]
    return [r for r in rows if r["mode"] == mode] or [r for r in rows if r["mode"] is None] or rows


def key_working_set(data: ReportData) -> Figure:
    """Three panels over the program: distinct keys a window, bytes touched a window, all distinct bytes so far."""
    windows = data.windows
    span = windows[0].num_operations
    middles = [w.first_operation + w.num_operations / 2 for w in windows]
    ends = [0, *(w.first_operation + w.num_operations for w in windows)]
    bars: Figure = {"type": "bar", "x": middles, "width": [span * 0.92] * len(windows)}
    panels: list[tuple[str, str, list[float], Figure]] = [
        ("y3", f"Distinct keys in each window of {span} operations", [0.74, 0.94], {
            **bars, "y": [w.distinct_keys for w in windows], "marker": {"color": colour(0)},
            "hovertemplate": "%{y} keys<extra>operation %{x:.0f}</extra>"}),
        ("y2", "Key bytes touched in each window (B)", [0.39, 0.59], {
            **bars, "y": [w.touched_bytes for w in windows], "marker": {"color": colour(1)},
            "hovertemplate": "%{y:.4s}B touched<extra>operation %{x:.0f}</extra>"}),
        ("y", "Bytes of all distinct keys so far (B)", [0.0, 0.24], {
            "type": "scatter", "mode": "lines", "fill": "tozeroy", "fillcolor": "@@fill",
            "line": {"color": colour(2), "width": 2}, "x": ends,
            "y": [0, *(w.cumulative_unique_bytes for w in windows)],
            "hovertemplate": "%{y:.4s}B so far<extra>operation %{x:.0f}</extra>"}),
    ]  # fmt: skip
    layout = _layout(plain_axis("Operation (number in program order)", range=[0, ends[-1]], anchor="y"), {})
    layout["annotations"] = [
        {
            "text": title,
            "showarrow": False,
            "x": 0,
            "xref": "paper",
            "xanchor": "left",
            "xshift": -4,
            "y": domain[1],
            "yref": "paper",
            "yanchor": "bottom",
            "yshift": 4,
            "font": {"color": "@@fg"},
        }
        for _, title, domain, _ in panels
    ]
    for axis, _, domain, _ in panels:
        make = plain_axis("") if axis == "y3" else _si("", "B")
        make["title"] = {"text": ""}
        layout[f"yaxis{axis[1:]}"] = {**make, "domain": domain, "rangemode": "tozero", "nticks": 4}
    return {
        "data": [{**trace, "yaxis": axis, "name": title, "showlegend": False} for axis, title, _, trace in panels],
        "layout": layout,
    }


def fit_quality(measured: dict[tuple[str, int], float], predicted: dict[tuple[str, int], float]) -> Figure:
    """Predicted against measured seconds of every (kind, limbs), with the line where both are equal."""
    both = [key for key in measured if key in predicted and measured[key] > 0 and predicted[key] > 0]
    kinds = ordered((kind for kind, _ in both), ())
    values = [side[key] for side in (measured, predicted) for key in both]
    low, high = min(values) / 1.5, max(values) * 1.5
    traces: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [low, high],
            "y": [low, high],
            "hoverinfo": "skip",
            "line": {"color": "@@muted", "dash": "dash", "width": 1.5},
            "name": "equal",
        }
    ]
    for i, kind in enumerate(kinds):
        points = sorted(k for k in both if k[0] == kind)
        traces.append({
            "type": "scatter", "mode": "markers", "name": label(kind), "x": _rounded(measured[k] for k in points),
            "y": _rounded(predicted[k] for k in points), "text": [f"{n} limbs" for _, n in points],
            "marker": {"color": colour(i), "symbol": SYMBOLS[(i + i // NUM_COLOURS) % len(SYMBOLS)], "size": 9},
            "hovertemplate": "%{fullData.name}, %{text}: measured %{x:.3s}s, predicted %{y:.3s}s<extra></extra>",
        })  # fmt: skip
    scale = {"type": "log", "dtick": 1, "range": [math.log10(low), math.log10(high)]}
    return {
        "data": traces,
        "layout": _layout(
            _si("Measured total (s, log)", "s", **scale), _si("Predicted total (s, log)", "s", **scale), showlegend=True
        ),
    }


def describe(name: str, figure: Figure) -> str:
    """One sentence for a screen reader about the drawing; the table next to it holds the numbers."""
    names = [t["name"] for t in figure["data"] if t.get("showlegend", True) and t.get("name")]
    series = f" Series: {html.unescape(', '.join(dict.fromkeys(names)))}." if len(names) > 1 else ""
    return f"Plot: {name}.{series} The table has the numbers."


def ideal_share(slowdown: float) -> str:
    """A slowdown with the share of the ideal speed that it leaves."""
    return f"{ratio(slowdown)} ({percent(1 / slowdown, 0)})" if slowdown > 0 else ratio(slowdown)
