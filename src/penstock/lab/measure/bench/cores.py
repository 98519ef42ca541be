"""Binds two OpenMP threads to a core each during a timing.

A scheduler may wake the second thread on the core of the first and leave both there for tens of milliseconds, with the
other core idle: two threads are then slower than one. The state that the calls of a run meet decides its time and is
not a property of an operation.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

_BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@contextmanager
def one_core_each(threads: int) -> Iterator[bool]:
    """Bind the calling thread and OpenMP's second thread to a core each, for the duration of the block; tell whether it
    worked.

    Only with `threads` = 2: with more, OpenMP ends threads that a short loop does not need, and starts them again on
    the core of the first one. If the process has one core, or OpenMP is not GNU's, nothing is bound.
    """
    allowed = os.sched_getaffinity(0)
    if threads != 2 or len(allowed) < 2 or not _bind([{core} for core in sorted(allowed)[:2]]):
        yield False
        return
    try:
        yield True
    finally:
        _bind([allowed] * 2)


def _bind(cores: Sequence[set[int]]) -> bool:
    """Bind each thread of a team to its cores; OpenMP keeps the team for the next loop of as many threads."""
    try:
        openmp = ctypes.CDLL("libgomp.so.1")
        in_parallel, number = openmp.GOMP_parallel, openmp.omp_get_thread_num
    except (OSError, AttributeError):
        return False
    done: list[int] = []

    def bind(_: int | None) -> None:
        with suppress(OSError):
            os.sched_setaffinity(0, cores[number()])  # 0: the thread that calls
            done.append(number())

    in_parallel(_BODY(bind), None, len(cores), 0)
    return sorted(done) == list(range(len(cores)))
