"""The `clear` reading: the program on plain numpy vectors, the reference that encrypted runs are held to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

import numpy as np

from penstock.errors import EvaluationRefused
from penstock.program.evaluator.arguments import (
    chebyshev_of,
    factor_of,
    function_series,
    limbs_of,
    minuend_of,
    not_a_ciphertext,
    number_of,
    operands_of,
    pairs_of,
    period_of,
    powers_of,
    step_of,
    steps_of,
    swapped,
)
from penstock.program.evaluator.imaginary import complex_refresh, refreshes_real_only
from penstock.program.evaluator.protocol import Operand, Plain, PlainCalls, Values, Weight, name_of, padded
from penstock.scheme.params.ckks import CkksParameters


class ClearEvaluator(PlainCalls):
    """Vectors of shape (slots,) stand for ciphertexts. Levels are unlimited."""

    def __init__(self, params: CkksParameters) -> None:
        self.params = params
        self.turns: int | None = None

    def encrypt(self, values: Values, *, name: str | None = None) -> Values:
        name_of(name)
        return padded(values, self.params.slots)

    def encode(self, values: Values | Callable[[], Values], *, name: str | None = None) -> Plain:
        return Plain.of(values, self.params.slots, name)

    def decrypt(self, a: Values) -> Values:
        values = self._vector("decrypt", a)
        if not np.all(np.isfinite(values)):
            raise EvaluationRefused(
                "decrypt: the values are not finite any more: a number or a product outgrew a double "
                "(1.8e308); scale the data down"
            )
        return values.copy()

    def add(self, a: Operand, b: Operand) -> Values:
        a, b = self._ordered("add", a, b)
        return a + b

    def sub(self, a: Operand, b: Operand) -> Values:
        if not self._is_vector(a):
            return np.asarray(_real(minuend_of(a, is_ciphertext=self._is_vector(b))) - b)
        first, second = self._ordered("sub", a, b)
        return np.asarray(first - second)

    def negate(self, a: Values) -> Values:
        return -self._vector("negate", a)

    def mult(self, a: Operand, b: Operand) -> Values:
        a, b = self._ordered("mult", a, b)
        return a * b

    def weighted_sum(self, terms: Iterable[Values], weights: Iterable[Weight]) -> Values:
        return reduce(self.add, (self.mult(a, b) for a, b in pairs_of(terms, weights, self, self._vector)))

    def mult_no_relin(self, a: Values, b: Values) -> Values:
        return self._vector("mult_no_relin", a) * self._vector("mult_no_relin", b)

    def relinearize(self, a: Values) -> Values:
        return self._vector("relinearize", a)

    def square(self, a: Values) -> Values:
        return self._vector("square", a) * a

    def rotate(self, a: Values, step: int) -> Values:
        return np.roll(self._vector("rotate", a), -step_of(step))

    def rotate_many(self, a: Values, steps: Sequence[int]) -> list[Values]:
        wanted, a = steps_of(steps), self._vector("rotate_many", a)
        return [np.roll(a, -step) for step in wanted]

    def decompose(self, a: Values) -> Values:
        return self._vector("decompose", a)

    def rotate_hoisted(self, a: Values, digits: Values, step: int) -> Values:
        return self.rotate(a, step)

    def conjugate(self, a: Values) -> Values:
        return np.conj(self._vector("conjugate", a))

    def rescale(self, a: Values) -> Values:
        return self._vector("rescale", a)

    def mod_drop(self, a: Values, limbs: int) -> Values:
        limbs_of(limbs)
        return self._vector("mod_drop", a)

    def bootstrap(self, a: Values, slots: int | None = None) -> Values:
        # As the sum over the copies leaves it: what does not repeat with the period is averaged away.
        period, a = period_of(self.params, slots), self._vector("bootstrap", a)
        if refreshes_real_only(self.params) and np.any(a.imag):
            raise complex_refresh(self.params)
        if period == self.params.slots:
            return a
        return np.tile(a.reshape(-1, period).mean(axis=0), self.params.slots // period)

    def bootstrap_many(self, operands: Sequence[Values], slots: int | None = None) -> list[Values]:
        given = [self._vector("bootstrap_many", a) for a in operands_of(operands)]
        return [self.bootstrap(a, slots) for a in given]

    def chebyshev_series(self, a: Values, coefficients: Sequence[float], lower: float, upper: float) -> Values:
        checked, lower, upper = chebyshev_of(coefficients, lower, upper)
        series = np.array(checked)
        series[0] *= 0.5
        mapped = (2.0 * self._vector("chebyshev_series", a) - (lower + upper)) / (upper - lower)
        return np.polynomial.chebyshev.chebval(mapped, series)

    def chebyshev_function(
        self, a: Values, function: Callable[[Values], Values], lower: float, upper: float, degree: int
    ) -> Values:
        return self.chebyshev_series(a, *function_series(function, lower, upper, degree))

    def polynomial(self, a: Values, coefficients: Sequence[float]) -> Values:
        powers = np.array(powers_of(coefficients))
        return np.polynomial.polynomial.polyval(self._vector("polynomial", a), powers)

    # Operands.
    def _is_vector(self, operand: Operand) -> bool:
        return isinstance(operand, np.ndarray) and operand.shape == (self.params.slots,)

    def _vector(self, what: str, a: Operand) -> Values:
        """An operand that stands for a ciphertext."""
        if not self._is_vector(a):
            raise not_a_ciphertext(what, a)
        return a

    def _ordered(self, what: str, a: Operand, b: Operand) -> tuple[Values, Operand]:
        """The operands of a sum or product as numpy takes them, a ciphertext first."""
        if not self._is_vector(a):
            a, b = swapped(what, a, b, is_ciphertext=self._is_vector(b))
        if isinstance(b, Plain):
            return a, b.fitting(self.params.slots).values
        return a, b if isinstance(b, np.ndarray) and b.shape == a.shape else _real(number_of(b))

    def levels(self, a: Values) -> int:
        return self.params.num_q * 1_000_000

    def mult_by_i(self, a: Values) -> Values:
        return 1j * self._vector("mult_by_i", a)

    def scaled(self, a: Values, factor: float) -> Values:
        return self._vector("scaled", a) * factor_of(factor)

    # Steps of a smaller ring: whole numbers as they are.
    has_small_ring = True

    def small_ciphertext(self, coefficients: Callable[[], Values], *, name: str | None = None) -> Values:
        return coefficients()

    def stored_ciphertext(self, values: Callable[[], Values], limbs: int, *, name: str | None = None) -> Values:
        return values()

    def expand_small(self, a: Values, count: int) -> Values:
        return count * a[:count]

    def inner_products(
        self, vector: Values, count: int, block: Callable[[], Values], *, name: str | None = None
    ) -> Values:
        n = self.params.small_ring_dim
        made = vector @ block()
        return np.concatenate([made, np.zeros(n - len(made))])

    def pack_small(self, parts: Sequence[Values]) -> Values:
        size, n = self.params.ring_dim, self.params.small_ring_dim
        made = np.zeros(size)
        for t, part in enumerate(parts):
            made[t :: size // n] = part
        return made

    def switch_small(self, a: Values) -> Values:
        return a

    def decrypt_complex(self, a: Values) -> Values:
        return a.copy()

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        yield


class ClearResults(ClearEvaluator):
    """Keeps the vectors that it decrypts, whole."""

    def __init__(self, params: CkksParameters) -> None:
        super().__init__(params)
        self.results: list[Values] = []

    def decrypt(self, a: Values) -> Values:
        self.results.append(super().decrypt(a))
        return self.results[-1]


def _real(number: complex) -> float | complex:
    """A number without its imaginary part, where that is 0: it leaves a vector real."""
    return number if number.imag else number.real
