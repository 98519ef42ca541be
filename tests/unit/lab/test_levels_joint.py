"""Levels that are strictly inclusive or exclusive: what they hold after each access, and what that costs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import MachineError, SimulationInputError, UnknownName
from penstock.front.cli.main import main
from penstock.lab.simulation.memory import levels_joint
from penstock.lab.simulation.memory.levels import EXCLUSIVE, INCLUSIONS, INCLUSIVE, Hierarchy, Level, LevelLoad, changed
from penstock.lab.simulation.memory.levels_replay import LevelsReplay, replay_levels
from penstock.lab.simulation.memory.levels_spec import load_hierarchy
from penstock.scheme.machines import load_machines
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import Belady, Cache, ForcedHitRatio, SizedCache

ROWS = st.lists(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 20)), max_size=4), max_size=40)
POLICIES = st.sampled_from(["lru", "fifo"])


def hierarchy(sizes: list[tuple[str, int]], inclusion: str) -> Hierarchy:
    levels = [Level(name=str(i), cache=SizedCache(*each)) for i, each in enumerate(sizes)]
    return Hierarchy((*levels, Level(name="last")), inclusion=inclusion)


def played(rows: list[list[tuple[int, int]]], sizes: list[tuple[str, int]], inclusion: str) -> LevelsReplay:
    return replay_levels(Accesses.of(rows), hierarchy(sizes, inclusion))


@given(rows=ROWS, policy=POLICIES, capacity=st.integers(0, 90))
def test_one_cache_is_the_same_whatever_levels_know_of_each_other(
    rows: list[list[tuple[int, int]]], policy: str, capacity: int
) -> None:
    expected, *others = [played(rows, [(policy, capacity)], inclusion) for inclusion in INCLUSIONS]
    for got in others:
        for left, right in zip(got.loads, expected.loads, strict=True):
            for name in ("operation_bytes", "operation_transfers"):
                assert np.array_equal(getattr(left, name), getattr(right, name))
            for name in ("served_bytes", "hits", "misses", "evictions", "streamed"):
                assert getattr(left, name) == getattr(right, name), name


@given(rows=ROWS, sizes=st.lists(st.tuples(POLICIES, st.integers(0, 90)), min_size=2, max_size=3))
def test_the_invariant_holds_after_every_access(
    rows: list[list[tuple[int, int]]], sizes: list[tuple[str, int]]
) -> None:
    for inclusion, access in ((INCLUSIVE, levels_joint._inclusive), (EXCLUSIVE, levels_joint._exclusive)):
        stack = hierarchy(sizes, inclusion)
        caches = [levels_joint._cache(level, stack) for level in stack.levels[:-1]]
        loads = [
            LevelLoad(level=level, operation_bytes=np.zeros(40, np.int64), operation_transfers=np.zeros(40, np.int64))
            for level in stack.levels
        ]
        for i, row in enumerate(rows):
            for obj, need in row:
                access(caches, loads, i, obj, need)
                for cache in caches:
                    assert cache.used == sum(cache.held.values()) <= cache.capacity
                if inclusion == INCLUSIVE:
                    for above, below in pairwise(caches):
                        assert all(size <= below.held.get(each, 0) for each, size in above.held.items())
                else:
                    everywhere = [each for cache in caches for each in cache.held]
                    assert len(everywhere) == len(set(everywhere))
        assert sum(load.served_bytes for load in loads) == sum(need for row in rows for _, need in row)


def test_an_eviction_below_takes_the_copy_above() -> None:
    # 1 is used all the time in the first level, so the second has not seen it since, and gives it up for 3.
    rows = [[(1, 4)], [(1, 4)], [(2, 4)], [(1, 4)], [(3, 4)], [(1, 4)]]
    sizes = [("lru", 8), ("lru", 8)]
    free, strict = played(rows, sizes, "independent"), played(rows, sizes, INCLUSIVE)
    assert [load.hits for load in free.loads] == [3, 0, 3]
    assert [load.hits for load in strict.loads] == [2, 0, 4]
    # 1 by the load of 3, and 2 by the next load of 1.
    assert strict.loads[0].invalidated == 2


def test_exclusive_levels_add_their_capacities_up() -> None:
    rows = [[(obj, 4)] for _ in range(3) for obj in (1, 2, 3)]
    sizes = [("lru", 4), ("lru", 8)]
    free, apart = played(rows, sizes, "independent"), played(rows, sizes, EXCLUSIVE)
    assert free.loads[-1].served_bytes == 36, "three objects do not fit in two of their size"
    assert apart.loads[-1].served_bytes == 12, "one above and two below: each is loaded once"
    # Six objects come up from the second level, and eight go down to it.
    assert apart.loads[1].demoted_bytes == 32
    assert apart.loads[1].channel_bytes == 36 + 32


def test_what_is_here_beyond_the_need_moves_up_with_it() -> None:
    rows = [[(1, 6)], [(2, 6)], [(1, 2)], [(1, 6)]]
    got = played(rows, [("lru", 6), ("lru", 6)], EXCLUSIVE)
    # The third access asks for 2 bytes of 1 and moves 6; the other's 6 bytes go down in its place.
    assert got.loads[1].operation_bytes.tolist() == [6, 6 + 6, 2 + 4 + 6, 0]
    assert [load.hits for load in got.loads] == [1, 1, 2]


def test_an_object_that_outgrows_a_level_goes_down_to_where_there_is_room() -> None:
    rows = [[(1, 4)], [(1, 10)], [(1, 10)], [(1, 13)], [(1, 13)]]
    got = played(rows, [("lru", 6), ("lru", 12)], EXCLUSIVE)
    # The second access finds 4 bytes above, loads 6, and moves both to the second level, which serves the third. No
    # level has room for 13: 10 of them stay where they are.
    assert got.loads[1].operation_bytes.tolist() == [4, 6 + 4, 10, 13, 13]
    assert [load.demoted_bytes for load in got.loads] == [0, 4, 0]
    assert [load.served_bytes for load in got.loads] == [4, 10 + 10 + 10, 4 + 6 + 3 + 3]
    assert [load.evictions for load in got.loads] == [1, 0, 0]


def test_what_no_cache_below_has_room_for_is_dropped_and_moves_nothing() -> None:
    rows = [[(1, 4)], [(2, 4)], [(1, 4)]]
    got = played(rows, [("lru", 4), ("lru", 3), ("lru", 0)], EXCLUSIVE)
    assert [load.demoted_bytes for load in got.loads] == [0, 0, 0, 0]
    assert [load.channel_bytes for load in got.loads] == [12, 12, 12, 12]


def test_what_a_level_has_no_room_for_goes_down_to_the_next_that_has() -> None:
    rows = [[(1, 4)], [(2, 4)], [(1, 4)]]
    got = played(rows, [("lru", 4), ("lru", 3), ("lru", 8)], EXCLUSIVE)
    # 1 and 2 fall past the second level, over its channel, into the third.
    assert [load.demoted_bytes for load in got.loads] == [0, 0, 8, 0]
    assert [load.channel_bytes for load in got.loads] == [12, 12 + 8, 12 + 8, 8]
    assert [load.served_bytes for load in got.loads] == [0, 0, 4, 8]


@given(rows=ROWS, sizes=st.lists(st.tuples(POLICIES, st.integers(0, 90)), min_size=1, max_size=3), at=st.integers(0, 3))
@pytest.mark.parametrize("inclusion", [EXCLUSIVE, "independent"])
def test_a_level_that_holds_nothing_changes_no_other(
    inclusion: str, rows: list[list[tuple[int, int]]], sizes: list[tuple[str, int]], at: int
) -> None:
    at = min(at, len(sizes))
    expected = played(rows, sizes, inclusion)
    got = played(rows, [*sizes[:at], ("lru", 0), *sizes[at:]], inclusion)
    empty, others = got.loads[at], [*got.loads[:at], *got.loads[at + 1 :]]
    assert empty.served_bytes == empty.hits == empty.evictions == empty.demoted_bytes == 0
    for left, right in zip(others, expected.loads, strict=True):
        assert np.array_equal(left.operation_bytes, right.operation_bytes)
        assert (left.hits, left.evictions, left.demoted_bytes) == (right.hits, right.evictions, right.demoted_bytes)


@pytest.mark.parametrize("cache", [Belady(8), ForcedHitRatio(0.5)])
def test_policies_that_cannot_give_up_an_object_are_refused(cache: Cache) -> None:
    stack = Hierarchy((Level(name="a", cache=cache), Level(name="b")), inclusion=INCLUSIVE)
    with pytest.raises(SimulationInputError, match="lru or fifo"):
        replay_levels(Accesses.of([[(1, 4)]]), stack)


def test_pins_are_for_independent_levels() -> None:
    stack = Hierarchy((Level(name="a", cache=SizedCache("lru", 8)), Level(name="b")), {"key": "a"}, EXCLUSIVE)
    with pytest.raises(SimulationInputError, match="no pins"):
        replay_levels(Accesses.of([[(1, 4)]]), stack, access_class=np.zeros(1, np.int8), class_names=("key",))


def test_an_unknown_inclusion_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="inclusive"):
        hierarchy([("lru", 8)], "inclusiv")


def test_a_part_of_the_on_chip_memory_is_a_level() -> None:
    sharp = load_machines(["sharp"])[0]
    stack = load_hierarchy("on-chip.buffer,on-chip.register_file,hbm:2 GB,nvme-gen5", sharp)
    assert [level.capacity_bytes for level in stack.levels] == [18_000_000, 180_000_000, 2_000_000_000, None]
    assert not stack.levels[1].is_timed
    assert changed(stack, inclusion=EXCLUSIVE).name.endswith("(exclusive)")
    with pytest.raises(MachineError, match="it has buffer, register_file"):
        load_hierarchy("on-chip.register_fil,hbm", sharp)


def test_a_file_of_levels_says_what_they_know_of_each_other(tmp_path: Path) -> None:
    path = tmp_path / "levels.toml"
    text = 'inclusion = "{}"\n[[levels]]\ntier = "hbm"\ncapacity = "1 GB"\n[[levels]]\ntier = "nvme-gen5"\n'
    path.write_text(text.format("exclusive"))
    sharp = load_machines(["sharp"])[0]
    assert load_hierarchy(path, sharp).inclusion == EXCLUSIVE
    path.write_text(text.format("exclusiv"))
    with pytest.raises(MachineError, match="did you mean 'exclusive'"):
        load_hierarchy(path, sharp)


def test_inclusion_without_levels_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["simulate", "inner-product", "--params", "sharp", "--machine", "sharp", "--inclusion", "exclusive"]
    assert main(command) == 2
    assert "--levels" in capsys.readouterr().err


@given(rows=ROWS, sizes=st.lists(st.tuples(POLICIES, st.integers(0, 90)), min_size=1, max_size=3))
def test_what_needs_more_than_the_first_level_has_is_counted_by_its_need(
    rows: list[list[tuple[int, int]]], sizes: list[tuple[str, int]]
) -> None:
    """Not by what is held of it elsewhere."""
    got = played(rows, sizes, EXCLUSIVE)
    assert got.loads[0].streamed == sum(need > sizes[0][1] for row in rows for _, need in row)
