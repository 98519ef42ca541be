"""The `clear` reading: the program on plain numpy vectors, the reference that encrypted runs are held to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from penstock.params.ckks import CkksParameters
from penstock.program.evaluator import Operand, Plain, Values, chebyshev_coefficients, padded


class ClearEvaluator:
    """Vectors of shape (slots,) stand for ciphertexts. Levels are unlimited."""

    def __init__(self, params: CkksParameters) -> None:
        self.params = params

    def encrypt(self, values: Values, *, name: str | None = None) -> Values:
        return padded(values, self.params.slots)

    def encode(self, values: Values, *, name: str | None = None) -> Plain:
        return Plain(padded(values, self.params.slots), name)

    def decrypt(self, a: Values) -> Values:
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

    def mult_no_relin(self, a: Values, b: Values) -> Values:
        return a * b

    def relinearize(self, a: Values) -> Values:
        return a

    def square(self, a: Values) -> Values:
        return a * a

    def rotate(self, a: Values, step: int) -> Values:
        return np.roll(a, -step)

    def rotate_many(self, a: Values, steps: Sequence[int]) -> list[Values]:
        return [np.roll(a, -step) for step in steps]

    def conjugate(self, a: Values) -> Values:
        return np.conj(a)

    def rescale(self, a: Values) -> Values:
        return a

    def mod_drop(self, a: Values, limbs: int) -> Values:
        return a

    def bootstrap(self, a: Values) -> Values:
        return a

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

    def levels(self, a: Values) -> int:
        return self.params.num_q * 1_000_000

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        yield


def _value(operand: Operand) -> Operand:
    return operand.values if isinstance(operand, Plain) else operand
