"""The `trace` reading: the program without cryptography. Only limbs, operands and keys are followed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.operations import OpKind, rotation_key
from penstock.params.ckks import CkksParameters
from penstock.program.circuit_evaluator import CircuitEvaluator, Refresh
from penstock.program.evaluator import Plain, Values
from penstock.program.rows import Cipher, Executed
from penstock.program.scaling import ScaleState


class SymbolicEvaluator(CircuitEvaluator):
    """Milliseconds for thousands of operations, at any parameters. Decrypts to zeros."""

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
        return Executed(predicted)

    def _encrypt(self, values: Values) -> Executed:
        return Executed(ScaleState.encrypted(self.params, self.params.num_q))

    def _decrypt(self, a: Cipher) -> tuple[Values, Executed]:
        return np.zeros(self.params.slots), Executed(a.state)

    def _rotation_key(self, step: int) -> str:
        return rotation_key(step, self.params.ring_dim)

    def fresh(self, limbs: int, degree: int = 1) -> Cipher:
        """A ciphertext that appears from nowhere, for studies of one circuit."""
        return Cipher(self.builder.ciphertext(limbs), ScaleState(limbs, degree))

    def sibling(self, params: CkksParameters) -> SymbolicEvaluator:
        return SymbolicEvaluator(params, self.builder)

    def refresh_numbers(self, a: Cipher, small: int) -> Refresh:
        return Refresh(adjust=0.5, small=small, modulus_ratio=1.0)
