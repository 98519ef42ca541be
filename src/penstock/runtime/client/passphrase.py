"""The passphrase that seals a secret key: from a file, never from an argument, since others see arguments in the list
of processes."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from penstock.base.system.files import os_errors
from penstock.errors import UsageError

VARIABLE = "PENSTOCK_PASSPHRASE_FILE"
"""The environment variable that names the file."""
_MOST_BYTES = 4096
"""More is another file than meant."""


def passphrase_in(file: Path) -> bytes:
    """The first line of a file that has one line.

    Raises: UsageError: it is empty, too long, has more lines, or others may read or change it. FileError: it cannot be
            read.
    """
    with os_errors(file, "read"), file.open("rb") as opened:
        mode = os.fstat(opened.fileno()).st_mode
        content = opened.read(_MOST_BYTES + 1)
    if stat.S_ISREG(mode) and mode & 0o077:
        raise UsageError(
            f"passphrase file {file}: others may read or change it (mode {mode & 0o777:04o}); run 'chmod 600 {file}', "
            "and take a new passphrase if somebody may have read it"
        )
    if len(content) > _MOST_BYTES:
        raise UsageError(f"passphrase file {file}: more than {_MOST_BYTES} bytes; name the file of the passphrase")
    line = content.removesuffix(b"\n").removesuffix(b"\r")
    if not line or b"\n" in line:
        what = "more than one line" if line else "no passphrase"
        raise UsageError(f"passphrase file {file}: it holds {what}; write the passphrase as its only line")
    return line


def passphrase_of(environ: Mapping[str, str] = os.environ) -> bytes | None:
    """The passphrase whose file the environment names. Raises: as `passphrase_in`."""
    named = environ.get(VARIABLE)
    return passphrase_in(Path(named)) if named else None
