"""Examples of `--help`: every one parses, and those that need no minutes, hardware or private files run."""

from __future__ import annotations

import inspect
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from penstock.front.cli.main import cli, main

ROOT = Path(__file__).parents[3]
QUICK = (
    "params",
    "machines",
    "workloads",
    "simulate",
    "servers",
    "trace",
    "predict run",
    "predict precision",
    "ssd",
    "completion",
)
"""Verbs whose examples are run; the others encrypt, measure, serve or read what takes minutes to make."""
NEEDS = re.compile(
    r"\b(run|measured|recorded|symbolic|mine|counts|my_?\w*|program_trace|model|helr\.jsonl|pir-drive|database|resnet20)\b[\w.-]*"
)
"""Files of the reader's, and programs that take long."""
MADE = {"helr.parquet": ["trace", "logistic-regression", "--size", "ci", "--params", "sharp", "-o", "helr.parquet"]}
SMALLER = {"--scale-bits 30..43": "--scale-bits 30..31", "ssd similarity --size large": "ssd similarity --size medium"}
"""Sizes of examples, and those of which they are run here: the same options in seconds."""


def examples(group: click.Group = cli, words: tuple[str, ...] = ()) -> Iterator[str]:
    """The lines below `Examples:` in the help of every command."""
    context = click.Context(group, info_name="penstock")
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        block = re.search(r"\x08\n\s*Examples?\b[^\n]*\n(.*?)(?:\n\s*\n|\Z)", inspect.cleandoc(found.help or ""), re.S)
        for line in (block[1] if block else "").replace("\\\n", " ").splitlines():
            yield " ".join(re.split(r"\s{3,}", line.strip())[0].split())
        if isinstance(found, click.Group):
            yield from examples(found, (*words, name))


LINES = list(dict.fromkeys(line for line in examples() if line.startswith("penstock ")))
RUN = [
    line
    for line in LINES
    if line.removeprefix("penstock ").startswith(QUICK)
    and not NEEDS.search(line.split(" ", 2)[-1])
    and "pack" not in line
]


def test_there_are_many_and_half_of_them_are_run() -> None:
    assert len(LINES) > 80
    assert len(RUN) > 25
    assert all(any(large in line for line in RUN) for large in SMALLER)


@pytest.mark.parametrize("line", LINES)
def test_an_example_of_the_help_parses(line: str) -> None:
    words, group = shlex.split(line.partition(" > ")[0])[1:], cli
    context = click.Context(cli, info_name="penstock")
    while isinstance(group, click.Group):
        command = group.get_command(context, words[0])
        if command is None and group is not cli:  # `trace WORKLOAD` is `trace make WORKLOAD`
            command = group.get_command(context, "make")
            words.insert(0, "make")
        assert command is not None, f"{line}: no command '{words[0]}'"
        context = click.Context(command, info_name=words[0], parent=context)
        group, words = command, words[1:]
    group.make_context(group.name, words, parent=context.parent).close()


@pytest.mark.parametrize("line", RUN)
def test_an_example_of_the_help_works(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    shutil.copy(ROOT / "examples/score.py", tmp_path / "score.py")
    for name, words in MADE.items():
        if name in line and f"-o {name}" not in line:
            assert main(words) == 0
    typed = line
    for large, small in SMALLER.items():
        typed = typed.replace(large, small)
    code = main(shlex.split(typed.partition(" > ")[0])[1:])
    assert code == 0, f"{line}\n{capsys.readouterr().err}"
