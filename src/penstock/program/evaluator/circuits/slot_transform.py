"""The transforms of bootstrapping between coefficients and slots, in stages, as diagonals and as rotations.

`n` slots are the values z_j = m(zeta^(5^j)) of a polynomial with real coefficients m_0 … m_(2n-1): z = U w with
w_k = m_k + i m_(k+n). U without the bit reversal is log2 n layers of butterflies; some layers in one stage are one
matrix with few diagonals. Vectors stay in bit-reversed order between the two directions, since what happens there is
slot by slot.

A stage takes baby steps and giant steps. Diagonals on both sides of the middle one would need rotations to both sides.
Instead the result stays rotated, and the next stage rotates its plaintexts to match, which costs nothing. Source: Chen,
Chillotti, Song, EUROCRYPT 2019 (ePrint 2018/1043), for the stages; Kim et al., "ARK", MICRO 2022 (arXiv 2205.00922),
for the minimum of keys; Cheddar (github.com/scale-snu/cheddar-fhe, EvalSpecialFFT and Hoist), for the order and the
split.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from penstock.base.arrays import Complexes
from penstock.program.evaluator.circuits.chebyshev import rescale_level
from penstock.program.evaluator.protocol import Ciphertext, InnerEvaluator, Plain


@dataclass(frozen=True, slots=True)
class Stage:
    """Layers of butterflies as one matrix: diagonals `stride` slots apart."""

    slots: int
    """n: period of the vectors."""
    first: int
    """Layer of the smallest stride, 2^first."""
    layers: int
    decode: bool
    """SlotsToCoeffs (U), not CoeffsToSlots (its inverse)."""
    halves: bool = False
    """The side of the two real halves of w, one behind the other in 2n slots. Encoding gives (w, -i w); decoding takes
    (u, v), and (u + i v) is the sum of the two halves of its result."""
    factor: float = 1.0
    """The factor on the matrix."""
    lead: int = 0
    """Rotation of the operand, in slots to the left."""
    shift: int = 0
    """Rotation of the result."""

    @property
    def stride(self) -> int:
        """Distance of the diagonals in slots."""
        return 1 << self.first

    @property
    def radix(self) -> int:
        """Slots that meet in the stage."""
        return 1 << self.layers

    @property
    def wraps(self) -> bool:
        """Whether the stage has the widest layer, whose two sides coincide modulo n."""
        return self.stride * self.radix == self.slots and not self.halves

    @property
    def lowest(self) -> int:
        """Number of the first diagonal, in strides."""
        return 0 if self.wraps else 1 - self.radix

    @property
    def diagonals(self) -> int:
        """The number of stages.

        >>> Stage(2**15, 10, 5, False).diagonals, Stage(2**15, 5, 5, False).diagonals
        (32, 63)
        """
        return self.radix if self.wraps else 2 * self.radix - 1

    @property
    def baby(self) -> int:
        """Baby steps.

        >>> Stage(2**15, 10, 5, False).baby, Stage(2**15, 5, 5, False).baby, Stage(2**8, 0, 2, False).baby
        (8, 8, 4)
        """
        count = self.diagonals
        return count if count <= 4 else 1 << ((count - 1).bit_length() + 1) // 2

    @property
    def upward(self) -> bool:
        """Whether it rotates to the left only (encoding) or to the right only (decoding)."""
        return not self.decode or self.wraps


def layers_of(slots: int, stages: int, *, decode: bool) -> list[int]:
    """Layers of each stage in the order in which they run; the longest come first where encoding starts.

    >>> layers_of(2**15, 3, decode=False), layers_of(2**14, 3, decode=False), layers_of(2**14, 3, decode=True)
    ([5, 5, 5], [5, 4, 5], [4, 5, 5])
    """
    left = slots.bit_length() - 1
    stages = max(1, min(stages, left))
    made: list[int] = []
    for index in range(stages):
        ahead = stages - index
        made.append(-(-left // ahead) if index == 0 and not decode else left // ahead)
        left -= made[-1]
    return made


def stages_of(slots: int, stages: int, *, decode: bool, halves: bool, factor: float, lead: int = 0) -> list[Stage]:
    """CoeffsToSlots, the widest layers first, or SlotsToCoeffs (`decode`), the widest last, of a vector rotated by
    `lead`.

    Each stage takes its operand as the one before leaves it, and an equal part of `factor`.
    """
    layers = layers_of(slots, stages, decode=decode)
    made: list[Stage] = []
    for index, count in enumerate(layers):
        first = sum(layers[:index] if decode else layers[index + 1 :])
        # Real halves lie where the layers are narrowest.
        stage = Stage(slots, first, count, decode, halves and first == 0, factor ** (1 / len(layers)))
        # The lowest diagonal becomes the first step to the left, or the highest the first step to the right.
        moved = -stage.lowest * stage.stride if stage.upward else stage.lowest * stage.stride
        made.append(replace(stage, lead=lead, shift=lead + moved))
        lead = made[-1].shift
    return made


def apply_stage(
    ev: InnerEvaluator, a: Ciphertext, stage: Stage, name: str, *, min_ks: bool, level_limbs: int
) -> Ciphertext:
    """One stage and its rescale. `min_ks`: two keys, by turning again and again; else hoisted baby steps."""
    plains = _plains(ev, stage, name)
    baby, count, step = stage.baby, stage.diagonals, stage.stride if stage.upward else -stage.stride
    if min_ks:
        turned = [a]
        for _ in range(1, baby):
            turned.append(ev.rotate(turned[-1], step))
    else:
        turned = ev.rotate_many(a, [j * step for j in range(baby)])
    total = None
    for giant in reversed(range(0, count, baby)):
        inner = ev.weighted_sum(turned[: count - giant], plains[giant : min(giant + baby, count)])
        if min_ks:
            # By Horner's rule one key serves all giant steps.
            total = inner if total is None else ev.add(ev.rotate(total, baby * step), inner)
        else:
            inner = ev.rotate(inner, giant * step)
            total = inner if total is None else ev.add(total, inner)
    return rescale_level(ev, total, level_limbs)


def _plains(ev: InnerEvaluator, stage: Stage, name: str) -> list[Plain]:
    """The diagonals in the order of their steps, as plaintexts that are made when they are asked for."""

    def made() -> list[Plain]:
        return [
            Plain.of(partial(_plain_values, stage, index, ev.params.slots), ev.params.slots, f"{name}[{index}]")
            for index in range(stage.diagonals)
        ]

    return ev.shared(f"bootstrap/{stage.slots}/{name}", made)


def _plain_values(stage: Stage, index: int, length: int) -> Complexes:
    """Diagonal of step `index`, rotated for its giant step and for the rotation that the stage leaves, (length,)."""
    number = stage.lowest + index if stage.upward else stage.lowest + stage.diagonals - 1 - index
    diagonal = diagonals_of_stage(replace(stage, lead=0, shift=0))[number]
    giant = index // stage.baby * stage.baby * (stage.stride if stage.upward else -stage.stride)
    # `shift` rotates the result to the left; the giant step comes after the product.
    turned = np.roll(np.tile(diagonal, length // len(diagonal)), giant - stage.shift)
    return np.asarray(turned, dtype=np.complex128)


@lru_cache(maxsize=4)
def diagonals_of_stage(stage: Stage) -> dict[int, Complexes]:
    """Number of each diagonal, in strides -> its values, (n,) or (2n,) where the stage is at the halves."""
    whole: dict[int, Complexes] = {0: np.ones(stage.slots, dtype=np.complex128)}
    for layer in range(stage.first, stage.first + stage.layers):
        butterflies = _butterflies(stage.slots, layer, decode=stage.decode)
        # Decoding runs through the layers upwards, encoding downwards.
        whole = _product(butterflies, whole) if stage.decode else _product(whole, butterflies)
    diagonals: dict[int, Complexes] = {}
    for offset, values in whole.items():
        number = offset // stage.stride
        number = number % stage.radix if stage.wraps else number
        diagonals[number] = diagonals.get(number, 0) + values * stage.factor
    if stage.halves:
        unit = 1j if stage.decode else -1j
        diagonals = {number: np.concatenate([values, unit * values]) for number, values in diagonals.items()}
    return diagonals


def _butterflies(slots: int, layer: int, *, decode: bool) -> dict[int, Complexes]:
    """One layer: (x, y) -> (x + t y, x - t y), or its inverse, `stride` slots apart."""
    stride = 1 << layer
    powers = np.asarray([pow(5, j, 8 * stride) for j in range(stride)])
    twiddle = np.exp(2j * np.pi * powers / (8 * stride))
    one, none, repeat = np.ones(stride), np.zeros(stride), slots // (2 * stride)
    back = twiddle.conj() / 2
    middle, right, left = (
        ((one, -twiddle), (twiddle, none), (none, one)) if decode else ((one / 2, -back), (one / 2, none), (none, back))
    )
    return {
        offset: np.tile(np.concatenate(halves), repeat).astype(np.complex128)
        for offset, halves in ((0, middle), (stride, right), (-stride, left))
    }


def _product(left: dict[int, Complexes], right: dict[int, Complexes]) -> dict[int, Complexes]:
    """The diagonals of a product of two matrices."""
    made: dict[int, Complexes] = {}
    for a, first in left.items():
        for b, second in right.items():
            term = first * np.roll(second, -a)
            made[a + b] = made[a + b] + term if a + b in made else term
    return made
