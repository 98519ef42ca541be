"""Names of inputs and outputs: the script's own variables, read off its frame."""

from __future__ import annotations

import dis
import re
from collections import Counter
from types import FrameType
from typing import Any

_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_]*$")
_WIDTH = 2
"""Bytes of one instruction of CPython's code."""


class InputNames:
    """Each name once: x, x[1], x[2], …"""

    def __init__(self) -> None:
        self._given: Counter[str] = Counter()

    def free(self, name: str | None, otherwise: str) -> str:
        """A name that was not given before; `otherwise[0]`, `otherwise[1]`, … without one."""
        stem = name or otherwise
        number = self._given[stem]
        self._given[stem] += 1
        return stem if name and not number else f"{stem}[{number}]"


def stored_name(frame: FrameType) -> str | None:
    """The variable that takes the result of the call which `frame` is in, where the next instruction stores it."""
    code, at, argument = frame.f_code.co_code, frame.f_lasti + _WIDTH, 0
    while at + 1 < len(code):
        name = dis.opname[code[at]]
        argument |= code[at + 1]
        if name == "EXTENDED_ARG":
            argument <<= 8
        elif name != "CACHE":
            break
        else:
            argument = 0
        at += _WIDTH
    else:
        return None
    names = {
        "STORE_NAME": frame.f_code.co_names,
        "STORE_GLOBAL": frame.f_code.co_names,
        "STORE_FAST": frame.f_code.co_varnames,
    }.get(name, ())
    return _plain(names[argument]) if argument < len(names) else None


def name_of(thing: Any, frame: FrameType) -> str | None:
    """The variable of `frame` that holds `thing`."""
    return next(
        (found for name, held in list(frame.f_locals.items()) if held is thing and (found := _plain(name))), None
    )


def _plain(name: str) -> str | None:
    return name if _NAME.match(name) else None
