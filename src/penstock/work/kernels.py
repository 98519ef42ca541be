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

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache

from penstock.errors import UsageError
from penstock.operations import FROM_SMALL_KEY, FROM_SMALL_SQUARED_KEY, SMALL_KINDS, TO_SPARSE_KEY, TRAITS, OpKind
from penstock.params.ckks import CkksParameters
from penstock.params.rlwe import KeyForm
from penstock.work.extended import (
    decompose_extended,
    divided,
    extend,
    extended_plain_product,
    extended_sum,
    rotate_extended,
    rotate_hoisted_extended,
)
from penstock.work.kernel_work import KernelWork, add_loops
from penstock.work.small import expand_small, inner_products, pack_small, small_parameters, to_ephemeral
from penstock.work.stages import (
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
    "Hoisting",
    "KernelWork",
    "default_limbs_out",
    "digit_sizes",
    "kernel_work",
    "key_product",
    "key_switch",
    "mod_down",
    "mod_up",
    "rescale_work",
]


def _sum(s: Operation) -> KernelWork:
    return KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_adds=s.polynomials * s.coefficients,
        element_loops=s.loops(s.polynomials),
        ciphertext_read_bytes=2 * s.ciphertext(),
        ciphertext_write_bytes=s.ciphertext(),
    )


def _plain_sum(s: Operation) -> KernelWork:
    return KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_adds=s.coefficients,  # only the polynomial without the secret changes
        element_loops=s.loops(1),
        plaintext_limbs=s.limbs,
        plaintext_bytes=s.params.plaintext_bytes(s.limbs),
        ciphertext_read_bytes=s.ciphertext(),
        ciphertext_write_bytes=s.ciphertext(),
    )


def _scalar_sum(s: Operation) -> KernelWork:
    return KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_adds=s.coefficients,
        element_loops=s.loops(1),
        ciphertext_read_bytes=s.ciphertext(),
        ciphertext_write_bytes=s.ciphertext(),
    )


def _negate(s: Operation) -> KernelWork:
    return KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_adds=s.polynomials * s.coefficients,
        element_loops=s.loops(s.polynomials),
        ciphertext_read_bytes=s.ciphertext(),
        ciphertext_write_bytes=s.ciphertext(),
    )


def _plain_product(s: Operation) -> KernelWork:
    return KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_mults=s.polynomials * s.coefficients,
        element_loops=s.loops(s.polynomials),
        plaintext_limbs=s.limbs,
        plaintext_bytes=s.params.plaintext_bytes(s.limbs),
        ciphertext_read_bytes=s.ciphertext(),
        ciphertext_write_bytes=s.ciphertext(),
    )


def _scalar_product(s: Operation) -> KernelWork:
    return KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_mults=s.polynomials * s.coefficients,
        constant_mults=s.polynomials * s.coefficients,
        element_loops=s.loops(s.polynomials),
        ciphertext_read_bytes=s.ciphertext(),
        ciphertext_write_bytes=s.ciphertext(),
    )


def _tensor(s: Operation) -> KernelWork:
    """(a0 b0, a0 b1 + a1 b0, a1 b1): 4nN multiplications."""
    return KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_mults=4 * s.coefficients,
        element_loops=s.loops(4),
        ciphertext_read_bytes=2 * s.ciphertext(polynomials=2),
        ciphertext_write_bytes=s.ciphertext(polynomials=3),
    )


def _self_tensor(s: Operation) -> KernelWork:
    """(a0 a0, 2 a0 a1, a1 a1): 3nN multiplications."""
    return KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_mults=3 * s.coefficients,
        elementwise_adds=s.coefficients,
        element_loops=s.loops(4),
        ciphertext_read_bytes=s.ciphertext(polynomials=2),
        ciphertext_write_bytes=s.ciphertext(polynomials=3),
    )


