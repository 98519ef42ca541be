"""The stages of the slot transforms of OpenFHE's bootstrapping: which diagonals each has, by which steps.

Two ways: OpenFHE's own, and one of few keys. Layers of butterflies in one stage are one matrix (`slot_transform`);
a stage applies it by baby steps, which share one decomposition and have a key each, and giant steps by Horner's rule,
which share one key and have a decomposition each.

Few keys, for keys that come from a disk: a key of N = 2^16 and 27 limbs takes longer to read than a decomposition to
compute. So there are few baby steps and many giant ones, the longest stages lie on the wide side, whose two halves
coincide modulo the slots, and the strides of both directions are alike, so that both need the same keys. Each direction
leaves its vector turned by the widest stride, which the last stage takes back by where its diagonals begin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from penstock.program.evaluator.circuits import slot_transform

FEW_KEYS = "few-keys"
"""The `rotations` of a plan whose stages are `few_key_stages`."""


_LEAST_PERIOD = 32
"""Slots of the shortest vectors that the evaluator encodes by its fast kernels."""


@dataclass(frozen=True, slots=True)
class LibraryStage:
    """One level of a slot transform: diagonals `scale` slots apart, by baby steps (hoisted) and giant steps."""

    scale: int
    baby: int
    diagonals: int
    """Steps to the left, from 0 on; some may have no diagonal."""
    offset: int = 0
    """The step of the middle diagonal: the result stays rotated by this many slots."""
    layers: int = 0
    """Layers of butterflies; 0: all of them, with the steps of a whole matrix."""
    wraps: bool = False
    """Whether diagonals that are all slots apart are one."""

    def has(self, k: int) -> bool:
        """Whether step k has a diagonal. OpenFHE multiplies by vectors of zeros where the widest layers have none."""
        return self.wraps or not self.layers or abs(k - self.offset) < 1 << self.layers

    def period(self, slots: int) -> int:
        """After how many slots the diagonals repeat, on the side without real halves: the butterflies of a block are
        those of every block."""
        return min(slots, max(_LEAST_PERIOD, self.scale << self.layers)) if self.layers else slots

    def diagonal(self, k: int, slots: int, *, decode: bool, halves: bool) -> npt.NDArray[np.complex128]:
        """Of step k, (slots,), or (2 slots,) on the side of the real halves."""
        length = slots * (1 + halves)
        if self.layers:
            matrix = slot_transform.Stage(slots, self.scale.bit_length() - 1, self.layers, decode, halves)
            number = k - self.offset
            # The widest layer's two sides coincide modulo `slots`; each is taken once.
            values = slot_transform.diagonals_of_stage(matrix).get(number % matrix.radix if self.wraps else number)
            return np.zeros(length, dtype=np.complex128) if values is None else values
        whole = slot_transform.Stage(slots, 0, slots.bit_length() - 1, decode)
        values = slot_transform.diagonals_of_stage(whole)[k]
        if not halves:
            return values
        at = np.arange(2 * slots)
        if decode:  # the second half of the operand is the imaginary one
            return np.tile(values, 2) * np.where((at + k) % (2 * slots) < slots, 1, 1j)
        return np.tile(values, 2) * np.where(at < slots, 1, -1j)


def _log_slots(slots: int) -> int:
    return 1 if slots < 3 else slots.bit_length() - 1


def most_stages(slots: int, budget: int) -> int:
    """The stages of a transform: no more than it has layers."""
    return max(1, min(budget, _log_slots(slots)))


def split_layers(log_slots: int, budget: int) -> tuple[int, int]:
    """Layers of OpenFHE's transform in each stage, and in the remaining one.

    >>> split_layers(9, 3), split_layers(15, 4), split_layers(10, 4)
    ((3, 0), (4, 3), (3, 1))
    """
    layers = -(-log_slots // budget)
    rows, rest = divmod(log_slots, layers)
    if rows + (rest != 0) < budget:
        layers -= 1
        rows = log_slots // layers
        rest = log_slots - rows * layers
        while rows + (rest != 0) > budget:
            rows -= 1
            rest = log_slots - rows * layers
    return layers, rest


def transform_stages(slots: int, budget: int, baby_steps: int, *, decode: bool) -> list[LibraryStage]:
    """OpenFHE's stages of SlotsToCoeffs (`decode`) or CoeffsToSlots, in the order in which they run."""
    log_slots = _log_slots(slots)
    budget = most_stages(slots, budget)
    layers, rest = split_layers(log_slots, budget)
    full = budget - (rest != 0)
    if decode:
        made = [_stage(layers, 1 << (index * layers), baby_steps) for index in range(full)]
        return [*made, _stage(rest, 1 << (full * layers), 0)] if rest else made
    made = [_stage(layers, 1 << (index * layers + rest), baby_steps) for index in reversed(range(full))]
    return [*made, _stage(rest, 1, 0)] if rest else made


def _stage(layers: int, scale: int, baby_steps: int) -> LibraryStage:
    rotations = (1 << (layers + 1)) - 1
    return LibraryStage(scale, _baby_steps(layers, baby_steps), rotations, (rotations + 1) // 2 - 1, layers)


def _baby_steps(layers: int, asked: int) -> int:
    rotations = (1 << (layers + 1)) - 1
    return asked if 0 < asked <= rotations else 1 << (layers // 2 + 1 + (rotations > 7))


def dense_stage(slots: int, baby_steps: int) -> LibraryStage:
    """The whole transform as one matrix, where both budgets are 1."""
    return LibraryStage(1, _baby_steps(_log_slots(slots), baby_steps), slots)


def few_key_stages(slots: int, budget: int, baby_steps: int = 0, *, decode: bool, halves: bool) -> list[LibraryStage]:
    """The stages of few keys, in the order in which they run. `halves`: on one side lie real halves in 2n slots.
    `baby_steps`: other than about the root of the diagonals.

    >>> [(s.scale, s.baby, s.diagonals) for s in few_key_stages(2**14, 4, decode=False, halves=True)]
    [(1024, 4, 16), (64, 4, 32), (8, 4, 16), (1, 4, 16)]
    """
    log_slots = _log_slots(slots)
    budget = most_stages(slots, budget)
    made: list[LibraryStage] = []
    first = 0
    for index in range(budget):
        layers = log_slots // budget + (index >= budget - log_slots % budget)
        radix, wraps = 1 << layers, index == budget - 1 and not (halves and budget == 1)
        # One step more than there are diagonals brings the sum of all offsets to the widest stride.
        count, offset = (radix, 0) if wraps else (2 * radix, radix - (index > 0))
        baby = min(baby_steps, count) or 1 << (count.bit_length() - 1) // 2
        made.append(LibraryStage(1 << first, baby, count, offset, layers, wraps))
        first += layers
    return made if decode else made[::-1]


def turned_back(stages: list[LibraryStage], lead: int) -> list[LibraryStage]:
    """Stages whose last one, if it wraps, undoes `lead` as far as it can: the rotation of its operand at the start of
    the first stage."""
    last = stages[-1]
    if not last.wraps:
        return stages
    lead += sum(stage.offset * stage.scale for stage in stages[:-1])
    return [*stages[:-1], replace(last, offset=-(lead // last.scale))]
