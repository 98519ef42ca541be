"""Programs that share a machine: their order, objects and share; and what a runtime saves that knows a program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.errors import UnknownName, UsageError
from penstock.lab.simulation.memory.levels import Hierarchy, Level
from penstock.lab.simulation.memory.locality import RUNTIMES, locality_table
from penstock.lab.simulation.memory.residents import parse_reservation
from penstock.lab.simulation.memory.tenants import interleave
from penstock.lab.simulation.play import play, simulate
from penstock.lab.simulation.question import Point
from penstock.scheme.machines import load_machine, load_tier
from penstock.scheme.play.caches import Lru
from penstock.scheme.play.hierarchy import Prefetch
from penstock.scheme.play.price import ACCESS_CLASSES, PricedTrace
from penstock.scheme.play.rows import LEVEL_NAMES, ROW_NAMES, columns, felt_slowdown
from twins.laws import LOCALITY_NAMES

SHARP = load_machine("sharp")


def program(
    compute_s: list[float], rows: list[list[tuple[int, int]]], name: str = "a", joules: bool = True
) -> PricedTrace:
    flat = [access for row in rows for access in row]
    return PricedTrace(
        workload=name,
        params="toy",
        machine="sharp",
        classes=("key",),
        op_ids=np.arange(len(compute_s)),
        compute_s=np.array(compute_s),
        joules=np.array(compute_s) * 2 if joules else None,
        bound_by=np.zeros(len(compute_s), dtype=np.int8),
        units=("transforms",),
        access_start=np.cumsum([0, *map(len, rows)]),
        access_object=np.array([obj for obj, _ in flat], dtype=np.int32),
        access_class=np.zeros(len(flat), dtype=np.int8),
        access_bytes=np.array([size for _, size in flat], dtype=np.int64),
        access_is_result=np.zeros(len(flat), dtype=np.bool_),
        bytes_by_class={"key": sum(size for _, size in flat), "plaintext": 0, "ciphertext": 0},
        stored_key_bytes=sum(dict(sorted(flat)).values()),
    )


ONE = program([1.0, 4.0, 1.0], [[(0, 10)], [(1, 20), (0, 5)], []], "one")
TWO = program([2.0, 2.0], [[(0, 7)], [(2, 8)]], "two")


def test_operations_take_turns():
    together = interleave([ONE, TWO])
    assert together.tenants.tenant.tolist() == [0, 1, 0, 1, 0]
    assert together.compute_s.tolist() == [1, 2, 4, 2, 1]
    assert together.access_start.tolist() == [0, 1, 2, 4, 5, 5]
    assert together.stored_key_bytes == (10 + 20) + (7 + 8)
    # The second program's objects are behind the first one's.
    assert together.access_object.tolist() == [0, 2, 1, 0, 4]
    assert together.access_bytes.tolist() == [10, 7, 20, 5, 8]
    assert (together.workload, together.params, together.tenants.names) == ("one+two", "toy", ("one", "two"))
    assert together.bytes_by_class["key"] == 50
    assert together.joules is not None
    assert together.joules.tolist() == [2, 4, 8, 4, 2]


def test_by_time_each_is_as_far_as_it_would_be_alone():
    # Starts alone: one 0, 1, 5; two 0, 2.
    assert interleave([ONE, TWO], "time").tenants.tenant.tolist() == [0, 1, 0, 1, 0]
    slow = replace(TWO, compute_s=np.array([6.0, 1.0]))
    assert interleave([ONE, slow], "time").tenants.tenant.tolist() == [0, 1, 0, 0, 1]
    # Operations of no time stay in their order.
    idle = program([0.0] * 50, [[(i, 1)] for i in range(50)])
    assert interleave([idle], "time").access_object.tolist() == list(range(50))


def test_one_program_alone_is_itself():
    got = interleave([ONE])
    assert got.access_object.tolist() == ONE.access_object.tolist()
    assert got.compute_s.tolist() == ONE.compute_s.tolist()
    assert interleave([ONE, ONE]).tenants.names == ("one 1", "one 2")
    assert interleave([ONE, program([1.0], [[]], joules=False)]).joules is None


def test_programs_of_different_machines_do_not_share_one():
    with pytest.raises(UsageError, match="'two' is priced on h100"):
        interleave([ONE, replace(TWO, machine="h100")])
    with pytest.raises(UsageError, match="name one at least"):
        interleave([])
    with pytest.raises(UnknownName, match="did you mean 'round-robin'"):
        interleave([ONE], "round-robbin")  # type: ignore[arg-type]


def test_two_that_fit_alone_push_each_other_out():
    """The paper's point about applications that compete: each key set fits the cache, both together do not."""
    rows = [[(i % 4, 10)] for i in range(40)]
    alone = program([1.0] * 40, rows)
    both = interleave([alone, alone])
    tier = load_tier("pcie5")
    (single,) = simulate(alone, [tier], caches=[Lru(40)])
    (shared,) = simulate(both, [tier], caches=[Lru(40)])
    assert single["io_bytes"] == 40
    assert shared["io_bytes"] == 800
    first, second = shared["tenants"]
    assert first["io_bytes"] + second["io_bytes"] == shared["io_bytes"]
    assert second["finish_s"] == pytest.approx(shared["total_s"])
    assert first["finish_s"] < second["finish_s"]
    assert first["slowdown"] == pytest.approx(first["finish_s"] / 40)
    (bound,) = simulate(both, [tier], modes=("bound",))
    assert [each["finish_s"] for each in bound["tenants"]] == [None, None]


