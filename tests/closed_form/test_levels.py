"""Several levels against what must hold: one cache and a tier, conservation, stated shares, pinned data."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.lab.simulation.memory.levels import Hierarchy, Level
from penstock.lab.simulation.memory.levels_replay import replay_levels
from penstock.lab.simulation.memory.levels_time import play_levels
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import POLICIES, Cache, ForcedHitRatio, Lru, NoCache, Optimal, SizedCache
from penstock.scheme.play.hierarchy import Mode, Prefetch, Rates, replay
from twins.laws import play

ROWS = st.lists(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 20)), max_size=4), max_size=30)
CACHES = st.one_of(
    st.builds(SizedCache, st.sampled_from(sorted(POLICIES)), st.integers(0, 80)),
    st.builds(ForcedHitRatio, st.sampled_from([0.0, 0.25, 0.5, 1.0])),
    st.just(NoCache()),
)
CLASSES = ("key", "plaintext")
TIER = Rates(bandwidth_bytes_per_s=1e9, latency_s=2e-9, energy_j_per_byte=1e-9)


def classes_of(accesses: Accesses) -> np.ndarray:
    """Objects 0, 2, … are keys, the others plaintexts."""
    return (accesses.access_object % 2).astype(np.int8)


@pytest.mark.parametrize("cache", [NoCache(), Lru(40), Optimal(33), ForcedHitRatio(0.3)])
@pytest.mark.parametrize("mode", get_args(Mode))
@given(rows=ROWS, decode=st.sampled_from([None, 3e8]), depth=st.sampled_from([0, 1, 3, None]))
def test_a_cache_over_one_level_is_a_cache_over_a_tier(
    cache: Cache, mode: Mode, rows: list[list[tuple[int, int]]], decode: float | None, depth: int | None
) -> None:
    accesses = Accesses.of(rows)
    compute = np.linspace(0, 3e-8, len(rows))
    buffer = 25 if depth == 3 else None
    one = play(
        compute,
        accesses,
        cache,
        TIER,
        mode=mode,
        decode_bytes_per_s=decode,
        prefetch_depth=depth,
        prefetch_buffer_bytes=buffer,
    )
    hierarchy = Hierarchy((Level(name="chip", cache=cache), Level(name="tier", tier=TIER, decode_bytes_per_s=decode)))
    loaded = replay_levels(accesses, hierarchy)
    two = play_levels(compute, loaded, mode=mode, prefetch=Prefetch(depth, buffer))
    # A forced hit ratio scales sums in another order.
    exact = 1e-15 if isinstance(cache, ForcedHitRatio) else 0.0
    assert two.total_s == pytest.approx(one.total_s, rel=exact)
    assert (two.compute_s, two.decode_s) == (one.compute_s, pytest.approx(one.decode_s, rel=exact))
    assert two.io_s == pytest.approx(one.io_s, rel=exact)
    assert loaded.waited_for.channel_bytes == pytest.approx(one.io_bytes)
    assert two.energy_j == pytest.approx(one.energy_j)
    assert loaded.byte_hit_ratio == pytest.approx(one.hit_ratio)


@given(
    rows=ROWS,
    caches=st.lists(CACHES, max_size=3),
    pinned=st.integers(-1, 3),
    shares=st.lists(st.integers(-1, 10), min_size=3, max_size=3),
)
def test_every_byte_is_served_by_one_level(
    rows: list[list[tuple[int, int]]], caches: list[Cache], pinned: int, shares: list[int]
) -> None:
    accesses = Accesses.of(rows)
    levels = []
    for i, (cache, share) in enumerate(zip(caches, shares, strict=False)):
        if isinstance(cache, SizedCache):
            # What is pinned finds room beside the share.
            roomy = SizedCache(cache.policy, cache.capacity_bytes + (200 if i == pinned else 0))
            shared = {"key": share} if 0 <= share <= cache.capacity_bytes else {}
            levels.append(Level(name=str(i), cache=roomy, shares=shared))
        else:
            levels.append(Level(name=str(i), cache=cache))
    levels.append(Level(name="last"))
    pins = {"plaintext": str(pinned)} if 0 <= pinned < len(caches) else {}
    got = replay_levels(
        accesses, Hierarchy(tuple(levels), pins), access_class=classes_of(accesses), class_names=CLASSES
    )
    asked = int(accesses.access_bytes.sum())
    assert sum(load.served_bytes for load in got.loads) == pytest.approx(asked, rel=1e-12)
    assert sum(load.hits for load in got.loads) == pytest.approx(len(accesses), rel=1e-12)
    for above, below in zip(got.loads, got.loads[1:], strict=False):
        # What a level does not serve, it asks of the next.
        rest = above.operation_bytes.sum() - above.served_bytes
        assert below.operation_bytes.sum() == pytest.approx(rest, rel=1e-9, abs=1e-9)
        assert below.operation_transfers.sum() == pytest.approx(above.misses, rel=1e-9, abs=1e-9)
    if pins and (classes_of(accesses) == 1).all():
        assert sum(int(load.operation_transfers.sum()) for load in got.loads[pinned + 1 :]) == 0


@given(ratios=st.lists(st.floats(0, 1), min_size=1, max_size=4))
def test_stated_hit_ratios_multiply(ratios: list[float]) -> None:
    accesses = Accesses.of([[(1, 700), (2, 300)], [], [(1, 1000)]])
    levels = [Level(name=str(i), cache=ForcedHitRatio(ratio)) for i, ratio in enumerate(ratios)]
    got = replay_levels(accesses, Hierarchy((*levels, Level(name="last"))))
    left = 1.0
    for load, ratio in zip(got.loads, [*ratios, 1.0], strict=True):
        assert load.channel_bytes == pytest.approx(2000 * left, rel=1e-12)
        assert load.served_bytes == pytest.approx(2000 * left * ratio, rel=1e-12)
        assert load.hits == pytest.approx(3 * left * ratio, rel=1e-12)
        left *= 1 - ratio


def test_three_levels_by_hand() -> None:
    # Chip holds one object of 100, memory two, the drive all. 1 2 3 1 1 2: chip hits the second 1 in a row.
    accesses = Accesses.one_each([1, 2, 3, 1, 1, 2], [100] * 6)
    memory = Rates(bandwidth_bytes_per_s=100.0, energy_j_per_byte=1.0)
    drive = Rates(bandwidth_bytes_per_s=10.0, latency_s=1.0, energy_j_per_byte=5.0)
    hierarchy = Hierarchy(
        (
            Level(name="chip", cache=Lru(100)),
            Level(name="memory", cache=Lru(200), tier=memory),
            Level(name="drive", tier=drive),
        )
    )
    got = replay_levels(accesses, hierarchy)
    # Memory sees 1 2 3 1 2 and holds two: every one misses.
    assert [load.hits for load in got.loads] == [1, 0, 5]
    assert [load.served_bytes for load in got.loads] == [100, 0, 500]
    assert got.loads[2].operation_bytes.tolist() == [100, 100, 100, 100, 0, 100]
    played = play_levels([1.0] * 6, got)
    assert [row["busy_s"] for row in played.levels or ()] == [0.0, 5.0, 55.0]
    assert (played.total_s, played.stages[-1].idle_s, played.io_s) == (66.0, 60.0, 60.0)
    assert [row["energy_j"] for row in played.levels or ()] == [0.0, 500.0, 2500.0]
    assert [stage.name for stage in played.stages] == ["drive", "memory", "compute"]
    # With everything under way at once, the drive is busy all the time, and the last object passes memory and compute.
    ahead = play_levels([1.0] * 6, got, mode="overlap", prefetch=Prefetch(None), timeline=True)
    assert ahead.total_s == 55.0 + 1.0 + 1.0
    assert ahead.stages[0].start_s is not None
    assert ahead.stages[0].start_s.tolist() == [0.0, 11.0, 22.0, 33.0, 44.0, 44.0]
    assert play_levels([1.0] * 6, got, mode="bound").total_s == 55.0


def test_a_larger_part_comes_from_where_it_is() -> None:
    # 60 bytes are on chip when 100 are asked for; memory has 80 of them from before, the drive the last 20.
    accesses = Accesses.of([[(1, 80)], [(2, 60)], [(1, 60)], [(1, 100)]])
    hierarchy = Hierarchy(
        (Level(name="chip", cache=Lru(90)), Level(name="memory", cache=Lru(500)), Level(name="drive", tier=TIER))
    )
    got = replay_levels(accesses, hierarchy)
    assert [load.served_bytes for load in got.loads] == [60, 20 + 60, 80 + 60 + 20]
    assert got.loads[1].operation_bytes.tolist() == [80, 60, 60, 40]
    assert got.loads[2].operation_bytes.tolist() == [80, 60, 0, 20]


def test_a_pinned_class_takes_its_room_and_is_never_asked_for_below() -> None:
    # Keys 0 and 2 (30 bytes each) live in memory; plaintext 1 has what is left of it, 40 bytes.
    accesses = Accesses.of([[(0, 30), (1, 40)], [(2, 30), (1, 40)], [(0, 20), (1, 40)]])
    hierarchy = Hierarchy((Level(name="memory", cache=Lru(100)), Level(name="drive", tier=TIER)), {"key": "memory"})
    got = replay_levels(accesses, hierarchy, access_class=classes_of(accesses), class_names=CLASSES)
    assert got.loads[0].pinned_bytes == 60
    assert got.loads[1].operation_bytes.tolist() == [40, 0, 0]
    # One byte less, and the plaintext passes by.
    tight = Hierarchy((Level(name="memory", cache=Lru(99)), Level(name="drive", tier=TIER)), {"key": "memory"})
    got = replay_levels(accesses, tight, access_class=classes_of(accesses), class_names=CLASSES)
    assert got.loads[1].operation_bytes.tolist() == [40, 40, 40]
    assert got.loads[0].streamed == 3
    assert "give it room for the largest object" in got.warnings[0]


def test_temporary_objects_take_room_only_while_they_live() -> None:
    accesses = Accesses.of([[(0, 30)], [(0, 30), (2, 50)], [(2, 50)], [(4, 60)]])
    hierarchy = Hierarchy((Level(name="memory", cache=Lru(80)), Level(name="drive", tier=TIER)), {"key": "memory"})
    got = replay_levels(accesses, hierarchy, access_class=classes_of(accesses), class_names=CLASSES, temporary=("key",))
    assert got.loads[0].pinned_bytes == 80  # 30 + 50 at the second operation


def test_a_share_keeps_a_class_from_being_pushed_out_and_from_pushing() -> None:
    # Key 0 in turn with plaintexts 1, 3, 5, 7 that never come back: LRU of 2 objects loses it each time.
    rows = [[(0, 10), (1 + 2 * (i % 4), 10), (1 + 2 * ((i + 1) % 4), 10)] for i in range(8)]
    accesses = Accesses.of(rows)

    def key_bytes(shares: dict[str, int]) -> int:
        hierarchy = Hierarchy((Level(name="chip", cache=Lru(20), shares=shares), Level(name="drive", tier=TIER)))
        got = replay_levels(accesses, hierarchy, access_class=classes_of(accesses), class_names=CLASSES)
        return int(got.loads[1].channel_bytes)

    alone = replay(accesses, Lru(20)).miss_bytes
    assert key_bytes({}) == alone
    # The key is loaded once; with a share of nothing it passes by each time.
    plaintexts = Accesses.of([row[1:] for row in rows])
    assert key_bytes({"key": 10}) == 10 + replay(plaintexts, Lru(10)).miss_bytes
    assert key_bytes({"key": 0}) == 80 + replay(plaintexts, Lru(20)).miss_bytes
