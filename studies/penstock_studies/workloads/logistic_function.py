"""CryptOracle's logistic function: a series of degree 57, and the terms 59 to 77 by hand.

Its calls are those of Table 3; [the page](docs/studies/cryptoracle.md) says where a count differs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from penstock.program.evaluator.protocol import Evaluator, Values
from penstock.program.workloads import logistic_function
from penstock.program.workloads.logistic_function import Data
from penstock.program.workloads.logistic_function import blank as blank
from penstock.program.workloads.own import OneSize as Size
from penstock.program.workloads.parts.check import Check, check_series, refuse_path
from penstock_studies.workloads import algorithms

NAME = "cryptoracle-logistic-function"
DESCRIPTION = "logistic function as CryptOracle computes it: one series, and ten terms by hand"
SOURCE = "CryptOracle (Brynds et al., ISPASS 2026), Tables 2, 3 and 5; Polycircuit LogisticFunction"
TOLERANCE = 1e-4
"""Encrypted against clear."""
BOUND = 25.0
"""Inputs lie in [-BOUND, BOUND]."""
FIT = 1e-4
"""Of the series to the function itself."""


SIZES = {"ci": Size(params="insecure-cryptoracle"), "full": Size(params="cryptoracle")}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "full"


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """Points uniform in the interval."""
    refuse_path(path, NAME, "its points are drawn from --seed")
    return Data(np.random.default_rng(seed).uniform(-BOUND, BOUND, slots))


def program(ev: Evaluator, data: Data, size: Size) -> Values:
    """The function at every point, (slots,)."""
    with ev.scope("input"):
        x = ev.encrypt(data.x, name="x")
    y = algorithms.logistic_function(ev, x)
    with ev.scope("output"):
        return np.real(ev.decrypt(y))


def check(clear: Values, got: Values, data: Data, size: Size) -> Check:
    """Values near those of the clear reading, and these near the function itself."""
    return check_series(clear, got, logistic_function.logistic(data.x), TOLERANCE, FIT)
