"""Looks of a script at decrypted values: comparisons, conversions to integers, copies without a mark."""

from __future__ import annotations

import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

_LIBRARIES = tuple(
    {f"{Path(sysconfig.get_path(name))}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    | {f"{Path(__file__).parent}/"}
)


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at decrypted values: its line in the script, and its effect in words."""

    file: str
    line: int
    did: str

    def __str__(self) -> str:
        return f"line {self.line} of {Path(self.file).name} {self.did}"


class Observations:
    """The first look at decrypted values since recording began. One serves the process, as the tap does."""

    def __init__(self) -> None:
        self.first: Observation | None = None
        self.decrypted = False
        """Whether anything was decrypted."""
        self._local = threading.local()

    def clear(self) -> None:
        """Forget it: recording begins anew."""
        self.first, self.decrypted = None, False

    def note(self, did: str) -> None:
        """Keep the line of the script that runs now, unless there is an earlier one."""
        if self.first is None and not getattr(self._local, "depth", 0):
            frame = _script_frame(sys._getframe(1))
            self.first = Observation(frame.f_code.co_filename, frame.f_lineno, did)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Looks in this block, in this thread, are penstock's own."""
        self._local.depth = getattr(self._local, "depth", 0) + 1
        try:
            yield
        finally:
            self._local.depth -= 1


def _script_frame(frame: FrameType) -> FrameType:
    """The nearest frame that no library runs, or else the nearest one outside of this folder."""
    caller: FrameType | None = frame
    while caller is not None:
        if not caller.f_code.co_filename.startswith((*_LIBRARIES, "<")):
            return caller
        caller = caller.f_back
    return frame


OBSERVED = Observations()
"""The looks of the process's script."""
