"""HELR as two open programs have it: in the form of Cheddar, and packed as in HELR's own code.

Both take five levels an iteration: samples times scores and the square of the scores are made at the same level, so
that the cubic and the product with the samples take two levels together.

- `PairTraining`: HELR1024 of Cheddar, open code of the group that made ARK and SHARP (github.com/scale-snu/cheddar-ae,
  unittest/HELR.cpp). A sample is a row of 256 columns, 1024 samples are eight ciphertexts; one bootstrapping of 256
  slots refreshes momentum and weights as real and imaginary parts. A conjugation takes them apart again.
- `ColumnTraining`: the packing of HELR's own code (github.com/KyoohyungHan/HELR, src/ML.cpp). The whole batch with 32
  of the 256 columns fills a ciphertext; scores are one ciphertext. Each of the eight parts of weights and of momentum
  is bootstrapped alone, at the 32 slots of its period.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce

import numpy as np

from penstock.errors import ParamsError
from penstock.program.evaluator.circuits.sums import fold
from penstock.program.evaluator.placement import Chain, start_levels
from penstock.program.evaluator.protocol import Ciphertext, Evaluator, Values
from penstock.program.workloads.parts.training_size import COLUMNS, NAME, SIGMOID, Size

Parts = list[Ciphertext]
"""Of the model or of a step: one ciphertext for each group of columns."""
LEVELS = 5
"""Of one iteration: inner product, mask, cubic (2), momentum."""


def five_level_blocks(size: Size) -> list[int]:
    """Levels of each iteration; the first and the last mix no momentum.

    >>> five_level_blocks(Size(params="sharp", batch=1024, num_batches=1, iterations=4, learning_rate=1.0))
    [4, 5, 5, 4]
    """
    last = size.iterations - 1
    return [LEVELS - (t in (0, last)) for t in range(size.iterations)]


def columns_per_ciphertext(size: Size, slots: int) -> int:
    """Columns that share a ciphertext with a whole batch.

    Raises: ParamsError: a batch that is not a power of two, or larger than the slots.
    """
    if size.batch & (size.batch - 1) or size.batch > slots:
        raise ParamsError(
            f"{NAME} packs a whole batch beside each other: {size.batch} samples are not a power of two up to the "
            f"{slots} "
            "slots of the set"
        )
    return min(COLUMNS, slots // size.batch)


def packed_in_columns(padded: Values, columns: int) -> list[Values]:
    """Slots of each ciphertext of a batch: (batch, 256) samples cut into parts of `columns` columns.

    >>> packed_in_columns(np.arange(8.0).reshape(2, 4), 2)
    [array([0., 1., 4., 5.]), array([2., 3., 6., 7.])]
    """
    return [padded[:, c : c + columns].reshape(-1) for c in range(0, padded.shape[1], columns)]


class Training:
    """Parts of every training: its blocks of levels, and the step's cubic in the first column of `rows` rows."""

    def __init__(self, ev: Evaluator, size: Size, columns: int, rows: int, blocks: list[int]) -> None:
        self.ev, self.size, self.columns, self.rows, self.blocks = ev, size, columns, rows, blocks
        self.slots: int = ev.params.slots
        self.chain = Chain(ev, blocks)
        constant, linear, cubic = (size.learning_rate / size.batch * c for c in SIGMOID)
        # With u = cbrt(cubic) x the gradient is (u^2 + linear / cbrt(cubic)) u z + constant z.
        root = float(np.cbrt(cubic))
        self.linear, self.constant = linear / root, constant
        first_column = np.zeros(self.slots)
        first_column[: rows * columns : columns] = root
        self.mask = ev.encode(first_column, name="first column")

    def slope(self, scores: Ciphertext) -> Ciphertext:
        ev = self.ev
        return ev.add(ev.rescale(ev.square(scores)), self.linear)


