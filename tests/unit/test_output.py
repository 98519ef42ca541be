"""Tables into a pipe: every heading and value whole, however wide the row is."""

from __future__ import annotations

import pytest

from penstock.cli.output import PIPE_WIDTH, emit


def test_a_row_that_is_wider_than_a_terminal_is_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    row = {f"a_long_heading_{number}": f"value-{'x' * 20}-{number}" for number in range(30)}
    emit([row], "table")
    heading, values = capsys.readouterr().out.splitlines()
    assert len(heading) > PIPE_WIDTH
    assert heading.split() == list(row)
    assert values.split() == list(row.values())
