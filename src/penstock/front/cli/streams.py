"""Text for a terminal: names of files and answers of servers may hold anything, and a coding may lack a character."""

from __future__ import annotations

import codecs
import io
import sys
from unicodedata import category

_HANDLER = "penstock.escaped"


def escape_what_is_lacking() -> None:
    """Let stdout and stderr print what their coding lacks.

    A path is printed as the bytes that it is, so that what reads the line finds the file; any other character that
    the coding lacks as its escape, `\\xe9`.
    """
    codecs.register_error(_HANDLER, _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors=_HANDLER)


def _escaped(error: UnicodeError) -> tuple[bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    # Python decodes a byte of a path that is not UTF-8 as a lone surrogate.
    parts = [
        bytes([ord(character) - 0xDC00])
        if 0xDC80 <= ord(character) <= 0xDCFF
        else character.encode("ascii", "backslashreplace")
        for character in lacking
    ]
    return b"".join(parts), error.end


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
