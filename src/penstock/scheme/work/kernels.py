"""The kernel algebra: how much kernel work each CKKS operation is, and how many bytes it touches.

Pure arithmetic on parameters and limbs, shared by every machine. A limb transform is one NTT or inverse NTT of
`ring_dim` points over one prime; element-wise work and base-conversion multiply-adds are counted in coefficients.

Notation: n limbs at the operation, k special limbs, alpha limbs of a full digit, b = ceil(n / alpha) active digits of
alpha_j limbs each, N the ring dimension. Ciphertexts rest in evaluation (NTT) form.
Sources: hybrid key switching, Han & Ki, CT-RSA 2020 (ePrint 2019/688); RNS rescaling and base conversion, Cheon et
al., SAC 2018 (ePrint 2018/931); hoisting, Halevi & Shoup, CRYPTO 2018 (ePrint 2018/244), with the automorphism after
the product: Bossuat et al., EUROCRYPT 2021 (ePrint 2020/1203). Checked by hand in the tests.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

from penstock.errors import UsageError
from penstock.scheme.operations import SMALL_KINDS, TRAITS, OperationRow, OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.work import extended, small  # noqa: F401 - rules of price
from penstock.scheme.work.kernel_work import KernelWork, add_loops
from penstock.scheme.work.stages import (
    PRICES,
    Hoisting,
    Operation,
    digit_sizes,
    key_product,
    key_switch,
    mod_down,
    mod_up,
    rescale_work,
)

__all__ = [
    "PRICES",
    "Hoisting",
    "KernelWork",
    "check_operation",
    "default_limbs_out",
    "digit_sizes",
    "kernel_work",
    "key_product",
    "key_switch",
    "mod_down",
    "mod_up",
    "rescale_work",
]


def _passes(
    row: OperationRow, s: Operation, *, sums: int = 0, products: int = 0, scalings: int = 0, both: bool = True
) -> KernelWork:
    """Element-wise work: so many passes over each polynomial, or over the one without the secret only."""
    size, wide = s.params.ring_dim, row.makes == "extended"
    limbs, polynomials = (s.extended_limbs, 2) if wide else (s.limbs, s.polynomials)
    loops = polynomials if both else 1
    ciphertext, plaintext = s.params.ciphertext_bytes(limbs, polynomials), limbs * row.constants
    return KernelWork(
        ring_dim=size,
        elementwise_adds=sums * loops * limbs * size,
        elementwise_mults=(products + scalings) * loops * limbs * size,
        constant_mults=scalings * loops * limbs * size,
        element_loops=((limbs, (sums + products + scalings) * loops),),
        plaintext_limbs=plaintext,
        plaintext_bytes=s.params.plaintext_bytes(plaintext),
        ciphertext_read_bytes=row.operands * ciphertext,
        ciphertext_write_bytes=ciphertext,
    )


def _element_wise(*kinds: OpKind, sums: int = 0, products: int = 0, scalings: int = 0, both: bool = True) -> None:
    for kind in kinds:
        PRICES[kind] = partial(_passes, TRAITS[kind], sums=sums, products=products, scalings=scalings, both=both)


_element_wise(OpKind.ADD, OpKind.SUB, OpKind.NEGATE, OpKind.ADD_EXTENDED, sums=1)
_element_wise(OpKind.ADD_PLAIN, OpKind.SUB_PLAIN, OpKind.ADD_SCALAR, OpKind.SUB_SCALAR, sums=1, both=False)
_element_wise(OpKind.MULT_PLAIN, OpKind.MULT_PLAIN_EXTENDED, products=1)
_element_wise(OpKind.MULT_SCALAR, scalings=1)


def _tensor(s: Operation, *, square: bool = False) -> KernelWork:
    """(a0 b0, a0 b1 + a1 b0, a1 b1): 4nN multiplications; or (a0 a0, 2 a0 a1, a1 a1): 3nN."""
    return KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_mults=(3 if square else 4) * s.coefficients,
        elementwise_adds=s.coefficients if square else 0,
        element_loops=s.loops(4),
        ciphertext_read_bytes=(1 if square else 2) * s.ciphertext(polynomials=2),
        ciphertext_write_bytes=s.ciphertext(polynomials=3),
    )


def _switched(s: Operation, *, sums: int, moved: int = 0, polynomials: int = 2) -> KernelWork:
    """Key switch of one polynomial, so many sums, and an automorphism of so many polynomials."""
    return key_switch(s.params, s.limbs, s.key_form) + KernelWork(
        elementwise_adds=sums * s.coefficients,
        automorphism_coefficients=moved * s.coefficients,
        mapped_indices=s.params.ring_dim if moved else 0,
        element_loops=s.loops(sums + moved),
        ciphertext_read_bytes=s.ciphertext(polynomials=polynomials),
        ciphertext_write_bytes=s.ciphertext(polynomials=2),
    )


PRICES[OpKind.MULT_NO_RELIN] = _tensor
_relinearize = PRICES[OpKind.RELINEARIZE] = partial(_switched, sums=2, polynomials=3)
PRICES[OpKind.ROTATE] = PRICES[OpKind.CONJUGATE] = partial(_switched, sums=1, moved=2)
PRICES[OpKind.TO_DENSE] = partial(_switched, sums=1)


def _mult(s: Operation, *, square: bool = False) -> KernelWork:
    before = _tensor(s, square=square)
    # The three polynomials between the two steps are not written and read again.
    return replace(
        before + _relinearize(s),
        ciphertext_read_bytes=before.ciphertext_read_bytes,
        ciphertext_write_bytes=s.ciphertext(polynomials=2),
    )


PRICES[OpKind.MULT], PRICES[OpKind.SQUARE] = _mult, partial(_mult, square=True)


@PRICES.of(OpKind.DECOMPOSE)
def _decompose(s: Operation) -> KernelWork:
    return mod_up(s.params, s.limbs) + KernelWork(
        ciphertext_read_bytes=s.params.polynomial_bytes(s.limbs),
        ciphertext_write_bytes=s.digits_bytes,
    )


@PRICES.of(OpKind.ROTATE_HOISTED)
def _rotate_hoisted(s: Operation) -> KernelWork:
    """Product of the digits with the key, ModDown; no ModUp. What the automorphism permutes, `hoisting` says."""
    n, size = s.limbs, s.params.ring_dim
    digits = s.params.active_digits(n)
    of_digits = add_loops(s.loops(1), ((s.extended_limbs, digits),))
    permuted = s.loops(2) if s.hoisting is Hoisting.RESULTS else of_digits
    return (
        key_product(s.params, n, s.key_form)
        + mod_down(s.params, n)
        + KernelWork(
            elementwise_adds=s.coefficients,
            automorphism_coefficients=sum(width * loops for width, loops in permuted) * size,
            mapped_indices=size,
            digit_steps=digits,
            element_loops=add_loops(s.loops(1), permuted),
            ciphertext_read_bytes=s.params.polynomial_bytes(n) + s.digits_bytes,
            ciphertext_write_bytes=s.ciphertext(polynomials=2),
        )
    )


@PRICES.of(OpKind.RESCALE)
def _rescale(s: Operation) -> KernelWork:
    total = KernelWork(ring_dim=s.params.ring_dim)
    for limbs in range(s.limbs, s.limbs_out, -1):
        total += rescale_work(s.params, limbs, s.polynomials)
    return total + KernelWork(
        ciphertext_read_bytes=s.ciphertext(),
        ciphertext_write_bytes=s.ciphertext(s.limbs_out),
    )


@PRICES.of(OpKind.MOD_DROP)
def _mod_drop(s: Operation) -> KernelWork:
    """Limbs are forgotten: no work and no traffic."""
    return KernelWork(ring_dim=s.params.ring_dim)


@PRICES.of(OpKind.MOD_RAISE)
def _mod_raise(s: Operation) -> KernelWork:
    """Each polynomial to coefficients, its residues to the limbs that were missing, those to evaluation form."""
    new = s.limbs_out - s.limbs
    return KernelWork(
        ring_dim=s.params.ring_dim,
        limb_transforms=s.polynomials * (s.limbs + new),
        bconv_macs=s.polynomials * s.limbs * new * s.params.ring_dim,
        converted_coefficients=s.polynomials * new * s.params.ring_dim if s.limbs > 1 else 0,
        base_conversions=s.polynomials,
        transform_loops=add_loops(s.loops(s.polynomials), ((new, s.polynomials),)),
        ciphertext_read_bytes=s.ciphertext(),
        ciphertext_write_bytes=s.ciphertext(s.limbs_out),
    )


@PRICES.of(OpKind.ENCRYPT)
def _encrypt(s: Operation) -> KernelWork:
    """Public-key encryption: v and two errors to evaluation form, (v b + e0 + m, v a + e1). Encoding is not in it."""
    return KernelWork(
        ring_dim=s.params.ring_dim,
        limb_transforms=3 * s.limbs,
        elementwise_mults=2 * s.coefficients,
        elementwise_adds=3 * s.coefficients,
        transform_loops=s.loops(3),
        element_loops=s.loops(5),
        plaintext_limbs=s.limbs,
        plaintext_bytes=s.params.plaintext_bytes(s.limbs),
        ciphertext_write_bytes=s.ciphertext(polynomials=2),
    )


@PRICES.of(OpKind.DECRYPT)
def _decrypt(s: Operation) -> KernelWork:
    """c0 + c1 s, back to coefficients. Decoding is not in it."""
    return KernelWork(
        ring_dim=s.params.ring_dim,
        limb_transforms=s.limbs,
        elementwise_mults=s.coefficients,
        elementwise_adds=s.coefficients,
        transform_loops=s.loops(1),
        element_loops=s.loops(2),
        ciphertext_read_bytes=s.ciphertext(polynomials=2),
    )


_DIGITLESS = frozenset(
    kind for kind, row in TRAITS.items() if row.key is None and not row.classes & {"digits", "extended"}
)
"""Kinds without digits and special limbs."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a formula sees of a parameter set. Sets that look alike share the work, such as sets of different depths."""

    ring_dim: int
    word_bits: int
    digit_limbs: int
    num_p: int
    small_ring_dim: int
    params: CkksParameters = field(compare=False)


