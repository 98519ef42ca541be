"""`penstock ssd drives`: which drives there are, and where each of their values comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.base.types import Row, Rows
from penstock.front.cli.output import emit, format_option, say

if TYPE_CHECKING:
    from penstock.scheme.machines.drives import Drive


@click.command("drives")
@click.argument("drives", nargs=-1, metavar="[DRIVE]...")
@format_option
def command(drives: tuple[str, ...], output_format: str) -> None:
    """List the drives; with a name or a .toml file, every value of that drive with its source and kind.

    \b
    Examples:
      penstock ssd drives
      penstock ssd drives ssd-s --format csv
    """
    from penstock.scheme.machines.drives import drive_names, load_drive

    if not drives:
        emit([_summary(load_drive(name)) for name in drive_names()], output_format)
        return
    rows: Rows = []
    for name in drives:
        drive = load_drive(name)
        for note in drive.notes():
            say(note)
        rows += [
            {"drive": drive.name, "value": field, "is": figure.text, "kind": figure.kind.value, "source": figure.source}
            for field, figure in drive.figures.items()
        ]
    emit(rows, output_format)


def _summary(drive: Drive) -> Row:
    names = ("title", "channels", "dies", "planes", "page_bytes", "capacity_bytes")
    return {
        "drive": drive.name,
        **{name: getattr(drive, name) for name in names},
        "channels_bytes_per_s": drive.channels * drive.channel_bytes_per_s,
        "host_link_bytes_per_s": drive.host_link_bytes_per_s,
    }
