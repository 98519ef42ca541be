"""What every replacement policy promises, whichever the engine lists: a new one joins by itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import _engine
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import POLICIES, NoCache, Optimal, SizedCache
from penstock.scheme.play.hierarchy import replay

every_policy = pytest.mark.parametrize("policy", sorted(POLICIES))
Rows = list[list[tuple[int, int]]]
ROWS = st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 30)), max_size=3), max_size=30)


def test_the_tutorial_shows_the_example_that_the_engine_s_tests_play() -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs/tutorials/researcher.md").read_text()
    assert f"```rust\n{(root / 'examples/most_recent.rs').read_text()}```" in page


def test_names_are_unique_and_summaries_are_sentences_of_their_own() -> None:
    listed = _engine.policies()
    assert len({each.name for each in listed}) == len({each.summary for each in listed}) == len(listed) == len(POLICIES)
    assert all(each.name and each.summary for each in listed)
    # The optimum needs the future.
    assert all(each.knows_future for each in listed if each.optimal)


@every_policy
@given(rows=ROWS, capacity=st.integers(0, 90))
def test_what_is_asked_for_is_served_or_loaded(policy: str, rows: Rows, capacity: int) -> None:
    accesses = Accesses.of(rows)
    got = replay(accesses, SizedCache(policy, capacity), detail=True)
    asked = int(accesses.access_bytes.sum())
    assert got.hits + got.misses == got.accesses == len(accesses)
    assert got.hit_bytes + got.miss_bytes == got.requested_bytes == asked
    assert got.operation_bytes.sum() == got.miss_bytes
    assert got.operation_transfers.sum() == got.misses
    assert (got.access_miss_bytes == 0).sum() == got.hits
    assert got.peak_resident_bytes <= capacity
    assert got.miss_bytes <= replay(accesses, NoCache()).miss_bytes == asked


@every_policy
@given(rows=ROWS, capacity=st.integers(0, 90))
def test_the_same_accesses_give_the_same_loads(policy: str, rows: Rows, capacity: int) -> None:
    accesses = Accesses.of(rows)
    one, other = (replay(accesses, SizedCache(policy, capacity), detail=True) for _ in range(2))
    assert (one.access_miss_bytes.tolist(), one.evictions) == (other.access_miss_bytes.tolist(), other.evictions)
    assert one.operation_bytes.tolist() == other.operation_bytes.tolist()


@every_policy
@given(rows=ROWS, capacity=st.integers(0, 90))
def test_no_policy_loads_fewer_bytes_than_the_optimum(policy: str, rows: Rows, capacity: int) -> None:
    accesses = Accesses.of(rows)
    assert replay(accesses, Optimal(capacity)).miss_bytes <= replay(accesses, SizedCache(policy, capacity)).miss_bytes


@every_policy
@pytest.mark.parametrize("exponent", [0.6, 1.0])
def test_no_policy_has_more_hits_than_one_that_is_optimal_for_equal_sizes(policy: str, exponent: float) -> None:
    weights = 1 / np.arange(1, 501) ** exponent
    objects = np.random.default_rng(3).choice(500, 30_000, p=weights / weights.sum())
    accesses = Accesses.one_each(objects, np.full(len(objects), 100))
    for frames in (5, 50, 250):
        hits = replay(accesses, SizedCache(policy, frames * 100)).hits
        optima = [SizedCache(each.name, frames * 100) for each in POLICIES.values() if each.optimal]
        (most,) = {replay(accesses, cache).hits for cache in optima}
        assert 0 < hits <= most


@every_policy
def test_an_object_fits_to_the_byte_and_a_larger_one_passes_by(policy: str) -> None:
    accesses = Accesses.of([[(1, 1000)], [(1, 1000)]])
    fits = replay(accesses, SizedCache(policy, 1000), detail=True)
    assert ((fits.access_miss_bytes == 0).tolist(), fits.streamed, fits.peak_resident_bytes) == ([False, True], 0, 1000)
    short = replay(accesses, SizedCache(policy, 999), detail=True)
    assert ((short.access_miss_bytes == 0).tolist(), short.streamed) == ([False, False], 2)
    # What is left of it in the cache is all or nothing, or as much as a policy on parts of objects can keep.
    assert short.peak_resident_bytes == 2000 - short.miss_bytes <= 999
    passed = replay(Accesses.of([[(1, 10)], [(2, 1000)], [(1, 10)]]), SizedCache(policy, 999), detail=True)
    assert ((passed.access_miss_bytes == 0).tolist(), passed.streamed) == ([False, False, True], 1)
    assert passed.evictions == 0
