"""Limits of one answer and of all kept answers, checked before the work.

A browser asks many questions at once, and none of them can be stopped while it is worked out.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import PenstockError, UsageError

MOST_HOSTS = 128
"""Messages between hosts grow with their square: 128 hosts take 0.6 s and 20 MB, 1024 would take 30 s and 0.8 GB."""
MOST_ANSWERS = 4
"""Answers that are worked out at the same time."""
WAIT_S = 20.0
"""How long an answer waits for its turn."""

MIB = 2**20
TRACES_BYTES = 512 * MIB
PRICES_BYTES = 256 * MIB
READY_BYTES = 512 * MIB
ANSWERS_BYTES = 64 * MIB
SPACES_BYTES = 256 * MIB
"""Limit of each sort of kept result; the least recently used go first."""


class Busy(PenstockError):
    """Too many answers are being worked out."""


class TooMuch(UsageError):
    """An answer that would cost more than the explorer gives for one."""


class Turns:
    """Lets so many answers be worked out at the same time. Thread safe."""

    def __init__(self, most: int = MOST_ANSWERS, wait_s: float = WAIT_S) -> None:
        self._most, self._wait_s = most, wait_s
        self._free = threading.BoundedSemaphore(most)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Wait for a turn.

        Raises: Busy: none came.
        """
        if not self._free.acquire(timeout=self._wait_s):
            raise Busy(
                f"{self._most} other answers are being worked out, and none was done within {self._wait_s:g} s: ask "
                "again later"
            )
        try:
            yield
        finally:
            self._free.release()


def check_hosts(hosts: int) -> None:
    """Raises: TooMuch: more hosts than the explorer plays."""
    if hosts > MOST_HOSTS:
        raise TooMuch(
            f"hosts {hosts}: the explorer plays 1 to {MOST_HOSTS}, because messages grow with the square of the hosts; "
            f"'penstock simulate --hosts {hosts}' plays more"
        )
