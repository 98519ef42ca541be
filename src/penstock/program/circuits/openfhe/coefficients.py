"""A refresh that begins with coefficients: the values of a ciphertext of one limb are its coefficients, not its slots.

Raising the modulus and CoeffsToSlots bring them into slots; the sine takes the multiples of q_0 away. Nothing is spent
on SlotsToCoeffs. Values need not be small against q_0: a program that compares them with a threshold needs the sign of
the sine only, so that they may fill a good part of its period.
"""

from __future__ import annotations

from penstock.program.call import Cipher, Monomial
from penstock.program.circuit_evaluator import CircuitEvaluator
from penstock.program.circuits.openfhe.bootstrapping import BootstrapCircuit, BootstrapSetup
from penstock.program.circuits.openfhe.sums import sum_slots


class CoefficientRefresh(BootstrapCircuit):
    """Coefficients of q_0, under the ephemeral secret, to sines of slots at the full chain.

    `setup.slots`: half as many as the coefficients that are used, which are those of X^0, X^c, X^2c …, c = N / 2 slots.
    Slots follow `slot_of_coefficient`.
    """

    def __init__(self, ev: CircuitEvaluator, setup: BootstrapSetup) -> None:
        super().__init__(ev, setup)
        self.last_transform = "cts"

    def sines(self, a: Cipher, shift: float) -> list[Cipher]:
        """sin(2 pi (m / q_0 - shift)) of coefficients m: one ciphertext of both halves behind one another in 2n slots,
        or two where n = N / 2."""
        manual = self.manual
        half = self.params.ring_dim // 2
        copies = half // self.setup.slots
        encode, _ = self.transforms()
        with self.ev.scope("mod_raise"):
            # Slots are coefficients over the scale of the full chain.
            ratio = self.ev.refresh_numbers(a, 1).modulus_ratio
            a = sum_slots(manual, self.raised_sparse(a), copies, self.setup.slots)
        with self.ev.scope("cts"):
            # The sum with the conjugate is twice the real part, the sum over the copies so many times the values.
            a, _ = self.transform(a, encode, "cts", 0.5 / (ratio * copies * self.sine.sine_range))
        with self.ev.scope("eval_mod"):
            conjugated = manual.conjugate(a)
            parts = [manual.add(a, conjugated)]
            if not self.halves:
                parts.append(manual.elementwise(manual.sub(a, conjugated), Monomial(3 * half)))
            return [self.sine_of(self.reduced(part), shift=shift) for part in parts]


def slot_of_coefficient(slots: int, index: int) -> tuple[int, int]:
    """The half and the slot of a coefficient of the subring, index from 0 to 2 slots - 1: the transforms take
    coefficients in bit-reversed order.

    >>> [slot_of_coefficient(4, index) for index in range(6)]
    [(0, 0), (0, 2), (0, 1), (0, 3), (1, 0), (1, 2)]
    """
    half, index = divmod(index, slots)
    bits = slots.bit_length() - 1
    return half, int(f"{index:0{bits}b}"[::-1], 2) if bits else 0
