"""A folder for figures, and what is said of them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from penstock.base.system.files import os_errors
from penstock.errors import UsageError
from penstock.front.cli.output import say


def say_figures(paths: Iterable[Path]) -> None:
    """Name the figures that are written, each when it is."""
    for path in paths:
        say(f"figure written to {path}")


def make_folder(folder: Path) -> None:
    """Make the folder for figures before the figures are computed.

    Raises: UsageError: it is a file; FileError: it cannot be made, or not be written.
    """
    if folder.is_file():
        raise UsageError(f"--figures {folder} is a file; name a folder")
    with os_errors(folder, "create"):
        folder.mkdir(parents=True, exist_ok=True)
    with os_errors(folder, "write into"):
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
