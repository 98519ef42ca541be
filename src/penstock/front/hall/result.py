"""What every function of the front hall returns: rows with units in their names, as a table, a frame or a picture."""

from __future__ import annotations

import html
import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from penstock.base.types import Row, Rows
from penstock.base.units import format_named
from penstock.errors import CapabilityMissing, UnknownName, UsageError
from penstock.front.hall import plots
from penstock.scheme.machines.missing import MISSING
from penstock.scheme.traces.schema import Trace
from penstock.scheme.unpriced import shown_total

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

SHOWN_ROWS = 40
"""Rows that a notebook or a prompt shows; `to_pandas` has all."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Result:
    """Rows, and their assumptions. Iterating over a result gives its rows; `len` counts them."""

    rows: tuple[Row, ...]
    """Flat rows: SI base units, the unit at the end of the name; `None` where a value is not known."""
    title: str
    provenance: str
    """The provenance of the rows' numbers: `measured`, `predicted`, `simulated` or `published`."""
    warnings: tuple[str, ...] = ()
    """What makes the numbers less than they seem, with the remedy."""
    assumed: tuple[dict[str, str], ...] = ()
    """Every `assumed`, `calibrated` and `missing` value of machines, tiers and networks below the numbers."""
    shown: tuple[str, ...] = ()
    """Columns of the short table; empty: all."""

    DRAWN: ClassVar[tuple[str | None, str | None]] = (None, None)
    """The column along which a picture shows another, and that one."""
    TYPES: ClassVar[Mapping[str, pa.DataType]] = {}
    """Types of columns that rows alone do not tell."""

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, index: int) -> Row:
        return self.rows[index]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns, in order."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row))

    def to_dicts(self) -> Rows:
        """Copies of the rows as dictionaries."""
        return [dict(row) for row in self.rows]

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table, with every column."""
        names = self.columns
        arrays = [pa.array([row.get(name) for row in self.rows], self.TYPES.get(name)) for name in names]
        return pa.table(arrays, names=list(names))

    def to_pandas(self) -> DataFrame:
        """The rows as a pandas DataFrame, with every column.

        Raises: CapabilityMissing: pandas is not installed.
        """
        needs("pandas", "data frames")
        return self.to_arrow().to_pandas()

    def plot(
        self, y: str | None = None, *, x: str | None = None, by: str | None = None, ax: Axes | None = None
    ) -> Axes:
        """A picture of the rows, on matplotlib axes, which are returned.

        Args:   y, x: columns (default: what the result is about); by: the column whose values get a colour each
                (default: every other column that tells rows apart); ax: axes to draw on.
        Raises: CapabilityMissing: matplotlib is not installed; UnknownName: no such column; UsageError: nothing to
                draw.
        """
        needs("matplotlib", "pictures")
        for name in (x, y, by):
            if name is not None and name not in self.columns:
                raise UnknownName("column", name, self.columns)
        drawn_x, drawn_y = self._drawn()
        used_y, used_x = y or drawn_y, x or drawn_x
        numbers = used_y is not None and any(isinstance(row.get(used_y), int | float) for row in self.rows)
        if used_x is None or used_y is None or not numbers:
            raise UsageError(f"{self.title}: there is nothing to draw; name two columns, plot('total_s', x='tier')")
        axes = plots.draw(self.rows, used_x, used_y, by, self._told_apart(used_x), ax)
        axes.set_title(f"{self.title} ({self.provenance})")
        return axes

    def _drawn(self) -> tuple[str | None, str | None]:
        return self.DRAWN

    def _told_apart(self, x: str) -> tuple[str, ...]:
        """Columns other than `x` that tell rows apart."""
        return ()

    # For a prompt and for a notebook.

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        names = [name for name in (self.shown or self.columns) if name in self.columns]
        if not self.shown:
            names = [name for name in names if not isinstance(self.rows[0].get(name), list | dict)]
        return names, [[_cell(row, name) for name in names] for row in self.rows[:SHOWN_ROWS]]

    def _notes(self) -> list[str]:
        more = len(self.rows) - SHOWN_ROWS
        notes = [f"{more} more rows: to_pandas() has all"] if more > 0 else []
        notes += [f"warning: {text}" for text in self.warnings]
        for kind in ("calibrated", "assumed", MISSING):
            values = [
                f"{_owner(entry)} {entry['field']} {entry['value']}" for entry in self.assumed if entry["kind"] == kind
            ]
            notes += [f"{kind}: {'; '.join(values)}"] if values else []
        return notes

    def __repr__(self) -> str:
        names, cells = self._cells() if self.rows else ([], [])
        widths = [max(len(line[i]) for line in [names, *cells]) for i in range(len(names))]
        lines = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in cells]
        head = "  ".join(name.ljust(width) for name, width in zip(names, widths, strict=True))
        return "\n".join(text.rstrip() for text in [f"{self.title} ({self.provenance})", head, *lines, *self._notes()])

    def _repr_html_(self) -> str:
        """The short table for a notebook: no script, no style sheet, nothing from elsewhere."""
        names, cells = self._cells() if self.rows else ([], [])
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>" for line in cells)
        notes = "".join(f"<p><small>{html.escape(note)}</small></p>" for note in self._notes())
        title = f"<p><b>{html.escape(self.title)}</b> ({html.escape(self.provenance)})</p>"
        return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Table(Result):
    """Rows with a special picture."""

    x: str
    y: str
    by: tuple[str, ...] = ()
    """Columns that tell series apart."""

    def _drawn(self) -> tuple[str | None, str | None]:
        return self.x, self.y

    def _told_apart(self, x: str) -> tuple[str, ...]:
        return tuple(name for name in varying(self.rows, self.by) if name != x)


def needs(module: str, what: str) -> ModuleType:
    """An optional library.

    Raises: CapabilityMissing: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise CapabilityMissing(f"{what} need {module}: pip install 'penstock[notebook]', or {module} alone") from error


def listed(value: object) -> list[Any]:
    """One value or several, as a list; `None` is none. Paths become texts."""
    if value is None:
        return []
    if isinstance(value, str | Path | Result | Trace | Mapping) or not isinstance(value, Iterable):
        value = [value]
    return [str(entry) if isinstance(entry, Path) else entry for entry in value]


def varying(rows: Sequence[Row], names: Sequence[str]) -> tuple[str, ...]:
    """Those of the columns that have more than one value."""
    return tuple(name for name in names if len({repr(row.get(name)) for row in rows}) > 1)


def groups_of(rows: Sequence[Row], names: Sequence[str]) -> int:
    """The number of different values of the columns together."""
    return len({tuple(repr(row.get(name)) for name in names) for row in rows})


def _cell(row: Row, name: str) -> str:
    return shown_total(row, name, partial(format_named, name), format_named(name, None))


def _owner(entry: Mapping[str, str]) -> str:
    return next(entry[what] for what in ("machine", "tier", "network") if what in entry)
