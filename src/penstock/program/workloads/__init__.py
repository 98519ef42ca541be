"""The programs that penstock studies. A workload is a module with this contract:

`NAME`, `DESCRIPTION`, `SOURCE`; `SIZES` (name -> frozen size with a `params` field, the set it runs on);
`DEFAULT_SIZE`, `ACCELERATOR_SIZE`; `data(size, slots, seed, path=None)` real input, `blank(size, slots)` the same
shapes without values; `program(ev, data, size)` the computation, once, against `Evaluator`;
`check(clear, got, data, size)` the comparison of an encrypted run with the clear one.

A Python file of the user's own, `path/to/mine.py`, is a workload too (`penstock.program.workloads.own`), and so is a
program package, `path/to/model.pkg` (`penstock.program.workloads.packaged`). Other distributions add workloads by entry
points of the group `penstock.workloads`; penstock-studies has those of CryptOracle.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import asdict, is_dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from penstock.base import plugins
from penstock.base.system import remedy
from penstock.base.system.files import file_sha256
from penstock.base.types import Row
from penstock.errors import CapabilityMissing, UsageError, check_known
from penstock.program.workloads import own, packaged
from penstock.program.workloads.parts.check import Check as Check
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces import is_trace_file

_BESIDE = ("own", "packaged")
"""Modules of this folder that are not workloads. Parts of workloads are in `parts/`."""
_FOLDERS = ("", "ranking.")
"""This folder, and folders in it whose files are workloads too."""
_OF_STUDIES = "cryptoracle-"
"""The names of the workloads of penstock-studies begin so."""


class Size(Protocol):
    """The size of a workload; each has fields of its own."""

    @property
    def params(self) -> str:
        """The set that it runs on."""


@lru_cache(maxsize=1)
def _shipped() -> dict[str, str]:
    """Name -> module of penstock's own; a workload is imported when it is first asked for."""
    modules = {}
    for folder in _FOLDERS:
        places = [str(Path(path) / folder.rstrip(".")) for path in __path__]
        files = (file.name for file in pkgutil.iter_modules(places) if not file.ispkg and file.name not in _BESIDE)
        modules.update({file.replace("_", "-"): f"{__name__}.{folder}{file}" for file in files})
    return modules


@lru_cache(maxsize=1)
def _modules() -> dict[str, str]:
    """Name -> module of all that are installed."""
    added = {name: point.value for name, point in plugins.registered(plugins.WORKLOADS).items()}
    return dict(sorted({**added, **_shipped()}.items()))


class ProgramKind(str, Enum):
    """The kinds of programs that a user may name."""

    WORKLOAD = "workload"
    PROGRAM = "program"
    """A Python file."""
    PACKAGE = "package"
    TRACE = "trace"
    """A recorded trace: operations at one parameter set, without values."""


_OF_FILES = {ProgramKind.PROGRAM: own, ProgramKind.PACKAGE: packaged}
"""Kind of a user's file -> the module that loads it."""


def kind_of(name: str) -> ProgramKind:
    """What the name of a program stands for, everywhere in penstock.

    >>> [kind_of(name).value for name in ("resnet20", "score.py", "model.pkg", "runs/mine/trace.parquet")]
    ['workload', 'program', 'package', 'trace']
    """
    if own.is_own(name):
        return ProgramKind.PROGRAM
    if packaged.is_package(name):
        return ProgramKind.PACKAGE
    return ProgramKind.TRACE if is_trace_file(name) else ProgramKind.WORKLOAD


def valued(name: str, verb: str = "") -> str:
    """The name of a program with values: a workload, a Python file or a package.

    Raises: UsageError: a trace, which has operations and no values.
    """
    if kind_of(name) is ProgramKind.TRACE:
        asks = f"{verb}: " if verb else ""
        raise UsageError(
            f"{asks}{name} is a trace, made at one chain, of operations without values: name the workload, the .py "
            "file of your program, or its package"
        )
    return name


def names() -> list[str]:
    """Every workload: each file of this folder is one, and named after it; and those of other distributions."""
    return list(_modules())


def get(name: str) -> ModuleType:
    """The module of a workload, of a Python file, which is run for this, or of a package.

    Raises: UnknownName: no such workload; the message names the nearest. CapabilityMissing: it is one of
            penstock-studies, which is not installed. UsageError, PackageError: of a file, and of a trace, which cannot
            be run.
    """
    if (kind := kind_of(valued(name))) in _OF_FILES:
        return _OF_FILES[kind].load(name)
    if name in _shipped():  # entry points are read for other names alone
        return importlib.import_module(_shipped()[name])
    if name not in _modules() and name.startswith(_OF_STUDIES):
        raise CapabilityMissing(f"workload '{name}' is not installed here: {remedy.studies()}")
    check_known("workload", name, _modules())
    return importlib.import_module(_modules()[name])


def is_file(name: str) -> bool:
    """Whether the name of a workload is a file of the user's: a program or a package."""
    return kind_of(name) in _OF_FILES


def identity(name: str) -> dict[str, str] | None:
    """What tells one state of a user's file from another: path and SHA-256. `None` for a workload of penstock's."""
    if not is_file(name):
        return None
    if own.is_own(name):
        own.load(name)  # which says what is wrong with the file
    path = Path(name).resolve()
    return {"path": str(path), "sha256": file_sha256(path)}


def params_at(workload: ModuleType, params: CkksParameters) -> CkksParameters:
    """The set that a workload runs on where a user names `params`: a package keeps its number of slots.

    Raises: ParamsError: the set has not as many.
    """
    return workload.fitted(params) if hasattr(workload, "fitted") else params


def size_of(workload: ModuleType, size: str) -> Size:
    """A named size of a workload.

    Raises: UnknownName: no such size.
    """
    check_known(f"size of '{workload.NAME}'", size, workload.SIZES)
    return workload.SIZES[size]


def implied_size(workload: ModuleType, params: CkksParameters) -> str:
    """The size that a parameter set implies: the one that is on that set, or of several the one named `full`, where
    there is one; accelerators' sets stand for the size that the papers run."""
    if params.library == "accelerator":
        return str(workload.ACCELERATOR_SIZE)
    of_set = [name for name, size in workload.SIZES.items() if size.params == params.name]
    if len(of_set) > 1:
        of_set = [name for name in of_set if name == "full"]
    return of_set[0] if of_set else str(workload.DEFAULT_SIZE)


def describe(size: Any) -> Row:
    """The fields of a size."""
    return asdict(size) if is_dataclass(size) and not isinstance(size, type) else {"params": size.params}
