"""Time against theory: the serial law, pipelines of equal operations, bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import ForcedHitRatio, Lru, NoCache
from penstock.scheme.play.hierarchy import Pace, PlayedPoint, Prefetch, Rates, play_many, replay
from twins.laws import play, play_one

EXACT = 1e-12
RATE = st.floats(1e8, 1e13)
SECONDS = st.floats(1e-6, 1e-1)


@given(
    bytes_per_ideal_second=st.floats(1e8, 1e13),
    bandwidth=RATE,
    hit_ratio=st.floats(0, 1),
    compute=st.lists(SECONDS, min_size=1, max_size=60),
)
def test_the_serial_law_holds(
    bytes_per_ideal_second: float, bandwidth: float, hit_ratio: float, compute: list[float]
) -> None:
    """T / T_ideal = 1 + D / BW, with D bytes loaded a second of ideal time (storage-I/O study)."""
    sizes = [max(1, round(bytes_per_ideal_second * s)) for s in compute]
    accesses = Accesses.one_each(range(len(sizes)), sizes)
    demand = sum(sizes) / sum(compute)
    got = play(compute, accesses, NoCache(), Rates(bandwidth_bytes_per_s=bandwidth))
    assert got.slowdown == pytest.approx(1 + demand / bandwidth, rel=EXACT)
    assert got.total_s == pytest.approx(got.compute_s + got.io_s, rel=EXACT)
    some = play(compute, accesses, ForcedHitRatio(hit_ratio), Rates(bandwidth_bytes_per_s=bandwidth))
    assert some.slowdown == pytest.approx(1 + (1 - hit_ratio) * demand / bandwidth, rel=EXACT)


@pytest.mark.parametrize(("bandwidth", "slowdown"), [(1000e9, 2.63), (358.4e9, 5.56), (64e9, 26.5), (12.5e9, 131.7)])
def test_the_study_s_resnet20_slowdowns_follow_from_its_bytes_a_second(bandwidth: float, slowdown: float) -> None:
    """D = 1633 GB/s gives the four printed slowdowns to their digits; the ideal 99 ms is the study's too."""
    operations, ideal_s, demand = 1000, 99e-3, 1633e9
    accesses = Accesses.one_each([0] * operations, [round(demand * ideal_s / operations)] * operations)
    got = play([ideal_s / operations] * operations, accesses, NoCache(), Rates(bandwidth_bytes_per_s=bandwidth))
    assert got.slowdown == pytest.approx(slowdown, rel=2e-3)


def uniform(
    n: int, compute_s: float, io_s: float, *, mode: str, depth: int = 1, decode_s: float = 0.0, latency_s: float = 0.0
) -> PlayedPoint:
    """n equal operations; the transfer time is made of bytes alone unless there is a latency."""
    size = 1_000_000
    kept = replay(Accesses.one_each(range(n), [size] * n), NoCache())
    tier = Rates(bandwidth_bytes_per_s=size / (io_s - latency_s), latency_s=latency_s)
    decode = size / decode_s if decode_s else None
    return play_one([compute_s] * n, kept, tier, mode=mode, decode_bytes_per_s=decode, prefetch_depth=depth)  # type: ignore[arg-type]


@given(n=st.integers(1, 80), compute_s=SECONDS, io_s=SECONDS, depth=st.integers(1, 5))
def test_a_double_buffered_pipeline_of_equal_operations(n: int, compute_s: float, io_s: float, depth: int) -> None:
    """First transfer, then the slower of the two for each further operation, then the last compute."""
    expected = io_s + (n - 1) * max(compute_s, io_s) + compute_s
    assert uniform(n, compute_s, io_s, mode="overlap", depth=depth).total_s == pytest.approx(expected, rel=EXACT)


@given(n=st.integers(1, 80), compute_s=SECONDS, io_s=SECONDS, decode_s=SECONDS, depth=st.integers(2, 5))
def test_three_stages_overlap_from_depth_two(
    n: int, compute_s: float, io_s: float, decode_s: float, depth: int
) -> None:
    expected = io_s + decode_s + compute_s + (n - 1) * max(compute_s, io_s, decode_s)
    got = uniform(n, compute_s, io_s, mode="overlap", depth=depth, decode_s=decode_s)
    assert got.total_s == pytest.approx(expected, rel=EXACT)


