"""Elements of SVG: texts, lines, bars, symbols, legends."""

from __future__ import annotations

import html
import math
import re
import textwrap
from collections.abc import Sequence

from penstock.base.system.drawing.model import Panel, Picture, Series
from penstock.base.system.palette import NAMES

SIZE, LETTER, LINE, GAP = 12, 6.7, 15, 17
"""A letter's height and width, and the distances of lines of text and of the legend, in the drawing's own units."""
CLOUD = 1000
"""Points from which a series is one path: no symbols, no titles."""
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "x", "star")
DASHES = {"dash": "7 4", "dot": "2 3", "dashdot": "7 3 2 3"}
_PATTERNS = (
    "", "M-2 2L2 -2M0 8L8 0M6 10L10 6", "M0 0L8 8M0 8L8 0", "M3.5 4H4.5", "M0 4H8", "M4 0V8M0 4H8",
    "M-2 6L2 10M0 0L8 8M6 -2L10 2",
)  # fmt: skip
_PATHS = {
    "diamond": "M0 -1.3L1.3 0L0 1.3L-1.3 0Z", "square": "M-.95 -.95H.95V.95H-.95Z",
    "triangle-up": "M0 -1.2L1.15 .85H-1.15Z", "level": "M-5 -.3H5V.3H-5Z",
    "cross": "M-.4 -1.2H.4V-.4H1.2V.4H.4V1.2H-.4V.4H-1.2V-.4H-.4Z",
    "x": "M-1.1 -.6L-.6 -1.1L0 -.5L.6 -1.1L1.1 -.6L.5 0L1.1 .6L.6 1.1L0 .5L-.6 1.1L-1.1 .6L-.5 0Z",
    "star": "M0 -1.4L.35 -.45H1.35L.55 .15L.85 1.15L0 .55L-.85 1.15L-.55 .15L-1.35 -.45H-.35Z",
}  # fmt: skip
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def escaped(text: str) -> str:
    """Text of an element or an attribute, without characters that XML forbids."""
    return html.escape(_FORBIDDEN.sub("\ufffd", text))


def titled(*parts: str) -> str:
    return f"<title>{escaped(', '.join(filter(None, parts)))}</title>"


def wrapped(text: str, room: float) -> list[str]:
    """Lines that fit, as long as each word does."""
    if not math.isfinite(room):
        return [text]
    return textwrap.wrap(text, max(3, int(room / LETTER)), break_long_words=False) or [""]


def label(
    x: float, y: float, lines: Sequence[str], *, anchor: str = "middle", colour: str = "fg", size: int = SIZE,
    bold: bool = False, turned: bool = False,
) -> str:  # fmt: skip
    """Lines of text; `turned`: upwards."""
    more = (f' font-size="{size}"' if size != SIZE else "") + (' font-weight="600"' if bold else "")
    more += f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    spans = [f'<tspan x="{x:.1f}" dy="{LINE if i else 0}">{escaped(line)}</tspan>' for i, line in enumerate(lines)]
    shown = "".join(spans) if len(lines) > 1 else escaped(lines[0])
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{"start" if turned else anchor}"'
    return f'<text {where} fill="var(--{"muted" if turned else colour})"{more}>{shown}</text>'


def line_element(path: str, colour: str, dash: str, width: float, title: str = "", more: str = "") -> str:
    dashed = f' stroke-dasharray="{DASHES[dash]}"' if dash in DASHES else ""
    drawn = f'<path d="{path}" fill="none" stroke="var(--{colour})" stroke-width="{width:g}"{dashed}'
    return f"{drawn} {more}".rstrip() + (f">{title}</path>" if title else "/>")


def bar_element(box: tuple[float, float, float, float], colour: str, title: str, number: int, ident: str) -> str:
    """A bar. `number`: of its series, whose pattern lies over the colour."""
    left, top, wide, high = box
    size = f'x="{left:.1f}" y="{top:.1f}" width="{max(wide, 0.5):.1f}" height="{max(high, 0.5):.1f}"'
    number = _pattern(number)
    over = f'<rect {size} fill="url(#{ident}-pattern-{number})" pointer-events="none"/>' if number else ""
    return f'<rect {size} fill="var(--{colour})">{title}</rect>{over}'


def _pattern(number: int) -> int:
    """The pattern of a series of bars: with its colour another pair for each of the first 49."""
    return (number + number // len(NAMES)) % len(_PATTERNS)


def patterns_of(figure: Picture, ident: str) -> str:
    most = max(sum(series.mark == "bar" for series in panel.series) for panel in figure.panels)
    made = "".join(
        f'<pattern id="{ident}-pattern-{number}" width="8" height="8" patternUnits="userSpaceOnUse"><path d="{path}" '
        'stroke="var(--bg)" stroke-opacity="0.55" stroke-width="1.4" stroke-linecap="round"/></pattern>'
        for number, path in enumerate(_PATTERNS)
        if path and number in map(_pattern, range(most))
    )
    return f"<defs>{made}</defs>" if made else ""


def symbol_element(mark: str, colour: str, at: float, up: float, size: float, title: str = "") -> str:
    paint = f"var(--{colour})"
    outlined = f'fill="var(--bg)" stroke="{paint}" stroke-width="1.6"' if mark.endswith("-open") else f'fill="{paint}"'
    path = _PATHS.get(mark.removesuffix("-open"))
    if path is None:
        return f'<circle cx="{at:.1f}" cy="{up:.1f}" r="{size:.1f}" {outlined}>{title}</circle>'
    scaled = f'transform="translate({at:.1f} {up:.1f}) scale({size:.2f})"'
    return f'<path d="{path}" {scaled} {outlined} vector-effect="non-scaling-stroke">{title}</path>'


def legend_of(panels: Sequence[Panel], ident: str, width: float) -> tuple[str, float]:
    """Names with their marks, each once, in as many lines as they need; and the height."""
    marks: dict[str, str] = {}
    for panel in panels:
        bars = [series for series in panel.series if series.mark == "bar"]
        for series in panel.series:
            if series.name and series.name not in marks:
                number = bars.index(series) if series in bars else 0
                marks[series.name] = _sample(series, number, ident)
        for rule in panel.rules:
            if rule.text:
                marks.setdefault(rule.text, line_element("M0 6h14", "muted", rule.dash, 1.5))
    parts, at, line = [], 0.0, 0
    for name, mark in marks.items():
        long = 34 + len(name) * LETTER
        if at + long > width - 24 and at:
            at, line = 0.0, line + 1
        name_part = label(19, 10, [name], anchor="start")
        parts.append(f'<g transform="translate({at:.1f} {line * GAP})">{mark}{name_part}</g>')
        at += long
    return "".join(parts), (line + 1) * GAP + 12 if marks else 0.0


def _sample(series: Series, number: int, ident: str) -> str:
    """A series' mark in the legend."""
    colour = series.colour if isinstance(series.colour, str) else series.colour[0]
    if series.mark in ("bar", "area"):
        shade = bar_element((1, 1, 12, 10), colour, "", number, ident)
        return shade if series.mark == "bar" else f'<g fill-opacity="0.2">{shade}</g>'
    if series.mark == "level":
        return line_element("M0 6h14", colour, "solid", 3)
    line = line_element("M0 6h14", colour, series.dash, 2) if series.dash is not None else ""
    return line + (symbol_element(series.mark, colour, 7, 6, 4.5) if series.mark else "")
