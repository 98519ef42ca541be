"""A refresh that begins with coefficients: the values of a ciphertext of one limb are its coefficients, not its slots.

Raising the modulus and CoeffsToSlots bring them into slots; the sine takes the multiples of q_0 away. Nothing is spent
on SlotsToCoeffs. Values need not be small against q_0: a program that compares them with a threshold needs the sign of
the sine only, so that they may fill a good part of its period.
"""

from __future__ import annotations

import numpy as np

from penstock.program.evaluator.call import Cipher, Monomial
from penstock.program.evaluator.circuit_evaluator import CircuitEvaluator
from penstock.program.evaluator.circuits.openfhe.bootstrapping import BootstrapCircuit, BootstrapSetup
from penstock.program.evaluator.circuits.openfhe.sums import sum_slots
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.protocol import Values


class CoefficientRefresh(BootstrapCircuit):
    """Coefficients of q_0, under the ephemeral secret, to sines of slots at the full chain.

    `setup.slots`: half as many as the coefficients that are used, which are those of X^0, X^c, X^2c …, c = N / 2 slots.
    Slots follow `slot_of_coefficient`.
    """

    def __init__(self, ev: CircuitEvaluator, setup: BootstrapSetup) -> None:
        super().__init__(ev, setup)
        self.last_transform = "cts"

    def sum_slots(self, a: Cipher, count: int, stride: int) -> Cipher:
        """As `sums.sum_slots`, at the circuit's own rescaling."""
        return sum_slots(self.manual, a, count, stride)

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


class ClearCoefficients:
    """The clear reading of such a refresh: of the coefficients of one polynomial, (N,) over q_0, their sines."""

    def __init__(self, ev: ClearEvaluator, setup: BootstrapSetup) -> None:
        self.manual, self.setup = ev, setup
        self._half = ev.params.ring_dim // 2

    def sum_slots(self, a: Values, count: int, stride: int) -> Values:
        """As `CoefficientRefresh.sum_slots`."""
        return sum((np.roll(a, -stride * k) for k in range(1, count)), start=a)

    def sines(self, a: Values, shift: float) -> list[Values]:
        """As `CoefficientRefresh.sines`: vectors of N/2 slots."""
        slots, half = self.setup.slots, self._half
        used = np.sin(2 * np.pi * (a[:: half // slots] - shift)).reshape(2, slots)
        places = [slot_of_coefficient(slots, index)[1] for index in range(slots)]
        made = np.empty((2, slots))
        made[:, places] = used
        return [np.tile(made.reshape(-1), half // (2 * slots))] if slots < half else list(made)


def coefficient_refresh(
    ev: CircuitEvaluator | ClearEvaluator, setup: BootstrapSetup
) -> CoefficientRefresh | ClearCoefficients:
    """The refresh of a reading."""
    return ClearCoefficients(ev, setup) if isinstance(ev, ClearEvaluator) else CoefficientRefresh(ev, setup)


def slot_of_coefficient(slots: int, index: int) -> tuple[int, int]:
    """The half and the slot of a coefficient of the subring, index from 0 to 2 slots - 1: the transforms take
    coefficients in bit-reversed order.

    >>> [slot_of_coefficient(4, index) for index in range(6)]
    [(0, 0), (0, 2), (0, 1), (0, 3), (1, 0), (1, 2)]
    """
    half, index = divmod(index, slots)
    bits = slots.bit_length() - 1
    return half, int(f"{index:0{bits}b}"[::-1], 2) if bits else 0
