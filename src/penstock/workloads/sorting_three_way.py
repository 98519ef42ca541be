"""Sorting of encrypted values by a three-way merging network: fewer comparisons in sequence than the bitonic one.

Hong et al., IEEE TIFS 2021 (ePrint 2021/551) sort encrypted values with networks of k-sorters, k a prime: log_k(n)
merges instead of log_2(n), each of k sorted runs. This is the case of three, on n = 3^m values in m^2 steps.

**Network.** Three sorted runs of s values become one: values s apart are sorted in threes. Then the values of every
residue modulo s/3 are a table of three columns that is sorted but for a staircase of at most three rows, and two steps
sort it: threes that lie on a falling line, two apart, and threes of neighbours, one apart, both from the last column
on; then those of every residue modulo s/9, and so on. Tests hold it against every input of zeros and ones.

**Three-sorter.** One sign tells every value from the next of its three (cyclically), and with it from the one before.
It is the smallest where both products of comparisons say so, the largest where both deny it; the third value is the sum
of all less these two. So values that are too close to be told apart in pairs come out mixed, by no more than they
differ; three values that close to each other lose up to a quarter of themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import ParamsError, UsageError
from penstock.program.circuits.minimax import CompositeSign
from penstock.program.placement import Chain, start_levels
from penstock.workloads import Check, sorting
from penstock.workloads.sorting import Data, sign_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

NAME = "sorting-three-way"
DESCRIPTION = "three-way merging network on encrypted values, comparison by minimax polynomials"
SOURCE = "Hong et al., IEEE TIFS 2021 (ePrint 2021/551), three-way"

WAYS = 3
ALONE = -1
"""Place of a slot that a step leaves as it is."""
PLACING_LEVELS = 4
"""Comparisons shared out, their products, those with the values, the masks of the places."""

Size = sorting.Size
SIZES = {
    "ci": Size(params="insecure-resnet20-multiplexed", values=9, degrees="7-15", lower_bits=5),
    "full": Size(params="openfhe-resnet20-multiplexed", values=243, degrees="15-15-27", lower_bits=9),
    # The first power of three with as many values as accelerator papers sort, 2^14.
    "published": Size(params="sharp", values=3**9, degrees="15-15-27", lower_bits=9),
}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "published"


@dataclass(frozen=True, slots=True)
class Step:
    """Threes that are sorted at once."""

    distance: int
    """Slots between neighbours of a three."""
    place: Ints
    """(values,) place of each slot in its three, 0 to 2 (two of them at an end of a run), or `ALONE`."""
    block: int
    """Slots of a run that is made; no three reaches over its end."""


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """As of the bitonic network: random values of [0, 1], one in each of as many equal intervals, or a file's."""
    return sorting.data(size, slots, seed, path)


def blank(size: Size, slots: int) -> Data:
    """The same shape without values."""
    return sorting.blank(size, slots)


def steps(values: int) -> Iterator[Step]:
    """The network.

    Raises: UsageError: not a power of three.
    >>> [step.distance for step in steps(9)]
    [1, 3, 2, 1]
    """
    check_count(values)
    run = 1
    while run < values:
        yield Step(run, _places(values, WAYS * run, run, 1, 0), WAYS * run)
        stride = run // WAYS
        while stride:
            for apart in (2, 1):
                yield Step(apart * stride, _places(values, WAYS * run, stride, apart, 2), WAYS * run)
            stride //= WAYS
        run *= WAYS


def check_count(values: int) -> None:
    """Raises: UsageError: not a power of three."""
    left = values
    while left > 1 and left % WAYS == 0:
        left //= WAYS
    if left != 1 or values < WAYS:
        raise UsageError(f"{NAME} sorts 3, 9, 27, … values, and {values} is no power of three")


