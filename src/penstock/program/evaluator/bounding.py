"""A bound on the error of a program's result that holds for every ciphertext which a program makes.

The program runs on plain vectors without noise, and each ciphertext carries a bound on the error that an encrypted run
may have. Bounds add up by the triangle inequality: errors are never taken as independent, so a ciphertext that is added
to itself, or multiplied by itself, counts in full. Only the key pair and the randomness of encryption are random. Each
of their norms leaves its bound with a probability of at most 2^-128.

The norm of an error is the Euclidean norm of its N coefficients over the scale. It equals the root mean square of the
error's values in all N/2 slots. A product with a polynomial multiplies it by at most the largest value of that
polynomial, whatever the polynomial is.

Assumptions: The coefficients of secrets and errors are independent and subgaussian, as OpenFHE draws them. No
ciphertext has larger values than with the given data. The program does not bootstrap.

Sources: Lyubashevsky, Peikert and Regev, EUROCRYPT 2013 (ePrint 2013/293), for products in the canonical embedding.
Hsu, Kakade and Zhang, "A tail inequality for quadratic forms of subgaussian random vectors" (2012). Higham, "Accuracy
and Stability of Numerical Algorithms", theorem 24.2, for the transform in doubles. OpenFHE's steps are those in
`penstock.program.evaluator.noise`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.errors import ParamsError, PenstockError
from penstock.program.evaluator.call import Call, Cipher, Executed
from penstock.program.evaluator.noise import SIGMA, NoiseModel, Noisy, Variance
from penstock.program.evaluator.noisy import NoisyEvaluator
from penstock.program.evaluator.protocol import Plain, Values
from penstock.program.evaluator.scaling import ScaleState
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.primes import MIN_SCALE_BITS
from penstock.scheme.params.secrets import main_weight

FAILURE_BITS = 128
"""-log2 of the probability that one norm of the key pair or of an encryption leaves its bound."""
DOUBLES = 2.0**-46
"""Relative error of a transform of up to 2^17 points in doubles (Higham's bound: 17 · 6.7 · 2^-53, rounded up)."""


@dataclass(frozen=True)
class ErrorNorms:
    """Bounds on the norms of one step's error, in units of the ciphertext."""

    model: NoiseModel

    @cached_property
    def ring_dim(self) -> int:
        return self.model.params.ring_dim

    @cached_property
    def tail(self) -> float:
        """By how much the largest of a random polynomial's N/2 values exceeds the root mean square of one: both parts
        of a value are subgaussian, so 2 N exp(-tail^2 / 2) is the probability that one of them is larger."""
        return math.sqrt(2 * (math.log(2 * self.ring_dim) + FAILURE_BITS * math.log(2)))

    @cached_property
    def secret(self) -> float:
        """The largest value of the secret polynomial."""
        weight = main_weight(self.model.params.secret)
        if weight is not None:
            return min(self.tail * math.sqrt(weight), weight)
        return min(self.tail * math.sqrt(2 * self.ring_dim / 3), self.ring_dim)

    @cached_property
    def secret_norm(self) -> float:
        """The norm of the secret polynomial: no coefficient is larger than 1."""
        return math.sqrt(main_weight(self.model.params.secret) or self.ring_dim)

    @cached_property
    def error_value(self) -> float:
        """The largest value of an error polynomial."""
        return self.tail * SIGMA * math.sqrt(self.ring_dim)

    @cached_property
    def error(self) -> float:
        """The norm of an error polynomial."""
        ring_dim, log = self.ring_dim, FAILURE_BITS * math.log(2)
        return SIGMA * math.sqrt(ring_dim + 2 * math.sqrt(ring_dim * log) + 2 * log)

    def times_random(self, norm: float, largest: float, deviation: float) -> float:
        """Of a product with a polynomial that is drawn independently of the other factor, with that subgaussian
        deviation: a quadratic form in its coefficients. `norm` and `largest` are the other factor's."""
        log = FAILURE_BITS * math.log(2)
        trace, most = self.ring_dim * norm**2, largest**2
        return deviation * math.sqrt(trace + 2 * math.sqrt(trace * most * log) + 2 * most * log)

    @cached_property
    def encryption(self) -> float:
        """With the public key: v e + e_0 + e_1 s, v uniform ternary. Its v, e_0 and e_1 are new."""
        with_key = self.times_random(self.error, self.error_value, math.sqrt(2 / 3))
        with_secret = self.times_random(self.secret_norm, self.secret, SIGMA)
        return with_key + self.error + with_secret

    def rounding(self, polynomials: int) -> float:
        """Of a division of so many polynomials: at most one half in each coefficient, times a power of the secret."""
        return math.sqrt(self.ring_dim) / 2 * sum(self.secret**power for power in range(polynomials))

    @cached_property
    def mod_down(self) -> float:
        """Of both polynomials: each coefficient is off by at most the number of special primes."""
        return len(self.model.p) * math.sqrt(self.ring_dim) * (1 + self.secret)

    def key_switch(self, limbs: int) -> float:
        """Digits times the errors of the key, over P. A coefficient of a digit is below its modulus, times the number
        of its limbs, which the fast base conversion may add."""
        alpha, primes = self.model.params.digit_limbs, self.model.q
        log_p = float(np.sum(np.log2(np.array(self.model.p, dtype=np.float64))))
        digits = [primes[first : min(first + alpha, limbs)] for first in range(0, limbs, alpha)]
        sizes = (len(digit) * 2.0 ** (sum(math.log2(prime) for prime in digit) - log_p) for digit in digits)
        return math.sqrt(self.ring_dim) * self.error_value * sum(sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decryption:
    """One decrypted ciphertext of the bounded run."""

    limbs: int
    scale: float
    values: Values
    """complex128, (slots,): the result of the run without noise."""
    bound: float
    """Of the error's norm over the scale."""


class BoundingEvaluator(NoisyEvaluator):
    """Computes without noise, and carries a bound on the error of each value. `decryptions` has the results.

    Args:   slack: values may be so many times as large as in this run.
    Raises: ParamsError: the set is not for OpenFHE; the program bootstraps.
    """

    def __init__(self, params: CkksParameters, *, exact_ratio: bool = False, slack: float = 1.0) -> None:
        super().__init__(params, exact_ratio=exact_ratio)
        self._slack = slack
        self.norms = ErrorNorms(self.model)
        self.decryptions: list[Decryption] = []

    def _encrypt(self, values: Values) -> Executed:
        done = super()._encrypt(values)
        made: Noisy = done.value
        rounding, _ = self._encoded(values, done.state)
        made.bound = self.norms.encryption / made.scale + rounding
        return done

    def _decrypt(self, a: Cipher) -> tuple[Values, Executed]:
        limbs, made = self.before_flooding(a)
        values = self._values(made)
        self.decryptions.append(Decryption(limbs=limbs, scale=made.scale, values=values, bound=made.bound))
        return values.real.astype(np.complex128), Executed(a.state)

    @property
    def has_small_ring(self) -> bool:
        return False

    def bootstrap(self, a: Cipher, slots: int | None = None) -> Cipher:
        raise ParamsError(
            "bound: the program bootstraps, and no worst-case bound of a refresh is known. Share results of a program "
            "without refreshes: a set of more depth, or inputs that their owner encrypts again"
        )

    def execute(self, call: Call) -> Executed:
        made = self._computed(call)
        assert isinstance(made, Noisy)
        if made.polynomials == 0:
            made.bound = 0.0
        if math.isnan(made.bound):
            raise PenstockError(f"bound: no bound on the error of '{call.kind}' is known")
        if math.isinf(made.bound):
            raise ParamsError(f"bound: the bound on the error outgrows doubles at '{call.kind}': scale the data down")
        return Executed(call.state, made)

    # Sums and products.
    def _sum_of(self, a: Noisy, b: Noisy, sign: int = 1) -> Noisy:
        total = super()._sum_of(a, b, sign)
        total.bound = a.bound + b.scale / a.scale * b.bound
        return total

    def _times(self, first: Noisy, second: Noisy) -> Noisy:
        product = super()._times(first, second)
        x, y = self._largest(first), self._largest(second)
        # A value of an error is at most sqrt(N) times its norm.
        both = math.sqrt(self.norms.ring_dim) * first.bound * second.bound
        product.bound = x * second.bound + y * first.bound + both
        return product

    def _with_plain(self, kind: OpKind, a: Cipher, plain: Plain, predicted: ScaleState) -> Noisy:
        result = super()._with_plain(kind, a, plain, predicted)
        made: Noisy = a.value
        rounding, largest = self._encoded(plain.values, predicted)
        if kind is OpKind.MULT_PLAIN:
            made = self._rescaled(made, a.state.limbs) if predicted.limbs < a.state.limbs else made
            ratio = made.scale * self.model.scale(predicted.limbs) / result.scale
            of_plain = float(np.max(np.abs(plain.values), initial=0.0)) + largest
            result.bound = ratio * (of_plain * made.bound + self._largest(made) * rounding)
        else:
            result.bound = made.bound + self.model.scale(predicted.limbs, predicted.degree) / made.scale * rounding
        return result

    # Steps of the library.
    def _switched(self, made: Noisy, state: ScaleState, over: int = 1) -> Noisy:
        if made.polynomials <= over:
            return made
        result = super()._switched(made, state, over)
        result.bound = made.bound + (self.norms.key_switch(state.limbs) + self.norms.mod_down) / made.scale
        return result

    def _divided(self, made: Noisy) -> Noisy:
        return Noisy(self._values(made), made.scale, bound=made.bound + self.norms.mod_down / made.scale)

    def _scaled(self, made: Noisy, number: float, scale: float) -> Noisy:
        result = super()._scaled(made, number, scale)
        result.bound = abs(number) * made.bound
        return result

    def _rounded(self, made: Noisy) -> Noisy:
        # Of two divisions in one step the first one's rounding is divided by a prime, of `MIN_SCALE_BITS` or more.
        made.bound += (1 + 2.0 ** (1 - MIN_SCALE_BITS)) * self.norms.rounding(made.polynomials) / made.scale
        return made

    def _encoded(self, values: Values, state: ScaleState) -> tuple[float, float]:
        """The error of a vector's encoding: its norm, and its largest value."""
        slots = len(values)
        scale = self.model.encoding_scale(state.limbs, state.degree)
        transform = DOUBLES * math.sqrt(float(np.mean(np.abs(values) ** 2)))
        norm = math.sqrt(2 * slots) / 2 / scale + transform
        return norm, math.sqrt(2 * slots) * norm

    def _largest(self, made: Noisy) -> float:
        return self._slack * float(np.max(np.abs(self._values(made)), initial=0.0))

    def _normal(self, slots: int, variance: Variance) -> Values:
        return np.zeros(slots, dtype=np.complex128)
