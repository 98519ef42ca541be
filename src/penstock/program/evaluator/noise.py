"""How much noise CKKS operations add: variances of coefficients, from the scheme's own steps.

Noise is the difference between a decrypted polynomial and the message. Its coefficients are taken as independent and
normal, except for one part. ModDown (and so every key switch) does not round: it leaves the whole multiples of P that a
fast base conversion adds, between 0 and the number of special limbs. Their mean is a polynomial whose coefficients are
all alike, and its values are large in the slots near ζ = 1: in slot 0 above all.

Sources: Costache et al., "On the precision loss in approximate homomorphic encryption" (ePrint 2022/162), for noise as
normal and its steps; Kim et al., CT-RSA 2022 (ePrint 2020/1118), for RNS-CKKS with the real primes; OpenFHE 1.6,
`dcrtpoly-impl.h` (ApproxModDown), `ckkspackedencoding.cpp` (Decode) and `ckksrns-cryptoparameters.cpp` (scales).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np

from penstock.program.evaluator.protocol import Values
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.params.primes import openfhe_primes
from penstock.scheme.params.secrets import (
    AUXILIARY_BITS,
    AUXILIARY_PRIMES,
    EPHEMERAL_WEIGHT,
    main_weight,
    raised_weight,
)

SIGMA = 3.19
"""Standard deviation of errors. Source: HomomorphicEncryption.org, and OpenFHE's default."""


Variance: TypeAlias = float | Values
"""Of noise in slots: one number, or one a slot."""


@dataclass(eq=False, slots=True)
class Noisy:
    """The decryption of a ciphertext, and the scale that the library assigns to it.

    Noise that is alike in all coefficients is drawn when the values are first asked for, all of it at once.
    """

    drawn: Values
    """complex128, (n,), n a power of two: values that repeat with that period."""
    scale: float
    pending: Variance = 0.0
    """Variance of the values' noise that is not drawn yet: one number, or one a slot."""
    rescaled: dict[int, Noisy] = field(default_factory=dict)
    """Its remainder after a rescale at this many limbs: the same on every request."""
    polynomials: int = 2
    """Those before the first that is zero throughout.

    A ciphertext less itself has none, and a number that is added to it reaches the first only. If there is none, no key
    switch and no rounding adds noise.
    """
    bound: float = math.nan
    """What `penstock.program.evaluator.bounding` proves of its error; not a number: nothing yet."""

    def like(self, values: Values, scale: float | None = None) -> Noisy:
        """Other values of as many polynomials."""
        scale = self.scale if scale is None else scale
        return Noisy(values, scale, polynomials=self.polynomials, bound=self.bound)

    def with_noise(self, variance: Variance) -> Noisy:
        self.pending = self.pending + variance
        return self


@dataclass(slots=True)
class SharedNoise:
    """What an evaluator shares with its siblings: one secret, one source of noise."""

    weight: float
    """Of the secret: the sum of squares of its coefficients."""
    random: np.random.Generator
    refreshes: int = 0
    """Bootstrappings so far."""
    known: dict[int, Values] = field(default_factory=dict)

    def mean_in_slots(self, slots: int) -> Values:
        """The part of a ModDown's noise that is not white: the values of (1 + X + …)(1 + s) and, in the second row,
        of (1 + X + …) s."""
        if slots not in self.known:
            normal = self.random.standard_normal((2, slots)) * np.sqrt(self.weight / 2)
            secret = normal[0] + 1j * normal[1]
            self.known[slots] = ones_in_slots(slots) * np.stack([1 + secret, secret])
        return self.known[slots]


