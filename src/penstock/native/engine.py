"""What executes the calls of a native run on limbs: the `Engine` protocol, and the engine of this process."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from penstock import _engine
from penstock.errors import PenstockError, UsageError
from penstock.native.inputs import InputShelf, Shelved
from penstock.native.keys import KeySource
from penstock.operations import OpKind
from penstock.params.ckks import CkksParameters
from penstock.params.primes import openfhe_primes
from penstock.program.call import (
    Call,
    Cipher,
    Executed,
    Manner,
    Monomial,
    NumberSum,
    Pass,
    PlainSum,
    WeightedSum,
    Whole,
)
from penstock.program.evaluator import Plain
from penstock.program.fits import check_real_number
from penstock.program.scaling import ScaleState
from penstock.units import WORD_BYTES

KEPT_CIPHERTEXTS = 8
"""How much memory of dropped results the engine keeps for new ones, in fresh ciphertexts."""


def make_context(
    params: CkksParameters, threads: int = 1, path: str | None = None, *, kept_ciphertexts: float = KEPT_CIPHERTEXTS
) -> _engine.CkksContext:
    """The tables and kernels of a parameter set. `path`: kernels other than the fastest that this machine has.

    Raises: ParamsError: the set is not for OpenFHE; UsageError: kernels that this machine has not.
    """
    check_kernels(path)
    q, p = openfhe_primes(params)
    keep_bytes = int(kept_ciphertexts * params.ciphertext_bytes(params.num_q + params.num_p))
    return _engine.CkksContext(
        ring_dim=params.ring_dim,
        moduli_q=list(q),
        moduli_p=list(p),
        dnum=params.dnum,
        scaling=params.scaling.value,
        scale_bits=params.scale_bits,
        threads=threads,
        path=path,
        keep_bytes=keep_bytes,
    )


def check_kernels(path: str | None = None) -> None:
    """Raises: UsageError: kernels that this machine has not, by `path` or by `PENSTOCK_CPU`."""
    wanted, there = path or os.environ.get("PENSTOCK_CPU", ""), _engine.ckks_paths()
    if wanted and wanted not in there:
        whose = "kernels" if path else "PENSTOCK_CPU: kernels"
        raise UsageError(f"{whose} '{wanted}': this machine has {', '.join(there)}; leave it out to take the fastest")


class Engine(Protocol):
    """The executor of the calls of one run: the processor of this machine, a node with the keys, an accelerator.

    It sees ciphertexts and evaluation keys, never a secret key. Results are new; operands never change. Times count
    from `origin_s`. One run at a time.
    """

    params: CkksParameters
    """Of the run."""
    origin_s: float
    """The moment on the monotonic clock that all times count from."""
    encode_s: float
    """Seconds spent on encoding plaintext operands: not part of any operation."""
    transfer_s: float
    """Seconds spent on ciphertexts in bytes: not part of any operation."""

    def take(self, content: bytes) -> Executed:
        """A ciphertext from its client's bytes."""
        ...

    def give(self, a: Cipher) -> bytes:
        """A ciphertext in its client's bytes."""
        ...

    def execute(self, call: Call) -> Executed:
        """One call. Raises: PenstockError: the engine refuses it; as its source of keys."""
        ...

    def weighted_sums(self, calls: Sequence[Call]) -> list[Executed]:
        """Calls of sums over Q and P that have the same vectors: all in one pass, whose time is dealt to them."""
        ...

    def scale_of(self, a: Cipher) -> float:
        """The real scale of a ciphertext."""
        ...

    def scale_at(self, limbs: int) -> float:
        """The scale of operands of degree 1 with so many limbs."""
        ...


