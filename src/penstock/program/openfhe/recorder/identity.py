"""Which trace object a ciphertext of the script stands for, without keeping the ciphertext alive."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from penstock.program.evaluator.scaling import ScaleState


@dataclass(eq=False, slots=True)
class Known:
    """What the recorder knows of one ciphertext, digit decomposition or plaintext of the script."""

    recording: Any
    """The recording that its context belongs to; object ids are that recording's."""
    object_id: int
    state: ScaleState
    polynomials: int = 2
    value: int | None = None
    """Its number in the package of its owner."""
    owner: Any = None
    """The packaging of the key pair that encrypted it, where one is recorded."""


T = TypeVar("T")


class _Reference(weakref.ref[object]):
    __slots__ = ("key",)
    key: int


class Identities(Generic[T]):
    """Maps an object of the script to its record. An entry goes when its object goes, before its address is used
    again.

    A call that changes a ciphertext in place gives the same object another entry.
    """

    def __init__(self) -> None:
        self._entries: dict[int, tuple[_Reference, T]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, thing: object) -> T | None:
        entry = self._entries.get(id(thing))
        return entry[1] if entry is not None else None

    def set(self, thing: object, known: T) -> None:
        """Raises: TypeError: `thing` cannot be referenced weakly."""
        key = id(thing)
        entry = self._entries.get(key)
        if entry is not None:
            self._entries[key] = (entry[0], known)
            return
        reference = _Reference(thing, self._dropped)
        reference.key = key
        self._entries[key] = (reference, known)

    def forget(self, thing: object) -> None:
        """The next use of `thing` meets it as new."""
        self._entries.pop(id(thing), None)

    def _dropped(self, reference: _Reference) -> None:
        entry = self._entries.get(reference.key)
        if entry is not None and entry[0] is reference:
            del self._entries[reference.key]
