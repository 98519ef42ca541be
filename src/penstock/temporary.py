"""Temporary folders for keys: gone at the end, whatever ends the program short of `kill -9`."""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType


@contextmanager
def temporary_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A folder of this process's user alone. It goes with all that is in it at the end, at Ctrl-C and at SIGTERM.

    Args:   parent: where it is made; the system's folder of temporary files if omitted.
    """
    with _sigterm_as_interrupt(), tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as folder:
        yield Path(folder)


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """SIGTERM (`docker stop`, Slurm) as Ctrl-C, once: the end that it brings is not cut short by another.

    Nothing changes in other threads than the main one, nor where somebody handles the signal already.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
