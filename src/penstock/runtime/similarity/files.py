"""The files of an encrypted database: blocks of records in the small ring, payloads in the large one, and their index.

`records.bin` has block after block; a block has one polynomial for each coordinate, n words of 8 bytes, little-endian,
evaluations of the half that is not uniform. `payloads.bin` has a ciphertext of zeros, by which results are written,
then seeded ciphertexts of equal length, by variant, score ciphertext and column. `database.json` names the format's
version, the parameters, and of each block its seed and its XXH3-64. It is written last: without it there is no
database.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock import _engine
from penstock.base.system.files import os_errors
from penstock.base.types import Row
from penstock.errors import PenstockError
from penstock.program.database.similarity.comparison import Selection
from penstock.program.database.similarity.scheme import COLUMNS, Layout

VERSION = 1
"""Of the format (docs/reference/releases.md)."""
INDEX, RECORDS, PAYLOADS = "database.json", "records.bin", "payloads.bin"


class DatabaseDamaged(PenstockError):
    """A database that is not whole, not of this version, or of other parameters."""


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """One small ciphertext for each coordinate of n records."""

    seed: bytes
    checksum: int


@dataclass(frozen=True, slots=True)
class DatabaseIndex:
    """The content of `database.json`."""

    layout: Layout
    modulus: int
    """q_0."""
    blocks: tuple[RecordBlock, ...]
    payload_bytes: int
    """Of one ciphertext of payloads; 0: the database can only be counted in."""
    template_bytes: int
    """Of the ciphertext of zeros."""

    def to_json(self) -> str:
        layout = self.layout
        content = {
            "format": "penstock similarity database",
            "version": VERSION,
            "records": layout.records,
            "dim": layout.dim,
            "ring_dim": layout.ring_dim,
            "small_ring_dim": layout.small_dim,
            "modulus": self.modulus,
            "payload_bytes": self.payload_bytes,
            "template_bytes": self.template_bytes,
            "blocks": [[block.seed.hex(), f"{block.checksum:016x}"] for block in self.blocks],
        }
        return json.dumps(content, separators=(",", ":"))


def read_description(folder: Path) -> DatabaseIndex:
    """Raises: DatabaseDamaged: no database, not whole, or of another version. FileError: it cannot be read."""
    path = folder / INDEX
    with os_errors(path, "read"):
        if not path.exists():
            raise DatabaseDamaged(f"{path} is missing, so {folder} holds no whole database: make it again")
        text = path.read_bytes()
    try:
        content = json.loads(text)
        version = content["version"]
    except (ValueError, TypeError, KeyError) as error:
        raise DatabaseDamaged(f"{path}: not the index of a database ({error}): make the database again") from error
    if version != VERSION:
        raise DatabaseDamaged(
            f"{path}: the database is of version {version}, and this program reads {VERSION}: make it again"
        )
    try:
        description = _described(content)
    except (ValueError, TypeError, KeyError) as error:
        raise DatabaseDamaged(f"{path}: {error}: make the database again") from error
    for name, expected in ((RECORDS, record_bytes(description.layout)), (PAYLOADS, payload_bytes(description))):
        with os_errors(folder / name, "read"):
            size = (folder / name).stat().st_size if (folder / name).exists() else 0
        if size != expected:
            raise DatabaseDamaged(
                f"{folder / name} has {size} bytes, and {INDEX} says {expected}: make the database again"
            )
    return description


def _described(content: Row) -> DatabaseIndex:
    layout = Layout(
        records=int(content["records"]),
        dim=int(content["dim"]),
        ring_dim=int(content["ring_dim"]),
        small_dim=int(content["small_ring_dim"]),
    )
    blocks = tuple(RecordBlock(bytes.fromhex(seed), int(checksum, 16)) for seed, checksum in content["blocks"])
    if len(blocks) != layout.blocks or any(len(block.seed) != 32 for block in blocks):
        raise ValueError(f"{len(blocks)} blocks for {layout.records} records")
    sizes = int(content["payload_bytes"]), int(content["template_bytes"])
    return DatabaseIndex(layout, int(content["modulus"]), blocks, *sizes)


def block_bytes(layout: Layout) -> int:
    """Bytes of one block of records."""
    return 8 * layout.dim * layout.small_dim


def record_bytes(layout: Layout) -> int:
    """Bytes of all blocks."""
    return layout.blocks * block_bytes(layout)


def payload_count(layout: Layout) -> int:
    """Ciphertexts of payloads."""
    return Selection(layout.ring_dim // 2, layout.scores).variants * layout.scores * COLUMNS


def payload_bytes(description: DatabaseIndex) -> int:
    """Bytes of all payloads."""
    return description.template_bytes + payload_count(description.layout) * description.payload_bytes


def read_template(folder: Path, description: DatabaseIndex) -> bytes:
    """The ciphertext of zeros, by which results are written. Raises: FileError."""
    with os_errors(folder / PAYLOADS, "read"), (folder / PAYLOADS).open("rb") as file:
        return file.read(description.template_bytes)


def checked(words: npt.NDArray[np.uint64], block: RecordBlock, number: int, folder: Path) -> npt.NDArray[np.uint64]:
    """The words of a block, held against their checksum.

    Raises: DatabaseDamaged: they differ.
    """
    if _engine.ckks_row_checksum(words) != block.checksum:
        raise DatabaseDamaged(
            f"{folder / RECORDS}: block {number} differs from its checksum in {INDEX}: make the database again"
        )
    return words
