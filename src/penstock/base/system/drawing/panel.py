"""A panel of a figure: where the values of its axes lie, and its marks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.base.system.drawing.elements import (
    CLOUD,
    LETTER,
    LINE,
    bar_element,
    label,
    line_element,
    symbol_element,
    titled,
    wrapped,
)
from penstock.base.system.drawing.model import Axis, Number, Panel, Picture, Series

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


class PanelDrawing:
    """One panel of a figure, drawn into its box."""

    def __init__(self, panel: Panel, figure: Picture, ident: str) -> None:
        self.panel, self.ident = panel, ident
        width, height = figure.width, figure.height
        self.parts: list[str] = []
        title = wrapped(panel.title, width - 12)
        if panel.title:
            self.parts.append(label(4, 16, title, anchor="start", bold=True))
        self.top = 12.0 + LINE * (len(title) if panel.title else 0) + (16 if panel.y.title else 0)
        if panel.y.title:
            self.parts.append(label(4, self.top - 9, [panel.y.title], anchor="start", colour="muted"))
        across, down = (_common_ends(figure, panel, along) for along in ("x", "y"))
        ups = _ticks(panel.y, *down, most=6)
        longest = max([7, *(len(text) for _, text in ups)])
        self.left, self.right = min(longest * LETTER + 16, width * 0.46), width - 16.0
        self.x = _Scale(panel.x, *across, self.left, self.right)
        band = self.x.band or math.inf
        overs = [(value, wrapped(text, band)) for value, text in _ticks(panel.x, *across, most=6)]
        below = LINE * max((len(lines) for _, lines in overs), default=1)
        under = wrapped(panel.x.title, width - 20) if panel.x.title else []
        self.bottom = height - 14 - below - LINE * len(under)
        self.y = _Scale(panel.y, *down, self.bottom, self.top)
        self._grid(ups, overs)
        if under:
            self.parts.append(label((self.left + self.right) / 2, self.bottom + 23 + below, under, colour="muted"))
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
            self.parts.append(label(self.left - 7, at + 4, [shown], anchor="end"))
        end = -math.inf
        for value, lines in overs:
            at = self.x.place(value)
            if not self.x.band:
                self.parts.append(f'<path class="grid" fill="none" d="M{at:.1f} {self.top:.1f}V{self.bottom:.1f}"/>')
            half = max(len(line) for line in lines) * LETTER / 2
            if self.x.band or at - half > end:
                self.parts.append(label(at, self.bottom + 17, lines))
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
                title = titled(rule.text, scale.axis.text(rule.value))
                self.parts.append(line_element(path, "muted", rule.dash, 1.5, title))

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
                        self.parts.append(label(at + wide / 2 + 4, start - 5, [series.absent], turned=True, size=10))
                    continue
                sums[place] = first + value
                long = abs(end - start)
                box = (min(start, end), at, long, wide) if flat else (at, min(start, end), wide, long)
                colour = series.colour if isinstance(series.colour, str) else series.colour[i]
                title = titled(series.name, along.axis.text(place), across.axis.text(value))
                self.parts.append(bar_element(box, colour, title, number if len(bars) > 1 else 0, self.ident))
                if flat and series.texts and series.texts[i]:
                    self.parts.append(label(end + 6, at + wide / 2 + 4, [series.texts[i]], anchor="start"))

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
            self.parts.append(line_element(path, colour, series.dash, 2))
        if series.mark in ("", "bar", "area"):
            return
        if len(points) > CLOUD:
            path = "".join(dict.fromkeys(f"M{at:.1f} {up:.1f}h0" for at, up, _ in points))
            more = 'stroke-linecap="round" stroke-opacity="0.5"'
            self.parts.append(line_element(path, colour, "solid", series.size, more=more))
            return
        for at, up, i in points:
            if series.low and series.mark != "area":
                low, high = self.y.at(series.low[i]), self.y.at(series.high[i])
                if low is not None and high is not None:
                    path = f"M{at:.1f} {low:.1f}V{high:.1f}M{at - 4:.1f} {low:.1f}h8M{at - 4:.1f} {high:.1f}h8"
                    self.parts.append(line_element(path, colour, "solid", 1.5))
            where = self.x.axis.text(series.x[i] or 0.0), self.y.axis.text(series.y[i] or 0.0)
            title = titled(series.name, series.texts[i] if series.texts else "", *where)
            self.parts.append(symbol_element(series.mark, colour, at, up, series.size / 2, title))
