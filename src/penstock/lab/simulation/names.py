"""Names in a question, as a person writes them: classes of data, time modes, the machine's own memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from penstock.base.units import parse_bytes
from penstock.errors import MachineError, UsageError, check_known
from penstock.scheme.machines.schema import Machine
from penstock.scheme.play.hierarchy import MODES, Mode

CLASSES = {"keys": "key", "plaintexts": "plaintext", "ciphertexts": "ciphertext", "database": "database"}
"""Class of data as a person names it -> as a trace does."""
ON_CHIP = "on-chip"
"""A machine's own memory, where a size or a tier may stand."""


def one_of(what: str, name: str, known: Iterable[str]) -> str:
    """`name`, which is one of `known`.

    Raises: UnknownName: it is not, with the nearest.
    """
    known = list(known)
    check_known(what, name, known)
    return name


def class_named(text: str, what: str = "class") -> str:
    """`keys` as a trace says it, `key`.

    Raises: UnknownName: with the nearest name.
    """
    return CLASSES[one_of(what, text, CLASSES)]


def classes_named(texts: Iterable[str], what: str = "classes") -> tuple[str, ...]:
    """Classes as a trace says them, each once; a text may name several, separated by commas.

    Raises: UsageError: there are none; UnknownName.
    >>> classes_named(["keys,ciphertexts", "keys"])
    ('key', 'ciphertext')
    """
    texts = list(texts)
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError(f"{what} '{','.join(texts)}': name at least one of {', '.join(CLASSES)}")
    return tuple(dict.fromkeys(class_named(name) for name in names))


def modes_named(texts: Iterable[str]) -> tuple[Mode, ...]:
    """Time modes, each once.

    Raises: UnknownName.
    """
    return tuple(cast(Mode, one_of("time mode", text, MODES)) for text in dict.fromkeys(texts))


def cache_bytes(text: str, machine: Machine, what: str = "cache") -> int:
    """Bytes of a cache, as a size or as the machine's own memory.

    Raises: MachineError: the machine states no local memory; UnitError.
    """
    if text != ON_CHIP:
        return parse_bytes(text, what)
    if not machine.on_chip_bytes:
        raise MachineError(
            f"{what} {ON_CHIP}: machine '{machine.name}' states no on-chip memory: give the cache a size, '512 MB'"
        )
    return machine.on_chip_bytes
