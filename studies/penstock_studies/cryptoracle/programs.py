"""CryptOracle's three microbenchmarks: their algorithms, inputs and results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from penstock.program.evaluator.protocol import Ciphertext, Evaluator, Values
from penstock.program.workloads.logistic_function import BOUND, logistic
from penstock_studies.workloads.algorithms import (
    ORDER,
    logistic_function,
    matrix_multiplication,
    sign_evaluation,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Microbenchmark:
    """One microbenchmark: its parameters, its computation, and its expected result."""

    name: str
    """As in Table 3's column of our study."""
    item: str
    """Its name in the paper's data."""
    run: Callable[..., Ciphertext]
    """The evaluator and the encrypted inputs -> the encrypted result."""
    inputs: Callable[[np.random.Generator, int], tuple[Values, ...]]
    """A generator and the slots -> inputs."""
    num_inputs: int
    expected: Callable[..., Values]
    """The inputs -> the expected first slots of the result."""
    tolerance: float
    """Of the algorithm itself, in the clear."""
    has_order: bool = False
    """Whether it takes matrices of any order."""


def _matrices(generator: np.random.Generator, slots: int) -> tuple[Values, ...]:
    return tuple(generator.uniform(-1, 1, ORDER * ORDER) for _ in range(2))


def _product(a: Values, b: Values) -> Values:
    shape = (ORDER, ORDER)
    result: Values = (a.reshape(shape) @ b.reshape(shape)).reshape(-1)
    return result


def _logistic_points(generator: np.random.Generator, slots: int) -> tuple[Values, ...]:
    return (generator.uniform(-BOUND, BOUND, slots),)


def _sign_points(generator: np.random.Generator, slots: int) -> tuple[Values, ...]:
    return (generator.uniform(0.01, 1.0, slots) * generator.choice([-1.0, 1.0], slots),)


PROGRAMS: Mapping[str, Microbenchmark] = MappingProxyType(
    {
        program.name: program
        for program in (
            Microbenchmark(
                name="matrix-multiplication",
                item="matrix_multiplication",
                run=matrix_multiplication,
                inputs=_matrices,
                num_inputs=2,
                expected=_product,
                tolerance=1e-9,
                has_order=True,
            ),
            Microbenchmark(
                name="logistic-function",
                item="logistic_function",
                run=logistic_function,
                inputs=_logistic_points,
                num_inputs=1,
                expected=logistic,
                tolerance=1e-4,
            ),
            Microbenchmark(
                name="sign-evaluation",
                item="sign_eval",
                run=sign_evaluation,
                inputs=_sign_points,
                num_inputs=1,
                expected=np.sign,
                tolerance=0.1,
            ),
        )
    }
)


def execute(program: Microbenchmark, evaluator: Evaluator, inputs: Iterable[Values]) -> Ciphertext:
    """The program's encrypted result, its inputs encrypted first."""
    return program.run(evaluator, *(evaluator.encrypt(values) for values in inputs))