def kernel_work(
    kind: OpKind,
    params: CkksParameters,
    limbs: int,
    *,
    limbs_out: int | None = None,
    implied_rescales: int = 0,
    implied_scalar_mults: int = 0,
    key_form: KeyForm | None = None,
    polynomials: int = 2,
    hoisting: Hoisting = Hoisting.RESULTS,
) -> KernelWork:
    """Kernel work of one primitive operation.

    Args:   limbs: limbs at which it computes; limbs_out: of the result (default: one fewer for `rescale`, the full
            chain for `mod_raise`, else `limbs`); implied_rescales, implied_scalar_mults: what automatic scaling does
            before it, each on one ciphertext that has one limb more; key_form: default the parameter set's;
            polynomials: of the ciphertext operands (3 between a product and its relinearization); hoisting: what a
            hoisted rotation permutes.
    Raises: UsageError: a composite, limbs outside the chain, or an output that the kind cannot have.
    >>> from penstock.scheme.operations import OpKind
    >>> from penstock.scheme.params.ckks import CkksParameters, Scaling
    >>> from penstock.scheme.params.rlwe import KeyForm
    >>> sharp = CkksParameters(name="sharp", ring_dim=2**16, slots=2**15, q_bits=(36,) * 35, p_bits=(36,) * 12, dnum=3,
    ...     scale_bits=36, scaling=Scaling.FIXED_MANUAL, secret="sparse-ternary", word_bits=36, key_form=KeyForm.FULL,
    ...     library="accelerator", security_bits=128, security_note="")
    >>> work = kernel_work(OpKind.ROTATE, sharp, 35)
    >>> work.limb_transforms, work.key_bytes
    (235, 83165184)
    """
    if limbs_out is None:
        limbs_out = default_limbs_out(kind, params, limbs)
    check_operation(kind, params, limbs, limbs_out, implied_rescales, implied_scalar_mults, polynomials)
    digits = (0, 0) if kind in _DIGITLESS else (params.digit_limbs, params.num_p)
    return _work(
        kind,
        _Seen(params.ring_dim, params.word_bits, *digits, params.small_ring_dim if kind in SMALL_KINDS else 0, params),
        limbs,
        limbs_out,
        implied_rescales,
        implied_scalar_mults,
        min(limbs + 1, params.num_q),
        key_form or params.key_form,
        polynomials,
        hoisting,
    )


