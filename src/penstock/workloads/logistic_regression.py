"""Training of logistic regression on encrypted images: mini-batch gradient descent with Nesterov momentum.

The design of HELR (Han et al., AAAI 2019, ePrint 2018/662): a batch is packed `rows` samples a ciphertext, one sample
a row of 256 columns (196 pixels, a bias, zeros); labels are folded into the samples; the sigmoid is HELR's cubic
least-squares fit on [-8, 8], with the learning rate folded into its coefficients; inner sums are rotate-and-add.
One iteration takes six levels. The model is bootstrapped before an iteration that would not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from penstock.errors import ParamsError, UsageError
from penstock.program.circuits.sums import fold
from penstock.program.evaluator import Values
from penstock.workloads import Check
from penstock.workloads.images import SIDE, digits_odd_even, mnist_three_eight

NAME = "logistic-regression"
DESCRIPTION = "logistic-regression training on encrypted handwritten digits (HELR)"
SOURCE = "Han et al., AAAI 2019 (ePrint 2018/662)"

COLUMNS = 256
"""Slots of one sample: 196 pixels and a bias, padded to a power of two."""
LEVELS_PER_ITERATION = 6
SIGMOID = (0.5, -1.20096 / 8, 0.81562 / 8**3)
"""1 / (1 + e^x) over [-8, 8]: constant, linear and cubic coefficient (HELR, section 4.2)."""
WEIGHT_TOLERANCE = 1e-3
ACCURACY_TOLERANCE = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is trained, and on which parameters by default."""

    params: str
    batch: int
    """Samples of one mini-batch."""
    num_batches: int
    """Distinct mini-batches; iterations go round them."""
    iterations: int
    learning_rate: float


SIZES = {
    "demo": Size(params="openfhe-demo", batch=512, num_batches=2, iterations=2, learning_rate=2.0),
    "ci": Size(params="insecure-ci", batch=64, num_batches=2, iterations=2, learning_rate=1.0),
    "full": Size(params="openfhe-bootstrap", batch=1024, num_batches=1, iterations=10, learning_rate=1.0),
    # The paper's own data, MNIST's 3 and 8: 11,982 samples are 11 whole batches of 1024.
    "helr": Size(params="sharp", batch=1024, num_batches=11, iterations=32, learning_rate=1.0),
}
DEFAULT_SIZE = "demo"
ACCELERATOR_SIZE = "helr"


@dataclass(frozen=True, slots=True)
class Data:
    """Packed mini-batches, and the test set that stays in the clear."""

    batches: Sequence[Sequence[Values]]
    """batches[b][c]: the slots of ciphertext c of mini-batch b, rows of samples times their label."""
    test_samples: Values
    """(num_test, 197) features."""
    test_labels: Values
    """(num_test,) +1 and -1."""
    description: str = ""


def rows_per_ciphertext(size: Size, slots: int) -> int:
    """Samples in one ciphertext.

    Raises: ParamsError: not even one sample fits.
    """
    if slots < COLUMNS:
        raise ParamsError(f"{NAME} packs a sample in {COLUMNS} slots and the set has {slots}: take one with more slots")
    return min(size.batch, slots // COLUMNS)


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """Training batches and test set: the bundled digits, or MNIST's files in `path`.

    The split (80 % training) and the order come from `seed`. The data owner centres the pixels by the training mean.
    """
    source = digits_odd_even() if path is None else mnist_three_eight(path)
    rows = rows_per_ciphertext(size, slots)
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(source.labels))
    num_train = int(0.8 * len(order))
    if num_train < 1 or num_train == len(order):
        raise UsageError(f"{source.description}: {len(order)} images are too few to split into training and test")
    train, test = order[:num_train], order[num_train:]
    pixels = source.images.reshape(len(source.images), SIDE * SIDE)
    centred = pixels - pixels[train].mean(axis=0)
    samples = np.concatenate([centred, np.ones((len(centred), 1))], axis=1)
    batches = []
    for b in range(size.num_batches):
        chosen = train[(b * size.batch + np.arange(size.batch)) % num_train]
        signed = samples[chosen] * source.labels[chosen, None]
        padded = np.zeros((size.batch, COLUMNS))
        padded[:, : signed.shape[1]] = signed
        batches.append([padded[i : i + rows].reshape(-1) for i in range(0, size.batch, rows)])
    return Data(batches, samples[test], source.labels[test], source.description)


