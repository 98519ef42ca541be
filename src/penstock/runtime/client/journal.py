"""The journal of a client, with which a killed one goes on: one JSON object a line, only ever appended."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path

from penstock.base.system.files import os_errors
from penstock.base.types import Row

Record = Row


class Journal:
    """Records by kind and name; a later record of the same name adds to the earlier one, or replaces its fields.

    Nothing secret is in it: names, digests, sizes, states. Only its owner can read it. A record is on the disk when
    `note` returns. Half a line at the end, of a process that was killed, counts as none.

    Args:   path: the file; `None` keeps the records in this object alone.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._records: dict[tuple[str, str], Record] = {}
        self._read_bytes = 0

    def note(self, kind: str, name: str, **fields: object) -> None:
        """Add fields to a record. Raises: FileError."""
        if self.path is None:
            self._records.setdefault((kind, name), {}).update(fields)
            return
        with os_errors(self.path):
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                size = os.fstat(descriptor).st_size
                # The unfinished line of a killed process is ended first.
                cut = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
                line = json.dumps({"kind": kind, "name": name, **fields}).encode() + b"\n"
                os.write(descriptor, b"\n" * cut + line)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def get(self, kind: str, name: str) -> Record | None:
        """The fields of a record."""
        self._read()
        return self._records.get((kind, name))

    def all(self, kind: str) -> Mapping[str, Record]:
        """Every record of a kind, in order of their first lines."""
        self._read()
        return {name: fields for (own_kind, name), fields in self._records.items() if own_kind == kind}

    def _read(self) -> None:
        """Take up the lines that were added, by others too."""
        if self.path is None or not self.path.exists():
            return
        with os_errors(self.path, "read"), self.path.open("rb") as file:
            file.seek(self._read_bytes)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        for line in whole.splitlines():
            try:
                fields = json.loads(line)
                key = str(fields.pop("kind")), str(fields.pop("name"))
            except (ValueError, KeyError, AttributeError, TypeError):
                continue
            self._records.setdefault(key, {}).update(fields)
