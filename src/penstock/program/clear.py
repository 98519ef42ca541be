"""The `clear` reading: the program on plain numpy vectors, the reference that encrypted runs are held to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import index
from typing import Any

import numpy as np

from penstock.errors import EvaluationRefused
from penstock.params.ckks import CkksParameters
from penstock.program.evaluator import Operand, Plain, Values, Weight, chebyshev_coefficients, padded
from penstock.program.rows import number_of


class ClearEvaluator:
    """Vectors of shape (slots,) stand for ciphertexts. Levels are unlimited."""

    def __init__(self, params: CkksParameters) -> None:
        self.params = params
        self.turns: int | None = None

    def encrypt(self, values: Values, *, name: str | None = None) -> Values:
        return padded(values, self.params.slots)

    def encode(self, values: Values | Callable[[], Values], *, name: str | None = None) -> Plain:
        return Plain.of(values, self.params.slots, name)

    def decrypt(self, a: Values) -> Values:
        if not np.all(np.isfinite(a)):
            raise EvaluationRefused(
                "decrypt: the values are not finite any more: a number or a product outgrew what a double holds "
                "(1.8e308); scale the data down"
            )
        return a

    def add(self, a: Values, b: Operand) -> Values:
        return a + _value(b)

    def sub(self, a: Operand, b: Operand) -> Values:
        result: Values = _value(a) - _value(b)
        return result

    def negate(self, a: Values) -> Values:
        return -a

    def mult(self, a: Values, b: Operand) -> Values:
        return a * _value(b)

    def weighted_sum(self, terms: Iterable[Values], weights: Iterable[Weight]) -> Values:
        encoded = (each if isinstance(each, Plain) else self.encode(each) for each in weights)
        return reduce(self.add, (self.mult(a, b) for a, b in zip(terms, encoded, strict=True)))

    def mult_no_relin(self, a: Values, b: Values) -> Values:
        return a * b

    def relinearize(self, a: Values) -> Values:
        return a

    def square(self, a: Values) -> Values:
        return a * a

    def rotate(self, a: Values, step: int) -> Values:
        return np.roll(a, -index(step))

    def rotate_many(self, a: Values, steps: Sequence[int]) -> list[Values]:
        return [np.roll(a, -index(step)) for step in steps]

    def decompose(self, a: Values) -> Values:
        return a

    def rotate_hoisted(self, a: Values, digits: Values, step: int) -> Values:
        return self.rotate(a, step)

    def conjugate(self, a: Values) -> Values:
        return np.conj(a)

    def rescale(self, a: Values) -> Values:
        return a

    def mod_drop(self, a: Values, limbs: int) -> Values:
        return a

    def bootstrap(self, a: Values, slots: int | None = None) -> Values:
        # As the sum over the copies leaves it: what does not repeat with the period is averaged away.
        if slots is None or slots == self.params.slots:
            return a
        return np.tile(a.reshape(-1, slots).mean(axis=0), self.params.slots // slots)

    def bootstrap_many(self, operands: Sequence[Values], slots: int | None = None) -> list[Values]:
        return [self.bootstrap(a, slots) for a in operands]

    def chebyshev_series(self, a: Values, coefficients: Sequence[float], lower: float, upper: float) -> Values:
        series = np.array(coefficients, dtype=np.float64)
        series[0] *= 0.5
        mapped = (2.0 * a - (lower + upper)) / (upper - lower)
        result: Values = np.polynomial.chebyshev.chebval(mapped, series)
        return result

    def chebyshev_function(
        self, a: Values, function: Callable[[Values], Values], lower: float, upper: float, degree: int
    ) -> Values:
        return self.chebyshev_series(a, chebyshev_coefficients(function, lower, upper, degree), lower, upper)

    def polynomial(self, a: Values, coefficients: Sequence[float]) -> Values:
        result: Values = np.polynomial.polynomial.polyval(a, np.array(coefficients, dtype=np.float64))
        return result

    def levels(self, a: Values) -> int:
        return self.params.num_q * 1_000_000

    def mult_by_i(self, a: Values) -> Values:
        return 1j * a

    def scaled(self, a: Values, factor: float) -> Values:
        return a * factor

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
        return a

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        yield


class ClearCircuits(ClearEvaluator):
    """The clear reading of circuits that stand for a composite: bootstrapping computed step by step.

    A vector represents the polynomial with these values, so that the mod raise can act on it: it adds multiples of q_0
    to every coefficient.
    """

    def __init__(self, params: CkksParameters, raised: Callable[[], Values] | None = None) -> None:
        super().__init__(params)
        self._raised = raised
        self._shared: dict[str, Any] = {}

    def mod_raise(self, a: Values) -> Values:
        """`a` plus what `raised` returns: the values of a polynomial of multiples of q_0; nothing if it is omitted."""
        return a if self._raised is None else a + self._raised()

    def lowered(self, a: Values, levels: int) -> Values:
        return a

    def rescale_limbs(self, a: Values, limbs: int) -> Values:
        return a

    def shared(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._shared:
            self._shared[name] = make()
        return self._shared[name]


def _value(operand: Operand) -> Operand:
    if isinstance(operand, Plain):
        return operand.values
    if isinstance(operand, np.ndarray) and operand.ndim:
        return operand
    number = number_of(operand)
    return number if number.imag else number.real
