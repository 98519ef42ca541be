"""Consoles for texts that may hold anything."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from penstock.cli.unsteered import unsteered


class PlainConsole(Console):
    """A console whose texts have no markup: `[x]` and `:smile:` in a name are letters. Styles are given as such."""

    def __init__(self, **given: Any) -> None:
        super().__init__(markup=False, emoji=False, **given)

    def render_str(self, text: str, **given: Any) -> Text:
        """The text of a line or of a cell."""
        return super().render_str(unsteered(text), **given)