@dataclass(frozen=True)
class NoiseModel:
    """Noise and scales of one parameter set of OpenFHE's.

    Variances are of one coefficient, in units of the ciphertext (whole numbers); a value's noise is over the scale.
    Raises: ParamsError: an accelerator's set, which states no primes.
    """

    params: CkksParameters
    q: tuple[int, ...] = field(init=False)
    """Primes of Q, q_0 first."""
    p: tuple[int, ...] = field(init=False)
    """Special primes."""

    def __post_init__(self) -> None:
        q, p = openfhe_primes(self.params)
        object.__setattr__(self, "q", q)
        object.__setattr__(self, "p", p)

    # Scales.
    @property
    def flexible(self) -> bool:
        """Whether every level has its own scale."""
        return self.params.scaling in (Scaling.FLEXIBLE_AUTO, Scaling.FLEXIBLE_AUTO_EXT)

    @cached_property
    def _scales(self) -> tuple[float, ...]:
        """The scale of degree 1 at each number of limbs, from 1."""
        count = len(self.q)
        if not self.flexible:
            return (2.0**self.params.scale_bits,) * count
        preset = 2 if self.params.scaling is Scaling.FLEXIBLE_AUTO_EXT else 1
        if count <= preset:
            down = [float(prime) for prime in reversed(self.q)]
            down[-1] = 2.0**self.params.scale_bits
            return tuple(reversed(down))
        down = [float(prime) for prime in self.q[: -preset - 1 : -1]]
        for level in range(preset, count):
            down.append(down[-1] * down[-1] / self.q[count - level])
        return tuple(reversed(down))

    def scale(self, limbs: int, degree: int = 1) -> float:
        """The scale that operands at so many limbs are brought to. A ciphertext that is fresh at the full chain under
        `flexible-auto-ext` is at the product of the two first scales."""
        if degree == 2 and self._fresh_is_product(limbs):
            return self._scales[limbs - 1] * self._scales[limbs - 2]
        return self._scales[limbs - 1] ** degree

    def plain_product(self, limbs: int, scale: float) -> float:
        """The scale that the library says a product with a plaintext has, of an operand that is at `scale`.

        For different levels it is the level's, even if a `mod_drop` brought the operand there with another one.
        """
        return self.scale(limbs, 2) if self.flexible else scale**2

    def encoding_scale(self, limbs: int, degree: int) -> float:
        """The scale that a vector's or number's coefficients are rounded at; for a product the rounded ones are
        multiplied by the rest."""
        return self.scale(limbs, degree if self._fresh_is_product(limbs) else 1)

    def _fresh_is_product(self, limbs: int) -> bool:
        return self.params.scaling is Scaling.FLEXIBLE_AUTO_EXT and 1 < limbs == len(self.q)

    def divisor(self, limbs: int) -> float:
        """The divisor of the scale when the last of this many limbs is dropped."""
        return float(self.q[limbs - 1]) if self.flexible else 2.0**self.params.scale_bits

    def drift(self, limbs: int) -> float:
        """The effect of such a rescale on a value: with one scale for all levels, it differs from the last prime."""
        return self.divisor(limbs) / self.q[limbs - 1]

    def log2_modulus(self, limbs: int) -> float:
        """Bits of the product of the first primes."""
        return float(sum(np.log2(np.array(self.q[:limbs], dtype=np.float64))))

    # Noise.
    @property
    def secret_weight(self) -> float:
        """Mean of the sum of squares of the secret's coefficients."""
        return main_weight(self.params.secret) or 2 * self.params.ring_dim / 3

    @property
    def encryption(self) -> float:
        """With the public key: v e + e_0 + e_1 s, v uniform ternary."""
        return SIGMA**2 * (1 + 2 * self.params.ring_dim / 3 + self.secret_weight)

    @property
    def seeded_encryption(self) -> float:
        """With the secret key, the uniform polynomial from a seed: e."""
        return SIGMA**2

    @property
    def rounding(self) -> float:
        """Of both polynomials: a rescale."""
        return (1 + self.secret_weight) / 12

    @property
    def mod_down(self) -> float:
        """Variance of both polynomials, without the mean."""
        return len(self.p) * self.rounding

    @property
    def mod_down_second(self) -> float:
        """Variance of the second polynomial alone, without the mean."""
        return len(self.p) * self.secret_weight / 12

    @property
    def mod_down_mean(self) -> float:
        """The average deficit of every coefficient."""
        return len(self.p) / 2

    def key_switch(self, limbs: int) -> float:
        """Digits times the errors of the key, over P, before ModDown.

        A digit is its residue and as many multiples of its modulus as the fast base conversion adds: a sum of as many
        uniform numbers as it has limbs.
        """
        alpha, total, log_p = self.params.digit_limbs, 0.0, float(np.sum(np.log2(np.array(self.p, dtype=np.float64))))
        for first in range(0, limbs, alpha):
            digit = np.array(self.q[first : min(first + alpha, limbs)], dtype=np.float64)
            count = len(digit)
            log_size = float(np.sum(np.log2(digit))) - log_p
            total += 2.0 ** (2 * log_size) * (count / 12 + count**2 / 4)
        return self.params.ring_dim * SIGMA**2 * total

    @cached_property
    def to_sparse(self) -> float:
        """Of a switch of one limb to the ephemeral secret: the key's error over the auxiliary modulus, and the rounding
        of both halves.

        The switched polynomial is uniform modulo q_0, centred.
        """
        ratio = self.q[0] / 2.0 ** (AUXILIARY_PRIMES * AUXILIARY_BITS)
        return self.params.ring_dim * SIGMA**2 * ratio**2 / 12 + (1 + EPHEMERAL_WEIGHT) / 12

    @property
    def overflow(self) -> float:
        """Multiples of q_0 that raising the modulus adds to each coefficient, under the secret that it has then."""
        return (1 + (raised_weight(self.params.secret) or 2 * self.params.ring_dim / 3)) / 12


def slots_of(coefficients: Values) -> Values:
    """The values of a real polynomial of 2n coefficients in its n slots: at ζ^(5^j), ζ = exp(i pi / 2n).

    >>> slots_of(np.array([1.0, 0, 0, 0])).round(3).tolist()
    [(1+0j), (1+0j)]
    """
    size = len(coefficients)
    twisted = coefficients * np.exp(1j * np.pi * np.arange(size) / size)
    # At all odd powers of ζ, the k-th of them ζ^(2k+1); numpy's inverse transform has the positive exponent.
    at_odd: Values = np.fft.ifft(twisted) * size
    return at_odd[_places(size // 2)]


def coefficients_of(values: Values) -> Values:
    """The real polynomial of 2n coefficients with these values in its n slots.

    >>> coefficients_of(slots_of(np.array([1.0, 2.0, 3.0, 4.0]))).round(9).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    size = 2 * len(values)
    places = _places(len(values))
    at_odd = np.empty(size, dtype=np.complex128)
    at_odd[places] = values
    at_odd[size - 1 - places] = np.conj(values)
    return (np.fft.fft(at_odd) / size * np.exp(-1j * np.pi * np.arange(size) / size)).real


def ones_in_slots(slots: int) -> Values:
    """The values of 1 + X + … + X^(2n-1) in n slots: 2 / (1 - ζ^(5^j))."""
    angles = np.pi * (2 * _places(slots) + 1) / (2 * slots)
    return 2 / (1 - np.exp(1j * angles))


def _places(slots: int) -> Values:
    """Of each slot j the k with 5^j = 2k + 1 modulo 4n."""
    power, places = 1, np.empty(slots, dtype=np.int64)
    for j in range(slots):
        places[j] = (power - 1) // 2
        power = power * 5 % (4 * slots)
    return places


def tiled(values: Values, length: int) -> Values:
    """As many values, repeated."""
    return values if len(values) == length else np.tile(values, length // len(values))
