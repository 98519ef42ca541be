"""What all readings but the clear one share: every call becomes one row, with limbs, operands and key.

A reading implements `execute`: given the call it does the work and says what state the result has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache, reduce
from typing import Any

from penstock.errors import EvaluationRefused, ParamsError, PenstockError, UsageError
from penstock.program.evaluator.arguments import (
    factor_of,
    function_series,
    limbs_of,
    minuend_of,
    not_a_ciphertext,
    number_of,
    pairs_of,
    step_of,
    steps_of,
    swapped,
    whole,
)
from penstock.program.evaluator.call import DIGITS, MANY, Call, Cipher, Executed, How, Manner
from penstock.program.evaluator.fits import check_number, check_scale, check_vector
from penstock.program.evaluator.imaginary import ComplexValues
from penstock.program.evaluator.protocol import Evaluator, Operand, Plain, Values, Weight, name_of, padded
from penstock.program.evaluator.scaling import Aligned, ScaleState, align_pair, align_unary, check_drop
from penstock.scheme.operations import RELIN_KEY, TRAITS, OpKind, rotation_key
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.traces.builder import TraceBuilder

MULTIPLICATIONS = frozenset(kind for kind, row in TRAITS.items() if row.is_product)
"""Kinds that double the scale."""
_KEYLESS_SUMS = {
    False: ("add", OpKind.ADD, OpKind.ADD_PLAIN, OpKind.ADD_SCALAR),
    True: ("sub", OpKind.SUB, OpKind.SUB_PLAIN, OpKind.SUB_SCALAR),
}
_TURNS = frozenset(kind for kind, row in TRAITS.items() if row.argument == "step")
_RELINEARIZED = frozenset(kind for kind, row in TRAITS.items() if row.key == RELIN_KEY)


class RowWriter(Evaluator, ABC):
    """An evaluator that writes its trace while it runs. Composites are in `penstock.program.evaluator.composites`."""

    def __init__(self, params: CkksParameters, builder: TraceBuilder | None = None) -> None:
        self.params = params
        self.builder = builder if builder is not None else TraceBuilder(params)
        self.turns: int | None = None

    # What a reading implements.
    @abstractmethod
    def execute(self, call: Call) -> Executed:
        """Do the work of one call."""

    @abstractmethod
    def _encrypt(self, values: Values) -> Executed:
        """A fresh ciphertext."""

    @abstractmethod
    def _decrypt(self, a: Cipher) -> tuple[Values, Executed]:
        """The vector in `a`."""

    def _rotation_key(self, step: int) -> str:
        """The key id of a rotation."""
        return rotation_key(step, self.params.ring_dim)

    # Client side.
    def encrypt(self, values: Values, *, name: str | None = None) -> Cipher:
        name, vector = name_of(name), padded(values, self.params.slots)
        check_vector(self.params, "encrypt", vector, ScaleState.encrypted(self.params, self.params.num_q))
        done = self._encrypt(vector)
        object_id = self.builder.ciphertext(done.state.limbs, name=name)
        self.write_row(OpKind.ENCRYPT, (), object_id, done, done.state.limbs)
        return Cipher(object_id, done.state, value=done.value)

    def encode(self, values: Values | Callable[[], Values], *, name: str | None = None) -> Plain:
        return Plain.of(values, self.params.slots, name)

    def decrypt(self, a: Cipher) -> Values:
        return self._decrypt_by(ciphertext("decrypt", a), self._decrypt)

    def _decrypt_by(self, a: Cipher, decrypt: Callable[[Cipher], tuple[Values, Executed]]) -> Values:
        check_scale(self.builder.params, a.state)
        values, done = decrypt(a)
        self.write_row(OpKind.DECRYPT, [a], None, done, a.state.limbs)
        return values

    def plain_call(self, name: str, a: Operand, *others: Operand, argument: int | None = None) -> Cipher:
        """A call that the table of operations describes; a key switches two polynomials."""
        kind, key, checked = _PLAIN[name]
        a = checked(name, a)
        if argument is not None:
            wanted = TRAITS[kind].argument
            argument = whole(f"{name}: the {wanted}", argument)
            if wanted == "step":
                argument = self.normal_step(argument)
                if not argument:
                    raise UsageError(f"{name}: a step of 0 turns nothing, and no key does it: leave the rotation out")
                key = self._rotation_key(argument)
        if others:
            made = self._two(kind, a, checked(name, *others), key=key, argument=argument)
        else:
            made = self._one(kind, a, key=key, argument=argument)
        return self.made_complex(made) if TRAITS[kind].is_complex else made

    def made_complex(self, result: Cipher) -> Cipher:
        """The result, whose decryption keeps imaginary parts; steps inside a composite bring none into its result."""
        if not self.builder.is_modelled:
            ComplexValues.of(self.builder).made.add(result.object_id)
        return result

    # Sums.
    def add(self, a: Operand, b: Operand) -> Cipher:
        if not isinstance(a, Cipher):
            a, b = swapped("add", a, b, is_ciphertext=isinstance(b, Cipher))
        return self._sum(a, b, subtract=False)

    def sub(self, a: Operand, b: Operand) -> Cipher:
        if not isinstance(a, Cipher):
            number = minuend_of(a, is_ciphertext=isinstance(b, Cipher))
            return self._one(OpKind.SUB_SCALAR, ciphertext("sub", b), scalar=number, how=Manner.REVERSED)
        return self._sum(a, b, subtract=True)

    def _sum(self, a: Cipher, b: Operand, *, subtract: bool) -> Cipher:
        what, pair, with_plain, with_scalar = _KEYLESS_SUMS[subtract]
        a = ciphertext(what, a)
        if isinstance(b, Cipher):
            return self._two(pair, a, ciphertext(what, b))
        if isinstance(b, Plain):
            return self._one(with_plain, a, plain=b.fitting(self.params.slots))
        return self._one(with_scalar, a, scalar=number_of(b))

    # Products.
    def mult(self, a: Operand, b: Operand) -> Cipher:
        if not isinstance(a, Cipher):
            a, b = swapped("mult", a, b, is_ciphertext=isinstance(b, Cipher))
        if isinstance(b, Cipher):
            return self._two(OpKind.MULT, relinearized("mult", a), relinearized("mult", b), key=RELIN_KEY)
        a = ciphertext("mult", a)
        if isinstance(b, Plain):
            return self._one(OpKind.MULT_PLAIN, a, plain=b.fitting(self.params.slots))
        return self._one(OpKind.MULT_SCALAR, a, scalar=number_of(b))

    def weighted_sum(self, terms: Iterable[Cipher], weights: Iterable[Weight]) -> Cipher:
        return reduce(self.add, (self.mult(a, b) for a, b in pairs_of(terms, weights, self, ciphertext)))

    def relinearize(self, a: Cipher) -> Cipher:
        a = ciphertext("relinearize", a)
        if a.polynomials == MANY:
            raise EvaluationRefused(
                "relinearize: the operand is a product of products that were not relinearized, and its powers of the "
                "secret key have no keys; relinearize its factors first"
            )
        return self._one(OpKind.RELINEARIZE, a, key=RELIN_KEY)

    # Automorphisms.
    def rotate(self, a: Cipher, step: int) -> Cipher:
        step, a = self.normal_step(step), ciphertext("rotate", a)
        if not step:
            return a
        return self._one(OpKind.ROTATE, relinearized("rotate", a), key=self._rotation_key(step), argument=step)

    def rotate_many(self, a: Cipher, steps: Sequence[int]) -> list[Cipher]:
        wanted, a = [self.normal_step(step) for step in steps_of(steps)], ciphertext("rotate_many", a)
        if sum(step != 0 for step in wanted) < 2:
            return [self.rotate(a, step) for step in wanted]
        digits = self._decompose(relinearized("rotate_many", a))
        return [self._rotate_hoisted(a, digits, step) if step else a for step in wanted]

    def decompose(self, a: Cipher) -> Cipher:
        return self._decompose(relinearized("decompose", a))

    def rotate_hoisted(self, a: Cipher, digits: Cipher, step: int) -> Cipher:
        step, a = self.normal_step(step), relinearized("rotate_hoisted", a)
        if not isinstance(digits, Cipher) or digits.polynomials != DIGITS or digits.source != a.object_id:
            raise EvaluationRefused(
                "rotate_hoisted: the digits are not those of the ciphertext; give what ev.decompose(a) returns for it"
            )
        return self._rotate_hoisted(a, digits, step) if step else a

    def _decompose(self, a: Cipher) -> Cipher:
        call = Call(OpKind.DECOMPOSE, [a], a.state)
        done = self.execute(call)
        digits = Cipher(self.builder.digits(a.state.limbs), a.state, DIGITS, done.value, a.object_id)
        self._row(call, digits, done, Aligned(a.state.limbs, (a.state.degree,), 0, 0))
        return digits

    def _rotate_hoisted(self, a: Cipher, digits: Cipher, step: int) -> Cipher:
        return self._apply(
            OpKind.ROTATE_HOISTED,
            [a, digits],
            _aligned(a.state.limbs, a.state.degree, self.params.scaling, False),
            self._rotation_key(step),
            step,
        )

    def normal_step(self, step: int) -> int:
        """The step in (-slots/2, slots/2], so that one rotation has one name and one key."""
        slots = self.turns or self.params.slots
        step = step_of(step) % slots
        return step - slots if step > slots // 2 else step

    # Limbs.
    def rescale(self, a: Cipher) -> Cipher:
        a = ciphertext("rescale", a)
        if self.params.scaling.automatic:
            return a
        if a.state.degree < 2:
            raise PenstockError("rescale: the ciphertext is not a product; rescaling it would lose its scale")
        return self._drop(OpKind.RESCALE, a, a.state.limbs - 1, 1)

    def mod_drop(self, a: Cipher, limbs: int) -> Cipher:
        limbs, a = limbs_of(limbs), ciphertext("mod_drop", a)
        if limbs > a.state.limbs:
            raise ParamsError(f"mod_drop to {limbs} limbs: the ciphertext has {a.state.limbs}; ask for 1 to that many")
        if limbs == a.state.limbs:
            return a
        # Under an automatic rule a product is rescaled first.
        degree = 1 if self.params.scaling.automatic else a.state.degree
        return self._drop(OpKind.MOD_DROP, a, limbs, degree)

    def levels(self, a: Cipher) -> int:
        """Levels left; a product that is not rescaled yet has one fewer."""
        state = ciphertext("levels", a).state
        return state.limbs - state.degree

    def scaled(self, a: Cipher, factor: float) -> Cipher:
        ciphertext("scaled", a), factor_of(factor)
        raise PenstockError("scaled: this reading has one scale a level; multiply by the number, ev.mult(a, number)")

    def chebyshev_function(
        self, a: Cipher, function: Callable[[Values], Values], lower: float, upper: float, degree: int
    ) -> Cipher:
        return self.chebyshev_series(a, *function_series(function, lower, upper, degree))

    def constant(self, a: Cipher, value: float) -> Cipher:
        """A series without a power of its operand: OpenFHE ends the process that asks for one."""
        return self.add(self.rescale(self.mult(a, 0.0)), value)

    def scope(self, name: str) -> AbstractContextManager[object]:
        return self.builder.open_scope(name)

    # One row.
    def _two(
        self, kind: OpKind, a: Cipher, b: Cipher, *, key: str | None = None, argument: int | None = None
    ) -> Cipher:
        multiplication = kind in MULTIPLICATIONS
        one, other = a.state, b.state
        aligned = _met(one.limbs, one.degree, other.limbs, other.degree, self.params.scaling, multiplication)
        if not (multiplication or self.params.scaling.automatic) and self.params.library == "openfhe":
            check_drop(a.state, b.state)
        return self._apply(kind, [a, b], aligned, key, argument)

    def _one(
        self,
        kind: OpKind,
        a: Cipher,
        *,
        key: str | None = None,
        argument: int | None = None,
        plain: Plain | None = None,
        scalar: complex | None = None,
        how: How | None = None,
    ) -> Cipher:
        aligned = _aligned(a.state.limbs, a.state.degree, self.params.scaling, kind in MULTIPLICATIONS)
        if scalar is not None:
            state = state_of(aligned.limbs, max(aligned.degrees))
            check_number(self.builder.params, kind, scalar, state)
        return self._apply(kind, [a], aligned, key, argument, plain, scalar, how)

    def _apply(self, kind: OpKind, operands: Sequence[Cipher], aligned: Aligned, *rest: Any) -> Cipher:
        """The call of aligned operands; `rest` holds the other arguments of the call, in its order."""
        degrees = aligned.degrees
        degree = degrees[0] if len(degrees) == 1 else max(degrees)
        if kind in MULTIPLICATIONS:
            if degree > 1:
                raise PenstockError(f"{kind}: an operand is a product that was not rescaled; call rescale() first")
            degree = 2
        call = Call(kind, operands, state_of(aligned.limbs, degree), *rest)
        done = self.execute(call)
        polynomials = operands[0].polynomials
        if kind is OpKind.MULT_NO_RELIN:
            polynomials = min(sum(o.polynomials for o in operands) - 1, MANY)
        elif kind in _RELINEARIZED:
            polynomials = 2
        elif len(operands) == 2:
            other = operands[1].polynomials
            polynomials = polynomials if polynomials >= other else other
        object_id = self.builder.ciphertext(done.state.limbs, polynomials if polynomials <= 3 else 3)
        result = Cipher(object_id, done.state, polynomials, done.value)
        self._row(call, result, done, aligned)
        return result

    def _drop(self, kind: OpKind, a: Cipher, limbs: int, degree: int) -> Cipher:
        if limbs < 1:
            raise ParamsError(
                f"{kind}: the ciphertext has {a.state.limbs} limb left and set '{self.params.name}' carries "
                f"{self.params.depth} multiplications in sequence: the program is deeper than the parameters"
            )
        done = self.execute(Call(kind, [a], state_of(limbs, degree)))
        object_id = self.builder.ciphertext(done.state.limbs, min(a.polynomials, 3))
        implied = a.state.degree - degree if kind is OpKind.MOD_DROP else 0
        self.write_row(kind, (a,), object_id, done, a.state.limbs - implied, implied_rescales=implied)
        return Cipher(object_id, done.state, a.polynomials, done.value)

    def write_row(
        self, kind: OpKind, operands: Sequence[Cipher], output: int | None, done: Executed, limbs: int, **rest: Any
    ) -> None:
        """Add a row; it was computed at `limbs` limbs."""
        self.builder.add(
            kind,
            limbs_in=limbs,
            limbs_out=done.state.limbs,
            operands=[operand.object_id for operand in operands],
            output=output,
            start_s=done.start_s,
            end_s=done.end_s,
            **rest,
        )

    def _row(self, call: Call, result: Cipher, done: Executed, aligned: Aligned) -> None:
        limbs, plain = done.state.limbs, call.plain
        plaintext = None
        if plain is not None:
            known = plain.kept(self.builder)
            plaintext = known.get(limbs)
            if plaintext is None:
                plaintext = known[limbs] = self.builder.plaintext(limbs, plain.name)
                ComplexValues.of(self.builder).plains[plaintext] = plain.traits
        self.builder.add(
            call.kind,
            limbs_in=limbs,
            limbs_out=limbs,
            operands=[o.object_id for o in call.operands],
            output=result.object_id,
            key=call.key,
            plaintext=plaintext,
            step=call.argument if call.kind in _TURNS else None,
            implied_rescales=aligned.rescales,
            implied_scalar_mults=aligned.scalar_mults,
            start_s=done.start_s,
            end_s=done.end_s,
        )


# A program meets few states a hundred thousand times, and they never change.
@lru_cache(maxsize=1024)
def state_of(limbs: int, degree: int) -> ScaleState:
    """The state of so many limbs and this degree."""
    return ScaleState(limbs, degree)


@lru_cache(maxsize=4096)
def _aligned(limbs: int, degree: int, scaling: Scaling, multiplication: bool) -> Aligned:
    return align_unary(ScaleState(limbs, degree), scaling, multiplication=multiplication)


@lru_cache(maxsize=16384)
def _met(limbs: int, degree: int, limbs_b: int, degree_b: int, scaling: Scaling, multiplication: bool) -> Aligned:
    one, other = ScaleState(limbs, degree), ScaleState(limbs_b, degree_b)
    return align_pair(one, other, scaling, multiplication=multiplication)


def ciphertext(what: str, a: Operand) -> Cipher:
    """The operand of a call that takes a ciphertext.

    Raises: UsageError: something else.
    """
    if not isinstance(a, Cipher):
        raise not_a_ciphertext(what, a)
    if a.polynomials == DIGITS:
        raise EvaluationRefused(
            f"{what}: an operand is the digits of a ciphertext, which are for rotate_hoisted alone; give the ciphertext"
        )
    return a


def relinearized(what: str, a: Operand) -> Cipher:
    """As `ciphertext`, for what switches keys: of two polynomials.

    Raises: EvaluationRefused: it has more.
    """
    operand = ciphertext(what, a)
    if operand.polynomials != 2:
        raise EvaluationRefused(
            f"{what}: an operand is a product of mult_no_relin, and a key switches two polynomials; relinearize it "
            "first, ev.relinearize(a)"
        )
    return operand


_PLAIN = {kind.value: (kind, row.key, ciphertext if row.key is None else relinearized) for kind, row in TRAITS.items()}
"""Name -> kind, key and check of the operands of a call."""
