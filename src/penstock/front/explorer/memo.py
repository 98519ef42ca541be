"""Results that are kept: the last few of each sort, each computed once however many ask at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from penstock.base.system.kept import Kept

T = TypeVar("T")


class Memo(Generic[T]):
    """The `keep` results that were asked for last, up to so many bytes. Thread safe; an error is not kept.

    >>> memo = Memo[int](2, most_bytes=10**6)
    >>> memo.get("a", lambda: 1), memo.get("a", lambda: 2)
    (1, 1)
    """

    def __init__(self, keep: int, *, most_bytes: int) -> None:
        self._results = Kept[T](most_bytes, keep)
        self._working: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of `key`; made, by one thread, where it is not kept."""
        kept = self._results.find(key)
        if kept is not None:
            return kept[0]
        with self._lock:
            working = self._working.setdefault(key, threading.Lock())
        with working:
            try:
                return self._results.get(key, make)
            finally:
                with self._lock:
                    self._working.pop(key, None)

    @property
    def num_bytes(self) -> int:
        """Estimated bytes of the kept results."""
        return self._results.num_bytes
