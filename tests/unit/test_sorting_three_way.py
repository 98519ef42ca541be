"""The three-way network: it sorts every input of zeros and ones, and its three-sorter places encrypted values."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from penstock.errors import ParamsError, UsageError
from penstock.program.clear import ClearEvaluator
from penstock.program.counting import count_workload
from penstock.program.symbolic import SymbolicEvaluator
from penstock.workloads import sorting
from penstock.workloads import sorting_three_way as ways
from toy import toy


def threes(step: ways.Step) -> list[list[int]]:
    """The slots of each three, in their order."""
    found = []
    for slot, place in enumerate(step.place):
        behind = slot - step.distance
        starts = place == 0 or (
            place == 1 and not (behind >= 0 and step.place[behind] == 0 and behind // step.block == slot // step.block)
        )
        if not starts:
            continue
        members = [slot]
        while True:
            ahead = members[-1] + step.distance
            if ahead >= len(step.place) or ahead // step.block != slot // step.block:
                break
            if step.place[ahead] != step.place[members[-1]] + 1:
                break
            members.append(ahead)
        found.append(members)
    return found


def sorted_by(rows: Any, network: list[ways.Step]) -> Any:
    rows = rows.copy()
    for step in network:
        for members in threes(step):
            rows[:, members] = np.sort(rows[:, members], axis=1)
    return rows


@pytest.mark.parametrize("count", [3, 9])
def test_the_network_sorts_every_input_of_zeros_and_ones(count: int) -> None:
    rows = np.array(list(itertools.product((0, 1), repeat=count)))
    assert np.array_equal(sorted_by(rows, list(ways.steps(count))), np.sort(rows, axis=1))


@pytest.mark.parametrize("run", [9, 27])
def test_the_last_merge_sorts_every_three_sorted_runs(run: int) -> None:
    """With the test above and the principle of zeros and ones: the network sorts everything."""
    ones = np.array(list(itertools.product(range(run + 1), repeat=3)))
    rows = np.concatenate([np.arange(run) >= ones[:, [i]] for i in range(3)], axis=1).astype(int)
    merge = [step for step in ways.steps(3 * run) if step.block == 3 * run]
    assert np.array_equal(sorted_by(rows, merge), np.sort(rows, axis=1))


def test_every_slot_is_in_one_three_at_most() -> None:
    for step in ways.steps(81):
        members = [slot for three in threes(step) for slot in three]
        assert sorted(members) == np.nonzero(step.place != ways.ALONE)[0].tolist()
        assert all(2 <= len(three) <= 3 for three in threes(step))


@pytest.mark.parametrize("count", [3, 9, 27, 243])
def test_encrypted_values_are_sorted(count: int) -> None:
    size = ways.Size(params="insecure-ci", values=count, degrees="15-15-27", lower_bits=9)
    for seed in range(2):
        data = ways.data(size, 256, seed)
        got = ways.program(ClearEvaluator(toy(slots=256)), data, size)
        assert np.allclose(got, np.sort(data.values), atol=2e-3)
        assert ways.check(got, got, data, size).passed


def test_equal_values_in_pairs_are_sorted_too() -> None:
    size = ways.Size(params="insecure-ci", values=9, degrees="15-15-27", lower_bits=9)
    values = np.array([0.5, 0.5, 0.1, 0.9, 0.9, 0.3, 0.2, 0.7, 0.1])
    got = ways.program(ClearEvaluator(toy(slots=64)), sorting.Data(values), size)
    assert np.allclose(got, np.sort(values), atol=2e-3)


def test_every_copy_of_the_values_is_sorted_alike() -> None:
    class Whole(ClearEvaluator):
        def decrypt(self, a: Any) -> Any:
            assert np.allclose(a.reshape(-1, 16), a[:16])
            return a

    size = ways.Size(params="insecure-ci", values=9, degrees="15-15-27", lower_bits=9)
    ways.program(Whole(toy(slots=64)), ways.data(size, 64, 0), size)


def test_it_compares_fewer_times_in_sequence_than_the_bitonic_network() -> None:
    assert [sum(1 for _ in ways.steps(3**m)) for m in range(1, 10)] == [m * m for m in range(1, 10)]
    # 81 steps for 19,683 values, where the bitonic network takes 105 for 16,384.
    assert sum(1 for _ in sorting.steps(2**14)) == 105
    # Each part of a step takes more than half of the eight levels that are left: four refreshes a step.
    assert count_workload("sorting-three-way", "sharp").calls["bootstrap"] == 4 * 81 - 1


def test_other_numbers_of_values_are_refused() -> None:
    with pytest.raises(UsageError, match="power of three"):
        list(ways.steps(12))
    size = ways.SIZES["published"]
    with pytest.raises(ParamsError, match="more slots"):
        ways.program(SymbolicEvaluator(toy()), ways.blank(size, 64), size)
