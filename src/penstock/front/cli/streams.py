"""Standard output that takes every text: a surrogate that its encoding lacks does not make it fail."""

from __future__ import annotations

import codecs
import io
import sys

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
