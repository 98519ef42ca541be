"""Figures as SVG inside the page: no script draws them, so they are on paper, without JavaScript, and in the explorer.

A figure is the plain data of `plots`: traces (bars, markers, lines) and a layout. Its colours are names, `@@c0`, that
the style sheet of the page fills in, so that a figure follows the theme.
"""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.reports.markup import Markup
from penstock.reports.numbers import percent, ratio, seconds, short_size, significant

Figure = Mapping[str, Any]
WIDTH = 520
"""Of the drawing's own units; the page scales it."""
LETTER = 6.7
"""Width of a letter of `SIZE`, about."""
SIZE = 12
LINE = 17
DASHES = {"dash": "7 4", "dot": "2 3", "dashdot": "7 3 2 3"}
_PATTERNS = {
    "/": "M-2 2L2 -2M0 8L8 0M6 10L10 6", "\\": "M-2 6L2 10M0 0L8 8M6 -2L10 2", "x": "M0 0L8 8M0 8L8 0", "-": "M0 4H8",
    "+": "M4 0V8M0 4H8", ".": "M3.5 4H4.5",
}  # fmt: skip
_SYMBOLS: dict[str, str] = {
    "diamond": "M0 -1.3L1.3 0L0 1.3L-1.3 0Z", "square": "M-.95 -.95H.95V.95H-.95Z",
    "triangle-up": "M0 -1.2L1.15 .85H-1.15Z",
    "cross": "M-.4 -1.2H.4V-.4H1.2V.4H.4V1.2H-.4V.4H-1.2V-.4H-.4Z",
    "x": "M-1.1 -.6L-.6 -1.1L0 -.5L.6 -1.1L1.1 -.6L.5 0L1.1 .6L.6 1.1L0 .5L-.6 1.1L-1.1 .6L-.5 0Z",
    "star": "M0 -1.4L.35 -.45H1.35L.55 .15L.85 1.15L0 .55L-.85 1.15L-.55 .15L-1.35 -.45H-.35Z",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scale:
    """One axis: where a value lies, its ticks, and how it writes a value."""

    at: Callable[[Any], float | None]
    ticks: Sequence[tuple[float, str]]
    said: Callable[[Any], str]
    band: float
    """Room of one category; 0 on an axis of numbers."""


def svg_of(figure: Figure, ident: str, height: int = 340) -> Markup:
    """The drawing. `ident` differs for each figure of a page. The element around the drawing describes it."""
    layout = figure["layout"]
    traces = list(figure["data"])
    panels = sorted({trace.get("yaxis", "y") for trace in traces}) or ["y"]
    left = _left(layout, traces, panels)
    named = [trace for trace in traces if trace.get("name") and trace.get("showlegend", True)]
    legend = _legend(named, ident) if layout.get("showlegend") else ("", 0.0)
    foot = 28 + (20 if _title(layout["xaxis"]) else 0)
    room = height - foot - legend[1]
    top, bottom = 26.0, max(120.0, room)
    right = WIDTH - 16.0
    total = bottom + foot + legend[1]
    parts = [f"<defs>{_patterns(traces, ident)}</defs>"]
    x = _scale(layout["xaxis"], traces, "x", (left, right), layout)
    for panel in panels:
        name = f"yaxis{panel[1:]}"
        domain = layout[name].get("domain", (0.0, 1.0))
        height_of = bottom - top
        ends = (bottom - domain[0] * height_of, bottom - domain[1] * height_of)
        mine = [t for t in traces if t.get("yaxis", "y") == panel]
        y = _scale(layout[name], mine, "y", ends, layout)
        parts += _grid(x, y, (left, right), ends, last=panel == min(panels, key=lambda p: _low(layout, p)))
        if _title(layout[name]):
            parts.append(_text(4, ends[1] - 10, _title(layout[name]), anchor="start", fill="var(--muted)"))
        parts += _marks(mine, x, y, ident, layout.get("barmode", "group"))
        if panel == "y":
            parts += _shapes(layout, x, y, (left, right), ends)
    parts += _annotations(layout, x, (left, right), (top, bottom))
    title = _title(layout["xaxis"])
    if title:
        parts.append(_text((left + right) / 2, bottom + 38, title, fill="var(--muted)"))
    parts.append(f'<g transform="translate({left:.1f} {bottom + foot + 6:.1f})">{legend[0]}</g>')
    return Markup(
        f'<svg viewBox="0 0 {WIDTH} {total:.0f}" width="{WIDTH}" height="{total:.0f}" aria-hidden="true" '
        f'font-size="{SIZE}">{"".join(parts)}</svg>'
    )


def _low(layout: Figure, panel: str) -> float:
    low: float = layout[f"yaxis{panel[1:]}"].get("domain", (0.0, 1.0))[0]
    return low


def _title(axis: Figure) -> str:
    return str(axis.get("title", {}).get("text", ""))


def _left(layout: Figure, traces: Sequence[Figure], panels: Sequence[str]) -> float:
    """Room for the longest name at the left of the drawing."""
    longest = 7
    for panel in panels:
        axis = layout[f"yaxis{panel[1:]}"]
        names = axis.get("ticktext") or []
        if axis.get("type") == "category":
            names = [value for trace in traces for value in trace.get("y", ())]
        longest = max([longest, *(len(html.unescape(str(name))) for name in names)])
    return float(min(longest * LETTER + 16, WIDTH * 0.42))


# Scales.


def _scale(axis: Figure, traces: Sequence[Figure], along: str, ends: tuple[float, float], layout: Figure) -> Scale:
    values = [value for trace in traces for value in trace.get(along, ()) if value is not None]
    if axis.get("type") == "category" or any(isinstance(value, str) for value in values):
        return _categories(axis, values, ends)
    said = _writer(axis)
    if axis.get("type") == "log":
        positive = [value for value in values if value > 0] or [1.0, 10.0]
        low, high = axis.get("range") or (math.log10(min(positive)) - 0.05, math.log10(max(positive)) + 0.05)
        return Scale(_log_at(low, high, ends), _log_ticks(axis, low, high, said), said, 0.0)
    low, high = _linear_range(axis, traces, values, along, layout)
    if axis.get("autorange") == "reversed":
        low, high = high, low
    span = (high - low) or 1.0

    def at(value: Any) -> float | None:
        return None if value is None else ends[0] + (value - low) / span * (ends[1] - ends[0])

    if "tickvals" in axis:
        ticks = list(zip(axis["tickvals"], axis["ticktext"], strict=True))
        step = abs((at(1) or 0.0) - (at(0) or 0.0))
        return Scale(at, ticks, said, step)
    return Scale(at, _even(axis, min(low, high), max(low, high), said), said, 0.0)


def _linear_range(
    axis: Figure, traces: Sequence[Figure], values: Sequence[float], along: str, layout: Figure
) -> tuple[float, float]:
    if "range" in axis:
        return float(axis["range"][0]), float(axis["range"][1])
    if axis.get("tickvals"):
        return min(axis["tickvals"]) - 0.5, max(axis["tickvals"]) + 0.5
    bars = any(trace["type"] == "bar" for trace in traces)
    upright = not any(trace.get("orientation") == "h" for trace in traces)
    if bars and upright == (along == "x"):  # the places of the bars
        return min(values, default=0) - 0.6, max(values, default=1) + 0.6
    top = max(values, default=1.0)
    if bars and layout.get("barmode") == "stack":
        sums: dict[Any, float] = {}
        other = "y" if along == "x" else "x"
        for trace in traces:
            for place, value in zip(trace[other], trace[along], strict=True):
                sums[place] = sums.get(place, 0.0) + (value or 0.0)
        top = max(sums.values(), default=1.0)
    low = 0.0 if bars or axis.get("rangemode") == "tozero" else min(values, default=0.0)
    return (low, top * 1.06 if top > low else low + 1.0)


def _categories(axis: Figure, values: Iterable[Any], ends: tuple[float, float]) -> Scale:
    names = list(dict.fromkeys([*axis.get("categoryarray", ()), *values]))
    if axis.get("autorange") == "reversed":
        names = names[::-1]
    step = (ends[1] - ends[0]) / max(1, len(names))
    places = {name: ends[0] + (i + 0.5) * step for i, name in enumerate(names)}
    return Scale(places.get, [(name, str(name)) for name in names], str, abs(step))


def _log_at(low: float, high: float, ends: tuple[float, float]) -> Callable[[Any], float | None]:
    span = (high - low) or 1.0

    def at(value: Any) -> float | None:
        if value is None or value <= 0:
            return None
        return ends[0] + (math.log10(value) - low) / span * (ends[1] - ends[0])

    return at


def _log_ticks(axis: Figure, low: float, high: float, said: Callable[[Any], str]) -> list[tuple[float, str]]:
    if "tickvals" in axis:
        return list(zip(axis["tickvals"], axis["ticktext"], strict=True))
    steps = (1, 2, 5) if high - low < 2.2 and axis.get("dtick") != 1 else (1,)
    found = [step * 10.0**e for e in range(math.floor(low), math.ceil(high) + 1) for step in steps]
    return [(value, said(value)) for value in found if low - 1e-9 <= math.log10(value) <= high + 1e-9]


def _even(axis: Figure, low: float, high: float, said: Callable[[Any], str]) -> list[tuple[float, str]]:
    step = axis.get("dtick")
    if step is None:
        rough = (high - low) / min(6, axis.get("nticks", 6))
        power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [(i * step, said(i * step)) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _writer(axis: Figure) -> Callable[[Any], str]:
    """How this axis writes a value: with its unit."""
    unit = axis.get("ticksuffix")
    if unit == "s":
        return lambda value: "0" if value == 0 else seconds(value)
    if unit == "B":
        return lambda value: "0" if value == 0 else short_size(value)
    if str(axis.get("tickformat", "")).endswith("%"):
        return lambda value: percent(value, 0)
    if any(str(text).endswith("×") for text in axis.get("ticktext", ())):
        return ratio
    return lambda value: significant(value, 4)


# What is drawn.


def _paint(name: Any) -> str:
    return f"var(--{name[2:]})" if isinstance(name, str) and name.startswith("@@") else str(name)


def _text(x: float, y: float, text: str, *, anchor: str = "middle", fill: str = "var(--fg)", more: str = "") -> str:
    """Text that is HTML already: the labels of a figure are escaped where they are made."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}"{more}>{text}</text>'


def _grid(x: Scale, y: Scale, across: tuple[float, float], down: tuple[float, float], *, last: bool) -> list[str]:
    parts = []
    for value, text in y.ticks:
        at = y.at(value)
        if at is None:
            continue
        parts.append(f'<path class="grid" d="M{across[0]:.1f} {at:.1f}H{across[1]:.1f}"/>')
        fits = int((across[0] - 10) / LETTER)
        shown = html.unescape(text)
        text = html.escape(shown[: max(1, fits - 1)] + "…", quote=False) if len(shown) > fits else text
        parts.append(_text(across[0] - 7, at + 4, text, anchor="end"))
    end = -math.inf
    for value, text in x.ticks:
        at = x.at(value)
        if at is None:
            continue
        if not x.band:
            parts.append(f'<path class="grid" d="M{at:.1f} {min(down):.1f}V{max(down):.1f}"/>')
        long = len(html.unescape(text)) * LETTER
        if last and at - long / 2 > end:
            parts.append(_text(at, max(down) + 18, text))
            end = at + long / 2 + 4
    return [*parts, f'<path class="axis" d="M{across[0]:.1f} {min(down):.1f}V{max(down):.1f}H{across[1]:.1f}"/>']


def _marks(traces: Sequence[Figure], x: Scale, y: Scale, ident: str, mode: str) -> list[str]:
    bars = [trace for trace in traces if trace["type"] == "bar"]
    parts = _bars(bars, x, y, ident, mode) if bars else []
    for trace in traces:
        if trace["type"] != "bar":
            parts += _scatter(trace, x, y)
    return parts


def _bars(traces: Sequence[Figure], x: Scale, y: Scale, ident: str, mode: str) -> list[str]:
    flat = traces[0].get("orientation") == "h"
    places, values = ("y", "x") if flat else ("x", "y")
    along, across = (y, x) if flat else (x, y)
    base = across.at(0) if across.at(0) is not None else 0.0
    room = along.band or _closest(traces, places, along)
    stacked = mode == "stack" and len(traces) > 1
    wide = 0.72 * room / (1 if stacked else len(traces))
    below: dict[Any, float] = {}
    parts = []
    for number, trace in enumerate(traces):
        colours = trace["marker"]["color"]
        texts = trace.get("text") or [""] * len(trace[values])
        for i, (place, value, text) in enumerate(zip(trace[places], trace[values], texts, strict=True)):
            middle = along.at(place)
            if value is None or middle is None:
                continue
            low = below.get(place, 0.0) if stacked else 0.0
            below[place] = low + value
            start, end = (across.at(low) if stacked else base), across.at(low + value)
            if start is None or end is None:
                continue
            at = middle - (wide / 2 if stacked else wide * len(traces) / 2 - number * wide)
            long = abs(end - start)
            box = (min(start, end), at, long, wide) if flat else (at, min(start, end), wide, long)
            paint = _paint(colours[i] if isinstance(colours, list) else colours)
            where = along.said(place) if isinstance(place, str) else _tick(along, place)
            title = _titled(trace.get("name"), where, across.said(value))
            parts.append(_rect(box, paint, title, _pattern(trace, number, ident)))
            if text and flat:
                parts.append(_text(end + 6, at + wide / 2 + 4, html.escape(str(text), quote=False), anchor="start"))
    return parts


def _tick(scale: Scale, value: Any) -> str:
    found = next((text for at, text in scale.ticks if at == value), None)
    return scale.said(value) if found is None else found


def _closest(traces: Sequence[Figure], places: str, along: Scale) -> float:
    found = sorted({at for trace in traces for place in trace[places] if (at := along.at(place)) is not None})
    steps = [b - a for a, b in itertools.pairwise(found) if b > a]
    return min(steps, default=60.0)


def _titled(*parts: Any) -> str:
    return ", ".join(str(part) for part in parts if part not in (None, ""))


def _rect(box: tuple[float, float, float, float], paint: str, title: str, pattern: str | None) -> str:
    left, top, wide, high = box
    size = f'x="{left:.1f}" y="{top:.1f}" width="{max(wide, 0.5):.1f}" height="{max(high, 0.5):.1f}"'
    over = f'<rect {size} fill="url(#{pattern})" pointer-events="none"/>' if pattern else ""
    return f'<rect {size} fill="{paint}"><title>{title}</title></rect>{over}'


def _pattern(trace: Figure, number: int, ident: str) -> str | None:
    shape = trace["marker"].get("pattern", {}).get("shape")
    return f"{ident}-pattern-{number}" if shape in _PATTERNS else None


def _patterns(traces: Sequence[Figure], ident: str) -> str:
    bars = [trace for trace in traces if trace["type"] == "bar"]
    return "".join(
        f'<pattern id="{name}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<path d="{_PATTERNS[trace["marker"]["pattern"]["shape"]]}" stroke="var(--bg)" stroke-opacity="0.55" '
        'stroke-width="1.4" stroke-linecap="round"/></pattern>'
        for number, trace in enumerate(bars)
        if (name := _pattern(trace, number, ident))
    )


def _scatter(trace: Figure, x: Scale, y: Scale) -> list[str]:
    points = [
        (at, up, i)
        for i, (a, b) in enumerate(zip(trace["x"], trace["y"], strict=True))
        if (at := x.at(a)) is not None and (up := y.at(b)) is not None
    ]
    parts = []
    if "lines" in trace["mode"] and points:
        line = trace.get("line", {})
        path = "".join(f"{'L' if i else 'M'}{at:.1f} {up:.1f}" for i, (at, up, _) in enumerate(points))
        if trace.get("fill") == "tozeroy":
            foot = y.at(0) or 0.0
            area = f"{path}L{points[-1][0]:.1f} {foot:.1f}L{points[0][0]:.1f} {foot:.1f}Z"
            parts.append(f'<path d="{area}" fill="{_paint(trace.get("fillcolor", "@@fill"))}"/>')
        dash = DASHES.get(line.get("dash", ""), "")
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        paint = _paint(line.get("color", "@@c0"))
        parts.append(f'<path d="{path}" fill="none" stroke="{paint}" stroke-width="{line.get("width", 2)}"{dashed}/>')
    if "error_y" in trace:
        parts += _errors(trace, x, y)
    if "markers" in trace["mode"]:
        marker = trace["marker"]
        for at, up, i in points:
            where = x.said(trace["x"][i]) if not x.band else _tick(x, trace["x"][i])
            high = y.said(trace["y"][i]) if not y.band else _tick(y, trace["y"][i])
            named = trace.get("text", [None] * len(trace["x"]))[i]
            title = _titled(trace.get("name"), named, where, high)
            parts.append(_symbol(marker, at, up, marker.get("size", 8) / 2, title))
    return parts


def _errors(trace: Figure, x: Scale, y: Scale) -> list[str]:
    error = trace["error_y"]
    parts = []
    for a, b, more, less in zip(trace["x"], trace["y"], error["array"], error["arrayminus"], strict=True):
        at = x.at(a)
        ends = [y.at(value) for value in (b - (less or 0.0), b + (more or 0.0))] if b is not None else [None]
        if at is None or None in ends:
            continue
        low, high = ends
        path = f"M{at:.1f} {low:.1f}V{high:.1f}M{at - 4:.1f} {low:.1f}h8M{at - 4:.1f} {high:.1f}h8"
        parts.append(f'<path d="{path}" stroke="{_paint(error["color"])}" stroke-width="1.5" fill="none"/>')
    return parts


def _symbol(marker: Figure, at: float, up: float, size: float, title: str = "") -> str:
    shape = str(marker.get("symbol", "circle"))
    paint = _paint(marker["color"])
    outlined = shape.endswith("-open")
    colours = f'fill="var(--bg)" stroke="{paint}" stroke-width="1.6"' if outlined else f'fill="{paint}"'
    told = f"<title>{title}</title>" if title else ""
    path = _SYMBOLS.get(shape.removesuffix("-open"))
    if path is None:
        return f'<circle cx="{at:.1f}" cy="{up:.1f}" r="{size:.1f}" {colours}>{told}</circle>'
    scaled = f'transform="translate({at:.1f} {up:.1f}) scale({size:.2f})"'
    return f'<path d="{path}" {scaled} {colours} vector-effect="non-scaling-stroke">{told}</path>'


def _shapes(layout: Figure, x: Scale, y: Scale, across: tuple[float, float], down: tuple[float, float]) -> list[str]:
    parts = []
    for shape in layout.get("shapes", ()):
        line = shape["line"]
        dash = DASHES.get(line.get("dash", ""), "")
        if shape.get("yref") == "paper":
            at = x.at(shape["x0"])
            path = None if at is None else f"M{at:.1f} {min(down):.1f}V{max(down):.1f}"
        else:
            at = y.at(shape["y0"])
            path = None if at is None else f"M{across[0]:.1f} {at:.1f}H{across[1]:.1f}"
        if path:
            paint = _paint(line["color"])
            parts.append(f'<path d="{path}" stroke="{paint}" stroke-dasharray="{dash}" stroke-width="1.5"/>')
    return parts


def _annotations(layout: Figure, x: Scale, across: tuple[float, float], down: tuple[float, float]) -> list[str]:
    parts = []
    for each in layout.get("annotations", ()):
        if each.get("xref") == "paper" and each.get("yref") == "paper":
            at, up = across[0] + each["x"] * (across[1] - across[0]), down[1] - each["y"] * (down[1] - down[0])
            parts.append(_text(at, up - 6, each["text"], anchor="start"))
        elif each.get("yref") == "paper":
            at = x.at(10.0 ** each["x"])
            if at is not None:
                parts.append(_text(at + 4, down[0] + 12, each["text"].strip(), anchor="start", fill="var(--muted)"))
    return parts


def _legend(traces: Sequence[Figure], ident: str) -> tuple[str, float]:
    """The legend: names with their marks, in several lines if needed; and its height."""
    parts, at, line = [], 0.0, 0
    bars = [trace for trace in traces if trace["type"] == "bar"]
    seen = set()
    for trace in traces:
        name = str(trace["name"])
        if name in seen:
            continue
        seen.add(name)
        long = 30 + len(html.unescape(name)) * LETTER
        if at + long > WIDTH * 0.84 and at:
            at, line = 0.0, line + 1
        up = line * LINE + 6
        if trace["type"] == "bar":
            pattern = _pattern(trace, bars.index(trace), ident)
            parts.append(_rect((at, up - 5, 12, 10), _paint(trace["marker"]["color"]), name, pattern))
        elif "marker" in trace:
            parts.append(_symbol(trace["marker"], at + 6, up, 5))
        else:
            dash = DASHES.get(trace.get("line", {}).get("dash", ""), "")
            paint = _paint(trace.get("line", {}).get("color", "@@c0"))
            parts.append(f'<path d="M{at:.1f} {up}h14" stroke="{paint}" stroke-width="2" stroke-dasharray="{dash}"/>')
        parts.append(_text(at + 18, up + 4, name, anchor="start"))
        at += long
    return "".join(parts), (line + 1) * LINE + 10 if seen else 0.0
