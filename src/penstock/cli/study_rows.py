"""The table of a study's rows: published beside calibrated and first principles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table

HEADINGS = ("row", "published", "calibrated", "", "first principles", "error", "note")


def study_table(title: str, rows: Iterable[Mapping[str, Any]]) -> Table:
    """One line a row, the groups apart."""
    drawn = Table(title=title, box=None)
    for heading in HEADINGS:
        drawn.add_column(heading, justify="left" if heading in ("row", "note") else "right", overflow="fold",
                         ratio=3 if heading == "note" else None)  # fmt: skip
    last = None
    for row in rows:
        if last not in (None, row["group"]):
            drawn.add_section()
        last = row["group"]
        drawn.add_row(
            row["id"], number(row["published"]), number(row["calibrated"]), percent(row["error_calibrated"]),
            number(row["first_principles"]), percent(row["error_first_principles"]), row["note"],
        )  # fmt: skip
    return drawn


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def percent(value: float | None) -> str:
    return "" if value is None else f"{value:+.1%}"
