"""A database on disk: a folder with a header, client keys, and segments of entries of one size, each with a checksum.

```
FOLDER/database.json        header: version, description, parameter digest, layout, its own checksum
FOLDER/keys/                what the client keeps: its secret and public key (databases of ciphertexts)
FOLDER/segments/000000.seg  4096-byte blocks: a header with a checksum for each entry, then the entries
FOLDER/.complete            written last
```

A segment appears whole or not at all, so that a load that was killed goes on where it stopped. Entries begin at
multiples of 4096 bytes: the file can be read past the page cache, and from front to back.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.base.system.files import os_errors, write_atomic
from penstock.base.system.outside import content_of, json_of
from penstock.base.system.replacing import restore_folder
from penstock.base.types import Row
from penstock.errors import PenstockError, UsageError
from penstock.program.database.description import RECORDS, Description, canonical
from penstock.runtime.keystore.pairs import PAIRS, PairFiles, pair_in

VERSION = 1
BLOCK_BYTES = 4096
HEADER, COMPLETE, SEGMENTS, KEYS = "database.json", ".complete", "segments", "keys"
_MAGIC = b"penstock database segment\n"
_DIGEST_BYTES = 32
_ENTRY_TEXT_BYTES = 2 * _DIGEST_BYTES + 3 + 16
"""Of an entry's checksum and size in a segment's header: digits, quotes and commas."""
_HEADER_TEXT_BYTES = 512
"""Of all else in it."""


class DatabaseError(PenstockError):
    """A database that is damaged, unfinished or of another format: no query is answered from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseLayout:
    """Where entries lie."""

    entry_bytes: int
    """An entry's place; a ciphertext may take some hundred bytes less."""
    num_entries: int
    per_segment: int
    """Entries of a full segment."""

    @classmethod
    def of(cls, description: Description, segment_bytes: int, entry_bytes: int | None = None) -> DatabaseLayout:
        """Segments of about so many bytes, at least one entry each; `entry_bytes` where it is known exactly."""
        size = description.entry_bytes if entry_bytes is None else entry_bytes
        per_segment = max(1, min(segment_bytes // _blocks(size), description.num_entries))
        return cls(entry_bytes=size, num_entries=description.num_entries, per_segment=per_segment)

    def check(self, description: Description) -> None:
        """Raises: TypeError, ValueError: no database of this description lies so."""
        numbers = (self.entry_bytes, self.num_entries, self.per_segment)
        if any(type(number) is not int for number in numbers):
            raise TypeError(f"layout {numbers}: whole numbers")
        size = description.entry_bytes
        # A ciphertext's size is the library's, which adds to it.
        widest = size if description.stored == RECORDS else 2 * size + BLOCK_BYTES
        least = size if description.stored == RECORDS else 1
        if self.num_entries != description.num_entries or not least <= self.entry_bytes <= widest:
            raise ValueError(f"{self.num_entries} entries of {self.entry_bytes} bytes")
        if not 1 <= self.per_segment <= self.num_entries:
            raise ValueError(f"{self.per_segment} of {self.num_entries} entries in a segment")

    @property
    def stride(self) -> int:
        """Bytes from one entry to the next."""
        return _blocks(self.entry_bytes)

    @property
    def header_bytes(self) -> int:
        """Of a segment."""
        return _blocks(len(_MAGIC) + _HEADER_TEXT_BYTES + self.per_segment * _ENTRY_TEXT_BYTES + _DIGEST_BYTES)

    @property
    def num_segments(self) -> int:
        """Files."""
        return -(-self.num_entries // self.per_segment)

    def entries(self, segment: int) -> range:
        """The entries of a segment."""
        first = segment * self.per_segment
        return range(first, min(first + self.per_segment, self.num_entries))

    def segment_bytes(self, segment: int) -> int:
        """Bytes of a segment's file."""
        return self.header_bytes + len(self.entries(segment)) * self.stride

    @property
    def total_bytes(self) -> int:
        """Bytes of all segments."""
        return self.num_segments * self.header_bytes + self.num_entries * self.stride


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A database's header and where it lies."""

    path: Path
    description: Description
    layout: DatabaseLayout
    identity: str
    """Drawn when the database was begun; every segment names it."""
    keys_digest: str = ""
    """Of the client's keys, where the database is encrypted under them."""

    @property
    def complete(self) -> bool:
        """Whether its load came to the end."""
        return (self.path / COMPLETE).exists()

    def segment_path(self, segment: int) -> Path:
        return self.path / SEGMENTS / f"{segment:06d}.seg"

    @property
    def keys_path(self) -> Path:
        return self.path / KEYS

    def write_header(self) -> None:
        """Raises: FileError: the disk refused."""
        record = {
            "format": "penstock database", "version": VERSION, "identity": self.identity,
            "keys_digest": self.keys_digest, "description": self.description.to_dict(),
            "params_digest": self.description.params_digest(), "layout": asdict(self.layout),
        }  # fmt: skip
        record["checksum"] = hashlib.sha256(canonical(record)).hexdigest()
        write_atomic(self.path / HEADER, json.dumps(record, indent=1).encode(), force=True)

    @classmethod
    def open(cls, path: Path) -> Database:
        """The database in a folder, finished or not. Of a replacing that was killed, the one that is whole.

        Raises: UsageError: there is none. DatabaseError: its header is damaged or of another version.
        """
        file = path / HEADER
        if not path.exists():
            restore_folder(Path(os.path.realpath(path)), COMPLETE)
        if not file.is_file():
            raise UsageError(f"{path} holds no database (no {HEADER}): make one with 'penstock database make {path}'")
        content = content_of(file)
        damaged = f"{file}: the header is damaged: make the database again with 'penstock database make --force'"
        try:
            record = json_of(content)
            version, checksum = record["version"], record.pop("checksum")
            whole = hashlib.sha256(canonical(record)).hexdigest() == checksum
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DatabaseError(damaged) from error
        if isinstance(version, int) and version > VERSION:
            raise DatabaseError(f"{file}: format version {version}, and this penstock reads up to {VERSION}: update it")
        if not whole:
            raise DatabaseError(damaged)
        try:
            description = Description.from_dict(record["description"])
            layout = DatabaseLayout(**record["layout"])
            layout.check(description)
            database = cls(
                path=path,
                description=description,
                layout=layout,
                identity=str(record["identity"]),
                keys_digest=str(record["keys_digest"]),
            )
            stated = record["params_digest"]
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise DatabaseError(damaged) from error
        if stated != description.params_digest():
            raise DatabaseError(
                f"{file}: the digest of the parameters is not theirs: it was written by another version"
            )
        return database

    def require_complete(self) -> None:
        """Raises: DatabaseError: its load did not come to the end."""
        if not self.complete:
            have = sum(1 for _ in (self.path / SEGMENTS).glob("*.seg"))
            raise DatabaseError(
                f"{self.path}: the load stopped after {have} of {self.layout.num_segments} segments: go on with the "
                "same 'penstock database make' command; nothing is answered from a part"
            )

    def check_keys(self) -> None:
        """Raises: DatabaseError: the client's keys are missing, damaged, or of another database."""
        if not self.keys_digest:
            return
        pair = _pair_of(self.keys_path)
        losses = {pair.secret: "nobody decrypts the database", pair.public: "no query is encrypted"}
        for name, loss in losses.items():
            if not (self.keys_path / name).is_file():
                raise DatabaseError(f"{self.keys_path / name} is missing: {loss} without it: bring it back")
        if digest_of_keys(self.keys_path) != self.keys_digest:
            raise DatabaseError(
                f"{self.keys_path}: these keys are not those that the database was encrypted with, or are damaged: "
                "bring its own back"
            )

    # Segments.

    def write_segment(self, segment: int, entries: Sequence[bytes]) -> int:
        """Write a segment; it appears whole or not at all. Returns its bytes.

        Raises: UsageError: an entry is wider than its place. FileError: the disk refused.
        """
        wanted = self.layout.entries(segment)
        assert len(entries) == len(wanted)
        for number, entry in zip(wanted, entries, strict=True):
            if len(entry) > self.layout.entry_bytes:
                raise UsageError(
                    f"entry {number} has {len(entry)} bytes and is wider than its place of {self.layout.entry_bytes}: "
                    "make the database anew, with places of its size"
                )
        header = self._segment_header(segment, entries)

        def fill(path: Path) -> None:
            with path.open("wb") as file:
                file.write(header)
                for entry in entries:
                    file.write(entry)
                    file.write(bytes(self.layout.stride - len(entry)))

        write_atomic(self.segment_path(segment), fill, force=True)
        return self.layout.segment_bytes(segment)

    def _segment_header(self, segment: int, entries: Sequence[bytes]) -> bytes:
        record = {
            "database": self.identity,
            "segment": segment,
            "sizes": [len(entry) for entry in entries],
            "checksums": [hashlib.sha256(entry).hexdigest() for entry in entries],
        }
        text = _MAGIC + canonical(record)
        size = self.layout.header_bytes
        assert len(text) + _DIGEST_BYTES <= size
        text += bytes(size - _DIGEST_BYTES - len(text))
        return text + hashlib.sha256(text).digest()

    def check_size(self, segment: int, size: int) -> None:
        """Raises: DatabaseError: a segment's file is shorter or longer than the writer made it."""
        expected = self.layout.segment_bytes(segment)
        if size != expected:
            how = "truncated" if size < expected else "longer than what was written"
            raise DatabaseError(
                f"{self.segment_path(segment)}: {size} bytes, and the segment has {expected}: it is {how}; make the "
                "database again; nothing is answered from it"
            )

    def entries_of(self, segment: int, header: bytes, size: int) -> list[tuple[int, bytes]]:
        """Bytes and checksum of each entry of a segment, from the first bytes of its file, whose size is `size`.

        Raises: DatabaseError: the file is truncated, longer, damaged, or of another database.
        """
        path, again = self.segment_path(segment), "make the database again; nothing is answered from it"
        self.check_size(segment, size)
        text, checksum = header[:-_DIGEST_BYTES], header[-_DIGEST_BYTES:]
        if not text.startswith(_MAGIC) or hashlib.sha256(text).digest() != checksum:
            raise DatabaseError(f"{path}: its header is damaged: {again}")
        try:
            return self._written(segment, json_of(text[len(_MAGIC) :].rstrip(b"\0")))
        except (KeyError, RecursionError, TypeError, ValueError) as error:
            raise DatabaseError(f"{path}: its header is damaged ({error}): {again}") from error

    def _written(self, segment: int, record: Row) -> list[tuple[int, bytes]]:
        """Bytes and checksum of each entry, from a segment's header.

        Raises: DatabaseError: it is of another database. KeyError, TypeError, ValueError: it is none.
        """
        if record["database"] != self.identity or record["segment"] != segment:
            raise DatabaseError(
                f"{self.segment_path(segment)}: it is segment {str(record['segment'])[:40]} of database "
                f"{str(record['database'])[:40]}, not segment {segment} of {self.identity}: make the database again; "
                "nothing is answered from it"
            )
        sizes, checksums = record["sizes"], [bytes.fromhex(digits) for digits in record["checksums"]]
        if len(sizes) != len(self.layout.entries(segment)):
            raise ValueError(f"{len(sizes)} sizes of entries")
        for size, checksum in zip(sizes, checksums, strict=True):
            if type(size) is not int or not 0 <= size <= self.layout.entry_bytes or len(checksum) != _DIGEST_BYTES:
                raise ValueError(f"an entry of {str(size)[:40]} bytes")
        return list(zip(sizes, checksums, strict=True))

    def check_entry(self, segment: int, place: int, entry: bytes, padding: bytes, checksum: bytes) -> None:
        """Raises: DatabaseError: the entry, or the zeros up to the next one, have changed."""
        intact = hashlib.sha256(entry).digest() == checksum
        if not intact or padding.strip(b"\0"):
            number = self.layout.entries(segment)[place]
            what = "bytes behind it are not zero" if intact else "its checksum differs"
            raise DatabaseError(
                f"{self.segment_path(segment)}: entry {number} is damaged ({what}): make the database again; nothing "
                "is answered from it"
            )


def digest_of_keys(folder: Path) -> str:
    """The SHA-256 of the secret and the public key in a folder, one after the other.

    Raises: FileError: one of them is missing. UsageError: pairs of two libraries lie there.
    """
    state, pair = hashlib.sha256(), _pair_of(folder)
    for name in (pair.secret, pair.public):
        with os_errors(folder / name, "read"):
            state.update((folder / name).read_bytes())
    return state.hexdigest()


def _pair_of(folder: Path) -> PairFiles:
    """The files to expect in a folder of keys; where it has none, those of the oldest library."""
    return pair_in(folder) or PAIRS["openfhe"]


def new_identity() -> str:
    """A name that no other database has."""
    return os.urandom(8).hex()


def _blocks(size: int) -> int:
    """`size` rounded up to whole blocks."""
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES
