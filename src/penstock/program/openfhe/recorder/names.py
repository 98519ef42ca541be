"""Names of inputs and outputs: the script's own variables, read off its frame."""

from __future__ import annotations

import dis
import re
from collections import Counter
from types import FrameType

_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_]*$")
_WIDTH = 2
"""Bytes of one instruction of CPython's code."""
_FRAMES = 4
"""Functions of the script that are looked through for a name."""


class Names:
    """Each name once: x, x[1], x[2], …"""

    def __init__(self) -> None:
        self._given: Counter[str] = Counter()

    def free(self, name: str | None, otherwise: str) -> str:
        """A name that was not given before; `otherwise[0]`, `otherwise[1]`, … without one."""
        stem = name or otherwise
        number = self._given[stem]
        self._given[stem] += 1
        return stem if name and not number else f"{stem}[{number}]"


def stored_name(frame: FrameType | None) -> str | None:
    """The variable that takes the result of the call which `frame` is in, also by way of functions that return it."""
    for _ in range(_FRAMES):
        if frame is None:
            return None
        operation, argument = _next(frame)
        if operation != "RETURN_VALUE":
            names = {
                "STORE_NAME": frame.f_code.co_names,
                "STORE_GLOBAL": frame.f_code.co_names,
                "STORE_FAST": frame.f_code.co_varnames,
            }.get(operation, ())
            return _plain(names[argument]) if argument < len(names) else None
        frame = frame.f_back
    return None


def _next(frame: FrameType) -> tuple[str, int]:
    """The instruction after the one that `frame` is at."""
    code, at, argument = frame.f_code.co_code, frame.f_lasti + _WIDTH, 0
    while at + 1 < len(code):
        operation = dis.opname[code[at]]
        if operation == "EXTENDED_ARG":
            argument = (argument | code[at + 1]) << 8
        elif operation != "CACHE":
            return operation, argument | code[at + 1]
        at += _WIDTH
    return "", 0


def name_of(thing: object, frame: FrameType | None) -> str | None:
    """The variable that holds `thing`: the caller's, where a function has it as a parameter."""
    variable = None
    for _ in range(_FRAMES):
        if frame is None:
            break
        held = [name for name, local in list(frame.f_locals.items()) if local is thing and _plain(name)]
        if not held:
            break
        variable = held[0]
        if variable not in frame.f_code.co_varnames[: frame.f_code.co_argcount]:
            break
        frame = frame.f_back
    return variable


def _plain(name: str) -> str | None:
    return name if _NAME.match(name) else None
