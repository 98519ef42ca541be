"""Sorting of encrypted values by a k-way merging network: fewer comparisons in sequence than the bitonic one.

Hong et al., IEEE TIFS 2021 (ePrint 2021/551) sort encrypted values with networks of k-sorters, k a prime: log_k(n)
merges instead of log_2(n), each of k sorted runs. This is the case of k = 3 and 5, on n = k^m values in
m + m (m - 1)/2 * (k + 1)/2 steps; `penstock.program.workloads.sorting` is the case of two.

**Network** (`penstock.program.workloads.parts.sorting_network`): each step sorts groups of k values that lie equally
far apart.

**k-sorter.** One sign tells every value from the values 1 to (k - 1)/2 places behind it in its group (cyclically), and
with it from the others. The differences to each place behind lie in another copy of the values, so that one ciphertext
holds all of them: the depth of one comparison, and its cost. The count of larger values in a group is a value's place;
products of comparisons tell where that number is 0, 1, …, and choose the value for each place. The middle place gets
the remainder of the others, so that the sum of a group is kept. Values that are too close to be told apart in pairs
come out mixed, by no more than they differ. Three or more that close to each other are counted wrongly and lose a part
of themselves (of three equal ones each end a quarter).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Floats
from penstock.errors import ParamsError
from penstock.program.evaluator.circuits.minimax import CompositeSign
from penstock.program.evaluator.placement import Chain, start_levels
from penstock.program.evaluator.protocol import Ciphertext, Evaluator, Plain
from penstock.program.workloads import Check, sorting
from penstock.program.workloads.parts.sorting_network import SortingStep, check_count, members, num_steps, steps
from penstock.program.workloads.sorting import Data, blank, data, sign_of

__all__ = ["blank", "check", "data", "program"]

NAME = "sorting-k-way"
DESCRIPTION = "five-way merging network on encrypted values (three-way by size), comparison by minimax polynomials"
SOURCE = "Hong et al., IEEE TIFS 2021 (ePrint 2021/551), k-way"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size(sorting.Size):
    """`values` is a power of `ways`."""

    ways: int
    """k: 3 or 5."""


SIZES = {
    "ci": Size(params="insecure-resnet20-multiplexed", ways=5, values=5, degrees="7-15", lower_bits=5),
    "full": Size(params="openfhe-resnet20-multiplexed", ways=5, values=125, degrees="15-15-27", lower_bits=9),
    # As many values as the paper sorts five ways.
    "published": Size(params="sharp", ways=5, values=5**6, degrees="15-15-27", lower_bits=9),
    "three-way-ci": Size(params="insecure-resnet20-multiplexed", ways=3, values=9, degrees="7-15", lower_bits=5),
    "three-way-full": Size(params="openfhe-resnet20-multiplexed", ways=3, values=243, degrees="15-15-27", lower_bits=9),
    # The first power of three with as many values as accelerator papers sort, 2^14.
    "three-way-published": Size(params="sharp", ways=3, values=3**9, degrees="15-15-27", lower_bits=9),
}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "published"


def placing_levels(ways: int) -> int:
    """Levels after a sign: comparisons shared out, their products, those with the values, the masks of the places.

    >>> placing_levels(3), placing_levels(5)
    (4, 5)
    """
    return 3 + ways // 2


def blocks(size: Size) -> list[int]:
    """Levels of the parts of all steps: difference and polynomials of the sign, and the placing."""
    first, *rest = sign_of(size).levels
    return [1 + first, *rest, placing_levels(size.ways)] * num_steps(size.values, size.ways)


def copy_of(values: int) -> int:
    """Slots of one copy of the values, a power of two.

    >>> copy_of(9), copy_of(3**9)
    (16, 32768)
    """
    return 1 << (values - 1).bit_length()


def num_copies(ways: int) -> int:
    """Copies that a step compares in, a power of two: one for each distance inside a group that a sign is of.

    >>> num_copies(3), num_copies(5)
    (1, 2)
    """
    return copy_of(ways // 2)


def program(ev: Evaluator, data: Data, size: Size) -> Floats:
    """The values in ascending order, (values,).

    Raises: UsageError: no power of `ways`; ParamsError: more copies of the values than slots.
    """
    count, slots = size.values, ev.params.slots
    check_count(count, size.ways)
    copy, copies = copy_of(count), num_copies(size.ways)
    if copies * copy > slots:
        raise ParamsError(
            f"{size.ways}-way sorting of {count} values takes {copies} x {copy} slots and the set has {slots}: take "
            "more slots"
        )
    sign, chain = sign_of(size), Chain(ev, blocks(size))
    with ev.scope("input"):
        padded = np.concatenate([data.values, np.zeros(copy - count)])
        a = ev.encrypt(np.tile(padded, slots // copy), name="values")
        a = ev.mod_drop(a, start_levels(ev.params, blocks(size)) + 1)
    for number, step in enumerate(steps(count, size.ways)):
        with ev.scope("step"):
            a = _Sorter(ev, step, copy, number).run(a, sign, chain)
    with ev.scope("output"):
        return np.real(ev.decrypt(a))[:count]


class _Sorter:
    """One step: every group is sorted, in every copy."""

    def __init__(self, ev: Evaluator, step: SortingStep, copy: int, number: int) -> None:
        self.ev, self.step, self.copy, self.number = ev, step, copy, number
        self.ways, self.distance, self.copies = step.ways, step.distance, num_copies(step.ways)

    def run(self, a: Ciphertext, sign: CompositeSign, chain: Chain) -> Ciphertext:
        ev = self.ev
        with ev.scope("compare"):
            a = chain.before(a, slots=self.copy)
            value = self._differences(a)
            for index in range(len(sign.series)):
                value = value if index == 0 else chain.before(value, slots=self.copies * self.copy)
                value = sign.step(ev, value, index)
        with ev.scope("place"):
            value = chain.before(value, slots=self.copies * self.copy)
            return self._placed(a, self._ranks(self._comparisons(value)))

    def _differences(self, a: Ciphertext) -> Ciphertext:
        """In copy j - 1, the value of each slot less the one j places behind it in its group, for each j."""
        turns = {0: "own"}
        for j in range(1, self.ways // 2 + 1):
            turns[j * self.distance] = f"next {j}"
            turns[(j - self.ways) * self.distance] = f"first {j}"
        return self._sum(a, turns)

    def _comparisons(self, value: Ciphertext) -> list[tuple[Ciphertext, Ciphertext]]:
        """For each j, whether the values j places behind and j places before are larger, cyclically; in copy 0."""
        ev, d, pairs = self.ev, self.distance, []
        for j in range(1, self.ways // 2 + 1):
            there = (j - 1) * self.copy
            behind = ev.rescale(ev.mult(ev.rotate(value, there) if there else value, -0.5))
            before = self._sum(value, {(self.ways - j) * d + there: f"far {j}", -j * d + there: f"near {j}"})
            pairs.append((ev.add(behind, self._plain(f"below {j}")), ev.add(before, self._plain(f"above {j}"))))
        return pairs

    def _ranks(self, pairs: list[tuple[Ciphertext, Ciphertext]]) -> dict[int, Ciphertext]:
        """Number of larger values in the group -> 1 where it is so, else 0. A slot in none of them has the middle."""
        ev = self.ev
        ranks: dict[int, Ciphertext] = {}
        for behind, before in pairs:
            both = ev.rescale(ev.mult(behind, before))
            neither = ev.sub(ev.add(both, 1.0), ev.add(behind, before))
            ranks = {0: neither, 2: both} if not ranks else self._together(ranks, {0: neither, 2: both})
        return ranks

    def _together(self, a: dict[int, Ciphertext], b: dict[int, Ciphertext]) -> dict[int, Ciphertext]:
        """Of two independent counts, the sum; in each the middle count is left out, since all add up to 1."""
        ev = self.ev
        both = {(i, j): ev.rescale(ev.mult(x, y)) for i, x in a.items() for j, y in b.items()}
        terms: dict[int, list[Ciphertext]] = {}
        for (i, j), product in both.items():
            terms.setdefault(i + j, []).append(product)
        for i, x in a.items():
            with_middle = self._less(x, [both[i, j] for j in b])
            terms.setdefault(i + len(b) // 2, []).append(with_middle)
        for j, y in b.items():
            with_middle = self._less(y, [both[i, j] for i in a])
            terms.setdefault(len(a) // 2 + j, []).append(with_middle)
        middle = (len(a) + len(b)) // 2
        return {count: self._total(summands) for count, summands in sorted(terms.items()) if count != middle}

    def _placed(self, a: Ciphertext, ranks: dict[int, Ciphertext]) -> Ciphertext:
        """Each value in the place that its rank says, in every copy."""
        ev, ways, d = self.ev, self.ways, self.distance
        chosen = {ways - 1 - count: ev.rescale(ev.mult(a, which)) for count, which in ranks.items()}
        chosen[ways // 2] = self._less(a, list(chosen.values()))
        moved = []
        for shift in range(1 - ways, ways):
            parts = [
                ev.mult(chosen[place + shift], self._plain(f"move {place} {place + shift}"))
                for place in range(ways)
                if 0 <= place + shift < ways
            ]
            part = ev.rescale(self._total(parts))
            moved.append(ev.rotate(part, -shift * d) if shift else part)
        total = self._total(moved)
        spread = self.copies // 2
        while spread:
            total = ev.add(total, ev.rotate(total, -spread * self.copy))
            spread //= 2
        return total

    def _sum(self, a: Ciphertext, masks: dict[int, str]) -> Ciphertext:
        """The sum of rotations of `a`, each times its mask."""
        ev = self.ev
        turned = ev.rotate_many(a, [step for step in masks if step])
        rotated = [a, *turned] if 0 in masks else turned
        parts = [ev.mult(one, self._plain(name)) for one, name in zip(rotated, masks.values(), strict=True)]
        return ev.rescale(self._total(parts))

    def _total(self, parts: list[Ciphertext]) -> Ciphertext:
        return reduce(self.ev.add, parts)

    def _less(self, a: Ciphertext, parts: list[Ciphertext]) -> Ciphertext:
        return self.ev.sub(a, self._total(parts))

    def _plain(self, name: str) -> Plain:
        make = partial(_mask, self.step, self.copy, self.ev.params.slots, name)
        return self.ev.encode(make, name=f"{name} {self.number}")


def _mask(step: SortingStep, copy: int, slots: int, name: str) -> Floats:
    """(slots,) the factor or summand of a step, by its name: zero outside of its copy."""
    word, *numbers = name.split()
    j, ways = int(numbers[0]) if numbers else 0, step.ways
    place, has = members(step, copy)
    pattern = np.zeros((num_copies(ways), copy))
    if word == "own":
        for distance in range(1, ways // 2 + 1):
            pattern[distance - 1] = _at(has, (place + distance) % ways)
    elif word == "next":
        pattern[j - 1] = -1.0 * ((place + j < ways) & _at(has, (place + j) % ways))
    elif word == "first":
        pattern[j - 1] = -1.0 * ((place + j >= ways) & _at(has, (place + j) % ways))
    elif word == "near":
        pattern[0] = 0.5 * ((place >= j) & _at(has, (place - j) % ways))
    elif word == "far":
        pattern[0] = 0.5 * ((place < j) & _at(has, (place - j) % ways))
    elif word in ("below", "above"):
        # Half of the sign is taken away: a value missing behind is larger than all, one missing before is smaller.
        other = (place + (j if word == "below" else -j)) % ways
        pattern[0] = np.where(_at(has, other), 0.5, 1.0 * (other > place))
    else:
        pattern[0] = 1.0 * ((place == j) & has[int(numbers[1])])
    return np.tile(pattern.reshape(-1), slots // pattern.size)


def _at(has: npt.NDArray[np.bool_], place: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """(copy,) whether the group of each slot has a member at its `place`."""
    return np.take_along_axis(has, place[None], axis=0)[0]


def check(clear: Floats, got: Floats, data: Data, size: Size) -> Check:
    """Like the bitonic network: the clear result within 1e-3, values in their order up to the error of the sign."""
    return sorting.check_order(clear, got, data, size, num_steps(size.values, size.ways), size.ways)
