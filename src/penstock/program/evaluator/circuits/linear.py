"""Matrix times encrypted vector by diagonals, with baby steps and giant steps (BSGS)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from penstock.errors import UsageError
from penstock.program.evaluator.protocol import Ciphertext, Evaluator, Plain, Values


def diagonals_of(matrix: Values) -> dict[int, Values]:
    """The non-zero generalized diagonals of a square matrix: d_k[i] = matrix[i, (i + k) mod n].

    Rotations turn over all slots. A matrix of smaller order n needs an operand whose values repeat with the period n,
    and its diagonals repeated likewise (`np.tile`).

    Raises: UsageError: no square matrix of numbers.

    >>> sorted(diagonals_of(np.eye(4)))
    [0]
    """
    try:
        matrix = np.asarray(matrix)
    except ValueError:
        raise UsageError("a matrix has rows of several lengths: give as many numbers in each as it has rows") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size or matrix.dtype.kind not in "biufc":
        raise UsageError(
            f"a matrix of shape {matrix.shape} and type {matrix.dtype} has no diagonals: give a square one of numbers; "
            "fill it up with zeros"
        )
    n = len(matrix)
    rows = np.arange(n)
    diagonals = {k: matrix[rows, (rows + k) % n] for k in range(n)}
    return {k: d for k, d in diagonals.items() if np.any(d != 0)}


def baby_steps(num_diagonals: int) -> int:
    """A power of two near sqrt(num_diagonals): how many baby steps BSGS takes."""
    return 1 << max(0, round(math.log2(max(1, num_diagonals)) / 2))


def linear_transform(ev: Evaluator, a: Ciphertext, diagonals: Mapping[int, Plain], *, stride: int = 1) -> Ciphertext:
    """sum_k diagonal_k * rotate(a, k * stride); the result is a product, not rescaled.

    `diagonals` maps k to the diagonal already rotated for BSGS (`bsgs_diagonals` does that). Baby steps share one
    digit decomposition. Without a diagonal the matrix is zero, and so is the product. Source: Halevi & Shoup, CRYPTO
    2014 and 2018 (ePrint 2014/106, 2018/244).
    """
    if not diagonals:
        return ev.mult(a, 0.0)
    baby = baby_steps(len(diagonals))
    low, high = min(diagonals), max(diagonals)
    used = sorted({(k - low) % baby for k in diagonals})
    rotated = dict(zip(used, ev.rotate_many(a, [j * stride for j in used]), strict=True))
    total = None
    for giant in range(low, high + 1, baby):
        steps = [j for j in used if giant + j in diagonals]
        if not steps:
            continue
        inner = ev.weighted_sum([rotated[j] for j in steps], [diagonals[giant + j] for j in steps])
        inner = ev.rotate(inner, giant * stride)
        total = inner if total is None else ev.add(total, inner)
    return total


def bsgs_diagonals(ev: Evaluator, diagonals: Mapping[int, Values], *, stride: int = 1, name: str) -> dict[int, Plain]:
    """Diagonals encoded for `linear_transform`: each rotated back by its giant step.

    Raises: UsageError: a diagonal that does not fill all slots.
    """
    slots = ev.params.slots
    if short := [k for k, values in diagonals.items() if np.shape(values) != (slots,)]:
        raise UsageError(
            f"diagonal {short[0]} has shape {np.shape(diagonals[short[0]])}, and rotations turn over {slots} slots: "
            f"repeat it to ({slots},) with np.tile, as the values of the operand repeat"
        )
    baby, low = baby_steps(len(diagonals)), min(diagonals, default=0)
    return {
        k: ev.encode(np.roll(values, ((k - low) // baby * baby + low) * stride), name=f"{name}[{k}]")
        for k, values in diagonals.items()
    }
