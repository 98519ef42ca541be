"""The `trace` reading: the program without cryptography. Only limbs, operands and keys are followed."""

from __future__ import annotations

import numpy as np

from penstock.params.ckks import CkksParameters
from penstock.program.call import Call, Cipher, Executed, Refresh
from penstock.program.circuit_evaluator import CircuitEvaluator
from penstock.program.composites import AbreastEvaluator
from penstock.program.evaluator import Values
from penstock.program.scaling import ScaleState


class SymbolicEvaluator(AbreastEvaluator):
    """Milliseconds for thousands of operations, at any parameters. Decrypts to zeros."""

    @property
    def has_small_ring(self) -> bool:
        return True

    def execute(self, call: Call) -> Executed:
        return Executed(call.state)

    def _encrypt(self, values: Values) -> Executed:
        return Executed(ScaleState.encrypted(self.params, self.params.num_q))

    def _decrypt(self, a: Cipher) -> tuple[Values, Executed]:
        return np.zeros(self.params.slots), Executed(a.state)

    def _model(self) -> CircuitEvaluator:
        return SymbolicEvaluator(self.params, self.builder)

    def fresh(self, limbs: int, degree: int = 1) -> Cipher:
        """A ciphertext that appears from nowhere, for studies of one circuit."""
        return Cipher(self.builder.ciphertext(limbs), ScaleState(limbs, degree))

    def scaled(self, a: Cipher, factor: float) -> Cipher:
        # The same ciphertext, read at another scale: no operation.
        return a

    def sibling(self, params: CkksParameters) -> SymbolicEvaluator:
        return SymbolicEvaluator(params, self.builder)

    def refresh_numbers(self, a: Cipher, small: int) -> Refresh:
        return Refresh(adjust=0.5, small=small, modulus_ratio=1.0)