class LimbEngine(ABC):
    """The kernels of this machine for all calls but key switches, which lie where the keys are.

    Args:   inputs: where encrypted inputs stay between their uses; all of them in memory if omitted.
    """

    def __init__(
        self, params: CkksParameters, context: _engine.CkksContext, *, inputs: InputShelf | None = None
    ) -> None:
        self.params, self.context, self.inputs = params, context, inputs
        self.origin_s = time.perf_counter()
        self.encode_s = self.transfer_s = 0.0
        self.num_encoded = 0
        """Vectors encoded so far; a vector counts each time."""
        self._automatic = params.scaling.automatic
        self._writer: _engine.CkksWriter | None = None

    @abstractmethod
    def _keyed(self, call: Call) -> Executed:
        """A call that reads a key."""

    def take(self, content: bytes) -> Executed:
        if self._writer is None:
            self._writer = _engine.CkksWriter(content)
        start = time.perf_counter()
        made = self.context.import_ciphertext(content)
        done = self._done(made, start, time.perf_counter())
        if self.inputs is None:
            return done
        return Executed(done.state, self.inputs.put(content), done.start_s, done.end_s)

    def give(self, a: Cipher) -> bytes:
        if self._writer is None:
            raise PenstockError("decrypt: nothing was encrypted in this run")
        return self.context.export_ciphertext(self._in_memory(a).value, self._writer)

    def scale_of(self, a: Cipher) -> float:
        return float(self._in_memory(a).value.scale)

    def scale_at(self, limbs: int) -> float:
        return self.context.scale_at(limbs)

    def execute(self, call: Call) -> Executed:
        if self.inputs is not None:
            call = call._replace(operands=[self._in_memory(each) for each in call.operands])
            # Operands hold references to their data; the shelf does not need to.
            self.inputs.end_use()
        if call.key is not None:
            return self._keyed(call)
        if call.plain is not None:
            return self._with_plain(call.kind, call.operands[0].value, call.plain, call.state)
        if call.scalar is not None:
            return self._scalar(call.kind, call.operands[0].value, call.scalar, reverse=call.how is Manner.REVERSED)
        if call.how is not None:
            return self._how(call)
        return self._plain_step(call)

    def _in_memory(self, a: Cipher) -> Cipher:
        """The ciphertext with its limbs, where it is an input that lies on disk."""
        if not isinstance(a.value, Shelved):
            return a
        assert self.inputs is not None
        start = time.perf_counter()
        value = self.inputs.get(a.value)
        self.transfer_s += time.perf_counter() - start
        return Cipher(a.object_id, a.state, a.polynomials, value)

    def _plain_step(self, call: Call) -> Executed:
        """A step whose kind and operands say all."""
        engine, kind, operands = self.context, call.kind, call.operands
        a = operands[0].value
        if kind in (OpKind.ADD, OpKind.SUB, OpKind.MULT_NO_RELIN):
            pair = {OpKind.ADD: engine.add, OpKind.SUB: engine.sub, OpKind.MULT_NO_RELIN: engine.mult_no_relin}
            return self._timed(pair[kind], a, operands[1].value)
        if kind is OpKind.ADD_EXTENDED:
            return self._plainly(call, engine.add_extended, a, operands[1].value)
        if kind is OpKind.MOD_DROP:
            if call.state.degree < operands[0].state.degree:
                return self._timed(engine.rescale_and_drop, a, call.state.limbs)
            return self._timed(engine.mod_drop, a, call.state.limbs)
        if kind is OpKind.MOD_RAISE:
            return self._timed(self._raise, a, call.state.limbs)
        if kind is OpKind.NEGATE:
            return self._timed(engine.negate, a)
        if kind is OpKind.RESCALE:
            # Under an automatic rule this is inside a composite, which rescales whatever the rule.
            return self._timed(engine.rescale_now if self._automatic else engine.rescale, a)
        over_p: dict[OpKind, Callable[..., Any]] = {
            OpKind.DECOMPOSE: engine.decompose,
            OpKind.EXTEND: engine.extend,
            OpKind.DECOMPOSE_EXTENDED: engine.decompose_extended,
            OpKind.MOD_DOWN: engine.mod_down,
        }
        return self._plainly(call, over_p[kind], a)

    def weighted_sums(self, calls: Sequence[Call]) -> list[Executed]:
        state, how = calls[0].state, calls[0].how
        assert isinstance(how, WeightedSum)
        plains = [self._coefficients(each, state.limbs) for each in how.plains]
        operands = [[each.value for each in call.operands] for call in calls]
        terms = [each[: len(plains)] for each in operands]
        plus = [each[-1] for each in operands if len(each) > len(plains)]
        start = time.perf_counter() - self.origin_s
        made = self.context.weighted_sums_extended(terms, plains, plus)
        times = Pass(start, time.perf_counter() - self.origin_s).parts(len(calls))
        return [Executed(state, value, *part) for value, part in zip(made, times, strict=True)]

    def _how(self, call: Call) -> Executed:
        """A step that only circuits take."""
        engine, how = self.context, call.how
        operands = [each.value for each in call.operands]
        if isinstance(how, WeightedSum):
            return self.weighted_sums([call])[0]
        if isinstance(how, PlainSum):
            return self._timed(engine.weighted_sum_plain, operands, self._encoded(how.plains, call.state.limbs))
        if isinstance(how, NumberSum):
            return self._timed(self._number_sum, call, how)
        if isinstance(how, Monomial):
            return self._timed(engine.mult_monomial, operands[0], how.power)
        if isinstance(how, Whole):
            return self._timed(engine.mult_integer, operands[0], how.factor)
        return self._timed(engine.align, *operands)

    def _number_sum(self, call: Call, how: NumberSum) -> _engine.CkksCiphertext:
        for term in call.operands:
            if term.object_id not in how.kept:
                how.kept[term.object_id] = (
                    self.context.rescale_for_product(term.value) if self._automatic else term.value
                )
        return self.context.weighted_sum_scalar([how.kept[term.object_id] for term in call.operands], list(how.weights))

    def _raise(self, a: _engine.CkksCiphertext, limbs: int) -> _engine.CkksCiphertext:
        engine = self.context
        single = engine.mod_drop(a, 1)
        raised = engine.mod_raise(single, limbs)
        return raised.with_scale(self.scale_at(limbs)) if self._automatic else raised

    def _scalar(self, kind: OpKind, a: Any, scalar: complex, *, reverse: bool) -> Executed:
        check_real_number(kind, scalar)
        engine, number = self.context, float(scalar.real)
        if reverse:
            return self._timed(lambda: engine.add_scalar(engine.negate(a), number))
        calls = {
            OpKind.ADD_SCALAR: engine.add_scalar,
            OpKind.SUB_SCALAR: engine.sub_scalar,
            OpKind.MULT_SCALAR: engine.mult_scalar,
        }
        return self._timed(calls[kind], a, number)

    def _with_plain(self, kind: OpKind, a: Any, plain: Plain, state: ScaleState) -> Executed:
        """At the operand's limbs and scale; a product's own degree is 2, its factors' 1."""
        engine = self.context
        (known,) = self._encoded([plain], state.limbs, 1 if kind is OpKind.MULT_PLAIN else state.degree)
        calls = {
            OpKind.ADD_PLAIN: engine.add_plain,
            OpKind.SUB_PLAIN: engine.sub_plain,
            OpKind.MULT_PLAIN: engine.mult_plain,
        }
        return self._timed(calls[kind], a, known)

    def _encoded(self, plains: Sequence[Plain], limbs: int, degree: int = 1) -> list[_engine.CkksPlaintext]:
        """Vectors encoded; those that are not yet, together."""
        name = (limbs, degree)
        new = list({id(each): each for each in plains if name not in each.kept(self)}.values())
        if new:
            start = time.perf_counter()
            vectors = [np.ascontiguousarray(each.values, dtype=np.complex128) for each in new]
            made = self.context.encode_many(vectors, limbs, degree, len(vectors[0]))
            for each, encoded in zip(new, made, strict=True):
                each.kept(self)[name] = encoded
            self.encode_s += time.perf_counter() - start
        found = [each.kept(self)[name] for each in plains]
        self._now_encoded(new, name, self.params.polynomial_bytes(limbs))
        return found

    def _now_encoded(self, new: Sequence[Plain], name: tuple[Any, ...], size: int) -> None:
        """Vectors were encoded, into `size` bytes each. Here all of them stay."""
        self.num_encoded += len(new)

    def _coefficients(self, plain: Plain, limbs: int) -> Any:
        """A diagonal before its limbs differ; encoded over Q and P it would be as many times larger as it has limbs."""
        name, kept = (limbs, "coefficients"), plain.kept(self)
        known = kept.get(name)
        if known is None:
            start = time.perf_counter()
            values = np.ascontiguousarray(plain.fleeting(), dtype=np.complex128)
            known = kept[name] = self.context.encode_coefficients(values, limbs, 1, len(values))
            self.encode_s += time.perf_counter() - start
            # Twice as many real coefficients as slots.
            self._now_encoded([plain], name, 2 * WORD_BYTES * len(values))
        return known

    def _plainly(self, call: Call, work: Callable[..., Any], *arguments: Any) -> Executed:
        """A result that does not say its own limbs."""
        start = time.perf_counter()
        made = work(*arguments)
        return Executed(call.state, made, start - self.origin_s, time.perf_counter() - self.origin_s)

    def _timed(self, work: Callable[..., Any], *arguments: Any) -> Executed:
        start = time.perf_counter()
        made = work(*arguments)
        return self._done(made, start, time.perf_counter())

    def _done(self, made: _engine.CkksCiphertext, start: float, end: float) -> Executed:
        state = ScaleState(made.limbs, made.degree)
        return Executed(state, made, start - self.origin_s, end - self.origin_s)


