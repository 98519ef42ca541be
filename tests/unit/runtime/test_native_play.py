"""The key store's rules in simulated time: cases by hand, and the bounds that no run can break."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.runtime.native.cache import KeyUses
from penstock.runtime.native.play import PlayedReads, ReadRates, play_reads

SIZES = (0, 10, 20, 30)
"""Bytes at 0 to 3 limbs."""


def uses(*pairs: tuple[str, int], every: int = 1) -> KeyUses:
    return KeyUses(operations=tuple(range(0, every * len(pairs), every)), uses=pairs, bytes_at=SIZES)


def played(program: KeyUses, seconds: list[float], budget: int, rate: float, **more: float) -> PlayedReads:
    return play_reads(program, np.asarray(seconds), budget, ReadRates(bytes_per_s=rate, **more))


def test_the_first_use_waits_for_its_rows_and_the_second_is_read_meanwhile() -> None:
    # 30 bytes at 10 a second, while the first operation computes for 4 seconds.
    found = played(uses(("a", 3), ("b", 3)), [4.0, 1.0], 100, 10.0)
    assert (found.wait_s, found.total_s) == pytest.approx((3.0, 8.0))
    assert (found.read_bytes, found.misses) == (60, 0)


def test_without_room_for_two_keys_each_is_read_when_the_last_is_let_go() -> None:
    found = played(uses(("a", 3), ("b", 3), ("a", 3)), [4.0, 4.0, 4.0], 30, 10.0)
    assert found.wait_s == pytest.approx(9.0)
    assert (found.read_bytes, found.misses) == (90, 0)


def test_fewer_limbs_are_part_of_more_and_only_the_rest_is_read() -> None:
    found = played(uses(("a", 1), ("a", 3)), [9.0, 1.0], 100, 10.0)
    assert found.read_bytes == 30
    assert found.wait_s == pytest.approx(1.0)


def test_what_is_used_last_leaves_limb_by_limb() -> None:
    # Room for four limbs. While a is in use b takes one limb of c's place, not all of it: c keeps what still fits.
    program = uses(("a", 1), ("c", 3), ("b", 1), ("c", 2))
    found = played(program, [9.0, 9.0, 9.0, 9.0], 40, 10.0)
    assert found.read_bytes == 10 + 30 + 10
    assert found.wait_s == pytest.approx(1.0)


def test_computing_and_reading_are_slower_at_once() -> None:
    # Three seconds of reading b, in which half as much is computed.
    found = played(uses(("a", 3), ("b", 3)), [4.0, 1.0], 100, 10.0, computing_share=0.5)
    assert found.total_s == pytest.approx(3.0 + 5.5 + 1.0)
    # Six seconds at half the disk's rate, in which three are computed; a is read while nothing computes.
    found = played(uses(("a", 3), ("b", 3)), [4.0, 1.0], 100, 10.0, computing_share=0.5, reading_share=0.5)
    assert found.total_s == pytest.approx(3.0 + 7.0 + 1.0)
    assert found.wait_s == pytest.approx(3.0)


def test_shares_are_those_of_two_measurements() -> None:
    beside = ReadRates.of(alone_s=3.0, beside_s=4.0, alone_bytes_per_s=10.0, beside_bytes_per_s=9.0)
    assert (beside.computing_share, beside.reading_share) == (0.75, 0.9)
    # No program is faster for what runs beside it.
    assert ReadRates.of(alone_s=3.0, beside_s=2.9, alone_bytes_per_s=1.0, beside_bytes_per_s=1.0).computing_share == 1.0


@given(
    compute_s=st.floats(0, 100),
    read_bytes=st.floats(0, 1000),
    computing_share=st.floats(0.05, 1),
    reading_share=st.floats(0.05, 1),
)
def test_no_mixture_of_computing_and_reading_beats_the_least(
    compute_s: float, read_bytes: float, computing_share: float, reading_share: float
) -> None:
    reading = ReadRates(bytes_per_s=10.0, computing_share=computing_share, reading_share=reading_share)
    least_s = reading.least_s(compute_s, read_bytes)
    assert least_s >= max(compute_s, read_bytes / 10.0) * (1 - 1e-9)
    most_s = min(compute_s / computing_share, read_bytes / reading.beside_bytes_per_s)
    tried = [
        at_once_s
        + (compute_s - computing_share * at_once_s)
        + (read_bytes - reading.beside_bytes_per_s * at_once_s) / 10.0
        for at_once_s in np.linspace(0, most_s, 50)
    ]
    assert least_s == pytest.approx(min(tried))


def test_a_use_that_never_fits_is_refused() -> None:
    with pytest.raises(UsageError, match="more than the whole budget"):
        played(uses(("a", 3)), [1.0], 29, 10.0)


@given(
    pairs=st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 3)), min_size=1, max_size=40),
    budget=st.integers(30, 130),
    rate=st.floats(0.5, 500),
    every=st.integers(1, 3),
    computing_share=st.sampled_from([0.6, 1.0]),
    reading_share=st.sampled_from([0.7, 1.0]),
)
def test_no_run_breaks_what_disk_program_and_budget_allow(
    pairs: list[tuple[str, int]], budget: int, rate: float, every: int, computing_share: float, reading_share: float
) -> None:
    program = uses(*pairs, every=every)
    seconds = [0.5 + (i % 3) / 4 for i in range(every * len(pairs))]
    reading = ReadRates(bytes_per_s=rate, computing_share=computing_share, reading_share=reading_share)
    found = play_reads(program, np.asarray(seconds), budget, reading)
    assert found.total_s >= reading.least_s(sum(seconds), found.read_bytes) * (1 - 1e-9)
    lost_s = reading.lost_s(found.read_bytes)
    assert sum(seconds) <= (found.total_s - found.wait_s) * (1 + 1e-9) <= (sum(seconds) + lost_s) * (1 + 2e-9)
    # Every row that is used is read at least once, and no row faster than the disk gives it.
    least = sum(SIZES[max(limbs for key, limbs in pairs if key == each)] for each in {key for key, _ in pairs})
    assert found.read_bytes >= least
    assert found.total_s >= found.read_bytes / rate * (1 - 1e-9)
    if budget >= 120:
        assert found.read_bytes == least
    # Reading by itself and nothing ahead is the slowest, where reading ahead costs nothing.
    serial = sum(seconds) + sum(SIZES[limbs] for _, limbs in pairs) / rate
    if computing_share == reading_share == 1:
        assert found.total_s <= serial * (1 + 1e-9)
