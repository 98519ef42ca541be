"""Training of logistic regression on encrypted images: mini-batch gradient descent with Nesterov momentum.

The design follows HELR (Han et al., AAAI 2019, ePrint 2018/662). A batch is packed `rows` samples a ciphertext, one
sample a row of 256 columns (196 pixels, a bias, zeros). Labels are folded into the samples. The sigmoid is HELR's cubic
least-squares fit on [-8, 8], with the learning rate folded into its coefficients. Inner sums are rotate-and-add. One
iteration takes six levels. The model is bootstrapped before an iteration that would not fit.

Weights and momentum are 256 slots that repeat. At accelerator parameters the program follows Cheddar, in `parts.helr`
(`pair`): five levels an iteration, one refresh for both as real and imaginary parts. Other ways are separate sizes:
`merged`, side by side in a period of 512 slots, with one level to take them apart; `period`, each by itself; and
`columns`, the packing of HELR's own code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np

from penstock.errors import ParamsError, UsageError
from penstock.program.evaluator.circuits.bootstrap import input_levels, refreshed_levels
from penstock.program.evaluator.circuits.sums import fold, fold_abreast
from penstock.program.evaluator.placement import start_levels
from penstock.program.evaluator.protocol import Ciphertext, Evaluator, Operand, Plain, Values
from penstock.program.workloads import Check
from penstock.program.workloads.parts.helr import (
    ColumnTraining,
    PairTraining,
    Training,
    columns_per_ciphertext,
    packed_in_columns,
)
from penstock.program.workloads.parts.images import SIDE, digits_odd_even, mnist_three_eight
from penstock.program.workloads.parts.training_size import COLUMNS, NAME, Size
from penstock.scheme.params.ckks import CkksParameters

DESCRIPTION = "logistic-regression training on encrypted handwritten digits (HELR)"
SOURCE = "Han et al., AAAI 2019 (ePrint 2018/662)"

LEVELS_PER_ITERATION = 6
WEIGHT_TOLERANCE = 1e-3
_REFRESH_SLOTS = {"full": None, "period": COLUMNS, "merged": 2 * COLUMNS, "pair": COLUMNS, "columns": None}
_PARTS = ((1, 0, "weights"), (0, 1, "momentum"))
"""The halves of the merged model."""
ACCURACY_TOLERANCE = 0.005


SIZES = {
    "demo": Size(params="openfhe-demo", batch=512, num_batches=2, iterations=2, learning_rate=2.0),
    # As many iterations as 128 bit leave levels for at N = 2^16 without a refresh; its keys are gigabytes.
    "deep": Size(params="openfhe-deep", batch=512, num_batches=2, iterations=5, learning_rate=2.0, abreast=2),
    "ci": Size(params="insecure-ci", batch=64, num_batches=2, iterations=2, learning_rate=1.0),
    "full": Size(params="openfhe-bootstrap", batch=1024, num_batches=1, iterations=10, learning_rate=1.0),
    # A ring that is too small to be secure, so that the model is bootstrapped within seconds.
    "ci-merged": Size(
        params="insecure-resnet20", batch=8, num_batches=2, iterations=3, learning_rate=1.0, refresh="merged"
    ),
    # The paper's own data, MNIST's 3 and 8: 11,982 samples are 11 whole batches of 1024. Refreshed as in Cheddar.
    "helr": Size(params="sharp", batch=1024, num_batches=11, iterations=32, learning_rate=1.0, refresh="pair"),
    "helr-merged": Size(params="sharp", batch=1024, num_batches=11, iterations=32, learning_rate=1.0, refresh="merged"),
    "helr-apart": Size(params="sharp", batch=1024, num_batches=11, iterations=32, learning_rate=1.0, refresh="period"),
    "helr-columns": Size(
        params="sharp", batch=1024, num_batches=11, iterations=32, learning_rate=1.0, refresh="columns"
    ),
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
        batches.append(_packed(size, slots, padded))
    return Data(batches, samples[test], source.labels[test], source.description)


def blank(size: Size, slots: int) -> Data:
    """The same shapes without values, for the `trace` reading."""
    batch = _packed(size, slots, np.zeros((size.batch, COLUMNS)))
    return Data([batch] * size.num_batches, np.zeros((0, 0)), np.zeros(0))


def _packed(size: Size, slots: int, padded: Values) -> list[Values]:
    """Slots of each ciphertext of one batch, (batch, 256) samples times their label."""
    if size.refresh == "columns":
        return packed_in_columns(padded, columns_per_ciphertext(size, slots))
    rows = rows_per_ciphertext(size, slots)
    return [padded[i : i + rows].reshape(-1) for i in range(0, size.batch, rows)]


def blocks(size: Size, refresh: str) -> list[int]:
    """Levels of each iteration: taking the model apart where it is merged, the gradient, the momentum."""
    apart, last = int(refresh == "merged"), size.iterations - 1
    return [apart * (t > 0) + LEVELS_PER_ITERATION - (t in (0, last)) for t in range(size.iterations)]


def refresh_of(size: Size, params: CkksParameters) -> str:
    """The way of bootstrapping the model at these parameters.

    Raises: UsageError: a `refresh` that does not exist.
    """
    if size.refresh not in _REFRESH_SLOTS:
        raise UsageError(f"refresh '{size.refresh}': one of {', '.join(_REFRESH_SLOTS)}")
    if size.refresh == "pair" and params.library == "accelerator":
        return "pair"
    if size.refresh in ("merged", "pair") and params.bootstrap is not None:
        short = refreshed_levels(params) < max(blocks(size, "merged")) + input_levels(params)
        return "period" if short else "merged"
    return "merged" if size.refresh == "pair" else size.refresh


def program(ev: Evaluator, data: Data, size: Size) -> Values:
    """The trained weights, (197,): `size.iterations` steps from zero.

    Raises: UsageError: a `refresh` that does not exist; ParamsError: a set that does not carry the iterations.
    """
    refresh = refresh_of(size, ev.params)
    if refresh == "pair":
        return PairTraining(ev, size).run(data.batches)[: SIDE * SIDE + 1]
    if refresh == "columns":
        return ColumnTraining(ev, size).run(data.batches)[: SIDE * SIDE + 1]
    return _Training(ev, size).run(data)


class _Training(Training):
    """One training. The model is a list: weights and momentum, or one ciphertext with both side by side."""

    def __init__(self, ev: Evaluator, size: Size) -> None:
        self.refresh = refresh_of(size, ev.params)
        self.merged = self.refresh == "merged"
        super().__init__(ev, size, COLUMNS, rows_per_ciphertext(size, ev.params.slots), blocks(size, self.refresh))
        if self.merged:
            self.parts = [self._sides(left, right, name) for left, right, name in _PARTS]

    def run(self, data: Data) -> Values:
        ev, size = self.ev, self.size
        with ev.scope("input"):
            batches = [
                [ev.encrypt(c, name=f"batch{b}[{i}]") for i, c in enumerate(batch)]
                for b, batch in enumerate(data.batches)
            ]
            weights = ev.encrypt(np.zeros(self.slots), name="weights")
            if self.refresh != "full":
                weights = ev.mod_drop(weights, start_levels(ev.params, self.blocks) + 1)
            model = [weights]
        for iteration in range(size.iterations):
            with ev.scope("iteration"):
                model = self._iteration(model, batches[iteration % size.num_batches], iteration)
        with ev.scope("output"):
            return np.real(ev.decrypt(model[0]))[: SIDE * SIDE + 1]

    def _iteration(self, model: list[Ciphertext], batch: Sequence[Ciphertext], iteration: int) -> list[Ciphertext]:
        ev = self.ev
        if self.chain.is_due(model[-1]):
            model = ev.bootstrap_many(model, _REFRESH_SLOTS[self.refresh])
        if self.merged and iteration > 0:
            weights, momentum = self._apart(model[0])
        else:
            weights, momentum = model[0], model[-1]
        groups = (batch[first : first + self.size.abreast] for first in range(0, len(batch), self.size.abreast))
        gradient = reduce(ev.add, (part for group in groups for part in self._gradients(group, momentum)))
        with ev.scope("backward"):
            # The rows fill the slots only where the batch does; the sum goes round all of them.
            gradient = fold(ev, ev.rescale(gradient), self.slots // COLUMNS, COLUMNS)
        with ev.scope("update"):
            stepped = ev.add(momentum, gradient)
            eta = -iteration / (iteration + 3)
            if iteration + 1 == self.size.iterations:
                return [stepped]
            if eta == 0:
                # Weights and momentum are equal, and already side by side.
                return [stepped] if self.merged else [stepped, stepped]
            kept: Operand = 1 - eta
            moved: Operand = eta
            if self.merged:
                kept, moved = self._sides(1, kept, f"kept{iteration}"), self._sides(0, moved, f"moved{iteration}")
            mixed = ev.rescale(ev.add(ev.mult(stepped, kept), ev.mult(weights, moved)))
            return [mixed] if self.merged else [stepped, mixed]

    def _gradients(self, batch: Sequence[Ciphertext], momentum: Ciphertext) -> Iterator[Ciphertext]:
        """Of each ciphertext of samples, its rows not yet summed; products."""
        ev = self.ev
        with ev.scope("forward"):
            inner = [ev.rescale(ev.mult(samples, momentum)) for samples in batch]
            fold_abreast(ev, inner, COLUMNS)
            for i, product in enumerate(inner):
                inner[i] = ev.rescale(ev.mult(product, self.mask))
            fold_abreast(ev, inner, COLUMNS, -1)
        for samples in batch:
            product = inner.pop(0)
            with ev.scope("sigmoid"):
                slope = ev.add(ev.rescale(ev.mult(self.slope(product), product)), self.constant)
            with ev.scope("backward"):
                part = ev.mult(slope, samples)
            yield part

    def _apart(self, both: Ciphertext) -> list[Ciphertext]:
        """Weights and momentum, each with a period of 256 slots again. One level."""
        ev = self.ev
        with ev.scope("apart"):
            parts = [ev.rescale(ev.mult(both, side)) for side in self.parts]
            return [ev.add(part, ev.rotate(part, COLUMNS)) for part in parts]

    def _sides(self, left: float, right: float, name: str) -> Plain:
        """One number in the slots of the weights, another in the slots of the momentum."""
        period = np.repeat([float(left), float(right)], COLUMNS)
        return self.ev.encode(np.tile(period, self.slots // len(period)), name=name)


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
    numbers = {
        "accuracy_clear": accuracies[0],
        "accuracy_encrypted": accuracies[1],
        "chance_accuracy": chance,
        "num_test": float(len(data.test_labels)),
    }
    return Check.of(outcome, error, WEIGHT_TOLERANCE, numbers)
