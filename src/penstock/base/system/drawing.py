"""Figures as SVG: of reports, comparisons, sweeps, studies and predictions. No library and no script draws them.

A figure is plain data: panels with their series, axes and reference lines. Colours are names of `palette.LIGHT`. A
page's style sheet fills them in; a file carries its own, light and dark. A mark has its numbers as its title.
"""

from __future__ import annotations

import html
import itertools
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.base.system.files import write_atomic
from penstock.base.system.palette import DARK, LIGHT, NAMES
from penstock.base.units import format_bytes, format_seconds

Number = float | None
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


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of numbers, or of named places."""

    title: str = ""
    unit: str = ""
    """`s`, `B`, `x` for ratios, `%` for fractions, else the sign behind each number."""
    log: bool = False
    ends: tuple[Number, Number] = (None, None)
    """The least and the largest value; `None`: from the data. A linear `y` begins at 0 otherwise."""
    ticks: Sequence[float] = ()
    names: Sequence[str] = ()
    """Of the ticks; without ticks, of the places 0, 1, … : along `y` the first is on top."""

    @property
    def is_named(self) -> bool:
        """Whether the axis has places instead of numbers."""
        return bool(self.names) and not self.ticks

    def text(self, value: float) -> str:
        """A value as the axis writes it, or the name of the next place."""
        if self.is_named:
            return self.names[round(value)]
        return self.names[self.ticks.index(value)] if self.names and value in self.ticks else written(value, self.unit)


@dataclass(frozen=True, slots=True)
class Series:
    """Marks of one meaning."""

    x: Sequence[Number]
    y: Sequence[Number]
    name: str = ""
    """In the legend, once for all series of the name; empty: in none."""
    colour: str | Sequence[str] = "c0"
    """A name of `palette.LIGHT`; of bars, one for each too."""
    mark: str = ""
    """`bar`, one of `SYMBOLS` (with `-open`: outlined), `level`, `area` between `low` and `high`; empty: none."""
    dash: str | None = None
    """The line through the points: `solid`, or of `DASHES`; `None`: no line."""
    size: float = 7
    low: Sequence[Number] = ()
    high: Sequence[Number] = ()
    """Ends of a line through each point."""
    start: float = 0.0
    """Where bars begin, on a linear axis."""
    texts: Sequence[str] = ()
    """At the ends of horizontal bars; in the titles of other marks."""
    absent: str = ""
    """The reason written where a bar has no value."""

    def __post_init__(self) -> None:
        for name in ("x", "y", "low", "high"):
            object.__setattr__(self, name, rounded(getattr(self, name)))


@dataclass(frozen=True, slots=True)
class Rule:
    """A reference line across a panel, in the legend if it has a text."""

    along: str
    """The axis that has the value: `x` or `y`."""
    value: float
    text: str = ""
    dash: str = "dash"


@dataclass(frozen=True, slots=True)
class Panel:
    """Series over two axes. Bars are horizontal where `y` has named places; else they stand."""

    series: Sequence[Series]
    x: Axis
    y: Axis
    title: str = ""
    stack: bool = False
    """Whether bars stand on each other; all series have the same places then."""
    rules: Sequence[Rule] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """Panels in columns, row by row."""

    panels: Sequence[Panel]
    title: str = ""
    columns: int = 1
    width: float = 520
    """Of a panel."""
    height: float = 340
    apart: bool = False
    """A legend below each panel; else one for all."""
    same: str = ""
    """Axes whose ends all panels share: `y`, `xy`; empty: none."""


def bars(values: Sequence[Number], name: str = "", colour: str | Sequence[str] = "c0", *, absent: str = "") -> Series:
    """Upright bars at the places 0, 1, …"""
    return Series(range(len(values)), values, name, colour, "bar", absent=absent)


def written(value: float, unit: str = "") -> str:
    """A number as a person writes it.

    >>> [written(0.01, "x"), written(20000, "x"), written(0.02, "s"), written(5, "W"), written(0.5, "%")]
    ['0.01×', '20,000×', '20 ms', '5 W', '50 %']
    """
    if unit in ("s", "B"):
        return "0" if value == 0 else format_seconds(value) if unit == "s" else format_bytes(value).split(" (")[0]
    value = 100 * value if unit == "%" else value
    text = f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.4g}"
    return f"{text}×" if unit == "x" else f"{text} {unit}".strip()


def rounded(values: Iterable[Number]) -> tuple[Number, ...]:
    """Six digits of each number, as `float`; `None` where it is not finite."""
    return tuple(None if v is None or not math.isfinite(v) else float(f"{v:.6g}") for v in values)


def write_figures(figures: Mapping[str, Picture | None], folder: Path) -> list[Path]:
    """Write each figure that there is as `<folder>/<name>.svg`, as `write_figure`. Raises: FileError: the disk."""
    folder.mkdir(parents=True, exist_ok=True)
    return [write_figure(figure, folder / f"{name}.svg") for name, figure in figures.items() if figure is not None]


def write_figure(figure: Picture, path: Path) -> Path:
    """Write a figure; it replaces the one before. Raises: FileError: the disk."""
    write_atomic(path, standalone(figure, described(figure)), force=True)
    return path


def described(figure: Picture) -> str:
    """The panels and series in words."""
    names = dict.fromkeys(named.name for panel in figure.panels for named in panel.series if named.name)
    titles = "; ".join(panel.title for panel in figure.panels if panel.title)
    return ". ".join(filter(None, (titles, f"Series: {', '.join(names)}" if len(names) > 1 else "")))


def standalone(
    figure: Picture, description: str, *, font: str = "sans-serif", points: float | None = None, dark: bool = True
) -> bytes:
    """A file of a figure; the same figure gives the same bytes.

    Args:   description: for a reader who does not see it. points: its width in points of print; `None`: its own.
            dark: whether it follows a dark theme.
    """
    body, wide, high = _body(figure, "figure")
    scale = (points or wide) / wide
    unit = "" if points is None else "pt"
    theme = "".join(
        f'[fill="{LIGHT[name]}"]{{fill:{DARK[name]}}}[stroke="{LIGHT[name]}"]{{stroke:{DARK[name]}}}' for name in LIGHT
    )
    style = f"<style>@media screen and (prefers-color-scheme:dark){{{theme}}}</style>" if dark else ""
    body = body.replace('class="grid"', 'stroke="var(--grid)"').replace('class="axis"', 'stroke="var(--line)"')
    text = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide * scale:.2f}{unit}" height="{high * scale:.2f}{unit}" '
        f'font-family="{font}" font-size="{SIZE}">\n<title>{escaped(figure.title or figure.panels[0].title)}</title>'
        f"<desc>{escaped(description)}</desc>{style}\n"
        f'<rect width="100%" height="100%" fill="var(--bg)"/>{body}</svg>\n'
    )
    return re.sub(r"var\(--(\w+)\)", lambda match: LIGHT[match[1]], text).encode()


def inline(figure: Picture, ident: str) -> str:
    """The drawing inside a page, whose element around it describes it. `ident` differs for each figure of a page."""
    body, wide, high = _body(figure, ident)
    return (
        f'<svg viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" height="{high:.0f}" aria-hidden="true" '
        f'font-size="{SIZE}">{body}</svg>'
    )


def _body(figure: Picture, ident: str) -> tuple[str, float, float]:
    """The marks, and the width and height."""
    columns = min(figure.columns, len(figure.panels))
    wide, top, parts = columns * figure.width, 0.0, [_patterns(figure, ident)]
    if figure.title:
        lines = _wrapped(figure.title, wide - 20)
        parts.append(_text(8, 20, lines, anchor="start", size=15, bold=True))
        top = 14.0 + 18 * len(lines)
    for first in range(0, len(figure.panels), columns):
        row, below = figure.panels[first : first + columns], 0.0
        for column, panel in enumerate(row):
            inner = _PanelDrawing(panel, figure, ident).parts
            if figure.apart:
                legend, high = _legend([panel], ident, figure.width)
                inner.append(f'<g transform="translate(16 {figure.height + 8:.0f})">{legend}</g>')
                below = max(below, high)
            parts.append(f'<g transform="translate({column * figure.width:.0f} {top:.0f})">{"".join(inner)}</g>')
        top += figure.height + below
    if not figure.apart:
        legend, high = _legend(figure.panels, ident, wide)
        parts.append(f'<g transform="translate(16 {top + 8:.0f})">{legend}</g>')
        top += high
    return "".join(parts), wide, top


# Scales.


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where the values of an axis lie."""

    axis: Axis
    low: float
    """The value at `start`, on a logarithmic axis its logarithm."""
    high: float
    start: float
    stop: float

    def at(self, value: Number) -> Number:
        """Where a value lies; `None` for none, and for one that a logarithmic axis does not have."""
        return None if value is None or (self.axis.log and value <= 0) else self.place(value)

    def place(self, value: float) -> float:
        place = math.log10(value) if self.axis.log else value
        return self.start + (place - self.low) / ((self.high - self.low) or 1.0) * (self.stop - self.start)

    @property
    def band(self) -> float:
        """Room of one place; 0 on an axis of numbers."""
        return abs(self.stop - self.start) / len(self.axis.names) if self.axis.is_named else 0.0


