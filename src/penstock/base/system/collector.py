"""Python's collector of reference cycles, paused while a program makes many objects that it keeps."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses = 0
_was_on = False


@contextmanager
def collector_paused() -> Iterator[None]:
    """No search for reference cycles inside; the last pause to end, in any thread, starts the collector again.

    The collector looks at every object each time that their number has grown, and a trace is a million tuples without a
    cycle. Objects without cycles are freed as ever.
    """
    global _pauses, _was_on
    with _lock:
        if not _pauses:
            _was_on = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if not _pauses and _was_on:
                gc.enable()
