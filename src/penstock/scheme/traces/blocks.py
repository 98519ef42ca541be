"""Runs of operations that a trace repeats: cut out relative to where they stand, and written again elsewhere.

A circuit writes the same rows each time that it meets an operand of the same limbs. Only the numbers of operations and
of new objects differ, and the scope. A block holds the rows without these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

Fields: TypeAlias = tuple[Any, ...]
"""A row of one of the tables of a trace, in the order of its columns."""
ABSOLUTE = 1 << 40
"""Added to the number of an object that was there before a block began and is not among its operands."""

_OPERANDS, _OUTPUT, _PLAINTEXT, _SCOPE = 4, 5, 7, 11
"""Columns of the operations of a block."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a block begins: operations and objects so far, and the scope that is open."""

    operations: int
    objects: int
    scope: str


@dataclass(frozen=True)
class Block:
    """Rows between two places. Equal blocks are the same work on other operands."""

    operations: tuple[Fields, ...]
    """As rows of a trace, without the number; objects are relative, the scope is what follows that of the place."""
    objects: tuple[Fields, ...]
    """New ones, without their numbers."""

    @cached_property
    def columns(self) -> list[Fields]:
        """The operations by column."""
        return list(zip(*self.operations, strict=True))

    @cached_property
    def object_columns(self) -> list[Fields]:
        """The objects by column."""
        return list(zip(*self.objects, strict=True))

    @cached_property
    def scopes(self) -> frozenset[str]:
        """The different ones."""
        return frozenset(self.columns[_SCOPE])

    @cached_property
    def numbers(self) -> frozenset[int]:
        """All relative numbers of objects."""
        single = (number for column in (_OUTPUT, _PLAINTEXT) for number in self.columns[column] if number is not None)
        return frozenset(chain(single, *self.columns[_OPERANDS]))


def cut(operations: Sequence[Fields], objects: Sequence[Fields], place: Place, operands: Sequence[int]) -> Block:
    """The block from a place to the end.

    Args:   operations, objects: rows of a whole trace so far; operands: objects that the block works on.
    """
    inputs = {number: -1 - i for i, number in enumerate(operands)}
    first, prefix = place.objects, len(place.scope)

    def relative(number: int | None) -> int | None:
        if number is None:
            return None
        return number - first if number >= first else inputs.get(number, number + ABSOLUTE)

    rows = [
        (*row[1:5], tuple(map(relative, row[5])), relative(row[6]), row[7], relative(row[8]), *row[9:12],
         row[12][prefix:], *row[13:])
        for row in operations[place.operations :]
    ]  # fmt: skip
    return Block(tuple(rows), tuple(row[1:] for row in objects[first:]))


def paste(
    operations: list[Fields],
    objects: list[Fields],
    block: Block,
    place: Place,
    operands: Sequence[int],
) -> None:
    """Append a block, for other operands, where a trace ends now."""
    first, scope = place.objects, place.scope
    if block.objects:
        objects.extend(zip(range(first, first + len(block.objects)), *block.object_columns, strict=True))
    if not block.operations:
        return

    def absolute(number: int) -> int:
        if number >= ABSOLUTE:
            return number - ABSOLUTE
        return number + first if number >= 0 else operands[-1 - number]

    absolute_of: dict[int | None, int | None] = {number: absolute(number) for number in block.numbers}
    absolute_of[None] = None
    at, named = absolute_of.__getitem__, {scope_end: scope + scope_end for scope_end in block.scopes}
    columns: list[Iterable[Any]] = [*block.columns]
    columns[_OPERANDS] = [tuple(map(at, operand_row)) for operand_row in columns[_OPERANDS]]
    for column in (_OUTPUT, _PLAINTEXT):
        columns[column] = map(at, columns[column])
    columns[_SCOPE] = map(named.__getitem__, columns[_SCOPE])
    operations.extend(zip(range(place.operations, place.operations + len(block.operations)), *columns, strict=True))
