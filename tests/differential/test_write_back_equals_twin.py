"""Results written back: from what channels read = byte by byte = by a cache with dirty objects."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import SimulationInputError
from penstock.lab.simulation.memory.levels import EXCLUSIVE, Hierarchy, Level, cache_over
from penstock.lab.simulation.memory.levels_replay import replay_levels
from penstock.lab.simulation.memory.levels_time import play_levels
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import ForcedHitRatio, Lru, NoCache, Optimal, SizedCache
from penstock.scheme.play.hierarchy import Rates
from twins import engine as oracle

Rows = list[list[tuple[int, int, bool]]]
ONLINE = sorted(set(oracle.TWINS) - {"belady", "optimal"})
LEVELS = st.lists(st.tuples(st.sampled_from(ONLINE), st.integers(0, 90)), max_size=3)
INPUTS = 3


@st.composite
def programs(draw: st.DrawFn) -> Rows:
    """Operations that read inputs or earlier results, whole or in part, and make one result each."""
    sizes = draw(st.lists(st.integers(1, 20), min_size=1, max_size=25))
    rows: Rows = []
    for i, size in enumerate(sizes):
        known = draw(st.lists(st.integers(0, INPUTS + i - 1), max_size=3))
        reads = [(obj, draw(st.integers(1, 20 if obj < INPUTS else sizes[obj - INPUTS])), False) for obj in known]
        rows.append([*reads, (INPUTS + i, size, True)])
    return rows


def accesses_of(rows: Rows) -> Accesses:
    flat = [each for row in rows for each in row]
    return Accesses(
        np.cumsum([0, *map(len, rows)]),
        np.array([obj for obj, _, _ in flat]),
        np.array([size for _, size, _ in flat]),
        np.array([made for _, _, made in flat]),
    )


def stacked(levels: list[tuple[str, int]]) -> Hierarchy:
    return Hierarchy(
        (*(Level(name=str(i), cache=SizedCache(*each)) for i, each in enumerate(levels)), Level(name="last"))
    )


@given(rows=programs(), levels=LEVELS)
def test_what_is_read_back_was_written_byte_by_byte(rows: Rows, levels: list[tuple[str, int]]) -> None:
    got = replay_levels(accesses_of(rows), stacked(levels), write_back=True)
    assert [load.written[0].tolist() for load in got.loads if load.written] == oracle.written_back(
        rows, [*levels, None]
    )
    plain = replay_levels(accesses_of(rows), stacked(levels))
    assert [load.operation_bytes.tolist() for load in got.loads] == [
        load.operation_bytes.tolist() for load in plain.loads
    ]


@given(rows=programs(), room=st.integers(0, 12))
def test_whole_objects_of_one_size_are_written_when_a_dirty_one_is_evicted(rows: Rows, room: int) -> None:
    whole = [[(obj, 10, made) for obj, _, made in row] for row in rows]
    last_read = {obj: i for i, row in enumerate(whole) for obj, _, made in row if not made}
    written = 0
    cache: OrderedDict[int, bool] = OrderedDict()  # object -> dirty
    for i, row in enumerate(whole):
        for place, (obj, size, made) in enumerate(row):
            dirty = made or cache.pop(obj, False)
            if room == 0:
                written += size if made and last_read.get(obj, -1) >= i else 0
                continue
            cache[obj] = dirty
            if len(cache) > room:
                victim, was_dirty = cache.popitem(last=False)
                later = victim in {each for each, _, is_made in row[place:] if not is_made}
                written += size if was_dirty and (last_read.get(victim, -1) > i or later) else 0
    got = replay_levels(
        accesses_of(whole), cache_over(Lru(10 * room), Rates(bandwidth_bytes_per_s=1e9), "t"), write_back=True
    )
    assert got.loads[-1].written_bytes == written


@given(rows=programs(), capacity=st.integers(0, 200))
def test_no_byte_is_written_that_is_not_read_from_there_and_none_twice(rows: Rows, capacity: int) -> None:
    accesses = accesses_of(rows)
    for cache in (NoCache(), Lru(capacity), Optimal(capacity)):
        got = replay_levels(accesses, cache_over(cache, Rates(bandwidth_bytes_per_s=1e9), "t"), write_back=True)
        below = got.loads[-1]
        assert 0 <= below.written_bytes <= below.channel_bytes
        assert below.written_bytes <= int(accesses.access_bytes[~accesses.is_read].sum())


def test_writing_takes_the_channels_time_and_energy() -> None:
    rows: Rows = [[(0, 8, False), (3, 8, True)], [(0, 8, False), (4, 4, True)], [(3, 6, False), (5, 2, True)], []]
    fast = Rates(bandwidth_bytes_per_s=8.0, latency_s=0.5, energy_j_per_byte=2.0)

    class Slow:
        """Writes at half the rate."""

        bandwidth_bytes_per_s, latency_s, energy_j_per_byte, write_bandwidth_bytes_per_s = 8.0, 0.5, 2.0, 4.0

    for tier, rate in ((fast, 8.0), (Slow(), 4.0)):
        loaded = replay_levels(accesses_of(rows), cache_over(NoCache(), tier, "t"), write_back=True)
        # Object 3 is read back by 6 of its 8 bytes; it is moved with the operation after the one that made it.
        assert loaded.loads[0].written_bytes == 6
        assert loaded.loads[0].written is not None
        assert loaded.loads[0].written[0].tolist() == [0, 6, 0, 0]
        played = play_levels([1.0] * 4, loaded)
        reads_s = (8 + 8 + 6) / 8 + 3 * 0.5
        assert played.io_s == pytest.approx(reads_s + 6 / rate + 0.5)
        assert played.total_s == pytest.approx(4 + played.io_s)
        assert played.energy_j == 2.0 * (22 + 6)
        assert [("no rate of writing" in each) for each in played.warnings] == ([True] if rate == 8 else [])
    without = play_levels([1.0] * 4, replay_levels(accesses_of(rows), cache_over(NoCache(), fast, "t")))
    assert without.io_s == pytest.approx(reads_s)


def test_what_says_nothing_of_single_results_is_refused() -> None:
    accesses = accesses_of([[(3, 8, True)], [(3, 8, False)]])
    tier = Rates(bandwidth_bytes_per_s=1e9)
    with pytest.raises(SimulationInputError, match="a stated hit ratio does not say which results"):
        replay_levels(accesses, cache_over(ForcedHitRatio(0.5), tier, "t"), write_back=True)
    levels = Hierarchy((Level(name="a", cache=Lru(9)), Level(name="b", tier=tier)), inclusion=EXCLUSIVE)
    with pytest.raises(SimulationInputError, match="written back by independent levels; these are exclusive"):
        replay_levels(accesses, levels, write_back=True)
