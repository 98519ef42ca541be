"""The kernel algebra: how much kernel work each CKKS operation is, and how many bytes it touches.

Pure arithmetic on parameters and limbs, shared by every machine. A limb transform is one NTT or inverse NTT of
`ring_dim` points over one prime; element-wise work and base-conversion multiply-adds are counted in coefficients.

Notation: n limbs at the operation, k special limbs, alpha limbs of a full digit, b = ceil(n / alpha) active digits of
alpha_j limbs each, N the ring dimension. Ciphertexts rest in evaluation (NTT) form.
Sources: hybrid key switching, Han & Ki, CT-RSA 2020 (ePrint 2019/688); RNS rescaling and base conversion, Cheon et
al., SAC 2018 (ePrint 2018/931); hoisting, Halevi & Shoup, CRYPTO 2018 (ePrint 2018/244). Checked by hand in the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache

from penstock.errors import UsageError
from penstock.operations import TRAITS, OpKind
from penstock.params.ckks import CkksParameters, KeyForm


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelWork:
    """Kernel work of one operation, or of many added up. `KernelWork()` is no work at all."""

    ring_dim: int = 0
    """Points of one limb transform; 0 where nothing was added yet."""
    limb_transforms: int = 0
    """NTTs and inverse NTTs of `ring_dim` points."""
    bconv_macs: int = 0
    """Multiply-adds of base conversions, one a coefficient and a pair of limbs."""
    elementwise_mults: int = 0
    """Multiplications modulo a prime; an addition that accumulates products is part of them (multiply-add)."""
    elementwise_adds: int = 0
    """Additions, subtractions and negations modulo a prime that stand alone."""
    automorphism_coefficients: int = 0
    """Coefficients that an automorphism moves."""
    digit_steps: int = 0
    """Digits that were decomposed or met with a key."""
    plaintext_limbs: int = 0
    """Limbs of encoded plaintext operands."""
    key_bytes: int = 0
    plaintext_bytes: int = 0
    ciphertext_read_bytes: int = 0
    """Ciphertexts and digits that are operands."""
    ciphertext_write_bytes: int = 0

    def __add__(self, other: KernelWork) -> KernelWork:
        """Work of both.

        Raises: UsageError: they are over different ring dimensions.
        """
        if self.ring_dim and other.ring_dim and self.ring_dim != other.ring_dim:
            raise UsageError(
                f"kernel work over ring dimensions {self.ring_dim} and {other.ring_dim} cannot be added: "
                "their transforms differ; price each on its own and add the seconds"
            )
        total = {name: getattr(self, name) + getattr(other, name) for name in _FIELDS if name != "ring_dim"}
        return KernelWork(ring_dim=self.ring_dim or other.ring_dim, **total)

    def times(self, count: int) -> KernelWork:
        """The same work `count` times."""
        total = {name: count * getattr(self, name) for name in _FIELDS if name != "ring_dim"}
        return KernelWork(ring_dim=self.ring_dim, **total)


_FIELDS = tuple(f.name for f in fields(KernelWork))


def digit_sizes(params: CkksParameters, limbs: int) -> tuple[int, ...]:
    """Limbs of each active digit at `limbs` limbs: full ones, then the rest."""
    alpha = params.digit_limbs
    return tuple(min(alpha, limbs - start) for start in range(0, limbs, alpha))


def mod_up(params: CkksParameters, limbs: int) -> KernelWork:
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
        elementwise_mults=n * size,
        digit_steps=len(digits),
    )


def key_product(params: CkksParameters, limbs: int, key_form: KeyForm | None = None) -> KernelWork:
    """Inner product of the digits with one evaluation key: 2b(n+k)N multiplications; reads the limbs in use."""
    n, k, size = limbs, params.num_p, params.ring_dim
    digits = params.active_digits(n)
    return KernelWork(
        ring_dim=size,
        elementwise_mults=2 * digits * (n + k) * size,
        key_bytes=params.key_bytes(n, key_form),
    )


def mod_down(params: CkksParameters, limbs: int, polynomials: int = 2) -> KernelWork:
    """Division by P of each polynomial: INTT k, base conversion from k to n, NTT n, subtract and scale."""
    n, k, size = limbs, params.num_p, params.ring_dim
    return KernelWork(
        ring_dim=size,
        limb_transforms=polynomials * (k + n),
        bconv_macs=polynomials * k * n * size,
        elementwise_mults=polynomials * (k + n) * size,
        elementwise_adds=polynomials * n * size,
    )


def key_switch(params: CkksParameters, limbs: int, key_form: KeyForm | None = None) -> KernelWork:
    """ModUp, product with the key, ModDown: (b+2)(n+k) limb transforms."""
    return mod_up(params, limbs) + key_product(params, limbs, key_form) + mod_down(params, limbs)


def rescale_work(params: CkksParameters, limbs: int, polynomials: int = 2) -> KernelWork:
    """Division by the last of n primes, of each polynomial: INTT 1, conversion to n-1, NTT n-1, subtract and scale."""
    n, size = limbs, params.ring_dim
    return KernelWork(
        ring_dim=size,
        limb_transforms=polynomials * n,
        bconv_macs=polynomials * (n - 1) * size,
        elementwise_mults=polynomials * (n - 1) * size,
        elementwise_adds=polynomials * (n - 1) * size,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """Arguments of one formula."""

    params: CkksParameters
    limbs: int
    limbs_out: int
    key_form: KeyForm | None
    polynomials: int

    @property
    def coefficients(self) -> int:
        """Of one polynomial at the operation."""
        return self.limbs * self.params.ring_dim

    def ciphertext(self, limbs: int | None = None, polynomials: int | None = None) -> int:
        return self.params.ciphertext_bytes(
            self.limbs if limbs is None else limbs, self.polynomials if polynomials is None else polynomials
        )


def _sum(s: _Shape) -> KernelWork:
    return KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_adds=s.polynomials * s.coefficients,
        ciphertext_read_bytes=2 * s.ciphertext(),
        ciphertext_write_bytes=s.ciphertext(),
    )


def _plain_sum(s: _Shape) -> KernelWork:
    return KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_adds=s.coefficients,  # only the polynomial without the secret changes
        plaintext_limbs=s.limbs,
        plaintext_bytes=s.params.plaintext_bytes(s.limbs),
        ciphertext_read_bytes=s.ciphertext(),
        ciphertext_write_bytes=s.ciphertext(),
    )


def _scalar_sum(s: _Shape) -> KernelWork:
    return KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_adds=s.coefficients,
        ciphertext_read_bytes=s.ciphertext(),
        ciphertext_write_bytes=s.ciphertext(),
    )


def _negate(s: _Shape) -> KernelWork:
    return KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_adds=s.polynomials * s.coefficients,
        ciphertext_read_bytes=s.ciphertext(),
        ciphertext_write_bytes=s.ciphertext(),
    )


def _plain_product(s: _Shape) -> KernelWork:
    return KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_mults=s.polynomials * s.coefficients,
        plaintext_limbs=s.limbs,
        plaintext_bytes=s.params.plaintext_bytes(s.limbs),
        ciphertext_read_bytes=s.ciphertext(),
        ciphertext_write_bytes=s.ciphertext(),
    )


def _scalar_product(s: _Shape) -> KernelWork:
    return KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_mults=s.polynomials * s.coefficients,
        ciphertext_read_bytes=s.ciphertext(),
        ciphertext_write_bytes=s.ciphertext(),
    )


def _tensor(s: _Shape) -> KernelWork:
    """(a0 b0, a0 b1 + a1 b0, a1 b1): 4nN multiplications."""
    return KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_mults=4 * s.coefficients,
        ciphertext_read_bytes=2 * s.ciphertext(polynomials=2),
        ciphertext_write_bytes=s.ciphertext(polynomials=3),
    )


def _self_tensor(s: _Shape) -> KernelWork:
    """(a0 a0, 2 a0 a1, a1 a1): 3nN multiplications."""
    return KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_mults=3 * s.coefficients,
        elementwise_adds=s.coefficients,
        ciphertext_read_bytes=s.ciphertext(polynomials=2),
        ciphertext_write_bytes=s.ciphertext(polynomials=3),
    )


def _relinearize(s: _Shape) -> KernelWork:
    """Key switch of the third polynomial, added to the other two."""
    return key_switch(s.params, s.limbs, s.key_form) + KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_adds=2 * s.coefficients,
        ciphertext_read_bytes=s.ciphertext(polynomials=3),
        ciphertext_write_bytes=s.ciphertext(polynomials=2),
    )


def _with_relinearization(tensor: Callable[[_Shape], KernelWork]) -> Callable[[_Shape], KernelWork]:
    def product(s: _Shape) -> KernelWork:
        before = tensor(s)
        # The three polynomials between the two steps are not written and read again.
        both = before + _relinearize(s)
        values = {name: getattr(both, name) for name in _FIELDS}
        values["ciphertext_read_bytes"] = before.ciphertext_read_bytes
        values["ciphertext_write_bytes"] = s.ciphertext(polynomials=2)
        return KernelWork(**values)

    return product


def _rotate(s: _Shape) -> KernelWork:
    """Automorphism of both polynomials, key switch of one, added to the other."""
    return key_switch(s.params, s.limbs, s.key_form) + KernelWork(
        ring_dim=s.params.ring_dim,
        elementwise_adds=s.coefficients,
        automorphism_coefficients=2 * s.coefficients,
        ciphertext_read_bytes=s.ciphertext(polynomials=2),
        ciphertext_write_bytes=s.ciphertext(polynomials=2),
    )


def _digits_bytes(s: _Shape) -> int:
    params = s.params
    return params.active_digits(s.limbs) * params.polynomial_bytes(s.limbs + params.num_p)


def _decompose(s: _Shape) -> KernelWork:
    return mod_up(s.params, s.limbs) + KernelWork(
        ring_dim=s.params.ring_dim,
        ciphertext_read_bytes=s.params.polynomial_bytes(s.limbs),
        ciphertext_write_bytes=_digits_bytes(s),
    )


def _rotate_hoisted(s: _Shape) -> KernelWork:
    """Automorphism of the digits and of the other polynomial, product with the key, ModDown: no ModUp."""
    n, k, size = s.limbs, s.params.num_p, s.params.ring_dim
    digits = s.params.active_digits(n)
    return (
        key_product(s.params, n, s.key_form)
        + mod_down(s.params, n)
        + KernelWork(
            ring_dim=size,
            elementwise_adds=s.coefficients,
            automorphism_coefficients=(digits * (n + k) + n) * size,
            digit_steps=digits,
            ciphertext_read_bytes=s.params.polynomial_bytes(n) + _digits_bytes(s),
            ciphertext_write_bytes=s.ciphertext(polynomials=2),
        )
    )


def _rescale(s: _Shape) -> KernelWork:
    total = KernelWork(ring_dim=s.params.ring_dim)
    for limbs in range(s.limbs, s.limbs_out, -1):
        total += rescale_work(s.params, limbs, s.polynomials)
    return total + KernelWork(
        ring_dim=s.params.ring_dim,
        ciphertext_read_bytes=s.ciphertext(),
        ciphertext_write_bytes=s.ciphertext(s.limbs_out),
    )


def _mod_drop(s: _Shape) -> KernelWork:
    """Limbs are forgotten: no work and no traffic."""
    return KernelWork(ring_dim=s.params.ring_dim)


def _mod_raise(s: _Shape) -> KernelWork:
    """Each polynomial to coefficients, its residues to the limbs that were missing, those to evaluation form."""
    new = s.limbs_out - s.limbs
    return KernelWork(
        ring_dim=s.params.ring_dim,
        limb_transforms=s.polynomials * (s.limbs + new),
        bconv_macs=s.polynomials * s.limbs * new * s.params.ring_dim,
        ciphertext_read_bytes=s.ciphertext(),
        ciphertext_write_bytes=s.ciphertext(s.limbs_out),
    )


def _encrypt(s: _Shape) -> KernelWork:
    """Public-key encryption: v and two errors to evaluation form, (v b + e0 + m, v a + e1). Encoding is not in it."""
    return KernelWork(
        ring_dim=s.params.ring_dim,
        limb_transforms=3 * s.limbs,
        elementwise_mults=2 * s.coefficients,
        elementwise_adds=3 * s.coefficients,
        plaintext_limbs=s.limbs,
        plaintext_bytes=s.params.plaintext_bytes(s.limbs),
        ciphertext_write_bytes=s.ciphertext(polynomials=2),
    )


def _decrypt(s: _Shape) -> KernelWork:
    """c0 + c1 s, back to coefficients. Decoding is not in it."""
    return KernelWork(
        ring_dim=s.params.ring_dim,
        limb_transforms=s.limbs,
        elementwise_mults=s.coefficients,
        elementwise_adds=s.coefficients,
        ciphertext_read_bytes=s.ciphertext(polynomials=2),
    )


_FORMULAS: dict[OpKind, Callable[[_Shape], KernelWork]] = {
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
    OpKind.RESCALE: _rescale,
    OpKind.MOD_DROP: _mod_drop,
    OpKind.MOD_RAISE: _mod_raise,
}


@lru_cache(maxsize=65536)
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
) -> KernelWork:
    """Kernel work of one primitive operation.

    Args:   limbs: limbs at which it computes; limbs_out: of the result (default: one fewer for `rescale`, the full
            chain for `mod_raise`, else `limbs`); implied_rescales, implied_scalar_mults: what automatic scaling does
            before it, each on one ciphertext that has one limb more; key_form: default the parameter set's;
            polynomials: of the ciphertext operands (3 between a product and its relinearization).
    Raises: UsageError: a composite, limbs outside the chain, or an output that the kind cannot have.
    >>> from penstock.operations import OpKind
    >>> from penstock.params.ckks import CkksParameters, Scaling, KeyForm
    >>> sharp = CkksParameters(name="sharp", ring_dim=2**16, slots=2**15, q_bits=(36,) * 35, p_bits=(36,) * 12, dnum=3,
    ...     scale_bits=36, scaling=Scaling.FIXED_MANUAL, secret="sparse-ternary", word_bits=36, key_form=KeyForm.FULL,
    ...     library="accelerator", security_bits=128, security_note="")
    >>> work = kernel_work(OpKind.ROTATE, sharp, 35)
    >>> work.limb_transforms, work.key_bytes
    (235, 83165184)
    """
    if TRAITS[kind].composite:
        raise UsageError(
            f"'{kind}' is a composite of many operations and has no kernel work of its own: expand it first "
            "(Trace.view() gives the expanded operations)"
        )
    if limbs_out is None:
        limbs_out = {OpKind.RESCALE: limbs - 1, OpKind.MOD_RAISE: params.num_q}.get(kind, limbs)
    _check(kind, params, limbs, limbs_out, implied_rescales, implied_scalar_mults, polynomials)
    shape = _Shape(params=params, limbs=limbs, limbs_out=limbs_out, key_form=key_form, polynomials=polynomials)
    work = _FORMULAS[kind](shape)
    above = min(limbs + 1, params.num_q)
    if implied_rescales:
        work += rescale_work(params, above).times(implied_rescales)
    if implied_scalar_mults:
        work += KernelWork(
            ring_dim=params.ring_dim, elementwise_mults=2 * above * params.ring_dim * implied_scalar_mults
        )
    return work


def _check(
    kind: OpKind, params: CkksParameters, limbs: int, limbs_out: int, rescales: int, scalar_mults: int, polynomials: int
) -> None:
    where = f"'{kind}' at {limbs} limbs with parameters '{params.name}'"
    if not 1 <= limbs <= params.num_q:
        raise UsageError(f"{where}: a ciphertext of this set has 1 to {params.num_q} limbs")
    if not 0 <= limbs_out <= params.num_q or (limbs_out == 0 and kind is not OpKind.DECRYPT):
        raise UsageError(f"{where}: its result cannot have {limbs_out} limbs; 1 to {params.num_q} are possible")
    if kind in (OpKind.RESCALE, OpKind.MOD_DROP) and limbs_out > limbs:
        raise UsageError(f"{where}: its result cannot have more limbs ({limbs_out}) than its operand")
    if kind is OpKind.MOD_RAISE and limbs_out < limbs:
        raise UsageError(f"{where}: its result cannot have fewer limbs ({limbs_out}) than its operand")
    if rescales < 0 or scalar_mults < 0:
        raise UsageError(f"{where}: implied operations cannot be negative ({rescales}, {scalar_mults})")
    if polynomials < 1:
        raise UsageError(f"{where}: a ciphertext has at least one polynomial, not {polynomials}")
