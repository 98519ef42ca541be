"""The log: one JSON object a line. It names tenants and identities of tokens, and never a token, a query or a body."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from penstock.base.system.files import os_errors
from penstock.service.state.folder import owner_only

SAMPLED, WINDOW_S = 5, 60.0
"""So many lines of a kind in so many seconds."""
_MOST_KINDS = 1000


class Log:
    """Lines to a stream. Thread safe; a stream that takes none does not end the service."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock, self._lock = stream or sys.stderr, clock, threading.Lock()
        self._kinds: OrderedDict[str, tuple[float, int, int]] = OrderedDict()
        """Kind -> start of its window, lines in it, and those left out since the last line."""
        self._told_s = clock()

    def write(self, event: str, **fields: object) -> None:
        """One line."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        line = json.dumps({"at": f"{at}Z", "event": event, **{k: v for k, v in fields.items() if v not in (None, "")}})
        with self._lock, suppress(OSError, ValueError):
            self._stream.write(line + "\n")
            self._stream.flush()

    def sampled(self, kind: str, event: str, **fields: object) -> None:
        """One line, unless there were many of its kind lately; an empty kind is always written.

        A line says in `left_out` how many of its kind were left out before it.
        """
        now = self._clock()
        with self._lock:
            begun, lines, left_out = self._kinds.pop(kind, (now, 0, 0)) if kind else (now, 0, 0)
            if now - begun >= WINDOW_S:
                begun, lines = now, 0
            is_written = lines < SAMPLED
            if kind:
                self._kinds[kind] = (begun, lines + 1, 0) if is_written else (begun, lines, left_out + 1)
        if is_written:
            self.write(event, **fields, left_out=left_out or None)
        self._tell(now)

    def _tell(self, now: float) -> None:
        """Say once a window how many lines of kinds that stopped, or are too many to remember, were left out."""
        with self._lock:
            if now - self._told_s < WINDOW_S and len(self._kinds) <= _MOST_KINDS:
                return
            self._told_s = now
            gone = list(self._kinds)[: max(0, len(self._kinds) - _MOST_KINDS // 2)]
            gone += [kind for kind in list(self._kinds)[len(gone) :] if now - self._kinds[kind][0] >= 2 * WINDOW_S]
            left = {kind: self._kinds.pop(kind)[2] for kind in gone}
        for kind, left_out in left.items():
            if left_out:
                self.write("left out", kind=kind, left_out=left_out)


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