def test_the_slowdown_that_a_tenant_sees_is_of_its_own_compute():
    """Equal programs that need no load: the machine wastes nothing, and each of n waits for the n - 1 others."""
    alone = program([1.0] * 40, [[]] * 40)
    for n in (2, 4):
        together = interleave([alone] * n)
        (row,) = simulate(together, [load_tier("pcie5")])
        assert row["slowdown"] == pytest.approx(1.0)
        assert row["tenant_slowdown"] == pytest.approx(n)
        assert row["tenant_slowdown"] == max(each["slowdown"] for each in row["tenants"])
        assert felt_slowdown(row) == row["tenant_slowdown"]
    (single,) = simulate(alone, [load_tier("pcie5")])
    assert "tenant_slowdown" not in single
    assert felt_slowdown(single) == single["slowdown"]


def test_the_short_program_of_two_is_the_worst_off():
    short, long = program([1.0] * 10, [[]] * 10), program([3.0] * 10, [[]] * 10)
    both = interleave([short, long])
    (row,) = simulate(both, [load_tier("pcie5")])
    # The short one's last operation ends after 10 of its own and 9 of the other's.
    assert row["tenant_slowdown"] == pytest.approx((10 + 27) / 10)


def test_where_no_program_has_an_end_no_tenants_slowdown_is_stated():
    alone = program([1.0] * 4, [[(0, 10)]] * 4)
    both = interleave([alone, alone])
    bound, serial = simulate(both, [load_tier("pcie5")], modes=("bound", "serial"))
    assert bound["tenant_slowdown"] is None
    assert felt_slowdown(bound) is None  # the plain column is of the machine, not of a tenant
    assert serial["tenant_slowdown"] > 1


def test_a_language_model_leaves_keys_less_memory():
    """40 GB of HBM hold 5 GB of keys beside the model and 4 requests, and no more beside 7."""
    rows = [[(i % 50, 10**8)] for i in range(200)]
    keys = program([1e-3] * 200, rows)

    def loaded(requests: int) -> float:
        memory = Level(
            name="hbm",
            cache=Lru(40 * 10**9),
            tier=load_tier("hbm2"),
            reserved=(parse_reservation(f"opt-13b:{requests}"),),
        )
        hierarchy = Hierarchy((memory, Level(name="drive", tier=load_tier("nvme-gen4"))))
        ((row,), _) = play(keys, [Point(hold=hierarchy, tier=hierarchy.levels[-1].tier)])
        return row["levels"][1]["channel_bytes"]

    assert loaded(4) == 50 * 10**8
    assert loaded(7) == 200 * 10**8
    with pytest.raises(UsageError, match=r"level 'hbm' holds 40 GB .* reserved by 'opt-13b:8'"):
        loaded(8)


