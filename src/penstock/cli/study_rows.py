"""What the studies' commands share: the table of published, calibrated and own values; a folder for figures."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from penstock.cli.output import folding_table, progress_console
from penstock.errors import UsageError
from penstock.studies.headlines import neighbours_text
from penstock.system.files import os_errors


def study_table(title: str, rows: Iterable[Mapping[str, Any]]) -> Table:
    """One line a row, the groups apart."""
    drawn = folding_table(title, "row | >published | >calibrated | > | >first principles | >error | note*3")
    last = None
    for row in rows:
        if last not in (None, row["group"]):
            drawn.add_section()
        last = row["group"]
        drawn.add_row(
            row["id"],
            number(row["published"]),
            number(row["calibrated"]),
            percent(row["error_calibrated"]),
            number(row["first_principles"]),
            percent(row["error_first_principles"]),
            row["note"],
        )
    return drawn


def headline_table(found: Iterable[Mapping[str, Any]]) -> Table:
    """A line for each headline: the reading behind it and the values of its neighbours."""
    headings = "headline*3 | >published*1 | >ours*1 | rests on*4 | neighbours*4"
    drawn = folding_table("What each headline rests on", headings)
    for each in found:
        drawn.add_row(
            each["id"],
            number(each["published"]),
            number(each["first_principles"]),
            each["rests_on"],
            neighbours_text(each),
        )
    return drawn


def make_folder(folder: Path) -> None:
    """Make the folder for figures before the figures are computed.

    Raises: UsageError: it is a file; FileError: it cannot be made, or not be written.
    """
    if folder.is_file():
        raise UsageError(f"--figures {folder} is a file; name a folder")
    with os_errors(folder, "create"):
        folder.mkdir(parents=True, exist_ok=True)
    with os_errors(folder, "write into"):
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def tell_written(figures: Sequence[Path]) -> None:
    """Say where each figure is."""
    for path in figures:
        progress_console.print(f"figure written to {path}", markup=False)


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def percent(value: float | None) -> str:
    return "" if value is None else f"{value:+.1%}"
