"""The kernels of each operation as a graph, step by step as the formulas of `penstock.scheme.work.kernels` count them.

The sums over a graph are the kernel algebra's numbers for every kind and every number of limbs
(`tests/unit/scheme/test_graphs.py`). Notation and sources as there. Digits follow each other, and sums of products with
a key are taken along digit by digit; what remains free is left to the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from operator import sub

from penstock.errors import PenstockError, UsageError
from penstock.scheme.operations import SMALL_KINDS, TO_SPARSE_KEY, TRAITS, OperationRow, OpKind, Rules
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.params.secrets import AUXILIARY_PRIMES
from penstock.scheme.work.graph import Builder, KernelName, OperationGraph
from penstock.scheme.work.kernel_work import AMOUNTS, KernelWork, amounts_of
from penstock.scheme.work.kernels import PRICES, Hoisting, check_operation, default_limbs_out
from penstock.scheme.work.stages import Operation, key_switch

_N = KernelName
Halves = tuple[list[int], list[int]]
"""Kernels that make the first and the second polynomial of a ciphertext."""
_Maker = Callable[[Builder, list[int]], OperationGraph]
"""Adds an operation behind the kernels that it needs limb by limb; none: it starts from its operands."""
GRAPHS: Rules[_Maker] = Rules(
    "graph", "scheme/work/graphs.py", lambda row: bool(row.key) and not row.is_small and row.classes != {"ciphertext"}
)
"""Kind -> how its kernels are put together. Those of element-wise work, and of such work with one key switch, follow
from the price."""


def kernel_graph(
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
) -> OperationGraph:
    """The kernels of one primitive operation; arguments and errors as `kernel_work`.

    Raises: UsageError: besides, an operation of a small ring.

    >>> from penstock.scheme.params import catalogue
    >>> graph = kernel_graph(OpKind.RESCALE, catalogue.get("sharp"), 3)
    >>> [(kernel.name.value, kernel.limbs) for kernel in graph.kernels[:4]]
    [('inverse-transform', (2,)), ('base-conversion', (0, 1)), ('transform', (0, 1)), ('sum', (0, 1))]
    """
    if kind in SMALL_KINDS:
        raise UsageError(
            f"'{kind}' is an operation of a small ring, whose kernels have no graph: leave '--inside schedule' out"
        )
    limbs_out = default_limbs_out(kind, params, limbs) if limbs_out is None else limbs_out
    check_operation(kind, params, limbs, limbs_out, implied_rescales, implied_scalar_mults, polynomials)
    s = Operation(
        params=params,
        limbs=limbs,
        limbs_out=limbs_out,
        key_form=key_form or params.key_form,
        polynomials=polynomials,
        hoisting=hoisting,
    )
    return _graph(kind, s, implied_rescales, implied_scalar_mults)


@lru_cache(maxsize=16384)
def _graph(kind: OpKind, s: Operation, rescales: int, scalar_mults: int) -> OperationGraph:
    b = Builder(s)
    first = _implied(b, min(s.limbs + 1, s.params.num_q), rescales, scalar_mults)
    return GRAPHS[kind](b, first) if kind in GRAPHS else _passes(TRAITS[kind], b, first)


def _implied(b: Builder, above: int, rescales: int, scalar_mults: int) -> list[int]:
    """What automatic scaling does before, each on an operand: the last kernels, which the operation's first ones need
    limb by limb."""
    ends: list[int] = []
    for _ in range(rescales):
        for half in range(2):
            ends += _rescaled(b, above, half, [])
    for _ in range(scalar_mults):
        ends += [b.add(_N.SCALING, "scaling", range(above), operand=True) for _ in range(2)]
    return ends


def _mod_up(b: Builder, source: Sequence[int], *, operand: bool, result: bool = False) -> list[list[int]]:
    """Kernels that make the raised limbs of each digit. The digit's limbs come from `source`, or from the operand."""
    alpha, raised = b.s.params.digit_limbs, []
    for digit, start in enumerate(range(0, b.s.limbs, alpha), 1):
        own = b.q[start : start + alpha]
        others = (*b.p, *(limb for limb in b.q if limb not in own))
        stage = f"ModUp {digit}"
        inverse = b.add(_N.INVERSE, stage, own, by_limb=source, operand=operand)
        scaled = b.add(_N.SCALING, stage, own, by_limb=[inverse])
        converted = b.add(_N.CONVERSION, stage, others, whole=[scaled], sources=len(own), reads=len(own))
        b.more(converted, digit_steps=1)
        raised.append([b.add(_N.TRANSFORM, stage, others, by_limb=[converted], result=result)])
    return raised


