"""Few bytes of address space ('ulimit -v'): how a process keeps within them, and how an error that they bring reads."""

from __future__ import annotations

import errno
import os
import resource

ROOMY_BYTES = 4 << 30
"""Address space from which on a process needs no savings."""
_FRUGAL = {"MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Variables that libraries read when they are loaded."""
_M_ARENA_MAX = -8
"""Of glibc's `mallopt`."""
_NO_ROOM_FOR_A_LIBRARY = ("failed to map segment", "annot allocate memory", "cannot create shared object descriptor")


def address_limit() -> int | None:
    """Bytes of address space that this process may take; `None`: as many as there are."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def address_space_is_small() -> bool:
    """Whether threads, and what libraries set aside for each, might not fit."""
    limit = address_limit()
    return limit is not None and limit < ROOMY_BYTES


def keep_within_limit() -> None:
    """If the address space is small, use less of it, here and in child processes.

    Each thread of glibc would have 64 MiB of addresses for its own allocations. If none are left, each allocation tries
    again to get them, and a program takes minutes instead of seconds. OpenBLAS ends the process that cannot start its
    threads. Arrow's own allocator sets addresses aside that it may never use.
    """
    if not address_space_is_small():
        return
    import ctypes  # at use: each command loads this file

    for name, value in _FRUGAL.items():
        os.environ.setdefault(name, value)
    try:
        library = ctypes.CDLL(None)
        library.mallopt(_M_ARENA_MAX, int(os.environ["MALLOC_ARENA_MAX"]))
        # The end of a thread loads it, and aborts where it does not fit any more.
        ctypes.CDLL("libgcc_s.so.1")
    except (AttributeError, OSError, ValueError):  # another C library, or another word
        return


def shortage(error: BaseException) -> str | None:
    """The text of an error caused by a lack of memory or threads; `None`: another cause."""
    what = _lacking(error)
    if what is None:
        return None
    from penstock.base.units import format_bytes  # at use, as above

    message = " ".join(str(error).split())
    limit = address_limit()
    remedy = "free some memory, or take a smaller program or fewer threads"
    if limit is not None:
        remedy = f"'ulimit -v' allows this process {format_bytes(limit)}: raise it, or take a smaller program"
    return f"{what}{f' ({message})' if message else ''}: {remedy}"


def _lacking(error: BaseException) -> str | None:
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return "out of memory"
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return "out of memory or threads"
    if isinstance(error, ImportError) and any(part in str(error) for part in _NO_ROOM_FOR_A_LIBRARY):
        return "out of memory for a library"
    return None
