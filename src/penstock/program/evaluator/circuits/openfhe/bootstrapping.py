"""OpenFHE's EvalBootstrap as a circuit: the same rotations, key switches, products and levels, step for step.

Source: OpenFHE 1.5.1, `ckksrns-fhe.cpp` (EvalBootstrap, EvalCoeffsToSlots, EvalSlotsToCoeffs, EvalLinearTransform) and
`ckksrns-utils.cpp` (GetCollapsedFFTParams). 1.6.1 differs: it rotates each transform back once at its end, takes giant
steps by Horner's rule, sums by radix 4, and its sine has a higher degree. Checked against 1.6.1 in 13 shapes: products,
key switches, decompositions, ModDowns and rescales counted by debugger, and the order of the steps over Q and P read
off it; the rotations are exactly the keys of EvalBootstrapKeyGen.

The circuit computes, in the reading that has ciphertexts: diagonals and series are ours, to the same effect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from penstock.errors import ParamsError
from penstock.program.evaluator.call import Cipher, Monomial, Refresh, Whole
from penstock.program.evaluator.circuit_evaluator import CircuitEvaluator
from penstock.program.evaluator.circuits.openfhe.extended import Extended
from penstock.program.evaluator.circuits.openfhe.series import evaluate_series
from penstock.program.evaluator.circuits.openfhe.stages import (
    FEW_KEYS,
    LibraryStage,
    dense_stage,
    few_key_stages,
    most_stages,
    transform_stages,
    turned_back,
)
from penstock.program.evaluator.circuits.openfhe.sums import sum_slots
from penstock.program.evaluator.protocol import Plain, chebyshev_coefficients
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.params.secrets import (
    SPARSE_ENCAPSULATED,
    SPARSE_TERNARY,
    SPARSE_WEIGHT,
    UNIFORM_ENCAPSULATED,
    UNIFORM_TERNARY,
    is_encapsulated,
    main_weight,
)


@dataclass(frozen=True, slots=True)
class Sine:
    """The series of EvalMod: cos(2 pi (K x - 1/4) / 2^r)."""

    chebyshev_degree: int
    double_angles: int
    """r"""
    sine_range: int
    """K: the multiples of q_0 that raising the modulus adds lie within -K and K."""


# The degrees of 1.6.1 (1.5.1 has 44 and 88): the only ones that give the products and rescales that were counted.
_SINES = {
    SPARSE_TERNARY: Sine(chebyshev_degree=48, double_angles=3, sine_range=28),
    UNIFORM_TERNARY: Sine(chebyshev_degree=104, double_angles=6, sine_range=512),
    SPARSE_ENCAPSULATED: Sine(chebyshev_degree=36, double_angles=3, sine_range=16),
    UNIFORM_ENCAPSULATED: Sine(chebyshev_degree=36, double_angles=3, sine_range=16),
}


_BEST_AT_SCALE_BITS = 59
"""The scale at which the library's correction factor is near the best, with a sparse secret."""


@dataclass(frozen=True, slots=True)
class BootstrapSetup:
    """The arguments of EvalBootstrapSetup for one number of slots."""

    slots: int
    level_budget: tuple[int, int] = (5, 4)
    baby_steps: tuple[int, int] = (0, 0)
    few_keys: bool = False
    """Steps that need few keys instead of the library's, to the same effect."""
    slots_last: bool = False
    """SlotsToCoeffs at few limbs before the modulus is raised, for real values. With few keys only."""


def can_expand(params: CkksParameters) -> bool:
    """Whether the circuit is known for these parameters."""
    return params.secret in _SINES and params.num_p > 0


def sine_of(params: CkksParameters) -> Sine:
    """The sine of a refresh at these parameters: the library's, by the secret; with few keys, the plan's own."""
    plan = params.bootstrap
    if plan is not None and plan.rotations == FEW_KEYS:
        return Sine(plan.chebyshev_degree, plan.double_angles, plan.sine_range)
    return _SINES[params.secret]


def bootstrap(ev: CircuitEvaluator, a: Cipher, setup: BootstrapSetup) -> Cipher:
    """One iteration of EvalBootstrap. `ev` follows the context's own scaling rule."""
    return BootstrapCircuit(ev, setup).run(a)