@given(n=st.integers(2, 80), stage_s=SECONDS)
def test_two_buffers_cannot_keep_three_equal_stages_busy(n: int, stage_s: float) -> None:
    # Two operations take turns: each pair ends three stages after the pair before.
    got = uniform(n, stage_s, stage_s, mode="overlap", depth=1, decode_s=stage_s)
    pairs, odd = divmod(n, 2)
    expected = 3 * pairs + (3 if odd else 1)
    assert got.total_s == pytest.approx(expected * stage_s, rel=EXACT)


@given(n=st.integers(1, 80), compute_s=SECONDS, io_s=SECONDS, decode_s=SECONDS)
def test_bound_is_the_busiest_resource_and_serial_the_sum(
    n: int, compute_s: float, io_s: float, decode_s: float
) -> None:
    bound = uniform(n, compute_s, io_s, mode="bound", decode_s=decode_s)
    assert bound.total_s == pytest.approx(n * max(compute_s, io_s, decode_s), rel=EXACT)
    serial = uniform(n, compute_s, io_s, mode="serial", decode_s=decode_s)
    assert serial.total_s == pytest.approx(n * (compute_s + io_s + decode_s), rel=EXACT)
    assert serial.total_s - serial.compute_s == pytest.approx(n * (io_s + decode_s), rel=EXACT)


def test_latency_is_paid_once_a_miss() -> None:
    accesses = Accesses.of([[(1, 500), (2, 500)], [(1, 500), (2, 500)]])
    tier = Rates(bandwidth_bytes_per_s=1e6, latency_s=0.25)
    assert play([0.0, 0.0], accesses, Lru(1000), tier).io_s == pytest.approx(2 * 0.25 + 1e-3, rel=EXACT)
    assert play([0.0, 0.0], accesses, NoCache(), tier).io_s == pytest.approx(4 * 0.25 + 2e-3, rel=EXACT)
    assert play([0.0, 0.0], accesses, ForcedHitRatio(0.5), tier).io_s == pytest.approx(2 * 0.25 + 1e-3, rel=EXACT)


@given(
    operations=st.lists(st.tuples(st.floats(0, 1e-2), st.integers(1, 10**9)), min_size=1, max_size=40),
    bandwidth=RATE,
    decode=st.one_of(st.none(), RATE),
)
def test_overlap_lies_between_bound_and_serial_and_gains_with_depth(
    operations: list[tuple[float, int]], bandwidth: float, decode: float | None
) -> None:
    compute, sizes = zip(*operations, strict=True)
    kept = replay(Accesses.one_each(range(len(sizes)), sizes), NoCache())
    tier = Rates(bandwidth_bytes_per_s=bandwidth)
    depths = [0, 1, 2, 3, len(sizes), len(sizes) + 1]
    points = [Pace(tier=tier, mode="serial", decode_bytes_per_s=decode)]
    points += [Pace(tier=tier, mode="overlap", decode_bytes_per_s=decode, prefetch=Prefetch(d)) for d in depths]
    points += [Pace(tier=tier, mode="bound", decode_bytes_per_s=decode)]
    serial, *overlap, bound = [timeline.total_s for timeline in play_many(compute, kept, points)]
    assert overlap[0] == serial
    assert overlap == sorted(overlap, reverse=True)
    assert overlap[-1] == overlap[-2] >= bound


def test_rounding_does_not_grow_with_the_number_of_operations() -> None:
    # A third of a microsecond has no exact number of any decimal fraction of a second.
    n, compute_s, size, bandwidth = 300_000, 1e-6 / 3, 1, 3e6
    kept = replay(Accesses.one_each(np.zeros(n, dtype=np.int64), np.full(n, size)), NoCache())
    tier = Rates(bandwidth_bytes_per_s=bandwidth)
    serial, overlap, bound = play_many(
        np.full(n, compute_s), kept, [Pace(tier=tier, mode=mode) for mode in ("serial", "overlap", "bound")]
    )
    assert serial.total_s == pytest.approx(n * 2 * compute_s, rel=EXACT)
    assert overlap.total_s == pytest.approx((n + 1) * compute_s, rel=EXACT)
    assert bound.total_s == pytest.approx(n * compute_s, rel=EXACT)