def test_a_row_of_levels_has_the_documented_names_and_its_parts_add_up():
    hierarchy = Hierarchy(
        (
            Level(name="chip", cache=Lru(25)),
            Level(name="memory", cache=Lru(30), tier=load_tier("hbm2")),
            Level(name="drive", tier=load_tier("nvme-gen4"), decode_bytes_per_s=1e9),
        )
    )
    ways = [("serial", None), ("overlap", Prefetch(None, 15)), ("overlap", Prefetch(2)), ("bound", None)]
    drive = hierarchy.levels[-1].tier
    full, warnings = play(ONE, [Point(hold=hierarchy, tier=drive, mode=mode, prefetch=ahead) for mode, ahead in ways])
    rows = columns(full, of_clusters=False)
    assert [(row["mode"], row["prefetch"]) for row in rows] == [
        ("serial", None),
        ("overlap", "perfect, 15 B"),
        ("overlap", "next-2"),
        ("bound", None),
    ]
    row = rows[0]
    assert tuple(row) == (*ROW_NAMES, "levels")
    assert [tuple(level) for level in row["levels"]] == [LEVEL_NAMES] * 3
    assert (row["tier"], row["cache_bytes"], row["policy"]) == ("chip+memory+drive", 25, "lru")
    assert sum(level["served_bytes"] for level in row["levels"]) == 35
    assert row["io_s"] == pytest.approx(sum(level["busy_s"] for level in row["levels"]))
    assert row["decode_s"] == pytest.approx(row["levels"][2]["channel_bytes"] / 1e9)
    energy = sum(level["energy_j"] for level in row["levels"])
    assert row["energy_j"] == pytest.approx(2 * 6 + energy)
    assert len(warnings) == 1
    assert "1 of 3 operations get more than the whole prefetch buffer" in warnings[0]


def test_classes_of_a_trace_are_what_a_price_names():
    assert ACCESS_CLASSES == ("key", "plaintext", "ciphertext", "database")


def test_what_a_runtime_saves_that_knows_the_program():
    # Room for two of three keys in a cycle: LRU loads each every time.
    cycle = program([1e-6] * 30, [[(i % 3, 1000)] for i in range(30)])
    rows = locality_table(
        cycle, SHARP, [load_tier("pcie5"), load_tier("rdma")], memory_bytes=2000, prefetch_buffer_bytes=0
    )
    assert [row["runtime"] for row in rows] == [name for name, _, _ in RUNTIMES] * 2
    assert all(tuple(row) == LOCALITY_NAMES for row in rows)
    lru, _, belady, *_ = rows
    assert (lru["io_bytes"], lru["saved_bytes"], lru["saved_s"]) == (30_000, 0, 0.0)
    assert belady["io_bytes"] == 30_000 - 2 * 9 * 1000
    assert belady["saved_bytes_share"] == pytest.approx(0.6)
    assert belady["saved_s"] == pytest.approx(18_000 / 64e9)


def test_prefetching_takes_its_buffer_from_the_cache():
    cycle = program([1e-6] * 30, [[(i % 3, 1000)] for i in range(30)])
    rows = locality_table(cycle, SHARP, [load_tier("pcie5")], memory_bytes=3000, prefetch_buffer_bytes=1000)
    by_name = {row["runtime"]: row for row in rows}
    assert by_name["lru"]["io_bytes"] == 3000
    assert (by_name["lru+prefetch"]["io_bytes"], by_name["lru+prefetch"]["cache_bytes"]) == (30_000, 2000)
    # By default it has room for two operations.
    rows = locality_table(cycle, SHARP, [load_tier("pcie5")], memory_bytes=9000)
    assert {row["prefetch_buffer_bytes"] for row in rows} == {0, 2000}
    with pytest.raises(UsageError, match="it is a part of the memory"):
        locality_table(cycle, SHARP, [], memory_bytes=9, prefetch_buffer_bytes=10)
    with pytest.raises(UsageError, match="states no on-chip memory"):
        locality_table(cycle, replace(SHARP, on_chip={}), [])


def test_results_stay_results_beside_other_programs():
    makes = replace(ONE, access_is_result=np.array([False, True, False]))
    together = interleave([makes, TWO])
    assert together.access_object[together.access_is_result].tolist() == [1]
    assert together.accessed_bytes == 50 - 20
