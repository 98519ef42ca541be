"""The primes of a modulus chain as OpenFHE picks them, so that sizes and security are exact before it is run.

Every prime is 1 modulo 2N. OpenFHE's choice among them depends on ring dimension, depth, prime sizes and scaling rule.
Source: OpenFHE 1.5.1, `ckksrns-parametergeneration.cpp` (Q), `rns-cryptoparameters.cpp` (P), `nbtheory-impl.h`;
checked against the primes that the 1.6.1 wheel serializes: 560 random sets, N = 2^10 to 2^17, no difference.
"""

from __future__ import annotations

import math
import threading
from functools import lru_cache

from penstock.errors import ParamsError
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.params.rlwe import RlweParameters
from penstock.scheme.params.secrets import SMALL_SPECIAL_BITS

MIN_SCALE_BITS = 14
MAX_SCALE_BITS = 59
MAX_PRIME_BITS = 60
"""Largest prime of OpenFHE's 64-bit build."""
SPECIAL_PRIME_BITS = 60
"""Size of each special prime of hybrid key switching."""
SPECIAL_MARGIN_BITS = 4
"""Bits by which P exceeds the longest digit. Not in the 1.5.1 source; 1.6.1 does so: 250 random sets near the step."""
EXTRA_PRIME_BITS = 20
"""Bits that OpenFHE counts for the extra prime of FLEXIBLEAUTOEXT; the prime itself lies just above 2^19."""

# Deterministic below 3.18 * 10^23. Source: Sorenson & Webster, Math. Comp. 86 (2017).
_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


