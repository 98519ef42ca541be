"""The amount of training of logistic regression, and the common parts of its two programs."""

from __future__ import annotations

from dataclasses import dataclass

NAME = "logistic-regression"

COLUMNS = 256
"""Slots of one sample: 196 pixels and a bias, padded to a power of two."""
SIGMOID = (0.5, -1.20096 / 8, 0.81562 / 8**3)
"""1 / (1 + e^x) over [-8, 8]: constant, linear and cubic coefficient (HELR, section 4.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The amount of training, and its default parameters."""

    params: str
    batch: int
    """Samples of one mini-batch."""
    num_batches: int
    """Distinct mini-batches; iterations go round them."""
    iterations: int
    learning_rate: float
    refresh: str = "full"
    """The way of bootstrapping weights and momentum. `full`: each at all slots. `period`: each at the 256 slots of its
    period. `merged`: both together at 512 slots, apart if a refresh leaves too few levels for it. `pair`: as real and
    imaginary parts at 256 slots, or `merged` if the library has no product with i. `columns`: in parts of fewer columns
    that share a ciphertext with the whole batch."""
    abreast: int = 1
    """Ciphertexts of a mini-batch that go through the network step by step together: a rotation key that is loaded
    serves them all, and as many intermediate results are held."""
