"""The programs that penstock studies. A workload is a module with this contract:

`NAME`, `DESCRIPTION`, `SOURCE`; `SIZES` (name -> frozen size with a `params` field, the set it runs on);
`DEFAULT_SIZE`, `ACCELERATOR_SIZE`; `data(size, slots, seed, path=None)` real input, `blank(size, slots)` the same
shapes without values; `program(ev, data, size)` the computation, once, against `Evaluator`;
`check(clear, got, data, size)` the comparison of an encrypted run with the clear one.

A Python file of the user's own, `path/to/mine.py`, is a workload too (`penstock.workloads.own`).
"""

from __future__ import annotations

import importlib
from dataclasses import asdict, is_dataclass
from types import ModuleType
from typing import Any

from penstock.errors import UnknownName
from penstock.params.ckks import CkksParameters
from penstock.workloads import own
from penstock.workloads.check import Check as Check

_MODULES: dict[str, str] = {}


def register(name: str, module: str) -> None:
    """Add a workload; it is imported when it is first asked for.

    Raises: ValueError: the name is taken.
    """
    if name in _MODULES:
        raise ValueError(f"workload '{name}' is registered already, by {_MODULES[name]}")
    _MODULES[name] = module


def names() -> list[str]:
    """Every workload, in the order of registration."""
    return list(_MODULES)


def get(name: str) -> ModuleType:
    """The module of a workload, or of a Python file, which is run for this.

    Raises: UnknownName: no such workload; the message names the nearest. UsageError: of a file.
    """
    if own.is_own(name):
        return own.load(name)
    if name not in _MODULES:
        raise UnknownName("workload", name, _MODULES)
    return importlib.import_module(_MODULES[name])


def size_of(workload: ModuleType, size: str) -> Any:
    """A named size of a workload.

    Raises: UnknownName: no such size.
    """
    if size not in workload.SIZES:
        raise UnknownName(f"size of '{workload.NAME}'", size, workload.SIZES)
    return workload.SIZES[size]


def implied_size(workload: ModuleType, params: CkksParameters) -> str:
    """The size that a parameter set implies: the one that is on that set, where there is one; accelerators' sets stand
    for the size that the papers run."""
    if params.library == "accelerator":
        return str(workload.ACCELERATOR_SIZE)
    of_set = [name for name, size in workload.SIZES.items() if size.params == params.name]
    return of_set[0] if len(of_set) == 1 else str(workload.DEFAULT_SIZE)


def describe(size: Any) -> dict[str, Any]:
    """The fields of a size."""
    return asdict(size) if is_dataclass(size) and not isinstance(size, type) else {"params": size.params}


register("logistic-regression", "penstock.workloads.logistic_regression")
register("matrix-multiplication", "penstock.workloads.matrix_multiplication")
register("inner-product", "penstock.workloads.inner_product")
register("resnet20", "penstock.workloads.resnet20")
register("resnet20-multiplexed", "penstock.workloads.resnet20_multiplexed")
register("cnn", "penstock.workloads.cnn")
register("logistic-function", "penstock.workloads.logistic_function")
register("sign-evaluation", "penstock.workloads.sign_evaluation")
register("chi-square", "penstock.workloads.chi_square")
register("sorting", "penstock.workloads.sorting")
register("sorting-three-way", "penstock.workloads.sorting_three_way")
register("sorting-k-way", "penstock.workloads.sorting_k_way")
register("bootstrapping", "penstock.workloads.bootstrapping")
register("pir", "penstock.workloads.pir")
register("ssc", "penstock.workloads.ssc")
register("string-match", "penstock.workloads.string_match")
register("filter-aggregate", "penstock.workloads.filter_aggregate")
register("hdc-classify", "penstock.workloads.hdc_classify")
