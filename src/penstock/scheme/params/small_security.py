"""The level of a small ring: its own secret, under the longest modulus that any of its ciphertexts and keys has.

The small secret is uniform ternary. Records and queries show it modulo q_0; the keys that expand a query show it modulo
q_0 times one special prime. The keys from the small ring to the large one are encrypted under the ephemeral secret of
the large ring, at its dimension and modulo q_0 times the auxiliary primes, so they count with that secret.
"""

from __future__ import annotations

from penstock.scheme.params import primes, security
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.secrets import SMALL_SPECIAL_BITS


def small_ring_level(ring_dim: int, log_q: int) -> tuple[int, str]:
    """Return the level of a small ring, and a sentence that names the bound.

    Args: log_q: bits of q_0 times the special prime.
    >>> [small_ring_level(2**12, bits)[0] for bits in (106, 107)], small_ring_level(2**8, 104)[0]
    ([128, 0], 0)
    """
    return security.security_level(ring_dim, log_q)


def with_small_ring(level: int, note: str, params: CkksParameters) -> tuple[int, str]:
    """Return the lower one of a set's level and of its small ring's, and both sentences.

    Args: level, note: of the large ring alone.
    """
    small, of_small = _level(params, params.small_ring_dim)
    of_small = of_small.partition(": ")[2]
    if not small:
        return 0, f"insecure: the small ring has {of_small}; the large one: {note}"
    of_ring = f"small ring: {of_small}; its keys to the large ring are under the ephemeral secret"
    if not level:
        return 0, f"{note}; {of_ring}"
    lowest = min(level, small)
    return lowest, f"{lowest} bit: {note.partition(' bit: ')[2]}; {of_ring}"


def small_refusal(params: CkksParameters, asked: int) -> str:
    """Return why a small ring lacks the level that is asked for, and the least dimension that has it."""
    small = params.small_ring_dim
    options = ["a shorter first_mod_bits"]
    larger = [1 << k for k in range(small.bit_length(), params.ring_dim.bit_length() - 1)]
    least = next((n for n in larger if _level(params, n)[0] >= asked), None)
    if least is not None:
        options.append(f"small_ring_dim {least}, the least that holds")
    return (
        f"small_ring_dim {small}: {asked}-bit security does not hold in the small ring, with its special prime of "
        f"{SMALL_SPECIAL_BITS} bits: {_level(params, small)[1]}: take {', or '.join(options)}"
    )


def _level(params: CkksParameters, ring_dim: int) -> tuple[int, str]:
    """The level of a small ring of this dimension, under q_0 of the set times its special prime."""
    if params.library != "openfhe":
        first = params.q_primes[0].bit_length() if params.q_primes else params.q_bits[0]
        return small_ring_level(ring_dim, first + min(SMALL_SPECIAL_BITS, params.word_bits))
    first = primes.openfhe_q_primes(
        params.ring_dim, params.depth, params.first_mod_bits, params.scale_bits, params.scaling
    )[0]
    return small_ring_level(ring_dim, (first * primes.small_special_prime(ring_dim, first)).bit_length())
