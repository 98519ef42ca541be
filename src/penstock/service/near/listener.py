"""The socket at which a key node listens: it takes the place of a dead node's, and of nothing else."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.errors import PenstockError
from penstock.service.near.link import parse_address

_QUEUED = 128
"""Connections that the system holds before they are accepted; it refuses more than that."""
_LOCK_TRIES = 40
_LOCK_PAUSE_S = 0.05


class Listener:
    """Accepts connections at `unix:PATH` or `127.0.0.1:PORT` (port 0: any) from the moment it is made.

    A socket file at which nobody listens, which a killed node left, is replaced; the own one goes at `close`.

    Raises: UsageError: no address of this machine. PenstockError: somebody listens there, a file lies there that is not
            a socket, or the system refused.
    """

    def __init__(self, address: str) -> None:
        family, place = parse_address(address)
        self.path = Path(place) if isinstance(place, str) else None
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._own: tuple[int, int] | None = None
        try:
            if self.path is None:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                self._socket.bind(place)
                self._socket.listen(_QUEUED)
            else:
                self._listen_at(self.path)
        except OSError as error:
            self.close()
            raise PenstockError(f"cannot listen at {address}: {_refusal(self.path, error)}") from error
        self.address = address if self.path else "{}:{}".format(*self._socket.getsockname())

    def _listen_at(self, path: Path) -> None:
        with _folder_locked(path.parent) as locked:
            if locked and _is_stale(path):
                path.unlink()
            self._socket.bind(str(path))
            self._own = _identity(path)
            path.chmod(0o600)
            self._socket.listen(_QUEUED)

    def accept(self) -> socket.socket:
        """The next connection. Raises: OSError."""
        return self._socket.accept()[0]

    def close(self) -> None:
        """Stop listening; whoever waits in `accept` gets an `OSError`. A file that took the path meanwhile stays."""
        if self.path is not None and self._own is not None:
            with suppress(OSError), _folder_locked(self.path.parent):
                if _identity(self.path) == self._own:
                    self.path.unlink()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@contextmanager
def _folder_locked(folder: Path) -> Iterator[bool]:
    """Nodes that begin or end in one folder do so one after another: none removes what another has just made.

    Gives whether the lock is held: some file systems lock no folder, and somebody else may keep this one locked.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield False  # what is wrong with the folder shows where a socket is made in it
        return
    try:
        yield _lock(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(_LOCK_PAUSE_S)
        except OSError:
            return False
    return False


def _is_stale(path: Path) -> bool:
    """Whether `path` is a socket at which nobody listens."""
    if not _is_socket(path):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        # A node whose queue is full answers with EAGAIN: it is there.
        trial.setblocking(False)
        return trial.connect_ex(str(path)) == errno.ECONNREFUSED


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return False


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _refusal(path: Path | None, error: OSError) -> str:
    """The reason and the remedy."""
    if error.errno != errno.EADDRINUSE:
        return f"{error.strerror or error}; take another address"
    if path is None or not os.path.lexists(path):
        return f"{error.strerror}; take another port, or end the program that has it"
    if not _is_socket(path):
        return "a file lies there that is not a socket, and is not replaced; take another path, or move that file away"
    if _is_stale(path):
        return "a dead node's socket lies there, and its folder cannot be locked; remove that file"
    return "another node listens there; take another path, or end that node first"
