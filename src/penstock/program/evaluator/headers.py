"""The headers of a program's results: limbs, degree, scale and slots, without values and without data.

Every reading has the same limbs and degrees. The scale is the real one, which differs from its level's where a
`mod_drop` kept another level's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.program.evaluator.abreast import Circuit
from penstock.program.evaluator.call import Cipher, Composite, Executed, WeightedSum
from penstock.program.evaluator.composites import ExpandingEvaluator
from penstock.program.evaluator.noise import Noisy, Variance
from penstock.program.evaluator.noisy import NoisyEvaluator
from penstock.program.evaluator.protocol import Plain, Values
from penstock.program.evaluator.scaling import ScaleState
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What the header of a decrypted ciphertext states."""

    limbs: int
    degree: int
    scale: float
    slots: int
    flooded_limbs: int
    """Limbs and scale at which noise is added: a product is rescaled first."""
    flooded_scale: float


class HeadersEvaluator(NoisyEvaluator):
    """Follows the header of each ciphertext as penstock's evaluator makes it. `headers` lists the results.

    Raises: ParamsError: the set is not for OpenFHE.
    """

    def __init__(self, params: CkksParameters) -> None:
        super().__init__(params, exact_ratio=True, own_client=True)
        self.headers: list[Header] = []

    def _encrypt(self, values: Values) -> Executed:
        state = ScaleState.encrypted(self.params, self.params.num_q)
        return Executed(state, _of(self.model.scale(state.limbs, state.degree)))

    def _decrypt(self, a: Cipher) -> tuple[Values, Executed]:
        limbs, made = self.before_flooding(a)
        self.headers.append(
            Header(
                limbs=a.state.limbs,
                degree=a.state.degree,
                scale=a.value.scale,
                slots=self.params.slots,
                flooded_limbs=limbs,
                flooded_scale=made.scale,
            )
        )
        return np.zeros(self.params.slots), Executed(a.state)

    def _composite(self, kind: OpKind, name: str, a: Cipher, circuit: Circuit, how: Composite) -> Cipher:
        return ExpandingEvaluator._composite(self, kind, name, a, circuit, how)

    def _with_plain(self, kind: OpKind, a: Cipher, plain: Plain, predicted: ScaleState) -> Noisy:
        made: Noisy = a.value
        if kind is not OpKind.MULT_PLAIN:
            return made
        made = self._rescaled(made, a.state.limbs) if predicted.limbs < a.state.limbs else made
        return _of(self.model.plain_product(predicted.limbs, made.scale))

    def _weighted(self, operands: Sequence[Cipher], how: WeightedSum, predicted: ScaleState) -> Noisy:
        return _of(operands[0].value.scale * self.model.scale(predicted.limbs))

    def _divided(self, made: Noisy) -> Noisy:
        return made

    def _raised(self, made: Noisy, limbs: int) -> Noisy:
        return _of(self.model.scale(limbs) if self.model.flexible else made.scale)

    def _white(self, variance: float, made: Noisy) -> float:
        return 0.0

    def _normal(self, slots: int, variance: Variance) -> Values:
        return np.zeros(slots, dtype=np.complex128)


def _of(scale: float) -> Noisy:
    """A ciphertext of that scale; its one value stands for all."""
    return Noisy(np.zeros(1, dtype=np.complex128), scale)
