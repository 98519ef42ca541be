"""CryptOracle's three microbenchmarks, by their names in Table 3's columns of our study."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.program.evaluator.protocol import Ciphertext
from penstock_studies.workloads.algorithms import logistic_function, matrix_multiplication, sign_evaluation


@dataclass(frozen=True, slots=True)
class Microbenchmark:
    """One microbenchmark's computation."""

    run: Callable[..., Ciphertext]
    """The evaluator and the encrypted inputs -> the encrypted result."""
    num_inputs: int = 1
    has_order: bool = False
    """Whether it takes matrices of any order."""


PROGRAMS: Mapping[str, Microbenchmark] = {
    "matrix-multiplication": Microbenchmark(matrix_multiplication, num_inputs=2, has_order=True),
    "logistic-function": Microbenchmark(logistic_function),
    "sign-evaluation": Microbenchmark(sign_evaluation),
}
