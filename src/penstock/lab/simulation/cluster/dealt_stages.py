"""What one host of rPLP computes in each stage of an operation; `dealing` puts them together.

Summed over all hosts each is the part of `kernels` that its docstring names. Element-wise work is not here:
it goes with the limbs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.work.kernel_work import KernelWork, Loops, add_loops
from penstock.scheme.work.kernels import digit_sizes


@dataclass(frozen=True, slots=True)
class Holding:
    """What one host holds of the n + k limbs of an operation."""

    digits: tuple[int, ...]
    """Own limbs of each active digit."""
    special: int
    """Own limbs of P."""

    @property
    def own(self) -> int:
        """Own limbs of Q."""
        return sum(self.digits)


def before_mod_up(params: CkksParameters, limbs: int, held: Holding) -> KernelWork:
    """INTT of its limbs of one polynomial, one multiplication a coefficient."""
    return _scaled_back(params, held.own, add_loops(*(((a, 1),) for a in held.digits)))


def after_mod_up(params: CkksParameters, limbs: int, held: Holding) -> KernelWork:
    """Each digit, all of whose limbs are there now, to the host's other limbs: conversion and NTT."""
    sizes = digit_sizes(params, limbs)
    others = [held.own + held.special - a for a in held.digits]
    return KernelWork(
        ring_dim=params.ring_dim,
        limb_transforms=sum(others),
        bconv_macs=sum(size * other for size, other in zip(sizes, others, strict=True)) * params.ring_dim,
        converted_coefficients=sum(others) * params.ring_dim,
        digit_steps=len(sizes),
        base_conversions=len(sizes),
        transform_loops=add_loops(*(((other, 1),) for other in others)),
    )


def key_product(params: CkksParameters, limbs: int, held: Holding, key_form: KeyForm | None) -> KernelWork:
    """The product of the digits with its limbs of the key."""
    digits, own = len(held.digits), held.own + held.special
    return KernelWork(
        ring_dim=params.ring_dim,
        elementwise_mults=2 * digits * own * params.ring_dim,
        key_mults=2 * digits * own * params.ring_dim,
        key_bytes=params.key_bytes(limbs, key_form) // (limbs + params.num_p) * own,
        element_loops=add_loops(((own, 2 * digits),)),
    )


def before_mod_down(params: CkksParameters, held: Holding, polynomials: int = 2) -> KernelWork:
    """INTT of its limbs of P."""
    return _scaled_back(params, polynomials * held.special, add_loops(((held.special, polynomials),)))


def _scaled_back(params: CkksParameters, limbs: int, loops: Loops) -> KernelWork:
    """INTT of so many limbs, one multiplication a coefficient."""
    mults = limbs * params.ring_dim
    return KernelWork(
        ring_dim=params.ring_dim,
        limb_transforms=limbs,
        elementwise_mults=mults,
        constant_mults=mults,
        transform_loops=loops,
        element_loops=loops,
    )


def after_mod_down(params: CkksParameters, held: Holding, polynomials: int = 2) -> KernelWork:
    """All limbs of P, which are there now, to its limbs of Q: conversion, NTT, subtract and scale."""
    of_one = after_last_limb(params, held.own, polynomials)
    return replace(
        of_one,
        bconv_macs=params.num_p * of_one.bconv_macs,
        converted_coefficients=polynomials * held.own * params.ring_dim,
        base_conversions=polynomials,
    )


def hoisted_digits(params: CkksParameters, held: Holding, *, written: bool) -> KernelWork:
    """The digits of a decomposition on its limbs: read or written."""
    num_bytes = len(held.digits) * params.polynomial_bytes(held.own + held.special)
    return KernelWork(
        ring_dim=params.ring_dim,
        ciphertext_write_bytes=num_bytes if written else 0,
        ciphertext_read_bytes=0 if written else num_bytes,
    )


def scalar_products(params: CkksParameters, own: int, polynomials: int) -> KernelWork:
    """Its limbs of so many polynomials by a constant."""
    mults = polynomials * own * params.ring_dim
    return KernelWork(
        ring_dim=params.ring_dim,
        elementwise_mults=mults,
        constant_mults=mults,
        element_loops=add_loops(((own, polynomials),)),
    )


def last_limb(params: CkksParameters, polynomials: int) -> KernelWork:
    """INTT of the limb that a rescale drops, where it lives; all others wait for it."""
    return KernelWork(
        ring_dim=params.ring_dim, limb_transforms=polynomials, transform_loops=add_loops(((1, polynomials),))
    )


def after_last_limb(params: CkksParameters, own: int, polynomials: int) -> KernelWork:
    """The dropped limb, after its arrival, to its `own` limbs that stay: NTT, subtract and scale."""
    size = params.ring_dim
    return KernelWork(
        ring_dim=size,
        limb_transforms=polynomials * own,
        bconv_macs=polynomials * own * size,
        elementwise_mults=polynomials * own * size,
        constant_mults=polynomials * own * size,
        elementwise_adds=polynomials * own * size,
        transform_loops=add_loops(((own, polynomials),)),
        element_loops=add_loops(((own, 2 * polynomials),)),
    )


def raised(params: CkksParameters, limbs: int, own: int, new: int, polynomials: int) -> tuple[KernelWork, KernelWork]:
    """ModRaise: INTT of its `own` limbs; then conversion of all `limbs` to its `new` ones, NTT."""
    size = params.ring_dim
    before = KernelWork(
        ring_dim=size, limb_transforms=polynomials * own, transform_loops=add_loops(((own, polynomials),))
    )
    after = KernelWork(
        ring_dim=size,
        limb_transforms=polynomials * new,
        bconv_macs=polynomials * limbs * new * size,
        converted_coefficients=polynomials * new * size if limbs > 1 else 0,
        base_conversions=polynomials,
        transform_loops=add_loops(((new, polynomials),)),
    )
    return before, after
