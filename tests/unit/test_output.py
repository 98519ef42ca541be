"""Tables into a pipe: every heading and value whole, however wide the row is."""

from __future__ import annotations

import pytest
from rich.text import Text

from penstock.cli.output import PIPE_WIDTH, emit, progress_console, with_range
from penstock.cli.terminal import LONGEST_COLOURED
from penstock.units import format_bytes


def test_a_row_that_is_wider_than_a_terminal_is_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    row = {f"a_long_heading_{number}": f"value-{'x' * 20}-{number}" for number in range(30)}
    emit([row], "table")
    heading, values = capsys.readouterr().out.splitlines()
    assert len(heading) > PIPE_WIDTH
    assert heading.split() == list(row)
    assert values.split() == list(row.values())


def test_a_range_that_is_a_point_is_printed_as_its_value():
    assert with_range(2e6, 2e6, 2e6, format_bytes) == format_bytes(2e6)
    assert with_range(2e6, 2e6 - 1, 2e6 + 1, format_bytes) == format_bytes(2e6)  # the ends read the same
    assert (
        with_range(2e6, 1e6, 3e6, format_bytes) == f"{format_bytes(2e6)} ({format_bytes(1e6)} to {format_bytes(3e6)})"
    )
    assert with_range(None, None, None, format_bytes) == "-"


def test_a_name_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Brackets and colons are letters; what steers a terminal is told."""
    row = {"na[red]me": "[/x] [b] :smile: \x1b[2J\u202e\r end", "[/y]": 1}
    emit([row], "table", title="[/title]")
    emit(row, "table")
    printed = capsys.readouterr().out
    for each in ("na[red]me", "[/x] [b] :smile: \\x1b[2J\\u202e\\r end", "[/y]", "[/title]"):
        assert each in printed
    assert "\x1b" not in printed


def test_colours_are_not_looked_for_in_very_long_texts():
    short, long = Text("it took 12 s"), Text("it took 12 s" + "x" * LONGEST_COLOURED)
    for text in (short, long):
        progress_console.highlighter.highlight(text)
    assert short.spans
    assert not long.spans