def _relinearize(s: Operation) -> KernelWork:
    """Key switch of the third polynomial, added to the other two."""
    return key_switch(s.params, s.limbs, s.key_form) + KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_adds=2 * s.coefficients,
        element_loops=s.loops(2),
        ciphertext_read_bytes=s.ciphertext(polynomials=3),
        ciphertext_write_bytes=s.ciphertext(polynomials=2),
    )


def _with_relinearization(tensor: Callable[[Operation], KernelWork]) -> Callable[[Operation], KernelWork]:
    def product(s: Operation) -> KernelWork:
        before = tensor(s)
        # The three polynomials between the two steps are not written and read again.
        both = before + _relinearize(s)
        return replace(
            both,
            ciphertext_read_bytes=before.ciphertext_read_bytes,
            ciphertext_write_bytes=s.ciphertext(polynomials=2),
        )

    return product


def _rotate(s: Operation) -> KernelWork:
    """Automorphism of both polynomials, key switch of one, added to the other."""
    return key_switch(s.params, s.limbs, s.key_form) + KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_adds=s.coefficients,
        automorphism_coefficients=2 * s.coefficients,
        mapped_indices=s.params.ring_dim,
        element_loops=s.loops(3),
        ciphertext_read_bytes=s.ciphertext(polynomials=2),
        ciphertext_write_bytes=s.ciphertext(polynomials=2),
    )


def _to_sparse(s: Operation) -> KernelWork:
    return to_ephemeral(s, TO_SPARSE_KEY, 1)


def _switch_small_squared(s: Operation) -> KernelWork:
    """The third polynomial only: nothing is added to it yet."""
    small_parameters(s.params)
    return to_ephemeral(s, FROM_SMALL_SQUARED_KEY, 0, s.polynomials)


def _switch_small(s: Operation) -> KernelWork:
    """The second polynomial, the first one and both of the switched third."""
    small_parameters(s.params)
    return to_ephemeral(s, FROM_SMALL_KEY, 3, s.polynomials)


def _to_dense(s: Operation) -> KernelWork:
    """Key switch of the second polynomial, added to the first."""
    return key_switch(s.params, s.limbs, s.key_form) + KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_adds=s.coefficients,
        element_loops=s.loops(1),
        ciphertext_read_bytes=s.ciphertext(polynomials=2),
        ciphertext_write_bytes=s.ciphertext(polynomials=2),
    )


def _decompose(s: Operation) -> KernelWork:
    return mod_up(s.params, s.limbs) + KernelWork(
        ring_dim=s.params.ring_dim,
        ciphertext_read_bytes=s.params.polynomial_bytes(s.limbs),
        ciphertext_write_bytes=s.digits_bytes,
    )


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
            ring_dim=size,
            elementwise_adds=s.coefficients,
            automorphism_coefficients=sum(width * loops for width, loops in permuted) * size,
            mapped_indices=size,
            digit_steps=digits,
            element_loops=add_loops(s.loops(1), permuted),
            ciphertext_read_bytes=s.params.polynomial_bytes(n) + s.digits_bytes,
            ciphertext_write_bytes=s.ciphertext(polynomials=2),
        )
    )


def _rescale(s: Operation) -> KernelWork:
    total = KernelWork(ring_dim=s.params.ring_dim)
    for limbs in range(s.limbs, s.limbs_out, -1):
        total += rescale_work(s.params, limbs, s.polynomials)
    return total + KernelWork(
        ring_dim=s.params.ring_dim,
        ciphertext_read_bytes=s.ciphertext(),
        ciphertext_write_bytes=s.ciphertext(s.limbs_out),
    )


def _mod_drop(s: Operation) -> KernelWork:
    """Limbs are forgotten: no work and no traffic."""
    return KernelWork(ring_dim=s.params.ring_dim)


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


