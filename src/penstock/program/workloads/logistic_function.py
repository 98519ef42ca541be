"""The logistic function 1 / (1 + e^-x) on an encrypted vector, by one Chebyshev series over [-25, 25].

The library's own composite does the work (EvalChebyshevSeries, which EvalLogistic calls as well). The accuracy decides
the degree, which takes eight levels with the mapping of the interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.program.evaluator.protocol import Evaluator, Values
from penstock.program.workloads.parts.check import Check, check_series, refuse_path

NAME = "logistic-function"
DESCRIPTION = "logistic function of an encrypted vector, by a Chebyshev series"
SOURCE = "CryptOracle, Table 2; series: Chen, Chillotti, Song, EUROCRYPT 2019 (ePrint 2018/1043)"
BOUND = 25.0
"""Inputs lie in [-BOUND, BOUND], CryptOracle's interval."""
TOLERANCE = 1e-4
"""Encrypted against clear."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The degree of the series, and its largest allowed error from the function itself."""

    params: str
    degree: int
    fit_tolerance: float


# Degree 119 is the highest that OpenFHE evaluates in 7 levels.
SIZES = {
    "ci": Size(params="insecure-ci", degree=59, fit_tolerance=1e-3),
    "full": Size(params="cryptoracle", degree=119, fit_tolerance=1e-5),
}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "full"


@dataclass(frozen=True, slots=True)
class Data:
    """The points, shape (slots,)."""

    x: Values


def logistic(x: Values) -> Values:
    """1 / (1 + e^-x).

    >>> float(logistic(np.array([0.0]))[0])
    0.5
    """
    return 1.0 / (1.0 + np.exp(-x))


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """Points uniform in the interval, its two ends among them."""
    refuse_path(path, NAME, "its points are drawn from --seed")
    x = np.random.default_rng(seed).uniform(-BOUND, BOUND, slots)
    x[0], x[-1] = -BOUND, BOUND
    return Data(x)


def blank(size: Size, slots: int) -> Data:
    """The same shape without values."""
    return Data(np.zeros(slots))


def program(ev: Evaluator, data: Data, size: Size) -> Values:
    """The function at every point, (slots,)."""
    with ev.scope("input"):
        x = ev.encrypt(data.x, name="x")
    y = ev.chebyshev_function(x, logistic, -BOUND, BOUND, size.degree)
    with ev.scope("output"):
        return np.real(ev.decrypt(y))


def check(clear: Values, got: Values, data: Data, size: Size) -> Check:
    """Values within 1e-4 of the clear reading, and that within the size's bound of the function itself."""
    return check_series(clear, got, logistic(data.x), TOLERANCE, size.fit_tolerance)
