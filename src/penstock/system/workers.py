"""Processes that share the work of one: they end with it, and leave interrupts to it."""

from __future__ import annotations

import multiprocessing
import os
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_LOOK_S = 0.5
"""Between two looks for the parent, where the system does not tell of its end."""


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


def after_parent(parent: int, act: Callable[[], object]) -> threading.Thread:
    """Call `act` in a thread of its own once the process `parent`, which started this one, has ended."""
    thread = threading.Thread(target=_after_parent, args=(parent, act), daemon=True)
    thread.start()
    return thread


def _after_parent(parent: int, act: Callable[[], object]) -> None:
    try:
        descriptor = os.pidfd_open(parent)
    except (AttributeError, OSError):
        descriptor = None
    # Without a parent of that number, the descriptor is of another process that has it now.
    if descriptor is not None and os.getppid() == parent:
        ending = select.poll()
        ending.register(descriptor, select.POLLIN)
        ending.poll()
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    act()
