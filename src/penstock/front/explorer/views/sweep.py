"""The points of a sweep or a design space: the front that nothing beats, a map, filters, the command of each point."""

from __future__ import annotations

import math
from collections.abc import Sequence

from penstock.base.types import Row
from penstock.base.version import __version__
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.state import State
from penstock.front.explorer.view import View, inputs, results
from penstock.front.explorer.views.rows import newest_with
from penstock.lab.reports.space import Space

MOST_ROWS = 200
"""Rows of a table that is not a front."""
ASKED = ("shape", "x", "y", "by", "z", "pick", "where")
"""Settings of the drawing."""
REMEDY = "make one with 'penstock sweep FILE.toml', or name another folder with --runs"


def sweep(engine: Engine, state: State) -> View:
    """The points of the state's sweep, or of the newest. Its rows are the Pareto front.

    Raises: UsageError: no sweep, or an empty one; UnknownName: no such axis, measure or value; as
            `Library.sweep_path`.
    """
    has = "is a sweep", "is not a sweep"
    name, drawn = newest_with(engine, state.run, engine.space, has, REMEDY)
    return _view("sweep", f"Sweep {name}", f"run {name}, results.parquet", drawn, state, run=name)


def designs(engine: Engine, state: State) -> View:
    """The design space of accelerators in a drive for one workload. Its rows are the Pareto front.

    Raises: UnknownName: no such workload, axis, measure or value.
    """
    drawn = engine.designs(state.query)
    source = f"penstock {__version__}: penstock ssd space {state.query}"
    return _view("designs", f"Designs for {state.query} in a drive", source, drawn, state)


def _view(name: str, title: str, source: str, drawn: tuple[Space, str], state: State, **drawing: str) -> View:
    space, text = drawn
    points = space.chosen(state.where)
    measures = {measure.name for measure in space.measures}
    axes = {axis.name for axis in space.axes}
    as_map = state.shape == "map" and len(axes) > 1
    up = (state.z if as_map else state.y) or space.measures[0].name
    across = state.x or space.default_x()
    for setting in filter(None, (state.x, state.y, state.by, state.z)):
        if setting not in {*measures, *axes, "none"}:
            space.measure(setting)
    if as_map or across not in measures or up not in measures:
        chosen, sentence = _sorted(space, points, up if up in measures else space.measures[0].name)
    else:
        chosen = _ordered(space, space.front(points, across, up), up)
        labels = [space.measure(direction).label.lower() for direction in (across, up)]
        same = " of the same program" if space.apart else ""
        these = "point" if len(chosen) == 1 else f"{len(chosen)} points"
        sentence = f"The table has the {these} that no other point{same} beats in both {labels[0]} and {labels[1]}."
    return View(
        name=name,
        title=f"{title}: {len(points):,} of {space.count:,} points",
        columns=[
            *inputs(*((axis.name, axis.label.lower()) for axis in space.axes)),
            *results(
                space.provenance,
                source,
                *((column.name, column.label.lower(), column.unit) for column in space.measures),
            ),
        ],
        rows=[_row(space, i) for i in chosen],
        notes=[sentence],
        drawing={**drawing, "space": text, "asked": {name: getattr(state, name) for name in ASKED}},
    )


def _ordered(space: Space, points: Sequence[int], measure: str) -> list[int]:
    """The points from the best to the worst; those without a value last."""
    goal = space.measure(measure)
    sign = -1.0 if goal.more else 1.0
    keys = [math.inf if value is None else sign * value for value in goal.values]
    return sorted(points, key=keys.__getitem__)


def _sorted(space: Space, points: Sequence[int], measure: str) -> tuple[list[int], str]:
    ordered = _ordered(space, points, measure)
    label = space.measure(measure).label.lower()
    if len(ordered) > MOST_ROWS:
        return ordered[:MOST_ROWS], f"The table has the {MOST_ROWS} best points by {label}."
    return ordered, f"The table has the points by {label}."


def _row(space: Space, point: int) -> Row:
    return {
        **{axis.name: axis.texts[axis.codes[point]] for axis in space.axes},
        **{measure.name: measure.values[point] for measure in space.measures},
        "command": space.command_of(point),
        "provenance": space.provenance,
    }
