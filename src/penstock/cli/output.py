"""Printing results: one list of flat rows, or one object, as a table, JSON or CSV on stdout."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TextIO, TypeVar

import click
from rich.console import Console
from rich.table import Table

from penstock.cli.terminal import PlainConsole
from penstock.errors import UsageError
from penstock.system.files import check_target
from penstock.system.plain import plain as plain
from penstock.units import format_named
from penstock.unpriced import shown_total

FORMATS = ("table", "json", "csv")
PIPE_WIDTH = 200
WIDEST = 100_000
"""Characters of a line that a table of rows may take in a file or a pipe."""
F = TypeVar("F", bound=Callable[..., Any])

progress_console = PlainConsole(stderr=True)
"""Progress and warnings go to stderr, and progress only to a terminal."""


def format_option(command: F) -> F:
    """The `--format table|json|csv` option, the same on every command that prints results."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(FORMATS),
        default="table",
        help="Format of the results on stdout.",
    )(command)


def say_choice(note: str | None) -> None:
    """Name the parameter set that was chosen for the user, and why."""
    if note is not None:
        said = note if note.startswith("warning: ") else f"note: {note}"
        progress_console.print(said, markup=False, highlight=False, soft_wrap=True)


def slot_rows(values: Any, *, is_complex: bool) -> list[dict[str, Any]]:
    """One row a slot of a decrypted vector, (n,); its imaginary parts where they are asked for."""
    if not is_complex:
        return [{"slot": slot, "value": value} for slot, value in enumerate(values.real.tolist())]
    parts = zip(values.real.tolist(), values.imag.tolist(), strict=True)
    return [{"slot": slot, "value": real, "imaginary": imaginary} for slot, (real, imaginary) in enumerate(parts)]


def emit(
    result: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    output_format: str,
    *,
    table: Callable[[Console], None] | None = None,
    title: str = "",
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
    drawn = Table(title=title or None, box=None, pad_edge=False, show_header=not isinstance(result, Mapping))
    if isinstance(result, Mapping):  # a line for each value
        for name in result:
            drawn.add_row(name, cell(result, name))
    else:
        columns = list(rows[0]) if rows else []
        for column in columns:
            number = bool(rows) and isinstance(rows[0][column], int | float)
            drawn.add_column(column, justify="right" if number else "left")
        for row in rows:
            drawn.add_row(*(cell(row, c) for c in columns))
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


def table_of(headings: str, *, no_wrap: bool = False, **options: Any) -> Table:
    """A table without a frame. `headings` are parted by ` | `; one that starts with `>` is of a column flush right."""
    drawn = Table(**({"box": None, "pad_edge": False} | options))
    for heading in headings.split(" | "):
        justify: Literal["left", "right"] = "right" if heading.startswith(">") else "left"
        drawn.add_column(heading.removeprefix(">"), justify=justify, no_wrap=no_wrap)
    return drawn


def folding_table(title: str, headings: str) -> Table:
    """A table whose cells fold. Headings are as in `table_of`; `*3` behind one is its share of the width."""
    drawn = Table(title=title, box=None)
    for each in headings.split(" | "):
        heading, _, ratio = each.partition("*")
        justify: Literal["left", "right"] = "right" if heading.startswith(">") else "left"
        shared = int(ratio) if ratio else None
        drawn.add_column(heading.removeprefix(">"), justify=justify, overflow="fold", ratio=shared)
    return drawn


def write_csv(file: TextIO, rows: Sequence[Mapping[str, Any]], names: Sequence[str] = ()) -> None:
    """Rows as CSV, lists as JSON in their cell, what is not finite as an empty one; without rows and names nothing.

    Args:   names: of the columns; those of the rows if omitted.
    """
    names = names or list(dict.fromkeys(name for row in rows for name in row))
    if names:
        writer = csv.DictWriter(file, fieldnames=names, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: _cell(v) for k, v in row.items()})


def _cell(value: Any) -> Any:
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


def cell(row: Mapping[str, Any], name: str) -> str:
    """A value of a row in a table, `at least` a bound of it, or `unknown`."""
    return shown_total(row, name, partial(shown, name), shown(name, row[name]))


def shown(name: str, value: Any) -> str:
    """A value in a table, in the unit that its name ends in: a dash where it is unknown."""
    value = plain(value)
    return json.dumps(value) if isinstance(value, dict | list) else format_named(name, value)
