"""The tables of a trace as columns of numbers, for the rules of the format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.arrays import Ints
from penstock.scheme.operations import OpKind
from penstock.scheme.traces.schema import (
    OBJECT_CLASSES,
    Trace,
    place_in,
    text_codes,
)

Bools = npt.NDArray[np.bool_]


def ints_of(table: pa.Table, name: str) -> Ints:
    """A column of whole numbers; -1 where there is none."""
    return np.asarray(table[name].fill_null(-1).to_numpy(), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class ObjectColumns:
    id: Ints
    class_codes: Ints
    class_names: list[str]
    """What `class_codes` stand for."""
    of_class: Ints
    """Place of the class in `OBJECT_CLASSES`; -1: unknown."""
    keys: dict[int, str | None]
    """Name of each object of class key."""
    limbs: Ints
    bytes: Ints

    @classmethod
    def of(cls, trace: Trace) -> ObjectColumns:
        table = trace.objects
        codes, names = text_codes(table["class"])
        places = np.asarray([*(place_in(name, OBJECT_CLASSES) for name in names), -1], dtype=np.int64)[codes]
        rows = np.flatnonzero(places == OBJECT_CLASSES.index("key"))
        keys = dict(zip(rows.tolist(), table["name"].take(pa.array(rows)).to_pylist(), strict=True))
        return cls(ints_of(table, "id"), codes, names, places, keys, ints_of(table, "limbs"), ints_of(table, "bytes"))

    def __len__(self) -> int:
        return len(self.id)

    def cls(self, row: int) -> str:
        return self.class_names[self.class_codes[row]]

    def is_class(self, name: str) -> Bools:
        return np.asarray(self.of_class == OBJECT_CLASSES.index(name), dtype=bool)


@dataclass(frozen=True, slots=True)
class OperationColumns:
    table: pa.Table
    kinds: Ints
    """Place of each operation's kind in `kind_names`."""
    kind_names: list[str]
    known: list[OpKind | None]
    """The kind behind each of `kind_names`."""
    origins: Ints
    origin_names: list[str]
    limbs_in: Ints
    limbs_out: Ints
    output: Ints
    operands: Ints
    """Operands of all operations, one after the other."""
    row_of: Ints
    """Operation of each of `operands`."""
    place_of: Ints
    """Place of each of `operands` within its operation."""
    counts: Ints

    @classmethod
    def of(cls, trace: Trace) -> OperationColumns:
        table = trace.operations
        kinds, names = text_codes(table["kind"])
        origins, origin_names = text_codes(table["origin"])
        counts = np.asarray(pc.list_value_length(table["operands"]).fill_null(0).to_numpy(), dtype=np.int64)
        flat = np.asarray(pc.list_flatten(table["operands"]).fill_null(-1).to_numpy(), dtype=np.int64)
        row_of = np.repeat(np.arange(len(counts)), counts)
        place_of = np.arange(len(flat)) - np.repeat(np.cumsum(counts) - counts, counts)
        by_name = {kind.value: kind for kind in OpKind}
        return cls(
            table,
            kinds,
            names,
            [by_name.get(name) for name in names],
            origins,
            origin_names,
            ints_of(table, "limbs_in"),
            ints_of(table, "limbs_out"),
            ints_of(table, "output"),
            flat,
            row_of,
            place_of,
            counts,
        )

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
