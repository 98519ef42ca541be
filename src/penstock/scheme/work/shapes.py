"""The distinct shapes of a trace's operations: what pricing and fitting need to know of each, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.arrays import Ints as Ints
from penstock.errors import TraceError
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.traces.schema import Trace, text_codes
from penstock.scheme.traces.schema import server_rows as server_rows
from penstock.scheme.work.kernels import Hoisting, KernelWork, kernel_work


class Shape(NamedTuple):
    """Operations of one shape cost the same on every machine."""

    kind: str
    limbs_in: int
    limbs_out: int
    implied_rescales: int
    implied_scalar_mults: int
    polynomials: int
    """Of the largest ciphertext operand: 3 between a product and its relinearization. Of ciphertexts of the small ring
    all together."""


_LIMITS = {
    "limbs_in": 1 << 14,
    "limbs_out": 1 << 14,
    "implied_rescales": 1 << 8,
    "implied_scalar_mults": 1 << 8,
    "polynomials": 1 << 13,
}
"""Together below 2^57, so that they and the kind are one number of 63 bits."""


class Objects:
    """A trace's objects as arrays, found by id."""

    def __init__(self, trace: Trace, params: CkksParameters) -> None:
        table = trace.objects
        ids = ints(table["id"])
        self._order = np.argsort(ids, kind="stable")
        self._sorted = ids[self._order]
        self.bytes = ints(table["bytes"])
        self.limbs = ints(table["limbs"])
        classes, names = codes(table["class"])
        over_both = [code for code, name in enumerate(names) if name in ("digits", "extended")]
        self.is_extended = np.isin(classes, over_both)
        """Whether polynomials are over Q and P: digits, and ciphertexts that are not divided by P yet."""
        one = np.asarray([params.polynomial_bytes(n) for n in range(int(self.limbs.max(initial=0)) + 1)])
        polynomials = np.rint(self.bytes / np.maximum(one[self.limbs], 1)).astype(np.int64)
        ciphertext = classes == (names.index("ciphertext") if "ciphertext" in names else -2)
        # Another size differs from a plain ciphertext of this set: taken as two polynomials.
        self.polynomials = np.where(ciphertext & (polynomials == 3), 3, 2)
        self.is_small = classes == (names.index("small") if "small" in names else -2)
        """Whether it is ciphertexts of the small ring."""
        self.is_stored = classes == (names.index("stored") if "stored" in names else -2)
        if params.small_ring_dim:
            small = self.bytes // params.small_bytes(1)
            self.polynomials[self.is_small] = small[self.is_small]
        all_names = table["name"].to_pylist()
        is_key = classes == (names.index("key") if "key" in names else -2)
        self.keys = {all_names[i]: int(i) for i in np.nonzero(is_key)[0]}

    def rows(self, ids: Ints, what: str) -> Ints:
        """Rows of the objects with these ids.

        Raises: TraceError: an id that the table of objects lacks.
        """
        if not len(ids):
            return ids
        if not len(self._sorted):
            raise TraceError(f"the trace names {what} {ids[0]} and has no objects; make the trace again")
        at = np.minimum(np.searchsorted(self._sorted, ids), len(self._sorted) - 1)
        missing = self._sorted[at] != ids
        if missing.any():
            raise TraceError(
                f"the trace names {what} {ids[missing][0]}, which its table of objects lacks; make the trace again"
            )
        return np.asarray(self._order[at], dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """Operations with their shapes."""

    distinct: list[Shape]
    of_row: Ints
    """(n,) index into `distinct`."""
    counts: Ints
    """(len(distinct),) how often each occurs."""
    limbs_in: Ints
    """(n,)"""
    implied_rescales: Ints
    """(n,)"""
    operand_row: Ints
    """(k,) row of each operand; an operand that an operation names twice is there once."""
    operand: Ints
    """(k,) row in the table of objects."""


def shapes_of(operations: pa.Table, objects: Objects) -> Shapes:
    """The shapes of the operations of a table.

    Raises: TraceError: an operand without an object, or a number that no operation can have.
    """
    rows = operations.num_rows
    kind_codes, kinds = codes(operations["kind"])
    operand_row, operand = _operands(operations["operands"], objects, rows)
    polynomials = np.full(rows, 2, dtype=np.int64)
    np.maximum.at(polynomials, operand_row, np.where(objects.is_small, 2, objects.polynomials)[operand])
    small = objects.is_small[operand]
    if small.any():
        counted = np.bincount(operand_row[small], weights=objects.polynomials[operand[small]], minlength=rows)
        polynomials = np.where(counted > 0, counted.astype(np.int64), polynomials)
    fields = {
        "limbs_in": ints(operations["limbs_in"]),
        "limbs_out": ints(operations["limbs_out"]),
        "implied_rescales": ints(operations["implied_rescales"]),
        "implied_scalar_mults": ints(operations["implied_scalar_mults"]),
        "polynomials": polynomials,
    }
    packed = kind_codes.copy()
    for name, values in fields.items():
        bad = (values < 0) | (values >= _LIMITS[name])
        if bad.any():
            raise TraceError(
                f"the trace has {name} {values[bad][0]}, outside 0 to {_LIMITS[name] - 1}; make the trace again"
            )
        packed = packed * _LIMITS[name] + values
    _, first, of_row, counts = np.unique(packed, return_index=True, return_inverse=True, return_counts=True)
    columns = [values[first].tolist() for values in fields.values()]
    names = [kinds[code] for code in kind_codes[first].tolist()]
    return Shapes(
        distinct=[Shape(kind, *numbers) for kind, *numbers in zip(names, *columns, strict=True)],
        of_row=of_row.reshape(-1),
        counts=counts,
        limbs_in=fields["limbs_in"],
        implied_rescales=fields["implied_rescales"],
        operand_row=operand_row,
        operand=operand,
    )


def shape_work(
    shape: Shape,
    params: CkksParameters,
    key_form: KeyForm | None = None,
    hoisting: Hoisting = Hoisting.RESULTS,
) -> KernelWork:
    """The kernel work of one operation of a shape; options as `kernel_work`.

    Raises: UsageError: a composite, or limbs that the parameter set does not have.
    """
    return kernel_work(
        OpKind(shape.kind),
        params,
        shape.limbs_in,
        limbs_out=shape.limbs_out,
        implied_rescales=shape.implied_rescales,
        implied_scalar_mults=shape.implied_scalar_mults,
        key_form=key_form,
        polynomials=shape.polynomials,
        hoisting=hoisting,
    )


codes = text_codes
"""Codes of a column of names (null is -1), and their meaning."""


def ints(column: pa.ChunkedArray) -> Ints:
    """A column of whole numbers without nulls."""
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _operands(column: pa.ChunkedArray, objects: Objects, rows: int) -> tuple[Ints, Ints]:
    if rows == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    joined = column.combine_chunks()
    counts = np.asarray(pc.list_value_length(joined), dtype=np.int64)
    row = np.repeat(np.arange(rows, dtype=np.int64), counts)
    operand = objects.rows(np.asarray(joined.flatten(), dtype=np.int64), "operand")
    again = np.zeros(len(row), dtype=bool)
    again[1:] = (row[1:] == row[:-1]) & (operand[1:] == operand[:-1])
    return row[~again], operand[~again]
