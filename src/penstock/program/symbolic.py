"""The `trace` reading: the program without cryptography. Only limbs, operands and keys are followed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.operations import OpKind, rotation_key
from penstock.program.evaluator import Plain, Values
from penstock.program.recording import Cipher, Executed, RecordingEvaluator
from penstock.program.scaling import ScaleState


class SymbolicEvaluator(RecordingEvaluator):
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
        return Executed(ScaleState(self.params.num_q))

    def _decrypt(self, a: Cipher) -> tuple[Values, Executed]:
        return np.zeros(self.params.slots), Executed(a.state)

    def _rotation_key(self, step: int) -> str:
        return rotation_key(step, self.params.ring_dim)

    def fresh(self, limbs: int, degree: int = 1) -> Cipher:
        """A ciphertext that appears from nowhere, for studies of one circuit."""
        return Cipher(self.builder.ciphertext(limbs), ScaleState(limbs, degree))

    # Steps that only circuits of composites take.
    def rotation(self, step: int) -> tuple[int, str]:
        """The one name of a rotation, and its key."""
        normal = self._normal_step(step)
        return normal, self._rotation_key(normal)

    def mod_raise(self, a: Cipher) -> Cipher:
        """The modulus raised to the full chain: the first step of bootstrapping."""
        state = ScaleState(self.params.num_q, 1)
        object_id = self.builder.ciphertext(state.limbs)
        self.builder.add(
            OpKind.MOD_RAISE, limbs_in=a.state.limbs, limbs_out=state.limbs, operands=(a.object_id,), output=object_id
        )
        return Cipher(object_id, state)

    def rescale_limbs(self, a: Cipher, limbs: int) -> Cipher:
        """A level that is `limbs` primes wide: so many rescales at the end of a product, whatever the scaling rule."""
        for i in range(limbs):
            a = self._drop(OpKind.RESCALE, a, a.state.limbs - 1, 1 if i == limbs - 1 else a.state.degree)
        return a

    def lowered(self, a: Cipher, levels: int) -> Cipher:
        """`a` with at most `levels` levels left, by dropping limbs."""
        surplus = self.levels(a) - levels
        return self.mod_drop(a, a.state.limbs - surplus) if surplus > 0 else a

    def mult_by_i(self, a: Cipher) -> Cipher:
        """Every slot times i: a product with a monomial, which leaves the scale."""
        limbs = a.state.limbs
        object_id = self.builder.ciphertext(limbs)
        self.builder.add(OpKind.MULT_SCALAR, limbs_in=limbs, limbs_out=limbs, operands=(a.object_id,), output=object_id)
        return Cipher(object_id, a.state)

    def scaled(self, a: Cipher, factor: float) -> Cipher:
        """Every slot times a number, by reading the same ciphertext at another scale: no operation."""
        return a

    def shared(self, name: str, make: Callable[[], Any]) -> Any:
        """What `make` returns, made once within a trace."""
        shared = self.builder.shared
        if name not in shared:
            shared[name] = make()
        return shared[name]
