"""Runs of operations that a trace repeats: cut out relative to where they stand, and written again elsewhere.

A circuit writes the same rows each time that it meets an operand of the same limbs. Only the numbers of operations and
of new objects differ, and the scope. A block holds the rows without these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

ABSOLUTE = 1 << 40
"""Added to the number of an object that was there before a block began and is not among its operands."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a block begins: operations and objects so far, and the scope that is open."""

    operations: int
    objects: int
    scope: str


@dataclass(frozen=True, slots=True)
class Block:
    """Rows between two places. Equal blocks are the same work on other operands."""

    operations: tuple[tuple[Any, ...], ...]
    """As rows of a trace, without the number; objects are relative, the scope is what follows that of the place."""
    objects: tuple[tuple[Any, ...], ...]
    """New ones, without their numbers."""


def cut(
    operations: Sequence[tuple[Any, ...]], objects: Sequence[tuple[Any, ...]], place: Place, operands: Sequence[int]
) -> Block:
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
    operations: list[tuple[Any, ...]],
    objects: list[tuple[Any, ...]],
    block: Block,
    place: Place,
    operands: Sequence[int],
) -> None:
    """Append a block, for other operands, where a trace ends now."""
    first, scope = place.objects, place.scope

    def absolute(number: int | None) -> int | None:
        if number is None:
            return None
        if number >= ABSOLUTE:
            return number - ABSOLUTE
        return number + first if number >= 0 else operands[-1 - number]

    for i, row in enumerate(block.objects, start=first):
        objects.append((i, *row))
    for i, row in enumerate(block.operations, start=place.operations):
        operations.append(
            (i, *row[:4], tuple(map(absolute, row[4])), absolute(row[5]), row[6], absolute(row[7]), *row[8:11],
             scope + row[11], *row[12:])
        )  # fmt: skip