def _key_product(b: Builder, raised: Sequence[Sequence[int]], source: Sequence[int], *, operand: bool) -> Halves:
    """Both sums of the digits' products with the key. Digits come from `raised` and `source`, or from the operand."""
    digits = b.s.params.active_digits(b.s.limbs)
    wide = (*b.p, *b.q)
    sums: Halves = ([], [])
    made = []
    for digit in range(digits):
        ready = [*(raised[digit] if raised else ()), *source]
        for half in range(2):
            at = b.add(
                _N.KEY_PRODUCT,
                f"key {digit + 1}",
                wide,
                by_limb=[*ready, *sums[half]],
                operand=operand,
                reads=len(wide) * (2 if digit else 1),
            )
            sums[half][:] = [at]
            made.append(at)
    b.shared("key_bytes", b.s.params.key_bytes(b.s.limbs, b.s.key_form), made)
    return sums


def _mod_down(b: Builder, half: Sequence[int], *, operand: bool = False, result: bool = False) -> list[int]:
    """Division of one polynomial by P."""
    inverse = b.add(_N.INVERSE, "ModDown", b.p, by_limb=half, operand=operand)
    scaled = b.add(_N.SCALING, "ModDown", b.p, by_limb=[inverse])
    converted = b.add(_N.CONVERSION, "ModDown", b.q, whole=[scaled], sources=len(b.p), reads=len(b.p))
    back = b.add(_N.TRANSFORM, "ModDown", b.q, by_limb=[converted])
    apart = b.add(_N.SUM, "ModDown", b.q, by_limb=[back, *half], operand=operand)
    return [b.add(_N.SCALING, "ModDown", b.q, by_limb=[apart], result=result)]


def _key_switch(b: Builder, source: Sequence[int], *, operand: bool = False, result: tuple[bool, bool]) -> Halves:
    """ModUp, product with the key, ModDown of both; `result`: whether each is a result without further work."""
    sums = _key_product(b, _mod_up(b, source, operand=operand), source, operand=operand)
    return _mod_down(b, sums[0], result=result[0]), _mod_down(b, sums[1], result=result[1])


def _rescaled(b: Builder, limbs: int, half: int, source: Sequence[int], *, result: bool = False) -> list[int]:
    """One polynomial divided by the last of its primes; without `source` from the operand."""
    stage, kept = f"rescaling {half + 1}", range(limbs - 1)
    own, operand = [source[half]] if source else [], not source
    inverse = b.add(_N.INVERSE, stage, (limbs - 1,), by_limb=own, operand=operand)
    converted = b.add(_N.CONVERSION, stage, kept, whole=[inverse], sources=1, in_loop=True, reads=1)
    back = b.add(_N.TRANSFORM, stage, kept, by_limb=[converted])
    apart = b.add(_N.SUM, stage, kept, by_limb=[back, *own], operand=operand)
    return [b.add(_N.SCALING, stage, kept, by_limb=[apart], result=result)]


