"""The lock of a run folder: one process writes it at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from penstock.base.system.files import os_errors
from penstock.errors import PenstockError


class RunInUse(PenstockError):
    """Another process writes this run folder."""


def take_lock(path: Path) -> int:
    """Lock the folder for this process; the system frees the lock when the process ends, however it ends."""
    with os_errors(path / ".lock"):
        descriptor = os.open(path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        os.close(descriptor)
        by = f" (process {owner})" if owner.isdigit() else ""
        raise RunInUse(
            f"{path} is being written by another penstock{by}; wait for it, or name another folder"
        ) from None
    try:
        with os_errors(path / ".lock"):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_locked(path: Path) -> bool:
    """Whether a process writes the folder now."""
    try:
        descriptor = os.open(path / ".lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
