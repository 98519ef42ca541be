"""Results kept for later requests: the most recently used ones, up to a number of bytes."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


T = TypeVar("T")
Args = ParamSpec("Args")
MOST_ENTRIES = 65_536
"""Results that are kept at most, however small they are."""
ENTRY_BYTES = 400
"""Bytes that an entry takes besides its key and its result."""
_OBJECT_BYTES = 56
"""Bytes of a Python object that holds others, without them."""
_NUMBER_BYTES = 32
_NUMBERS = (int, float)
_SHARED = (bool, type, FunctionType)


class Kept(Generic[T]):
    """The results that were asked for last. Thread safe; an error is not kept.

    Args:   most_bytes: what all of them may take; a result that is larger alone is not kept. most: how many.
    >>> kept = Kept[int](10**6)
    >>> kept.get("a", lambda: 1), kept.get("a", lambda: 2)
    (1, 1)
    """

    def __init__(self, most_bytes: int, most: int = MOST_ENTRIES) -> None:
        self.most_bytes, self.most = most_bytes, most
        self.num_bytes = 0
        """Estimated bytes of the kept results."""
        self._results: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        # In another process nothing is kept yet.
        return type(self), (self.most_bytes, self.most)

    def __len__(self) -> int:
        return len(self._results)

    def find(self, key: Hashable) -> tuple[T] | None:
        """The result of `key` in a tuple, where it is kept."""
        with self._lock:
            entry = self._results.get(key)
            if entry is None:
                return None
            self._results.move_to_end(key)
            return (entry[0],)

    def put(self, key: Hashable, result: T) -> None:
        """Keep a result, in the place of the oldest ones."""
        size = ENTRY_BYTES + size_of((key, result))
        with self._lock:
            self._drop(key)
            if size > self.most_bytes:
                return
            self._results[key] = result, size
            self.num_bytes += size
            while self.num_bytes > self.most_bytes or len(self._results) > self.most:
                self._drop(next(iter(self._results)))

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of `key`; made where it is not kept."""
        kept = self.find(key)
        if kept is not None:
            return kept[0]
        made = make()
        self.put(key, made)
        return made

    def clear(self) -> None:
        """Drop all results."""
        with self._lock:
            self._results.clear()
            self.num_bytes = 0

    def _drop(self, key: Hashable) -> None:
        entry = self._results.pop(key, None)
        self.num_bytes -= 0 if entry is None else entry[1]


class Remembering(Generic[Args, T]):
    """A function that keeps its results. Build it with `kept`."""

    def __init__(self, function: Callable[Args, T], most_bytes: int) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self.results = Kept[T](most_bytes)

    def __call__(self, *args: Args.args, **kwargs: Args.kwargs) -> T:
        key = (args, *sorted(kwargs.items())) if kwargs else args
        return self.results.get(key, lambda: self._function(*args, **kwargs))

    def cache_clear(self) -> None:
        """As `functools.lru_cache` has it."""
        self.results.clear()


def kept(most_bytes: int) -> Callable[[Callable[Args, T]], Remembering[Args, T]]:
    """Let a function keep its results, as `functools.lru_cache` does, up to so many bytes."""
    return lambda function: Remembering(function, most_bytes)


def size_of(value: object) -> int:
    """Bytes that a value takes in memory, estimated: arrays and tables by their buffers, others by their parts.

    An object that occurs twice counts once.
    >>> import numpy as np
    >>> size_of([np.zeros(1000)]) // 1000
    8
    """
    total, waiting, seen = 0, [value], set[int]()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        kind = part.__class__
        if kind in _NUMBERS:  # as `_own_bytes`, of the kinds that most parts have
            total += _NUMBER_BYTES
        elif isinstance(part, str):
            total += _OBJECT_BYTES + len(part)
        elif isinstance(part, tuple):
            total += _OBJECT_BYTES + 8 * len(part)
            waiting += part
        else:
            size, inside = _own_bytes(part)
            total += size
            waiting += inside
    return total


def _own_bytes(value: object) -> tuple[int, Iterator[object]]:
    """Bytes of a value without its contents, and its contents."""
    if value is None or isinstance(value, _SHARED):
        return 0, iter(())
    if isinstance(value, int | float):
        return _NUMBER_BYTES, iter(())
    if isinstance(value, str | bytes):
        return _OBJECT_BYTES + len(value), iter(())
    num_bytes = getattr(value, "nbytes", None)
    if isinstance(num_bytes, int):  # an array or a table
        return _OBJECT_BYTES + num_bytes, iter(())
    if isinstance(value, Mapping):
        return _OBJECT_BYTES + 100 * len(value), (part for pair in value.items() for part in pair)
    if isinstance(value, list | tuple | set | frozenset):
        return _OBJECT_BYTES + 8 * len(value), iter(value)
    if isinstance(value, Kept):
        return value.num_bytes, iter(())
    if is_dataclass(value):
        return _OBJECT_BYTES, (getattr(value, name) for name in _fields_of(value.__class__))
    return _OBJECT_BYTES, iter(getattr(value, "__dict__", {}).values())


@functools.cache
def _fields_of(cls: type[DataclassInstance]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls))
