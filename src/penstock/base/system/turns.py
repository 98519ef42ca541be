"""Turns of threads at things that a process has once. None waits for a thread that has ended, or that waits for it."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from types import FrameType

from penstock.errors import PenstockError

_LOOK_S = 0.5
"""How often a waiting thread looks at the one that has the turn."""
STILL_S = 10.0
"""A turn's owner that waits for so long for a thread is taken to wait for the one that waits for its turn."""
_WAITING_CODE = {threading.__file__, str(Path(threading.__file__).with_name("queue.py"))}
_PASSED_ON = str(Path(futures.__file__).parent)
_PENSTOCK = str(Path(__file__).parents[2])


class _Thread:
    """Goes with its thread: `threading.Thread` lives on, and says of a thread of `_thread` that it is alive."""

    def __init__(self) -> None:
        self.number = threading.get_ident()


Mark = weakref.ref[_Thread]
"""A thread: always the same object for the same one. It yields `None` once the thread has ended."""
_HERE = threading.local()
_WAITS: dict[Mark, Callable[[], Mark | None]] = {}
"""Thread that waits -> who has the turn that it waits for."""


def this_thread() -> Mark:
    """The mark of the thread that calls."""
    if not hasattr(_HERE, "thread"):
        _HERE.thread = _Thread()
    return weakref.ref(_HERE.thread)


def await_turn(changed: threading.Condition, owner: Callable[[], Mark | None], what: str) -> None:
    """Wait, with `changed` locked, until no other living thread is the owner.

    Args:   what: needs the turn, for the message.
    Raises: PenstockError: the owner waits for a turn of this thread's, or for so long for some thread that it is likely
            to be this one.
    """
    here, since, seen = this_thread(), time.monotonic(), None
    _WAITS[here] = owner
    try:
        while (other := owner()) not in (None, here) and (thread := other()) is not None:
            _check_circle(here, owner, what)
            now = _waits_at(thread.number)
            if now is None or now != seen:
                since, seen = time.monotonic(), now
            elif time.monotonic() - since >= STILL_S:
                raise PenstockError(
                    f"{what} is for one thread at a time. The thread that has its turn has waited {STILL_S:g} s for "
                    "another thread, probably this one. Call this from the program's own thread, or after its run"
                )
            del thread
            changed.wait(_LOOK_S)
    finally:
        _WAITS.pop(here, None)


def _check_circle(here: Mark, owner: Callable[[], Mark | None], what: str) -> None:
    """Raises: PenstockError: threads wait for each other, and this is one of them."""
    passed = set[Mark]()
    holder: Callable[[], Mark | None] | None = owner
    while holder is not None and (thread := holder()) is not None and thread not in passed:
        if thread is here:
            raise PenstockError(
                f"{what} is for one thread at a time, and the thread that has its turn waits for a turn of this "
                "thread's. Release the OpenFHE context or client of this thread first, or call both from one thread"
            )
        passed.add(thread)
        holder = _WAITS.get(thread)


def _waits_at(number: int) -> tuple[int, int] | None:
    """Where a thread waits for another thread in code that is not penstock's; `None` where it does not."""
    top: FrameType | None = sys._current_frames().get(number)
    if top is None or top.f_code.co_filename not in _WAITING_CODE:
        return None
    frame: FrameType | None = top
    while frame is not None and (
        frame.f_code.co_filename in _WAITING_CODE or frame.f_code.co_filename.startswith(_PASSED_ON)
    ):
        frame = frame.f_back
    if frame is None or frame.f_code.co_filename.startswith(_PENSTOCK):
        return None
    return id(top), top.f_lasti
