"""Every command and snippet of the documentation does what its page says: run, or checked with a stated reason."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from docs_blocks import ROOT, Block, blocks, words
from penstock import toml
from penstock.cli.main import cli, main
from penstock.machines import load_machine

BLOCKS = blocks()
MOST_CHECKED_ONLY = 45
"""Blocks that are not run. Raise it only with a reason beside the block that says why a test cannot run it."""
RUN = [block for block in BLOCKS if block.reason is None and (block.commands or block.language in ("python", "toml"))]
RUN_PAGES = list(dict.fromkeys(block.page for block in RUN))
IN_PROCESS = ("params", "machines", "simulate", "trace", "report", "sweep", "ssd", "workloads")
NEEDS_OPENFHE = re.compile(r"^(python |penstock (run|record|analyze|profile|bench run)\b)", re.M)


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    checked = [block for block in BLOCKS if block.reason is not None]
    assert len(checked) <= MOST_CHECKED_ONLY, "\n".join(f"{block}: {block.reason}" for block in checked)
    assert all(len(block.reason or "") > 5 for block in checked)
    tutorials = [b for b in checked if b.page.startswith(("docs/tutorials", "docs/start", "docs/reports"))]
    assert len(tutorials) <= 1, "tutorials are run whole"


def test_a_reason_stands_only_where_there_is_a_block() -> None:
    for page in {block.page for block in BLOCKS}:
        marks = (ROOT / page).read_text().count("<!-- checked only: ")
        assert marks == sum(block.page == page and block.reason is not None for block in BLOCKS), page


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.reason is not None or b.commands], ids=str)
def test_every_command_has_the_options_that_the_page_shows(block: Block) -> None:
    for command in block.commands:
        for part in re.split(r"&&|\|(?=\s*(?:penstock|python)\b)", command):
            line = words(re.sub(r"\[[^]]*\]|\s>\s.*$", "", part))
            if line and line[0].endswith("penstock"):
                parsed(line[1:])
    if block.language == "python":
        compile(block.text, str(block), "exec")
    if block.language == "toml":
        toml.loads(block.text)


def parsed(line: list[str]) -> None:
    """Raises where the command line has no such command or option; nothing is run."""
    command: click.Command = cli
    context = click.Context(cli, info_name="penstock")
    while isinstance(command, click.Group) and line:
        if line[0].startswith("--") and line[0] == "--debug":
            line = line[1:]
        name, found, rest = command.resolve_command(context, list(line))
        assert found is not None, f"no command '{name}'"
        command, line = found, rest
        context = click.Context(command, info_name=name, parent=context)
    known = {text for parameter in command.params for text in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
    if any(isinstance(p, click.Argument) and p.type is click.UNPROCESSED for p in command.params):
        return  # a script's own arguments
    for word in line:
        if word == "--":
            return
        if word.startswith("--"):
            assert word.split("=")[0] in known, f"{context.command_path} has no option {word}"


@pytest.mark.parametrize("page", RUN_PAGES)
def test_what_a_page_shows_works_from_top_to_bottom(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """One reader, one folder: files that a block saves are there for the next."""
    steps = [block for block in RUN if block.page == page]
    if any(NEEDS_OPENFHE.search("\n".join(block.commands)) for block in steps):
        request.getfixturevalue("openfhe")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    names: dict[str, object] = {}
    for block in steps:
        if block.file is not None:
            (tmp_path / block.file).write_text(block.text)
            if "[units]" in block.text:
                assert load_machine(block.file).units
        elif block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(block.text, str(block), "exec"), names)
        elif block.language == "toml":
            raise AssertionError(f"{block}: say under which name it is saved: its first line is '# name.toml'")
        for command in block.commands:
            expected = int(found[1]) if (found := re.search(r"# exit code (\d)", command)) else 0
            code, said = carried_out(words(command))
            assert code == expected, f"{block}: {command}\n{said}"


def carried_out(line: list[str]) -> tuple[int, str]:
    """Exit code and output of a command line; ours that touch no process are run in this one."""
    if line[0] == "penstock" and line[1] in IN_PROCESS:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = main(line[1:])
        return code, out.getvalue()
    if line[0] == "penstock":
        line = [sys.executable, "-c", "import sys; from penstock.cli.main import main; sys.exit(main())", *line[1:]]
    elif line[0] == "python":
        line = [sys.executable, *line[1:]]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False, env=dict(os.environ))
    return done.returncode, done.stdout + done.stderr
