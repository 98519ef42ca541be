"""Polynomials of a smaller ring with the noise of their encryption, for the `noisy` reading.

Whole numbers modulo q_0 as float64: they stay below 2^52, so that each is exact to a unit or so, far below the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from penstock.program.evaluator.noise import SIGMA, NoiseModel
from penstock.program.evaluator.protocol import Values
from penstock.scheme.params.secrets import SMALL_SPECIAL_BITS


class NoisySmallRing:
    """The steps of `penstock.program.evaluator.small` on coefficients.

    A value is (polynomials, n), the decryptions of so many ciphertexts.
    """

    def __init__(self, model: NoiseModel, random: np.random.Generator) -> None:
        self._model, self._random = model, random
        self.ring_dim = model.params.small_ring_dim

    @property
    def key_switch(self) -> float:
        """Variance of a coefficient: one digit, uniform modulo q_0, times the key's error over the special prime, and
        the rounding of both halves under a uniform ternary secret, without its mean."""
        n, ratio = self.ring_dim, self._model.q[0] / 2.0**SMALL_SPECIAL_BITS
        return n * SIGMA**2 * ratio**2 / 12 + (1 + 2 * n / 3) / 12

    @cached_property
    def deficit(self) -> Values:
        """The mean of what a key switch leaves, which all of them have: the division by the special prime rounds down,
        in both halves. (1 + X + …)(1 + s) / 2 for one secret s, uniform ternary."""
        terms = self._random.integers(-1, 2, self.ring_dim).astype(np.float64)
        terms[0] += 1
        below = np.cumsum(terms)
        return below - below[-1] / 2

    def noise(self, size: int, variance: float) -> Values:
        """Normal noise of so many coefficients."""
        return np.sqrt(variance) * self._random.standard_normal(size)

    def encrypted(self, coefficients: Values) -> Values:
        """One ciphertext of its owner's: (1, n)."""
        made = self.noise(self.ring_dim, SIGMA**2)
        made[: len(coefficients)] += coefficients
        return made[None, :]

    def expanded(self, a: Values) -> Values:
        """Twice as many: sums with the image under X -> X^(n/m + 1), m of them before, and differences moved down."""
        n, count = self.ring_dim, len(a)
        turned = automorphism(a, n // count + 1) + np.sqrt(self.key_switch) * self._random.standard_normal(a.shape)
        turned -= self.deficit
        return np.concatenate([a + turned, moved_down(a - turned, count)])

    def inner_products(self, vector: Values, block: Values) -> Values:
        """The sum of the products with a block, (count, records): (n,)."""
        rows = SIGMA * self._random.standard_normal((len(vector), self.ring_dim))
        rows[:, : block.shape[1]] += block
        # Each product is of numbers whose sum is below 2^52; the transform of the vector is worth keeping.
        spectrum = np.einsum("ij,ij->j", _spectra(vector), _spectra(rows))
        return _coefficients(spectrum)

    def packed(self, parts: Sequence[Values]) -> Values:
        """(N,): coefficient i of part t at i N/n + t."""
        size = self._model.params.ring_dim
        ratio = size // self.ring_dim
        made = np.zeros(size)
        for t, part in enumerate(parts):
            made[t::ratio] = part
        return made


def automorphism(a: Values, element: int) -> Values:
    """Polynomials at X^element: coefficient k goes to k times it, with the sign of X^n = -1.

    >>> automorphism(np.array([[1.0, 2.0, 3.0, 4.0]]), 5).tolist()
    [[1.0, -2.0, 3.0, -4.0]]
    """
    n = a.shape[1]
    places = np.arange(n) * element % (2 * n)
    made = np.empty_like(a)
    made[:, places % n] = np.where(places < n, a, -a)
    return made


def moved_down(a: Values, power: int) -> Values:
    """Polynomials times X^-power.

    >>> moved_down(np.array([[1.0, 2.0, 3.0, 4.0]]), 1).tolist()
    [[2.0, 3.0, 4.0, -1.0]]
    """
    return np.concatenate([a[:, power:], -a[:, :power]], axis=1)


def _spectra(a: Values) -> Values:
    """Values at the odd powers of the 2n-th root of 1, where products modulo X^n + 1 are products of numbers."""
    n = a.shape[1]
    return np.fft.fft(a * np.exp(-1j * np.pi * np.arange(n) / n))


def _coefficients(spectrum: Values) -> Values:
    n = len(spectrum)
    return (np.fft.ifft(spectrum) * np.exp(1j * np.pi * np.arange(n) / n)).real
