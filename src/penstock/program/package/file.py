"""The file of a package: constants are streamed to it while a program is recorded, and read when they are used.

The format is in docs/reference/package-format.md; `crates/penstock-package` reads and writes it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from penstock._engine import PackageColumns, PackageReader, PackageWriter
from penstock.base.system.files import UnfinishedFile, os_errors
from penstock.base.types import Row, RowView
from penstock.errors import ParamsError, cut
from penstock.program.evaluator.protocol import Values
from penstock.program.evaluator.scaling import ScaleState
from penstock.program.package.content import (
    SHAPES,
    Input,
    Instruction,
    Noise,
    Output,
    Package,
    PackageError,
    PackageSeries,
    Scope,
    Verb,
    trimmed,
)
from penstock.scheme.operations import MANY
from penstock.scheme.params.ckks import CkksParameters

VERBS = tuple(sorted(Verb, key=lambda verb: SHAPES[verb].code or 0))
"""By their codes in files."""
FIRST_SET = 28
"""Verbs whose names no file states: every version knows them."""
_CODES = {verb: code for code, verb in enumerate(VERBS)}
_NOISE = "noise"
"""Of the provenance: texts, which a program that knows nothing of noise passes on."""
_NAMED_OPERATION = re.compile(r"operation [0-9]+", re.ASCII)
"""Of the provenance: the operation of a code, for versions that do not know it."""
_WHOLE = re.compile(r"-?[0-9]{1,3}", re.ASCII)
_Whole = TypeVar("_Whole", np.uint8, np.uint16, np.uint32, np.int32)
_LARGEST = {np.uint8: 2**8 - 1, np.uint16: 2**16 - 1, np.uint32: 2**32 - 1, np.int32: 2**31 - 1}


class PackageFile:
    """A package that is being written: a context manager, a sink of constants, and the constants so far.

    `finish` gives the file its name. A context that ends without it removes the file. Constants are not kept in memory.
    """

    def __init__(self, path: Path | str, force: bool = False) -> None:
        """Begin a file.

        Args:   path: its name; the folder must exist. force: replace an existing file.
        Raises: WouldOverwrite: it exists and `force` is false. ForeignLink. FileError: the file system refused.
        """
        self.path = Path(path)
        self._file = UnfinishedFile(self.path, force=force)
        try:
            with os_errors(self.path):
                self._writer = PackageWriter(self._file.temporary)
        except BaseException:
            self._file.__exit__()
            raise

    def __enter__(self) -> PackageFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()
        self._file.__exit__()

    def __len__(self) -> int:
        """Constants so far."""
        return len(self._writer)

    def add(self, values: Values) -> int:
        """Write a vector, and return its number; vectors with the same values have one number.

        Raises: PackageError: values that are not finite or too many. FileError: the file system refused.
        """
        if np.ndim(values) != 1:
            raise PackageError(f"a constant has shape {np.shape(values)}: constants are vectors, of shape (n,)")
        with os_errors(self.path):
            return self._writer.add(trimmed(values))

    def add_coefficients(self, integers: npt.NDArray[np.int64], exponent: int) -> int:
        """Write a constant that comes as coefficients, and return its number.

        The polynomial is the sum of integer k times X^(k N/n), times 2^exponent.

        Args:   integers: (n,) int64, n a power of two from 2 to N. exponent: -1074 to 971.
        Raises: PackageError: another number of coefficients. FileError: the file system refused.
        """
        with os_errors(self.path):
            return self._writer.add_coefficients(np.asarray(integers, dtype=np.int64), exponent)

    def values(self, number: int) -> Values:
        """Read a constant back, as `Constants` does. Raises: PackageError: no such constant, or coefficients."""
        with os_errors(self.path, "read"):
            return self._writer.constant(number)

    def finish(self, package: Package) -> int:
        """Write the tables, and give the file its name; return its bytes. `add` gave the constants their numbers.

        Raises: PackageError: the package breaks a rule of the format; nothing is left. WouldOverwrite: the file was
                made in the meantime. FileError: the file system refused.
        """
        columns = _columns_of(package.instructions)
        params, provenance = package.params, _provenance_of(package)
        try:
            with os_errors(self.path):
                written = self._writer.finish(
                    ring_dim=params.ring_dim,
                    slots=params.slots,
                    num_q=params.num_q,
                    name=package.name,
                    description=package.description,
                    params=json.dumps(params.to_dict()),
                    provenance=json.dumps(provenance),
                    columns=columns,
                    scopes=[(scope.name, scope.parent) for scope in package.scopes],
                    series=[(list(poly.coefficients), poly.lower, poly.upper) for poly in package.series],
                    inputs=[(vector.name, vector.length, vector.limbs, vector.is_complex) for vector in package.inputs],
                    outputs=[(output.name, output.length) for output in package.outputs],
                    keys=list(package.keys.items()),
                )
        except (OverflowError, TypeError, UnicodeEncodeError) as error:
            raise PackageError(f"the package is not written: a field has another type ({error})") from error
        self._file.publish()
        return written


def write_package(package: Package, path: Path | str, force: bool = False) -> int:
    """Write a package with all its constants; return the bytes of the file.

    Raises: as `PackageFile`.
    """
    with PackageFile(path, force) as file:
        numbers = [file.add(package.constants.values(number)) for number in range(len(package.constants))]
        if numbers != list(range(len(numbers))):
            raise PackageError("the package is not written: two of its constants are equal; add each once")
        return file.finish(package)


def _provenance_of(package: Package) -> dict[str, str]:
    for name, text in package.provenance.items():
        if not (isinstance(name, str) and isinstance(text, str)):
            raise PackageError(f"the package is not written: provenance '{name}' is not a text; give texts")
        if _NAMED_OPERATION.fullmatch(name):
            raise PackageError(f"the package is not written: files keep '{name}' for themselves; rename the provenance")
    named = _named_operations(call.verb for call in package.instructions)
    if package.noise is None:
        return package.provenance | named
    return {**package.provenance, _NOISE: " ".join(map(str, package.noise)), **named}


def _named_operations(verbs: Iterable[Verb]) -> dict[str, str]:
    """Names of the operations that versions with the first set do not know, for their refusals."""
    return {f"operation {_CODES[verb]}": verb.value for verb in sorted(set(verbs)) if _CODES[verb] >= FIRST_SET}


def _noise_of(provenance: dict[str, str], path: Path) -> Noise | None:
    """The noise that a package states, taken out of its provenance."""
    stated = provenance.pop(_NOISE, None)
    if stated is None:
        return None
    bits = stated.split()
    if len(bits) != len(Noise._fields) or not all(_WHOLE.fullmatch(bound) for bound in bits):
        raise PackageError(
            f"{path}: the noise of its results is '{cut(stated)}', and not {len(Noise._fields)} whole numbers: the "
            "package is not used; make it again"
        )
    return Noise(*map(int, bits))


def _columns_of(instructions: Sequence[Instruction]) -> PackageColumns:
    """Instructions as columns. Raises: PackageError: one does not have the shape of its verb."""
    many: list[int] = []
    operands: list[int] = []
    constants: list[int] = []
    numbers: list[complex] = []
    for at, call in enumerate(instructions):
        shape, taken = SHAPES[call.verb], len(call.operands)
        if shape.operands == MANY:
            many.append(taken)
        wanted = tuple(taken if count == MANY else count for count in (shape.operands, shape.results, shape.constants))
        has = (taken, call.results, len(call.constants))
        if has != wanted:
            raise PackageError(
                f"the package is not written: instruction {at} ({call.verb.value}) has {has[0]} operands, {has[1]} "
                f"results and {has[2]} constants; it takes {wanted[0]}, {wanted[1]} and {wanted[2]}"
            )
        operands += call.operands
        constants += call.constants
        if shape.numbers:
            numbers.append(call.number)
        elif call.number:
            raise PackageError(f"the package is not written: instruction {at} ({call.verb.value}) takes no number")
    states = [(call.state.limbs, call.state.degree) if call.state else (0, 0) for call in instructions]
    return PackageColumns(
        verbs=np.array([_CODES[call.verb] for call in instructions], dtype=np.uint8),
        arguments=_column("argument", [call.argument for call in instructions], np.int32),
        limbs=_column("limbs", [limbs for limbs, _ in states], np.uint16),
        degrees=_column("degree", [degree for _, degree in states], np.uint8),
        scopes=_column("scope", [call.scope for call in instructions], np.uint32),
        many=_column("number of operands", many, np.uint32),
        operands=_column("operand", operands, np.uint32),
        constants=_column("constant", constants, np.uint32),
        numbers=np.array(numbers, dtype=np.complex128),
    )


def _column(what: str, values: list[int], dtype: type[_Whole]) -> npt.NDArray[_Whole]:
    lowest = -_LARGEST[dtype] - 1 if dtype is np.int32 else 0
    wrong = [value for value in values if not lowest <= value <= _LARGEST[dtype]]
    if wrong:
        rule = f"it is {lowest} to {_LARGEST[dtype]}"
        raise PackageError(f"the package is not written: an instruction has the {what} {wrong[0]}; {rule}")
    return np.array(values, dtype=dtype)


class ConstantsInFile:
    """The constants of a package's file. Each is read and checked against its digest when it is used."""

    def __init__(self, reader: PackageReader, path: Path) -> None:
        self.reader, self.path = reader, path

    def __len__(self) -> int:
        return len(self.reader)

    def values(self, number: int) -> Values:
        """A vector, (n,) float64 or complex128, without the zeros at its end.

        Raises: PackageError: damaged. FileError: the file system refused.
        """
        with os_errors(self.path, "read"):
            return self.reader.constant(number)


