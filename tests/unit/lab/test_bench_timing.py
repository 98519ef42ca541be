from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from penstock.errors import UsageError
from penstock.lab.measure.bench import timing
from penstock.lab.measure.bench.timing import Probe, check_affinity, measure, measure_across, stolen_share


class FakeClock:
    """Nanoseconds that pass only when somebody works."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def test_calls_are_repeated_until_their_own_time_adds_up() -> None:
    clock = FakeClock()

    def work() -> None:
        clock.now += 30_000_000

    run = measure(work, min_time_s=0.1, max_samples=10, clock=clock)
    assert run.calls == 4
    assert run.total_s == pytest.approx(0.12)
    assert run.seconds_per_call == pytest.approx(0.03)
    assert run.samples_s == pytest.approx((0.03,) * 4)


def test_a_part_of_a_call_can_be_left_out_of_its_time_and_still_counts_for_the_run() -> None:
    clock = FakeClock()

    def work() -> None:
        clock.now += 1_000_000

    run = measure(work, min_time_s=3e-3, max_samples=9, less_s=lambda: 0.9e-3, clock=clock)
    assert run.calls == 3
    assert run.samples_s == pytest.approx((0.1e-3,) * 3)
    assert run.total_s == pytest.approx(0.3e-3)


def test_what_runs_before_each_call_is_not_timed() -> None:
    clock = FakeClock()

    def work() -> None:
        clock.now += 10

    def flush() -> None:
        clock.now += 10_000

    run = measure(work, min_time_s=30e-9, max_samples=0, before=flush, clock=clock)
    assert (run.calls, run.total_s) == (3, pytest.approx(30e-9))
    assert run.wall_s == pytest.approx(30e-9)
    assert run.samples_s == ()


def test_the_processor_time_of_what_runs_before_each_call_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = [0.0]
    monkeypatch.setattr(timing.time, "process_time", lambda: spent[0])

    def uses(seconds: float) -> None:
        spent[0] += seconds

    run = measure(lambda: uses(2.0), min_time_s=0.0, max_samples=0, before=lambda: uses(100.0))
    assert (run.calls, run.cpu_s) == (1, 2.0)


def test_a_call_longer_than_the_time_is_made_once() -> None:
    clock = FakeClock()

    def work() -> None:
        clock.now += 10**10

    assert measure(work, min_time_s=0.5, max_samples=5, clock=clock).calls == 1


def test_samples_are_kept_up_to_the_cap_and_calls_are_counted_beyond() -> None:
    clock = FakeClock()

    def work() -> None:
        clock.now += 1000

    run = measure(work, min_time_s=1e-4, max_samples=7, clock=clock)
    assert (run.calls, len(run.samples_s)) == (100, 7)


def test_independent_operations_add_up_over_their_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr("penstock.program.openfhe.evaluator.set_threads", seen.append)
    run = measure_across([lambda: sum(range(1000))] * 2, min_time_s=2e-3, max_samples=10)
    assert seen == [1, 1]
    assert run.total_s >= 2 * 2e-3
    assert run.calls >= 2
    assert len(run.samples_s) == 10


def test_the_rate_of_operations_side_by_side_is_over_the_time_of_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.program.openfhe.evaluator.set_threads", lambda n: time.sleep(0.01))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1.0)  # whoever else waits for the interpreter does not get it before a thread has ended
    try:
        run = measure_across([lambda: sum(range(1000))] * 2, min_time_s=20e-3, max_samples=0)
    finally:
        sys.setswitchinterval(interval)
    assert run.wall_s >= run.total_s / 2
    assert run.cpu_s > 0


def test_an_error_in_a_thread_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.program.openfhe.evaluator.set_threads", lambda n: None)

    def broken() -> None:
        raise RuntimeError("no key")

    with pytest.raises(RuntimeError, match="no key"):
        measure_across([broken, lambda: None], min_time_s=1e-3, max_samples=0)


def test_our_own_overhead_is_below_a_microsecond_or_two() -> None:
    assert 0 < timing.overhead_s() < 20e-6


def test_more_threads_than_cores_are_refused_with_the_remedy() -> None:
    check_affinity(2, cores=2)
    with pytest.raises(UsageError, match=r"3 threads asked for, but this process may use 2 cores.*taskset"):
        check_affinity(3, cores=2)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no CPU affinity")
def test_an_affinity_narrower_than_the_machine_is_seen() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        with pytest.raises(UsageError, match="this process may use 1 core "):
            check_affinity(2)
    finally:
        os.sched_setaffinity(0, before)


def test_spread_is_from_the_tenth_to_the_ninetieth_percentile() -> None:
    assert Probe((1.0,) * 20).spread == 0.0
    assert Probe(tuple(1.0 + i / 10 for i in range(11))).spread == pytest.approx(0.8 / 1.5)


def test_a_single_hiccup_does_not_make_a_machine_noisy() -> None:
    assert Probe((1.0,) * 29 + (50.0,)).spread < timing.NOISY_SPREAD


def test_the_calibration_loop_ends_when_its_time_is_up() -> None:
    found = timing.probe(0.0)
    assert len(found.samples_s) == 5
    assert found.median_s > 0


def test_stolen_time_is_unknown_rather_than_zero() -> None:
    assert stolen_share(None, (1, 100)) is None
    assert stolen_share((5, 100), (5, 100)) is None
    assert stolen_share((5, 100), (10, 200)) == 0.05


def test_flushing_walks_a_buffer_of_twice_the_cache() -> None:
    flush = timing.Flush(1 << 16)
    flush()
    assert flush.buffer_bytes == 2 << 16
    assert timing.last_level_cache_bytes() > 0


def test_dropping_the_page_cache_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"key" * 1000)
    timing.drop_page_cache(file)
    assert file.read_bytes() == b"key" * 1000


def test_a_new_peak_of_memory_is_looked_for_after_a_reset() -> None:
    block = bytearray(64 << 20)
    del block
    before = timing.peak_memory_bytes()
    timing.reset_peak_memory()
    after = timing.peak_memory_bytes()
    if before is None or after is None:
        pytest.skip("this system does not say how much memory a process has")
    assert after < before
