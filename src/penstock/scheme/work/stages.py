"""The stages that operations are made of: ModUp, product with a key, ModDown, rescaling.

Notation and sources as in `penstock.scheme.work.kernels`, whose formulas put them together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.scheme.operations import Rules, Word
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm, RlweParameters
from penstock.scheme.work.kernel_work import KernelWork, Loops, add_loops


def digit_sizes(params: RlweParameters, limbs: int) -> tuple[int, ...]:
    """Limbs of each active digit at `limbs` limbs: full ones, then the rest."""
    alpha = params.digit_limbs
    return tuple(min(alpha, limbs - start) for start in range(0, limbs, alpha))


def mod_up(params: RlweParameters, limbs: int) -> KernelWork:
    """Digit decomposition of one polynomial, each digit raised to all limbs of Q and P.

    INTT n; base conversion of each digit from alpha_j to n+k-alpha_j limbs; NTT b(n+k)-n, since a digit's own limbs
    are still there in evaluation form. One multiplication a coefficient before the conversion.
    """
    n, k, size = limbs, params.num_p, params.ring_dim
    digits = digit_sizes(params, n)
    return KernelWork(
        ring_dim=size,
        limb_transforms=n + len(digits) * (n + k) - n,
        bconv_macs=sum(a * (n + k - a) for a in digits) * size,
        converted_coefficients=sum(n + k - a for a in digits) * size,
        elementwise_mults=n * size,
        constant_mults=n * size,
        digit_steps=len(digits),
        base_conversions=len(digits),
        transform_loops=add_loops(*(((a, 1),) for a in digits), *(((n + k - a, 1),) for a in digits)),
        element_loops=add_loops(*(((a, 1),) for a in digits)),
    )


def key_product(params: RlweParameters, limbs: int, key_form: KeyForm | None = None) -> KernelWork:
    """Inner product of the digits with one evaluation key: 2b(n+k)N multiplications; reads the limbs in use."""
    n, k, size = limbs, params.num_p, params.ring_dim
    digits = params.active_digits(n)
    return KernelWork(
        ring_dim=size,
        elementwise_mults=2 * digits * (n + k) * size,
        key_mults=2 * digits * (n + k) * size,
        key_bytes=params.key_bytes(n, key_form),
        element_loops=((n + k, 2 * digits),),
    )


def mod_down(params: RlweParameters, limbs: int, polynomials: int = 2) -> KernelWork:
    """Division by P of each polynomial: INTT k, base conversion from k to n, NTT n, subtract and scale."""
    n, k, size = limbs, params.num_p, params.ring_dim
    return KernelWork(
        ring_dim=size,
        limb_transforms=polynomials * (k + n),
        bconv_macs=polynomials * k * n * size,
        converted_coefficients=polynomials * n * size,
        elementwise_mults=polynomials * (k + n) * size,
        constant_mults=polynomials * (k + n) * size,
        elementwise_adds=polynomials * n * size,
        base_conversions=polynomials,
        transform_loops=add_loops(((k, polynomials),), ((n, polynomials),)),
        element_loops=add_loops(((k, polynomials),), ((n, 2 * polynomials),)),
    )


def key_switch(params: RlweParameters, limbs: int, key_form: KeyForm | None = None) -> KernelWork:
    """ModUp, product with the key, ModDown: (b+2)(n+k) limb transforms."""
    return mod_up(params, limbs) + key_product(params, limbs, key_form) + mod_down(params, limbs)


def rescale_work(params: RlweParameters, limbs: int, polynomials: int = 2) -> KernelWork:
    """Division by the last of n primes, of each polynomial: INTT 1, conversion to n-1, NTT n-1, subtract and scale."""
    n, size = limbs, params.ring_dim
    return KernelWork(
        ring_dim=size,
        limb_transforms=polynomials * n,
        bconv_macs=polynomials * (n - 1) * size,
        elementwise_mults=polynomials * (n - 1) * size,
        constant_mults=polynomials * (n - 1) * size,
        elementwise_adds=polynomials * (n - 1) * size,
        # The conversion from one prime is done limb by limb, in the loop that transforms.
        transform_loops=add_loops(((1, polynomials),), ((n - 1, polynomials),)),
        element_loops=add_loops(((n - 1, 2 * polynomials),)),
    )


class Hoisting(Word):
    """The part of a hoisted rotation that its automorphism permutes; its key is made for one or the other."""

    RESULTS = "results"
    """Both polynomials after the product with the key, 2nN coefficients: Bossuat et al. 2021, OpenFHE, Lattigo."""
    DIGITS = "digits"
    """The raised digits and the other polynomial before it, (b(n+k)+n)N: Halevi & Shoup 2018, SimFHE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The input of a formula: one operation at this many limbs."""

    params: CkksParameters
    limbs: int
    limbs_out: int
    key_form: KeyForm | None
    polynomials: int
    hoisting: Hoisting

    @property
    def coefficients(self) -> int:
        """Of one polynomial at the operation."""
        return self.limbs * self.params.ring_dim

    def loops(self, count: int) -> Loops:
        """So many loops over the limbs of one polynomial."""
        return ((self.limbs, count),)

    def ciphertext(self, limbs: int | None = None, polynomials: int | None = None) -> int:
        return self.params.ciphertext_bytes(
            self.limbs if limbs is None else limbs, self.polynomials if polynomials is None else polynomials
        )

    @property
    def digits_bytes(self) -> int:
        """Of a digit decomposition."""
        params = self.params
        return params.active_digits(self.limbs) * params.polynomial_bytes(self.limbs + params.num_p)

    @property
    def extended_limbs(self) -> int:
        """Limbs over Q and P: n+k."""
        return self.limbs + self.params.num_p

    @property
    def extended_bytes(self) -> int:
        """Of a ciphertext over Q and P."""
        return self.params.ciphertext_bytes(self.extended_limbs, 2)


PRICES: Rules[Callable[[Operation], KernelWork]] = Rules("price", "scheme/work/kernels.py")
"""Kind -> its formula."""
