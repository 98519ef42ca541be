"""The sign of every entry of an encrypted vector, by composed polynomials.

g_3 pulls entries away from zero, f_3 flattens them to +1 and -1; both are odd, of degree 7, three levels and five
products each: p(x) = (c_1 x^2 + c_0) x + (c_3 x^2 + c_2) x * x^4. The number of times that each is applied fixes how
near to zero an entry may lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.program.evaluator.protocol import Ciphertext, Evaluator, Values
from penstock.program.workloads.parts.check import Check, refuse_path

NAME = "sign-evaluation"
DESCRIPTION = "sign of an encrypted vector, by composed polynomials"
SOURCE = "Cheon, Kim, Kim, ASIACRYPT 2020 (ePrint 2019/1234), f_3 and g_3"
F3 = (35 / 16, -35 / 16, 21 / 16, -5 / 16)
"""Coefficients of x, x^3, x^5, x^7."""
G3 = (4589 / 1024, -16577 / 1024, 25614 / 1024, -12860 / 1024)
TOLERANCE = 1e-4
"""Encrypted against clear."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The numbers of applications of g_3 and then f_3, for entries at least `gap` away from zero."""

    params: str
    steep: int
    flat: int
    gap: float
    sign_tolerance: float


SIZES = {
    "ci": Size(params="insecure-ci", steep=1, flat=2, gap=0.125, sign_tolerance=1e-3),
    "full": Size(params="cryptoracle", steep=1, flat=2, gap=0.125, sign_tolerance=1e-3),
}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "full"


@dataclass(frozen=True, slots=True)
class Data:
    """The entries, shape (slots,)."""

    x: Values


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """Entries of both signs, uniform in [gap, 1] by magnitude; both ends are among them, where there are two."""
    refuse_path(path, NAME, "its entries are drawn from --seed")
    generator = np.random.default_rng(seed)
    magnitude = generator.uniform(size.gap, 1.0, slots)
    magnitude[:2] = (size.gap, 1.0)[:slots]
    return Data(magnitude * generator.choice([-1.0, 1.0], slots))


def blank(size: Size, slots: int) -> Data:
    """The same shape without values."""
    return Data(np.zeros(slots))


def odd_septic(ev: Evaluator, x: Ciphertext, coefficients: tuple[float, float, float, float]) -> Ciphertext:
    """c_0 x + c_1 x^3 + c_2 x^5 + c_3 x^7, three levels down."""
    one, three, five, seven = (ev.rescale(ev.mult(x, c)) for c in coefficients)
    square = ev.rescale(ev.square(x))
    fourth = ev.rescale(ev.square(square))
    high = ev.add(ev.rescale(ev.mult(seven, square)), five)
    low = ev.add(ev.rescale(ev.mult(three, square)), one)
    return ev.add(ev.rescale(ev.mult(high, fourth)), low)


def program(ev: Evaluator, data: Data, size: Size) -> Values:
    """The sign of every entry, (slots,)."""
    with ev.scope("input"):
        x = ev.encrypt(data.x, name="x")
    for name, coefficients, times in (("steep", G3, size.steep), ("flat", F3, size.flat)):
        for _ in range(times):
            with ev.scope(name):
                x = odd_septic(ev, x, coefficients)
    with ev.scope("output"):
        return np.real(ev.decrypt(x))


def check(clear: Values, got: Values, data: Data, size: Size) -> Check:
    """Values within 1e-4 of the clear reading, and within the size's bound of the sign itself."""
    off = float(np.max(np.abs(got - np.sign(data.x))))
    others = {f"every value is within {size.sign_tolerance:g} of the sign": off <= size.sign_tolerance}
    return Check.near("values", clear, got, TOLERANCE, others, {"max_abs_error_of_sign": off})