def open_package(path: Path | str) -> Package:
    """Read and check everything but the constants, which are read when they are used.

    Raises: PackageError: not a package, damaged, of a later version, or its content breaks a rule of the format.
            FileError: the file system refused.
    """
    path, reader = Path(path), _reader(Path(path))
    provenance = _stored_provenance(reader, path)
    noise = _noise_of(provenance, path)
    provenance = {name: text for name, text in provenance.items() if not _NAMED_OPERATION.fullmatch(name)}
    return Package(
        name=reader.name,
        params=_params_of(reader, path),
        inputs=tuple(Input(*fields) for fields in reader.inputs()),
        outputs=tuple(Output(*fields) for fields in reader.outputs()),
        instructions=_instructions_of(reader.columns()),
        scopes=tuple(Scope(*fields) for fields in reader.scopes()),
        series=tuple(
            PackageSeries(tuple(coefficients), lower, upper) for coefficients, lower, upper in reader.series()
        ),
        constants=ConstantsInFile(reader, path),
        keys=dict(reader.keys()),
        description=reader.description,
        provenance=provenance,
        noise=noise,
    )


def check_package(path: Path | str) -> Package:
    """Read all of a package, its constants too. Raises: as `open_package`."""
    package = open_package(path)
    constants = package.constants
    assert isinstance(constants, ConstantsInFile)
    with os_errors(Path(path), "read"):
        constants.reader.check()
    return package


