"""Uploads of files to a service: in pieces, from the offset that the service has, by content."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from penstock.base.system.files import file_sha256, os_errors
from penstock.base.system.web import Patience, ServiceError, ServiceRefused, Web
from penstock.base.types import Row
from penstock.errors import PenstockError
from penstock.runtime.client.journal import Journal

_FORGOTTEN = (404, 410)
"""The service does not know the upload any more."""
_ELSEWHERE = 409
"""The upload is at another offset, or a piece that was cut off is still being written."""
PIECE_BYTES = 32 << 20
"""Of one request. Each is a round trip, and a broken one goes on at the offset that the service has."""
_MOST_ROUNDS = 3
"""An upload begins so often anew before it counts as failed."""
_MOST_ELSEWHERE = 12
_LONGEST_LOOK_S = 2.0
"""From one look at an offset that moves to the next."""
_COMMIT_S = 600.0
"""The longest silence while the service checks a whole key."""

OnBytes = Callable[[int, int], None]
"""Called with the bytes that the service has, and all of them."""


def digest_of(path: Path) -> tuple[str, int]:
    """SHA-256 of a file in hexadecimal digits, and its bytes. Raises: FileError."""
    sha256 = file_sha256(path)
    with os_errors(path, "read"):
        return sha256, path.stat().st_size


class Uploads:
    """The uploads of one client at one service. Each file is sent once; a killed upload goes on where it was."""

    def __init__(self, web: Web, journal: Journal) -> None:
        self._web, self._journal = web, journal

    def send(
        self,
        path: Path,
        kind: str,
        *,
        digest: tuple[str, int] | None = None,
        on_bytes: OnBytes | None = None,
        is_there: Callable[[], bool] = lambda: False,
        **about: object,
    ) -> str:
        """Send a file, and return its name at the service: its SHA-256.

        Args:   kind: `package`, `key`, `input` or `ciphertext`. digest: of the file, where it is known. is_there: asked
                when the service has forgotten an upload, perhaps since its commit was carried out and not answered.
                about: further fields of the upload.
        Raises: ServiceRefused; ServiceUnreachable; FileError; PenstockError: the file changes while it is sent.
        """
        sha256, size = digest or digest_of(path)
        report = on_bytes or (lambda done, total: None)
        asked = {"kind": kind, "bytes": size, "sha256": sha256, **about}
        kept = f"{self._web.url} {kind} {sha256} {about.get('params', '')}"
        for _ in range(_MOST_ROUNDS):
            begun = self._begun(kept, asked)
            if begun is None:
                report(size, size)
                return sha256
            upload, offset = begun
            try:
                self._pieces(path, upload, offset, size, report)
                self._web.ask("POST", f"/v1/uploads/{quote(upload, safe='')}/commit", wait_s=_COMMIT_S)
            except ServiceRefused as error:
                last = error
                if error.status == _ELSEWHERE:
                    continue
                self._journal.note("upload", kept, upload=None)
                if error.status not in _FORGOTTEN:
                    raise
                if is_there():
                    return sha256
            else:
                self._journal.note("upload", kept, upload=None)
                return sha256
        raise last

    def _begun(self, kept: str, asked: Row) -> tuple[str, int] | None:
        """The upload to go on with and its offset; `None`: the service has the content."""
        known = (self._journal.get("upload", kept) or {}).get("upload")
        if known is not None:
            try:
                return known, self._offset(known, asked["bytes"])
            except ServiceRefused as error:
                if error.status not in _FORGOTTEN:
                    raise
        answer = self._web.ask("POST", "/v1/uploads", asked).content
        if "upload" not in answer:
            self._journal.note("upload", kept, upload=None)
            return None
        upload = str(answer["upload"])
        self._journal.note("upload", kept, upload=upload)
        return upload, _place(answer, asked["bytes"])

    def _offset(self, upload: str, size: int) -> int:
        return _place(self._web.ask("GET", f"/v1/uploads/{quote(upload, safe='')}").content, size)

    def _pieces(self, path: Path, upload: str, offset: int, size: int, report: OnBytes) -> None:
        patience = Patience(self._web.patience_s)
        elsewhere = 0
        buffer = memoryview(bytearray(min(PIECE_BYTES, max(size, 1))))
        with os_errors(path, "read"), path.open("rb", buffering=0) as file:
            report(offset, size)
            while offset < size:
                file.seek(offset)
                count = file.readinto(buffer[: size - offset])
                if not count:
                    raise PenstockError(f"{path} has become shorter while it was sent: send it again")
                place = f"/v1/uploads/{quote(upload, safe='')}?offset={offset}"
                try:
                    moved = _place(self._web.once("PUT", place, buffer[:count]).content, size)
                except ServiceError as error:
                    if not isinstance(error, ServiceRefused) or error.status != _ELSEWHERE:
                        patience.pause(error)
                    elif (elsewhere := elsewhere + 1) > _MOST_ELSEWHERE:
                        raise
                    else:
                        time.sleep(min(_LONGEST_LOOK_S, 0.01 * 2**elsewhere))
                    # A part of the piece may have arrived.
                    moved = self._offset(upload, size)
                else:
                    if moved <= offset:
                        raise PenstockError(
                            f"the service took {count} bytes of {path} and stays at {moved}: report it to its operator"
                        )
                    patience.done()
                offset = moved
                report(offset, size)


def _place(answer: Row, size: int) -> int:
    """The offset in an answer. Raises: PenstockError: it is none of the file."""
    offset = answer.get("offset")
    if not isinstance(offset, int) or not 0 <= offset <= size:
        raise PenstockError(
            f"the service names the offset {offset!r} of a file of {size} bytes: it is not ours to fill"
        )
    return offset