def _places(values: int, block: int, stride: int, apart: int, start: int) -> Ints:
    """Places in threes that start at each index `start` modulo three of every stride of every block.

    Index e of a stride is slot e * stride of its block; a three is e, e + apart, e + 2 apart. What lies outside of the
    block is missing from its three.
    """
    length = block // stride
    place = np.full(length, ALONE, dtype=np.int64)
    for first in range(start - WAYS * WAYS, length, WAYS):
        members = [(first + i * apart, i) for i in range(WAYS) if 0 <= first + i * apart < length]
        if len(members) > 1:
            for index, i in members:
                place[index] = i
    within = np.arange(values) % block
    return place[within // stride]


def blocks(size: Size) -> list[int]:
    """Levels of the parts of all steps: difference and polynomials of the sign, and the placing."""
    first, *rest = sign_of(size).levels
    return [1 + first, *rest, PLACING_LEVELS] * sum(1 for _ in steps(size.values))


def period_of(values: int) -> int:
    """Slots with which values and masks repeat: the power of two from their number on.

    >>> period_of(9), period_of(3**9)
    (16, 32768)
    """
    return 1 << (values - 1).bit_length()


def program(ev: Any, data: Data, size: Size) -> Floats:
    """The values in ascending order, (values,).

    Raises: UsageError: not a power of three; ParamsError: more values than slots.
    """
    count, slots = size.values, ev.params.slots
    check_count(count)
    period = period_of(count)
    if period > slots:
        raise ParamsError(f"{NAME} sorts {count} values in {period} slots and the set has {slots}: take more slots")
    sign, chain = sign_of(size), Chain(ev, blocks(size))
    with ev.scope("input"):
        padded = np.concatenate([data.values, np.zeros(period - count)])
        a = ev.encrypt(np.tile(padded, slots // period), name="values")
        a = ev.mod_drop(a, start_levels(ev.params, blocks(size)) + 1)
    for number, step in enumerate(steps(count)):
        with ev.scope("step"):
            a = _Sorter(ev, step, period, number).run(a, sign, chain)
    with ev.scope("output"):
        result: Floats = np.real(ev.decrypt(a))[:count]
        return result


class _Sorter:
    """One step."""

    def __init__(self, ev: Any, step: Step, period: int, number: int) -> None:
        self.ev, self.step, self.period, self.number = ev, step, period, number

    def run(self, a: Any, sign: CompositeSign, chain: Chain) -> Any:
        ev, d = self.ev, self.step.distance
        with ev.scope("compare"):
            a = chain.before(a, slots=self.period)
            value = self._sum(a, {0: "pair", d: "next", -2 * d: "first"})
            for index in range(len(sign.series)):
                value = value if index == 0 else chain.before(value, slots=self.period)
                value = sign.step(ev, value, index)
        with ev.scope("place"):
            value = chain.before(value, slots=self.period)
            below_next = ev.add(ev.rescale(ev.mult(value, -0.5)), self._plain("below next"))
            below_other = ev.add(self._sum(value, {2 * d: "far", -d: "near"}), self._plain("below other"))
            low = ev.rescale(ev.mult(below_next, below_other))
            high = ev.sub(ev.add(low, 1.0), ev.add(below_next, below_other))
            least, most = (ev.rescale(ev.mult(a, which)) for which in (low, high))
            third = ev.sub(a, ev.add(least, most))
            return ev.add(
                ev.add(
                    self._sum(least, {0: "least 0", d: "least 1", 2 * d: "least 2"}),
                    self._sum(most, {0: "most 2", -d: "most 1", -2 * d: "most 0"}),
                ),
                self._sum(third, {0: "third 1", d: "third 2", -d: "third 0"}),
            )

    def _sum(self, a: Any, masks: dict[int, str]) -> Any:
        """The sum of rotations of `a`, each times its mask."""
        ev = self.ev
        turned = ev.rotate_many(a, [step for step in masks if step])
        total: Any = None
        for each, name in zip([a, *turned] if 0 in masks else turned, masks.values(), strict=True):
            part = ev.mult(each, self._plain(name))
            total = part if total is None else ev.add(total, part)
        return ev.rescale(total)

    def _plain(self, name: str) -> Any:
        make = partial(_mask, self.step, self.period, self.ev.params.slots, name)
        return self.ev.encode(make, name=f"{name} {self.number}")


def _mask(step: Step, period: int, slots: int, name: str) -> Floats:
    """(slots,) what a step multiplies or adds, by its name."""
    place = np.concatenate([step.place, np.full(period - len(step.place), ALONE)])
    is_at = [place == i for i in range(WAYS)]
    slot, d = np.arange(period), step.distance
    has = np.zeros((WAYS, period), dtype=np.bool_)
    for i in range(WAYS):
        # Whether the three of each slot has a member at place i.
        at = slot + (i - place) * d
        inside = (place != ALONE) & (at >= 0) & (at < period)
        has[i, inside] = place[at[inside]] == i
        # A slot of that place may be of another three where ours ends.
        has[i] &= _same_block(step, slot, at)
    first, second, third = is_at
    ahead, around = (first & has[1]) | (second & has[2]), third & has[0]
    other = (first & has[2]) | (second & has[0]) | (third & has[1])
    if name in ("pair", "next", "first"):
        mask = {"pair": 1.0 * (ahead | around), "next": -1.0 * ahead, "first": -1.0 * around}[name]
    elif name in ("far", "near"):
        mask = {"far": 0.5 * (first & has[2]), "near": 0.5 * ((second & has[0]) | (third & has[1]))}[name]
    elif name == "below next":
        # Half of the sign is taken away: what is missing behind is larger than all, what is missing before smaller.
        mask = np.where(ahead | around, 0.5, np.where(third, 0.0, 1.0))
    elif name == "below other":
        mask = np.where(other, 0.5, np.where(first, 1.0, 0.0))
    else:
        which, source = name.split()
        target = {"least": 0, "third": 1, "most": 2}[which]
        mask = 1.0 * (is_at[target] & has[int(source)])
        if name == "third 1":
            mask = mask + (place == ALONE)
    return np.tile(mask, slots // period)


def _same_block(step: Step, slot: Ints, at: Ints) -> npt.NDArray[np.bool_]:
    """Whether the slots between are of one merged run: threes do not reach over its end."""
    return (slot // step.block) == (at // step.block)


def check(clear: Floats, got: Floats, data: Data, size: Size) -> Check:
    """As of the bitonic network: the clear result within 1e-3, values in their order within what the sign leaves."""
    return sorting.check_order(clear, got, data, size, sum(1 for _ in steps(size.values)))
