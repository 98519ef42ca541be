"""Tables into a pipe: every heading and value whole, however wide the row is."""

from __future__ import annotations

import pytest
from rich.text import Text

from penstock.base.units import format_bytes
from penstock.front.cli.output import PIPE_WIDTH, draw_rows, emit, progress_console, rows_table, with_range
from penstock.front.cli.terminal import LONGEST_COLOURED, PlainConsole


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
    emit([row], "table", table=lambda console: draw_rows(console, [row], "na[red]me | [/y]", title="[/title]"))
    emit([row], "table")
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


ROWS = [
    {
        "tier": "hbm",
        "io_s": 0.0123,
        "key_bytes": 96 * 2**20,
        "share": 0.25,
        "total_s": None,
        "at_least": {"total_s": 2.0},
    },
    {"tier": "hbm", "io_s": None, "key_bytes": 0, "share": None, "total_s": None, "at_least": {"total_s": None}},
    {"tier": "pcie5", "io_s": 3.0, "key_bytes": None, "share": 1.0, "total_s": 4.0, "at_least": None},
]


def cells(columns: str, own=None, **options) -> list[list[str]]:
    """The headings of a table, and its cells row by row."""
    drawn = rows_table(ROWS, columns, own, **options)
    table = [list(column.cells) for column in drawn.columns]
    return [[str(column.header) for column in drawn.columns], *map(list, zip(*table, strict=True))]


def test_a_column_has_the_unit_of_its_name_or_its_own_text():
    assert cells("tier | >I/O=io_s | >keys=key_bytes | >keys in full=key_bytes:bytes | >of all=share:{:.1%}") == [
        ["tier", "I/O", "keys", "keys in full", "of all"],
        ["hbm", "12.3 ms", "100.7 MB", "100.7 MB (96 MiB)", "25.0%"],
        ["hbm", "-", "0 B", "0 B", "-"],
        ["pcie5", "3 s", "-", "-", "100.0%"],
    ]


def test_a_total_that_misses_parts_says_so():
    assert [row for (row,) in cells("total=total_s")] == ["total", "at least 2 s", "unknown", "4 s"]


def test_a_cell_of_several_columns_is_its_own_function():
    own = {"both": lambda row: f"{row['tier']}/{row['share']}"}
    assert [row for (row,) in cells("what it is=both", own)] == ["what it is", "hbm/0.25", "hbm/None", "pcie5/1.0"]


def test_headings_say_where_a_column_stands_and_how_wide_it_is():
    drawn = rows_table(ROWS, "tier*3 | >share", no_wrap="share")
    left, right = drawn.columns
    assert (left.justify, left.ratio, left.no_wrap) == ("left", 3, True)
    assert (right.justify, right.ratio, right.no_wrap) == ("right", None, False)


def test_a_repeated_name_is_shown_once_and_its_rows_stand_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert [row for (row,) in cells("tier", once="tier")] == ["tier", "hbm", "", "pcie5"]
    drawn = rows_table(ROWS, "tier", section="tier")
    assert [row.end_section for row in drawn.rows] == [False, True, False]
    draw_rows(PlainConsole(width=80), ROWS, "tier | >time=io_s", wide=True)
    assert capsys.readouterr().out.splitlines()[1].split() == ["hbm", "12.3", "ms"]
