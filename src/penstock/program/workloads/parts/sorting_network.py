"""Networks of k-sorters: which values of a k-way merging network are sorted in groups at once, step by step.

k sorted runs of s values become one of ks. First, values s apart are sorted in groups of k. Then the values of every
residue modulo s/k are a table of k columns, each in order, whose ends form a staircase of at most k rows: (k + 1)/2
steps of groups along falling lines (`LINES`) sort it. The values of every residue modulo s/k^2 follow, and so on. Steps
follow the zero-one principle: tests hold the lines against every staircase and small networks against every input of
zeros and ones. The number (k + 1)/2 of lines follows Shi, Yan and Wagh (arXiv 1407.0961), who merge k runs of k values
in 1 + ceil(k/2) steps; a search over all lines found the ones in use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Ints
from penstock.errors import UsageError

ALONE = -1
"""Place of a slot that a step leaves unchanged."""

LINES: Mapping[int, tuple[tuple[int, int], ...]] = {3: ((2, 2), (1, 2)), 5: ((4, 4), (3, 3), (1, 3))}
"""k -> (distance of neighbours, first index modulo k) of the groups of each step that sorts a table of k columns."""


@dataclass(frozen=True, slots=True)
class SortingStep:
    """Groups that are sorted at once."""

    ways: int
    """Members of a group; fewer at an end of a run."""
    distance: int
    """Slots between neighbours of a group."""
    place: Ints
    """(values,) place of each slot in its group, 0 to `ways` - 1, or `ALONE`."""
    block: int
    """Slots of a run that is made; no group reaches over its end."""


def check_count(values: int, ways: int) -> None:
    """Whether there is a network.

    Raises: UsageError: not so many ways, or not a power of them.
    """
    if ways not in LINES:
        raise UsageError(
            f"{ways}-way sorting: there are networks of {', '.join(map(str, LINES))} ways; take one of them"
        )
    left = values
    while left > 1 and left % ways == 0:
        left //= ways
    if left != 1 or values < ways:
        powers = ", ".join(str(ways**m) for m in (1, 2, 3))
        raise UsageError(f"{ways}-way sorting sorts {powers}, … values, and {values} is not a power of {ways}")


def num_steps(values: int, ways: int) -> int:
    """Steps of the network: m + m (m - 1)/2 * (k + 1)/2 for k^m values.

    Raises: as `check_count`.
    >>> [num_steps(3**m, 3) for m in (1, 2, 3)], [num_steps(5**m, 5) for m in (1, 2, 6)]
    ([1, 4, 9], [1, 5, 51])
    """
    check_count(values, ways)
    merges = 0
    while ways**merges < values:
        merges += 1
    return merges + merges * (merges - 1) // 2 * (ways + 1) // 2


def steps(values: int, ways: int) -> Iterator[SortingStep]:
    """The network.

    Raises: as `check_count`.
    >>> [step.distance for step in steps(9, 3)]
    [1, 3, 2, 1]
    """
    check_count(values, ways)
    run = 1
    while run < values:
        block = ways * run
        yield SortingStep(ways, run, _places(values, ways, block, run, 1, 0), block)
        stride = run // ways
        while stride:
            for apart, first in LINES[ways]:
                yield SortingStep(ways, apart * stride, _places(values, ways, block, stride, apart, first), block)
            stride //= ways
        run = block


def _places(values: int, ways: int, block: int, stride: int, apart: int, first: int) -> Ints:
    """Places in groups that start at each index `first` modulo `ways` of every stride of every block.

    Index e of a stride is slot e * stride of its block; a group is e, e + apart, e + 2 apart, …. Slots outside of the
    block are missing from its group.
    """
    length = block // stride
    place = np.full(length, ALONE, dtype=np.int64)
    for start in range(first - ways * (apart + 1), length, ways):
        members = [(start + i * apart, i) for i in range(ways) if 0 <= start + i * apart < length]
        if len(members) > 1:
            for index, i in members:
                place[index] = i
    within = np.arange(values) % block
    return place[within // stride]


def members(step: SortingStep, period: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """(period,) place of each slot in its group, and (ways, period) whether that group has a member at each place.

    A slot alone is in the middle of its group.
    """
    place = np.concatenate([step.place, np.full(period - len(step.place), ALONE)])
    slot, has = np.arange(period), np.zeros((step.ways, period), dtype=np.bool_)
    for i in range(step.ways):
        at = slot + (i - place) * step.distance
        inside = (place != ALONE) & (at >= 0) & (at < period)
        has[i, inside] = place[at[inside]] == i
        has[i] &= slot // step.block == at // step.block  # groups do not reach over the end of a run
    middle = step.ways // 2
    has[middle, place == ALONE] = True
    return np.where(place == ALONE, middle, place), has
