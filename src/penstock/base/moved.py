"""Where modules of version 0.1 went: an import of an old path says the new one."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import NoReturn

_WINGS = {
    "base": "runs system units version",
    "scheme": "machines operations params traces unpriced work",
    "program": "database openfhe package running workloads",
    "runtime": "client keystore native scanning similarity",
    "lab": "advice fit measure prediction reports rewriting simulation sweeps",
    "front": "cli explorer hall",
}
"""Wing -> the rooms that went into it as they were."""
_APART = {
    "database.disk": "runtime.scanning.disk",
    "database.store": "runtime.scanning.store",
    "database.stream": "runtime.scanning.stream",
    "machines.instorage": "lab.instorage.machine",
    "machines.instorage_power": "lab.instorage.machine_power",
    "machines.instorage_scaling": "lab.instorage.machine_scaling",
    "machines.instorage_spec": "lab.instorage.machine_spec",
    "native.arena": "runtime.native.compiled",
    "native.bench": "lab.measure.key_bench",
    "native.ends": "runtime.native.client",
    "native.openfhe_encapsulation": "runtime.native.openfhe_client",
    "native.reads": "runtime.native.budgets",
    "program": "program.evaluator",
    "program.evaluator": "program.evaluator.protocol",
    "running.analysis": "lab.analysis",
    "simulation.accesses": "scheme.play.accesses",
    "simulation.caches": "scheme.play.caches",
    "simulation.drive": "lab.instorage.flash",
    "simulation.engine": "scheme.play.engine",
    "simulation.inside.kernels": "scheme.play.kernels",
    "simulation.inside.schedule": "scheme.play.schedule",
    "simulation.instorage": "lab.instorage",
    "simulation.memory.hierarchy": "scheme.play.hierarchy",
    "simulation.own": "scheme.play.own",
    "simulation.price": "scheme.play.price",
    "simulation.rows": "scheme.play.rows",
    "studies.fheins.space": "lab.instorage.design_space",
    "system.arrow_stream": "base.system.tables.arrow_stream",
    "system.parquet": "base.system.tables.parquet",
    "system.parquet_seal": "base.system.tables.seal",
    "system.parquet_trial": "base.system.tables.trial",
}
"""Old path -> new path, below `penstock`, of what went elsewhere than its room."""
_PROGRAMS = "chi_square cifar10 logistic_function logistic_regression matrix_multiplication resnet20 sign_evaluation"
_STUDIES = {
    "studies": "penstock_studies",
    "machines.client_place": "penstock_studies.io_study.client_place",
    "simulation.cluster.law": "penstock_studies.io_study.law",
    "prediction.importers.applications": "penstock_studies.importers.applications",
    "prediction.importers.cryptoracle": "penstock_studies.importers",
    "workloads.parts.cryptoracle": "penstock_studies.workloads.algorithms",
    "workloads.parts.low_memory_resnet": "penstock_studies.workloads.low_memory_resnet",
    **{f"workloads.cryptoracle_{name}": f"penstock_studies.workloads.{name}" for name in _PROGRAMS.split()},
}
"""Old path below `penstock` -> new path, of what went to penstock-studies."""
_NEW: Mapping[str, str] = {room: f"{wing}.{room}" for wing, rooms in _WINGS.items() for room in rooms.split()} | _APART


def new_path(name: str) -> str | None:
    """The module that has what the module `name` of version 0.1 had.

    >>> new_path("penstock.simulation.own"), new_path("penstock.client"), new_path("penstock.scheme.params")
    ('penstock.scheme.play.own', 'penstock.runtime.client', None)
    >>> new_path("penstock.studies.fheins.data"), new_path("penstock.workloads.cryptoracle_cifar10")
    ('penstock_studies.fheins.data', 'penstock_studies.workloads.cifar10')
    """
    package, _, rest = name.partition(".")
    if package != "penstock":
        return None
    parts = rest.split(".")
    for length in range(len(parts), 0, -1):
        old = ".".join(parts[:length])
        if old in _NEW:
            return ".".join([package, _NEW[old], *parts[length:]])
        if old in _STUDIES:
            return ".".join([_STUDIES[old], *parts[length:]])
    return None


class Moved(MetaPathFinder):
    """The last finder of modules: what nobody else finds may have gone elsewhere."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        """An empty package for an old room, which says at use where its names went.

        Raises: ModuleNotFoundError: `fullname` is an old module.
        """
        if new_path(fullname) is None:
            return None
        room = fullname.removeprefix("penstock.") + "."
        if "." in room[:-1] and not any(old.startswith(room) for old in (*_APART, *_STUDIES)):
            raise _gone(fullname)
        return ModuleSpec(fullname, _Gone(), is_package=True)


class _Gone(Loader):
    """Loads an old room as a package without names."""

    def exec_module(self, module: ModuleType) -> None:
        def get(name: str) -> NoReturn:
            raise AttributeError(name) if name.startswith("__") else _gone(f"{module.__name__}.{name}", module.__name__)

        vars(module)["__getattr__"] = get


def _gone(name: str, known_as: str = "") -> ModuleNotFoundError:
    old = name if name.removeprefix("penstock.") in {**_NEW, **_STUDIES} else known_as or name
    place = new_path(old)
    whole = place
    while place and not _is_there(place):  # joined with another: its room is the nearest
        place = place.rpartition(".")[0]
    text = f"it is '{place}' since penstock 0.2" if place == whole else f"since penstock 0.2 '{place}' has what it had"
    return ModuleNotFoundError(f"No module named '{old}': {text}", name=old)


def _is_there(name: str) -> bool:
    if not name.startswith("penstock."):  # of another distribution, which may not be installed
        return True
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False
