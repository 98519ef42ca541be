"""The fenced blocks of the documentation: where they are, and what a reader would do with them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FENCE = re.compile(
    r"(?:<!-- checked only: (?P<reason>[^\n]*?) -->\n+)?^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```", re.S | re.M
)
_PROGRAMS = ("penstock", "python")
_COMMENT = re.compile(r"\s{2,}#? .*$|\s+# .*$")
"""What stands beside a command on its line: two spaces or more, or a hash."""


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    page: str
    line: int
    language: str
    text: str
    reason: str | None
    """Why it is checked (commands parsed, Python compiled, TOML read) but not run; `None`: it is run."""

    @property
    def file(self) -> str | None:
        """The name under which the reader saves the block: its first line is `# name`."""
        first = self.text.split("\n", 1)[0]
        found = re.fullmatch(r"# ([\w.-]+\.(?:py|toml))", first)
        return found[1] if found else None

    @property
    def commands(self) -> list[str]:
        """Command lines: those after `$ `, or, in a block without a prompt, those that begin with a program's name."""
        lines = self.text.replace("\\\n", " ").splitlines()
        prompted = [line[2:] for line in lines if line.startswith("$ ")]
        if prompted or self.language == "python":
            return prompted
        return [line for line in lines if line.split(" ")[0] in _PROGRAMS]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks() -> list[Block]:
    """Every block of every page, in order."""
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in _FENCE.finditer(text):
            found.append(
                Block(
                    page=str(page.relative_to(ROOT)),
                    line=text[: match.start("language")].count("\n") + 1,
                    language=match["language"],
                    text=match["text"],
                    reason=match["reason"],
                )
            )
    return found


def words(command: str) -> list[str]:
    """The words of a command line, without what is explained beside it."""
    return shlex.split(_COMMENT.sub("", command), comments=True)