def _ends(panel: Panel, along: str) -> tuple[float, float]:
    """The values at both ends of an axis; logarithms on a logarithmic one."""
    axis: Axis = getattr(panel, along)
    if axis.is_named:
        ends = -0.5, len(axis.names) - 0.5
        return ends if along == "x" else ends[::-1]
    bars = [series for series in panel.series if series.mark == "bar"]
    are_lengths = bool(bars) and (along == "x") == panel.y.is_named
    values = [rule.value for rule in panel.rules if rule.along == along]
    for series in panel.series:
        spread = (*series.low, *series.high) if along == "y" else ()
        values += [value for value in (*getattr(series, along), *spread) if value is not None]
    if are_lengths and panel.stack:
        values += [
            sum(part or 0.0 for part in parts) for parts in zip(*(getattr(bar, along) for bar in bars), strict=True)
        ]
    if axis.log:
        logs = [math.log10(value) for value in values if value > 0] or [0.0, 1.0]
        span = max(0.3, max(logs) - min(logs))
        room = 0.04 * span + 0.03
        low, high = min(logs) - room * (4 if are_lengths else 1), min(logs) + span + room
        first, last = axis.ends
        return math.log10(first) if first else low, math.log10(last) if last else high
    values += [series.start for series in bars] if are_lengths else [0.0] if along == "y" else []
    low, high = min(values, default=0.0), max(values, default=1.0)
    space = (high - low) or 1.0
    if are_lengths or along == "y":
        share = 0.22 if any("".join(series.texts) for series in bars) and are_lengths else 0.05
        low, high = (low - 0.05 * space if low < 0 or (low and are_lengths) else low), high + share * space
    elif bars:
        step = _closest([value for series in bars for value in getattr(series, along) if value is not None])
        low, high = low - 0.6 * step, high + 0.6 * step
    else:
        low, high = low - 0.02 * space, high + 0.02 * space
    first, last = axis.ends
    return low if first is None else first, high if last is None else last


