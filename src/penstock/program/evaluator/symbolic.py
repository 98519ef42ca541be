"""The `trace` reading: the program without cryptography. Only limbs, operands and keys are followed."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from penstock.program.evaluator.abreast import Bundle, Circuit
from penstock.program.evaluator.arguments import factor_of
from penstock.program.evaluator.call import Call, Cipher, Composite, Executed, Refresh
from penstock.program.evaluator.circuit_evaluator import CircuitEvaluator
from penstock.program.evaluator.composites import AbreastEvaluator
from penstock.program.evaluator.protocol import Values
from penstock.program.evaluator.rows import ciphertext, state_of
from penstock.program.evaluator.scaling import ScaleState
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.blocks import Block
from penstock.scheme.traces.builder import TraceBuilder

_executed = lru_cache(maxsize=1024)(lambda limbs, degree: Executed(state_of(limbs, degree)))
MOST_KEPT = 64
"""Composites whose rows are kept; a program has a few kinds."""


@dataclass(slots=True)
class _Repeated:
    """The rows of one composite on operands of one state, when it ran last."""

    block: Block
    result: Cipher
    is_steady: bool = False
    """Whether it wrote the same rows twice: the first run also makes keys and plaintexts."""


class SymbolicEvaluator(AbreastEvaluator):
    """Milliseconds for thousands of operations, at any parameters. Decrypts to zeros."""

    def __init__(self, params: CkksParameters, builder: TraceBuilder | None = None, *, repeats: bool = False) -> None:
        """Args: repeats: a composite that wrote the same rows twice is not run again; its rows are repeated."""
        super().__init__(params, builder)
        self._kept_rows: dict[Hashable, _Repeated] | None = {} if repeats else None

    @property
    def has_small_ring(self) -> bool:
        return True

    def execute(self, call: Call) -> Executed:
        return _executed(call.state.limbs, call.state.degree)

    def _encrypt(self, values: Values) -> Executed:
        return Executed(ScaleState.encrypted(self.params, self.params.num_q))

    def _decrypt(self, a: Cipher) -> tuple[Values, Executed]:
        return np.zeros(self.params.slots), Executed(a.state)

    def _model(self) -> CircuitEvaluator:
        return SymbolicEvaluator(self.params, self.builder)

    def _composite(self, kind: OpKind, name: str, a: Cipher, circuit: Circuit, how: Composite) -> Cipher:
        if self._kept_rows is None or isinstance(a, Bundle) or self.builder.on_add is not None:
            return super()._composite(kind, name, a, circuit, how)
        key = kind, name, how, a.state, a.polynomials
        repeated = self._kept_rows.get(key)
        if repeated is not None and repeated.is_steady:
            with self.builder.open_scope(name, modelled=True):
                return replace(repeated.result, object_id=self.builder.repeat(repeated.block, [a.object_id]))
        place = self.builder.place
        result = super()._composite(kind, name, a, circuit, how)
        if len(self._kept_rows) >= MOST_KEPT:
            self._kept_rows.clear()
        own = self.builder.block_since(place, [a.object_id])
        self._kept_rows[key] = _Repeated(own, result, is_steady=repeated is not None and repeated.block == own)
        return result

    def fresh(self, limbs: int, degree: int = 1) -> Cipher:
        """A ciphertext that appears from nowhere, for studies of one circuit."""
        return Cipher(self.builder.ciphertext(limbs), ScaleState(limbs, degree))

    def scaled(self, a: Cipher, factor: float) -> Cipher:
        # The same ciphertext, read at another scale: no operation.
        factor_of(factor)
        return ciphertext("scaled", a)

    def sibling(self, params: CkksParameters) -> SymbolicEvaluator:
        return SymbolicEvaluator(params, self.builder)

    def refresh_numbers(self, a: Cipher, small: int) -> Refresh:
        return Refresh(adjust=0.5, small=small, modulus_ratio=1.0)
