"""Temporary folders for keys: gone at the end, whatever ends the program short of `kill -9`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.system.interrupts import sigterm_as_interrupt


@contextmanager
def temporary_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A folder of this process's user alone. It goes with all that is in it at the end, at Ctrl-C and at SIGTERM.

    Args:   parent: where it is made; the system's folder of temporary files if omitted.
    """
    with sigterm_as_interrupt(), tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as folder:
        yield Path(folder)
