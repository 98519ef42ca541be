"""Keeps pandas out of the processes that have no use for it.

Arrow imports pandas, where it is installed, for the first array that a process makes: a quarter of a second.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class _Out:
    """A finder of modules that finds no pandas."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("no command of penstock uses pandas", name=name)


def leave_pandas_out() -> None:
    """Nothing imports it from now on, unless it is there already."""
    sys.meta_path.insert(0, _Out)


def _let_in() -> bool:
    """Whether it was left out."""
    if _Out not in sys.meta_path:
        return False
    sys.meta_path.remove(_Out)
    return True


@contextmanager
def pandas_left_out() -> Iterator[None]:
    """Nothing imports it in here."""
    leave_pandas_out()
    try:
        yield
    finally:
        _let_in()


@contextmanager
def pandas_let_in() -> Iterator[None]:
    """Somebody else's code may import it in here."""
    left_out = _let_in()
    try:
        yield
    finally:
        if left_out:
            leave_pandas_out()
