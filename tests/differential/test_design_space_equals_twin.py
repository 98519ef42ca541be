"""The design space over arrays equals the one point by point; its front equals one by comparing all pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.lab.instorage.drive import drive_rates
from penstock.lab.instorage.front import pareto
from penstock.lab.instorage.machine import UnitAccelerator
from penstock.lab.instorage.machine_power import Multiplicity
from penstock.lab.instorage.machine_spec import load_instorage
from penstock.lab.instorage.named import QUERIES, named_query
from penstock.lab.instorage.policies import HOST_POLICIES, Contention, Encoding, Switches
from penstock.lab.instorage.queries import Inside
from penstock.lab.instorage.space import Axes, Baseline, DesignSpace, explore
from penstock.scheme.machines import load_machine
from twins import instorage_space as twin

DRIVES = (drive_rates("ssd-s"), drive_rates("ssd-l"))
BASELINE = Baseline(machine=load_machine("sharp"), policy=HOST_POLICIES["batch-overlap"])
AXES = Axes(
    drives=DRIVES,
    channels_per_accelerator=(3, 4, 16),  # 3 divides neither drive's channels
    lanes=(16, 128),
    scratchpad_bytes=(200_000, 7_000_000, 60_000_000),  # the first holds no limb of the large ring
    dram_bytes_per_s=(20e9, 51.2e9),
    dram_capacity_bytes=(10**8, 4 * 10**9),  # the first does not hold the keys of scores
    pcie_bytes_per_s=(7.2e9, 30e9),
)


def fheins() -> UnitAccelerator:
    found = load_instorage("fheins")
    assert isinstance(found, UnitAccelerator)
    return found


HOWS = (
    Inside(contention=Contention.SPILL),
    Inside(contention=Contention.DRAM, chained=True, clock_ratio=0.9, dram_efficiency=0.7),
    Inside(multiplicity=Multiplicity.ACCELERATOR),
    Inside(contention=Contention.SPILL, switches=Switches(encoding=Encoding.BATCH)),
)


@pytest.mark.parametrize("workload", QUERIES)
@pytest.mark.parametrize("how", HOWS, ids=lambda how: how.name)
def test_every_point_of_every_workload_is_the_twins(workload: str, how: Inside) -> None:
    query = named_query(workload, slot_bits=16)
    batch = 64 if workload == "pir" else 3
    grid = AXES if workload in ("pir", "ssc") else replace(AXES, dram_bytes_per_s=(), pcie_bytes_per_s=())
    if how is not HOWS[0]:
        grid = replace(grid, drives=DRIVES[:1])
    found = explore(query, grid, fheins(), BASELINE, batch=batch, inside=how)
    expected = list(twin.points(query, grid, fheins(), BASELINE, batch, how))
    assert len(found) == len(expected) > 0
    assert len(found) + sum(found.left_out.values()) == grid.num_points
    for row, other in zip(found.rows(), expected, strict=True):
        words = {name for name, value in other.items() if isinstance(value, str)}
        assert row.keys() == other.keys()
        assert {name: row[name] for name in words} == {name: other[name] for name in words}
        numbers = [(row[name], other[name]) for name in other.keys() - words]
        assert [one for one, _ in numbers] == pytest.approx([two for _, two in numbers], rel=1e-12)


def test_progress_counts_every_point() -> None:
    done: list[int] = []
    explore(named_query("ssc", slot_bits=16), AXES, fheins(), BASELINE, progress=done.append)
    assert sum(done) == AXES.num_points == 288


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 3)), min_size=1, max_size=40),
    st.integers(0, 2**32 - 1),
)
def test_the_front_is_what_no_other_point_beats(values: list[tuple[int, int, int]], seed: int) -> None:
    """Equal points leave one, with the smallest area; a mask takes points out of the competition."""
    size = len(values)
    chosen = np.random.default_rng(seed).random(size) < 0.8
    seconds, watts, area = (np.array(column, dtype=float) for column in zip(*values, strict=True))
    rest = {name: np.zeros(size) for name in ("dram_bytes_per_s", "dram_capacity_bytes", "pcie_bytes_per_s")}
    columns = {"query_s": seconds, "watts": watts, "area_mm2": area, **rest}
    space = DesignSpace(query=named_query("string-match", slot_bits=16), batch=1, columns=columns)
    found = pareto(space, chosen)
    left = np.flatnonzero(chosen)
    expected = twin.front([{"query_s": seconds[i], "watts": watts[i]} for i in left])
    assert {(seconds[i], watts[i]) for i in found} == expected
    assert len(found) == len(expected)
    for i in found:
        same = [j for j in left if (seconds[j], watts[j]) == (seconds[i], watts[i])]
        assert area[i] == min(area[same])
    assert list(seconds[found]) == sorted(seconds[found]), "the fastest first"
