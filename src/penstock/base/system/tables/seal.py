"""A checksum over a whole Parquet file, kept in its footer.

Parquet's own checksums cover the pages, not their headers: one changed bit of a header can end the decoding process
by a signal. The seal is checked before the decoder sees a byte.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import BinaryIO

KEY = b"penstock.file_sha256"
EMPTY = b"0" * 64
"""The value while the checksum is computed."""
_ENTRY = KEY + b"\x18\x40"
"""The key as the footer stores it, then the header of a value of 64 bytes (Thrift, compact protocol)."""
_MAGIC = b"PAR1"
_BLOCK_BYTES = 1 << 20


class SealBroken(ValueError):
    """The content of a file does not match its seal."""


def seal(path: Path) -> None:
    """Replace the empty checksum of a new file by its own. Raises: OSError. ValueError: the file has no empty one."""
    with path.open("r+b") as file:
        at = _position(file)
        if at is None:
            raise ValueError(f"{path} has no room for a checksum")
        digest = _digest(file, at)
        file.seek(at)
        file.write(digest)


def check_seal(path: Path) -> bool:
    """Whether the file has a seal. Raises: SealBroken: it has one, of another content. OSError."""
    with path.open("rb") as file:
        at = _position(file)
        if at is None:
            return False
        file.seek(at)
        if file.read(len(EMPTY)) != _digest(file, at):
            raise SealBroken("its content does not match its checksum")
        return True


def _position(file: BinaryIO) -> int | None:
    """The offset of the checksum; `None`: the footer has none."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 8))
    end = file.read(8)
    if len(end) < 8 or end[4:] != _MAGIC:
        return None
    start = max(0, size - 8 - int.from_bytes(end[:4], "little"))
    file.seek(start)
    offset = file.read(size - start).rfind(_ENTRY)
    at = start + offset + len(_ENTRY)
    return at if offset >= 0 and at + len(EMPTY) <= size else None


def _digest(file: BinaryIO, at: int) -> bytes:
    """SHA-256 of the file in hexadecimal, its own 64 bytes taken as zeros."""
    digest = hashlib.sha256()
    file.seek(0)
    left = at
    while left and (block := file.read(min(left, _BLOCK_BYTES))):
        digest.update(block)
        left -= len(block)
    digest.update(EMPTY)
    file.seek(at + len(EMPTY))
    while block := file.read(_BLOCK_BYTES):
        digest.update(block)
    return digest.hexdigest().encode()
