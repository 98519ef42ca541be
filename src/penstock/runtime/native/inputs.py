"""Encrypted inputs in files: in memory are those in use, and as many more as a byte budget holds.

A program holds its inputs for as long as it may use them, so that they are the memory that a server has the longest.
An input never changes: it is written once, given up without writing, and read again.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penstock import _engine
from penstock.base.system.files import os_errors
from penstock.errors import UsageError


@dataclass(frozen=True, slots=True)
class Shelved:
    """Stands for an input where a ciphertext of the engine would be."""

    number: int


@dataclass(slots=True)
class InputTraffic:
    """What happened so far."""

    input_bytes: int = 0
    """Of all inputs, as OpenFHE wrote them."""
    read_bytes: int = 0
    read_s: float = 0.0
    """Seconds of reading and checking them."""
    peak_resident_bytes: int = 0
    """Inputs in memory at most, the one in use included."""


class InputShelf:
    """The inputs of one run.

    Args:   folder: exists, and is the run's alone; budget_bytes: of inputs in memory, by age of their last use; the one
            in use is there whatever the budget. take: the engine's import, which checks every word.
    """

    def __init__(self, folder: Path, budget_bytes: int, take: Callable[[bytes], _engine.CkksCiphertext]) -> None:
        if budget_bytes < 0:
            raise UsageError(f"a budget of {budget_bytes} bytes for inputs: it is not negative")
        self.traffic = InputTraffic()
        self._folder, self._budget_bytes, self._take = folder, budget_bytes, take
        self._resident: OrderedDict[int, tuple[_engine.CkksCiphertext, int]] = OrderedDict()
        self._resident_bytes = 0
        self._count = 0

    def put(self, content: bytes) -> Shelved:
        """Keep an input. Raises: FileError: the disk is full."""
        number, self._count = self._count, self._count + 1
        path = self._path(number)
        with os_errors(path):
            path.write_bytes(content)
        self.traffic.input_bytes += len(content)
        return Shelved(number)

    def get(self, shelved: Shelved) -> _engine.CkksCiphertext:
        """The ciphertext of the engine. Raises: FileError; ValueError: the file was damaged."""
        number = shelved.number
        if number in self._resident:
            self._resident.move_to_end(number)
            return self._resident[number][0]
        started = time.perf_counter()
        path = self._path(number)
        with os_errors(path, "read"):
            content = path.read_bytes()
        size = len(content)
        self._make_room(self._budget_bytes - size)
        ciphertext = self._take(content)
        del content
        self._resident[number] = ciphertext, size
        self._resident_bytes += size
        traffic = self.traffic
        traffic.read_bytes += size
        traffic.read_s += time.perf_counter() - started
        traffic.peak_resident_bytes = max(traffic.peak_resident_bytes, self._resident_bytes)
        return ciphertext

    def end_use(self) -> None:
        """End the operation: inputs beyond the budget leave memory."""
        self._make_room(self._budget_bytes)

    def _make_room(self, most_bytes: int) -> None:
        while self._resident and self._resident_bytes > most_bytes:
            self._resident_bytes -= self._resident.popitem(last=False)[1][1]

    def _path(self, number: int) -> Path:
        return self._folder / f"input-{number}"