def package_info(path: Path | str) -> Row:
    """Count the parts of a package: instructions, constants and their bytes, as stored and as float64, forms, keys.

    Raises: as `open_package`.
    """
    path, reader = Path(path), _reader(Path(path))
    params, entries = _params_of(reader, path), reader.entries()
    codes = Counter(reader.columns().verbs.tolist())
    forms: dict[str, dict[str, int]] = {}
    for stored, _, _, form in entries:
        row = forms.setdefault(form, {"constants": 0, "bytes": 0})
        row["constants"] += 1
        row["bytes"] += stored
    return {
        "name": reader.name,
        "description": reader.description,
        "version": PackageReader.VERSION,
        "file_bytes": reader.file_bytes,
        "params": params.to_dict(),
        "instructions": reader.num_instructions,
        "verbs": {VERBS[code].value: count for code, count in codes.most_common()},
        "scopes": len(reader.scopes()),
        "series": len(reader.series()),
        "constants": len(entries),
        "constant_bytes": sum(stored for stored, *_ in entries),
        "float64_bytes": sum(values * (16 if kind == "complex" else 8) for _, values, kind, _ in entries),
        "forms": forms,
        "keys": dict(reader.keys()),
        "inputs": [
            {"name": name, "length": length, "limbs": limbs, "is_complex": is_complex}
            for name, length, limbs, is_complex in reader.inputs()
        ],
        "outputs": [{"name": name, "length": length} for name, length in reader.outputs()],
        "provenance": _stored_provenance(reader, path),
    }


def _reader(path: Path) -> PackageReader:
    with os_errors(path, "read"):
        return PackageReader(path)


