"""EvalMod: x mod 1 by a scaled sine, as a cosine series and double angles.

sin(2 pi t) / (2 pi) is near t - round(t) where t is near a whole number. About its centre the shifted sine is a cosine,
which is even: half of the terms of its Chebyshev series are nothing. Source: Bossuat et al., EUROCRYPT 2021 (ePrint
2020/1203), for cosine and double angles.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from penstock.program.evaluator.circuits.chebyshev import chebyshev_levels, evaluate, rescale_level
from penstock.program.evaluator.protocol import Ciphertext, InnerEvaluator, Values, chebyshev_coefficients
from penstock.scheme.params.ckks import BootstrapPlan


def eval_mod_levels(plan: BootstrapPlan) -> int:
    """Levels of the series and the double angles."""
    return chebyshev_levels(even_degree(plan)) + plan.double_angles


def even_degree(plan: BootstrapPlan) -> int:
    """The degree of the series: the plan's, or one less, since odd terms are zero."""
    return plan.chebyshev_degree // 2 * 2


def eval_mod(ev: InnerEvaluator, a: Ciphertext, plan: BootstrapPlan) -> Ciphertext:
    """sin(2 pi K x) of slots x in [-1, 1], K the plan's `sine_range`: 2 pi (K x mod 1) near whole K x."""
    # sin(2 pi K x) = cos(2 pi K y), y = x - 1/(4 K).
    a = ev.sub(a, 0.25 / plan.sine_range)
    a = evaluate(ev, a, cosine_series(even_degree(plan), plan.sine_range / 2**plan.double_angles), plan.eval_mod_limbs)
    for _ in range(plan.double_angles):
        square = rescale_level(ev, ev.square(a), plan.eval_mod_limbs)
        a = ev.sub(ev.add(square, square), 1.0)
    return a


@lru_cache(maxsize=32)
def cosine_series(degree: int, turns: float) -> Values:
    """Chebyshev series of cos(2 pi turns y) over [-1, 1], (degree + 1,); odd terms are 0."""
    series = np.asarray(chebyshev_coefficients(lambda y: np.cos(2 * np.pi * turns * y), -1.0, 1.0, degree))
    series[0] /= 2
    series[1::2] = 0.0
    return series
