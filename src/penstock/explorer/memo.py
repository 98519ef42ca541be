"""Results that are kept: the last few of each sort, each computed once however many ask at the same time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """The `keep` results that were asked for last. Thread safe; an error is not kept.

    >>> memo = Memo[int](2)
    >>> memo.get("a", lambda: 1), memo.get("a", lambda: 2)
    (1, 1)
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._results: OrderedDict[Hashable, T] = OrderedDict()
        self._working: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of `key`; made, by one thread, where it is not kept."""
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
            working = self._working.setdefault(key, threading.Lock())
        with working:
            with self._lock:
                if key in self._results:
                    return self._results[key]
            try:
                made = make()
            except BaseException:
                with self._lock:
                    self._working.pop(key, None)
                raise
            with self._lock:
                self._results[key] = made
                self._working.pop(key, None)
                while len(self._results) > self._keep:
                    self._results.popitem(last=False)
            return made
