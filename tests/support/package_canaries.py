"""Inputs of 53 random bits, and the search of a package for any form of them.

A coarse form (one or two digits, a few bits) may stand in a package by chance, so it counts only as several in a row.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from penstock.program.package.content import Package
from penstock.program.package.file import open_package

ROW = 3
"""Neighbours that must be found together where one alone could be there by chance."""
FINE_DIGITS, FINE_BITS = 6, 32
"""From here on one number counts alone."""


def drawn(rng: np.random.Generator, size: int) -> np.ndarray:
    """Numbers in (-1, 1) whose significand has 53 random bits, the last one set."""
    return (rng.integers(1 << 52, 1 << 53, size) | 1) / 2.0**53 * rng.choice([-1.0, 1.0], size)


def is_canary(value: float) -> bool:
    """Whether a number has so many bits that it is nowhere by chance."""
    mantissa = int(abs(np.frexp(value)[0]) * 2**53)
    return mantissa % (1 << 8) != 0


def content_of(package: Package) -> bytes:
    """All numbers of a package, uncompressed."""
    constants = [np.asarray(package.constants.values(n)) for n in range(len(package.constants))]
    numbers = [part for each in package.instructions for part in (complex(each.number).real, complex(each.number).imag)]
    series = [number for each in package.series for number in (*each.coefficients, each.lower, each.upper)]
    return b"".join([*(each.tobytes() for each in constants), np.array(numbers).tobytes(), np.array(series).tobytes()])


def found_in(path: Path, values: Any) -> list[str]:
    """The forms in which a package's file, or a number in it, holds one of the values; in words."""
    return search(path.read_bytes() + content_of(open_package(path)), values)


def search(content: bytes, values: Any) -> list[str]:
    """The same of bytes. Complex values are searched by their parts; numbers of few bits are no canaries."""
    parts = np.asarray(values).ravel()
    flat = np.concatenate([parts.real, parts.imag]) if parts.dtype.kind == "c" else parts.astype(np.float64)
    canaries = [float(each) for each in flat if is_canary(float(each))]
    found = []
    for name, fine, encoded in _forms(canaries):
        rows = [[each] for each in encoded] if fine else [encoded[i : i + ROW] for i in range(len(encoded) - ROW + 1)]
        for at, row in enumerate(rows):
            if b"".join(row) in content and any(any(each) for each in row):
                found.append(f"input {at} as {name}")
    return found


def _forms(values: Sequence[float]) -> Iterator[tuple[str, bool, list[bytes]]]:
    """A form, whether one number in it counts alone, and the values in it."""
    array = np.array(values)
    for order in "<>":
        yield f"float64 ({order})", True, [struct.pack(f"{order}d", each) for each in values]
        yield f"float32 ({order})", True, [struct.pack(f"{order}f", each) for each in values]
    yield "text", True, [repr(each).encode() for each in values]
    yield "text of 8 digits", True, [f"{abs(each):.8f}".encode() for each in values]
    for digits in range(1, FINE_DIGITS + 1):
        rounded = np.round(array, digits)
        yield f"{digits} digits", digits >= FINE_DIGITS, [each.tobytes() for each in rounded]
        yield f"{digits} digits, float32", False, [each.tobytes() for each in rounded.astype(np.float32)]
    for bits in range(8, 61):
        scaled = np.rint(array * 2.0**bits)
        yield f"float64 of {bits} bits", bits >= FINE_BITS, [each.tobytes() for each in scaled]
        yield f"integer of {bits} bits", bits >= FINE_BITS, [each.tobytes() for each in scaled.astype(np.int64)]
        yield f"{bits} fractional bits", bits >= FINE_BITS, [(each / 2.0**bits).tobytes() for each in scaled]
        if bits < 31:
            yield f"int32 of {bits} bits", False, [each.tobytes() for each in scaled.astype(np.int32)]
