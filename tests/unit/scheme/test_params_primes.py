from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ParamsError
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import Scaling
from penstock.scheme.params.primes import (
    _flexible_primes,
    is_prime,
    nominal_bits,
    num_special_primes,
    openfhe_p_primes,
    openfhe_primes,
    openfhe_q_primes,
    round_half_away,
)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"scale_bits": 84}, "scale_bits 84 must be 14 to 59"),
        ({"scale_bits": 13}, "scale_bits 13 must be 14 to 59"),
        ({"first_mod_bits": 61}, "first_mod_bits 61 must be at least scale_bits"),
        ({"first_mod_bits": 41}, "first_mod_bits 41 must be at least scale_bits"),
    ],
)
def test_sizes_that_no_prime_of_openfhe_has_are_refused(changed: dict[str, int], why: str) -> None:
    with pytest.raises(ParamsError, match=why):
        openfhe_primes(replace(catalogue.get("insecure-ci"), **changed))


def by_trial_division(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1))


def test_primes_below_ten_thousand_are_told_from_the_rest() -> None:
    assert [n for n in range(10_000) if is_prime(n)] == [n for n in range(10_000) if by_trial_division(n)]


@pytest.mark.parametrize("n", [3_215_031_751, 3_825_123_056_546_413_051, (2**31 - 1) * (2**29 - 3)])
def test_strong_pseudoprimes_are_composite(n: int) -> None:
    # The first two are the least strong pseudoprimes to the bases 2 to 7 and 2 to 23.
    assert not is_prime(n)


def test_primes_of_a_flexible_chain_are_those_that_openfhe_serializes() -> None:
    # Read from the JSON of a CryptoContext of OpenFHE 1.6.1: N = 2048, depth 2, 60/50 bits, FLEXIBLEAUTO.
    assert openfhe_q_primes(2048, 2, 60, 50, Scaling.FLEXIBLE_AUTO)[:2] == (1152921504606830593, 1125899906826241)


scalings = st.sampled_from(Scaling)


@given(st.integers(10, 14), st.integers(0, 12), st.integers(30, 59), scalings, st.integers(1, 4))
def test_a_chain_is_distinct_primes_that_are_1_modulo_2n(
    log_n: int, depth: int, scale_bits: int, scaling: Scaling, dnum: int
) -> None:
    ring_dim = 2**log_n
    q = openfhe_q_primes(ring_dim, depth, 60, scale_bits, scaling)
    p = openfhe_p_primes(ring_dim, q, min(dnum, len(q)))
    chain = q + p
    assert len(set(chain)) == len(chain)
    assert all(is_prime(prime) and prime % (2 * ring_dim) == 1 for prime in chain)
    assert len(q) == depth + 1 + (scaling is Scaling.FLEXIBLE_AUTO_EXT)
    assert nominal_bits(q[0]) == 60
    assert {nominal_bits(prime) for prime in q[1 : depth + 1]} <= {scale_bits}


@given(st.integers(0, 12), st.integers(40, 59), st.integers(1, 13))
def test_p_is_longer_than_every_digit_by_four_bits_and_no_longer_than_needed(depth: int, bits: int, dnum: int) -> None:
    q = openfhe_q_primes(4096, depth, 60, bits, Scaling.FIXED_MANUAL)
    size = -(-len(q) // dnum)
    longest = max(math.prod(q[i : i + size]).bit_length() for i in range(0, len(q), size))
    special = num_special_primes(q, dnum)
    assert 60 * (special - 1) < longest + 4 <= 60 * special


def test_a_first_prime_of_the_scaling_size_lies_above_all_others() -> None:
    q = openfhe_q_primes(4096, 5, 45, 45, Scaling.FIXED_MANUAL)
    assert q[0] == max(q)


def test_a_chain_without_enough_primes_is_refused() -> None:
    with pytest.raises(ParamsError, match="too few primes"):
        openfhe_q_primes(2**17, 30, 20, 18, Scaling.FIXED_MANUAL)


def test_a_flexible_chain_whose_scale_drifts_is_refused() -> None:
    with pytest.raises(ParamsError, match="scaling factor of level"):
        openfhe_q_primes(4096, 30, 60, 20, Scaling.FLEXIBLE_AUTO)
    assert len(openfhe_q_primes(4096, 30, 60, 20, Scaling.FIXED_AUTO)) == 31


@pytest.mark.parametrize(("value", "whole"), [(0.5, 1), (1.5, 2), (2.5, 3), (2.4999, 2), (2.0**59 + 128, 2**59 + 128)])
def test_halves_are_rounded_away_from_zero_as_c_does(value: float, whole: int) -> None:
    assert round_half_away(value) == whole


def test_a_chain_is_the_same_whatever_was_asked_for_before_and_by_how_many() -> None:
    """Shorter chains are the first primes of longer ones, which are kept; a server asks from several threads."""
    asked = [(scaling, depth) for scaling in Scaling for depth in (3, 57, 20, 90, 57)]

    def alone(scaling: Scaling, depth: int) -> tuple[int, ...]:
        openfhe_q_primes.cache_clear()
        _flexible_primes.cache_clear()
        return openfhe_q_primes(4096, depth, 60, 50, scaling)

    expected = [alone(*each) for each in asked]
    for _ in range(5):
        openfhe_q_primes.cache_clear()
        _flexible_primes.cache_clear()
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda each: openfhe_q_primes(4096, each[1], 60, 50, each[0]), asked))
        assert found == expected
