"""The probability that bootstrapping's sine meets a multiple of q_0 outside its range.

Raising the modulus turns a coefficient m into m + q_0 I. Over q_0, the sum c_0 + c_1 s is a sum of h + 1 numbers that
are uniform in [-1/2, 1/2], h the weight of the secret. Its tail is exact here (Irwin-Hall, whole numbers), and all N
coefficients count by the union bound. The residues of c_0 and c_1 are taken as uniform and independent, which holds as
long as ring-LWE does. Source: Bossuat et al., ePrint 2022/024, section 4.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from penstock.scheme.params.ckks import BootstrapPlan, CkksParameters
from penstock.scheme.params.secrets import UNIFORM_TERNARY

REFRESH_FAILURE_LOG2 = -64.0
"""Largest log2 of the probability that one refresh overflows."""


@lru_cache(maxsize=256)
def tail(weight: int, sine_range: int) -> Fraction:
    """Return P(|I + m / q_0| > K) of one coefficient: exact.

    >>> tail(1, 0), tail(32, 17)
    (Fraction(1, 1), Fraction(0, 1))
    """
    terms = weight + 1
    # By symmetry the lower tail: P(sum of `terms` numbers uniform in [0, 1] < terms / 2 - K).
    double = terms - 2 * sine_range
    if double <= 0:
        return Fraction(0)
    total = sum((-1) ** i * math.comb(terms, i) * (double - 2 * i) ** terms for i in range((double + 1) // 2))
    return Fraction(2 * total, 2**terms * math.factorial(terms))


def overflow_log2(ring_dim: int, weight: int, sine_range: int) -> float:
    """Return log2 of a bound on the probability that any of the N coefficients leaves the range.

    >>> round(overflow_log2(2**16, 32, 16), 1)
    -138.7
    """
    of_one = tail(weight, sine_range)
    if not of_one:
        return -math.inf
    return min(0.0, math.log2(ring_dim) + math.log2(of_one.numerator) - math.log2(of_one.denominator))


def uniform_overflow_log2(ring_dim: int, sine_range: int) -> float:
    """Return `overflow_log2` of a uniform ternary secret, whose 2N/3 entries make the sum a normal one.

    >>> uniform_overflow_log2(2**16, 16), round(uniform_overflow_log2(2**16, 640), 0)
    (0.0, -69.0)
    """
    spread = math.sqrt((2 * ring_dim / 3 + 1) / 12)
    of_one = math.erfc(sine_range / (spread * math.sqrt(2)))
    return min(0.0, math.log2(ring_dim) + math.log2(of_one)) if of_one else -math.inf


def needs_another_secret(params: CkksParameters) -> str:
    """Return why an accelerator's set presupposes another secret than it states; empty: it does not.

    Its sine is too narrow for a uniform ternary secret: a refresh fails more often than not. So the set presupposes a
    sparse or an encapsulated secret, whose keys and key switches nobody prices. A chain that is too short for a refresh
    presupposes none.
    """
    plan = params.bootstrap
    if params.library != "accelerator" or plan is None or params.secret != UNIFORM_TERNARY:
        return ""
    if params.num_q < _least_limbs(plan) or uniform_overflow_log2(params.ring_dim, plan.sine_range) <= -1:
        return ""
    return (
        f"no level stated: bootstrap.sine_range {plan.sine_range} is too narrow for a uniform ternary secret at "
        f"N={params.ring_dim}: the set presupposes a sparse or an encapsulated secret, which it neither states nor "
        "prices"
    )


def _least_limbs(plan: BootstrapPlan) -> int:
    """A lower bound on the limbs of a chain that carries a refresh: a series of degree d takes log2(d) levels."""
    levels = plan.chebyshev_degree.bit_length() - 1 + plan.double_angles
    last = 0 if plan.order == "stc-first" else plan.stc_stages * plan.stc_limbs
    transforms = plan.cts_stages * plan.cts_limbs + last
    return transforms + levels * plan.eval_mod_limbs + plan.extra_limbs + 2


@lru_cache(maxsize=64)
def least_range(ring_dim: int, weight: int) -> int:
    """Return the least K at which a refresh overflows with at most 2^`REFRESH_FAILURE_LOG2`.

    >>> least_range(2**16, 32), least_range(2**16, 192)
    (15, 41)
    """
    sine_range = 1
    while overflow_log2(ring_dim, weight, sine_range) > REFRESH_FAILURE_LOG2:
        sine_range += 1
    return sine_range