_FORMULAS: dict[OpKind, Callable[[Operation], KernelWork]] = {
    OpKind.ENCRYPT: _encrypt,
    OpKind.DECRYPT: _decrypt,
    OpKind.ADD: _sum,
    OpKind.ADD_PLAIN: _plain_sum,
    OpKind.ADD_SCALAR: _scalar_sum,
    OpKind.SUB: _sum,
    OpKind.SUB_PLAIN: _plain_sum,
    OpKind.SUB_SCALAR: _scalar_sum,
    OpKind.NEGATE: _negate,
    OpKind.MULT: _with_relinearization(_tensor),
    OpKind.MULT_NO_RELIN: _tensor,
    OpKind.RELINEARIZE: _relinearize,
    OpKind.MULT_PLAIN: _plain_product,
    OpKind.MULT_SCALAR: _scalar_product,
    OpKind.SQUARE: _with_relinearization(_self_tensor),
    OpKind.ROTATE: _rotate,
    OpKind.DECOMPOSE: _decompose,
    OpKind.ROTATE_HOISTED: _rotate_hoisted,
    OpKind.CONJUGATE: _rotate,
    OpKind.TO_SPARSE: _to_sparse,
    OpKind.TO_DENSE: _to_dense,
    OpKind.EXTEND: extend,
    OpKind.ADD_EXTENDED: extended_sum,
    OpKind.MULT_PLAIN_EXTENDED: extended_plain_product,
    OpKind.ROTATE_HOISTED_EXTENDED: rotate_hoisted_extended,
    OpKind.DECOMPOSE_EXTENDED: decompose_extended,
    OpKind.ROTATE_EXTENDED: rotate_extended,
    OpKind.MOD_DOWN: divided,
    OpKind.RESCALE: _rescale,
    OpKind.MOD_DROP: _mod_drop,
    OpKind.MOD_RAISE: _mod_raise,
    OpKind.EXPAND_SMALL: expand_small,
    OpKind.INNER_PRODUCTS: inner_products,
    OpKind.PACK_SMALL: pack_small,
    OpKind.SWITCH_SMALL: _switch_small,
    OpKind.SWITCH_SMALL_SQUARED: _switch_small_squared,
}


_DIGITLESS = frozenset(
    kind
    for kind in _FORMULAS
    if TRAITS[kind].key is None
    and kind
    not in (
        OpKind.DECOMPOSE,
        OpKind.EXTEND,
        OpKind.ADD_EXTENDED,
        OpKind.MULT_PLAIN_EXTENDED,
        OpKind.DECOMPOSE_EXTENDED,
        OpKind.MOD_DOWN,
    )
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
    >>> from penstock.operations import OpKind
    >>> from penstock.params.ckks import CkksParameters, Scaling
    >>> from penstock.params.rlwe import KeyForm
    >>> sharp = CkksParameters(name="sharp", ring_dim=2**16, slots=2**15, q_bits=(36,) * 35, p_bits=(36,) * 12, dnum=3,
    ...     scale_bits=36, scaling=Scaling.FIXED_MANUAL, secret="sparse-ternary", word_bits=36, key_form=KeyForm.FULL,
    ...     library="accelerator", security_bits=128, security_note="")
    >>> work = kernel_work(OpKind.ROTATE, sharp, 35)
    >>> work.limb_transforms, work.key_bytes
    (235, 83165184)
    """
    if TRAITS[kind].composite:
        raise UsageError(
            f"'{kind}' is a composite of many operations and has no kernel work: expand it first "
            "(Trace.view() gives the expanded operations)"
        )
    if limbs_out is None:
        limbs_out = default_limbs_out(kind, params, limbs)
    fault = _fault(kind, params, limbs, limbs_out, implied_rescales, implied_scalar_mults, polynomials)
    if fault is not None:
        raise UsageError(f"'{kind}' at {limbs} limbs with parameters '{params.name}': {fault}")
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
    work = _FORMULAS[kind](
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
            ring_dim=params.ring_dim,
            elementwise_mults=2 * above * params.ring_dim * scalar_mults,
            constant_mults=2 * above * params.ring_dim * scalar_mults,
            element_loops=((above, 2 * scalar_mults),),
        )
    return work


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
