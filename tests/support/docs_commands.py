"""Command lines of the documentation, carried out as a reader would; and what they print, held against the page."""

from __future__ import annotations

import contextlib
import io
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

from penstock.front.cli.main import cli, main
from support.docs_blocks import ROOT
from support.own_process import COMMAND

IN_PROCESS = (
    "params", "machines", "simulate", "trace", "report", "sweep", "ssd", "workloads", "predict", "reproduce",
    "database", "run", "analyze", "package", "client", "keys", "servers",
)  # fmt: skip
"""Verbs that need no process of their own: they leave this one as it was."""
_OF_A_MACHINE = re.compile(r"\bmeasured\b|\bthis-cpu\b")
"""A line with times of the machine that the page was written on."""


def carried_out(line: Sequence[str], timeout_s: float = 120) -> tuple[int, str, str]:
    """Exit code, output and messages of a command line; ours that touch no process are run in this one."""
    line, target = redirected(line)
    if line[0] == "make":
        line = ["make", "-C", str(ROOT), *line[1:]]
    if line[0] == "penstock" and is_served(line):
        return served(line[1:])
    measures_nothing = line[1:2] == ["bench"] and (line[2] in ("compare", "export") or "--dry-run" in line)
    # A budget of all memory counts the process, and this one has the memory of all tests.
    apart = "--memory" in line
    prints_a_view = line[1:2] == ["explore"] and "--print" in line
    if line[0] == "penstock" and not apart and (line[1] in IN_PROCESS or measures_nothing or prints_a_view):
        out, messages = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(messages):
            code = main(list(line[1:]))
        said = code, out.getvalue(), messages.getvalue()
    else:
        if line[0] == "penstock":
            line = [*COMMAND, *line[1:]]
        elif line[0] == "python":
            line = [sys.executable, *line[1:]]
        done = subprocess.run(line, capture_output=True, text=True, timeout=timeout_s, check=False)
        said = done.returncode, done.stdout, done.stderr
    if target is not None:
        Path(target).write_text(said[1])
    return said


def redirected(line: Sequence[str]) -> tuple[list[str], str | None]:
    """The command line without `> FILE`, and the file."""
    words = list(line)
    if ">" not in words:
        return words, None
    at = words.index(">")
    return words[:at], words[at + 1]


def is_served(line: Sequence[str]) -> bool:
    """Whether a command listens until it is interrupted."""
    return line[1:3] == ["keys", "node"] or line[1] == "serve" or (line[1] == "explore" and "--print" not in line)


def served(line: Sequence[str], timeout_s: float = 30) -> tuple[int, str, str]:
    """A command that serves: it says where, and ends with Ctrl-C."""
    if line[0] == "explore":
        pytest.importorskip("uvicorn", reason="the explorer's server is not installed: pip install 'penstock[explore]'")
        line = [*line, "--port", "0", "--no-browser"]
    if list(line) == ["serve"]:
        line = [*line, "--port", "0", "--admin-port", "0"]
    process = subprocess.Popen(
        [*COMMAND, *line],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        ready, _, _ = select.select([process.stdout], [], [], timeout_s)
        first = process.stdout.readline() if ready else f"silent for {timeout_s} s"
        while first.startswith(("token of", "tenants:")) and "operators:" not in first:
            more = process.stdout.readline()  # the service says its addresses last
            if not more:
                break
            first += more
        if process.poll() is None:
            time.sleep(0.1)  # what it says comes before it waits for an interrupt
            process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=timeout_s)
    finally:
        if process.poll() is None:
            process.kill()
    assert re.match(r"http://127\.0\.0\.1:\d+/|serving |token of |tenants: ", first), first + rest
    return process.returncode, re.sub(r"(?<=127\.0\.0\.1:)\d+", "8765", first + rest), ""


def differences(expected: Sequence[str], printed: str) -> list[str]:
    """Lines of the page that the command did not print, in order.

    `…` alone stands for any lines, at the end of a line for the rest of it. Spaces count as one. Lines with times of
    this machine are left out.
    """
    lines = iter([" ".join(line.split()) for line in printed.splitlines()])
    missing = []
    for each in expected:
        wanted = " ".join(each.split())
        if not wanted or wanted == "…" or _OF_A_MACHINE.search(wanted):
            continue
        start = wanted.removesuffix("…").rstrip()
        if not any(line.startswith(start) if wanted.endswith("…") else line == start for line in lines):
            missing.append(each)
            lines = iter([])
    return missing


def parsed(line: Sequence[str]) -> None:
    """Raises where the command line has no such command or option; nothing is run."""
    line = list(line)
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
