"""The level of a small ring: its own secret, under the longest modulus that any of its ciphertexts and keys has.

The small secret is uniform ternary. Records and queries show it modulo q_0; the keys that expand a query show it modulo
q_0 times one special prime. The keys from the small ring to the large one are encrypted under the ephemeral secret of
the large ring, at its dimension and modulo q_0 times the auxiliary primes, so they count with that secret.
"""

from __future__ import annotations

from penstock.params import security


def small_ring_level(ring_dim: int, log_q: int) -> tuple[int, str]:
    """Return the level of a small ring, and a sentence that names the bound.

    Args: log_q: bits of q_0 times the special prime.
    >>> [small_ring_level(2**12, bits)[0] for bits in (106, 107)], small_ring_level(2**8, 104)[0]
    ([128, 0], 0)
    """
    return security.security_level(ring_dim, log_q)


def with_small_ring(level: int, note: str, ring_dim: int, log_q: int) -> tuple[int, str]:
    """Return the lower one of a set's level and of its small ring's, and both sentences.

    >>> with_small_ring(128, "128 bit: the large ring", 2**10, 104)[1][:44]
    'insecure: the small ring has logQP 104 at N='
    """
    small, of_small = small_ring_level(ring_dim, log_q)
    of_small = of_small.partition(": ")[2]
    if not small:
        return 0, f"insecure: the small ring has {of_small}; the large one: {note}"
    said = f"small ring: {of_small}; its keys to the large ring are under the ephemeral secret"
    if not level:
        return 0, f"{note}; {said}"
    _, _, of_large = note.partition(" bit: ")
    lowest = min(level, small)
    return lowest, f"{lowest} bit: {of_large}; {said}"
