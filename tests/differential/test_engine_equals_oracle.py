"""Rust = Python twin, integer for integer, on random traces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import _engine
from penstock.simulate import oracle

Rows = list[list[tuple[int, int]]]

# Few objects and small sizes, so that caches fill, objects grow and some do not fit.
ROWS = st.lists(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 20)), max_size=4), max_size=40)
EQUAL_ROWS = st.lists(st.lists(st.tuples(st.integers(0, 9), st.just(3)), max_size=4), max_size=60)
CAPACITY = st.integers(0, 70)
POLICIES = [name for name, _, _ in _engine.policies()]
CACHE_COUNTS = (
    "hits", "misses", "hit_bytes", "total_miss_bytes", "evictions", "streamed", "peak_resident_bytes",
)  # fmt: skip


def lists(rows: Rows) -> tuple[list[int], list[int], list[int]]:
    start = np.cumsum([0, *map(len, rows)]).tolist()
    return start, [obj for row in rows for obj, _ in row], [size for row in rows for _, size in row]


def arrays(rows: Rows, ids: type = np.int64, spread: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    start, objects, sizes = lists(rows)
    return (
        np.array(start, dtype=np.int64),
        np.array([spread * obj for obj in objects], dtype=ids),
        np.array(sizes, dtype=np.int64),
    )


def assert_equal(got: _engine.Replay, expected: oracle.OracleReplay) -> None:
    assert got.miss_bytes.tolist() == expected.miss_bytes
    assert got.transfers.tolist() == expected.transfers
    assert got.hit_mask is not None
    assert got.hit_mask.tolist() == expected.hit_mask
    assert {name: getattr(got, name) for name in CACHE_COUNTS} == {
        name: getattr(expected, name) for name in CACHE_COUNTS
    }


@pytest.mark.parametrize("policy", POLICIES)
@given(rows=st.one_of(ROWS, EQUAL_ROWS), capacity=CAPACITY)
def test_every_policy_replays_as_its_twin(policy: str, rows: Rows, capacity: int) -> None:
    expected = oracle.replay(*lists(rows), policy, capacity)
    assert_equal(_engine.replay(*arrays(rows), policy, capacity, hit_mask=True), expected)


@pytest.mark.parametrize("policy", POLICIES)
@given(rows=ROWS, capacity=CAPACITY)
def test_width_and_spread_of_object_ids_change_nothing(policy: str, rows: Rows, capacity: int) -> None:
    expected = oracle.replay(*lists(rows), policy, capacity)
    assert_equal(_engine.replay(*arrays(rows, np.int32), policy, capacity, hit_mask=True), expected)
    # Sparse ids are renumbered, in both widths.
    assert_equal(_engine.replay(*arrays(rows, np.int32, 300_000_000), policy, capacity, hit_mask=True), expected)
    assert_equal(_engine.replay(*arrays(rows, np.int64, 10**17), policy, capacity, hit_mask=True), expected)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_long_trace_with_partial_sizes_replays_as_its_twin(policy: str) -> None:
    generator = np.random.default_rng(20)
    objects = (generator.zipf(1.3, 6000) % 300).tolist()
    sizes = (generator.integers(1, 9, 6000) * 100).tolist()
    start = list(range(0, 6001, 3))
    for capacity in (799, 800, 20_000, 60_000, 10**6):
        expected = oracle.replay(start, objects, sizes, policy, capacity)
        got = _engine.replay(np.array(start), np.array(objects), np.array(sizes), policy, capacity, hit_mask=True)
        assert_equal(got, expected)
        assert expected.hits > 0


@given(rows=ROWS)
def test_no_cache_loads_as_its_twin(rows: Rows) -> None:
    assert_equal(_engine.replay_uncached(*arrays(rows), hit_mask=True), oracle.replay_uncached(*lists(rows)))


@given(rows=ROWS, hit_ratio=st.floats(0, 1))
def test_a_forced_hit_ratio_loads_as_its_twin(rows: Rows, hit_ratio: float) -> None:
    start, _, sizes = lists(rows)
    got = _engine.replay_forced(np.array(start), np.array(sizes, dtype=np.int64), hit_ratio)
    assert (got.miss_bytes.tolist(), got.transfers.tolist()) == oracle.replay_forced(start, sizes, hit_ratio)
    assert (got.accesses, got.requested_bytes) == (len(sizes), sum(sizes))


# The slowest rate and the most bytes together pass the end of the clock.
RATE = st.one_of(st.floats(1e6, 1e13), st.sampled_from([1e4, 1e9, 12.5e9, 1e12]))
OPERATIONS = st.lists(
    st.tuples(
        st.one_of(st.floats(0, 1e-15), st.floats(1e-12, 1e3), st.sampled_from([0.0, 0.5e-18, 1.5e-18, 2.5e-18])),
        st.one_of(st.just(0.0), st.floats(0, 1e12), st.integers(0, 10**9).map(float)),
        st.one_of(st.floats(0, 3), st.integers(0, 3).map(float)),
    ),
    max_size=30,
)
SCHEDULE = ("io_start_s", "io_end_s", "decode_start_s", "decode_end_s", "compute_start_s", "compute_end_s")
SUMS = ("compute_s", "io_s", "decode_s", "total_s", "stall_s")


@pytest.mark.parametrize("mode", ["serial", "overlap", "bound"])
@given(
    operations=OPERATIONS,
    bandwidth=RATE,
    latency=st.one_of(st.just(0.0), st.floats(0, 1)),
    decode=st.one_of(st.just(float("inf")), RATE),
    depth=st.integers(0, 35),
)
def test_every_mode_plays_time_as_its_twin(
    mode: str, operations: list[tuple[float, float, float]], bandwidth: float, latency: float, decode: float, depth: int
) -> None:
    columns = [list(column) for column in zip(*operations, strict=True)] or [[], [], []]
    arguments = (bandwidth, latency, decode, mode, depth)
    work = [np.array(column, dtype=np.float64) for column in columns]
    try:
        expected = oracle.play_time(*columns, *arguments)
    except OverflowError:
        with pytest.raises(OverflowError, match="about 106 days"):
            _engine.play_time(*work, *arguments)
        return
    got = _engine.play_time(*work, *arguments, timeline=mode != "bound")
    many = _engine.play_time_many(*work, *([argument] * 2 for argument in arguments))
    for name in SUMS:
        assert getattr(got, name) == getattr(expected, name), name
        assert getattr(many, name).tolist() == [getattr(expected, name)] * 2, name
    if mode != "bound":
        assert [getattr(got.schedule, name).tolist() for name in SCHEDULE] == expected.schedule


def test_every_policy_of_the_engine_has_a_twin() -> None:
    assert sorted(POLICIES) == sorted(oracle.POLICIES)
