"""What the sentences of the documentation name is there: files, modules, commands, options, make targets, links."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from penstock.base import plugins
from penstock.front.cli.main import cli
from support.docs_blocks import PAGES, ROOT
from support.docs_commands import parsed

FOLDERS = (
    ROOT,
    *(ROOT / name for name in ("src/penstock", "src", "studies", "crates", "crates/penstock-ckks/src", "docs")),
)
"""Below which a page may name a file by its path."""
OUTSIDE = (ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md")
"""Pages for contributors, which are not in the site."""
FOOTERS = {"penstock.meta", "penstock.objects", "penstock.sha256", "penstock.file_sha256"}
"""Entries of a trace's footer, which look like modules."""
GROUPS = {plugins.STUDIES, plugins.WORKLOADS, plugins.IMPORTERS}
"""Groups of entry points, which do, too."""
NOT_OURS = {"--help", "--no-build-isolation", "--control", "--delay"}
"""Options of click, pip and perf."""
NOT_COMMANDS = {"penstock evaluation key 1", "penstock reproduce NAME --format json"}


def sentences(page: Path) -> str:
    """A page without its blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)


def options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from options(found, context)


def resolved(dotted: str) -> Any:
    """A module, or something in one. Raises: AttributeError, ModuleNotFoundError: there is none."""
    words = dotted.split(".")
    for count in range(len(words), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(words[:count]))
        except ModuleNotFoundError:
            continue
        for word in words[count:]:
            found = getattr(found, word)
        return found
    raise ModuleNotFoundError(dotted)


@pytest.mark.parametrize("page", [*PAGES, *OUTSIDE], ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_page_names_is_there(page: Path) -> None:
    text = sentences(page)
    for path in re.findall(r"`((?:[\w.-]+/)+[\w.*-]+\.(?:py|rs|toml|sh|txt|pyi))`", text):
        named = path.rpartition("/")[0] if "NAME" in path else path  # a file that a reader adds, in a folder
        assert any(list(folder.glob(named)) for folder in FOLDERS), path
    for dotted in set(re.findall(r"`(penstock(?:\.\w+)+)(?:\([^`]*\))?`", text)) - FOOTERS - GROUPS:
        resolved(dotted)
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"`make ([\w-]+)[^`]*`", text)) <= targets
    known = {*options(cli, click.Context(cli)), *NOT_OURS}
    assert set(re.findall(r"`(--[\w-]+)[^`]*`", text)) <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_command_in_a_sentence_has_the_options_that_it_shows(page: Path) -> None:
    for command in re.findall(r"`(?:\.venv/bin/)?(penstock [^`]+)`", sentences(page)):
        if command.replace("\n", " ") not in NOT_COMMANDS:
            one = re.sub(r"[|][\w-]+|…|\[[^]]*\]|<[^>]*>", "", command.replace("\n", " "))
            parsed(shlex.split(one)[1:])


def test_links_of_the_pages_outside_the_site_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CHANGELOG.md", *OUTSIDE):
        for path in re.findall(r"\]\(([^)#:]+)(?:#[\w-]+)?\)", page.read_text()):
            assert (ROOT / path).exists(), f"{page.name}: {path}"
