"""Rust = Python twin, integer for integer, on random traces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import _engine
from penstock.errors import ClockOverflow
from twins import engine as oracle
from twins.policies import Priorities

Rows = list[list[tuple[int, int]]]

# Few objects and small sizes, so that caches fill, objects grow and some do not fit.
ROWS = st.lists(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 20)), max_size=4), max_size=40)
EQUAL_ROWS = st.lists(st.lists(st.tuples(st.integers(0, 9), st.just(3)), max_size=4), max_size=60)
CAPACITY = st.integers(0, 70)
POLICIES = [each.name for each in _engine.policies() if each.name in oracle.TWINS]
CACHE_COUNTS = (
    "hits",
    "misses",
    "hit_bytes",
    "total_miss_bytes",
    "evictions",
    "streamed",
    "peak_resident_bytes",
)


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
    assert got.access_miss_bytes is not None
    assert got.access_miss_bytes.tolist() == expected.access_miss_bytes
    assert {name: getattr(got, name) for name in CACHE_COUNTS} == {
        name: getattr(expected, name) for name in CACHE_COUNTS
    }


@pytest.mark.parametrize("policy", POLICIES)
@given(rows=st.one_of(ROWS, EQUAL_ROWS), capacity=CAPACITY)
def test_every_policy_replays_as_its_twin(policy: str, rows: Rows, capacity: int) -> None:
    expected = oracle.replay(*lists(rows), policy, capacity)
    assert_equal(_engine.replay(*arrays(rows), policy, capacity, detail=True), expected)


@pytest.mark.parametrize("policy", POLICIES)
@given(rows=ROWS, capacity=CAPACITY)
def test_width_and_spread_of_object_ids_change_nothing(policy: str, rows: Rows, capacity: int) -> None:
    expected = oracle.replay(*lists(rows), policy, capacity)
    assert_equal(_engine.replay(*arrays(rows, np.int32), policy, capacity, detail=True), expected)
    # Sparse ids are renumbered, in both widths.
    assert_equal(_engine.replay(*arrays(rows, np.int32, 300_000_000), policy, capacity, detail=True), expected)
    assert_equal(_engine.replay(*arrays(rows, np.int64, 10**17), policy, capacity, detail=True), expected)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_long_trace_with_partial_sizes_replays_as_its_twin(policy: str) -> None:
    generator = np.random.default_rng(20)
    length = 600 if policy == "optimal" else 6000  # this twin looks through the whole future at every access
    objects = (generator.zipf(1.3, length) % 300).tolist()
    sizes = (generator.integers(1, 9, length) * 100).tolist()
    start = list(range(0, length + 1, 3))
    for capacity in (799, 800, 20_000, 60_000, 10**6):
        expected = oracle.replay(start, objects, sizes, policy, capacity)
        got = _engine.replay(np.array(start), np.array(objects), np.array(sizes), policy, capacity, detail=True)
        assert_equal(got, expected)
        assert expected.hits > 0


@given(
    rows=st.one_of(ROWS, EQUAL_ROWS),
    capacity=CAPACITY,
    values=st.lists(
        st.sampled_from([-2.5, -0.0, 0.0, 1.0, 7.25, float("inf"), float("nan")]), min_size=240, max_size=240
    ),
    flags=st.fixed_dictionaries({name: st.booleans() for name in ("on_hit", "bypass", "aging")}),
)
def test_priorities_replay_as_their_twin(
    rows: Rows, capacity: int, values: list[float], flags: dict[str, bool]
) -> None:
    of_access = values[: sum(map(len, rows))]
    expected = oracle.replay(*lists(rows), Priorities(of_access, **flags), capacity)
    got = _engine.replay_priorities(
        *arrays(rows), np.array(of_access, dtype=np.float64), capacity, **flags, detail=True
    )
    assert_equal(got, expected)


@given(rows=ROWS)
def test_uses_are_those_of_each_object(rows: Rows) -> None:
    objects = lists(rows)[1]
    got, m = _engine.uses(*arrays(rows)), len(objects)
    for at, obj in enumerate(objects):
        assert got.next[at] == next((i for i in range(at + 1, m) if objects[i] == obj), m)
        assert got.last[at] == next((i for i in reversed(range(at)) if objects[i] == obj), -1)
        assert got.count[at] == objects[: at + 1].count(obj)


@given(rows=ROWS)
def test_no_cache_loads_as_its_twin(rows: Rows) -> None:
    assert_equal(_engine.replay_uncached(*arrays(rows), detail=True), oracle.replay_uncached(*lists(rows)))


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
        with pytest.raises(ClockOverflow, match="about 106 days"):
            _engine.play_time(*work, *arguments)
        return
    got = _engine.play_time(*work, *arguments, timeline=mode != "bound")
    many = _engine.play_time_many(*work, *([argument] * 2 for argument in arguments))
    for name in SUMS:
        assert getattr(got, name) == getattr(expected, name), name
        assert getattr(many, name).tolist() == [getattr(expected, name)] * 2, name
    if mode != "bound":
        assert [getattr(got.schedule, name).tolist() for name in SCHEDULE] == expected.schedule


def test_every_twin_is_of_a_policy_of_the_engine() -> None:
    assert sorted(POLICIES) == sorted(oracle.TWINS)


@pytest.mark.parametrize("policy", POLICIES)
@given(objects=st.lists(st.integers(0, 30), max_size=150), capacity=st.integers(0, 25))
def test_every_policy_replays_long_runs_of_small_objects_as_its_twin(
    policy: str, objects: list[int], capacity: int
) -> None:
    # Queues and ghosts of many objects; sizes 1 and 2.
    rows = [[(obj, 1 + obj % 2)] for obj in objects]
    assert_equal(
        _engine.replay(*arrays(rows), policy, capacity, detail=True), oracle.replay(*lists(rows), policy, capacity)
    )


STAGE_SECONDS = st.one_of(st.just(0.0), st.floats(1e-12, 1e3), st.sampled_from([0.5e-18, 1.5e-18, 1.0, 2.0]))
HELD = st.one_of(st.integers(0, 12).map(float), st.floats(0, 12))


@pytest.mark.parametrize("mode", ["serial", "overlap", "bound"])
@given(
    operations=st.lists(st.tuples(STAGE_SECONDS, STAGE_SECONDS, STAGE_SECONDS, HELD), max_size=25),
    num_stages=st.integers(1, 3),
    depth=st.one_of(st.none(), st.integers(0, 30)),
    buffer=st.one_of(st.none(), HELD, st.just(1e9)),
    own=st.one_of(st.none(), st.lists(st.integers(0, 30), min_size=25, max_size=25)),
)
def test_stages_play_as_their_twin(
    mode: str,
    operations: list[tuple[float, float, float, float]],
    num_stages: int,
    depth: int | None,
    buffer: float | None,
    own: list[int] | None,
) -> None:
    *stages, held = [list(column) for column in zip(*operations, strict=True)] or [[]] * 4
    stages = stages[:num_stages]
    depths = None if own is None else own[: len(held)]
    expected = oracle.play_stages(stages, held, mode, depth, buffer, depths)
    got = _engine.play_stages(
        [np.array(stage) for stage in stages],
        np.array(held),
        mode,
        depth,
        buffer,
        timeline=mode != "bound",
        prefetch_depths=None if depths is None else np.array(depths, dtype=np.int64),
    )
    assert (got.busy_s, got.idle_s, got.total_s) == (expected.busy_s, expected.idle_s, expected.total_s)
    assert got.oversized == expected.oversized
    if mode != "bound":
        assert got.start_s is not None
        assert got.end_s is not None
        assert [each.tolist() for each in got.start_s] == expected.start_s
        assert [each.tolist() for each in got.end_s] == expected.end_s


@given(
    operations=st.lists(st.tuples(STAGE_SECONDS, st.integers(1, 10**9)), max_size=25),
    decode=st.one_of(st.just(float("inf")), RATE),
    depth=st.integers(0, 30),
)
def test_one_channel_plays_alike_by_both_engines_of_time(
    operations: list[tuple[float, int]], decode: float, depth: int
) -> None:
    compute = np.array([s for s, _ in operations])
    loaded = np.array([float(b) for _, b in operations])
    one = _engine.play_time(compute, loaded, np.ones(len(loaded)), 1e9, 1e-6, decode, "overlap", depth, timeline=True)
    stages = [loaded / 1e9 + np.ones(len(loaded)) * 1e-6, loaded / decode, compute]
    other = _engine.play_stages(stages, loaded, "overlap", depth, None, timeline=True)
    assert (other.busy_s, other.total_s) == ([one.io_s, one.decode_s, one.compute_s], one.total_s)
    assert other.start_s is not None
    assert one.schedule is not None
    assert other.start_s[0].tolist() == one.schedule.io_start_s.tolist()
    assert other.start_s[2].tolist() == one.schedule.compute_start_s.tolist()
