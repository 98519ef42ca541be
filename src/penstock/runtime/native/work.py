"""The one map from a call to the work of a device: a run that computes performs it, compiling stores it.

The table of operations names the work (`crates/penstock-operations`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from penstock.program.evaluator.call import (
    Call,
    Cipher,
    Executed,
    Manner,
    Monomial,
    NumberSum,
    PlainSum,
    WeightedSum,
    Whole,
)
from penstock.program.evaluator.fits import check_real_number
from penstock.program.evaluator.protocol import Plain
from penstock.program.evaluator.scaling import ScaleState
from penstock.scheme.operations import TRAITS, OpKind, rotation_galois_element
from penstock.scheme.params.ckks import CkksParameters


class VectorEncoding(NamedTuple):
    """A vector as a task takes it."""

    plain: Plain
    limbs: int
    degree: int
    is_coefficients: bool = False
    """For sums over Q and P."""


class Work(NamedTuple):
    """What a device does with the operands of a call."""

    name: str
    argument: int = 0
    """A Galois element, limbs, a power of X, a factor, or how many sums."""
    numbers: Sequence[float] = ()
    vectors: Sequence[VectorEncoding] = ()


class OverScale(complex):
    """A factor that depends on the real scale of the operand: `numerator / (scale * level_scale) / small`."""

    numerator: float
    level_scale: float
    small: float

    @classmethod
    def of(cls, numerator: float, level_scale: float, small: float) -> OverScale:
        made = cls(numerator / (level_scale * level_scale) / small)
        made.numerator, made.level_scale, made.small = numerator, level_scale, small
        return made


def work_of(call: Call, params: CkksParameters) -> Work:
    """The work of a call that is neither a sum of numbers nor one over Q and P."""
    kind, name, how, state = call.kind, call.kind.value, call.how, call.state
    if kind is OpKind.CONJUGATE:
        return Work("rotate", 2 * params.ring_dim - 1)
    if call.argument is not None:
        turns = TRAITS[kind].argument == "step"
        return Work(name, rotation_galois_element(call.argument, params.ring_dim) if turns else call.argument)
    if call.plain is not None:
        # A product's own degree is 2, its factors' 1.
        degree = 1 if TRAITS[kind].is_product else state.degree
        return Work(name, vectors=[VectorEncoding(call.plain, state.limbs, degree)])
    if call.scalar is not None:
        return _with_number(call, call.scalar)
    if isinstance(how, PlainSum):
        return Work("plain_sum", vectors=[VectorEncoding(plain, state.limbs, 1) for plain in how.plains])
    if isinstance(how, Monomial):
        return Work("monomial", how.power)
    if isinstance(how, Whole):
        return Work("whole", how.factor)
    if how is Manner.ADJUSTED:
        return Work("align")
    automatic = params.scaling.automatic
    if kind is OpKind.MOD_DROP:
        return Work("rescale_and_drop" if state.degree < call.operands[0].state.degree else name, state.limbs)
    if kind is OpKind.MOD_RAISE:
        return Work("mod_raise_to_scale" if automatic else name, state.limbs)
    if kind is OpKind.RESCALE and automatic:
        # It is inside a composite, which rescales whatever the rule.
        return Work("rescale_now")
    return Work(name)


def _with_number(call: Call, scalar: complex) -> Work:
    if isinstance(scalar, OverScale):
        return Work("mult_over_scale", numbers=[scalar.numerator, scalar.level_scale, scalar.small])
    check_real_number(call.kind, scalar)
    name = "scalar_sub" if call.how is Manner.REVERSED else call.kind.value
    return Work(name, numbers=[float(scalar.real)])


class WorkExecutor(ABC):
    """Does the calls of a run as work, or notes them. Results are new; operands never change."""

    def __init__(self, params: CkksParameters) -> None:
        self.params = params

    @abstractmethod
    def perform(self, work: Work, calls: Sequence[Call]) -> list[Executed]:
        """One piece of work on the operands of calls, one after the other; a result for each call."""

    @abstractmethod
    def scale_at(self, limbs: int) -> float:
        """The scale of operands of degree 1 with so many limbs."""

    def execute(self, call: Call) -> Executed:
        """One call. Raises: PenstockError: the engine refuses it; as its source of keys."""
        if isinstance(call.how, WeightedSum):
            return self.weighted_sums([call])[0]
        if isinstance(call.how, NumberSum):
            return self._number_sum(call, call.how)
        return self.perform(work_of(call, self.params), [call])[0]

    def weighted_sums(self, calls: Sequence[Call]) -> list[Executed]:
        """Calls of sums over Q and P that have the same vectors: all in one pass, whose time is dealt to them."""
        first, how = calls[0], calls[0].how
        assert isinstance(how, WeightedSum)
        vectors = [VectorEncoding(plain, first.state.limbs, 1, is_coefficients=True) for plain in how.plains]
        name = "weighted_sums_plus" if len(first.operands) > len(vectors) else "weighted_sums"
        return self.perform(Work(name, len(calls), vectors=vectors), calls)

    def _number_sum(self, call: Call, how: NumberSum) -> Executed:
        """Under an automatic rule terms are rescaled first, as products take them."""
        automatic, begun_s, terms = self.params.scaling.automatic, None, []
        for term in call.operands:
            state = term.state
            if automatic:
                state = ScaleState(state.limbs - (state.degree > 1), 1)
            if term.object_id not in how.kept:
                how.kept[term.object_id] = term.value
                if automatic:
                    rescaled = Call(OpKind.RESCALE, [term], state)
                    (done,) = self.perform(Work("rescale_for_product"), [rescaled])
                    how.kept[term.object_id] = done.value
                    begun_s = done.start_s if begun_s is None else begun_s
            terms.append(Cipher(term.object_id, state, term.polynomials, how.kept[term.object_id]))
        work = Work("number_sum", numbers=[float(weight) for weight in how.weights])
        summed = call._replace(operands=terms, state=ScaleState(terms[0].state.limbs, 2))
        (done,) = self.perform(work, [summed])
        return done if begun_s is None else replace(done, start_s=begun_s)
