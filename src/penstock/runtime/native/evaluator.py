"""The `native` reading: every operation by our own evaluator (crates/penstock-ckks), word for word as OpenFHE's.

It needs no client: ciphertexts come in bytes from the ends of the run and go back to them, and an engine executes the
calls. No composite is hidden: series and bootstrapping are our circuits, made of primitives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from penstock.program.evaluator.arguments import pairs_of
from penstock.program.evaluator.call import Call, Cipher, Executed, NumberSum, Pass, PlainSum, Refresh
from penstock.program.evaluator.composites import ExpandingEvaluator
from penstock.program.evaluator.imaginary import ComplexValues
from penstock.program.evaluator.protocol import Plain, Values, Weight
from penstock.program.evaluator.rows import ciphertext
from penstock.program.evaluator.scaling import ScaleState
from penstock.runtime.native.engine import EngineHere
from penstock.runtime.native.work import OverScale, WorkExecutor
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.params.primes import openfhe_primes

if TYPE_CHECKING:
    from penstock.runtime.native.client import Ends

_MOST_TERMS = 16
"""Of a sum in one pass: as many plaintexts are in memory at once."""


class ExecutingEvaluator(ExpandingEvaluator):
    """Each call goes to an executor, sums of one form in one pass. One evaluator belongs to one run of a program."""

    def __init__(self, engine: WorkExecutor) -> None:
        super().__init__(engine.params)
        self.engine = engine
        self._dealt: Iterator[tuple[float | None, float | None]] | None = None
        """Times of the rows to come, where they were computed in one pass."""

    def execute(self, call: Call) -> Executed:
        if self._dealt is not None:
            return Executed(call.state, None, *next(self._dealt))
        return self.engine.execute(call)

    def weighted_sums(self, calls: Sequence[Call]) -> list[Executed]:
        return self.engine.weighted_sums(calls)

    def sibling(self, params: CkksParameters) -> ExecutingEvaluator:
        """The same run: engine and builder are shared."""
        other = copy(self)
        other.params = params
        return other

    def moduli(self) -> tuple[int, ...]:
        """The primes of Q."""
        return openfhe_primes(self.engine.params)[0]

    def top_scale(self) -> float:
        """The scale of the full chain."""
        return self.engine.scale_at(self.params.num_q - (self.params.scaling is Scaling.FLEXIBLE_AUTO_EXT))

    def refresh_numbers(self, a: Cipher, small: int) -> Refresh:
        limbs, q, top = a.state.limbs, self.moduli(), self.top_scale()
        # The product with this number, divided by the last prime, has the scale of the full chain.
        adjust = OverScale.of(top * q[limbs - 1], self.engine.scale_at(limbs), small)
        return Refresh(adjust=adjust, small=small, modulus_ratio=q[0] / top)

    def weighted_sum(self, terms: Iterable[Cipher], weights: Iterable[Weight]) -> Cipher:
        pairs = pairs_of(terms, weights, self, ciphertext)
        total: Cipher | None = None
        while group := list(islice(pairs, _MOST_TERMS)):
            part = self._plain_sum([term for term, _ in group], [plain for _, plain in group])
            total = part if total is None else self.add(total, part)
        assert total is not None  # `pairs_of` refuses a sum of no terms
        return total

    def _plain_sum(self, terms: Sequence[Cipher], plains: Sequence[Plain]) -> Cipher:
        """Products and their sum: in one pass where no operand has to be adjusted first."""
        state = terms[0].state
        fresh = self.params.scaling is Scaling.FLEXIBLE_AUTO_EXT and state.limbs == self.params.num_q
        alike = all(term.state == state and term.polynomials == 2 for term in terms)
        if len(terms) < 2 or state.degree > 1 or fresh or not alike:
            return super().weighted_sum(terms, plains)
        call = Call(OpKind.MULT_PLAIN, terms, ScaleState(state.limbs, 2), how=PlainSum(tuple(plains)))
        return self._in_one_pass(call, partial(super().weighted_sum, terms, plains))

    def weighted(self, terms: Sequence[Cipher], weights: Sequence[float], kept: dict[int, object]) -> Cipher:
        state = terms[0].state
        if any(term.state != state for term in terms):
            return super().weighted(terms, weights, kept)
        call = Call(OpKind.MULT_SCALAR, terms, state, how=NumberSum(weights, kept))
        return self._in_one_pass(call, partial(super().weighted, terms, weights, kept))

    def _in_one_pass(self, call: Call, rows: Callable[[], Cipher]) -> Cipher:
        """A sum of products that the engine does in one pass; `rows` writes a row for each product and addition."""
        done = self.engine.execute(call)
        self._dealt = Pass(done.start_s, done.end_s).parts(2 * len(call.operands) - 1)
        try:
            total = rows()
        finally:
            self._dealt = None
        total.value = done.value
        return total


class NativeEvaluator(ExecutingEvaluator):
    """Each call runs in the engine; rows carry the limbs of the real ciphertexts and the time of the call.

    Waiting for keys and encoding are not part of an operation.
    """

    engine: EngineHere

    def __init__(self, engine: EngineHere, ends: Ends) -> None:
        super().__init__(engine)
        self.ends = ends

    def _encrypt(self, values: Values) -> Executed:
        engine, made = self.engine, self.ends.encrypt(values)
        taken = engine.take(made.content)
        engine.encode_s += made.encoded_s - made.begun_s
        engine.transfer_s += time.perf_counter() - made.ended_s
        return Executed(taken.state, taken.value, made.encoded_s - engine.origin_s, made.ended_s - engine.origin_s)

    def _decrypt(self, a: Cipher) -> tuple[Values, Executed]:
        engine, start = self.engine, time.perf_counter()
        is_complex = ComplexValues.of(self.builder).has(a.object_id, self.builder)
        decryption = self.ends.decrypt(engine.give(a), is_complex=is_complex)
        engine.transfer_s += decryption.begun_s - start
        times = decryption.begun_s - engine.origin_s, decryption.ended_s - engine.origin_s
        return decryption.values, Executed(a.state, None, *times)
