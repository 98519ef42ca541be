"""Sums over slots by rotate-and-add."""

from __future__ import annotations

from typing import Any

from penstock.errors import UsageError


def fold(ev: Any, a: Any, length: int, stride: int = 1) -> Any:
    """Slot i becomes the sum of slots i, i+stride, …, i+(length-1)*stride (cyclically), in log2(length) rotations.

    Args:   length: a power of two; stride: in slots, negative to sum to the left neighbours.
    Raises: UsageError: `length` is no power of two.
    """
    if length < 1 or length & (length - 1):
        raise UsageError(f"fold over {length} slots: the length is a power of two")
    step = 1
    while step < length:
        a = ev.add(a, ev.rotate(a, step * stride))
        step *= 2
    return a
