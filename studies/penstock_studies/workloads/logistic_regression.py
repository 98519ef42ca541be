"""CryptOracle's logistic regression: Nesterov's gradient on all samples in one ciphertext, refreshed each iteration.

Table 3 counts the calls of its main loop alone. The program counts those of the gradient too: EvalSumCols, EvalSumRows,
EvalLogistic and three calls beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.errors import ParamsError
from penstock.program.evaluator.protocol import Evaluator, Values
from penstock.program.workloads.parts.check import Check, refuse_path
from penstock_studies.workloads import algorithms
from penstock_studies.workloads.algorithms import ROW

NAME = "cryptoracle-logistic-regression"
DESCRIPTION = "training of a logistic regression as CryptOracle does it, refreshed each iteration"
SOURCE = "CryptOracle (Brynds et al., ISPASS 2026), Tables 2, 3 and 5; openfhe-logreg-training-examples, lr_nag"
FEATURES = 10
TOLERANCE = 1e-3
"""Encrypted against clear weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Samples of ten features, and iterations."""

    params: str
    samples: int
    iterations: int


SIZES = {
    "ci": Size(params="insecure-cryptoracle-regression", samples=64, iterations=2),
    "full": Size(params="cryptoracle-logistic-regression", samples=1024, iterations=10),
}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "full"


@dataclass(frozen=True, slots=True)
class Data:
    """Samples (samples, 10), normalized, and labels (samples,) in 0, 1."""

    x: Values
    labels: Values


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """Normal samples whose labels follow drawn weights."""
    refuse_path(path, NAME, "its samples are drawn from --seed")
    generator = np.random.default_rng(seed)
    x = generator.normal(0, 1, (size.samples, FEATURES))
    likely = 1 / (1 + np.exp(-x @ generator.normal(0, 1, FEATURES)))
    return Data(x, (generator.uniform(0, 1, size.samples) < likely).astype(np.float64))


def blank(size: Size, slots: int) -> Data:
    """The same shapes without values."""
    return Data(np.zeros((size.samples, FEATURES)), np.zeros(size.samples))


def program(ev: Evaluator, data: Data, size: Size) -> Values:
    """The weights, (10,). Raises: ParamsError: fewer than 16 slots a sample."""
    samples, slots = len(data.x), ev.params.slots
    if samples * ROW > slots:
        raise ParamsError(
            f"{NAME}: {samples} samples take {samples * ROW} slots, and the set has {slots}; take more slots"
        )
    padded = np.zeros((slots // ROW, ROW))
    padded[:samples, :FEATURES] = data.x
    labels = np.zeros((slots // ROW, ROW))
    labels[:samples] = data.labels[:, None]
    with ev.scope("input"):
        x = ev.encrypt(padded.reshape(-1), name="samples")
        negative = ev.encrypt(-algorithms.LEARNING_RATE / samples * padded.reshape(-1), name="negative samples")
        y = ev.encrypt(labels.reshape(-1), name="labels")
        weights = ev.encrypt(np.zeros(slots), name="weights")
    weights = algorithms.logistic_regression(ev, x, negative, y, weights, size.iterations)
    with ev.scope("output"):
        return np.real(ev.decrypt(weights))[:FEATURES]


def check(clear: Values, got: Values, data: Data, size: Size) -> Check:
    """Weights near those of the clear reading, which lower the loss."""

    def loss(weights: Values) -> float:
        logits = data.x @ weights
        return float(np.mean(np.log1p(np.exp(logits)) - data.labels * logits))

    lower = loss(clear) < loss(np.zeros(FEATURES)) or not data.x.any()
    others = {"the loss is below that of no weights": lower}
    return Check.near("weights", clear, got, TOLERANCE, others, {"loss": loss(got)})
