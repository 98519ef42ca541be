"""What the operations of a program read and make, as arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Bools, Ints
from penstock.errors import SimulationInputError


@dataclass(frozen=True, slots=True, eq=False)
class Accesses:
    """The data that operations read and make: operation i has the accesses `access_start[i]:access_start[i + 1]`, in
    order.

    The arrays are held as read-only views, not copies, where dtype and layout allow; do not write to their originals.
    """

    access_start: Ints
    """(n + 1,) int64, rising from 0 to m."""
    access_object: npt.NDArray[np.int32] | Ints
    """(m,) int32 or int64, not negative; sparse ids cost one sorting."""
    access_bytes: Ints
    """(m,) int64, at least 1: what this access needs of the object. The needs of one object are nested: a smaller one
    is part of every larger one, as the limbs of a key are."""
    is_result: Bools | None = None
    """(m,) whether the access makes the object instead of reading it: it takes its place in every level as a read
    would, and nothing is moved for it. `None`: all are reads."""

    def __post_init__(self) -> None:
        for name in ("access_start", "access_object", "access_bytes"):
            narrow = name == "access_object"
            object.__setattr__(self, name, _integers(getattr(self, name), name, keep_int32=narrow))
        if self.is_result is not None:
            made = np.asarray(self.is_result)
            if made.dtype != np.bool_ or made.shape != self.access_object.shape:
                raise SimulationInputError(
                    f"is_result has dtype {made.dtype} and shape {made.shape}: it is one bool for each of the "
                    f"{len(self)} accesses"
                )
            object.__setattr__(self, "is_result", made if made.any() else None)

    @property
    def num_operations(self) -> int:
        return len(self.access_start) - 1

    def __len__(self) -> int:
        return len(self.access_object)

    @property
    def is_read(self) -> Bools:
        """(m,) whether the access reads its object."""
        return np.ones(len(self), dtype=np.bool_) if self.is_result is None else ~self.is_result

    @property
    def reads(self) -> Accesses:
        """The reads alone, of the same operations."""
        if self.is_result is None:
            return self
        before = np.concatenate(([0], np.cumsum(self.is_read)))
        return Accesses(before[self.access_start], self.access_object[self.is_read], self.access_bytes[self.is_read])

    def by_operation(self, values: Ints) -> Ints:
        """(n,) the sums of (m,) values over the accesses of each operation."""
        sums = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(values)))
        return np.asarray(sums[self.access_start[1:]] - sums[self.access_start[:-1]], dtype=np.int64)

    @classmethod
    def of(cls, rows: Iterable[Iterable[tuple[int, int]]]) -> Accesses:
        """Accesses from one list of (object, bytes) an operation."""
        lists = [list(row) for row in rows]
        flat = [access for row in lists for access in row]
        return cls(
            np.cumsum([0, *(len(row) for row in lists)], dtype=np.int64),
            np.array([obj for obj, _ in flat], dtype=np.int64),
            np.array([size for _, size in flat], dtype=np.int64),
        )

    @classmethod
    def one_each(cls, objects: npt.ArrayLike, sizes: npt.ArrayLike) -> Accesses:
        """Operations of one access each."""
        start = np.arange(np.size(np.asarray(objects)) + 1, dtype=np.int64)
        return cls(start, np.asarray(objects), np.asarray(sizes))


def _integers(values: npt.ArrayLike, name: str, *, keep_int32: bool) -> npt.NDArray[np.generic]:
    array = np.asarray(values)
    if array.ndim != 1:
        raise SimulationInputError(f"{name} has shape {array.shape}: it is one-dimensional")
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise SimulationInputError(f"{name} has dtype {array.dtype}: it holds whole numbers (int64)")
    if array.dtype.kind == "u" and array.size and int(array.max()) >= 2**63:
        raise SimulationInputError(f"{name} holds {int(array.max())}: it must stay below 2^63")
    dtype = np.int32 if keep_int32 and array.dtype == np.int32 else np.int64
    view = np.ascontiguousarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view
