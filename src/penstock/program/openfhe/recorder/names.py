"""Names of inputs and outputs: the script's own variables, read off its frame."""

from __future__ import annotations

import dis
import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from types import CodeType, FrameType

_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_]*$")
_STORES = ("STORE_NAME", "STORE_GLOBAL", "STORE_FAST")
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
        following = _following(frame.f_code).get(frame.f_lasti)
        if following is None or following.opname != "RETURN_VALUE":
            return _plain(following.argval) if following is not None and following.opname in _STORES else None
        frame = frame.f_back
    return None


@lru_cache(maxsize=64)
def _following(code: CodeType) -> dict[int, dis.Instruction]:
    """Place of each instruction -> the one after it."""
    instructions = [one for one in dis.get_instructions(code) if one.opname != "EXTENDED_ARG"]
    return {one.offset: following for one, following in pairwise(instructions)}


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
