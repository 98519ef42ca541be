"""Replacement of a folder: the new one is built next to it, and exchanged with it when it is whole.

Of `DIR/name`, the new one is `DIR/.name.replacing`. If the system cannot exchange two folders at once, the old one is
`DIR/.name.replaced` for a moment. An old one has a file `.replaced` from just before it gives way; so whatever a killed
process leaves, the next start knows which is which.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from penstock.base.system.files import os_errors, sync_folder, write_atomic
from penstock.errors import UsageError

REPLACED = ".replaced"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_CANNOT = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)


def place_beside(path: Path, check: Callable[[Path], None]) -> Path:
    """The place of the folder that will replace `path`; made here, with the mode of `path`.

    Args:   check: raises where a folder that is there already holds somebody else's files.
    Raises: UsageError: a file system is mounted at `path`. FileError: the folder around `path` cannot be written.
    """
    if os.path.ismount(path):
        raise UsageError(
            f"{path} cannot be replaced: a file system is mounted there, and a new folder is built beside the old one; "
            "name a folder inside of it"
        )
    place = _replacing(path)
    if place.is_dir():
        check(place)
    with os_errors(place, "create"):
        place.mkdir(exist_ok=True)
        place.chmod(path.stat().st_mode & 0o7777)
    return place


def replace_folder(path: Path, marks: Sequence[str]) -> None:
    """The folder of `place_beside`, which is whole, takes the place of `path`, which goes.

    Args:   marks: files that say that a folder is one of its kind: they go first.
    Raises: FileError: the system refused; `path` is unchanged.
    """
    place, old = _replacing(path), _replaced(path)
    with os_errors(path, "replace"):
        write_atomic(path / REPLACED, b"", force=True)
        if not _exchange(place, path):
            path.rename(old)
            # Whoever looked for the old one meanwhile has put the new one there.
            with suppress(FileNotFoundError):
                place.rename(path)
            place = old
        sync_folder(path.parent)
    _discard(place, marks)


def restore_folder(path: Path, complete: str) -> None:
    """After a kill between two renames, when `path` is missing: the new folder, or the old one.

    Args:   complete: the file that a whole folder has.
    Raises: FileError.
    """
    place, old = _replacing(path), _replaced(path)
    if os.path.lexists(path) or not (old / REPLACED).exists():
        return
    with os_errors(path, "restore"), suppress(FileNotFoundError):
        (place if (place / complete).exists() else old).rename(path)
        sync_folder(path.parent)


def remove_replaced(path: Path, marks: Sequence[str]) -> None:
    """Remove what `path` has replaced, where that was left. Nobody else is replacing `path` meanwhile."""
    for left in (_replacing(path), _replaced(path)):
        if (left / REPLACED).exists():
            _discard(left, marks)


def _replacing(path: Path) -> Path:
    return path.with_name(f".{path.name}.replacing")


def _replaced(path: Path) -> Path:
    return path.with_name(f".{path.name}.replaced")


def _discard(folder: Path, marks: Sequence[str]) -> None:
    with os_errors(folder, "remove"):
        for mark in marks:
            (folder / mark).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders change places at once. `False`: the system, or this file system, cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _CANNOT:
        return False
    raise OSError(code, os.strerror(code), str(other))
