"""Functions of Python and numpy that would lose a decrypted number's mark, replaced while a package is recorded."""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable

import numpy as np

from penstock.program.openfhe.recorder.decrypted import followed, is_decrypted, marked, plain
from penstock.program.openfhe.recorder.observed import OBSERVED
from penstock.program.openfhe.types import Argument, Method

_ARRAYS = ("array", "asarray", "ascontiguousarray", "asfortranarray", "full", "lexsort")
_CHOICES = ("min", "max", "sorted")


def replace_functions(replace: Callable[[object, str, Method], None]) -> None:
    """Replace them.

    Args:   replace: takes a module, the name of a function and another function.
    """
    for name in _ARRAYS:
        replace(np, name, _following(getattr(np, name)))
    for name in dir(math):
        if callable(getattr(math, name)) and not name.startswith("_"):
            replace(math, name, _following(getattr(math, name)))
    for name in _CHOICES:
        replace(builtins, name, _choosing(getattr(builtins, name)))


def _following(original: Method) -> Method:
    """The function of plain values; its result is marked if an argument is."""

    @functools.wraps(original)
    def function(*args: Argument, **kwargs: Argument) -> object:
        if not any(map(is_decrypted, args)):
            return original(*args, **kwargs)
        with OBSERVED.paused():
            computed = original(*plain(args), **kwargs)
        return followed(computed)

    return function


def _choosing(original: Method) -> Method:
    """Return a function that picks or orders numbers. They keep their marks, so its comparisons do not count as looks.

    With a `key` the result may be unmarked, so the comparisons count.
    """

    @functools.wraps(original)
    def function(*args: Argument, **kwargs: Argument) -> object:
        if "key" in kwargs or not args:
            return original(*args, **kwargs)
        if len(args) == 1 and not isinstance(args[0], list | tuple):
            args = (list(args[0]),)
        given = args if len(args) > 1 else args[0]
        if not is_decrypted(given) or not all(isinstance(number, float | int) for number in given):
            return original(*args, **kwargs)
        with OBSERVED.paused():
            chosen = original(*args, **kwargs)
        return marked(chosen) if not isinstance(chosen, int) else followed(chosen)

    return function
