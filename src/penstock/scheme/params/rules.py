"""Rules that the chain of any RLWE scheme keeps; a scheme's spec calls them in `build()`. `who` names the set."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from penstock.errors import ParamsError
from penstock.scheme.params.primes import is_prime, nominal_bits, primes_of_size

MIN_RING_DIM, MAX_RING_DIM = 2**10, 2**17
MOST_PRIME_BITS = 61
"""Bits of the longest prime that a set may state: libraries keep the rest of a 64-bit word for sums."""

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")


def check_ring(who: str, name: str, n: int, word_bits: int) -> None:
    """Raises: ParamsError: a name that no file can have, a ring or a word that no scheme here has."""
    if not _NAME.match(name):
        raise ParamsError(f"{who}: a name is letters, digits, '.', '_' and '-', and begins with a letter or digit")
    if n < 1 or n & (n - 1) or not MIN_RING_DIM <= n <= MAX_RING_DIM:
        near = min(MAX_RING_DIM, max(MIN_RING_DIM, 1 << max(0, n - 1).bit_length()))
        raise ParamsError(
            f"{who}: ring_dim {n} must be a power of two from {MIN_RING_DIM} (2^10) to {MAX_RING_DIM} (2^17): "
            f"use {near} (2^{near.bit_length() - 1})"
        )
    if not 1 <= word_bits <= 64:
        raise ParamsError(f"{who}: word_bits {word_bits} must be 1 to 64")


def check_dnum(who: str, dnum: int, num_q: int) -> None:
    """Every digit must hold at least one limb."""
    if not 1 <= dnum <= num_q:
        raise ParamsError(f"{who}: dnum {dnum} must be 1 to {num_q}, the number of limbs of Q")
    if not divisible(num_q, dnum):
        near = sorted((d for d in range(1, num_q + 1) if divisible(num_q, d)), key=lambda d: (abs(d - dnum), d))
        raise ParamsError(
            f"{who}: dnum {dnum} leaves a digit empty: {num_q} limbs in digits of {-(-num_q // dnum)} fill "
            f"only {-(-num_q // -(-num_q // dnum))}; use {' or '.join(map(str, sorted(near[:2])))}"
        )


def divisible(num_q: int, dnum: int) -> bool:
    """Whether digits of ceil(num_q / dnum) limbs leave none of the `dnum` digits empty."""
    return num_q > -(-num_q // dnum) * (dnum - 1)


def check_special(who: str, q_bits: Sequence[int], p_bits: Sequence[int], dnum: int, field: str = "p_bits") -> None:
    """P must be as long as the longest digit."""
    digit = -(-len(q_bits) // dnum)
    longest = max(sum(q_bits[i : i + digit]) for i in range(0, len(q_bits), digit))
    if sum(p_bits) < longest:
        raise ParamsError(
            f"{who}: {field} sum to {sum(p_bits)}, but P must be at least as long as the longest digit of Q, "
            f"{longest} bits: add special primes or raise dnum"
        )


def check_sizes(who: str, ring_dim: int, word_bits: int, q_bits: Sequence[int], p_bits: Sequence[int]) -> None:
    """Primes of these sizes must exist and fit a word."""
    for field, sizes in (("q_bits", q_bits), ("p_bits", p_bits)):
        for bits in sizes:
            if not 2 <= bits <= word_bits:
                raise ParamsError(f"{who}: {field}: {bits} bits, but a prime has 2 to word_bits = {word_bits}")
    for bits, wanted in Counter((*q_bits, *p_bits)).items():
        there = primes_of_size(bits, ring_dim)
        if there is not None and wanted > there:
            raise ParamsError(
                f"{who}: {wanted} primes of {bits} bits, and {there} are 1 modulo 2 x ring_dim = {2 * ring_dim}: "
                "there is no number-theoretic transform modulo others; use wider primes, or a smaller ring_dim"
            )


def sizes_of(
    who: str, ring_dim: int, word_bits: int, q: Sequence[int], p: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the nominal bits of stated primes, which must be primes of this ring, each of them once."""
    step, most = 2 * ring_dim, min(MOST_PRIME_BITS, word_bits)
    for field, stated in (("q_primes", q), ("p_primes", p)):
        for prime in stated:
            if prime.bit_length() > most:
                raise ParamsError(f"{who}: {field}: {prime} has {prime.bit_length()} bits; use primes below 2^{most}")
            if prime % step != 1:
                raise ParamsError(
                    f"{who}: {field}: {prime} is {prime % step} modulo 2 x ring_dim = {step}: there is no "
                    f"number-theoretic transform modulo it; use primes that are 1 modulo {step}"
                )
            if not is_prime(prime):
                raise ParamsError(f"{who}: {field}: {prime} is not a prime: use primes that are 1 modulo {step}")
    twice = [prime for prime, count in Counter((*q, *p)).items() if count > 1]
    if twice:
        raise ParamsError(f"{who}: {twice[0]} stands twice in q_primes and p_primes: use each prime once")
    return tuple(map(nominal_bits, q)), tuple(map(nominal_bits, p))
