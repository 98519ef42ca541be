"""The list of what would help most: its option, and its table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click
from rich.console import Console

from penstock.base.types import RowView
from penstock.base.units import format_named
from penstock.errors import UsageError
from penstock.front.cli.output import emit

if TYPE_CHECKING:
    from penstock.lab.advice.remedy import Advice

MOST_ROWS = 8
"""Remedies that a table lists; JSON has all."""


advice_option = click.option(
    "--advice/--no-advice",
    default=None,
    help="Rank what would help most, each change computed and with its command. Default: in tables only.",
)


def wants_advice(asked: bool | None, output_format: str) -> bool:
    """Whether the answer lists remedies.

    Raises: UsageError: a second list in CSV.
    """
    if asked and output_format == "csv":
        raise UsageError("--advice adds a second list, and CSV holds one: take --format json")
    return output_format == "table" if asked is None else asked


def draw_advice(console: Console, advice: Advice) -> None:
    """A line for each remedy, and its command below."""

    def line(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    line(f"\nwhat would help most, {advice.provenance}: {advice.about}, {advice.figure} {advice.now}")
    shown = advice.remedies[:MOST_ROWS]
    if not shown and advice.before is not None:
        line("  no change that was tried gains 1 %")
    for remedy in shown:
        note = f" ({remedy.note})" if remedy.note else ""
        after = format_named(remedy.figure, remedy.after)
        after += f" {remedy.figure}" if remedy.figure != advice.figure else ""
        line(f"  {remedy.gain:>7.3g}x  {after:<10} {_kind(remedy.kind)}: {remedy.says}{note}")
        if remedy.command is not None:
            line(f"            {remedy.command}")
    if len(advice.remedies) > len(shown):
        line(f"  and {len(advice.remedies) - len(shown)} more: --format json --advice")
    if advice.without_gain:
        line(f"  without gain: {', '.join(map(_kind, advice.without_gain))}")
    for text in advice.not_tried:
        line(f"  not tried: {text}")


def emit_advised(row: RowView, remedies: Advice | None, output_format: str, draw: Callable[[Console], None]) -> None:
    """Print an object with what would help it most: below its table, and as `advice` in JSON."""

    def drawn(console: Console) -> None:
        draw(console)
        if remedies is not None:
            draw_advice(console, remedies)

    emit(dict(row) | ({} if remedies is None else {"advice": remedies.to_dict()}), output_format, table=drawn)


def _kind(name: str) -> str:
    from penstock.lab.advice.remedy import KINDS

    return KINDS[name]
