"""Consoles for texts that may hold anything."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.highlighter import ReprHighlighter
from rich.table import Table
from rich.text import Text

from penstock.front.cli.streams import unsteered

LONGEST_COLOURED = 2000
"""Characters of a text in which numbers and paths are coloured: it takes the square of a word's length."""
WIDTH = 150
"""Columns that a table may take."""


class _Colours(ReprHighlighter):
    """Colours of a text that is not too long."""

    def highlight(self, text: Text) -> None:
        if len(text) <= LONGEST_COLOURED:
            super().highlight(text)


class PlainConsole(Console):
    """A console whose texts have no markup: `[x]` and `:smile:` in a name are letters. Styles are given as such."""

    def __init__(self, **given: Any) -> None:
        super().__init__(markup=False, emoji=False, highlighter=_Colours(), **given)

    def render_str(self, text: str, **given: Any) -> Text:
        """The text of a line or of a cell."""
        return super().render_str(unsteered(text), **given)


def print_wide(console: Console, drawn: Table) -> None:
    """Print a table whole: cut-off numbers mislead. A pipe gets every column, and a narrow terminal wraps lines."""
    PlainConsole(file=console.file, width=max(console.width, WIDTH)).print(drawn)