def blank(size: Size, slots: int) -> Data:
    """The same shapes without values, for the `trace` reading."""
    rows = rows_per_ciphertext(size, slots)
    zeros = np.zeros(rows * COLUMNS)
    return Data([[zeros] * (-(-size.batch // rows)) for _ in range(size.num_batches)], np.zeros((0, 0)), np.zeros(0))


def program(ev: Any, data: Data, size: Size) -> Values:
    """The trained weights, (197,): `size.iterations` steps from zero."""
    slots = ev.params.slots
    rows = rows_per_ciphertext(size, slots)
    with ev.scope("input"):
        batches = [
            [ev.encrypt(c, name=f"batch{b}[{i}]") for i, c in enumerate(batch)] for b, batch in enumerate(data.batches)
        ]
        weights = momentum = ev.encrypt(np.zeros(slots), name="weights")
    constant, linear, cubic = (size.learning_rate / size.batch * c for c in SIGMOID)
    # With u = cbrt(cubic) x the cubic needs no coefficient of its own: u (u^2 + linear / cbrt(cubic)) + constant.
    root = float(np.cbrt(cubic))
    first_column = np.zeros(slots)
    first_column[: rows * COLUMNS : COLUMNS] = root
    mask = ev.encode(first_column, name="first column")
    for iteration in range(size.iterations):
        with ev.scope("iteration"):
            if ev.levels(momentum) < LEVELS_PER_ITERATION:
                momentum, weights = ev.bootstrap(momentum), ev.bootstrap(weights)
            gradient = None
            for batch in batches[iteration % size.num_batches]:
                with ev.scope("forward"):
                    inner = ev.rescale(ev.mult(batch, momentum))
                    inner = fold(ev, inner, COLUMNS)
                    inner = ev.rescale(ev.mult(inner, mask))
                    scaled = fold(ev, inner, COLUMNS, -1)
                with ev.scope("sigmoid"):
                    square = ev.add(ev.rescale(ev.square(scaled)), linear / root)
                    slope = ev.add(ev.rescale(ev.mult(square, scaled)), constant)
                with ev.scope("backward"):
                    part = ev.mult(slope, batch)
                    gradient = part if gradient is None else ev.add(gradient, part)
            with ev.scope("backward"):
                # The rows fill the slots only where the batch does; the sum goes round all of them.
                gradient = fold(ev, ev.rescale(gradient), slots // COLUMNS, COLUMNS)
            with ev.scope("update"):
                stepped = ev.add(momentum, gradient)
                if iteration + 1 < size.iterations:
                    eta = -iteration / (iteration + 3)
                    if eta == 0:
                        momentum = stepped
                    else:
                        kept, moved = ev.mult(stepped, 1 - eta), ev.mult(weights, eta)
                        momentum = ev.rescale(ev.add(kept, moved))
                weights = stepped
    with ev.scope("output"):
        return np.real(ev.decrypt(weights))[: SIDE * SIDE + 1]


def accuracy(weights: Values, data: Data) -> float:
    """Share of the test set that the weights put on the right side."""
    return float(np.mean((data.test_samples @ weights > 0) == (data.test_labels > 0)))


def check(clear: Values, got: Values, data: Data, size: Size) -> Check:
    """Weights within 1e-3, the same test accuracy within half a point, better than the larger class."""
    error = float(np.max(np.abs(clear - got)))
    accuracies = accuracy(clear, data), accuracy(got, data)
    chance = max(float(np.mean(data.test_labels > 0)), float(np.mean(data.test_labels < 0)))
    outcome = {
        f"weights differ by at most {WEIGHT_TOLERANCE:g}": error <= WEIGHT_TOLERANCE,
        f"test accuracy differs by at most {100 * ACCURACY_TOLERANCE:g} points": abs(accuracies[0] - accuracies[1])
        <= ACCURACY_TOLERANCE,
        "test accuracy is above the larger class by 10 points": accuracies[1] >= chance + 0.1,
    }
    return Check(
        passed=all(outcome.values()), max_abs_error=error, tolerance=WEIGHT_TOLERANCE,
        numbers={
            "accuracy_clear": accuracies[0], "accuracy_encrypted": accuracies[1], "chance_accuracy": chance,
            "num_test": float(len(data.test_labels)),
        },
        rules=tuple(f"{rule}: {'holds' if held else 'does not hold'}" for rule, held in outcome.items()),
    )  # fmt: skip