def _passes(row: OperationRow, b: Builder, first: list[int]) -> OperationGraph:
    """The passes of element-wise work, behind each other where a polynomial has several, and then the key switch of the
    last one, if the operation has a key.

    Raises: PenstockError: the price of the operation is more than that.
    """
    s, size = b.s, b.s.params.ring_dim
    work = PRICES[OpKind(row.name)](s)
    if row.key:
        work = _without(work, key_switch(s.params, s.limbs, s.key_form))
    no_passes = work.limb_transforms or work.bconv_macs or work.key_bytes or min(amounts_of(work)) < 0
    if no_passes or len(work.element_loops) > 1:  # passes of two widths: no amount says which of them has it
        raise PenstockError(GRAPHS.lack(row.name))
    amounts = (
        (_N.SUM, work.elementwise_adds),
        (_N.PRODUCT, work.elementwise_mults - work.constant_mults),
        (_N.SCALING, work.constant_mults),
        (_N.AUTOMORPHISM, work.automorphism_coefficients),
    )
    made: list[int] = []
    for width, loops in work.element_loops:
        names = [name for name, amount in amounts for _ in range(amount // (width * size))]
        for name in names:
            before = len(made) - s.polynomials
            kernel = b.add(
                name,
                "",
                b.q if width == s.limbs else (*b.p, *b.q),
                by_limb=[*first, *made[before : before + 1]] if before >= 0 else first,
                operand=True,
                result=not row.key and before + 2 * s.polynomials >= loops,
                reads=width * (row.operands + row.constants),
            )
            made.append(kernel)
    if made:
        amount = {name: getattr(work, name) for name in ("mapped_indices", "plaintext_limbs", "plaintext_bytes")}
        b.more(made[0], **amount)
    if row.key:
        _key_switch(b, made[-1:] or first[-1:], operand=not made and not first, result=(True, True))
    return b.finish(read=work.ciphertext_read_bytes, write=work.ciphertext_write_bytes)


def _without(work: KernelWork, part: KernelWork) -> KernelWork:
    """The rest of a work; amounts below 0 if it does not have the part."""
    loops = dict(work.element_loops)
    for width, count in part.element_loops:
        loops[width] = loops.get(width, 0) - count
    rest = dict(zip(AMOUNTS, map(sub, amounts_of(work), amounts_of(part)), strict=True))
    left = tuple(sorted((width, count) for width, count in loops.items() if count))
    return KernelWork(ring_dim=work.ring_dim, element_loops=left, **rest)


def _tensor(b: Builder, first: list[int], *, square: bool, result: bool) -> list[int]:
    """The last kernels of the three polynomials of a product."""

    def one(name: KernelName = _N.PRODUCT, *, by_limb: Sequence[int] = (), last: bool = True, reads: int = 2) -> int:
        return b.add(
            name,
            "tensor",
            b.q,
            by_limb=[*first, *by_limb],
            operand=True,
            result=result and last,
            reads=reads * b.s.limbs,
        )

    if square:
        ends = one(reads=1)
        cross = one(last=False)
        return [ends, one(_N.SUM, by_limb=[cross], reads=1), one(reads=1)]
    ends = one()
    cross = one(last=False)
    return [ends, one(by_limb=[cross], reads=3), one()]


@GRAPHS.of(OpKind.MULT_NO_RELIN)
def _product(b: Builder, first: list[int]) -> OperationGraph:
    _tensor(b, first, square=False, result=True)
    return b.finish(read=2 * b.s.ciphertext(polynomials=2), write=b.s.ciphertext(polynomials=3))


def _relinearized(b: Builder, parts: Sequence[int], *, operand: bool) -> None:
    switched = _key_switch(b, parts[2:], operand=operand, result=(False, False))
    for half in range(2):
        b.add(_N.SUM, "sum", b.q, by_limb=[*switched[half], *parts[half : half + 1]], operand=operand, result=True)


def _mult(b: Builder, first: list[int], *, square: bool = False) -> OperationGraph:
    _relinearized(b, _tensor(b, first, square=square, result=False), operand=False)
    return b.finish(read=(1 if square else 2) * b.s.ciphertext(polynomials=2), write=b.s.ciphertext(polynomials=2))


GRAPHS[OpKind.MULT], GRAPHS[OpKind.SQUARE] = _mult, partial(_mult, square=True)


@GRAPHS.of(OpKind.RELINEARIZE)
def _relinearize(b: Builder, first: list[int]) -> OperationGraph:
    _relinearized(b, [first[-1]] * 3 if first else [], operand=True)
    return b.finish(read=b.s.ciphertext(polynomials=3), write=b.s.ciphertext(polynomials=2))


@GRAPHS.of(OpKind.ROTATE, OpKind.CONJUGATE)
def _rotate(b: Builder, first: list[int]) -> OperationGraph:
    """Automorphism of both, key switch of the second, added to the first."""
    moved = b.add(_N.AUTOMORPHISM, "", b.q, by_limb=first, operand=True)
    b.more(moved, mapped_indices=b.s.params.ring_dim)
    other = b.add(_N.AUTOMORPHISM, "", b.q, by_limb=first, operand=True)
    switched = _key_switch(b, [moved], result=(False, True))
    b.add(_N.SUM, "sum", b.q, by_limb=[other, *switched[0]], result=True)
    both = b.s.ciphertext(polynomials=2)
    return b.finish(read=both, write=both)


@GRAPHS.of(OpKind.TO_SPARSE)
def _to_sparse(b: Builder, first: list[int]) -> OperationGraph:
    """Key switch of one limb over q_0 and the auxiliary primes: one digit, and no scaling before conversions."""
    s, k = b.s, AUXILIARY_PRIMES
    auxiliary, wide = tuple(range(-k, 0)), (*range(-k, 0), 0)
    inverse = b.add(_N.INVERSE, "ModUp 1", (0,), by_limb=first, operand=True)
    converted = b.add(_N.CONVERSION, "ModUp 1", auxiliary, whole=[inverse], sources=1, reduced=False, reads=1)
    b.more(converted, digit_steps=1)
    raised = b.add(_N.TRANSFORM, "ModUp 1", auxiliary, by_limb=[converted])
    sums = [b.add(_N.KEY_PRODUCT, "key 1", wide, by_limb=[raised], operand=True, reads=1 + k) for _ in range(2)]
    b.shared("key_bytes", s.params.key_bytes(1, s.key_form, key=TO_SPARSE_KEY), sums)
    for half in range(2):
        down = b.add(_N.INVERSE, "ModDown", auxiliary, by_limb=[sums[half]])
        back = b.add(_N.CONVERSION, "ModDown", (0,), whole=[down], sources=k, reads=k)
        ready = b.add(_N.TRANSFORM, "ModDown", (0,), by_limb=[back])
        apart = b.add(_N.SUM, "ModDown", (0,), by_limb=[ready, sums[half]])
        scaled = b.add(_N.SCALING, "ModDown", (0,), by_limb=[apart], result=half == 1)
        if half == 0:
            b.add(_N.SUM, "sum", (0,), by_limb=[scaled], operand=True, result=True)
    both = s.params.ciphertext_bytes(1)
    return b.finish(read=both, write=both)


@GRAPHS.of(OpKind.TO_DENSE)
def _to_dense(b: Builder, first: list[int]) -> OperationGraph:
    switched = _key_switch(b, first[1:], operand=True, result=(False, True))
    b.add(_N.SUM, "sum", b.q, by_limb=[*first[:1], *switched[0]], operand=True, result=True)
    both = b.s.ciphertext(polynomials=2)
    return b.finish(read=both, write=both)


@GRAPHS.of(OpKind.DECOMPOSE)
def _decompose(b: Builder, first: list[int]) -> OperationGraph:
    _mod_up(b, first[1:], operand=True, result=True)
    return b.finish(read=b.s.params.polynomial_bytes(b.s.limbs), write=b.s.digits_bytes)


@GRAPHS.of(OpKind.ROTATE_HOISTED)
def _rotate_hoisted(b: Builder, first: list[int]) -> OperationGraph:
    s, digits = b.s, b.s.params.active_digits(b.s.limbs)
    if s.hoisting is Hoisting.RESULTS:
        sums = _key_product(b, [], [], operand=True)
        zeroth, other = _mod_down(b, sums[0]), _mod_down(b, sums[1])
        added = b.add(_N.SUM, "sum", b.q, by_limb=[*first[:1], *zeroth], operand=True)
        moved = b.add(_N.AUTOMORPHISM, "", b.q, by_limb=[added], result=True)
        b.add(_N.AUTOMORPHISM, "", b.q, by_limb=other, result=True)
    else:
        turned = [[b.add(_N.AUTOMORPHISM, f"digit {d + 1}", (*b.p, *b.q), operand=True)] for d in range(digits)]
        moved = b.add(_N.AUTOMORPHISM, "", b.q, by_limb=first[:1], operand=True)
        sums = _key_product(b, turned, [], operand=False)
        zeroth = _mod_down(b, sums[0])
        _mod_down(b, sums[1], result=True)
        b.add(_N.SUM, "sum", b.q, by_limb=[moved, *zeroth], result=True)
    b.more(moved, mapped_indices=s.params.ring_dim, digit_steps=digits)
    return b.finish(read=s.params.polynomial_bytes(s.limbs) + s.digits_bytes, write=s.ciphertext(polynomials=2))


def _rotate_extended(b: Builder, first: list[int], *, from_q: bool = False) -> OperationGraph:
    """Product of the digits with the key, plus the other polynomial; automorphism of both, over n+k limbs."""
    s, wide = b.s, (*b.p, *b.q)
    scaled = [b.add(_N.SCALING, "times P", b.q, by_limb=first[:1], operand=True)] if from_q else []
    sums = _key_product(b, [], [], operand=True)
    added = b.add(_N.SUM, "sum", wide, by_limb=[*scaled, *sums[0]], operand=not from_q)
    moved = b.add(_N.AUTOMORPHISM, "", wide, by_limb=[added], result=True)
    b.add(_N.AUTOMORPHISM, "", wide, by_limb=sums[1], result=True)
    b.more(moved, mapped_indices=s.params.ring_dim, digit_steps=s.params.active_digits(s.limbs))
    other = s.params.polynomial_bytes(s.limbs if from_q else s.extended_limbs)
    return b.finish(read=other + s.digits_bytes, write=s.extended_bytes)


GRAPHS[OpKind.ROTATE_EXTENDED] = _rotate_extended
GRAPHS[OpKind.ROTATE_HOISTED_EXTENDED] = partial(_rotate_extended, from_q=True)


@GRAPHS.of(OpKind.DECOMPOSE_EXTENDED)
def _decompose_extended(b: Builder, first: list[int]) -> OperationGraph:
    divided = _mod_down(b, first[1:], operand=True)
    _mod_up(b, divided, operand=False, result=True)
    return b.finish(read=b.s.params.polynomial_bytes(b.s.extended_limbs), write=b.s.digits_bytes)


@GRAPHS.of(OpKind.MOD_DOWN)
def _mod_down_both(b: Builder, first: list[int]) -> OperationGraph:
    for half in range(2):
        _mod_down(b, first[half : half + 1], operand=True, result=True)
    return b.finish(read=b.s.extended_bytes, write=b.s.ciphertext(polynomials=2))


@GRAPHS.of(OpKind.EXTEND)
def _extend(b: Builder, first: list[int]) -> OperationGraph:
    for half in range(2):
        b.add(_N.SCALING, "times P", b.q, by_limb=first[half : half + 1], operand=True, result=True)
    return b.finish(read=b.s.ciphertext(polynomials=2), write=b.s.extended_bytes)


@GRAPHS.of(OpKind.RESCALE)
def _rescale(b: Builder, first: list[int]) -> OperationGraph:
    s = b.s
    for half in range(s.polynomials):
        last = first[half : half + 1]
        for limbs in range(s.limbs, s.limbs_out, -1):
            last = _rescaled(b, limbs, half, [*last] * (half + 1), result=limbs == s.limbs_out + 1)
    return b.finish(read=s.ciphertext(), write=s.ciphertext(s.limbs_out))


@GRAPHS.of(OpKind.MOD_RAISE)
def _mod_raise(b: Builder, first: list[int]) -> OperationGraph:
    s = b.s
    for half in range(s.polynomials):
        stage, new = f"raise {half + 1}", range(s.limbs, s.limbs_out)
        inverse = b.add(_N.INVERSE, stage, b.q, by_limb=first[half : half + 1], operand=True)
        converted = b.add(
            _N.CONVERSION, stage, new, whole=[inverse], sources=s.limbs, reduced=s.limbs > 1, reads=s.limbs
        )
        b.add(_N.TRANSFORM, stage, new, by_limb=[converted], result=True)
    return b.finish(read=s.ciphertext(), write=s.ciphertext(s.limbs_out))


@GRAPHS.of(OpKind.ENCRYPT)
def _encrypt(b: Builder, first: list[int]) -> OperationGraph:
    """v and two errors to evaluation form; (v b + e0 + m, v a + e1)."""
    s = b.s
    v, e0, e1 = (b.add(_N.TRANSFORM, what, b.q) for what in ("v", "error 1", "error 2"))
    left = b.add(_N.PRODUCT, "key", b.q, by_limb=[v])
    right = b.add(_N.PRODUCT, "key", b.q, by_limb=[v])
    noisy = b.add(_N.SUM, "sum", b.q, by_limb=[left, e0])
    message = b.add(_N.SUM, "sum", b.q, by_limb=[noisy], result=True)
    b.add(_N.SUM, "sum", b.q, by_limb=[right, e1], result=True)
    b.more(message, plaintext_limbs=s.limbs, plaintext_bytes=s.params.plaintext_bytes(s.limbs))
    return b.finish(write=s.ciphertext(polynomials=2))


@GRAPHS.of(OpKind.DECRYPT)
def _decrypt(b: Builder, first: list[int]) -> OperationGraph:
    product = b.add(_N.PRODUCT, "secret", b.q, operand=True)
    added = b.add(_N.SUM, "sum", b.q, by_limb=[product], operand=True)
    b.add(_N.INVERSE, "", b.q, by_limb=[added], result=True)
    return b.finish(read=b.s.ciphertext(polynomials=2))
