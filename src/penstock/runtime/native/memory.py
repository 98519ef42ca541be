"""The joint memory of several processes at one time."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

INTERVAL_S = 0.02
"""Between two looks. Shorter peaks can be missed; the peak of each process is the system's own figure."""
_PAGE_BYTES = os.sysconf("SC_PAGESIZE")


class MemoryWatch:
    """Looks at this process and at another one that comes and goes, until the end of its `with` block.

    Args:   other: the number of the other process, `None` while there is none.
    """

    def __init__(self, other: Callable[[], int | None]) -> None:
        self.standing_bytes = 0
        """The most that both had at one time."""
        self._other = other
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="penstock-memory", daemon=True)

    def look(self) -> None:
        """Take what stands now into account."""
        other = self._other()
        standing = resident_bytes(os.getpid()) + (0 if other is None else resident_bytes(other))
        self.standing_bytes = max(self.standing_bytes, standing)

    def _watch(self) -> None:
        while not self._ended.wait(INTERVAL_S):
            self.look()

    def __enter__(self) -> MemoryWatch:
        self.look()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        self.look()


def resident_bytes(pid: int) -> int:
    """Memory that a process has now; 0 where it has ended."""
    with suppress(OSError, IndexError, ValueError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    return 0


def rounded_bytes(more_bytes: int, step_bytes: int) -> int:
    """Memory that this process has now and so much more, rounded up: it differs a little from start to start."""
    return -(-(resident_bytes(os.getpid()) + more_bytes) // step_bytes) * step_bytes


def peak_resident_bytes() -> int:
    """The most memory that this process ever had.

    `getrusage` includes the parent's memory at the start of this process; the system's figure for this address space
    does not.
    """
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
