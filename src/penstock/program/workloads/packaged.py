"""Program packages as workloads: a `.pkg` file stands wherever the name of a workload does.

Its one size is on the package's own parameter set. Inputs come from a file of the user's (`--data`, `--input`), or are
drawn from [-1, 1] by the seed. At another set the package is derived anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.base.system.files import FileError, readable
from penstock.base.system.vectors import read_vectors
from penstock.errors import UsageError
from penstock.program.evaluator.protocol import Evaluator, Values
from penstock.program.package.content import Input, Package
from penstock.program.package.derive import derive, fitted
from penstock.program.package.replay import checked_inputs, run_package
from penstock.program.workloads.own import OneSize
from penstock.program.workloads.parts.check import Check
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters

SUFFIX = ".pkg"
TOLERANCE = 1e-3
"""The most that an encrypted output may differ by, or, where values exceed 1, as a share of the largest."""
_LOADED: dict[tuple[str, int, int], ModuleType] = {}
_DERIVED_KEPT = 4


@dataclass(frozen=True, slots=True)
class PackageInputs:
    """Inputs of a package, by name."""

    inputs: dict[str, Values]
    description: str = ""


def is_package(name: str) -> bool:
    """Whether the name of a workload is a program package."""
    return name.endswith(SUFFIX)


def load(name: str) -> ModuleType:
    """The workload in a package; a file is read again where it has changed.

    Raises: UsageError: no such file; PackageError: no package, or a damaged one.
    """
    from penstock.program.package.file import open_package

    path = Path(name).resolve()
    try:
        status = path.stat()
    except FileNotFoundError:
        raise UsageError(f"{name}: no such file; 'penstock package' makes a package of a program") from None
    except OSError as error:
        raise FileError(path, "read", error) from error
    key = str(path), status.st_mtime_ns, status.st_size
    if key not in _LOADED:
        _LOADED[key] = workload_of(open_package(path), path)
    return _LOADED[key]


def workload_of(package: Package, path: Path) -> ModuleType:
    """The contract of a workload (`program/workloads/`) for a package, whose inputs and outputs it has by name too.

    Besides: `PACKAGE`, and `at(params)`, derived; `given(inputs)` checks vectors, and `read(words)` reads them from
    files; `fitted(params)` is the set that the package runs on where a user names `params`; `outputs(values)` are the
    outputs by name in what `program` returns, and `joined(outputs)` the other way round.
    """
    own: Any = ModuleType(f"penstock_package_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}")

    @lru_cache(maxsize=_DERIVED_KEPT)
    def at(params: CkksParameters) -> Package:
        return derive(package, params)

    def data(size: object, slots: int, seed: int, path: Path | None = None) -> PackageInputs:
        return drawn(package, seed) if path is None else read_inputs(package, [str(path)])

    def blank(size: object, slots: int) -> PackageInputs:
        return PackageInputs({an_input.name: np.zeros(an_input.length) for an_input in package.inputs})

    def joined(vectors: Mapping[str, Values]) -> Values:
        return np.concatenate([np.zeros(0), *(vectors[output.name] for output in package.outputs)])

    def program(ev: Evaluator, data: PackageInputs, size: object) -> Values:
        return joined(run_package(ev, at(ev.params), data.inputs))

    def given(inputs: Mapping[str, npt.ArrayLike]) -> PackageInputs:
        named = {name: np.asarray(values) for name, values in inputs.items()}
        return PackageInputs(checked_inputs(package, named), "inputs of the user's")

    def outputs(values: Values) -> dict[str, Values]:
        ends = np.cumsum([output.length for output in package.outputs])
        parts = [values[end - output.length : end] for output, end in zip(package.outputs, ends.tolist(), strict=True)]
        return {output.name: _real(part) for output, part in zip(package.outputs, parts, strict=True)}

    own.PACKAGE, own.TOLERANCE, own.at = package, TOLERANCE, at
    own.NAME, own.SOURCE = readable(path.name), str(path)
    own.DESCRIPTION = package.description or f"the program package '{package.name}'"
    own.DEFAULT_SIZE = own.ACCELERATOR_SIZE = "package"
    own.SIZES = {"package": OneSize(catalogue.adopt(package.params))}
    own.data, own.blank, own.program, own.given, own.outputs = data, blank, program, given, outputs
    own.joined = joined
    own.read = lambda words: read_inputs(package, words)
    own.fitted = lambda params: fitted(package, params)
    own.check = _comparison
    return own


def _real(values: Values) -> Values:
    """Real values as such: readings decrypt to complex numbers."""
    return values.real if values.dtype.kind == "c" and not np.any(values.imag) else values


def _comparison(clear: Values, got: Values, data: PackageInputs, size: object) -> Check:
    """Each value of each output, as `TOLERANCE` says."""
    error = float(np.max(np.abs(np.asarray(clear) - np.asarray(got)), initial=0.0))
    bound = TOLERANCE * max(1.0, float(np.max(np.abs(clear), initial=0.0)))
    return Check.of({f"outputs differ by at most {bound:g}": error <= bound}, error, bound)


def drawn(package: Package, seed: int) -> PackageInputs:
    """Inputs from [-1, 1], by the seed."""
    rng = np.random.default_rng(seed)

    def vector(an_input: Input) -> Values:
        real = rng.uniform(-1.0, 1.0, an_input.length)
        return real + 1j * rng.uniform(-1.0, 1.0, an_input.length) if an_input.is_complex else real

    return PackageInputs(
        {an_input.name: vector(an_input) for an_input in package.inputs}, f"drawn from [-1, 1], seed {seed}"
    )


def read_inputs(package: Package, words: Sequence[str]) -> PackageInputs:
    """Inputs from files: `x.npy`, `name=x.npy` for each of several, or one file of several vectors by name.

    Raises: UsageError: a missing, unknown or doubled input, another shape, or a file that holds no vectors.
    """
    vectors: dict[str, Values] = {}
    names = [an_input.name for an_input in package.inputs]
    for word in words:
        name, path = _named(word, names)
        read = read_vectors(Path(path))
        if name is None and None in read:
            if len(names) != 1:
                raise UsageError(
                    f"{path} has one vector without a name, and '{package.name}' has {len(names)} inputs: "
                    f"{', '.join(names) or '-'}. Write name=FILE for each, or give one .npz file with all"
                )
            name = names[0]
        given = {str(key): values for key, values in read.items()} if name is None else {name: _only(read, path)}
        for key, values in given.items():
            if key in vectors:
                raise UsageError(f"input '{key}' is given twice: by {path} too")
            vectors[key] = values
    return PackageInputs(
        checked_inputs(package, vectors), f"from {', '.join(Path(_named(w, names)[1]).name for w in words)}"
    )


def _named(word: str, names: Sequence[str]) -> tuple[str | None, str]:
    """The name of `name=file`, and the file."""
    name, equals, path = word.partition("=")
    if equals and (name in names or not Path(word).exists()):
        if name not in names:
            raise UsageError(f"{word}: there is no input '{name}'; there is {', '.join(names) or 'none'}")
        return name, path
    return None, word


def _only(read: Mapping[str | None, Values], path: str) -> Values:
    if len(read) != 1:
        raise UsageError(f"{path} has {len(read)} vectors; a named input takes a file of one")
    return next(iter(read.values()))
