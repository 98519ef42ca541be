"""Many points at once: their axes, their measures, their Pareto front, and the command of each point.

A sweep's page, the explorer and `penstock ssd space` draw a `Space` with the same code (`space.js`).
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TypeVar

from penstock.base.system.palette import tier_colours
from penstock.base.types import RowView
from penstock.errors import UsageError, check_known

Named = TypeVar("Named")
MOST_POINTS = 50_000
"""Points of one drawing."""
SCRIPTS = ("format.js", "space.js")
"""Modules that the explorer serves too."""
TARGETS = ("trace", "workload")
"""Axes whose value is the program that a command names first; the first of them that has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceAxis:
    """A choice for each point: one of a few values."""

    name: str
    label: str
    values: tuple[object, ...]
    """Distinct, in their order."""
    texts: tuple[str, ...]
    """Of the values, each another one."""
    words: tuple[str, ...]
    """What each value adds to the command, quoted for a shell; empty: nothing."""
    codes: tuple[int, ...]
    """(points,) index of each point's value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A result of each point."""

    name: str
    label: str
    unit: str | None
    values: tuple[float | None, ...]
    """(points,)"""
    more: bool = False
    """Whether more is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Points with their axes and measures."""

    axes: tuple[SpaceAxis, ...]
    measures: tuple[Measure, ...]
    count: int
    command: str | None
    """The words that all points share; `None`: no command gives one point."""
    apart: tuple[str, ...] = ()
    """Axes whose values are never compared: each value has a separate front."""
    provenance: str = "simulated"
    left_out: int = 0
    """Points beyond `MOST_POINTS`."""

    def axis(self, name: str) -> SpaceAxis:
        """Raises: UnknownName."""
        return _named("axis", name, {axis.name: axis for axis in self.axes})

    def measure(self, name: str) -> Measure:
        """Raises: UnknownName."""
        return _named("measure", name, {measure.name: measure for measure in self.measures})

    def chosen(self, where: str) -> list[int]:
        """The points that meet `axis=value; axis=value`; all of an empty text.

        Raises: UnknownName: no such axis or value; UsageError: it is not written so.
        """
        met = list(range(self.count))
        for part in filter(None, (condition.strip() for condition in where.split(";"))):
            name, equals, text = part.partition("=")
            if not equals:
                raise UsageError(f"where '{part}': write AXIS=VALUE, several with a semicolon between")
            axis = self.axis(name.strip())
            wanted = _named("value", text.strip(), {label: i for i, label in enumerate(axis.texts)})
            met = [i for i in met if axis.codes[i] == wanted]
        return met

    def front(self, points: Sequence[int], x: str, y: str) -> list[int]:
        """The points that no other one beats in both measures, by `x`; apart for each value of `apart`.

        Raises: UnknownName: no such measure.
        """
        across, up = self.measure(x), self.measure(y)
        left, right = (-1.0 if measure.more else 1.0 for measure in (across, up))
        first, second = across.values, up.values
        placed = sorted(
            (left * a, right * b, i) for i in points if (a := first[i]) is not None and (b := second[i]) is not None
        )
        keys = [self.axis(name).codes for name in self.apart]
        best: dict[tuple[int, ...], float] = {}
        points_kept = []
        for _, value, i in placed:
            group = tuple(codes[i] for codes in keys) if keys else ()
            if value < best.get(group, math.inf):
                best[group] = value
                points_kept.append(i)
        return points_kept

    def command_of(self, point: int) -> str:
        """The command that prints this point; empty where there is none."""
        if self.command is None:
            return ""
        words = {axis.name: axis.words[axis.codes[point]] for axis in self.axes}
        target = next((words[name] for name in TARGETS if words.get(name)), "")
        rest = [word for name, word in words.items() if name not in TARGETS and word]
        return self.command.replace("{target}", target, 1) + "".join(f" {word}" for word in rest)

    def default_x(self) -> str:
        """The first measure besides the first, which is the default of the other direction."""
        return self.measures[1].name if len(self.measures) > 1 else self.measures[0].name

    def to_json(self) -> str:
        """What `space.js` reads."""
        axes = [
            {name: getattr(axis, name) for name in ("name", "label", "texts", "words", "codes")}
            | {"colours": _colours(axis)}
            for axis in self.axes
        ]
        measures = [
            {
                **{name: getattr(measure, name) for name in ("name", "label", "unit", "more")},
                "values": [None if value is None else float(f"{value:.5g}") for value in measure.values],
            }
            for measure in self.measures
        ]
        content = {
            "count": self.count, "axes": axes, "measures": measures, "command": self.command, "targets": TARGETS,
            "apart": self.apart, "provenance": self.provenance, "left_out": self.left_out,
        }  # fmt: skip
        return json.dumps(content, separators=(",", ":"), allow_nan=False)


def space_of(
    rows: Sequence[RowView],
    *,
    axes: Mapping[str, tuple[str, Sequence[object]]],
    measures: Iterable[tuple[str, str, str | None, Callable[[RowView], float | None], bool]],
    text: Callable[[str, object], str],
    word: Callable[[str, object], str],
    command: str | None,
    apart: Iterable[str] = (),
) -> Space:
    """The space of these rows.

    Args:   axes: name -> (label, distinct values). measures: name, label, unit, value of a row, whether more is better;
            those without any value are left out. text, word: of an axis and a value, for people and for the command.
    """
    shown = rows[:MOST_POINTS]
    drawn = []
    for name, (label, values) in axes.items():
        at = {value: i for i, value in enumerate(values)}
        drawn.append(
            SpaceAxis(
                name=name,
                label=label,
                values=tuple(values),
                texts=_distinct([text(name, value) for value in values]),
                words=tuple(word(name, value) for value in values),
                codes=tuple(at[row.get(name)] if row.get(name) in at else at.get(None, 0) for row in shown),
            )
        )
    costs = []
    for name, label, unit, of, more in measures:
        known = tuple(_finite(of(row)) for row in shown)
        if any(value is not None for value in known):
            costs.append(Measure(name=name, label=label, unit=unit, values=known, more=more))
    return Space(
        axes=tuple(drawn),
        measures=tuple(costs),
        count=len(shown),
        command=command,
        apart=tuple(name for name in apart if name in axes),
        left_out=len(rows) - len(shown),
    )


def option(name: str, value: object) -> str:
    """An option with its value, quoted for a shell."""
    return f"{name} {shlex.quote(str(value))}"


def script() -> str:
    """`space.js` and its formats as one script for a separate page. It defines `penstockSpace`."""
    parts = [resources.files(__package__).joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS]
    bare = re.sub(r"^export ", "", re.sub(r"^import .*;$", "", "\n".join(parts), flags=re.M), flags=re.M)
    return f'"use strict";\n(() => {{\n{bare}\nwindow.penstockSpace = {{ drawSpace }};\n}})();\n'


def _named(what: str, name: str, known: Mapping[str, Named]) -> Named:
    check_known(what, name, known)
    return known[name]


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _distinct(texts: Sequence[str]) -> tuple[str, ...]:
    """Texts that were cut or rounded to the same get a number."""
    seen: dict[str, int] = {}
    labels = []
    for text in texts:
        seen[text] = seen.get(text, 0) + 1
        labels.append(text if seen[text] == 1 else f"{text} ({seen[text]})")
    return tuple(labels)


def _colours(axis: SpaceAxis) -> list[int] | None:
    """Tiers have fixed colours; other axes use the order of the page."""
    if axis.name != "tier":
        return None
    known = tier_colours([str(value) for value in axis.values])
    return [known[str(value)] for value in axis.values]
