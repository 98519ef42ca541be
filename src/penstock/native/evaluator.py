"""The `native` reading: every operation by our own evaluator (crates/penstock-ckks), word for word as OpenFHE's.

OpenFHE generates keys, encrypts and decrypts; a ciphertext goes through its bytes once after encryption and once before
decryption. No composite is hidden: series are our circuits, made of primitives.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np

from penstock import _engine
from penstock.errors import PenstockError, UsageError
from penstock.native.client import Client
from penstock.native.inputs import InputShelf, Shelved
from penstock.native.keys import KeySource
from penstock.operations import CONJ_KEY, RELIN_KEY, OpKind
from penstock.params.ckks import CkksParameters, Scaling
from penstock.params.spec import openfhe_primes
from penstock.program.circuit_evaluator import (
    CircuitEvaluator,
    CircuitStep,
    Monomial,
    Pass,
    Refresh,
    WeightedSum,
    Whole,
)
from penstock.program.evaluator import Plain, Values
from penstock.program.rows import Cipher, Executed
from penstock.program.scaling import ScaleState
from penstock.traces.builder import TraceBuilder

KEPT_CIPHERTEXTS = 8
"""How much memory of dropped results the engine keeps for new ones, in fresh ciphertexts."""


def make_engine(
    params: CkksParameters, threads: int = 1, path: str | None = None, *, kept_ciphertexts: float = KEPT_CIPHERTEXTS
) -> _engine.CkksContext:
    """The evaluator of a parameter set. `path`: kernels other than the fastest that this machine has.

    Raises: ParamsError: the set is not for OpenFHE; UsageError: kernels that this machine has not.
    """
    wanted, there = path or os.environ.get("PENSTOCK_CPU", ""), _engine.ckks_paths()
    if wanted and wanted not in there:
        whose = "kernels" if path else "PENSTOCK_CPU: kernels"
        raise UsageError(f"{whose} '{wanted}': this machine has {', '.join(there)}; leave it out to take the fastest")
    q, p = openfhe_primes(params)
    keep_bytes = int(kept_ciphertexts * params.ciphertext_bytes(params.num_q + params.num_p))
    return _engine.CkksContext(
        ring_dim=params.ring_dim, moduli_q=list(q), moduli_p=list(p), dnum=params.dnum,
        scaling=params.scaling.value, scale_bits=params.scale_bits, threads=threads, path=path, keep_bytes=keep_bytes,
    )  # fmt: skip


class NativeEvaluator(CircuitEvaluator):
    """Each call runs in the engine; rows carry the limbs of the real ciphertexts and the time of the call.

    Waiting for keys and encoding are not part of an operation. One evaluator belongs to one run of a program.

    Args:   inputs: where encrypted inputs stay between their uses; all of them in memory if omitted.
    """

    def __init__(
        self,
        client: Client,
        engine: _engine.CkksContext,
        keys: KeySource,
        builder: TraceBuilder | None = None,
        *,
        inputs: InputShelf | None = None,
    ) -> None:
        super().__init__(client.params, builder)
        self.client, self.engine, self.keys, self.inputs = client, engine, keys, inputs
        self._automatic = client.params.scaling.automatic
        self._writer: _engine.CkksWriter | None = None
        self._origin = time.perf_counter()
        self._spent = {"encode": 0.0, "transfer": 0.0}
        self._dealt: Iterator[tuple[float | None, float | None]] | None = None
        """Times of the rows to come, where they were computed in one pass."""

    @property
    def encode_s(self) -> float:
        """Seconds spent on encoding plaintexts, those that are encrypted too."""
        return self._spent["encode"]

    @property
    def transfer_s(self) -> float:
        """Seconds spent on OpenFHE's bytes: after encryption and before decryption."""
        return self._spent["transfer"]

    # Client side.
    def _encrypt(self, values: Values) -> Executed:
        made = self.client.encrypt(values)
        if self._writer is None:
            self._writer = _engine.CkksWriter(made.content)
        native = self.engine.import_ciphertext(made.content)
        state = ScaleState(native.limbs, native.degree)
        kept: Any = native if self.inputs is None else self.inputs.put(made.content)
        self._spent["encode"] += made.encoded_s - made.begun_s
        self._spent["transfer"] += time.perf_counter() - made.ended_s
        return Executed(state, kept, made.encoded_s - self._origin, made.ended_s - self._origin)

    def _decrypt(self, a: Cipher) -> tuple[Values, Executed]:
        if self._writer is None:
            raise PenstockError("decrypt: nothing was encrypted in this run")
        start = time.perf_counter()
        content = self.engine.export_ciphertext(self._in_memory(a).native, self._writer)
        found = self.client.decrypt(content)
        self._spent["transfer"] += found.begun_s - start
        return found.values, Executed(a.state, None, found.begun_s - self._origin, found.ended_s - self._origin)

    def _in_memory(self, a: Cipher) -> Cipher:
        """The ciphertext with its limbs, where it is an input that lies on disk."""
        if not isinstance(a.native, Shelved):
            return a
        assert self.inputs is not None
        start = time.perf_counter()
        native = self.inputs.get(a.native)
        self._spent["transfer"] += time.perf_counter() - start
        return Cipher(a.object_id, a.state, a.polynomials, native)

    # Composites are circuits of primitives here.
    def _composite(
        self, kind: OpKind, name: str, a: Cipher, circuit: Callable[[Any, Cipher], Cipher], extra: Any = None
    ) -> Cipher:
        with self.builder.open_scope(name, modelled=True):
            return circuit(self, a)

    def _rotation_key(self, step: int) -> str:
        return f"rot:{self.engine.rotation_galois_element(step)}"

    def _execute(
        self,
        kind: OpKind,
        operands: Sequence[Cipher],
        predicted: ScaleState,
        *,
        plain: Plain | None = None,
        scalar: complex | None = None,
        step: int | None = None,
        extra: Any = None,
    ) -> Executed:
        if self._dealt is not None:
            start_s, end_s = next(self._dealt)
            return Executed(predicted, None, start_s, end_s)
        if self.inputs is not None:
            operands = [self._in_memory(each) for each in operands]
            # Operands hold what they need; the shelf need not.
            self.inputs.end_use()
        if isinstance(extra, CircuitStep):
            return self._circuit_step(kind, operands, predicted, step=step, how=extra.how)
        return self._step(kind, operands, predicted, plain=plain, scalar=scalar, step=step, extra=extra)

    def _step(
        self, kind: OpKind, operands: Sequence[Cipher], predicted: ScaleState, *, plain: Plain | None,
        scalar: complex | None, step: int | None, extra: Any,
    ) -> Executed:  # fmt: skip
        """A step that programs take."""
        engine, a = self.engine, operands[0].native
        call: Callable[..., Any]
        if plain is not None:
            call = {
                OpKind.ADD_PLAIN: engine.add_plain, OpKind.SUB_PLAIN: engine.sub_plain,
                OpKind.MULT_PLAIN: engine.mult_plain,
            }[kind]  # fmt: skip
            return self._timed(call, a, self._encoded(plain, predicted, kind))
        if scalar is not None:
            return self._scalar(kind, a, scalar, extra)
        if kind in (OpKind.ADD, OpKind.SUB, OpKind.MULT_NO_RELIN):
            call = {OpKind.ADD: engine.add, OpKind.SUB: engine.sub, OpKind.MULT_NO_RELIN: engine.mult_no_relin}[kind]
            return self._timed(call, a, operands[1].native)
        if kind is OpKind.MULT:
            return self._keyed(RELIN_KEY, predicted.limbs, engine.mult, a, operands[1].native)
        if kind in (OpKind.SQUARE, OpKind.RELINEARIZE):
            call = engine.square if kind is OpKind.SQUARE else engine.relinearize
            return self._keyed(RELIN_KEY, predicted.limbs, call, a)
        if kind in (OpKind.ROTATE, OpKind.ROTATE_HOISTED):
            assert step is not None
            element, key = engine.rotation_galois_element(step), self._rotation_key(step)
            if kind is OpKind.ROTATE:
                return self._keyed(key, predicted.limbs, engine.rotate, a, element)
            return self._keyed(key, predicted.limbs, engine.rotate_hoisted, a, operands[1].native, element)
        if kind is OpKind.CONJUGATE:
            return self._keyed(CONJ_KEY, predicted.limbs, engine.rotate, a, 2 * self.params.ring_dim - 1)
        if kind is OpKind.DECOMPOSE:
            start = time.perf_counter()
            digits = engine.decompose(a)
            return Executed(predicted, digits, start - self._origin, time.perf_counter() - self._origin)
        if kind is OpKind.MOD_DROP:
            if self.params.scaling.automatic:
                return self._timed(engine.rescale_and_drop, a, predicted.limbs)
            return self._timed(engine.mod_drop, a, predicted.limbs)
        if kind is OpKind.RESCALE and self._automatic:
            # Inside a composite, which rescales whatever the rule.
            return self._timed(engine.rescale_now, a)
        return self._timed({OpKind.NEGATE: engine.negate, OpKind.RESCALE: engine.rescale}[kind], a)

    def _circuit_step(
        self, kind: OpKind, operands: Sequence[Cipher], predicted: ScaleState, *, step: int | None, how: Any
    ) -> Executed:  # fmt: skip
        """A step that only circuits take."""
        engine, a = self.engine, operands[0].native
        call: Callable[..., Any]
        if kind is OpKind.EXTEND:
            return self._plainly(predicted, engine.extend, a)
        if kind is OpKind.ADD_EXTENDED:
            return self._plainly(predicted, engine.add_extended, a, operands[1].native)
        if isinstance(how, WeightedSum):
            terms = [each.native for each in operands]
            plains = [self._coefficients(each, predicted.limbs) for each in how.plains]
            plus = terms.pop() if len(terms) > len(plains) else None
            return self._plainly(predicted, engine.weighted_sum_extended, terms, plains, plus)
        if kind in (OpKind.DECOMPOSE, OpKind.DECOMPOSE_EXTENDED):
            call = engine.decompose if kind is OpKind.DECOMPOSE else engine.decompose_extended
            return self._plainly(predicted, call, a)
        if kind in (OpKind.ROTATE_HOISTED_EXTENDED, OpKind.ROTATE_EXTENDED):
            assert step is not None
            rotate: Callable[..., Any] = (
                engine.rotate_extended if kind is OpKind.ROTATE_EXTENDED else engine.rotate_hoisted_extended
            )
            element = engine.rotation_galois_element(step)
            with self.keys.get(self._rotation_key(step), predicted.limbs) as rows:
                return self._plainly(predicted, rotate, a, operands[1].native, element, rows)
        if kind is OpKind.MOD_DOWN:
            return self._plainly(predicted, engine.mod_down, a)
        if kind is OpKind.MOD_RAISE:
            return self._timed(self._raise, a, predicted.limbs)
        if isinstance(how, Monomial):
            return self._timed(engine.mult_monomial, a, how.power)
        if isinstance(how, Whole):
            return self._timed(engine.mult_integer, a, how.factor)
        return self._timed(engine.align, a, operands[1].native)

    def _raise(self, a: _engine.CkksCiphertext, limbs: int) -> _engine.CkksCiphertext:
        engine = self.engine
        single = engine.mod_drop(a, 1)
        raised = engine.mod_raise(single, limbs)
        return raised.with_scale(self._scale_at(limbs)) if self._automatic else raised

    def _scale_at(self, limbs: int) -> float:
        """The scale of operands of degree 1 with so many limbs."""
        return self.engine.scale_at(limbs)

    def sibling(self, params: CkksParameters) -> NativeEvaluator:
        """The same run: keys, engine, builder and clock are shared."""
        other = copy(self)
        other.params = params
        return other

    def refresh_numbers(self, a: Cipher, small: int) -> Refresh:
        a = self._in_memory(a)
        q = openfhe_primes(self.client.params)[0]
        extra = self.params.scaling is Scaling.FLEXIBLE_AUTO_EXT
        top, limbs = self._scale_at(self.params.num_q - extra), a.state.limbs
        # The product with this number, divided by the last prime, has the scale of the full chain.
        adjust = top * q[limbs - 1] / (a.native.scale * self._scale_at(limbs)) / small
        return Refresh(adjust=adjust, small=small, modulus_ratio=q[0] / top)

    def _coefficients(self, plain: Plain, limbs: int) -> Any:
        """A diagonal before its limbs differ; encoded over Q and P it would be as many times larger as it has limbs."""
        name = (id(self.engine), limbs, "coefficients")
        known = plain.encoded.get(name)
        if known is None:
            start = time.perf_counter()
            # Not `plain.values`, which would keep them.
            source = plain.source() if callable(plain.source) else plain.source
            values = np.ascontiguousarray(source, dtype=np.complex128)
            known = plain.encoded[name] = self.engine.encode_coefficients(values, limbs, 1, len(values))
            self._spent["encode"] += time.perf_counter() - start
        return known

    def weighted(self, terms: Sequence[Cipher], weights: Sequence[float], kept: dict[int, Any]) -> Cipher:
        if any(term.state != terms[0].state for term in terms):
            return super().weighted(terms, weights, kept)
        start = time.perf_counter()
        for term in terms:
            if term.object_id not in kept:
                native = self._in_memory(term).native
                kept[term.object_id] = self.engine.rescale_for_product(native) if self._automatic else native
        settled = [kept[term.object_id] for term in terms]
        native = self.engine.weighted_sum_scalar(settled, weights)
        end = time.perf_counter()
        self._dealt = Pass(start - self._origin, end - self._origin).parts(2 * len(terms) - 1)
        try:
            total = super().weighted(terms, weights, kept)
        finally:
            self._dealt = None
        total.native = native
        return total

    def _plainly(self, state: ScaleState, call: Callable[..., Any], *arguments: Any) -> Executed:
        """A result that does not say its own limbs."""
        start = time.perf_counter()
        native = call(*arguments)
        return Executed(state, native, start - self._origin, time.perf_counter() - self._origin)

    def _scalar(self, kind: OpKind, a: Any, scalar: complex, extra: Any) -> Executed:
        if scalar.imag != 0:
            raise PenstockError(f"{kind}: OpenFHE takes real numbers only, not {scalar}; encode it as a vector")
        engine, number = self.engine, float(scalar.real)
        if kind is OpKind.SUB_SCALAR and extra == "reversed":
            return self._timed(lambda: engine.add_scalar(engine.negate(a), number))
        call = {
            OpKind.ADD_SCALAR: engine.add_scalar,
            OpKind.SUB_SCALAR: engine.sub_scalar,
            OpKind.MULT_SCALAR: engine.mult_scalar,
        }[kind]
        return self._timed(call, a, number)

    def _encoded(self, plain: Plain, state: ScaleState, kind: OpKind) -> Any:
        """The plaintext at the operand's limbs and scale; a product's own degree is 2, its factors' 1."""
        degree = state.degree if kind in (OpKind.ADD_PLAIN, OpKind.SUB_PLAIN) else 1
        name = (id(self.engine), state.limbs, degree)
        known = plain.encoded.get(name)
        if known is None:
            start = time.perf_counter()
            values = np.ascontiguousarray(plain.values, dtype=np.complex128)
            known = self.engine.encode(values, state.limbs, degree, self.params.slots)
            plain.encoded[name] = known
            self._spent["encode"] += time.perf_counter() - start
        return known

    def _keyed(self, key: str, limbs: int, call: Callable[..., Any], *arguments: Any) -> Executed:
        with self.keys.get(key, limbs) as rows:
            return self._timed(call, *arguments, rows)

    def _timed(self, call: Callable[..., Any], *arguments: Any) -> Executed:
        start = time.perf_counter()
        native = call(*arguments)
        return self._done(native, start, time.perf_counter())

    def _done(self, native: _engine.CkksCiphertext, start: float, end: float) -> Executed:
        state = ScaleState(native.limbs, native.degree)
        return Executed(state, native, start - self._origin, end - self._origin)