def default_limbs_out(kind: OpKind, params: CkksParameters, limbs: int) -> int:
    """Limbs of the result of an operation that states none."""
    return {OpKind.RESCALE: limbs - 1, OpKind.MOD_RAISE: params.num_q}.get(kind, limbs)


@lru_cache(maxsize=65536)
def _work(
    kind: OpKind,
    seen: _Seen,
    limbs: int,
    limbs_out: int,
    rescales: int,
    scalar_mults: int,
    above: int,
    key_form: KeyForm,
    polynomials: int,
    hoisting: Hoisting,
) -> KernelWork:
    """As `kernel_work`, checked; `above`: limbs at which implied operations compute."""
    params = seen.params
    work = PRICES[kind](
        Operation(
            params=params,
            limbs=limbs,
            limbs_out=limbs_out,
            key_form=key_form,
            polynomials=polynomials,
            hoisting=hoisting,
        )
    )
    if rescales:
        work += rescale_work(params, above).times(rescales)
    if scalar_mults:
        work += KernelWork(
            elementwise_mults=2 * above * params.ring_dim * scalar_mults,
            constant_mults=2 * above * params.ring_dim * scalar_mults,
            element_loops=((above, 2 * scalar_mults),),
        )
    return work


def check_operation(
    kind: OpKind, params: CkksParameters, limbs: int, limbs_out: int, rescales: int, scalar_mults: int, polynomials: int
) -> None:
    """Raises: UsageError: a composite, or what no operation of this kind can be."""
    if TRAITS[kind].composite:
        raise UsageError(
            f"'{kind}' is a composite of many operations and has no kernel work: expand it first "
            "(Trace.view() gives the expanded operations)"
        )
    fault = _fault(kind, params, limbs, limbs_out, rescales, scalar_mults, polynomials)
    if fault is not None:
        raise UsageError(f"'{kind}' at {limbs} limbs with parameters '{params.name}': {fault}")


def _fault(
    kind: OpKind, params: CkksParameters, limbs: int, limbs_out: int, rescales: int, scalar_mults: int, polynomials: int
) -> str | None:
    """What no operation of this kind can be."""
    if not 1 <= limbs <= params.num_q:
        return f"a ciphertext of this set has 1 to {params.num_q} limbs"
    if not 0 <= limbs_out <= params.num_q or (limbs_out == 0 and kind is not OpKind.DECRYPT):
        return f"its result cannot have {limbs_out} limbs; 1 to {params.num_q} are possible"
    if kind in (OpKind.RESCALE, OpKind.MOD_DROP) and limbs_out > limbs:
        return f"its result cannot have more limbs ({limbs_out}) than its operand"
    if kind is OpKind.MOD_RAISE and limbs_out < limbs:
        return f"its result cannot have fewer limbs ({limbs_out}) than its operand"
    if kind in SMALL_KINDS and limbs > 1:
        return "ciphertexts of a small ring have the one limb q_0"
    if rescales < 0 or scalar_mults < 0:
        return f"implied operations cannot be negative ({rescales}, {scalar_mults})"
    if polynomials < 1:
        return f"a ciphertext has at least one polynomial, not {polynomials}"
    return None
