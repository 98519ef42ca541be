"""What operations make takes room and is never loaded: caches and levels against a twin by hand and what must hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import SimulationInputError
from penstock.lab.simulation.cluster.spec import Cluster
from penstock.lab.simulation.memory.levels import INCLUSIONS, Hierarchy, Level
from penstock.lab.simulation.memory.levels_replay import LevelsReplay, replay_levels
from penstock.lab.simulation.play import simulate
from penstock.program.running import trace_workload
from penstock.scheme.machines import load_machine, load_tier
from penstock.scheme.machines.networks import load_network
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import POLICIES, Cache, ForcedHitRatio, Lru, NoCache, SizedCache
from penstock.scheme.play.hierarchy import replay
from penstock.scheme.play.price import ACCESS_CLASSES, PricedTrace, price_trace
from twins.laws import play_cluster

PROGRAM = st.lists(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 20), st.booleans()), max_size=4), max_size=30)
"""Operations of accesses: object, bytes, whether it is a result."""
Rows = list[list[tuple[int, int, bool]]]


def accesses_of(rows: Rows) -> Accesses:
    plain = Accesses.of([[access[:2] for access in row] for row in rows])
    made = np.array([access[2] for row in rows for access in row], dtype=np.bool_)
    return Accesses(plain.access_start, plain.access_object, plain.access_bytes, made)


def loaded_by_hand(rows: Rows, capacity: int) -> list[int]:
    """Bytes that each operation loads through LRU: a list of objects with what is there of each, the last used last."""
    held: list[tuple[int, int]] = []
    loaded = []
    for row in rows:
        missing = 0
        for obj, size, is_result in row:
            have = next((there for other, there in held if other == obj), 0)
            if not is_result:
                missing += max(0, size - have)
            passes_by = size > have and size > capacity
            kept = have if passes_by else max(size, have)
            held = [each for each in held if each[0] != obj] + ([(obj, kept)] if kept else [])
            while sum(there for _, there in held) > capacity:
                held.pop(0)
        loaded.append(missing)
    return loaded


@given(rows=PROGRAM, capacity=st.integers(0, 80))
def test_a_cache_with_results_is_the_twin_by_hand(rows: Rows, capacity: int) -> None:
    got = replay(accesses_of(rows), Lru(capacity), detail=True)
    assert got.operation_bytes.tolist() == loaded_by_hand(rows, capacity)
    flat = [access for row in rows for access in row]
    assert got.accesses == sum(not made for _, _, made in flat)
    assert got.results == len(flat) - got.accesses
    assert (got.hits + got.misses, got.misses) == (got.accesses, int(got.operation_transfers.sum()))
    assert got.requested_bytes == got.hit_bytes + got.miss_bytes == sum(size for _, size, made in flat if not made)
    assert got.access_miss_bytes is not None
    assert got.access_miss_bytes.sum() == got.miss_bytes
    assert not got.access_miss_bytes[[made for _, _, made in flat]].any()


@pytest.mark.parametrize("cache", [NoCache(), ForcedHitRatio(0.25), *(SizedCache(each, 50) for each in POLICIES)])
@given(rows=PROGRAM)
def test_a_cache_over_one_level_is_a_cache_over_a_tier_with_results_too(cache: Cache, rows: Rows) -> None:
    accesses = accesses_of(rows)
    one = replay(accesses, cache)
    levels = (Level(name="chip", cache=cache), Level(name="tier", tier=load_tier("hbm")))
    two = replay_levels(accesses, Hierarchy(levels))
    below = two.loads[1]
    assert below.operation_bytes == pytest.approx(one.operation_bytes)
    assert below.operation_transfers == pytest.approx(one.operation_transfers)
    assert (two.accesses, two.results, two.requested_bytes) == (one.accesses, one.results, one.requested_bytes)
    assert two.byte_hit_ratio == pytest.approx(one.byte_hit_ratio)


@given(
    rows=PROGRAM,
    sizes=st.lists(st.tuples(st.sampled_from(["lru", "fifo"]), st.integers(0, 60)), max_size=3),
    inclusion=st.sampled_from(INCLUSIONS),
)
def test_every_byte_that_is_read_is_served_by_one_level_and_no_result_is(
    rows: Rows, sizes: list[tuple[str, int]], inclusion: str
) -> None:
    levels = [Level(name=str(i), cache=SizedCache(*each)) for i, each in enumerate(sizes)]
    got = replay_levels(accesses_of(rows), Hierarchy((*levels, Level(name="last")), inclusion=inclusion))
    reads = [size for row in rows for _, size, made in row if not made]
    assert sum(load.served_bytes for load in got.loads) == sum(reads)
    assert sum(load.hits for load in got.loads) == len(reads)


@pytest.mark.parametrize("inclusion", INCLUSIONS)
def test_a_result_that_a_level_evicts_is_in_the_next(inclusion: str) -> None:
    # The chip holds one object: 2 pushes 1 out of it. Both are read again, 1 from memory and then 2 from there.
    rows = [[(1, 10, True)], [(2, 10, True)], [(1, 10, False)], [(2, 10, False)]]
    hierarchy = Hierarchy(
        (Level(name="chip", cache=Lru(10)), Level(name="memory", cache=Lru(100)), Level(name="drive")),
        inclusion=inclusion,
    )
    got = replay_levels(accesses_of(rows), hierarchy)
    assert [load.served_bytes for load in got.loads] == [0, 20, 0]
    assert got.loads[2].channel_bytes == 0
    # An exclusive level gets what falls out of the one above over its channel: 1, 2 and 1 again.
    demoted = {"independent": 0, "inclusive": 0, "exclusive": 30}[inclusion]
    assert got.loads[1].demoted_bytes == demoted
    assert got.loads[1].channel_bytes == 20 + demoted


def test_a_result_of_another_shape_is_refused() -> None:
    with pytest.raises(SimulationInputError, match="one bool for each of the 1 accesses"):
        Accesses([0, 1], [1], [1], [True, False])  # type: ignore[arg-type]


# A program -----------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def priced() -> PricedTrace:
    return price_trace(trace_workload("inner-product", "sharp"), load_machine("sharp"), classes=("ciphertext",))


def inputs_bytes(priced: PricedTrace) -> int:
    """What is read before the program makes it, each object at its largest need."""
    made = set(priced.access_object[priced.access_is_result].tolist())
    largest: dict[int, int] = {}
    for obj, size in zip(priced.access_object.tolist(), priced.access_bytes.tolist(), strict=True):
        if obj not in made:
            largest[obj] = max(size, largest.get(obj, 0))
    return sum(largest.values())


def played(priced: PricedTrace, *levels: tuple[str, Cache | None]) -> LevelsReplay:
    found = tuple(Level(name=name, cache=cache) for name, cache in levels)
    return replay_levels(
        priced.accesses, Hierarchy(found), access_class=priced.access_class, class_names=ACCESS_CLASSES
    )


def test_where_everything_fits_only_inputs_are_loaded_and_once(priced: PricedTrace) -> None:
    assert priced.access_is_result.any()
    inputs = inputs_bytes(priced)
    assert 0 < inputs < priced.accessed_bytes
    got = played(priced, ("chip", Lru(10**12)), ("drive", None))
    assert got.loads[1].channel_bytes == inputs
    # What a small chip evicts is read again from memory, never from the drive.
    got = played(priced, ("chip", Lru(20_000_000)), ("memory", Lru(10**12)), ("drive", None))
    assert got.loads[1].served_bytes > 0
    assert got.loads[2].channel_bytes == inputs


def test_rows_and_hosts_count_reads_alone(priced: PricedTrace) -> None:
    trace, machine, tier = trace_workload("inner-product", "sharp"), load_machine("sharp"), load_tier("pcie5")
    none, whole = simulate(
        price_trace(trace, machine, classes=("ciphertext",)), [tier], caches=[NoCache(), Lru(10**12)]
    )
    assert none["io_bytes"] == priced.accessed_bytes
    assert whole["io_bytes"] == inputs_bytes(priced)
    assert whole["hit_ratio"] == pytest.approx(1 - inputs_bytes(priced) / priced.accessed_bytes)
    cluster = Cluster(hosts=4, network=load_network("ethernet-400"))
    assert play_cluster(trace, machine, tier, cluster, classes=("ciphertext",)).loaded_bytes == pytest.approx(
        priced.accessed_bytes, rel=1e-6
    )
