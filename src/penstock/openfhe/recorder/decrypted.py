"""Numbers that a script got by decryption, marked, so that a package can refuse to hold them.

A mark goes through arithmetic of Python's numbers. It does not go through numpy's functions or a comparison: recording
twice (`--verify`) finds what depends on those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class DecryptedFloat(float):
    """A decrypted real number, or a number computed from one."""

    def __reduce__(self) -> tuple[Any, ...]:
        return float, (float(self),)


class DecryptedComplex(complex):
    """A decrypted complex number, or a number computed from one."""

    def __reduce__(self) -> tuple[Any, ...]:
        return complex, (complex(self),)


class DecryptedList(list[Any]):
    """The values of a decrypted plaintext."""

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


class DecryptedArray(np.ndarray[Any, Any]):
    """The values of a decrypted plaintext, and what numpy's elementwise functions made of them."""


_MARKED = (DecryptedFloat, DecryptedComplex, DecryptedList, DecryptedArray)
_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_UNARY = ("neg", "pos", "abs")


def _through(base: type, name: str) -> Callable[..., Any]:
    plain = getattr(base, name)

    def operation(*args: Any) -> Any:
        found = plain(*args)
        if found is NotImplemented and base is float and isinstance(args[-1], complex):
            found = getattr(complex, name)(complex(args[0]), args[-1])
        return marked(found)

    operation.__name__ = name
    return operation


for _kind, _base in ((DecryptedFloat, float), (DecryptedComplex, complex)):
    for _name in (
        *(f"__{side}{each}__" for each in _BINARY for side in ("", "r")),
        *(f"__{each}__" for each in _UNARY),
    ):
        if hasattr(_base, _name):
            setattr(_kind, _name, _through(_base, _name))


def marked(found: Any) -> Any:
    """The same number, list or array, with the mark; anything else as it is.

    >>> type(2 * marked(0.5) + 1), 2 * marked(0.5) + 1
    (<class 'penstock.openfhe.recorder.decrypted.DecryptedFloat'>, 2.0)
    """
    if isinstance(found, float):
        return DecryptedFloat(found)
    if isinstance(found, complex):
        return DecryptedComplex(found)
    if isinstance(found, list):
        return DecryptedList(map(marked, found))
    if isinstance(found, np.ndarray):
        return found.view(DecryptedArray)
    return found


def is_decrypted(argument: Any) -> bool:
    """Whether a number, or one in a sequence, carries the mark."""
    if isinstance(argument, _MARKED):
        return True
    if isinstance(argument, list | tuple):
        return any(issubclass(kind, _MARKED) for kind in set(map(type, argument)))
    return False
