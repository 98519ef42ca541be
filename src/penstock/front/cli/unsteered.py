"""Text for a terminal: names of files and answers of servers may hold anything."""

from __future__ import annotations

from unicodedata import category


def unsteered(text: str) -> str:
    r"""`text` with what would steer a terminal as its escape; lines and tabs stay.

    >>> unsteered("a\x1b[2Jb\n")
    'a\\x1b[2Jb\n'
    """
    if text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode()
        if category(character) in ("Cc", "Cf") and character not in "\n\t"
        else character
        for character in text
    )