@lru_cache(maxsize=1 << 16)  # chains of neighbouring depths try the same candidates
def is_prime(n: int) -> bool:
    """Whether `n` is prime; exact for all 64-bit numbers.

    >>> is_prime(2**61 - 1), is_prime(2**59 - 1)
    (True, False)
    """
    if n < 2:
        return False
    for p in _WITNESSES:
        if n % p == 0:
            return n == p
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for a in _WITNESSES:
        x = pow(a, odd, n)
        if x in (1, n - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


def _next_prime(n: int, step: int) -> int:
    n += step
    while not is_prime(n):
        n += step
    return n


def _previous_prime(n: int, step: int) -> int:
    n -= step
    while not is_prime(n):
        n -= step
        if n < 2:
            raise ParamsError(
                f"too few primes of that size are 1 modulo {step}: raise scale_bits, or lower depth or ring_dim"
            )
    return n


_COUNTED = 1 << 12
"""Candidates up to which primes are counted one by one; of more there are enough for any chain."""


@lru_cache(maxsize=256)
def primes_of_size(bits: int, ring_dim: int) -> int | None:
    """The number of primes of this many bits that are 1 modulo 2N; `None`: enough for any chain.

    >>> primes_of_size(18, 2**14), primes_of_size(17, 2**16), primes_of_size(36, 2**16)
    (1, 0, None)
    """
    step = 2 * ring_dim
    if (1 << bits) // step > _COUNTED:
        return None
    first = (1 << (bits - 1)) // step * step + 1
    return sum(is_prime(n) for n in range(first, 1 << bits, step) if n.bit_length() == bits)


def _first_prime_from(bits: int, step: int) -> int:
    """The least prime above 2^bits that is 1 modulo `step`."""
    start = (1 << bits) // step * step + 1
    return start if start > (1 << bits) and is_prime(start) else _next_prime(start, step)


def _last_prime_below(bits: int, step: int) -> int:
    """The greatest prime below 2^bits that is 1 modulo `step`, if it still has `bits` bits."""
    prime = _previous_prime((1 << bits) // step * step + 1, step)
    if prime.bit_length() != bits:
        raise ParamsError(f"no prime of {bits} bits is 1 modulo {step}: raise first_mod_bits or lower ring_dim")
    return prime


def check_openfhe_bits(who: str, first_mod_bits: int, scale_bits: int) -> None:
    """Raises: ParamsError: OpenFHE has no primes of these sizes."""
    if not MIN_SCALE_BITS <= scale_bits <= MAX_SCALE_BITS:
        raise ParamsError(f"{who}: scale_bits {scale_bits} must be {MIN_SCALE_BITS} to {MAX_SCALE_BITS} in OpenFHE")
    if not scale_bits <= first_mod_bits <= MAX_PRIME_BITS:
        raise ParamsError(
            f"{who}: first_mod_bits {first_mod_bits} must be at least scale_bits ({scale_bits}) and at most "
            f"{MAX_PRIME_BITS}, the longest prime of OpenFHE"
        )


@lru_cache(maxsize=256)
def openfhe_q_primes(
    ring_dim: int, depth: int, first_mod_bits: int, scale_bits: int, scaling: Scaling
) -> tuple[int, ...]:
    """The primes of Q, q_0 first: `depth + 1` of them, one more under FLEXIBLEAUTOEXT.

    Raises: ParamsError: too few primes of that size, or FLEXIBLEAUTO's scaling factors drift by more than a factor 2.
    >>> [q.bit_length() for q in openfhe_q_primes(4096, 2, 60, 50, Scaling.FLEXIBLE_AUTO)]
    [60, 50, 51]
    """
    step = 2 * ring_dim
    flexible = scaling in (Scaling.FLEXIBLE_AUTO, Scaling.FLEXIBLE_AUTO_EXT)
    top = _first_prime_from(scale_bits, step)
    scaled = [top]  # q_depth, q_{depth-1}, …, q_1 in the order in which they are picked
    if flexible:
        scaled = _flexible_primes(top, step).first(depth)
    else:
        below = above = top
        for i in range(depth - 1):
            if i % 2 == 0:
                below = _previous_prime(below, step)
                scaled.append(below)
            else:
                above = _next_prime(above, step)
                scaled.append(above)
    scaled = scaled[:depth]
    largest = max(scaled, default=top)
    if first_mod_bits == scale_bits:
        first = _next_prime(max(largest, top), step)
    else:
        first = _last_prime_below(first_mod_bits, step)
        if first in scaled:
            first = _next_prime(max(largest, top), step)
    chain = [first, *reversed(scaled)]
    if scaling is Scaling.FLEXIBLE_AUTO_EXT:
        extra = _first_prime_from(EXTRA_PRIME_BITS - 1, step)
        chain.append(_next_prime(max(chain), step) if extra in chain else extra)
    if flexible:
        _check_scaling_factors(chain, scaling)
    return tuple(chain)


class _FlexiblePrimes:
    """Primes on alternating sides of a running scaling factor, which keeps the scale of every level near the first.

    In double precision on purpose: the choice follows OpenFHE's rounding. A shorter chain takes the first of them, so
    they are kept.
    """

    def __init__(self, top: int, step: int) -> None:
        self._step = step
        self._picked = [top]
        self._known = {top}
        self._factor = float(top)
        self._lock = threading.Lock()

    def first(self, count: int) -> list[int]:
        """The first `count` of them, at least one. Raises: ParamsError: too few primes of that size."""
        with self._lock:  # it is one for all threads
            while len(self._picked) < count:
                self._pick()
            return self._picked[: max(count, 1)]

    def _pick(self) -> None:
        step, down = self._step, len(self._picked) % 2 == 1
        factor = self._factor * self._factor / float(self._picked[-1])
        centre = round_half_away(factor)
        centre -= centre % step
        side = _previous_prime if down else _next_prime
        prime = side(centre + 1 + (-step if down else step), step)
        while prime in self._known:
            prime = side(prime, step)
        self._picked.append(prime)
        self._known.add(prime)
        self._factor = factor


@lru_cache(maxsize=64)
def _flexible_primes(top: int, step: int) -> _FlexiblePrimes:
    return _FlexiblePrimes(top, step)


def round_half_away(value: float) -> int:
    """`value` to the nearest integer, halves away from zero, as C's `llround`."""
    whole = math.floor(value)
    return whole + 1 if value - whole >= 0.5 else whole


def _check_scaling_factors(chain: list[int], scaling: Scaling) -> None:
    extended = scaling is Scaling.FLEXIBLE_AUTO_EXT
    if len(chain) <= (2 if extended else 1):
        return
    preset = float(chain[-2] if extended else chain[-1])
    factor = preset
    for level in range(2 if extended else 1, len(chain)):
        factor = factor * factor / float(chain[len(chain) - level])
        if not 0.5 < factor / preset < 2.0:
            raise ParamsError(
                f"{scaling}: the scaling factor of level {level} is {factor / preset:.3g} times the first one; OpenFHE "
                "refuses a factor of 2 or more: raise scale_bits, lower depth, or use scaling fixed-manual"
            )


def num_special_primes(q_primes: tuple[int, ...], dnum: int) -> int:
    """Special primes that make P longer than the longest digit of Q by the margin."""
    digit_limbs = -(-len(q_primes) // dnum)
    longest = max(math.prod(q_primes[i : i + digit_limbs]).bit_length() for i in range(0, len(q_primes), digit_limbs))
    return -(-(longest + SPECIAL_MARGIN_BITS) // SPECIAL_PRIME_BITS)


@lru_cache(maxsize=256)
def openfhe_p_primes(ring_dim: int, q_primes: tuple[int, ...], dnum: int) -> tuple[int, ...]:
    """The special primes P: downwards from 2^60, without the primes of Q.

    >>> len(openfhe_p_primes(4096, openfhe_q_primes(4096, 2, 60, 50, Scaling.FLEXIBLE_AUTO), 3))
    2
    """
    step = 2 * ring_dim
    primes: list[int] = []
    prime = _first_prime_from(SPECIAL_PRIME_BITS, step)
    for _ in range(num_special_primes(q_primes, dnum)):
        prime = _previous_prime(prime, step)
        while prime in q_primes:
            prime = _previous_prime(prime, step)
        primes.append(prime)
    return tuple(primes)


def primes_of(params: RlweParameters) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The primes of Q and of P, q_0 first: as the set states them, else as OpenFHE derives them.

    Raises: ParamsError: the set states sizes and no primes.
    """
    return (params.q_primes, params.p_primes) if params.q_primes else openfhe_primes(params)


def openfhe_primes(params: RlweParameters) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The primes of Q and of P of an OpenFHE set, q_0 first.

    Raises: ParamsError: the set is an accelerator's, which nothing here runs; OpenFHE has no primes of its sizes.
    """
    if params.library != "openfhe" or not isinstance(params, CkksParameters):
        states = "its own primes" if params.q_primes else "prime sizes, not primes"
        raise ParamsError(
            f"parameter set '{params.name}': library '{params.library}' states {states}; keys are of "
            "OpenFHE's sets ('penstock params list')"
        )
    first = params.first_mod_bits or params.q_bits[0]
    check_openfhe_bits(f"parameter set '{params.name}'", first, params.scale_bits)
    q = openfhe_q_primes(params.ring_dim, params.depth, first, params.scale_bits, params.scaling)
    return q, openfhe_p_primes(params.ring_dim, q, params.dnum)


def small_special_prime(ring_dim: int, modulus: int) -> int:
    """The special prime of a small ring of this dimension under q_0: the longest up to 54 bits that is another prime.

    >>> small_special_prime(2**12, openfhe_q_primes(2**16, 24, 50, 45, Scaling.FLEXIBLE_AUTO)[0]).bit_length()
    54
    """
    special = (1 << SMALL_SPECIAL_BITS) + 1
    while not is_prime(special) or special == modulus:
        special -= 2 * ring_dim
    return special


def nominal_bits(prime: int) -> int:
    """Bits of a prime to the nearest whole number: 50 for one a little above 2^50 as for one a little below.

    >>> nominal_bits(2**50 + 9), nominal_bits(2**60 - 93)
    (50, 60)
    """
    return round(math.log2(prime))
