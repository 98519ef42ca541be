"""Product of two encrypted square matrices, by the method of Jiang, Kim, Lauter, Song (CCS 2018, ePrint 2018/1041).

A d x d matrix fills d^2 slots, row by row, repeated until the slots are full. Two linear transforms bring the factors
to sigma(A) and tau(B); then AB = sum_k shift_columns^k(sigma(A)) * shift_rows^k(tau(B)), d products in all.
Three levels: transforms, column shifts (two masked rotations), products.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.errors import ParamsError
from penstock.program.evaluator.circuits.linear import bsgs_diagonals, linear_transform
from penstock.program.evaluator.protocol import Evaluator, Values
from penstock.program.workloads.parts.check import Check, refuse_path

NAME = "matrix-multiplication"
DESCRIPTION = "product of two encrypted square matrices"
SOURCE = "Jiang, Kim, Lauter, Song, CCS 2018 (ePrint 2018/1041)"
TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The order of the matrices."""

    params: str
    order: int


SIZES = {
    "demo": Size(params="openfhe-demo", order=16),
    "ci": Size(params="insecure-ci", order=8),
    "full": Size(params="openfhe-bench", order=64),
    # The orders of CryptOracle's sweep, on its parameters.
    "d8": Size(params="cryptoracle", order=8),
    "d16": Size(params="cryptoracle", order=16),
    "d32": Size(params="cryptoracle", order=32),
    "d64": Size(params="cryptoracle", order=64),
}
DEFAULT_SIZE = "demo"
ACCELERATOR_SIZE = "full"


@dataclass(frozen=True, slots=True)
class Data:
    """Two matrices of shape (order, order)."""

    a: Values
    b: Values


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """Matrices with entries uniform in [-1, 1]."""
    refuse_path(path, NAME, "its matrices are drawn from --seed")
    generator = np.random.default_rng(seed)
    shape = (size.order, size.order)
    return Data(generator.uniform(-1, 1, shape), generator.uniform(-1, 1, shape))


def blank(size: Size, slots: int) -> Data:
    """The same shapes without values."""
    zeros = np.zeros((size.order, size.order))
    return Data(zeros, zeros)


def program(ev: Evaluator, data: Data, size: Size) -> Values:
    """The product, (order, order)."""
    d, slots = size.order, ev.params.slots
    if d & (d - 1) or d * d > slots:
        raise ParamsError(f"{NAME}: order {d} is a power of two with order^2 <= slots ({slots})")
    repeat = slots // (d * d)

    def tiled(values: Values) -> Values:
        return np.tile(values.reshape(-1), repeat)

    with ev.scope("input"):
        a = ev.encrypt(tiled(data.a), name="A")
        b = ev.encrypt(tiled(data.b), name="B")

    row, column = np.divmod(np.arange(d * d), d)

    def diagonals(source: Values) -> dict[int, Values]:
        # Slot i takes the value of slot source[i]: a diagonal for each distance, in the shorter direction.
        distance = (source - np.arange(d * d) + d * d // 2) % (d * d) - d * d // 2
        return {int(k): tiled((distance == k).astype(np.float64)) for k in np.unique(distance)}

    with ev.scope("sigma"):
        # sigma(A)[i, j] = A[i, i + j]: diagonals 1 - d … d - 1, all of which exist.
        sigma = bsgs_diagonals(ev, diagonals(row * d + (row + column) % d), name="sigma")
        sheared_a = ev.rescale(linear_transform(ev, a, sigma))
    with ev.scope("tau"):
        # tau(B)[i, j] = B[i + j, j]: diagonals are multiples of d.
        steps = {k // d: v for k, v in diagonals((row + column) % d * d + column).items()}
        tau = bsgs_diagonals(ev, steps, stride=d, name="tau")
        sheared_b = ev.rescale(linear_transform(ev, b, tau, stride=d))
    total = None
    rotated_b = [sheared_b, *ev.rotate_many(sheared_b, [k * d for k in range(1, d)])]
    rotated_a = ev.rotate_many(sheared_a, list(range(1, d)) + [k - d for k in range(1, d)])
    for k in range(d):
        with ev.scope("product"):
            if k == 0:
                # One level down as well, so that all products meet at the same limbs.
                left = ev.rescale(ev.mult(sheared_a, 1.0))
            else:
                inside = ev.encode(tiled((column < d - k).astype(np.float64)), name=f"inside[{k}]")
                wrapped = ev.encode(tiled((column >= d - k).astype(np.float64)), name=f"wrapped[{k}]")
                left = ev.add(ev.mult(rotated_a[k - 1], inside), ev.mult(rotated_a[d - 1 + k - 1], wrapped))
                left = ev.rescale(left)
            term = ev.mult(left, rotated_b[k])
            total = term if total is None else ev.add(total, term)
    with ev.scope("output"):
        return np.real(ev.decrypt(ev.rescale(total)))[: d * d].reshape(d, d)


def check(clear: Values, got: Values, data: Data, size: Size) -> Check:
    """Entries within 1e-3, and the clear reading equal to numpy's product."""
    reference = float(np.max(np.abs(data.a @ data.b - clear)))
    others = {"the clear reading equals numpy's product to 1e-9": reference <= 1e-9}
    return Check.near("entries", clear, got, TOLERANCE, others, {"max_abs_error_of_clear_reading": reference})
