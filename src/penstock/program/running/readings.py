"""The registry of readings: one module and one line each. Contract tests and the command line use this list."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping

from penstock.errors import UnknownName
from penstock.program.running.reading import Reading

DEFAULT_READING = "native"
"""Of an encrypted run: it has OpenFHE's words in a fraction of the time, with any client library, on every CPython."""


class Readings(Mapping[str, Reading]):
    """Readings by name, in the order of registration. A reading's module is imported when it is asked for."""

    def __init__(self) -> None:
        self._modules: dict[str, str] = {}

    def register(self, name: str, module: str) -> None:
        """Add the `READING` of a module.

        Raises: ValueError: the name is taken.
        """
        if name in self._modules:
            raise ValueError(f"reading '{name}' is registered already, by {self._modules[name]}")
        self._modules[name] = module

    def __getitem__(self, name: str) -> Reading:
        """Raises: UnknownName: no such reading; the message names the nearest."""
        if name not in self._modules:
            raise UnknownName("reading", name, self._modules)
        reading: Reading = importlib.import_module(self._modules[name]).READING
        return reading

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def with_option(self, option: str) -> list[str]:
        """The readings that take an option."""
        return [name for name, reading in self.items() if option in reading.options]


READINGS = Readings()
READINGS.register("clear", "penstock.program.running.clear")
READINGS.register("trace", "penstock.program.running.trace")
READINGS.register("counting", "penstock.program.running.counting")
READINGS.register("noisy", "penstock.program.running.noisy")
READINGS.register("openfhe", "penstock.program.running.openfhe")
READINGS.register("native", "penstock.runtime.native.reading")