class _FiveLevels(Training, ABC):
    """What both programs share: weights and momentum in parts, and one step of all parts."""

    def __init__(self, ev: Evaluator, size: Size, columns: int) -> None:
        super().__init__(ev, size, columns, ev.params.slots // columns, five_level_blocks(size))

    def run(self, batches: Sequence[Sequence[Values]]) -> Values:
        """The trained weights, (256,)."""
        ev, size = self.ev, self.size
        with ev.scope("input"):
            packed = [
                [ev.encrypt(c, name=f"batch{b}[{i}]") for i, c in enumerate(batch)] for b, batch in enumerate(batches)
            ]
            limbs = start_levels(ev.params, self.blocks) + 1
            parts = COLUMNS // self.columns
            weights = [ev.mod_drop(ev.encrypt(np.zeros(self.slots), name=f"weights{j}"), limbs) for j in range(parts)]
        momentum = weights
        for iteration in range(size.iterations):
            with ev.scope("iteration"):
                if self.chain.is_due(momentum[0]):
                    weights, momentum = self.refreshed(weights, momentum)
                gradient = self.gradient(packed[iteration % size.num_batches], momentum)
                with ev.scope("update"):
                    weights, momentum = self._step(gradient, weights, momentum, iteration)
        with ev.scope("output"):
            return np.concatenate([np.real(ev.decrypt(part))[: self.columns] for part in weights])

    @abstractmethod
    def refreshed(self, weights: Parts, momentum: Parts) -> tuple[Parts, Parts]:
        """Weights and momentum at the levels that an iteration needs."""

    @abstractmethod
    def gradient(self, batch: Sequence[Ciphertext], momentum: Parts) -> Parts:
        """The step that one batch asks for, one ciphertext a part of the weights."""

    def _step(self, gradient: Parts, weights: Parts, momentum: Parts, iteration: int) -> tuple[Parts, Parts]:
        ev = self.ev
        stepped = [ev.add(v, g) for v, g in zip(momentum, gradient, strict=True)]
        eta = -iteration / (iteration + 3)
        if eta == 0 or iteration + 1 == self.size.iterations:
            return stepped, stepped
        mixed = [
            ev.rescale(ev.add(ev.mult(new, 1 - eta), ev.mult(old, eta)))
            for new, old in zip(stepped, weights, strict=True)
        ]
        return stepped, mixed

    def scores(self, inner: Ciphertext) -> Ciphertext:
        """Scaled scores in all columns of their rows, from products of samples and momentum summed over columns."""
        ev = self.ev
        return fold(ev, ev.rescale(ev.mult(inner, self.mask)), self.columns, -1)

    def weighted(self, samples: Ciphertext, scores: Ciphertext, slope: Ciphertext) -> Ciphertext:
        """Samples times their sigmoid; a product, rows not yet summed."""
        ev = self.ev
        cubic = ev.mult(ev.rescale(ev.mult(samples, scores)), slope)
        return ev.add(cubic, ev.mult(samples, self.constant))


class PairTraining(_FiveLevels):
    """Samples in rows of 256 columns; weights and momentum refreshed as one complex ciphertext."""

    def __init__(self, ev: Evaluator, size: Size) -> None:
        super().__init__(ev, size, COLUMNS)

    def refreshed(self, weights: Parts, momentum: Parts) -> tuple[Parts, Parts]:
        ev = self.ev
        pair = ev.bootstrap(ev.add(momentum[0], ev.mult_by_i(weights[0])), COLUMNS)
        with ev.scope("apart"):
            half = ev.scaled(pair, 0.5)
            conjugated = ev.conjugate(half)
            return [ev.mult_by_i(ev.sub(conjugated, half))], [ev.add(half, conjugated)]

    def gradient(self, batch: Sequence[Ciphertext], momentum: Parts) -> Parts:
        ev = self.ev
        total: Ciphertext | None = None
        for samples in batch:
            with ev.scope("forward"):
                scores = self.scores(fold(ev, ev.rescale(ev.mult(samples, momentum[0])), COLUMNS))
            with ev.scope("sigmoid"):
                slope = self.slope(scores)
            with ev.scope("backward"):
                part = self.weighted(samples, scores, slope)
                total = part if total is None else ev.add(total, part)
        with ev.scope("backward"):
            return [fold(ev, ev.rescale(total), self.rows, COLUMNS)]


class ColumnTraining(_FiveLevels):
    """The whole batch in each ciphertext, with a part of the columns; every part refreshed alone."""

    def __init__(self, ev: Evaluator, size: Size) -> None:
        super().__init__(ev, size, columns_per_ciphertext(size, ev.params.slots))

    def refreshed(self, weights: Parts, momentum: Parts) -> tuple[Parts, Parts]:
        both = [[self.ev.bootstrap(part, self.columns) for part in side] for side in (weights, momentum)]
        return both[0], both[1]

    def gradient(self, batch: Sequence[Ciphertext], momentum: Parts) -> Parts:
        ev = self.ev
        with ev.scope("forward"):
            products = (ev.rescale(ev.mult(samples, part)) for samples, part in zip(batch, momentum, strict=True))
            scores = self.scores(reduce(ev.add, (fold(ev, product, self.columns) for product in products)))
        with ev.scope("sigmoid"):
            slope = self.slope(scores)
        with ev.scope("backward"):
            return [
                fold(ev, ev.rescale(self.weighted(samples, scores, slope)), self.rows, self.columns)
                for samples in batch
            ]
