"""How much noise hides the error of a decrypted result from everybody but the owner of the key.

A result of CKKS is the exact value plus an error that depends on the secret key and on the randomness of encryption.
Who knows the exact value and the ciphertext reads the error off and finds the key (Li and Micciancio, EUROCRYPT 2021,
ePrint 2020/1533). Gaussian noise that is far larger than the error hides it.

The rule: Let e be the error's coefficients and sigma the noise's standard deviation. The Kullback-Leibler divergence
between a flooded result and the exact value, flooded, is |e|^2 / (2 sigma^2). It adds up over q adaptive queries. With
sigma = sqrt(12 q) 2^(s/2) |e| the sum is 2^-s / 24. Rounding and decoding come later and lose nothing.

The bound on |e| must hold in the worst case. Estimates that take noise as independent are too small for programs that
add or multiply dependent ciphertexts. Keys were recovered although noise by such estimates was added: Guo et al., "Key
Recovery Attacks on Approximate Homomorphic Encryption with Non-Worst-Case Noise Flooding Countermeasures", USENIX
Security 2024. `penstock.program.evaluator.bounding` gives such a bound.

Source: Li, Micciancio, Schultz and Sorrell, "Securing Approximate Homomorphic Encryption Using Differential Privacy",
CRYPTO 2022 (ePrint 2022/816). OpenFHE's `CKKS_NOISE_FLOODING.md` has the same constant. It puts a deviation of one
coefficient in the place of |e|, which is sqrt(N) smaller.
"""

from __future__ import annotations

import math

from penstock.errors import ParamsError

STATISTICAL_BITS = 30
"""Statistical security, where nothing else is asked for. Source: the default of OpenFHE."""
QUERIES = 1000
"""Results of one pair that others learn, where nothing else is said: noise is enough for so many."""
TAIL = 14
"""Standard deviations that a coefficient of the noise never leaves: exp(-14^2 / 2) is less than 2^-141."""
MOST_STATISTICAL_BITS = 128


def flooding_std(error_bound: float, ring_dim: int, queries: int, statistical_bits: int) -> float:
    """The standard deviation of the noise that is added to each coefficient of c0 + c1 s before decoding.

    Args:   error_bound: bound on the root mean square of the error's coefficients, in units of the ciphertext; a bound
            on the largest coefficient is one. ring_dim: coefficients. queries: ciphertexts under one key pair whose
            decryption others learn, repetitions counted. statistical_bits: s, as of Micciancio and Walter (EUROCRYPT
            2018), who count the square of a distinguisher's advantage: `advantage_bits` has the usual measure.
    Returns: the deviation, in units of the ciphertext; to round it up is safe.
    Raises: ParamsError: a bound below 0, no coefficients, no query, or statistical bits outside of 1 to 128.
    Source: Li et al., CRYPTO 2022, with the error's Euclidean norm, which is at most sqrt(ring_dim) times the bound.
    >>> flooding_std(5.0, ring_dim=4, queries=3, statistical_bits=2)
    120.0
    """
    if not (math.isfinite(error_bound) and error_bound >= 0):
        raise ParamsError(f"flooding: an error of at most {error_bound} bounds nothing; give a number from 0")
    if ring_dim < 1 or queries < 1:
        raise ParamsError(f"flooding: {ring_dim} coefficients and {queries} decryptions; both are 1 or more")
    if not 1 <= statistical_bits <= MOST_STATISTICAL_BITS:
        raise ParamsError(f"flooding: {statistical_bits} statistical bits; ask for 1 to {MOST_STATISTICAL_BITS}")
    return math.sqrt(12.0 * queries * ring_dim) * 2.0 ** (statistical_bits / 2) * error_bound


def divergence(queries: int, statistical_bits: int) -> float:
    """The Kullback-Leibler divergence of one result with the noise of `flooding_std`: 2^-s / (24 q), in nats."""
    return 2.0**-statistical_bits / (24 * queries)


def advantage_bits(statistical_bits: int) -> float:
    """-log2 of the bound on the advantage with which anybody tells flooded results from flooded exact values.

    By Pinsker's inequality it is at most the root of half of the divergence: 2^(-s/2) / sqrt(48).

    >>> round(advantage_bits(30), 1), round(advantage_bits(55), 1)
    (17.8, 30.3)
    """
    return (statistical_bits + math.log2(48)) / 2
