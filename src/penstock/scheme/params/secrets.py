"""Distributions of the secret key: names, weights, and the secret under which bootstrapping raises the modulus.

Source of the weights: OpenFHE 1.5.1, `base-pke.cpp` (192) and `ckksrns-fhe.cpp`, EvalBootstrapKeyGen (32).
"""

from __future__ import annotations

UNIFORM_TERNARY = "uniform-ternary"
SPARSE_TERNARY = "sparse-ternary"
SPARSE_ENCAPSULATED = "sparse-encapsulated"
"""OpenFHE's SPARSE_ENCAPSULATED: a main secret of weight 192, and an ephemeral one that holds only while the modulus
is raised."""
UNIFORM_ENCAPSULATED = "uniform-encapsulated"
"""A uniform ternary main secret and the same ephemeral one. OpenFHE evaluates with such keys; its key generation has
no name for them."""
SPARSE_WEIGHT = 192
"""Coefficients of a sparse main secret that are not 0."""
EPHEMERAL_WEIGHT = 32
"""Coefficients of an ephemeral secret that are not 0."""
AUXILIARY_PRIMES = 2
"""Primes of the auxiliary modulus of the switch to the ephemeral secret, instead of P."""
AUXILIARY_BITS = 33
"""Bits of each: together 6 more than the longest q_0, so that the switch adds its rounding and little else. Source:
OpenFHE 1.6.1 (pull request 1248); its keys have these moduli."""

SMALL_SPECIAL_BITS = 54
"""Bits of the special prime of a small ring: with a q_0 of at most 52 bits within the 2024 guidelines' bound for 128
bits at N = 2^12."""


def is_encapsulated(secret: str) -> bool:
    """Whether the modulus is raised under an ephemeral secret.

    >>> is_encapsulated("sparse-encapsulated"), is_encapsulated("sparse-ternary")
    (True, False)
    """
    return secret in (SPARSE_ENCAPSULATED, UNIFORM_ENCAPSULATED)


def main_weight(secret: str) -> int | None:
    """Return the weight of the main secret; `None`: uniform ternary."""
    return SPARSE_WEIGHT if secret in (SPARSE_TERNARY, SPARSE_ENCAPSULATED) else None


def raised_weight(secret: str) -> int | None:
    """Return the weight of the secret under which the modulus is raised; `None`: uniform ternary."""
    return EPHEMERAL_WEIGHT if is_encapsulated(secret) else main_weight(secret)
