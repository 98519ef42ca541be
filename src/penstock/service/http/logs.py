"""The log: one JSON object a line. It names tenants and identities of tokens, and never a token, a query or a body."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from penstock.base.system.files import os_errors
from penstock.service.http.folder import owner_only


class Log:
    """Lines to a stream. Thread safe; a stream that takes none does not end the service."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream, self._lock = stream or sys.stderr, threading.Lock()

    def write(self, event: str, **fields: object) -> None:
        """One line."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        line = json.dumps({"at": f"{at}Z", "event": event, **{k: v for k, v in fields.items() if v not in (None, "")}})
        with self._lock, suppress(OSError, ValueError):
            self._stream.write(line + "\n")
            self._stream.flush()


def opened(path: Path, say: Callable[[str], object]) -> TextIO:
    """A log to append to, for this user alone. Raises: FolderRefused: it is another's. FileError."""
    with os_errors(path):
        stream = path.open("a", encoding="utf-8")
    if path.is_file():
        try:
            owner_only(path, say)
        except BaseException:
            stream.close()
            raise
    return stream
