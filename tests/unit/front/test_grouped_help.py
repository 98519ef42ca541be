"""The help of verbs with many options: under headings, every option once, at most two screens."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from penstock.front.cli.grouped import GroupedCommand
from penstock.front.cli.main import cli
from penstock.front.cli.verbs.simulate import command as simulate

TWO_SCREENS = 100


@pytest.mark.parametrize("columns", [100, 110])
def test_the_help_of_simulate_fits_two_screens(columns: int) -> None:
    done = CliRunner().invoke(cli, ["simulate", "--help"], terminal_width=columns)
    assert done.exit_code == 0
    assert len(done.output.splitlines()) <= TWO_SCREENS
    assert max(map(len, done.output.splitlines())) <= 120  # examples are not wrapped


def test_every_option_of_simulate_stands_under_one_heading() -> None:
    lines = CliRunner().invoke(cli, ["simulate", "--help"], terminal_width=110).output.splitlines()
    options = lines[lines.index("Program:") :]
    for parameter in simulate.params:
        if isinstance(parameter, click.Option):
            start = "  " + ", ".join(sorted(parameter.opts, key=len))
            assert sum(line == start or line.startswith(f"{start} ") for line in options) == 1, parameter.name
    assert sum("--help" in line for line in options) == 1
    heads = [line for line in options if line.endswith(":") and not line.startswith(" ")]
    assert heads == [
        "Program:", "Machine and memory:", "Cache and policy:", "Levels of memory:", "Several programs:",
        "Several hosts:", "Output:",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "groups", [{"A": ["one"]}, {"A": ["one", "two"], "B": ["two"]}, {"A": ["one", "two", "three"]}]
)
def test_headings_that_miss_or_repeat_or_invent_an_option_are_refused(groups: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match="the options are"):
        GroupedCommand("a", params=[click.Option(["--one"]), click.Option(["--two"])], groups=groups)
