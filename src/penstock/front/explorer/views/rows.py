"""Rows of run folders, as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from penstock.base.runs.folder import RunFolder
from penstock.base.types import Row, Rows
from penstock.errors import PenstockError, UsageError
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.view import PER_ROW, View, ViewColumn, inputs, results

DIMENSIONS = ("stage", "machine", "tier", "mode", "cache_bytes", "policy", "hit_ratio", "kind", "limbs")
FIRST = ("kind", "limbs")
"""Dimensions that complete the name of a quantity."""
_Content = TypeVar("_Content")
UNITS = {"cache_bytes": "B", "hit_ratio": "share", "limbs": "1", "threads": "1", "ring_dim": "1"}
"""Dimensions that are numbers, with their units."""


def result_columns(name: str, rows: Iterable[Row]) -> list[ViewColumn]:
    """Columns of result rows of the run `name`: the dimensions that any of them has, and the value."""
    known = list(rows)
    used = [dimension for dimension in DIMENSIONS if any(row[dimension] is not None for row in known)]
    return [
        *inputs(("quantity", "quantity")),
        *(dimension_column(dimension) for dimension in used if dimension in FIRST),
        *results(PER_ROW, f"run {name}, results.parquet", ("value", "value", "row")),
        *(dimension_column(dimension) for dimension in used if dimension not in FIRST),
        *inputs(("provenance", "provenance"), ("note", "note")),
    ]


def dimension_column(name: str) -> ViewColumn:
    """The column of a dimension of result rows."""
    return ViewColumn(name=name, label=name.replace("_", " "), unit=UNITS.get(name))


def with_damage(view: View, *runs: RunFolder) -> View:
    """The view, which says of what files of the runs it misses the rows."""
    damage = [text for run in runs for text in run.damage()]
    return replace(view, damage=damage, warnings=list(dict.fromkeys([*view.warnings, *damage]))) if damage else view


def newest(engine: Engine, wanted: str) -> tuple[str, RunFolder, Rows]:
    """The run of that name, or the newest that can be read, and its rows.

    Raises: UsageError: there is none; as `Library.open_run`.
    """

    def read(name: str) -> tuple[RunFolder, Rows]:
        run = engine.library.open_run(name)
        return run, run.results().to_pylist()

    remedy = "make one with 'penstock analyze WORKLOAD', or name another folder with --runs"
    name, (run, rows) = newest_with(engine, wanted, read, ("can be read", "cannot be read"), remedy)
    return name, run, rows


def newest_with(
    engine: Engine, wanted: str, read: Callable[[str], _Content | None], has: tuple[str, str], remedy: str
) -> tuple[str, _Content]:
    """The run of that name, or the newest that can be read and of which `read` finds something; and what it finds.

    Args:   has: what is said of such a run, and of another.

    Raises: UsageError: there is none; as `read`.
    """
    for name in [wanted] if wanted else engine.library.run_names():
        try:
            content = read(name)
        except PenstockError:
            if wanted:
                raise
            continue
        if content is not None:
            return name, content
    if wanted:
        raise UsageError(f"run {wanted} {has[1]}: {remedy}")
    raise UsageError(f"no run below {engine.library.runs} {has[0]}: {remedy}")
