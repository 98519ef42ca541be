"""Files from outside: how much of one is read, and which text and numbers are taken.

Whoever wrote a file, reading it takes no more than an honest file does: its size is checked before it is read, how
deep it nests and how long its numbers are before a value is used.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from penstock.base.system.files import os_errors
from penstock.errors import PenstockError

LIMIT_VARIABLE = "PENSTOCK_MOST_BYTES"
"""The environment variable that states another limit for files that are read whole."""
MOST_BYTES = 64 * 2**20
"""Of a file that is read whole, CSV and JSON above all: a tree of Python objects takes some ten times as much."""
MOST_SETTINGS_BYTES = 4 * 2**20
"""Of a TOML file, which a person writes: the parser takes seconds for each megabyte."""
LONGEST_LINE = 2**20
"""Bytes of one line of a file that is read line by line."""
DEEPEST = 64
"""Levels of tables and lists in each other; functions that call themselves a level end at about a thousand."""
LONGEST_NUMBER = 40
"""Digits of a whole number: 2^64 has 20."""
_DIGITS = re.compile(rf"\d{{{LONGEST_NUMBER}}}", re.ASCII)
TOO_DEEP = f"it is nested deeper than {DEEPEST} levels, which no file of this kind is; write it flatter"
TOO_LONG = f"a whole number of more than {LONGEST_NUMBER} digits"

_FOREIGN = (
    *((mark, f"it begins with the byte order mark of {name}; save it as UTF-8") for mark, name in (
        (codecs.BOM_UTF32_LE, "UTF-32"), (codecs.BOM_UTF32_BE, "UTF-32"),
        (codecs.BOM_UTF16_LE, "UTF-16"), (codecs.BOM_UTF16_BE, "UTF-16"),
    )),
    *((start, f"it is compressed with {name}; unpack it first") for start, name in (
        (b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"PK\x03\x04", "zip"),
    )),
)  # fmt: skip
"""First bytes of a file that is not a text -> the remedy."""


class TooLarge(PenstockError):
    """A file beyond the limit of its kind. The message names the file, the limit and how to raise it."""


def limit(variable: str, otherwise: int) -> int:
    """The number in an environment variable, and `otherwise` where it holds none."""
    stated = os.environ.get(variable, "")
    return int(stated) if stated.isascii() and stated.isdecimal() and len(stated) < LONGEST_NUMBER else otherwise


def check_bytes(path: Path, size: int, most: int = MOST_BYTES, *, what: str = "") -> None:
    """Refuse a file by its size.

    Args:   found: its bytes, or as many as are known; most: the limit where `PENSTOCK_MOST_BYTES` states none; what:
            which bytes, behind the file's name.
    Raises: TooLarge.
    """
    most = limit(LIMIT_VARIABLE, most)
    if size > most:
        raise TooLarge(
            f"{path}{what} has {size:,} bytes; at most {most:,} are read, since all are in memory at once: cut it, or "
            f"set {LIMIT_VARIABLE}={size} to read it all the same"
        )


def content_of(path: Path, most: int = MOST_BYTES) -> bytes:
    """The bytes of a file, which may be a pipe.

    Args:   most: the limit in bytes where `PENSTOCK_MOST_BYTES` states none.
    Raises: TooLarge: there are more. FileError: it cannot be read.
    """
    with os_errors(path, "read"), path.open("rb") as file:
        check_bytes(path, os.fstat(file.fileno()).st_size, most)
        content = file.read(limit(LIMIT_VARIABLE, most) + 1)
    check_bytes(path, len(content), most)
    return content


def unpacked(path: Path, packed: bytes, most: int = MOST_BYTES) -> bytes:
    """The content of a gzip file's bytes.

    Args:   most: as of `content_of`.
    Raises: TooLarge: there is more. OSError, EOFError, zlib.error: it is damaged.
    """
    with gzip.open(io.BytesIO(packed)) as file:
        content = file.read(limit(LIMIT_VARIABLE, most) + 1)
    check_bytes(path, len(content), most, what=", unpacked,")
    return content


def decoded(content: bytes) -> str:
    """The text of bytes in UTF-8, without the byte order mark that some editors put before it.

    Raises: ValueError: another encoding, or a byte that is not UTF-8, with its place; the text follows the file's name.

    >>> decoded("\\ufeffa".encode())
    'a'
    """
    for start, remedy in _FOREIGN:
        if content.startswith(start):
            raise ValueError(remedy)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The codec counts from behind the mark.
        at = error.start + (len(codecs.BOM_UTF8) if content.startswith(codecs.BOM_UTF8) else 0)
        row = content.count(b"\n", 0, at)
        where = f" (row {row + 1})" if row else ""
        raise ValueError(f"byte {at}{where}, 0x{content[at]:02x}, is not UTF-8; save it as UTF-8") from error


def lines_of(path: Path, error: Callable[[str], PenstockError]) -> Iterator[str]:
    """The lines of a file in UTF-8, one at a time, with their ends.

    Raises: `error`: a line longer than `LONGEST_LINE`, or no UTF-8. FileError: it cannot be read.
    """
    with os_errors(path, "read"), path.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise error(
                    f"{path}, line {number}: longer than {LONGEST_LINE:,} bytes, which no line of this format is; name "
                    "another file, or export it again from its tool"
                )
            try:
                yield decoded(line)
            except ValueError as cause:
                raise error(f"{path}, line {number}: {cause}") from cause


def json_of(text: bytes | str, pairs: Callable[[list[tuple[str, Any]]], object] | None = None) -> Any:
    """The value of a JSON text.

    Args:   pairs: makes an object of its names and values, instead of `dict`.
    Raises: ValueError: no JSON, no UTF-8, nested deeper than `DEEPEST`, or a whole number of more than
            `LONGEST_NUMBER` digits; the text goes behind the file's name.
    """
    text = decoded(text) if isinstance(text, bytes) else text.removeprefix("\ufeff")
    try:
        # The parser's own way is several times as fast.
        whole = _whole if _DIGITS.search(text) else None
        value = json.loads(text, parse_int=whole, object_pairs_hook=pairs)
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error
    check_depth(value)
    return value


def check_depth(value: object) -> None:
    """Raises: ValueError: tables and lists are nested deeper than `DEEPEST`."""
    level = [value]
    for _ in range(DEEPEST + 1):
        nested = [container for container in level if container.__class__ is dict or container.__class__ is list]
        if not nested:
            return
        level = [
            inner
            for container in nested
            for inner in (container.values() if container.__class__ is dict else container)
        ]
    raise ValueError(TOO_DEEP)


def _whole(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"it holds {TOO_LONG}; correct it")
    return int(text)


def reason(error: BaseException) -> str:
    """The first line of an error in at most 200 characters, or its class where it has no text."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
