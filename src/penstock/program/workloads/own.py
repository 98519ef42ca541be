"""Programs of the user's own: a Python file stands wherever the name of a workload does.

A file has the parts of a workload (see `penstock.program.workloads`), of which only `program` and `data` are needed:

`program(ev, data, size)` the computation, once, against `penstock.program.evaluator.protocol.Evaluator`; its result is
an array;
`data(size, slots, seed)` its input, which may take a fourth argument `path`, the user's `--data`;
`PARAMS` a parameter set, a name or a file beside this one, or `SIZES`, name -> anything hashable with a field `params`;
`blank(size, slots)` input of the same shapes without values, where `data` is slow; `check(clear, got, data, size)` or
`TOLERANCE`, what the encrypted result may differ by; `DESCRIPTION`, `DEFAULT_SIZE`, `ACCELERATOR_SIZE`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Mapping
from copy import copy
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from penstock.base.system import own_file
from penstock.base.system.files import readable
from penstock.errors import UsageError
from penstock.program.evaluator.protocol import Values
from penstock.program.workloads.parts.check import Check

SUFFIX = own_file.SUFFIX
TOLERANCE = 1e-3
"""What an encrypted result may differ by where the file does not say."""
_ARGUMENTS = {
    "program": "ev, data, size", "data": "size, slots, seed", "blank": "size, slots", "check": "clear, got, data, size",
}  # fmt: skip
"""Function of a file -> arguments that it is called with."""
_LOADED: dict[Path, tuple[ModuleType, dict[Path, str | None]]] = {}
"""File -> its workload, and the SHA-256 of each file that it is of: itself, and the modules next to it."""


@dataclass(frozen=True, slots=True)
class OneSize:
    """The size of a program that has one: its parameter set."""

    params: str


def is_own(name: str) -> bool:
    """Whether the name of a workload is a file of the user's."""
    return own_file.is_own(name)


def load(name: str) -> ModuleType:
    """The workload in a Python file. It is read again once the file, or a module next to it that it imports, changes.

    Its `NAME` is the file's, with the suffix: no workload of penstock's has such a name.
    Raises: UsageError: no such file, no Python, or a part that a workload needs is missing.
    """
    path = Path(name).resolve()
    with own_file.one_at_a_time():
        workload, state = _LOADED.get(path, (None, {}))
        now = {path: own_file.digest_of(path), **own_file.beside(path)}
        if workload is None or any(now.get(file) != digest for file, digest in state.items()):
            workload = _completed(_executed(path, name), path, name)
            state = {path: now[path]}
        state = {**own_file.beside(path), **state}  # a program may import more while it runs
        _LOADED[path] = workload, state
        return workload


def _executed(path: Path, name: str) -> ModuleType:
    missing = "the name of a workload ('penstock workloads' lists them) has no '.py'"
    tree = own_file.tree_of(path, name, missing)
    bound = own_file.bound_names(tree)
    # Before anything of the file is run: it may be a script. `import *` may bring `data`; `program` must be in the
    # file.
    _check_parts({*bound, "data"} if "*" in bound else bound, name)
    return own_file.executed(path, name)


def _check_parts(bound: Container[str], name: str) -> None:
    if missing := [part for part in ("program", "data") if part not in bound]:
        raise UsageError(
            f"{name}: a workload defines program(ev, data, size) and data(size, slots, seed); it lacks "
            f"{' and '.join(missing)}. A script that calls OpenFHE itself is recorded: penstock record {name}"
        )


def _completed(module: ModuleType, path: Path, name: str) -> ModuleType:
    """The module with every part of the contract, each checked."""
    own: Any = module
    _check_parts(vars(own), name)
    own.NAME = readable(path.name)
    own.DESCRIPTION = str(getattr(own, "DESCRIPTION", _first_line(own.__doc__)))
    own.SOURCE = str(path)
    own.SIZES = _sizes(own, name)
    own.DEFAULT_SIZE = getattr(own, "DEFAULT_SIZE", next(iter(own.SIZES)))
    own.ACCELERATOR_SIZE = getattr(own, "ACCELERATOR_SIZE", own.DEFAULT_SIZE)
    for part in ("DEFAULT_SIZE", "ACCELERATOR_SIZE"):
        if getattr(own, part) not in own.SIZES:
            raise UsageError(f"{name}: {part} {getattr(own, part)!r} is none of SIZES: {', '.join(own.SIZES)}")
    for function in _ARGUMENTS:
        if hasattr(own, function):
            _check_arguments(getattr(own, function), function, name)
    data = own_file.watched(own.data, path, name, "data")
    takes_path = own_file.takes(own.data, 4)

    def input_of(size: object, slots: int, seed: int, path: Path | None = None) -> object:
        if path is not None and not takes_path:
            raise UsageError(f"{name} takes no --data: its data(size, slots, seed) has no fourth argument, path")
        return data(size, slots, seed, path) if takes_path else data(size, slots, seed)

    def first_input(size: object, slots: int) -> object:
        return input_of(size, slots, 0)

    own.data = input_of
    own.program = own_file.watched(own.program, path, name, "program")
    own.blank = own_file.watched(own.blank, path, name, "blank") if hasattr(own, "blank") else first_input
    own.check = (
        _checked(own_file.watched(own.check, path, name, "check"), name)
        if hasattr(own, "check")
        else _comparison(own, name)
    )
    return module


