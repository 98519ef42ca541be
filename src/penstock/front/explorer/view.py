"""The material of a page: a table whose every number names its provenance, and the data of a drawing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields

from penstock.base.system.plain import csv_of, plain
from penstock.base.types import RowView

PER_ROW = "row"
"""Provenance of a column whose rows each name theirs in the field `provenance`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewColumn:
    """One column of a table."""

    name: str
    label: str
    unit: str | None = None
    """`s`, `B`, `B/s`, `J`, `1` (a number), `x` (a ratio), `share`; `None`: text."""
    provenance: str | None = None
    """`measured`, `predicted`, `simulated`, `published`, or `PER_ROW`; `None`: an input, not a result."""
    source: str = ""
    """Where its numbers come from, in a sentence."""


def inputs(*named: tuple[str, ...]) -> list[ViewColumn]:
    """Input columns: name and label, and a unit of numbers."""
    return [ViewColumn(name=name, label=label, unit=unit[0] if unit else None) for name, label, *unit in named]


def results(provenance: str, source: str, *named: tuple[str, str, str | None]) -> list[ViewColumn]:
    """Columns of one provenance and source: name, label and unit."""
    return [
        ViewColumn(name=name, label=label, unit=unit, provenance=provenance, source=source)
        for name, label, unit in named
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One answer: the drawing, the download, and the equivalent command."""

    name: str = ""
    """The key of `VIEWS`; empty: that of the view that was asked for."""
    title: str
    columns: Sequence[ViewColumn]
    rows: Sequence[RowView]
    command: str = ""
    """The command line whose rows are the same; empty: `penstock explore VIEW --print`."""
    warnings: Sequence[str] = ()
    damage: Sequence[str] = ()
    """Files whose rows are missing here, each with its remedy; they are among the warnings too."""
    notes: Sequence[str] = ()
    """The content of the drawing, and its omissions."""
    drawing: RowView = field(default_factory=dict)
    """What the drawing needs and the table does not hold."""

    def to_json(self) -> bytes:
        """The whole view; a number that is not finite is `null`."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        record["columns"] = [asdict(column) for column in self.columns]
        return json.dumps(plain(record), allow_nan=False, separators=(",", ":")).encode()

    def to_csv(self) -> bytes:
        """The table, with the names of the columns; a cell that a spreadsheet would run as a formula is quoted."""
        names = list(dict.fromkeys([*(column.name for column in self.columns), *(n for row in self.rows for n in row)]))
        return csv_of(names, ([_cell(plain(row.get(name))) for name in names] for row in self.rows))


def _cell(value: object) -> object:
    if isinstance(value, dict | list):
        return json.dumps(value)
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return "" if value is None else value