def _stored(text: str, what: str, path: Path) -> RowView:
    """A JSON object of a file."""
    try:
        table = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PackageError(f"{path}: {what} is not JSON ({error}): the package is not used; make it again") from error
    if not isinstance(table, dict):
        raise PackageError(f"{path}: {what} is not an object of JSON: the package is not used; make it again")
    return table


def _params_of(reader: PackageReader, path: Path) -> CkksParameters:
    try:
        params = CkksParameters.from_dict(_stored(reader.params, "the parameter set", path))
    except ParamsError as error:
        raise PackageError(f"{path}: {error}") from error
    stated = (reader.ring_dim, reader.slots, reader.num_q)
    if stated != (params.ring_dim, params.slots, params.num_q):
        raise PackageError(
            f"{path}: the parameter set has N = {params.ring_dim}, {params.slots} slots and {params.num_q} limbs, the "
            f"tables have {stated[0]}, {stated[1]} and {stated[2]}: the package is not used; make it again"
        )
    return params


def _stored_provenance(reader: PackageReader, path: Path) -> dict[str, str]:
    provenance = _stored(reader.provenance, "the provenance", path)
    wrong = [name for name, text in provenance.items() if not isinstance(text, str)]
    if wrong:
        raise PackageError(
            f"{path}: provenance '{cut(wrong[0])}' is not a text: the package is not used; make it again"
        )
    return dict(provenance)


def _instructions_of(columns: PackageColumns) -> list[Instruction]:
    """Instructions of columns that the reader has checked."""
    shapes = [SHAPES[verb] for verb in VERBS]
    codes = columns.verbs
    stated = np.zeros(len(codes), np.int64)
    stated[np.array([shape.operands == MANY for shape in shapes])[codes]] = columns.many

    def counts(of: list[int]) -> npt.NDArray[np.int64]:
        fixed = np.array(of)[codes]
        return np.where(fixed == MANY, stated, fixed)

    numbers: list[complex] = [0.0] * len(codes)
    numbered = np.flatnonzero(np.array([shape.numbers > 0 for shape in shapes])[codes])
    for at, number in zip(numbered.tolist(), columns.numbers.tolist(), strict=True):
        numbers[at] = number
    states: dict[tuple[int, int], ScaleState | None] = {
        (limbs, degree): ScaleState(limbs, degree) if limbs else None
        for limbs, degree in set(zip(columns.limbs.tolist(), columns.degrees.tolist(), strict=True))
    }
    rows = zip(
        map(VERBS.__getitem__, codes.tolist()),
        _parts(columns.operands, counts([shape.operands for shape in shapes])),
        counts([shape.results for shape in shapes]).tolist(),
        _parts(columns.constants, counts([shape.constants for shape in shapes])),
        numbers,
        columns.arguments.tolist(),
        map(states.__getitem__, zip(columns.limbs.tolist(), columns.degrees.tolist(), strict=True)),
        columns.scopes.tolist(),
        strict=True,
    )
    return list(map(Instruction._make, rows))


def _parts(column: npt.NDArray[np.uint32], counts: npt.NDArray[np.int64]) -> Iterator[tuple[int, ...]]:
    """A column in parts of so many elements."""
    elements, ends = tuple(column.tolist()), np.cumsum(counts)
    return (elements[begin:end] for begin, end in zip((ends - counts).tolist(), ends.tolist(), strict=True))


def complex_outputs(package: Package) -> set[str]:
    """The names of outputs that depend on a complex input, constant or number, or on an operation with such results."""
    complex_constants = _complex_constants(package)
    values: list[bool] = []
    names = set()
    for call in package.instructions:
        own = SHAPES[call.verb].is_complex or bool(call.number.imag)
        own = own or (call.verb is Verb.ENCRYPT and package.inputs[call.argument].is_complex)
        own = own or not complex_constants.isdisjoint(call.constants)
        is_complex = own or any(values[operand] for operand in call.operands)
        if call.verb is Verb.OUTPUT and is_complex:
            names.add(package.outputs[call.argument].name)
        values += [is_complex] * call.results
    return names


def _complex_constants(package: Package) -> set[int]:
    constants = package.constants
    if isinstance(constants, ConstantsInFile):
        return {number for number, (_, _, kind, _) in enumerate(constants.reader.entries()) if kind == "complex"}
    return {number for number in range(len(constants)) if np.iscomplexobj(constants.values(number))}
