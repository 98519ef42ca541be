"""Text on a terminal as it is: names of files and answers of servers may hold anything."""

from __future__ import annotations

from typing import Any
from unicodedata import category

from rich.console import Console
from rich.text import Text


def unsteered(text: str) -> str:
    r"""`text` with what would steer a terminal as its escape; lines and tabs stay.

    >>> unsteered("a\x1b[2Jb\n")
    'a\\x1b[2Jb\n'
    """
    if text.isprintable():
        return text
    return "".join(
        each.encode("unicode_escape").decode() if category(each) in ("Cc", "Cf") and each not in "\n\t" else each
        for each in text
    )


class PlainConsole(Console):
    """A console whose texts have no markup: `[x]` and `:smile:` in a name are letters. Styles are given as such."""

    def __init__(self, **given: Any) -> None:
        super().__init__(markup=False, emoji=False, **given)

    def render_str(self, text: str, **given: Any) -> Text:
        """The text of a line or of a cell."""
        return super().render_str(unsteered(text), **given)
