"""What a figure is: panels with their series, axes and reference lines, as plain data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.base.units import format_bytes, format_seconds

Number = float | None


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
