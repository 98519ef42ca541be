"""ReLU of the encrypted networks: one Chebyshev series, or a composition of minimax polynomials of the sign.

Each says which blocks it is made of, so that a placement rule can bootstrap between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from penstock.base.arrays import Floats
from penstock.errors import UsageError
from penstock.program.evaluator.circuits.minimax import CompositeSign, composite_sign, parse_degrees, relu_of
from penstock.program.evaluator.placement import Chain
from penstock.program.evaluator.protocol import Ciphertext, Evaluator, chebyshev_coefficients

PRECISION_BITS = 13
"""alpha of Lee et al., ICML 2022: ReLU on [-1, 1] within about 2^-alpha."""
MARGIN_FACTOR = 16.0
"""The sign is asked for from `MARGIN_FACTOR` 2^-alpha on: closer to 0, ReLU is small whatever the sign. 16 as in the
published code (github.com/snu-ccl/FHE-MP-CNN)."""


@dataclass(frozen=True, slots=True)
class SeriesActivation:
    """ReLU as one Chebyshev series, the library's own composite."""

    series: tuple[float, ...]
    """c_0 counts half."""
    blocks: tuple[int, ...]
    """Levels of its parts, in the order in which they run."""

    def apply(self, ev: Evaluator, a: Ciphertext, chain: Chain, slots: int | None = None) -> Ciphertext:
        """ReLU of an encrypted vector; `chain` is asked before each block, for values with a period of `slots`."""
        return ev.chebyshev_series(chain.before(a, slots=slots), self.series, -1.0, 1.0)

    def plain(self, x: Floats) -> Floats:
        """What it computes, on plain values."""
        series = np.array(self.series)
        series[0] /= 2
        return np.asarray(np.polynomial.chebyshev.chebval(x, series))


@dataclass(frozen=True, slots=True)
class MinimaxActivation:
    """x (1 + sign(x)) / 2, the sign by a composition of minimax polynomials."""

    sign: CompositeSign

    @property
    def blocks(self) -> tuple[int, ...]:
        return (*self.sign.levels, 1)

    def apply(self, ev: Evaluator, a: Ciphertext, chain: Chain, slots: int | None = None) -> Ciphertext:
        x = value = chain.before(a, slots=slots)
        last = len(self.sign.series) - 1
        for index in range(last + 1):
            value = value if index == 0 else chain.before(value, slots=slots)
            # Half of the sign, so that the product is ReLU without another level.
            value = self.sign.step(ev, value, index, 0.5 if index == last else 1.0)
        value = chain.before(ev.add(value, 0.5), slots=slots)
        return ev.rescale(ev.mult(value, x))

    def plain(self, x: Floats) -> Floats:
        return relu_of(self.sign, x)


Activation = SeriesActivation | MinimaxActivation
"""ReLU over [-1, 1]."""


@lru_cache(maxsize=8)
def activation(name: str) -> Activation:
    """ReLU by name: `chebyshev-59` is a series of that degree, `minimax-15-15-27` a composition of those degrees.

    Raises: UsageError: neither.
    """
    kind, _, degrees = name.partition("-")
    if kind == "minimax":
        return MinimaxActivation(composite_sign(MARGIN_FACTOR * 2.0**-PRECISION_BITS, parse_degrees(degrees)))
    if kind == "chebyshev" and degrees.isdigit():
        from penstock.program.evaluator.circuits.chebyshev import library_levels

        series = chebyshev_coefficients(lambda x: np.maximum(x, 0.0), -1.0, 1.0, int(degrees))
        return SeriesActivation(tuple(series), (library_levels(int(degrees)),))
    raise UsageError(f"activation '{name}': write chebyshev-59 (a degree) or minimax-15-15-27 (degrees)")