class BootstrapCircuit:
    """The steps of one bootstrapping, which other circuits take in another order."""

    last_transform: str
    """`cts` or `stc`: the one after which the values are turned back, where keys are few."""

    def __init__(self, ev: CircuitEvaluator, setup: BootstrapSetup) -> None:
        self.ev, self.setup = ev, setup
        self.params = ev.params
        # The library rescales inside by its own decision, whatever the rule.
        self.manual = ev.sibling(replace(ev.params, scaling=Scaling.FIXED_MANUAL))
        self.wide = Extended(self.manual)
        self.sine = sine_of(ev.params)
        self.automatic = ev.params.scaling.automatic
        self.last_transform = "cts" if setup.slots_last else "stc"
        self.halves = setup.slots < ev.params.ring_dim // 2 and not setup.slots_last
        """Whether real and imaginary parts lie one behind the other in 2n slots."""

    def run(self, a: Cipher) -> Cipher:
        return self._from_slots(a) if self.setup.slots_last else self._to_slots(a)

    def _in_subring(self, a: Cipher) -> tuple[Cipher, Refresh]:
        """On the full chain, in the subring of the values' period, and small against the sine's range."""
        ev, manual, slots = self.ev, self.manual, self.setup.slots
        with ev.scope("mod_raise"):
            a = self.reduced(a)
            numbers = ev.refresh_numbers(a, self._small())
            a = manual.rescale(manual.mult(a, numbers.adjust))
            a = self.raised(a)
            copies = self.params.ring_dim // 2 // slots
            a = manual.mult(a, 1 / (copies * self.sine.sine_range))
            return manual.rescale(sum_slots(manual, a, copies, slots)), numbers

    def _from_slots(self, a: Cipher) -> Cipher:
        """SlotsToCoeffs, CoeffsToSlots and one sine of the real part: for real values.

        Their coefficients are the values and zeros, so no part of them is in the imaginary half.
        """
        ev, manual = self.ev, self.manual
        encode, decode = self.transforms()
        with ev.scope("stc"):
            a = self.reduced(a)
            a = manual.mod_drop(a, min(a.state.limbs, len(decode) + 2))
            a, lead = self.transform(a, decode, "stc", 1.0)
        a, numbers = self._in_subring(a)
        with ev.scope("cts"):
            a, _ = self.transform(a, encode, "cts", 0.5 / numbers.modulus_ratio, lead)
        with ev.scope("eval_mod"):
            a = self.reduced(manual.add(a, manual.conjugate(a)))
            a = ev.one_by_one(partial(self.sine_of, factor=numbers.modulus_ratio / (2 * math.pi)), a)
            return manual.elementwise(a, Whole(numbers.small))

    def _to_slots(self, a: Cipher) -> Cipher:
        """CoeffsToSlots, the sine of both halves of the coefficients, SlotsToCoeffs."""
        ev, manual, slots = self.ev, self.manual, self.setup.slots
        half = self.params.ring_dim // 2
        a, numbers = self._in_subring(a)
        encode, decode = self.transforms()
        with ev.scope("cts"):
            # The sum with the conjugate is twice the real part.
            a, lead = self.transform(a, encode, "cts", 0.5 / numbers.modulus_ratio)
        with ev.scope("eval_mod"):
            conjugated = manual.conjugate(a)
            if slots == half:
                imaginary = manual.elementwise(manual.sub(a, conjugated), Monomial(3 * half))
                parts = [manual.add(a, conjugated), imaginary]
            else:
                parts = [manual.add(a, conjugated)]
            # The sine has one key: it runs for one ciphertext after the other, which takes less memory.
            parts = [ev.one_by_one(self.sine_of, self.reduced(part)) for part in parts]
            a = parts[0] if len(parts) == 1 else manual.add(parts[0], manual.elementwise(parts[1], Monomial(half)))
            a = manual.elementwise(a, Whole(1))
            a = self.reduced(a) if self.automatic else a
        with ev.scope("stc"):
            a, _ = self.transform(a, decode, "stc", numbers.modulus_ratio / (2 * math.pi), lead)
            if self.halves:
                a = manual.add(a, manual.rotate(a, slots))
            return manual.elementwise(a, Whole(numbers.small))

    def raised(self, a: Cipher) -> Cipher:
        """The modulus raised, under an ephemeral secret where the secret is encapsulated: it adds fewer multiples."""
        if not is_encapsulated(self.params.secret):
            return self.manual.raised(a, self._limbs())
        return self.raised_sparse(self.manual.to_sparse(self.manual.mod_drop(a, 1)))

    def raised_sparse(self, a: Cipher) -> Cipher:
        """The same for one limb that is under the ephemeral secret already."""
        return self.manual.to_dense(self.manual.raised(a, self._limbs()))

    def _limbs(self) -> int:
        # Without the extra limb that FLEXIBLEAUTOEXT keeps for fresh ciphertexts.
        return self.params.num_q - (self.params.scaling is Scaling.FLEXIBLE_AUTO_EXT)

    def _small(self) -> int:
        """The factor that shrinks values to the linear part of the sine: a power of two.

        The library's correction factor, less what q_0 is wider than the scale. Source: EvalBootstrapSetup; the powers
        were read off the bend of the sine of 1.6.1 in 8 shapes.
        """
        size = 2 * math.log2(self.params.ring_dim) + math.log2(self.setup.slots)
        if self.params.scaling in (Scaling.FLEXIBLE_AUTO, Scaling.FLEXIBLE_AUTO_EXT):
            bits = min(max(round(19.081 - 0.2419 * size), 7), 14)
        else:
            bits = min(max(round(14.284 - 0.1516 * size), 6), 13)
        wider = self.params.q_bits[0] - self.params.scale_bits
        if wider > bits:
            raise ParamsError(
                f"bootstrapping: OpenFHE takes a first prime up to {bits} bits wider than the scale at these "
                f"parameters, and that of set '{self.params.name}' is {wider} bits wider: raise scale_bits, or "
                "lower first_mod_bits"
            )
        return 1 << max(0, bits - wider + self._smaller() + self._larger())

    def _larger(self) -> int:
        """Bits by which values are larger where SlotsToCoeffs comes first, as a number up to 0.

        The library's factor is near the best at a scale of 59 bits with a sparse secret. The noise grows with the
        factor, and the bend of the sine falls with its square: where the noise is n bits more, the best factor is n/3
        bits less. Noise follows the scale and the root of the secret's weight. Found again in the `noisy` reading.
        Where SlotsToCoeffs comes last, coefficients are sums over all slots, and how large they are depends on the
        values: there the library's factor stays.
        """
        flexible = self.params.scaling in (Scaling.FLEXIBLE_AUTO, Scaling.FLEXIBLE_AUTO_EXT)
        if not (self.setup.slots_last and flexible):
            return 0
        weight = main_weight(self.params.secret) or 2 * self.params.ring_dim / 3
        quieter = self.params.scale_bits - _BEST_AT_SCALE_BITS - math.log2(weight / SPARSE_WEIGHT) / 2
        return min(0, round(quieter / 3))

    def _smaller(self) -> int:
        """Bits by which values are smaller still where SlotsToCoeffs comes first.

        Coefficients are then the values themselves, and not sums of many, and the sine's error is not summed up by a
        transform behind it: both by about the root of the slots. The best powers were found in the `noisy` reading.
        Under `fixed-manual` the drift of the scales grows with them, and is larger than the bend.
        """
        if not self.setup.slots_last or self.params.scaling is Scaling.FIXED_MANUAL:
            return 0
        return int(math.log2(self.setup.slots)) // 2

    def transforms(self) -> tuple[list[LibraryStage], list[LibraryStage]]:
        setup = self.setup
        # The library cuts a budget to the layers that there are before it chooses between one matrix and stages.
        if max(most_stages(setup.slots, budget) for budget in setup.level_budget) == 1:
            dense = dense_stage(setup.slots, setup.baby_steps[0])
            return [dense], [dense]
        (cts, stc), (baby_cts, baby_stc) = setup.level_budget, setup.baby_steps
        if setup.few_keys:
            encode = few_key_stages(setup.slots, cts, baby_cts, decode=False, halves=self.halves)
            decode = few_key_stages(setup.slots, stc, baby_stc, decode=True, halves=self.halves)
            return encode, turned_back(decode, sum(stage.offset * stage.scale for stage in encode))
        return (
            transform_stages(setup.slots, cts, baby_cts, decode=False),
            transform_stages(setup.slots, stc, baby_stc, decode=True),
        )

    def reduced(self, a: Cipher) -> Cipher:
        """Rescaled until it is not a product any more."""
        while a.state.degree > 1:
            a = self.manual.rescale(a)
        return a

    def transform(
        self, a: Cipher, transform: Sequence[LibraryStage], name: str, factor: float, lead: int = 0
    ) -> tuple[Cipher, int]:
        """The stages of one direction, each with its part of `factor`, of an operand rotated by `lead`, and how far
        the result is. The library turns it back after each direction, few keys only at the end."""
        is_end = not self.setup.few_keys or name == self.last_transform
        part = factor ** (1 / len(transform))
        for index, stage in enumerate(transform):
            lead += stage.offset * stage.scale
            plains = self._plains(stage, f"{name}{index}", name == "stc", index, len(transform), part, lead)
            a = self._apply(a if index == 0 else self.reduced(a), stage, plains)
            if index == len(transform) - 1 and is_end:
                # Real halves behind one another have twice the period.
                twice = not self.setup.few_keys or (self.halves and name == "cts")
                a, lead = self.wide.rotate(a, -lead % (self.setup.slots * (1 + twice))), 0
            a = self.wide.divided(a)
        return a, lead

    def _plains(
        self, stage: LibraryStage, name: str, decode: bool, index: int, count: int, factor: float, lead: int
    ) -> dict[int, Plain]:
        """The diagonals of a stage, rotated for their giant step and for the rotation that the stages leave.

        With one matrix of all layers (both budgets 1), no diagonal lies left of the first.
        """
        slots, few = self.setup.slots, self.setup.few_keys
        halves = self.halves and index == (0 if decode else count - 1)

        def values(k: int) -> npt.NDArray[np.complex128]:
            diagonal = stage.diagonal(k, slots, decode=decode, halves=halves) * factor
            turned = np.roll(diagonal, k // stage.baby * stage.baby * stage.scale - lead)
            # Fewer slots are fewer coefficients to evaluate.
            return turned if halves else turned[: stage.period(slots)]

        def made() -> dict[int, Plain]:
            steps = (k for k in range(stage.diagonals) if stage.has(k) or not few)
            return {k: Plain(partial(values, k), f"{name}[{k}]") for k in steps}

        return self.ev.shared(f"bootstrap/{slots}/{name}", made)

    def _apply(self, a: Cipher, stage: LibraryStage, plains: dict[int, Plain]) -> Cipher:
        """One stage, over Q and P up to its end. The giant steps by Horner's rule: one key serves them all."""
        wide = self.wide
        steps = [j * stage.scale for j in range(1, stage.baby)]
        rotated = [wide.extend(a), *wide.rotated(a, steps)]
        total: Cipher | None = None
        for giant in reversed(range(-(-stage.diagonals // stage.baby))):
            if total is not None:
                total = wide.rotate(total, stage.baby * stage.scale)
            pairs = [(term, plains.get(giant * stage.baby + j)) for j, term in enumerate(rotated)]
            total = wide.weighted([(term, plain) for term, plain in pairs if plain is not None], total)
        assert total is not None
        return total

    def sine_of(self, a: Cipher, factor: float = 1.0, shift: float = 0.0) -> Cipher:
        """`factor` sin(2 pi (K x - shift)) of slots x in [-1, 1]: a cosine a quarter turn later, by its series and
        double angles.

        A factor s takes no level: s (2 c^2 - 1) is (sqrt(2 s) c)^2 - s, so that the series has the factor of its step.
        """
        ev, sine = self.ev, self.sine
        factors = [factor]
        for _ in range(sine.double_angles if factor != 1.0 else 0):
            factors.append(math.sqrt(2 * factors[-1]))
        a = evaluate_series(ev, a, [factors[-1] * coefficient for coefficient in sine_series(sine, shift)], (-1.0, 1.0))
        if self.automatic:
            a = self.reduced(a)
        for step in reversed(range(sine.double_angles)):
            a = ev.square(a)
            a = ev.rescale(ev.add(a, ev.add(a, -1.0)) if factor == 1.0 else ev.add(a, -factors[step]))
        return a


@lru_cache(maxsize=8)
def sine_series(sine: Sine, shift: float = 0.0) -> list[float]:
    """Chebyshev coefficients, (degree + 1,), of the sine `shift` periods later; c_0 counts half."""
    scale = 2 * np.pi / 2**sine.double_angles
    return chebyshev_coefficients(
        lambda x: np.cos(scale * (sine.sine_range * x - 0.25 - shift)), -1.0, 1.0, sine.chebyshev_degree
    )
