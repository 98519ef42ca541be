"""The registry of readings: one module and one line each. Contract tests and the command line use this list."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping

from penstock.errors import UnknownName
from penstock.program.running.reading import Reading

DEFAULT_READING = "native"
"""Of an encrypted run: it has OpenFHE's words in a fraction of the time, with any client library, on every CPython."""
_MODULES = {
    "clear": "penstock.program.running.clear",
    "trace": "penstock.program.running.trace",
    "counting": "penstock.program.running.counting",
    "noisy": "penstock.program.running.noisy",
    "openfhe": "penstock.program.running.openfhe",
    "native": "penstock.runtime.native.reading",
}
"""Reading -> the module whose `READING` it is."""


class Readings(Mapping[str, Reading]):
    """Readings by name, in the order of the list. A reading's module is imported when it is asked for."""

    def __getitem__(self, name: str) -> Reading:
        """Raises: UnknownName: no such reading; the message names the nearest."""
        if name not in _MODULES:
            raise UnknownName("reading", name, _MODULES)
        reading: Reading = importlib.import_module(_MODULES[name]).READING
        return reading

    def __contains__(self, name: object) -> bool:
        return name in _MODULES

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)

    def with_option(self, option: str) -> list[str]:
        """The readings that take an option."""
        return [name for name, reading in self.items() if option in reading.options]


READINGS = Readings()
