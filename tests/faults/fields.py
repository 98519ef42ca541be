"""Mutations that know a format: numbers at their limits in the fields of bytes, and in the leaves of a record."""

from __future__ import annotations

import copy
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

LIMITS = (0, 1, 2, 3, 7, 1 << 10, 1 << 16, (1 << 20) + 1, 1 << 31, (1 << 31) - 1, 1 << 32, 1 << 40, 1 << 63)
REALS = (math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, 5e-324, 1e-300, 1e300, 1.7976931348623157e308, 1.5)


@dataclass(frozen=True)
class Field:
    """A number of `size` bytes, little-endian, at `at`; with `real` a double."""

    name: str
    at: int
    size: int
    real: bool = False


def number(rng: Any, size: int, was: int) -> int:
    """A number that `size` bytes hold: at a limit, or near the one that was there."""
    all_bits = (1 << 8 * size) - 1
    near = (was + 1, was - 1, was * 2, was // 2, was ^ 1 << int(rng.integers(8 * size)), -was, all_bits, all_bits >> 1)
    chosen = (*LIMITS, *near)
    return chosen[int(rng.integers(len(chosen)))] & all_bits


def set_field(content: bytes, field: Field, rng: Any) -> bytes:
    """`content` with another number in a field."""
    end = field.at + field.size
    if field.real:
        (was,) = struct.unpack_from("<d", content, field.at)
        chosen = (*REALS, was * 2, was / 3, -was)
        packed = struct.pack("<d", chosen[int(rng.integers(len(chosen)))])
    else:
        packed = number(rng, field.size, int.from_bytes(content[field.at : end], "little")).to_bytes(
            field.size, "little"
        )
    return content[: field.at] + packed + content[end:]


def set_some(content: bytes, fields: Sequence[Field], rng: Any) -> tuple[bytes, str]:
    """One or two fields have another number."""
    chosen = [fields[int(rng.integers(len(fields)))] for _ in range(1 if rng.random() < 0.8 else 2)]
    for field in chosen:
        content = set_field(content, field, rng)
    return content, "field " + " and ".join(field.name for field in chosen)


LEAVES: tuple[Any, ...] = (
    None, True, "", "0", "../x", "a\0b", "\ud800", "x" * 3000, [], {}, [[]], [1 << 62], {"a": {"b": []}}, 0, -1, 1, 2,
    3, 1 << 31, 1 << 32, 1 << 40, 1 << 63, 1 << 64, 1 << 70, 10**400, -(1 << 63), 0.5, -0.0, math.nan, math.inf, 1e308,
)  # fmt: skip


def _leaves(record: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of everything below the top."""
    if path:
        yield path
    if isinstance(record, dict):
        for name in record:
            yield from _leaves(record[name], (*path, name))
    elif isinstance(record, list):
        for index in range(min(len(record), 40)):
            yield from _leaves(record[index], (*path, index))


def set_leaf(record: dict[str, Any], rng: Any) -> tuple[dict[str, Any], str]:
    """A copy of a JSON record in which a value is another, gone, there twice, or has a stranger beside it."""
    changed = copy.deepcopy(record)
    places = list(_leaves(changed))
    path = places[int(rng.integers(len(places)))]
    parent: Any = changed
    for step in path[:-1]:
        parent = parent[step]
    was, how = parent[path[-1]], rng.random()
    if how < 0.08:
        del parent[path[-1]]
        return changed, f"without {path}"
    if how < 0.12 and isinstance(parent, list):
        parent.append(was)
        return changed, f"{path} twice"
    if how < 0.12 and isinstance(parent, dict):
        parent["stranger"] = 1
        return changed, f"a stranger beside {path}"
    if how < 0.5 and isinstance(was, int) and not isinstance(was, bool):
        chosen = (was + 1, was - 1, was * 2, was // 2, -was, float(was), str(was))
        parent[path[-1]] = chosen[int(rng.integers(len(chosen)))]
    else:
        parent[path[-1]] = copy.deepcopy(LEAVES[int(rng.integers(len(LEAVES)))])
    return changed, f"{path} {str(was)[:20]!r} -> {str(parent[path[-1]])[:20]!r}"
