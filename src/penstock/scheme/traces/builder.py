"""Builds a trace one operation at a time: the one way in which readings and recorders write traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from penstock.base.types import Row
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.blocks import Block, Fields, Place, cut, paste
from penstock.scheme.traces.schema import (
    OBJECTS_SCHEMA,
    OPERATIONS_SCHEMA,
    ORIGIN_CALLED,
    ORIGIN_MODELLED,
    Trace,
    TraceMeta,
)

_WORDS = {kind: kind.value for kind in OpKind}


class TraceBuilder:
    """Collects operations and objects in memory; `finish()` turns them into tables.

    Appending is a few list appends, so that recording an encrypted run costs next to nothing.
    Not thread safe: one builder belongs to one program run.
    """

    def __init__(self, params: CkksParameters) -> None:
        self.params = params
        self._ops: list[Fields] = []
        self._objects: list[tuple[int, str, str | None, int, int]] = []
        self._keys: dict[str, int] = {}
        self._sizes: dict[tuple[int, int], int] = {}
        self._scope: list[str] = []
        self._scope_path = ""
        self._counts: dict[str, int] = {}
        self._modelled = 0
        self.on_add: Callable[[int], None] | None = None
        """Called with the id of each operation that was added: progress hangs here."""
        self.shared: Row = {}
        """What circuits re-use across calls within one trace, by name: the diagonals of bootstrapping, for example."""

    @property
    def scope(self) -> str:
        """The path of the scope that is open now."""
        return self._scope_path

    @property
    def num_operations(self) -> int:
        return len(self._ops)

    def kinds(self) -> list[str]:
        """The kinds of all operations, in order."""
        return [row[1] for row in self._ops]

    @contextmanager
    def open_scope(self, name: str, *, modelled: bool = False) -> Iterator[str]:
        """Operations inside carry `name` in their scope path; repeated names are numbered: `iteration[1]`."""
        parent = self._scope_path
        stem = f"{parent}/{name}" if parent else name
        number = self._counts.get(stem, 0)
        self._counts[stem] = number + 1
        self._scope_path = f"{stem}[{number}]"
        self._modelled += modelled
        try:
            yield self._scope_path
        finally:
            self._modelled -= modelled
            self._scope_path = parent

    def seconds_since(self, first: int) -> float:
        """Seconds of the timed operations from a number on."""
        return sum(row[14] - row[13] for row in self._ops[first:] if row[13] is not None)

    @property
    def is_modelled(self) -> bool:
        """Whether operations of now are steps inside a composite."""
        return self._modelled > 0

    def flows(self, first: int) -> Iterator[tuple[str, Sequence[int], int | None, int | None]]:
        """Origin, operands, output and plaintext of each operation from a number on."""
        return ((row[2], row[5], row[6], row[8]) for row in self._ops[first:])

    @property
    def place(self) -> Place:
        """Where the next operation will stand."""
        return Place(len(self._ops), len(self._objects), self._scope_path)

    def block_since(self, place: Place, operands: Sequence[int]) -> Block:
        """What a composite added since then, in a scope of its own, relative to the place and to the operands."""
        inside = Place(place.operations, place.objects, self._ops[-1][12])
        return cut(self._ops, self._objects, inside, operands)

    def repeat(self, block: Block, operands: Sequence[int]) -> int:
        """Add a block once more, on other operands; return the number of the last operation's output."""
        paste(self._ops, self._objects, block, self.place, operands)
        return int(self._ops[-1][6])

    def add_object(self, cls: str, limbs: int, num_bytes: int, name: str | None = None) -> int:
        """Register an object and return its id."""
        object_id = len(self._objects)
        self._objects.append((object_id, cls, name, limbs, num_bytes))
        return object_id

    def ciphertext(self, limbs: int, polynomials: int = 2, name: str | None = None) -> int:
        """Register a ciphertext of `polynomials` polynomials at `limbs` limbs."""
        size = self._sizes.get((limbs, polynomials))
        if size is None:
            size = self._sizes[limbs, polynomials] = self.params.ciphertext_bytes(limbs, polynomials)
        return self.add_object("ciphertext", limbs, size, name)

    def extended(self, limbs: int) -> int:
        """Register a ciphertext over Q and P with `limbs` limbs of Q."""
        return self.add_object("extended", limbs, self.params.ciphertext_bytes(limbs + self.params.num_p, 2))

    def plaintext(self, limbs: int, name: str | None = None, *, extended: bool = False) -> int:
        """Register an encoded plaintext, over Q or over Q and P, with `limbs` limbs of Q."""
        num_bytes = self.params.plaintext_bytes(limbs + self.params.num_p * extended)
        return self.add_object("plaintext", limbs, num_bytes, name)

    def digits(self, limbs: int) -> int:
        """Register a digit decomposition: `active_digits` polynomials over Q and P."""
        params = self.params
        size = params.active_digits(limbs) * params.polynomial_bytes(limbs + params.num_p)
        return self.add_object("digits", limbs, size)

    def small(self, polynomials: int, name: str | None = None) -> int:
        """Register ciphertexts of the small ring, with so many polynomials in all."""
        return self.add_object("small", 1, self.params.small_bytes(polynomials), name)

    def stored(self, polynomials: int, name: str | None = None) -> int:
        """Register a block of an encrypted database: so many polynomials of the small ring are read for it."""
        return self.add_object("stored", 1, self.params.small_bytes(polynomials), name)

    def use_key(self, key: str) -> None:
        """Register an evaluation key, full chain, the first time that it is used; `finish` cuts truncated ones."""
        if key not in self._keys:
            self._keys[key] = self.add_object("key", self.params.num_q, self.params.key_bytes(key=key), key)

    def add(
        self,
        kind: OpKind,
        *,
        limbs_in: int,
        limbs_out: int,
        operands: Sequence[int] = (),
        output: int | None,
        key: str | None = None,
        plaintext: int | None = None,
        step: int | None = None,
        implied_rescales: int = 0,
        implied_scalar_mults: int = 0,
        origin: str | None = None,
        start_s: float | None = None,
        end_s: float | None = None,
    ) -> int:
        """Append one operation and return its id."""
        if key is not None and key not in self._keys:
            self.use_key(key)
        if origin is None:
            origin = ORIGIN_MODELLED if self._modelled else ORIGIN_CALLED
        op_id = len(self._ops)
        self._ops.append(
            (
                op_id,
                _WORDS[kind],
                origin,
                limbs_in,
                limbs_out,
                tuple(operands),
                output,
                key,
                plaintext,
                step,
                implied_rescales,
                implied_scalar_mults,
                self._scope_path,
                start_s,
                end_s,
            )
        )
        if self.on_add is not None:
            self.on_add(op_id)
        return op_id

    def finish(self, meta: TraceMeta) -> Trace:
        """The tables of everything that was added. The builder may go on afterwards."""
        operations = rows_to_table(self._ops, OPERATIONS_SCHEMA)
        trace = Trace(meta, operations, rows_to_table(self._objects, OBJECTS_SCHEMA))
        if not self.params.key_form.is_truncated:
            return trace
        objects = list(self._objects)
        for key, limbs in trace.key_limbs().items():
            place = self._keys[key]
            objects[place] = (place, "key", key, limbs, self.params.stored_key_bytes(limbs, key=key))
        return Trace(meta, operations, rows_to_table(objects, OBJECTS_SCHEMA))


def rows_to_table(rows: Sequence[Fields], schema: pa.Schema) -> pa.Table:
    """Rows of a schema, in its order of columns, as a table."""
    arrays = []
    for place, field in enumerate(schema):
        column = [row[place] for row in rows]  # a loop lets other threads in; `zip` of a million rows does not
        if pa.types.is_dictionary(field.type):
            arrays.append(pa.array(column, field.type.value_type).dictionary_encode().cast(field.type))
        else:
            arrays.append(pa.array(column, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)