class EngineHere(LimbEngine):
    """The engine of this process: keys come from a source. Waiting for them is not part of an operation."""

    def __init__(
        self, params: CkksParameters, context: _engine.CkksContext, keys: KeySource, *, inputs: InputShelf | None = None
    ) -> None:
        super().__init__(params, context, inputs=inputs)
        self.keys = keys

    def _keyed(self, call: Call) -> Executed:
        engine, kind, step = self.context, call.kind, call.step
        values = [each.value for each in call.operands]
        assert call.key is not None
        element = 2 * self.params.ring_dim - 1 if step is None else engine.rotation_galois_element(step)
        with self.keys.get(call.key, call.state.limbs) as rows:
            if kind in (OpKind.ROTATE, OpKind.CONJUGATE):
                return self._timed(engine.rotate, *values, element, rows)
            if kind is OpKind.ROTATE_HOISTED:
                return self._timed(engine.rotate_hoisted, *values, element, rows)
            if kind is OpKind.ROTATE_EXTENDED:
                return self._plainly(call, engine.rotate_extended, *values, element, rows)
            if kind is OpKind.ROTATE_HOISTED_EXTENDED:
                return self._plainly(call, engine.rotate_hoisted_extended, *values, element, rows)
            if kind is OpKind.TO_SPARSE:
                return self._timed(engine.to_sparse, *values, rows)
            if kind is OpKind.TO_DENSE:
                return self._timed(engine.to_dense, *values, rows)
            relinearized: dict[OpKind, Callable[..., Any]] = {
                OpKind.MULT: engine.mult,
                OpKind.SQUARE: engine.square,
                OpKind.RELINEARIZE: engine.relinearize,
            }
            return self._timed(relinearized[kind], *values, rows)