def _first_line(text: str | None) -> str:
    return next((line.strip() for line in (text or "").splitlines() if line.strip()), "a program of your own")


def _beside(size: Any, own: ModuleType) -> object:
    """A size whose parameter set is a file: that file, in the program's folder."""
    params = getattr(size, "params", None)
    if not isinstance(params, str) or not params.endswith(".toml"):
        return size
    file = str(Path(own.SOURCE).parent / params)
    if is_dataclass(size) and not isinstance(size, type):
        return replace(size, params=file)
    size = copy(size)
    size.params = file
    return size


def _sizes(own: ModuleType, name: str) -> dict[str, object]:
    if hasattr(own, "SIZES") == hasattr(own, "PARAMS"):
        raise UsageError(
            f"{name}: state either PARAMS = \"openfhe-demo\", a set of 'penstock params list' or a .toml file, or "
            "SIZES, name -> an object with a field params"
        )
    if hasattr(own, "PARAMS"):
        if not isinstance(own.PARAMS, str):
            raise UsageError(f"{name}: PARAMS is the name of a parameter set or a .toml file, not {own.PARAMS!r}")
        return {"default": _beside(OneSize(own.PARAMS), own)}
    sizes = own.SIZES
    if not isinstance(sizes, Mapping) or not sizes or not all(isinstance(key, str) for key in sizes):
        raise UsageError(f"{name}: SIZES is a dictionary of names and sizes, at least one, not {sizes!r}")
    sizes = {key: _beside(size, own) for key, size in sizes.items()}
    for key, size in sizes.items():
        if not isinstance(getattr(size, "params", None), str):
            raise UsageError(
                f"{name}: SIZES[{key!r}] needs a field params, the name of a parameter set or a .toml file"
            )
        try:
            hash(size)
        except TypeError:
            raise UsageError(
                f"{name}: SIZES[{key!r}] cannot be hashed; write @dataclass(frozen=True), with tuples for lists"
            ) from None
    return dict(sizes)


def _check_arguments(function: object, what: str, name: str) -> None:
    if not callable(function):
        raise UsageError(f"{name}: {what} is a function, not {function!r}")
    if not own_file.takes(function, len(_ARGUMENTS[what].split(", "))):
        raise UsageError(f"{name}: write {what}({_ARGUMENTS[what]}); it is {what}{inspect.signature(function)}")


def _checked(check: Callable[..., object], name: str) -> Callable[..., Check]:
    """A check of the file's own, whose outcome always has a rule in words."""

    def checked(clear: object, got: object, data: object, size: object) -> Check:
        verdict = check(clear, got, data, size)
        if not isinstance(verdict, Check):
            raise UsageError(f"{name}: check returns {verdict!r}; return a penstock.program.workloads.Check")
        outcome = "holds" if verdict.passed else "does not hold"
        return verdict if verdict.rules else replace(verdict, rules=(f"the program's own check: {outcome}",))

    return checked


def _comparison(own: ModuleType, name: str) -> Callable[..., Check]:
    """The check of a file that has none: each value of the result within `TOLERANCE`."""
    tolerance = getattr(own, "TOLERANCE", TOLERANCE)
    if not isinstance(tolerance, int | float) or isinstance(tolerance, bool) or not tolerance >= 0:
        raise UsageError(f"{name}: TOLERANCE is a number that is not negative, not {tolerance!r}")

    def check(clear: Values, got: Values, data: object, size: object) -> Check:
        try:
            clear, got = np.asarray(clear) + 0.0, np.asarray(got) + 0.0
            if not clear.size or not np.all(np.isfinite(clear)):
                raise ValueError(
                    "in the clear it has no values" if not clear.size else "in the clear not all are finite"
                )
            if clear.shape != got.shape:
                raise ValueError(f"in the clear its shape is {clear.shape}, encrypted {got.shape}")
            error = float(np.max(np.abs(clear - got), initial=0.0))
        except (TypeError, ValueError) as failure:
            raise UsageError(
                f"{name}: program returns what cannot be compared ({failure}); return an array of numbers, or define "
                "check(clear, got, data, size)"
            ) from failure
        outcome = {f"results differ by at most {tolerance:g}": error <= tolerance}
        return Check.of(outcome, error, float(tolerance))

    return check
