"""Temporary folders for keys: gone at the end, whatever ends the program; after `kill -9`, at the next start of one."""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.base.system.files import UNFINISHED, held_folder, remove_dead
from penstock.base.system.interrupts import sigterm_as_interrupt
from penstock.errors import PenstockError

_VARIABLES = ("TMPDIR", "TEMP", "TMP")
_TRIAL_BYTES = 4096
_NAMED = re.compile(r"penstock-[a-z]+-(?P<pid>\d+)-[0-9a-f]{16}")
"""Names of temporary folders. They are narrow: in the same place lie folders of people's own."""


class TemporaryPlaceUnusable(PenstockError):
    """The environment names a folder for temporary files that takes none."""


@contextmanager
def temporary_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A folder of this process's user alone. It goes with all that is in it at the end, at Ctrl-C and at SIGTERM.

    Before it is made, folders in the same place go that killed processes of this user left.

    Args:   prefix: `penstock-`, a word, and `-`. parent: where it is made; the system's folder of temporary files if
            omitted.
    Raises: TemporaryPlaceUnusable: `parent` is omitted, and the folder that TMPDIR names takes no files. FileError: it
            cannot be made.
    """
    place = parent or _temporary_place()
    for named in (_NAMED, UNFINISHED):
        remove_dead(place, named)
    # Its name is known before it is made: an interrupt just after leaves nothing.
    folder = place / f"{prefix}{os.getpid()}-{secrets.token_hex(8)}"
    with sigterm_as_interrupt(), held_folder(folder):
        yield folder


def _temporary_place() -> Path:
    """The folder that the environment names, or the system's.

    `tempfile` alone would go on to another folder if the named one is missing or full. Secret keys go there, so that
    only the named one will do.
    """
    for variable in _VARIABLES:
        if named := os.environ.get(variable):
            place = Path(named).absolute()
            try:
                with tempfile.TemporaryFile(dir=place, buffering=0) as trial:
                    written = trial.write(bytes(_TRIAL_BYTES))
                    os.fsync(trial.fileno())
            except OSError as error:
                raise _unusable(variable, named, error.strerror or str(error)) from error
            if written < _TRIAL_BYTES:
                raise _unusable(variable, named, "the disk is full")
            return place
    return Path(tempfile.gettempdir())


def _unusable(variable: str, named: str, why: str) -> TemporaryPlaceUnusable:
    return TemporaryPlaceUnusable(
        f"{variable}={named}: cannot write a temporary file there: {why}. Temporary keys are written nowhere else. "
        f"Name a folder with free space that you may write to, or unset {variable}"
    )
