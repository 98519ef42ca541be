"""Several levels, replayed one after the other by the engine = one access after the other by the twin."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.lab.simulation.memory.levels import Hierarchy, Level
from penstock.lab.simulation.memory.levels_replay import replay_levels
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import POLICIES, SizedCache
from twins import engine as oracle

ROWS = st.lists(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 20)), max_size=4), max_size=40)
ONLINE = sorted(name for name in oracle.TWINS if not POLICIES[name].knows_future)
LEVELS = st.lists(st.tuples(st.sampled_from(ONLINE), st.integers(0, 90)), max_size=3)


@given(rows=ROWS, levels=LEVELS)
def test_levels_replay_as_their_twin(rows: list[list[tuple[int, int]]], levels: list[tuple[str, int]]) -> None:
    expected = oracle.replay_levels(rows, [*levels, None])
    hierarchy = Hierarchy(
        (*(Level(name=str(i), cache=SizedCache(*each)) for i, each in enumerate(levels)), Level(name="last"))
    )
    got = replay_levels(Accesses.of(rows), hierarchy)
    assert [load.operation_bytes.tolist() for load in got.loads] == [each.operation_bytes for each in expected]
    assert [load.operation_transfers.tolist() for load in got.loads] == [each.operation_transfers for each in expected]
    assert [(load.served_bytes, load.hits) for load in got.loads] == [
        (each.served_bytes, each.hits) for each in expected
    ]


def test_a_long_trace_through_three_caches_replays_as_its_twin() -> None:
    generator = np.random.default_rng(4)
    rows = [
        [(int(obj), int(size)) for obj, size in zip(objects, sizes, strict=True)]
        for objects, sizes in zip(
            generator.zipf(1.3, (400, 3)) % 60, generator.integers(1, 9, (400, 3)) * 100, strict=True
        )
    ]
    levels = [("lru", 1500), ("s3-fifo", 6000), ("lfu", 20_000)]
    expected = oracle.replay_levels(rows, [*levels, None])
    hierarchy = Hierarchy(
        (*(Level(name=str(i), cache=SizedCache(*each)) for i, each in enumerate(levels)), Level(name="last"))
    )
    got = replay_levels(Accesses.of(rows), hierarchy)
    assert [load.served_bytes for load in got.loads] == [each.served_bytes for each in expected]
    assert all(load.served_bytes > 0 for load in got.loads)
