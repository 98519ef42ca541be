"""The tables of a trace as columns of numbers, for the rules of the format."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.arrays import Bools, Ints
from penstock.scheme.operations import OpKind
from penstock.scheme.traces.schema import (
    OBJECT_CLASSES,
    Trace,
    place_in,
    text_codes,
)


def ints_of(table: pa.Table, name: str) -> Ints:
    """A column of whole numbers; -1 where there is none."""
    return np.asarray(table[name].fill_null(-1).to_numpy(), dtype=np.int64)


class ObjectColumns:
    """The table of objects."""

    def __init__(self, trace: Trace) -> None:
        table = trace.objects
        self.id, self.limbs, self.bytes = (ints_of(table, name) for name in ("id", "limbs", "bytes"))
        self.class_codes, self.class_names = text_codes(table["class"])
        places = [*(place_in(name, OBJECT_CLASSES) for name in self.class_names), -1]
        self.of_class: Ints = np.asarray(places, dtype=np.int64)[self.class_codes]
        """Place of the class in `OBJECT_CLASSES`; -1: unknown."""
        rows = np.flatnonzero(self.is_class("key"))
        names = table["name"].take(pa.array(rows)).to_pylist()
        self.keys: dict[int, str | None] = dict(zip(rows.tolist(), names, strict=True))
        """Name of each object of class key."""

    def __len__(self) -> int:
        return len(self.id)

    def cls(self, row: int) -> str:
        return self.class_names[self.class_codes[row]]

    def is_class(self, name: str) -> Bools:
        return np.asarray(self.of_class == OBJECT_CLASSES.index(name), dtype=bool)


class OperationColumns:
    """The table of operations."""

    def __init__(self, trace: Trace) -> None:
        self.table = trace.operations
        self.kinds, self.kind_names = text_codes(self.table["kind"])
        by_name = {kind.value: kind for kind in OpKind}
        self.known = [by_name.get(name) for name in self.kind_names]
        """The kind behind each of `kind_names`."""
        self.origins, self.origin_names = text_codes(self.table["origin"])
        numbers = (ints_of(self.table, name) for name in ("limbs_in", "limbs_out", "output"))
        self.limbs_in, self.limbs_out, self.output = numbers
        operands = self.table["operands"]
        self.counts: Ints = np.asarray(pc.list_value_length(operands).fill_null(0).to_numpy(), dtype=np.int64)
        self.operands: Ints = np.asarray(pc.list_flatten(operands).fill_null(-1).to_numpy(), dtype=np.int64)
        """Operands of all operations, one after the other."""
        self.row_of: Ints = np.repeat(np.arange(len(self.counts)), self.counts)
        """Operation of each of `operands`."""
        first = np.repeat(np.cumsum(self.counts) - self.counts, self.counts)
        self.place_of: Ints = np.arange(len(self.operands)) - first
        """Place of each of `operands` within its operation."""

    def __len__(self) -> int:
        return len(self.kinds)

    def kind(self, row: int) -> str:
        return self.kind_names[self.kinds[row]]

    def origin(self, row: int) -> str:
        return self.origin_names[self.origins[row]]

    def per_kind(self, value: Callable[[OpKind], int], unknown: int) -> Ints:
        """(num_ops,): `value` of each operation's kind."""
        return np.asarray([unknown if kind is None else value(kind) for kind in self.known], np.int64)[self.kinds]

    def of_kinds(self, wanted: Callable[[OpKind], bool]) -> Bools:
        return self.per_kind(wanted, 0).astype(bool)

    def of_origin(self, name: str) -> Bools:
        return np.asarray(self.origins == place_in(name, self.origin_names), dtype=bool)
