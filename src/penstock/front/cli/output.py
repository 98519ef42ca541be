"""Printing results: one list of flat rows, or one object, as a table, JSON or CSV on stdout."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO

import click
from rich.console import Console
from rich.table import Table

from penstock.base.arrays import Complexes, Floats
from penstock.base.system.files import check_target, write_atomic
from penstock.base.system.plain import plain as plain
from penstock.base.types import Rows, RowView
from penstock.base.units import format_bytes, format_named, format_rate, format_seconds
from penstock.errors import UsageError
from penstock.front.cli.options import all_of, quiet_option
from penstock.front.cli.terminal import PlainConsole, print_wide
from penstock.scheme.unpriced import UNKNOWN, shown_total

FORMATS = ("table", "json", "csv")
PIPE_WIDTH = 200
WIDEST = 100_000
"""Characters of a line that a table of rows may take in a file or a pipe."""
Own = Mapping[str, Callable[[RowView], str]]
"""Name of a column -> the cell of a row."""

progress_console = PlainConsole(stderr=True)
"""Progress and warnings go to stderr, and progress only to a terminal."""


format_option = click.option(
    "--format",
    "output_format",
    type=click.Choice(FORMATS),
    default="table",
    help="Format of the results on stdout.",
)
"""The same on every command that prints results."""
output_options = all_of(quiet_option, format_option)


def say(text: str, *, quiet: bool = False, style: str | None = None) -> None:
    """A line on stderr, which a pipe gets whole; none if `quiet`."""
    if not quiet:
        progress_console.print(text, markup=False, highlight=False, soft_wrap=True, style=style)


def say_choice(note: str | None, *, quiet: bool = False) -> None:
    """Name the parameter set that was chosen for the user, and why."""
    if note is not None:
        say(note if note.startswith("warning: ") else f"note: {note}", quiet=quiet)


def slot_rows(values: Floats | Complexes, *, is_complex: bool) -> Rows:
    """One row a slot of a decrypted vector, (n,); its imaginary parts where they are asked for."""
    if not is_complex:
        return [{"slot": slot, "value": value} for slot, value in enumerate(values.real.tolist())]
    parts = zip(values.real.tolist(), values.imag.tolist(), strict=True)
    return [{"slot": slot, "value": real, "imaginary": imaginary} for slot, (real, imaginary) in enumerate(parts)]


def emit(
    result: RowView | Sequence[RowView],
    output_format: str,
    *,
    table: Callable[[Console], None] | None = None,
) -> None:
    """Print one object or one list of rows. `table` draws the human form; otherwise it is made from the rows.

    JSON and CSV are stable: SI base units, names as documented, `null` (an empty cell) where unknown.
    """
    if output_format == "json":
        click.echo(json.dumps(plain(result), indent=2, allow_nan=False))
        return
    rows = [result] if isinstance(result, Mapping) else list(result)
    if output_format == "csv":
        write_csv(sys.stdout, rows)
        return
    # Into a file or a pipe nothing is cut: a table takes the width that it needs.
    console = PlainConsole(file=sys.stdout, width=None if sys.stdout.isatty() else PIPE_WIDTH)
    if table is not None:
        table(console)
        return
    if isinstance(result, Mapping):  # a line for each value
        lines = ({"name": name, "text": shown_total(result, name, partial(shown, name))} for name in result)
        drawn = rows_table(lines, "name | text", show_header=False)
    else:
        first = rows[0] if rows else {}
        names = (f">{name}" if isinstance(value, int | float) else name for name, value in first.items())
        drawn = rows_table(rows, " | ".join(names)) if rows else Table(box=None)
    if not sys.stdout.isatty():
        console.width = max(PIPE_WIDTH, console.measure(drawn, options=console.options.update(width=WIDEST)).maximum)
    console.print(drawn)


def toml_target(output: Path, what: str, *, force: bool) -> None:
    """Before the file is written. Raises: UsageError: its name is another one; WouldOverwrite: not `force`."""
    if output.suffix != ".toml":
        raise UsageError(f"-o {output}: {what} is written as .toml; name the file so")
    check_target(output, force=force)


def draw_verdict(console: Console, verdict: str) -> None:
    """The answer in one line, above its table."""
    console.print(f"verdict: {verdict}", highlight=False, markup=False, soft_wrap=True)


def table_of(headings: str, *, no_wrap: bool | str = False, fold: bool = False, **options: Any) -> Table:
    """A table without a frame.

    Args:   headings: parted by ` | `; one that starts with `>` is of a column flush right, and `*3` behind one is its
            share of the width; no_wrap: all columns, or all but this; fold: long cells go on in the next line;
            options: of `rich.table.Table`.
    """
    drawn = Table(**({"box": None, "pad_edge": fold} | options))
    for heading in headings.split(" | "):
        title, _, ratio = heading.removeprefix(">").partition("*")
        justify: Literal["left", "right"] = "right" if heading.startswith(">") else "left"
        overflow: Literal["fold", "ellipsis"] = "fold" if fold else "ellipsis"
        share = int(ratio) if ratio else None
        drawn.add_column(
            title,
            justify=justify,
            no_wrap=no_wrap is True or no_wrap not in (False, title),
            overflow=overflow,
            ratio=share,
        )
    return drawn


def rows_table(
    rows: Iterable[RowView],
    columns: str,
    own: Own | None = None,
    *,
    section: str = "",
    once: str = "",
    **options: Any,
) -> Table:
    """A table with a line for each row, whose cells are read by the names of columns.

    Args:   columns: parted by ` | `, each `HEADING=NAME:TEXT`. HEADING is as in `table_of`. NAME is the row's column,
            HEADING itself if omitted. TEXT is a format (`{:.1%}`), `bytes` (in decimal and binary units), `GB`,
            `GB/s`, `rate` or `seconds`; if omitted, the value has the unit that NAME ends in. An unknown value is a
            dash, or what `shown_total` says. own: NAME -> the cell of a row, for cells that are made of several
            columns; section: a line apart where this column changes; once: a column that leaves a repeated
            value out; options: as of `table_of`.
    """
    read = [_Column.read(text, own or {}) for text in columns.split(" | ")]
    drawn = table_of(" | ".join(column.heading for column in read), **options)
    above: RowView = {}
    for row in rows:
        if section and above and above[section] != row[section]:
            drawn.add_section()
        repeated = once and above and above[once] == row[once]
        drawn.add_row(*("" if repeated and column.name == once else column.cell(row) for column in read))
        above = row
    return drawn


def draw_rows(
    console: Console,
    rows: Iterable[RowView],
    columns: str,
    own: Own | None = None,
    *,
    wide: bool = False,
    **options: Any,
) -> None:
    """Print the table of `rows_table`; `wide`: whole, its cells on one line, however narrow the terminal is."""
    drawn = rows_table(rows, columns, own, **{"no_wrap": wide, **options})
    if wide:
        print_wide(console, drawn)
    else:
        console.print(drawn)


_WRITTEN: Mapping[str, Callable[[float], str]] = {
    "bytes": format_bytes, "seconds": format_seconds, "rate": format_rate, "GB": lambda value: f"{value / 1e9:.4g} GB",
    "GB/s": lambda value: f"{value / 1e9:.4g} GB/s",
}  # fmt: skip
"""Names of texts that a column may have instead of a format."""


class _Column(NamedTuple):
    """A column of `rows_table`."""

    heading: str
    name: str
    cell: Callable[[RowView], str]

    @classmethod
    def read(cls, text: str, own: Own) -> _Column:
        heading, _, source = text.partition("=")
        name, _, form = source.partition(":")
        name = name or heading.removeprefix(">").partition("*")[0]
        if name in own:
            return cls(heading, name, own[name])
        written = _WRITTEN.get(form) or (form.format if form else partial(shown, name))
        return cls(heading, name, lambda row: shown_total(row, name, written))


def known(name: str, text: Callable[[float], str], row: RowView) -> str:
    """The cell of a simulated value, which is unknown where an operation has no price."""
    return UNKNOWN if row[name] is None else text(row[name])


def write_csv(file: TextIO, rows: Sequence[RowView], names: Sequence[str] = ()) -> None:
    """Rows as CSV: lists as JSON in a cell, infinite values as an empty cell. Without rows and names: nothing.

    Args:   names: of the columns (default: every column of the rows).
    """
    names = names or list(dict.fromkeys(name for row in rows for name in row))
    if names:
        writer = csv.DictWriter(file, fieldnames=names, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: _cell(v) for k, v in row.items()})


def write_rows(path: Path, result: RowView | Sequence[RowView], *, force: bool) -> None:
    """Write rows, or one object, to a .json or .csv file. Raises: WouldOverwrite: it exists, and not `force`."""
    text = io.StringIO()
    if path.suffix == ".csv":
        write_csv(text, [] if isinstance(result, Mapping) else result)
    else:
        text.write(json.dumps(plain(result), indent=2, allow_nan=False) + "\n")
    write_atomic(path, text.getvalue().encode(errors="backslashreplace"), force=force)


def rows_target(path: Path, *, force: bool) -> None:
    """Before rows are made. Raises: UsageError: a file that is not .json or .csv; WouldOverwrite: not `force`."""
    if path.suffix not in (".json", ".csv"):
        raise UsageError(f"-o {path}: rows are written as .json or .csv; name the file so")
    check_target(path, force=force)


def _cell(value: object) -> object:
    value = plain(value)
    if isinstance(value, dict | list):
        return json.dumps(value)
    return "" if value is None else value


def with_range(value: float | None, low: float | None, high: float | None, text: Callable[[float], str]) -> str:
    """A value and its range; the value alone where no range is known, or where both ends read as the value.

    >>> with_range(2.0, 1.5, 3.0, str), with_range(2.0, 2.0, 2.0, str), with_range(2.0, None, None, str)
    ('2.0 (1.5 to 3.0)', '2.0', '2.0')
    """
    if value is None:
        return "-"
    if low is None or high is None or text(low) == text(value) == text(high):
        return text(value)
    return f"{text(value)} ({text(low)} to {text(high)})"


def shown(name: str, value: object) -> str:
    """A value in a table, in the unit that its name ends in: a dash where it is unknown."""
    value = plain(value)
    return json.dumps(value) if isinstance(value, dict | list) else format_named(name, value)


short_bytes = partial(shown, "bytes")
"""A size in decimal units; a dash where it is unknown."""
