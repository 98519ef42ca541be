"""Where a database's records come from: drawn from a seed, a part at a time, or read from a file of the user's.

Every part is drawn by itself, so that a load that goes on needs nothing of what came before.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.base.system.files import file_sha256, os_errors
from penstock.base.types import Row
from penstock.errors import UsageError
from penstock.program.database.description import MATCH, PIR, SSC
from penstock.program.database.packing import Bytes, Floats

Records: TypeAlias = npt.NDArray[Any]
"""(count, record_bytes) bytes, or (count, features) numbers."""
PART = 1024
"""Records that are drawn together."""
CENTRES = 16
SPREAD = 0.6
LETTERS = np.frombuffer(b"ACGT", dtype=np.uint8)


class Generated:
    """Random bytes (`pir`), letters of DNA (`string-match`) or unit vectors around a few centres (`ssc`)."""

    def __init__(self, kind: str, records: int, width: int, seed: int) -> None:
        self._kind, self._records, self._width, self._seed = kind, records, width, seed
        self.identity: Row = {"generated": True, "seed": seed}
        """What a header says of it."""

    def rows(self, first: int, count: int) -> Records:
        """Records `first` to `first + count`, or as many as there are."""
        stop = min(first + count, self._records)
        parts = [self._part(part) for part in range(first // PART, -(-stop // PART))]
        begin = first // PART * PART
        return np.concatenate(parts)[first - begin : stop - begin]

    def _part(self, part: int) -> Records:
        generator = np.random.default_rng([self._seed, part])
        if self._kind == PIR:
            return generator.integers(0, 256, (PART, self._width), dtype=np.uint8)
        if self._kind == MATCH:
            letters: Bytes = LETTERS[generator.integers(0, len(LETTERS), (PART, self._width))]
            return letters
        return self._around(generator, generator.integers(0, CENTRES, PART))

    def _around(self, generator: np.random.Generator, of: npt.NDArray[np.int64]) -> Floats:
        scale = 1.0 / np.sqrt(self._width)
        centres = np.random.default_rng([self._seed]).standard_normal((CENTRES, self._width)) * scale
        vectors = centres[of] + SPREAD * scale * generator.standard_normal((len(of), self._width))
        unit: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def query(self, number: int) -> Floats:
        """A unit vector near a centre that is none of the database's vectors."""
        generator = np.random.default_rng([self._seed, 2**32 - 1, number])
        return self._around(generator, generator.integers(0, CENTRES, 1))[0]


class FromFile:
    """Lines of text, a record each, padded with zero bytes; or a `.npy` file of vectors (n, features)."""

    def __init__(self, path: Path, kind: str, width: int) -> None:
        """Raises: UsageError: no such file, a record that is wider than `width`, vectors of another shape."""
        if not path.is_file():
            raise UsageError(f"{path}: no such file of records")
        self._rows = _vectors(path, width) if kind == SSC else _lines(path, width)
        self.identity: Row = {"generated": False, "file": path.name, "sha256": file_sha256(path)}

    @property
    def records(self) -> int:
        """The number of records."""
        return len(self._rows)

    def rows(self, first: int, count: int) -> Records:
        """Raises: UsageError: a vector among them has a value that is not finite."""
        vectors = self._rows[first : first + count]
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            bad = first + int(np.argmin(finite))
            raise UsageError(f"{self.identity['file']}: vector {bad} has values that are not finite: leave it out")
        return vectors


Content = Generated | FromFile
"""Records by number: (count, record_bytes) bytes, or (count, features) numbers."""


def _lines(path: Path, width: int) -> Bytes:
    with os_errors(path, "read"):
        lines = path.read_bytes().splitlines()
    if not lines:
        raise UsageError(f"{path}: the file is empty: write a record a line")
    rows = np.zeros((len(lines), width), dtype=np.uint8)
    for number, line in enumerate(lines):
        if len(line) > width:
            raise UsageError(
                f"{path}, line {number + 1}: a record of {len(line)} bytes is wider than its {width}: raise "
                "--record-bytes, or shorten it"
            )
        rows[number, : len(line)] = np.frombuffer(line, dtype=np.uint8)
    return rows


def _vectors(path: Path, width: int) -> Floats:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: no .npy file of vectors ({error})") from error
    if array.ndim != 2 or array.dtype.kind not in "fiu" or not len(array):
        raise UsageError(f"{path}: an array of shape {array.shape} of {array.dtype}: vectors are (n, features) numbers")
    if array.shape[1] > width:
        raise UsageError(
            f"{path}: vectors of {array.shape[1]} features are wider than {width}: raise --features to a power of "
            "two that holds them"
        )
    return array
