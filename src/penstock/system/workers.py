"""Processes that share the work of one: they end with it, and leave interrupts to it."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interrupts_held() -> Iterator[None]:
    """An interrupt waits until the end of the block; processes that are started in it never get one."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def python_module(name: str) -> list[str]:
    """The command that runs a module in a process of its own, whatever modules lie in the current folder."""
    # As `python -m`, which would look for modules in the current folder first (and `-P` is new in Python 3.11).
    return [
        sys.executable,
        "-c",
        f"import runpy, sys; del sys.path[0]; runpy.run_module({name!r}, run_name='__main__')",
    ]


def no_core_files() -> None:
    """A fault of this process leaves no file of its memory, where a secret key may be."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def end_with_parent() -> None:
    """A worker whose parent is killed ends too. Interrupts are the parent's to handle: see `interrupts_held`."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: Any) -> None:
    parent.join()
    os._exit(1)
