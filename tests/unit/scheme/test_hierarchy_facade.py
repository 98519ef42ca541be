"""The facade: its arguments, its refusals with their words, and its calls of the engine."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType, SimpleNamespace

import numpy as np
import pytest

from penstock import _engine
from penstock.errors import ClockOverflow, SimulationInputError, UnknownName, UsageError
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import POLICIES, Belady, Cache, ForcedHitRatio, Lru, NoCache, SizedCache
from penstock.scheme.play.hierarchy import Pace, Rates, play_many, replay
from twins.laws import play, play_one

ROWS = [[(1, 600), (2, 400)], [], [(1, 600)]]
TIER = Rates(bandwidth_bytes_per_s=1e9)


def test_a_hand_computed_play() -> None:
    got = play([1e-6, 2e-6, 3e-6], Accesses.of(ROWS), Lru(1000), TIER, timeline=True)
    kept = replay(Accesses.of(ROWS), Lru(1000))
    assert (kept.hits, kept.misses, kept.evictions) == (1, 2, 0)
    assert (kept.hit_bytes, kept.miss_bytes, kept.peak_resident_bytes) == (600, 1000, 1000)
    assert (got.compute_s, got.io_s, got.decode_s, got.total_s) == (6e-6, 1e-6, 0.0, 7e-6)
    assert got.io_bytes == 1000
    assert got.slowdown == pytest.approx(7 / 6)
    assert kept.hit_ratio == pytest.approx(1 / 3)
    assert got.hit_ratio == kept.byte_hit_ratio == pytest.approx(600 / 1600)
    assert got.warnings == kept.warnings == ()
    channel, compute = got.stages
    assert (channel.name, compute.name) == ("tier", "compute")
    assert channel.start_s.tolist() == [0.0, 2e-6, 4e-6]
    assert compute.end_s.tolist() == [2e-6, 4e-6, 7e-6]


def test_arrays_are_views_and_cannot_be_written_through() -> None:
    start, objects, sizes = np.array([0, 2]), np.array([5, 6], dtype=np.int32), np.array([7, 8])
    accesses = Accesses(start, objects, sizes)
    assert np.shares_memory(accesses.access_bytes, sizes)
    assert accesses.access_object.dtype == np.int32
    assert np.shares_memory(accesses.access_object, objects)
    assert sizes.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        accesses.access_bytes[0] = 1


def test_other_integer_types_and_layouts_are_converted() -> None:
    sizes = np.arange(1, 9, dtype=np.uint16)[::2]
    accesses = Accesses(np.array([0, 4], dtype=np.int32), np.arange(4, dtype=np.uint8), sizes)
    assert replay(accesses, NoCache()).miss_bytes == 1 + 3 + 5 + 7


@pytest.mark.parametrize("cache", [NoCache(), Lru(10), Belady(10), ForcedHitRatio(0.5)])
def test_an_empty_trace_takes_no_time(cache: Cache) -> None:
    got = play([], Accesses.of([]), cache, TIER)
    assert (got.total_s, got.io_bytes, got.slowdown, got.hit_ratio) == (0, 0, None, None)
    kept = replay(Accesses.of([]), cache)
    assert (kept.misses, kept.hit_ratio, kept.byte_hit_ratio) == (0, None, None)
    # Operations without accesses only compute.
    assert play([1.0, 2.0], Accesses.of([[], []]), cache, TIER).total_s == 3.0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Accesses.of([[(1, 0)]]), r"access_bytes\[0\] is 0: an access asks for at least 1 byte"),
        (lambda: Accesses.of([[(1, 5), (1, -2)]]), r"access_bytes\[1\] is -2"),
        (lambda: Accesses.of([[(-4, 5)]]), r"access_object\[0\] is -4: object ids are not negative"),
        (lambda: Accesses([0, 2, 1], [1], [1]), r"access_start\[2\] is 1 after 2: it never falls"),  # type: ignore[arg-type]
        (lambda: Accesses([1, 1], [1], [1]), r"access_start\[0\] is 1"),  # type: ignore[arg-type]
        (lambda: Accesses([0, 3], [1], [1]), r"access_start\[1\] is 3"),  # type: ignore[arg-type]
        (lambda: Accesses([], [], []), "access_start has 0 elements"),  # type: ignore[arg-type]
        (lambda: Accesses([0, 1], [1], [1, 2]), "access_bytes has 2 elements, 1 expected"),  # type: ignore[arg-type]
        (lambda: Accesses([0, 1], [1.5], [1]), "access_object has dtype float64"),  # type: ignore[arg-type]
        (lambda: Accesses([0, 1], [1], [np.nan]), "access_bytes has dtype float64"),  # type: ignore[arg-type]
        (lambda: Accesses([0, 1], [True], [1]), "access_object has dtype bool"),  # type: ignore[arg-type]
        (lambda: Accesses([[0, 1]], [1], [1]), r"access_start has shape \(1, 2\)"),  # type: ignore[arg-type]
        (lambda: Accesses([0, 1], [2**63], [1]), "access_object holds 9223372036854775808"),  # type: ignore[arg-type]
        (lambda: Accesses.of([[(1, 2**62), (2, 2**62)]]), r"stay below 2\^63"),
    ],
)
def test_bad_accesses_are_refused_with_place_and_rule(wrong: Callable[[], Accesses], message: str) -> None:
    with pytest.raises(SimulationInputError, match=message):
        replay(wrong(), Lru(100))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Lru(-1), "cache capacity -1"),
        (lambda: Lru(2**63), "cache capacity 9223372036854775808"),
        (lambda: Belady(1.5), "cache capacity 1.5: it is a whole number of bytes"),  # type: ignore[arg-type]
        (lambda: ForcedHitRatio(1.01), "hit ratio 1.01: it lies between 0 and 1"),
        (lambda: ForcedHitRatio(float("nan")), "hit ratio nan"),
    ],
)
def test_a_cache_that_cannot_be_is_refused(wrong: Callable[[], Cache], message: str) -> None:
    with pytest.raises(SimulationInputError, match=message):
        wrong()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"compute_s": [1.0, float("nan"), 1.0]}, r"compute_s\[1\] is NaN: it is finite and not negative"),
        ({"compute_s": [1.0, 1.0, -1.0]}, r"compute_s\[2\] is -1"),
        ({"compute_s": [1.0]}, r"compute_s has shape \(1,\), the accesses are of 3 operations"),
        ({"compute_s": ["fast"] * 3}, "compute_s is not an array of seconds"),
        ({"tier": Rates(bandwidth_bytes_per_s=0.0)}, "bandwidth_bytes_per_s is 0: a rate is a positive number"),
        ({"tier": Rates(bandwidth_bytes_per_s=float("nan"))}, "bandwidth_bytes_per_s is NaN"),
        ({"tier": Rates(bandwidth_bytes_per_s=1e9, latency_s=-1e-9)}, "latency_s is -0.000000001"),
        ({"decode_bytes_per_s": 0.0}, "decode_bytes_per_s is 0"),
        ({"tier": Rates(bandwidth_bytes_per_s="fast")}, r"bandwidth_bytes_per_s is \['fast'\]: must be real number"),
        ({"tier": Rates(bandwidth_bytes_per_s=10**400)}, r"bandwidth_bytes_per_s is \[1000.*: int too large"),
        ({"mode": "overlap", "prefetch_depth": -1}, "prefetch depth -1: it is not negative"),
        ({"mode": "overlap", "prefetch_depth": 1.5}, r"prefetch_depth is \[1.5\]: 'float' object cannot be"),
        ({"mode": "overlap", "prefetch_depth": 2**70}, r"prefetch_depth is \[1180591620717411303424\]: .*too"),
    ],
)
def test_bad_times_and_tiers_are_refused(changed: dict[str, object], message: str) -> None:
    arguments = {"compute_s": [1.0, 1.0, 1.0], "accesses": Accesses.of(ROWS), "cache": NoCache(), "tier": TIER}
    with pytest.raises(UsageError, match=message) as raised:
        play(**(arguments | changed))  # type: ignore[arg-type]
    assert raised.value.exit_code == 2


def test_a_bound_has_no_timeline() -> None:
    assert play([1.0] * 3, Accesses.of(ROWS), NoCache(), TIER, mode="bound", timeline=True).stages == ()


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'belady'"):
        SizedCache("beladi", 10)
    with pytest.raises(UnknownName, match="unknown time mode 'overlapped': did you mean 'overlap'"):
        Pace(tier=TIER, mode="overlapped")  # type: ignore[arg-type]


def test_time_past_the_end_of_the_clock_is_an_error() -> None:
    days = 86_400.0
    slow = Rates(bandwidth_bytes_per_s=1.0)
    assert play([106 * days], Accesses.of([[]]), NoCache(), slow).total_s == 106 * days
    with pytest.raises(ClockOverflow, match="about 106 days"):
        play([107 * days], Accesses.of([[]]), NoCache(), slow)
    with pytest.raises(ClockOverflow, match="over 2 operations"):
        play([53 * days, 54 * days], Accesses.of([[], []]), NoCache(), slow)


def test_the_engine_itself_refuses_what_the_facade_would_convert() -> None:
    start, objects, sizes = np.array([0, 2]), np.array([1, 2]), np.array([1, 2, 3, 4])
    with pytest.raises(SimulationInputError, match="access_bytes is not contiguous"):
        _engine.replay(start, objects, sizes[::2], "lru", 1)
    with pytest.raises(TypeError):
        _engine.replay(start, objects.astype(np.float64), sizes[:2], "lru", 1)
    with pytest.raises(SimulationInputError, match=f"unknown policy 'none'; known: {', '.join(POLICIES)}$"):
        _engine.replay(start, objects, sizes[:2], "none", 1)
    nothing = np.array([])
    with pytest.raises(SimulationInputError, match="mode has 1 elements, 2 expected"):
        _engine.play_time_many(nothing, nothing, nothing, [1.0, 2.0], [0.0] * 2, [1.0] * 2, ["serial"], [1] * 2)


def test_streamed_accesses_warn_with_the_remedy() -> None:
    got = replay(Accesses.of([[(1, 2000), (2, 10)]]), Lru(1999))
    assert got.streamed == 1
    assert len(got.warnings) == 1
    assert "1 of 2 accesses need more than the whole cache" in got.warnings[0]
    assert "give the cache room for the largest object" in got.warnings[0]


def test_a_forced_hit_ratio_has_no_detail() -> None:
    with pytest.raises(SimulationInputError, match="it has no detail"):
        replay(Accesses.of(ROWS), ForcedHitRatio(0.5), detail=True)


def test_energy_is_known_only_where_the_tier_says_it() -> None:
    kept = replay(Accesses.of(ROWS), Lru(1000))
    priced = Rates(bandwidth_bytes_per_s=1e9, energy_j_per_byte=2e-9)
    assert play_one([0.0] * 3, kept, priced).energy_j == pytest.approx(2e-6)
    assert play_one([0.0] * 3, kept, TIER).energy_j is None
    bare = SimpleNamespace(bandwidth_bytes_per_s=1e9, latency_s=0.0)
    assert play_one([0.0] * 3, kept, bare).energy_j is None


def test_many_points_equal_one_play_each() -> None:
    kept = replay(Accesses.of(ROWS), Lru(700))
    compute = [1e-6, 2e-6, 3e-6]
    points = [
        Pace(tier=Rates(bandwidth_bytes_per_s=rate, latency_s=1e-7), mode=mode, decode_bytes_per_s=decode)  # type: ignore[arg-type]
        for rate in (1e8, 1e9)
        for mode in ("serial", "overlap", "bound")
        for decode in (None, 3e8)
    ]
    for point, got in zip(points, play_many(compute, kept, points), strict=True):
        for timeline in (False, True):
            (alone,) = play_many(compute, kept, [point], timeline=timeline)
            assert (got.total_s, got.io_s, got.decode_s) == (alone.total_s, alone.io_s, alone.decode_s)
    assert play_many(compute, kept, []) == []


# Long enough for several questions of the engine whether a signal came.
LONG = 9 * 2**20


def long_trace() -> Accesses:
    return Accesses(np.array([0, LONG]), np.zeros(LONG, dtype=np.int32), np.ones(LONG, dtype=np.int64))


def test_signals_are_handled_during_a_long_replay() -> None:
    class Stop(Exception):
        pass

    calls = 0

    def count(_: int, frame: FrameType | None) -> None:
        nonlocal calls
        # Only signals that are handled inside the call count: on a busy machine some come before it.
        calls += frame is not None and Path(frame.f_code.co_filename).name == "hierarchy.py"
        # Without questions in between, the signals of one long call come as one.
        if calls == 3:
            calls += 1
            raise Stop

    accesses = long_trace()
    before = signal.signal(signal.SIGALRM, count)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
        with pytest.raises(Stop):
            replay(accesses, Lru(10))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_other_threads_run_during_a_long_replay() -> None:
    count, done = 0, threading.Event()

    def work() -> None:
        nonlocal count
        while not done.is_set():
            count += 1
            time.sleep(0)

    accesses = long_trace()
    interval = sys.getswitchinterval()
    worker = threading.Thread(target=work)
    # Threads then change only where one gives the lock away.
    sys.setswitchinterval(10)
    try:
        worker.start()
        before = count
        replay(accesses, Lru(10))
        assert count > before
    finally:
        done.set()
        sys.setswitchinterval(interval)
        worker.join()
