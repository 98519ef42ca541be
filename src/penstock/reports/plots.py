"""The report's plots, as plain data that `drawing` draws. Colours are named; the page's theme fills them in."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
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


def rounded(values: Iterable[float | None]) -> list[float | None]:
    return [None if v is None or not math.isfinite(v) else float(f"{v:.6g}") for v in values]


def plain_axis(title: str, **more: Any) -> Figure:
    return {"title": {"text": title}, **more}


def si_axis(title: str, unit: str, **more: Any) -> Figure:
    """An axis with SI prefixes before the unit: 10 ms, 100 MB."""
    return plain_axis(title, tickformat="~s", ticksuffix=unit, **more)


def with_room(values: Iterable[float]) -> Figure:
    """The range of a bar axis from 0 that leaves room for the text at the end of the longest bar."""
    return {"range": [0, max(values, default=0.0) * 1.22 or 1.0], "nticks": 6}


def log_slowdown(values: Iterable[float], title: str = "Slowdown against ideal memory (×, log)") -> Figure:
    """A logarithmic axis from 1, the ideal, to just above the largest value."""
    top = max([2.0, *(v for v in values if math.isfinite(v))]) * 1.25
    ticks = [m * 10.0**e for e in range(math.ceil(math.log10(top)) + 1) for m in (1, 2, 5) if m * 10.0**e <= top]
    return plain_axis(
        title, type="log", range=[-0.03, math.log10(top)], tickvals=ticks, ticktext=[f"{t:g}×" for t in ticks]
    )


def page_layout(x: Figure, y: Figure, **more: Any) -> Figure:
    return {"xaxis": x, "yaxis": y, **more}


def layout(x_title: str, y_title: str) -> Figure:
    """Named places along x, seconds from 0 along y, and a legend."""
    return page_layout(plain_axis(x_title, type="category"), si_axis(y_title, "s", rangemode="tozero"), showlegend=True)


def reference_line(value: float, text: str, *, axis: str) -> dict[str, list[Figure]]:
    """A dashed reference line at `value` of a logarithmic axis, with its text."""
    along: Figure = {"x0": value, "yref": "paper"} if axis == "x" else {"y0": value}
    return {
        "shapes": [{"line": {"color": "@@muted", "dash": "dash"}, **along}],
        "annotations": [{"text": text, "x": math.log10(value), "yref": "paper"}] if text else [],
    }


def spots(x: Sequence[Any], y: Sequence[Any], name: str, marker: Figure, **more: Any) -> Figure:
    """Marks of one series; with a `line`, joined."""
    mode = "lines+markers" if "line" in more else "markers"
    return {"type": "scatter", "mode": mode, "name": label(name), "x": x, "y": y, "marker": marker, **more}


def symbol_of(i: int, size: float) -> Figure:
    return {"color": colour(i), "symbol": SYMBOLS[i % len(SYMBOLS)], "size": size}


def flat_bars(
    places: Sequence[str],
    series: Sequence[tuple[str, Sequence[float | None]]],
    text: Callable[[float | None], str] = lambda value: "",
) -> list[Figure]:
    """Horizontal bars of several series, with the text of a value at its end."""
    return [
        {
            "type": "bar", "orientation": "h", "name": label(name), "y": [label(place) for place in places],
            "x": rounded(values), "text": [text(value) for value in values],
            "marker": {"color": colour(i), "pattern": {"shape": PATTERNS[i % len(PATTERNS)]}},
        }
        for i, (name, values) in enumerate(series)
    ]  # fmt: skip


def time_by_kind(rows: Sequence[Row]) -> Figure:
    """Horizontal bars: total measured seconds of each kind, the largest on top."""
    totals = dict(sorted(sum_by(rows, lambda r: r["kind"]).items(), key=lambda item: item[1]))
    x = si_axis("Total time (s)", "s", **with_room(totals.values()))
    data = flat_bars(list(totals), [("", list(totals.values()))], seconds)
    return {"data": data, "layout": page_layout(x, plain_axis("", type="category"))}


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
            "type": "bar", "name": label(name), "x": limbs, "y": rounded(at.get(n, 0.0) for n in limbs),
            "marker": {"color": colour(i), "pattern": {"shape": PATTERNS[i % len(PATTERNS)]}},
        })  # fmt: skip
    x = plain_axis("Limbs of the ciphertext", dtick=max(1, len(limbs) // 12))
    return {"data": data, "layout": page_layout(x, si_axis("Total time (s)", "s"), barmode="stack", showlegend=True)}


def bytes_by_class(touched: dict[str, float], unique: dict[str, float]) -> Figure:
    """Grouped bars: bytes that all accesses add up to, and bytes of the distinct objects."""
    classes = ordered({*touched, *unique}, ("key", "ciphertext", "plaintext"))
    series = (("touched, every access", touched), ("distinct objects", unique))
    data = flat_bars(classes, [(name, [of.get(c) for c in classes]) for name, of in series], short_size)
    y = plain_axis("", type="category", autorange="reversed")
    x = si_axis("Bytes (B)", "B", **with_room([*touched.values(), *unique.values()]))
    return {"data": data, "layout": page_layout(x, y, barmode="group", showlegend=True)}


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
        places = [label(t) for t in shown]
        traces.append(spots(rounded(at[t] for t in shown), places, machine, symbol_of(i, 13)))
    x = log_slowdown(r["value"] for r in rows)
    y = plain_axis("Tier that holds the keys", type="category", categoryarray=[label(t) for t in reversed(tiers)])
    line = reference_line(IDEAL_80, " 80 % of the ideal", axis="x")
    return {"data": traces, "layout": page_layout(x, y, showlegend=True, **line)}


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
        marker, line = {**symbol_of(i, 7), "color": paint[tier]}, {"color": paint[tier], "width": 2}
        traces.append(spots(rounded(h for h, _ in at), rounded(v for _, v in at), tier, marker, line=line))
        if 0.0 < needed.get(tier, 0.0) <= 1.0:
            star = {"color": paint[tier], "symbol": "star", "size": 14}
            traces.append(spots(rounded([needed[tier]]), [IDEAL_80], tier, star, showlegend=False))
    x = plain_axis("Hit ratio of evaluation keys (%)", tickformat=".0%", range=[-0.02, 1.02])
    y = log_slowdown((r["value"] for r in rows), "Slowdown (×, log)")
    return {"data": traces, "layout": page_layout(x, y, showlegend=True, **reference_line(IDEAL_80, "", axis="y"))}


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
            symbol = SYMBOLS[i % len(SYMBOLS)] + ("" if j == 0 else "-open")
            marker = {"color": paint[tier], "symbol": symbol, "size": 7}
            line = {"color": paint[tier], "width": 2, "dash": ("solid", "dash", "dot", "dashdot")[j % 4]}
            more: Figure = {"line": line, "showlegend": j == 0}
            traces.append(spots([size for size, _ in at], rounded(v for _, v in at), tier, marker, **more))
    sizes = [r["cache_bytes"] for r in rows]
    x = plain_axis("Cache for evaluation keys (B, log)", type="log", **_size_ticks(min(sizes), max(sizes)))
    y = log_slowdown((r["value"] for r in rows), "Slowdown (×, log)")
    return {"data": traces, "layout": page_layout(x, y, showlegend=True)}


def spread(heading: str, found: Sequence[tuple[str, float, float, float, int]]) -> Figure:
    """For each value of an axis a dot at the median, with a line from the least to the largest slowdown.

    Args:   found: (value, least, median, largest, points) of each value, in their order.
    """
    # Cut names may be equal, so places are numbers and names are their ticks.
    places = list(range(len(found)))
    names = [label(value) for value, *_ in found]
    middles = [middle for _, _, middle, _, _ in found]
    trace: Figure = {
        "type": "scatter", "mode": "markers", "x": places, "y": rounded(middles),
        "marker": {"color": colour(0), "size": 9},
        "error_y": {"color": colour(0), "array": rounded(high - middle for _, _, middle, high, _ in found),
                    "arrayminus": rounded(middle - low for _, low, middle, _, _ in found)},
        "customdata": [[html.escape(value, quote=False)] for value, *_ in found],
    }  # fmt: skip
    x = plain_axis(heading, range=[-0.5, len(found) - 0.5], tickvals=places, ticktext=names)
    y = log_slowdown((high for _, _, _, high, _ in found), "Slowdown (×, log)")
    return {"data": [trace], "layout": page_layout(x, y)}


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
    panels: list[tuple[str, str, list[float], Figure]] = [
        ("y3", f"Distinct keys in each window of {span} operations", [0.74, 0.94],
         {"type": "bar", "x": middles, "y": [w.distinct_keys for w in windows], "marker": {"color": colour(0)}}),
        ("y2", "Key bytes touched in each window (B)", [0.39, 0.59],
         {"type": "bar", "x": middles, "y": [w.touched_bytes for w in windows], "marker": {"color": colour(1)}}),
        ("y", "Bytes of all distinct keys so far (B)", [0.0, 0.24], {
            "type": "scatter", "mode": "lines", "fill": "tozeroy", "line": {"color": colour(2), "width": 2}, "x": ends,
            "y": [0, *(w.cumulative_unique_bytes for w in windows)]}),
    ]  # fmt: skip
    layout = page_layout(plain_axis("Operation (number in program order)", range=[0, ends[-1]]), {})
    layout["annotations"] = [
        {"text": title, "x": 0, "xref": "paper", "y": domain[1], "yref": "paper"} for _, title, domain, _ in panels
    ]
    for axis, _, domain, _ in panels:
        make = plain_axis("") if axis == "y3" else si_axis("", "B")
        layout[f"yaxis{axis[1:]}"] = {**make, "domain": domain, "rangemode": "tozero", "nticks": 4}
    drawn = [{**trace, "yaxis": axis, "name": title, "showlegend": False} for axis, title, _, trace in panels]
    return {"data": drawn, "layout": layout}


def fit_quality(measured: dict[tuple[str, int], float], predicted: dict[tuple[str, int], float]) -> Figure:
    """Predicted against measured seconds of every (kind, limbs), with the line where both are equal."""
    both = [key for key in measured if key in predicted and measured[key] > 0 and predicted[key] > 0]
    kinds = ordered((kind for kind, _ in both), ())
    values = [side[key] for side in (measured, predicted) for key in both]
    low, high = min(values) / 1.5, max(values) * 1.5
    equal = {"color": "@@muted", "dash": "dash", "width": 1.5}
    traces: list[Figure] = [
        {"type": "scatter", "mode": "lines", "x": [low, high], "y": [low, high], "line": equal, "name": "equal"}
    ]
    for i, kind in enumerate(kinds):
        points = sorted(k for k in both if k[0] == kind)
        marker = {**symbol_of(i + i // NUM_COLOURS, 9), "color": colour(i)}
        x, y = (rounded(side[k] for k in points) for side in (measured, predicted))
        traces.append(spots(x, y, kind, marker, text=[f"{n} limbs" for _, n in points]))
    scale = {"type": "log", "dtick": 1, "range": [math.log10(low), math.log10(high)]}
    across, up = (si_axis(f"{which} total (s, log)", "s", **scale) for which in ("Measured", "Predicted"))
    return {"data": traces, "layout": page_layout(across, up, showlegend=True)}


def describe(name: str, figure: Figure) -> str:
    """One sentence for a screen reader about the drawing; the table next to it holds the numbers."""
    names = [t["name"] for t in figure["data"] if t.get("showlegend", True) and t.get("name")]
    series = f" Series: {html.unescape(', '.join(dict.fromkeys(names)))}." if len(names) > 1 else ""
    return f"Plot: {name}.{series} The table has the numbers."


def ideal_share(slowdown: float) -> str:
    """A slowdown with the share of the ideal speed that it leaves."""
    return f"{ratio(slowdown)} ({percent(1 / slowdown, 0)})" if slowdown > 0 else ratio(slowdown)
