"""Sums over slots by rotate-and-add."""

from __future__ import annotations

import numpy as np

from penstock.errors import UsageError
from penstock.program.evaluator.arguments import whole
from penstock.program.evaluator.protocol import Ciphertext, Evaluator


def fold(ev: Evaluator, a: Ciphertext, length: int, stride: int = 1) -> Ciphertext:
    """Slot i becomes the sum of slots i, i+stride, …, i+(length-1)*stride (cyclically), in log2(length) rotations.

    Args:   length: a power of two; stride: in slots, negative to sum to the left neighbours.
    Raises: UsageError: `length` is not a power of two.
    """
    operands = [a]
    fold_abreast(ev, operands, length, stride)
    return operands[0]


def fold_abreast(ev: Evaluator, operands: list[Ciphertext], length: int, stride: int = 1) -> None:
    """As `fold`, of each of `operands`, which are replaced: step by step together, so that one key serves them all."""
    if not isinstance(length, int | np.integer) or length < 1 or length & (length - 1):
        raise UsageError(f"fold over {length} slots: the length is a power of two")
    step, stride = 1, whole("fold: the stride", stride)
    while step < length:
        for i, a in enumerate(operands):
            operands[i] = ev.add(a, ev.rotate(a, step * stride))
        step *= 2