def _common_ends(figure: Picture, panel: Panel, along: str) -> tuple[float, float]:
    """The ends of a panel's axis, or of all panels' where they share it."""
    if along not in figure.same:
        return _ends(panel, along)
    low, high = zip(*(_ends(other, along) for other in figure.panels), strict=True)
    return min(low), max(high)


def _closest(values: Iterable[float]) -> float:
    steps = [b - a for a, b in itertools.pairwise(sorted(set(values)))]
    return min(steps, default=1.0)


def _ticks(axis: Axis, low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Ticks between the ends, `most` on a linear axis."""
    low, high = min(low, high), max(low, high)
    if axis.names or axis.ticks:
        values = list(axis.ticks or range(len(axis.names)))
    elif axis.log:
        span = high - low
        steps: tuple[float, ...] = (1, 2, 5) if span <= 2.5 else (1, 3) if span <= 4 else (1,)
        steps = (1, 1.5, 2, 3, 4, 5, 6, 8) if span < 0.6 else steps
        exponents = range(math.floor(low), math.ceil(high) + 1)
        values = [m * 10.0**e for e in exponents for m in steps if low - 1e-9 <= math.log10(m) + e <= high + 1e-9]
    else:
        rough = (high - low) / most
        power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
        values = [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    return [(value, axis.text(value)) for value in values]


# Marks.


class _PanelDrawing:
    """One panel of a figure, drawn into its box."""

    def __init__(self, panel: Panel, figure: Picture, ident: str) -> None:
        self.panel, self.ident = panel, ident
        width, height = figure.width, figure.height
        self.parts: list[str] = []
        title = _wrapped(panel.title, width - 12)
        if panel.title:
            self.parts.append(_text(4, 16, title, anchor="start", bold=True))
        self.top = 12.0 + LINE * (len(title) if panel.title else 0) + (16 if panel.y.title else 0)
        if panel.y.title:
            self.parts.append(_text(4, self.top - 9, [panel.y.title], anchor="start", colour="muted"))
        across, down = (_common_ends(figure, panel, along) for along in ("x", "y"))
        ups = _ticks(panel.y, *down, most=6)
        longest = max([7, *(len(text) for _, text in ups)])
        self.left, self.right = min(longest * LETTER + 16, width * 0.46), width - 16.0
        self.x = _Scale(panel.x, *across, self.left, self.right)
        band = self.x.band or math.inf
        overs = [(value, _wrapped(text, band)) for value, text in _ticks(panel.x, *across, most=6)]
        below = LINE * max((len(lines) for _, lines in overs), default=1)
        under = _wrapped(panel.x.title, width - 20) if panel.x.title else []
        self.bottom = height - 14 - below - LINE * len(under)
        self.y = _Scale(panel.y, *down, self.bottom, self.top)
        self._grid(ups, overs)
        if under:
            self.parts.append(_text((self.left + self.right) / 2, self.bottom + 23 + below, under, colour="muted"))
        for series in panel.series:
            if series.mark == "area":
                self._area(series)
        self._rules()
        self._bars([series for series in panel.series if series.mark == "bar"])
        for series in panel.series:
            self._points(series)

    def _grid(self, ups: Sequence[tuple[float, str]], overs: Sequence[tuple[float, list[str]]]) -> None:
        fits = int((self.left - 10) / LETTER)
        for value, text in ups:
            at, shown = self.y.place(value), text if len(text) <= fits else f"{text[: fits - 1]}…"
            self.parts.append(f'<path class="grid" fill="none" d="M{self.left:.1f} {at:.1f}H{self.right:.1f}"/>')
            self.parts.append(_text(self.left - 7, at + 4, [shown], anchor="end"))
        end = -math.inf
        for value, lines in overs:
            at = self.x.place(value)
            if not self.x.band:
                self.parts.append(f'<path class="grid" fill="none" d="M{at:.1f} {self.top:.1f}V{self.bottom:.1f}"/>')
            half = max(len(line) for line in lines) * LETTER / 2
            if self.x.band or at - half > end:
                self.parts.append(_text(at, self.bottom + 17, lines))
                end = at + half + 4
        path = f"M{self.left:.1f} {self.top:.1f}V{self.bottom:.1f}H{self.right:.1f}"
        self.parts.append(f'<path class="axis" fill="none" d="{path}"/>')

    def _rules(self) -> None:
        for rule in self.panel.rules:
            scale: _Scale = getattr(self, rule.along)
            at = scale.at(rule.value)
            if at is not None:
                upright = f"M{at:.1f} {self.top:.1f}V{self.bottom:.1f}"
                path = upright if rule.along == "x" else f"M{self.left:.1f} {at:.1f}H{self.right:.1f}"
                title = _titled(rule.text, scale.axis.text(rule.value))
                self.parts.append(_line(path, "muted", rule.dash, 1.5, title))

    def _bars(self, bars: Sequence[Series]) -> None:
        flat, stack = self.panel.y.is_named, self.panel.stack
        along, across = (self.y, self.x) if flat else (self.x, self.y)
        places = [place or 0.0 for series in bars for place in (series.y if flat else series.x)]
        if not places:
            return
        room = along.band or along.place(places[0] + _closest(places)) - along.place(places[0])
        wide = 0.72 * room / (1 if stack else len(bars))
        sums: dict[float, float] = {}
        for number, series in enumerate(bars):
            sides = (series.y, series.x) if flat else (series.x, series.y)
            for i, (place, value) in enumerate((place or 0.0, value) for place, value in zip(*sides, strict=True)):
                at = along.place(place) - (wide / 2 if stack else wide * len(bars) / 2 - number * wide)
                first = (sums.get(place, 0.0) if stack else 0.0) + series.start
                start, end = across.at(first), across.at(None if value is None else first * stack + value)
                if start is None:
                    start = across.start
                if value is None or end is None:
                    if series.absent:
                        self.parts.append(_text(at + wide / 2 + 4, start - 5, [series.absent], turned=True, size=10))
                    continue
                sums[place] = first + value
                long = abs(end - start)
                box = (min(start, end), at, long, wide) if flat else (at, min(start, end), wide, long)
                colour = series.colour if isinstance(series.colour, str) else series.colour[i]
                title = _titled(series.name, along.axis.text(place), across.axis.text(value))
                self.parts.append(_rect(box, colour, title, number if len(bars) > 1 else 0, self.ident))
                if flat and series.texts and series.texts[i]:
                    self.parts.append(_text(end + 6, at + wide / 2 + 4, [series.texts[i]], anchor="start"))

    def _area(self, series: Series) -> None:
        sides = [
            [f"{at:.1f} {up:.1f}" for x, y in zip(series.x, ends, strict=True) if (at := self.x.at(x)) is not None
             and (up := self.y.at(y)) is not None]
            for ends in (series.high, series.low)
        ]  # fmt: skip
        path = f"M{'L'.join([*sides[0], *reversed(sides[1])])}Z"
        self.parts.append(f'<path d="{path}" fill="var(--{series.colour})" fill-opacity="0.2"/>')

    def _points(self, series: Series) -> None:
        points = [
            (at, up, i)
            for i, (a, b) in enumerate(zip(series.x, series.y, strict=False))
            if (at := self.x.at(a)) is not None and (up := self.y.at(b)) is not None
        ]
        colour = str(series.colour)
        if series.dash is not None and points:
            path = "".join(f"{'L' if i else 'M'}{at:.1f} {up:.1f}" for i, (at, up, _) in enumerate(points))
            self.parts.append(_line(path, colour, series.dash, 2))
        if series.mark in ("", "bar", "area"):
            return
        if len(points) > CLOUD:
            path = "".join(dict.fromkeys(f"M{at:.1f} {up:.1f}h0" for at, up, _ in points))
            more = 'stroke-linecap="round" stroke-opacity="0.5"'
            self.parts.append(_line(path, colour, "solid", series.size, more=more))
            return
        for at, up, i in points:
            if series.low and series.mark != "area":
                low, high = self.y.at(series.low[i]), self.y.at(series.high[i])
                if low is not None and high is not None:
                    path = f"M{at:.1f} {low:.1f}V{high:.1f}M{at - 4:.1f} {low:.1f}h8M{at - 4:.1f} {high:.1f}h8"
                    self.parts.append(_line(path, colour, "solid", 1.5))
            where = self.x.axis.text(series.x[i] or 0.0), self.y.axis.text(series.y[i] or 0.0)
            title = _titled(series.name, series.texts[i] if series.texts else "", *where)
            self.parts.append(_symbol(series.mark, colour, at, up, series.size / 2, title))


# Elements.


def escaped(text: str) -> str:
    """Text of an element or an attribute, without characters that XML forbids."""
    return html.escape(_FORBIDDEN.sub("\ufffd", text))


def _titled(*parts: str) -> str:
    return f"<title>{escaped(', '.join(filter(None, parts)))}</title>"


def _wrapped(text: str, room: float) -> list[str]:
    """Lines that fit, as long as each word does."""
    if not math.isfinite(room):
        return [text]
    return textwrap.wrap(text, max(3, int(room / LETTER)), break_long_words=False) or [""]


def _text(
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


def _line(path: str, colour: str, dash: str, width: float, title: str = "", more: str = "") -> str:
    dashed = f' stroke-dasharray="{DASHES[dash]}"' if dash in DASHES else ""
    drawn = f'<path d="{path}" fill="none" stroke="var(--{colour})" stroke-width="{width:g}"{dashed}'
    return f"{drawn} {more}".rstrip() + (f">{title}</path>" if title else "/>")


def _rect(box: tuple[float, float, float, float], colour: str, title: str, number: int, ident: str) -> str:
    """A bar. `number`: of its series, whose pattern lies over the colour."""
    left, top, wide, high = box
    size = f'x="{left:.1f}" y="{top:.1f}" width="{max(wide, 0.5):.1f}" height="{max(high, 0.5):.1f}"'
    number = _pattern(number)
    over = f'<rect {size} fill="url(#{ident}-pattern-{number})" pointer-events="none"/>' if number else ""
    return f'<rect {size} fill="var(--{colour})">{title}</rect>{over}'


def _pattern(number: int) -> int:
    """The pattern of a series of bars: with its colour another pair for each of the first 49."""
    return (number + number // len(NAMES)) % len(_PATTERNS)


def _patterns(figure: Picture, ident: str) -> str:
    most = max(sum(series.mark == "bar" for series in panel.series) for panel in figure.panels)
    made = "".join(
        f'<pattern id="{ident}-pattern-{number}" width="8" height="8" patternUnits="userSpaceOnUse"><path d="{path}" '
        'stroke="var(--bg)" stroke-opacity="0.55" stroke-width="1.4" stroke-linecap="round"/></pattern>'
        for number, path in enumerate(_PATTERNS)
        if path and number in map(_pattern, range(most))
    )
    return f"<defs>{made}</defs>" if made else ""


def _symbol(mark: str, colour: str, at: float, up: float, size: float, title: str = "") -> str:
    paint = f"var(--{colour})"
    outlined = f'fill="var(--bg)" stroke="{paint}" stroke-width="1.6"' if mark.endswith("-open") else f'fill="{paint}"'
    path = _PATHS.get(mark.removesuffix("-open"))
    if path is None:
        return f'<circle cx="{at:.1f}" cy="{up:.1f}" r="{size:.1f}" {outlined}>{title}</circle>'
    scaled = f'transform="translate({at:.1f} {up:.1f}) scale({size:.2f})"'
    return f'<path d="{path}" {scaled} {outlined} vector-effect="non-scaling-stroke">{title}</path>'


def _legend(panels: Sequence[Panel], ident: str, width: float) -> tuple[str, float]:
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
                marks.setdefault(rule.text, _line("M0 6h14", "muted", rule.dash, 1.5))
    parts, at, line = [], 0.0, 0
    for name, mark in marks.items():
        long = 34 + len(name) * LETTER
        if at + long > width - 24 and at:
            at, line = 0.0, line + 1
        name_part = _text(19, 10, [name], anchor="start")
        parts.append(f'<g transform="translate({at:.1f} {line * GAP})">{mark}{name_part}</g>')
        at += long
    return "".join(parts), (line + 1) * GAP + 12 if marks else 0.0


def _sample(series: Series, number: int, ident: str) -> str:
    """A series' mark in the legend."""
    colour = series.colour if isinstance(series.colour, str) else series.colour[0]
    if series.mark in ("bar", "area"):
        shade = _rect((1, 1, 12, 10), colour, "", number, ident)
        return shade if series.mark == "bar" else f'<g fill-opacity="0.2">{shade}</g>'
    if series.mark == "level":
        return _line("M0 6h14", colour, "solid", 3)
    line = _line("M0 6h14", colour, series.dash, 2) if series.dash is not None else ""
    return line + (_symbol(series.mark, colour, 7, 6, 4.5) if series.mark else "")
