"""CryptOracle's product of two square matrices: two masked columns and rows a step, spread by rotations.

Its calls at order 32 are those of Table 3.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from penstock.program.evaluator.protocol import Evaluator, Values
from penstock.program.workloads import matrix_multiplication
from penstock.program.workloads.matrix_multiplication import Data, Size
from penstock.program.workloads.matrix_multiplication import blank as blank
from penstock.program.workloads.parts.check import Check, refuse_path
from penstock_studies.workloads import algorithms

NAME = "cryptoracle-matrix-multiplication"
DESCRIPTION = "product of two encrypted square matrices as CryptOracle computes it"
SOURCE = "CryptOracle (Brynds et al., ISPASS 2026), Tables 2, 3 and 5; Polycircuit MatrixMultiplication"
TOLERANCE = 1e-6


SIZES = {
    "ci": Size(params="insecure-cryptoracle", order=8),
    "full": Size(params="cryptoracle", order=algorithms.ORDER),
    "order8": Size(params="cryptoracle", order=8),
    "order16": Size(params="cryptoracle", order=16),
    "order32": Size(params="cryptoracle", order=32),
    "order64": Size(params="cryptoracle-8192-slots", order=64),
}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "full"


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """As of `matrix-multiplication`: entries uniform in [-1, 1]."""
    refuse_path(path, NAME, "its matrices are drawn from --seed")
    return matrix_multiplication.data(size, slots, seed)


def program(ev: Evaluator, data: Data, size: Size) -> Values:
    """The product, (order, order). Raises: ParamsError: 2 order^2 values do not fit in the slots."""
    algorithms.check_order(size.order, ev.params.slots)
    with ev.scope("input"):
        a, b = (ev.encrypt(m.reshape(-1), name=name) for m, name in ((data.a, "a"), (data.b, "b")))
    product = algorithms.matrix_multiplication(ev, a, b, size.order)
    with ev.scope("output"):
        rows: Values = np.real(ev.decrypt(product))[: size.order**2].reshape(size.order, size.order)
        return rows


def check(clear: Values, got: Values, data: Data, size: Size) -> Check:
    """Entries near those of the clear reading, which is the product."""
    exact = float(np.max(np.abs(clear - data.a @ data.b)))
    others = {f"the clear reading is the product within {TOLERANCE:g}": exact <= TOLERANCE}
    return Check.near("entries", clear, got, TOLERANCE, others)
