"""The noise that hides the error of a shared result: hand-computed cases, and the distance that it leaves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from penstock.errors import ParamsError
from penstock.program.evaluator.flooding import TAIL, advantage_bits, flooding_std


def test_the_formula_in_cases_by_hand():
    assert flooding_std(1.0, ring_dim=1, queries=3, statistical_bits=2) == 12.0
    assert flooding_std(5.0, ring_dim=4, queries=3, statistical_bits=2) == 120.0
    assert flooding_std(1.0, ring_dim=2**16, queries=1, statistical_bits=30) == pytest.approx(29058990.52, abs=0.01)
    assert flooding_std(0.0, ring_dim=2**16, queries=1, statistical_bits=30) == 0.0


def test_four_times_the_queries_or_two_bits_take_twice_the_noise():
    one = flooding_std(7.0, ring_dim=2**12, queries=5, statistical_bits=40)
    assert flooding_std(7.0, ring_dim=2**12, queries=20, statistical_bits=40) == pytest.approx(2 * one)
    assert flooding_std(7.0, ring_dim=2**12, queries=5, statistical_bits=42) == pytest.approx(2 * one)
    assert flooding_std(7.0, ring_dim=2**14, queries=5, statistical_bits=40) == pytest.approx(2 * one)


@pytest.mark.parametrize("queries", [1, 10, 1000])
@pytest.mark.parametrize("statistical_bits", [10, 30, 55])
def test_no_distinguisher_is_better_than_is_said(queries, statistical_bits):
    """Against the exact distance of two normal vectors, which depends on their distance over sigma alone."""
    ring_dim, bound = 64, 3.0
    error = np.full(ring_dim, bound)
    std = flooding_std(bound, ring_dim, queries, statistical_bits)
    apart = math.sqrt(queries) * float(np.linalg.norm(error)) / std
    exact = math.erf(apart / math.sqrt(8))
    assert exact <= 2.0 ** -advantage_bits(statistical_bits)
    assert exact >= 2.0 ** -advantage_bits(statistical_bits) / 2  # and the bound is not loose
    divergence = apart**2 / 2
    assert divergence == pytest.approx(2.0**-statistical_bits / 24)


def test_a_coefficient_stays_within_the_tail():
    assert math.erfc(TAIL / math.sqrt(2)) < 2.0**-141


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((-1.0, 8, 1, 30), "an error of at most -1.0 bounds nothing"),
        ((math.nan, 8, 1, 30), "bounds nothing"),
        ((math.inf, 8, 1, 30), "bounds nothing"),
        ((1.0, 0, 1, 30), "0 coefficients and 1 decryptions"),
        ((1.0, 8, 0, 30), "8 coefficients and 0 decryptions"),
        ((1.0, 8, 1, 0), "0 statistical bits; ask for 1 to 128"),
        ((1.0, 8, 1, 129), "129 statistical bits"),
    ],
)
def test_what_gives_no_noise_is_refused(arguments, said):
    with pytest.raises(ParamsError, match=said):
        flooding_std(*arguments)
