"""The fenced blocks of the documentation: where they are, and what a reader would do with them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MARKS = ("checked only", "make docs-check", "in tests", "the reader has")
"""What may stand in a comment ahead of a block, with a colon and a text:

`checked only: REASON`: its commands are parsed, its Python is compiled, its TOML is read; nothing is run.
`make docs-check: REASON`: it is run, but only there: it takes long.
`in tests: "A" is "B"; …`: `make test` runs it with other words (a smaller size), `make docs-check` as it is.
`the reader has: NAME, …`: what `docs_reader` puts into the reader's folder, or among the names of the Python.
"""
_MARK = re.compile(rf"<!-- (?P<mark>{'|'.join(MARKS)}): (?P<text>[^\n]*?) -->\n+")
_FENCE = re.compile(
    rf"(?P<marks>(?:{_MARK.pattern.replace('?P<mark>', '?:').replace('?P<text>', '?:')})*)"
    r"^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```",
    re.S | re.M,
)
_PROGRAMS = ("penstock", "python", "make")
_COMMENT = re.compile(r"\s{2,}#? .*$|\s+# .*$")
"""What stands beside a command on its line: two spaces or more, or a hash."""


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    page: str
    line: int
    language: str
    text: str
    reason: str | None = None
    """Why it is checked but not run; `None`: it is run."""
    long: str | None = None
    """Why only `make docs-check` runs it; `None`: `make test` does too."""
    in_tests: tuple[tuple[str, str], ...] = ()
    """What `make test` writes in the place of what."""
    has: tuple[str, ...] = ()
    """What the reader has, by its name in `docs_reader`."""

    @property
    def file(self) -> str | None:
        """The name under which the reader saves the block: its first line is `# name`."""
        first = self.text.split("\n", 1)[0]
        found = re.fullmatch(r"# ([\w.-]+\.(?:py|toml))", first)
        return found[1] if found else None

    @property
    def commands(self) -> list[str]:
        """Command lines: those after `$ `, or, in a block without a prompt, those that begin with a program's name."""
        return [command for command, _ in self.shown]

    @property
    def shown(self) -> list[tuple[str, list[str]]]:
        """Each command line with the lines below it: what the page says that it prints."""
        lines = re.sub(r"[ ]*\\\n[ ]*", " ", self.text).splitlines()
        if self.language == "python" or not any(line.startswith("$ ") for line in lines):
            programs = () if self.language == "python" else _PROGRAMS
            return [(line, []) for line in lines if line.split(" ")[0] in programs]
        found: list[tuple[str, list[str]]] = []
        for line in lines:
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif found:
                found[-1][1].append(line)
        return found

    @property
    def does_something(self) -> bool:
        """Whether there is anything to run in it."""
        return bool(self.commands) or self.language in ("python", "toml")

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks() -> list[Block]:
    """Every block of every page, in order."""
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in _FENCE.finditer(text):
            marks = {each["mark"]: each["text"] for each in _MARK.finditer(match["marks"])}
            found.append(
                Block(
                    page=str(page.relative_to(ROOT)),
                    line=text[: match.start("language")].count("\n") + 1,
                    language=match["language"],
                    text=match["text"],
                    reason=marks.get("checked only"),
                    long=marks.get("make docs-check"),
                    in_tests=tuple(re.findall(r'"([^"]*)" is "([^"]*)"', marks.get("in tests", ""))),
                    has=tuple(filter(None, marks.get("the reader has", "").split(", "))),
                )
            )
    return found


def words(command: str) -> list[str]:
    """The words of a command line, without what is explained beside it."""
    return shlex.split(_COMMENT.sub("", command), comments=True)
