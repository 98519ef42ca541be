"""Kernel work of operations over Q and P: ciphertexts that stay undivided between a product with a key and ModDown.

Rotations, sums and products with plaintexts then share one ModDown ("double hoisting"): what OpenFHE does inside
EvalBootstrap and EvalSum. A polynomial has n+k limbs. Notation as in `penstock.scheme.work.kernels`.
Sources: Bossuat et al., EUROCRYPT 2021 (ePrint 2020/1203); OpenFHE 1.5.1, `keyswitch-hybrid.cpp` (KeySwitchExt,
KeySwitchDown) and `ckksrns-leveledshe.cpp` (EvalFastRotationExt).
"""

from __future__ import annotations

from dataclasses import replace

from penstock.scheme.operations import OpKind
from penstock.scheme.work.kernel_work import KernelWork
from penstock.scheme.work.stages import PRICES, Operation, key_product, mod_down, mod_up


@PRICES.of(OpKind.EXTEND)
def extend(s: Operation) -> KernelWork:
    """Both polynomials times P; their limbs of P are zero."""
    return KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_mults=2 * s.coefficients,
        constant_mults=2 * s.coefficients,
        element_loops=s.loops(2),
        ciphertext_read_bytes=s.ciphertext(polynomials=2),
        ciphertext_write_bytes=s.extended_bytes,
    )


@PRICES.of(OpKind.ROTATE_EXTENDED)
def rotate_extended(s: Operation) -> KernelWork:
    """Product of the digits with the key, plus the other polynomial; automorphism of both, over n+k limbs."""
    wide, size = s.extended_limbs, s.params.ring_dim
    return key_product(s.params, s.limbs, s.key_form) + KernelWork(
        elementwise_adds=wide * size,
        automorphism_coefficients=2 * wide * size,
        mapped_indices=size,
        digit_steps=s.params.active_digits(s.limbs),
        element_loops=((wide, 3),),
        ciphertext_read_bytes=s.params.polynomial_bytes(wide) + s.digits_bytes,
        ciphertext_write_bytes=s.extended_bytes,
    )


@PRICES.of(OpKind.ROTATE_HOISTED_EXTENDED)
def rotate_hoisted_extended(s: Operation) -> KernelWork:
    """The same from a ciphertext over Q, whose other polynomial is multiplied by P first."""
    wide = s.params.polynomial_bytes(s.extended_limbs)
    work = rotate_extended(s) + KernelWork(
        elementwise_mults=s.coefficients,
        constant_mults=s.coefficients,
        element_loops=s.loops(1),
    )
    return replace(work, ciphertext_read_bytes=work.ciphertext_read_bytes - wide + s.params.polynomial_bytes(s.limbs))


@PRICES.of(OpKind.DECOMPOSE_EXTENDED)
def decompose_extended(s: Operation) -> KernelWork:
    """ModDown of the polynomial that is decomposed, then ModUp; the polynomial in between is not written."""
    return (
        mod_down(s.params, s.limbs, 1)
        + mod_up(s.params, s.limbs)
        + KernelWork(
            ciphertext_read_bytes=s.params.polynomial_bytes(s.extended_limbs),
            ciphertext_write_bytes=s.digits_bytes,
        )
    )


@PRICES.of(OpKind.MOD_DOWN)
def divided(s: Operation) -> KernelWork:
    """ModDown of both polynomials."""
    return mod_down(s.params, s.limbs) + KernelWork(
        ciphertext_read_bytes=s.extended_bytes,
        ciphertext_write_bytes=s.ciphertext(polynomials=2),
    )
