"""CryptOracle's sign: a series of degree 1007, and the terms 1009 to 1023 by hand.

Its calls are those of Table 3; [the page](docs/studies/cryptoracle.md) says where a count differs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from penstock.program.evaluator.protocol import Evaluator, Values
from penstock.program.workloads.own import OneSize as Size
from penstock.program.workloads.parts.check import Check, check_series, refuse_path
from penstock.program.workloads.sign_evaluation import Data
from penstock.program.workloads.sign_evaluation import blank as blank
from penstock_studies.workloads import algorithms

NAME = "cryptoracle-sign-evaluation"
DESCRIPTION = "sign of an encrypted vector as CryptOracle computes it: a series of degree 1007, eight terms by hand"
SOURCE = "CryptOracle (Brynds et al., ISPASS 2026), Tables 2, 3 and 5; Polycircuit SignEvaluation"
TOLERANCE = 1e-4
"""Encrypted against clear."""
BOUND = 1.0
"""Inputs lie in [-BOUND, BOUND]."""
FIT = 0.1
"""Of the series to the function itself."""


SIZES = {"ci": Size(params="insecure-cryptoracle"), "full": Size(params="cryptoracle")}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "full"


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """Points with magnitudes uniform from 0.01 to 1: nearer to zero the series is not the sign."""
    refuse_path(path, NAME, "its points are drawn from --seed")
    generator = np.random.default_rng(seed)
    return Data(generator.uniform(0.01, BOUND, slots) * generator.choice([-1.0, 1.0], slots))


def program(ev: Evaluator, data: Data, size: Size) -> Values:
    """The function at every point, (slots,)."""
    with ev.scope("input"):
        x = ev.encrypt(data.x, name="x")
    y = algorithms.sign_evaluation(ev, x)
    with ev.scope("output"):
        return np.real(ev.decrypt(y))


def check(clear: Values, got: Values, data: Data, size: Size) -> Check:
    """Values near those of the clear reading, and these near the function itself."""
    return check_series(clear, got, np.sign(data.x), TOLERANCE, FIT)
