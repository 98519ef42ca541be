"""The k-way networks: they sort every input of zeros and ones, and their k-sorters place encrypted values."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest

from penstock.errors import ParamsError, UsageError
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.running.counting import count_workload
from penstock.program.workloads import sorting, sorting_three_way
from penstock.program.workloads import sorting_k_way as k_way
from penstock.program.workloads.parts.sorting_network import ALONE, LINES, SortingStep, num_steps, steps
from support.toy import toy


def groups(step: SortingStep) -> list[list[int]]:
    """The slots of each group, in their order: slots at one distance whose places count up."""
    by_first: dict[tuple[int, int], list[int]] = {}
    for slot, place in enumerate(step.place.tolist()):
        if place != ALONE:
            by_first.setdefault((slot // step.block, slot - place * step.distance), []).append(slot)
    return list(by_first.values())


def sorted_by(rows: Any, network: list[SortingStep]) -> Any:
    rows = rows.copy()
    for step in network:
        for members in groups(step):
            rows[:, members] = np.sort(rows[:, members], axis=1)
    return rows


@pytest.mark.parametrize(("ways", "count"), [(3, 3), (3, 9), (5, 5)])
def test_the_network_sorts_every_input_of_zeros_and_ones(ways: int, count: int) -> None:
    rows = np.array(list(itertools.product((0, 1), repeat=count)))
    assert np.array_equal(sorted_by(rows, list(steps(count, ways))), np.sort(rows, axis=1))


@pytest.mark.parametrize(("ways", "run"), [(3, 9), (3, 27), (5, 5)])
def test_the_last_merge_sorts_every_k_sorted_runs(ways: int, run: int) -> None:
    """With the test above and the principle of zeros and ones: the network sorts everything of this size."""
    ones = np.array(list(itertools.product(range(run + 1), repeat=ways)))
    rows = np.concatenate([np.arange(run) >= ones[:, [i]] for i in range(ways)], axis=1).astype(np.int8)
    merge = [step for step in steps(ways * run, ways) if step.block == ways * run]
    assert np.array_equal(sorted_by(rows, merge), np.sort(rows, axis=1))


@pytest.mark.parametrize("ways", LINES)
def test_the_lines_sort_every_staircase(ways: int) -> None:
    """What the merges of any number of values rest on: k sorted columns, each of which has as many zeros as the next
    one or more, the first at most k more than the last; anywhere in a longer table."""
    rows, before = ways, ways
    above = itertools.combinations_with_replacement(range(ways), ways)
    for ends in above:
        zeros = [before + sum(end > column for end in ends) for column in range(ways)]
        table = np.array([[row >= zeros[column] for column in range(ways)] for row in range(2 * before + rows)])
        values = table.reshape(-1).astype(int)
        for apart, first in LINES[ways]:
            for start in range(first, len(values) - (ways - 1) * apart, ways):
                members = start + apart * np.arange(ways)
                values[members] = np.sort(values[members])
        assert (np.diff(values) >= 0).all(), ends


@pytest.mark.parametrize(("ways", "count"), [(3, 729), (5, 625)])
def test_random_values_are_sorted(ways: int, count: int) -> None:
    rows = np.random.default_rng(0).permuted(np.tile(np.arange(count), (50, 1)), axis=1)
    assert np.array_equal(sorted_by(rows, list(steps(count, ways))), np.sort(rows, axis=1))


@pytest.mark.parametrize(("ways", "count"), [(3, 81), (5, 125)])
def test_every_slot_is_in_one_group_at_most(ways: int, count: int) -> None:
    for step in steps(count, ways):
        found = groups(step)
        members = [slot for group in found for slot in group]
        assert sorted(members) == np.nonzero(step.place != ALONE)[0].tolist()
        assert all(2 <= len(group) <= ways for group in found)
        assert all(set(np.diff(group)) == {step.distance} for group in found)


@pytest.mark.parametrize(("ways", "counts"), [(3, (3, 9, 27, 243)), (5, (5, 25, 125))])
def test_encrypted_values_are_sorted(ways: int, counts: tuple[int, ...]) -> None:
    for count, seed in itertools.product(counts, range(2)):
        size = k_way.Size(params="insecure-ci", ways=ways, values=count, degrees="15-15-27", lower_bits=9)
        data = k_way.data(size, 256, seed)
        got = k_way.program(ClearEvaluator(toy(slots=256)), data, size)
        assert np.allclose(got, np.sort(data.values), atol=2e-3)
        assert k_way.check(got, got, data, size).passed


@pytest.mark.parametrize("order", list(itertools.permutations(range(5))))
def test_a_five_sorter_places_every_order(order: tuple[int, ...]) -> None:
    size = k_way.Size(params="insecure-ci", ways=5, values=5, degrees="15-15-27", lower_bits=9)
    values = np.array([0.1, 0.3, 0.5, 0.6, 0.9])[list(order)]
    got = k_way.program(ClearEvaluator(toy(slots=16)), sorting.Data(values), size)
    assert np.allclose(got, np.sort(values), atol=2e-3)


@pytest.mark.parametrize("ways", LINES)
def test_equal_values_in_pairs_are_sorted_too(ways: int) -> None:
    values = np.array([0.5, 0.5, 0.1, 0.9, 0.9, 0.3, 0.2, 0.7, 0.1] if ways == 3 else [0.5, 0.2, 0.9, 0.2, 0.5])
    size = k_way.Size(params="insecure-ci", ways=ways, values=len(values), degrees="15-15-27", lower_bits=9)
    got = k_way.program(ClearEvaluator(toy(slots=64)), sorting.Data(values), size)
    assert np.allclose(got, np.sort(values), atol=2e-3)


@pytest.mark.parametrize(("ways", "count"), [(3, 9), (5, 25)])
def test_every_copy_of_the_values_is_sorted_alike(ways: int, count: int) -> None:
    copy = k_way.copy_of(count)

    class Whole(ClearEvaluator):
        def decrypt(self, a: Any) -> Any:
            assert np.allclose(a.reshape(-1, copy), a[:copy])
            return a

    size = k_way.Size(params="insecure-ci", ways=ways, values=count, degrees="15-15-27", lower_bits=9)
    k_way.program(Whole(toy(slots=256)), k_way.data(size, 256, 0), size)


def test_steps_are_as_many_as_the_closed_form_says() -> None:
    for ways, most in ((3, 8), (5, 5)):
        for m in range(1, most):
            assert sum(1 for _ in steps(ways**m, ways)) == num_steps(ways**m, ways)
            assert num_steps(ways**m, ways) == m + (ways + 1) // 2 * m * (m - 1) // 2
    # Steps in sequence for 2^14, 3^9 and 5^6 values.
    assert (sum(1 for _ in sorting.steps(2**14)), num_steps(3**9, 3), num_steps(5**6, 5)) == (105, 81, 51)


@pytest.mark.parametrize(
    ("workload", "size_name", "products"),
    [("sorting-three-way", "three-way-published", 1), ("sorting-k-way", "published", 6)],
)
def test_a_step_compares_once_whatever_its_ways(workload: str, size_name: str, products: int) -> None:
    size = k_way.SIZES[size_name]
    tally, number = count_workload(workload, "sharp"), num_steps(size.values, size.ways)
    # Each part of a step takes more than half of the eight levels that are left: four refreshes a step.
    assert tally.calls["bootstrap"] == 4 * number - 1
    # Of a step: the products of one sign, those of the comparisons, and with the values for all places but the middle.
    a_step = products_of_sign(size) + products + size.ways - 1
    assert tally.calls["mult"] + tally.calls["square"] == number * a_step


@pytest.mark.parametrize(("workload", "keys"), [("sorting", 29), ("sorting-k-way", 140)])
def test_a_program_turns_by_as_many_keys_as_the_page_on_bootstrapping_says(workload: str, keys: int) -> None:
    assert sum(key.startswith("rot:") for key in count_workload(workload, "sharp").keys) == keys


def products_of_sign(size: k_way.Size) -> int:
    """Products of ciphertexts in one sign."""
    counted: Counter[str] = Counter()

    class Counting(ClearEvaluator):
        def mult(self, a: Any, b: Any) -> Any:
            counted["mult"] += isinstance(b, np.ndarray)
            return super().mult(a, b)

        def square(self, a: Any) -> Any:
            counted["square"] += 1
            return super().square(a)

    ev = Counting(toy(slots=16))
    sign, value = sorting.sign_of(size), ev.encrypt(np.linspace(-1, 1, 16))
    for index in range(len(sign.series)):
        value = sign.step(ev, value, index)
    return counted.total()


def test_three_way_sizes_are_a_workload_of_their_own() -> None:
    assert sorting_three_way.SIZES["full"] == k_way.SIZES["three-way-full"]
    assert {size.ways for size in sorting_three_way.SIZES.values()} == {3}


def test_other_numbers_of_values_are_refused() -> None:
    with pytest.raises(UsageError, match="not a power of 3"):
        list(steps(12, 3))
    with pytest.raises(UsageError, match="5, 25, 125, … values, and 1 is not a power of 5"):
        list(steps(1, 5))
    with pytest.raises(UsageError, match="networks of 3, 5 ways"):
        list(steps(49, 7))
    for ways in LINES:
        size = k_way.SIZES["published" if ways == 5 else "three-way-published"]
        with pytest.raises(ParamsError, match="more slots"):
            k_way.program(SymbolicEvaluator(toy()), k_way.blank(size, 64), size)
