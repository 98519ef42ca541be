"""Files of vectors of numbers: `.npy` and `.csv` hold one, `.npz` several by name, `.json` either."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.base.system.files import os_errors, write_atomic
from penstock.errors import UsageError

Vector = npt.NDArray[Any]
FORMS = (".npy", ".npz", ".csv", ".json")
_OF_ONE = (".npy", ".csv")
_MOST_TEXT_BYTES = 1 << 28
"""Of a file of one vector: more than the slots of any set take."""
_read_array: Callable[..., Vector] = np.lib.format.read_array
_write_array: Callable[..., None] = np.lib.format.write_array


def check_form(path: Path) -> None:
    """Raises: UsageError: the name of a file is none of vectors."""
    if path.suffix.lower() not in FORMS:
        raise UsageError(f"{path}: vectors are in {', '.join(FORMS[:-1])} or {FORMS[-1]} files: choose such a name")


def check_room(path: Path, names: Sequence[str]) -> None:
    """Raises: UsageError: more vectors than a file of that name holds; as `check_form`."""
    check_form(path)
    form = path.suffix.lower()
    if form in _OF_ONE and len(names) != 1:
        raise UsageError(
            f"{path}: a {form} file holds one vector and there are {len(names)}: {', '.join(names)}. Write a .npz "
            "file, or name=FILE for each"
        )


def read_vectors(path: Path) -> dict[str | None, Vector]:
    """The vectors of a file by name; one without a name has the name `None`.

    Raises: UsageError: another kind of file, or one that holds no vectors of numbers; FileError: it cannot be read.
    """
    check_form(path)
    try:
        with os_errors(path, "read"):
            return _READERS[path.suffix.lower()](path)
    except (
        ValueError,
        TypeError,
        EOFError,
        KeyError,
        AttributeError,
        MemoryError,
        RecursionError,
        zipfile.BadZipFile,
    ) as error:
        raise UsageError(f"{path}: it holds no vectors of numbers: {error}") from error


def read_real(path: Path, most: int) -> npt.NDArray[np.float64]:
    """The real numbers of a file of one vector, (n,) with n from 1 to `most`.

    Raises: UsageError: complex or infinite numbers, none, too many, or several vectors; as `read_vectors`.
    """
    with os_errors(path, "read"):
        size = path.stat().st_size
    if size > _MOST_TEXT_BYTES:
        raise UsageError(f"{path}: {size} bytes, and a ciphertext takes {most} values: split them")
    vectors = read_vectors(path)
    values = next(iter(vectors.values()), np.empty(0))
    if len(vectors) != 1 or values.dtype.kind not in "fiub":
        raise UsageError(f"{path}: it holds something else than one list of real numbers; the client encrypts such")
    if values.ndim != 1 or not 1 <= len(values) <= most:
        shape = " x ".join(map(str, values.shape))
        raise UsageError(f"{path}: {shape or 'one'} values; a ciphertext takes one list of 1 to {most}: split them")
    real = values.astype(np.float64)
    if not np.isfinite(real).all():
        raise UsageError(f"{path}: value {int(np.argmin(np.isfinite(real)))} is not finite; replace it")
    return real


def write_vectors(vectors: Mapping[str, Vector], path: Path, *, force: bool = False) -> None:
    """Write vectors to a file; `.npy` and `.csv` hold one, and then its name is not written.

    Raises: UsageError: more vectors than the file holds, complex ones where it holds real numbers, or another kind of
            file; as `write_atomic`.
    """
    check_room(path, list(vectors))
    form = path.suffix.lower()
    if form in (".csv", ".json"):
        for name, values in vectors.items():
            if values.dtype.kind == "c":
                raise UsageError(f"{path}: '{name}' is complex; .npy and .npz files hold complex numbers")
    write_atomic(path, _writer(form, vectors), force=force)


def _writer(form: str, vectors: Mapping[str, Vector]) -> Callable[[Path], None] | bytes:
    if form == ".npz":
        return lambda path: _save_all(path, vectors)
    lists = {name: values.tolist() for name, values in vectors.items()}
    if form == ".json":
        return json.dumps(lists if len(lists) > 1 else next(iter(lists.values()))).encode() + b"\n"
    (one,) = vectors.values()
    if form == ".csv":
        return "".join(f"{value!r}\n" for value in one.tolist()).encode()
    file = io.BytesIO()
    np.save(file, one)
    return file.getvalue()


def _save_all(path: Path, vectors: Mapping[str, Vector]) -> None:
    """As `numpy.savez`, which takes no vector named `file`."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, values in vectors.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
                _write_array(file, np.asanyarray(values), allow_pickle=False)


def _read_npz(path: Path) -> dict[str | None, Vector]:
    vectors: dict[str | None, Vector] = {}
    with path.open("rb") as content, zipfile.ZipFile(content) as archive:
        for name in archive.namelist():
            with archive.open(name) as file:
                vectors[name.removesuffix(".npy")] = _read_array(file, allow_pickle=False)
    return vectors


def _read_npy(path: Path) -> dict[str | None, Vector]:
    with path.open("rb") as file:
        return {None: _read_array(file, allow_pickle=False)}


def _read_csv(path: Path) -> dict[str | None, Vector]:
    with path.open(newline="", encoding="utf-8") as opened:
        rows = csv.reader(line.partition("#")[0] for line in opened)
        return {None: np.array([float(cell) for row in rows for cell in row if cell.strip()])}


def _read_json(path: Path) -> dict[str | None, Vector]:
    read = json.loads(path.read_text(encoding="utf-8"))
    named = read if isinstance(read, dict) else {None: read}
    return {name: np.asarray(values, dtype=np.float64) for name, values in named.items()}


_READERS: dict[str, Callable[[Path], dict[str | None, Vector]]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".csv": _read_csv,
    ".json": _read_json,
}
