"""Importers of other distributions, found by their entry points: CryptOracle's is in penstock-studies."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from penstock.base import plugins
from penstock.base.system import remedy
from penstock.errors import CapabilityMissing
from penstock.lab.fit.measurements import Measurement
from penstock.lab.prediction.importers.rows import ImportLog

BUILDS = ("plain", "hexl", "without-hexl")
"""Builds of OpenFHE that CryptOracle's files are of: the one of all files, and the two of its comparison with Intel's
HEXL."""
CONFIGURATIONS = (".yaml", ".yml")
"""Files that name files of timings."""


class Importer(Protocol):
    """A module that reads one project's files of measurements; its name in `penstock.importers` is the project's."""

    def takes(self, line: str) -> bool:
        """Whether a file of text that begins with this line has the project's timings."""

    def load(self, path: Path, log: ImportLog, *, cpu: str | None, build: str) -> list[Measurement]:
        """The measurements of a file, of the files that a configuration names, or of all below a folder.

        Raises: BadTiming: a row or a file that cannot be used; UsageError: several CPUs, or no timings at all.
        """


def importers() -> list[Importer]:
    """Those that are installed."""
    return [place.load() for place in plugins.registered(plugins.IMPORTERS).values()]


_COLUMNS = {"n", "depth", "num_threads"}
"""Of every file of CryptOracle's."""


def importer_of(path: Path, line: str) -> Importer | None:
    """The importer of a file that begins with this line; `None`: none knows it.

    Raises: CapabilityMissing: it is CryptOracle's, and none is installed.
    """
    known = importers()
    if not known and set(line.split(",")) >= _COLUMNS:
        raise _missing(path)
    return next((reader for reader in known if reader.takes(line)), None)


def importer_of_folder(path: Path) -> Importer:
    """The importer of a folder of CSV files, or of a configuration.

    Raises: CapabilityMissing: none is installed.
    """
    for known in importers():
        return known
    raise _missing(path)


def _missing(path: Path) -> CapabilityMissing:
    return CapabilityMissing(f"{path}: what reads CryptOracle's files is not installed here: {remedy.studies()}")
