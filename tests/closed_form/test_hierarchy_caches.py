"""Replacement against theory: cyclic patterns, the optimum, inclusion. What every policy keeps is in `contract`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache as memoise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import Belady, ForcedHitRatio, Lru, Optimal, SizedCache
from penstock.scheme.play.hierarchy import replay

KEY_BYTES = 100


def equal_sizes(objects: list[int] | np.ndarray) -> Accesses:
    return Accesses.one_each(objects, np.full(len(objects), KEY_BYTES))


@pytest.mark.parametrize(("num_objects", "rounds"), [(1, 5), (2, 3), (7, 4), (40, 9)])
def test_lru_thrashes_on_a_cycle_that_is_one_object_too_long(num_objects: int, rounds: int) -> None:
    accesses = equal_sizes(list(range(num_objects)) * rounds)
    fits = replay(accesses, Lru(num_objects * KEY_BYTES))
    assert (fits.hits, fits.evictions) == ((rounds - 1) * num_objects, 0)
    one_byte_less = replay(accesses, Lru(num_objects * KEY_BYTES - 1))
    assert one_byte_less.hits == 0
    assert one_byte_less.misses == rounds * num_objects


@pytest.mark.parametrize(("num_objects", "frames", "rounds"), [(7, 3, 4), (40, 39, 9), (10, 1, 5), (5, 5, 3)])
def test_belady_keeps_as_many_of_a_cycle_as_it_has_room_for(num_objects: int, frames: int, rounds: int) -> None:
    # A frame serves one interval from use to next use in each period of the cycle, and there are rounds - 1 of them.
    got = replay(equal_sizes(list(range(num_objects)) * rounds), Belady(frames * KEY_BYTES))
    assert got.hits == frames * (rounds - 1)


def most_hits(objects: tuple[int, ...], frames: int) -> int:
    """The optimum by trying every choice: what to keep after each access, the object itself included or not."""

    @memoise
    def best(at: int, kept: frozenset[int]) -> int:
        if at == len(objects):
            return 0
        current = objects[at]
        present = kept | {current}
        choices = {kept} if len(present) > frames else {kept, present}
        choices |= {present - {out} for out in present}
        return (current in kept) + max(best(at + 1, choice) for choice in choices if len(choice) <= frames)

    return best(0, frozenset())


@given(objects=st.lists(st.integers(0, 4), min_size=1, max_size=14), frames=st.integers(1, 3))
def test_belady_reaches_the_optimum_for_equal_sizes(objects: list[int], frames: int) -> None:
    assert replay(equal_sizes(objects), Belady(frames * KEY_BYTES)).hits == most_hits(tuple(objects), frames)


def fifo_hits(objects: list[int], frames: int) -> int:
    queue: list[int] = []
    hits = 0
    for obj in objects:
        if obj in queue:
            hits += 1
            continue
        queue = [*queue, obj][-frames:]
    return hits


def most_recent_hits(objects: list[int], frames: int) -> int:
    """Evicts what was used last: good on cycles, where LRU is worst."""
    stack: list[int] = []
    hits = 0
    for obj in objects:
        if obj in stack:
            hits += 1
            stack.remove(obj)
        elif len(stack) == frames:
            stack.pop()
        stack.append(obj)
    return hits


def lru_hits(objects: list[int], frames: int) -> int:
    return int(replay(equal_sizes(objects), Lru(frames * KEY_BYTES)).hits)


@pytest.mark.parametrize("rival", [lru_hits, fifo_hits, most_recent_hits])
@given(objects=st.lists(st.integers(0, 15), max_size=200), frames=st.integers(1, 12))
def test_no_policy_has_more_hits_than_belady(
    rival: Callable[[list[int], int], int], objects: list[int], frames: int
) -> None:
    assert rival(objects, frames) <= replay(equal_sizes(objects), Belady(frames * KEY_BYTES)).hits


@pytest.mark.parametrize("policy", ["belady", "lru"])
@given(objects=st.lists(st.integers(0, 15), max_size=100))
def test_more_room_never_costs_hits_where_the_policy_is_a_stack(policy: str, objects: list[int]) -> None:
    accesses = equal_sizes(objects)
    hits = [replay(accesses, SizedCache(policy, frames * KEY_BYTES)).hits for frames in range(18)]
    assert hits == sorted(hits)
    # With room for all, only first uses miss.
    assert hits[-1] == len(objects) - len(set(objects))


MIXED_ROWS = st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 30)), max_size=3), max_size=30)


@given(rows=MIXED_ROWS, capacity=st.integers(0, 60))
def test_the_optimum_is_beladys_policy_on_single_bytes(rows: list[list[tuple[int, int]]], capacity: int) -> None:
    # Every byte an object of its own: equal sizes, where Belady's policy is proven optimal.
    whole = replay(Accesses.of(rows), Optimal(capacity))
    bytes_of = [[(100 * obj + depth, 1) for obj, size in row for depth in range(size)] for row in rows]
    single = replay(Accesses.of(bytes_of), Belady(capacity))
    assert whole.miss_bytes == single.miss_bytes


@given(rows=MIXED_ROWS)
def test_more_room_never_costs_bytes_under_the_optimum(rows: list[list[tuple[int, int]]]) -> None:
    loaded = [replay(Accesses.of(rows), Optimal(capacity)).miss_bytes for capacity in range(0, 100, 7)]
    assert loaded == sorted(loaded, reverse=True)


def test_whole_objects_of_different_sizes_can_cost_more_under_belady_than_under_lru() -> None:
    """Why the optimum exists: on keys that are used at fewer and fewer limbs, Belady's rule on whole keys loses."""
    sizes = [8, 6, 4, 2] * 6
    accesses = Accesses.one_each([i % 3 for i in range(len(sizes))], sizes)
    loaded = {policy: replay(accesses, SizedCache(policy, 12)).miss_bytes for policy in ("lru", "belady", "optimal")}
    assert loaded["optimal"] < min(loaded["lru"], loaded["belady"])


@given(hit_ratio=st.floats(0, 1))
def test_a_forced_hit_ratio_is_met_exactly(hit_ratio: float) -> None:
    accesses = Accesses.of([[(1, 700), (2, 300)], [], [(1, 1000)]])
    got = replay(accesses, ForcedHitRatio(hit_ratio))
    assert got.operation_bytes.tolist() == [(1 - hit_ratio) * 1000, 0, (1 - hit_ratio) * 1000]
    assert got.miss_bytes == (1 - hit_ratio) * 2000
    assert got.hit_ratio == pytest.approx(hit_ratio, abs=1e-15)
    assert got.byte_hit_ratio == pytest.approx(hit_ratio, abs=1e-15)
