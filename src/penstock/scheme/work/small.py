"""Kernel work of ciphertexts of a smaller ring: a query expanded, inner products, packing, switches to the large ring.

The small ring has n points, the first limb q_0 and one special prime; `Operation.polynomials` counts the polynomials of
all operands there. Source of the expansion: Angel, Chen, Laine and Setty, IEEE S&P 2018 (ePrint 2017/1142).
"""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import UsageError
from penstock.scheme.operations import FROM_SMALL_KEY, FROM_SMALL_SQUARED_KEY, SMALL_ROTATION, TO_SPARSE_KEY, OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.secrets import AUXILIARY_PRIMES, SMALL_SPECIAL_BITS
from penstock.scheme.work.kernel_work import KernelWork, add_loops
from penstock.scheme.work.stages import PRICES, Operation, key_switch


def small_parameters(params: CkksParameters) -> CkksParameters:
    """The small ring of a set, as a set of its own.

    Raises: UsageError: the set has none.
    """
    n = params.small_ring_dim
    if not n:
        raise UsageError(
            f"parameter set '{params.name}' has no small ring: state small_ring_dim, or take 'openfhe-similarity'"
        )
    special = min(SMALL_SPECIAL_BITS, params.word_bits)
    return replace(
        params, ring_dim=n, slots=n // 2, q_bits=params.q_bits[:1], p_bits=(special,), dnum=1, bootstrap=None,
        small_ring_dim=0,
    )  # fmt: skip


@PRICES.of(OpKind.EXPAND_SMALL)
def expand_small(s: Operation) -> KernelWork:
    """Each ciphertext to two: an automorphism with its key switch, a sum, and a difference times a monomial."""
    small = small_parameters(s.params)
    n, count = small.ring_dim, s.polynomials // 2
    rotation = key_switch(small, 1, s.key_form) + KernelWork(
        elementwise_adds=n,
        automorphism_coefficients=2 * n,
        element_loops=((1, 3),),
    )
    halves = KernelWork(
        ring_dim=n,
        elementwise_adds=4 * n,
        elementwise_mults=2 * n,
        constant_mults=2 * n,
        element_loops=((1, 6),),
    )
    return replace(
        (rotation + halves).times(count),
        # One key and one map of the automorphism for all.
        key_bytes=s.params.key_bytes(1, s.key_form, key=SMALL_ROTATION),
        mapped_indices=n,
        ciphertext_read_bytes=s.params.small_bytes(2 * count),
        ciphertext_write_bytes=s.params.small_bytes(4 * count),
    )


@PRICES.of(OpKind.INNER_PRODUCTS)
def inner_products(s: Operation) -> KernelWork:
    """A product of two ciphertexts, of three polynomials, for each of the vector, summed; then these to coefficients.

    The halves of the stored rows that come from a seed are not counted: a machine that expands keys expands them too.
    """
    n, count = small_parameters(s.params).ring_dim, s.polynomials // 2
    return KernelWork(
        ring_dim=n,
        limb_transforms=3,
        elementwise_mults=4 * count * n,
        transform_loops=((1, 3),),
        element_loops=((1, 4 * count),),
        ciphertext_read_bytes=s.params.small_bytes(2 * count),
        ciphertext_write_bytes=s.params.small_bytes(3),
    )


@PRICES.of(OpKind.PACK_SMALL)
def pack_small(s: Operation) -> KernelWork:
    """Coefficients of up to N/n ciphertexts side by side, and a transform of each of the three polynomials."""
    small_parameters(s.params)
    size = s.params.ring_dim
    return KernelWork(
        ring_dim=size,
        limb_transforms=3,
        automorphism_coefficients=3 * size,
        transform_loops=((1, 3),),
        element_loops=((1, 3),),
        ciphertext_read_bytes=s.params.small_bytes(s.polynomials),
        ciphertext_write_bytes=s.params.ciphertext_bytes(1, 3),
    )


def to_ephemeral(s: Operation, key: str, sums: int, polynomials: int = 2) -> KernelWork:
    """Key switch of one limb over q_0 and the auxiliary primes, whose product is the divisor; one digit.

    With k auxiliary primes: INTT 1, conversion from 1 to k, NTT k; 4 (1+k)/2 products with the key a half; INTT k,
    conversion from k to 1, NTT 1 a half. `sums`: polynomials that are added to the result;
    `polynomials`: of the operand.
    """
    size, k = s.params.ring_dim, AUXILIARY_PRIMES
    return KernelWork(
        ring_dim=size,
        limb_transforms=3 * (1 + k),
        bconv_macs=3 * k * size,
        converted_coefficients=2 * size,
        elementwise_mults=(2 * (1 + k) + 2) * size,
        key_mults=2 * (1 + k) * size,
        constant_mults=2 * size,
        elementwise_adds=(2 + sums) * size,
        key_bytes=s.params.key_bytes(1, s.key_form, key=key),
        digit_steps=1,
        base_conversions=3,
        transform_loops=add_loops(((1, 3),), ((k, 3),)),
        element_loops=add_loops(((1, 4 + sums),), ((1 + k, 2),)),
        ciphertext_read_bytes=s.params.ciphertext_bytes(1, polynomials),
        ciphertext_write_bytes=s.params.ciphertext_bytes(1),
    )


@PRICES.of(OpKind.TO_SPARSE)
def to_sparse(s: Operation) -> KernelWork:
    return to_ephemeral(s, TO_SPARSE_KEY, 1)


@PRICES.of(OpKind.SWITCH_SMALL_SQUARED)
def switch_small_squared(s: Operation) -> KernelWork:
    """The third polynomial only: nothing is added to it yet."""
    small_parameters(s.params)
    return to_ephemeral(s, FROM_SMALL_SQUARED_KEY, 0, s.polynomials)


@PRICES.of(OpKind.SWITCH_SMALL)
def switch_small(s: Operation) -> KernelWork:
    """The second polynomial, the first one and both of the switched third."""
    small_parameters(s.params)
    return to_ephemeral(s, FROM_SMALL_KEY, 3, s.polynomials)
