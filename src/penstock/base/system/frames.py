"""Keeps pandas out of the processes that have no use for it.

Arrow imports pandas, where it is installed, for the first array that a process makes: a quarter of a second. Programs
and policies of a user's own import it as ever: only what penstock and Arrow themselves ask for is not found.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_OURS = ("penstock", "pyarrow")


class _Out:
    """A finder of modules that finds no pandas for penstock and for Arrow."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas" and _asking() in _OURS:
            raise ModuleNotFoundError("no command of penstock uses pandas", name=name)


def _asking() -> str:
    """The package of the Python code that imports a module, or that has called the compiled code that does."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in ("importlib", "_frozen_importlib"):
            return package
        frame = frame.f_back
    return ""


def leave_pandas_out() -> None:
    """From now on Arrow does not import it, unless it is there already."""
    sys.meta_path.insert(0, _Out)


def _let_in() -> bool:
    """Whether it was left out."""
    if _Out not in sys.meta_path:
        return False
    sys.meta_path.remove(_Out)
    return True


@contextmanager
def pandas_left_out() -> Iterator[None]:
    """Arrow does not import it in here."""
    leave_pandas_out()
    try:
        yield
    finally:
        _let_in()


@contextmanager
def pandas_let_in() -> Iterator[None]:
    """Arrow may import it in here, for somebody else's code."""
    left_out = _let_in()
    try:
        yield
    finally:
        if left_out:
            leave_pandas_out()
