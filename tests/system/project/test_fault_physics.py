"""Some random simulated runs, whose results have to be possible (`python tests/faults physics` has many)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faults import physics
from faults.__main__ import SIZES
from penstock.lab.instorage.drive import drive_rates
from penstock.lab.instorage.engine import played_on_host
from penstock.lab.instorage.flash import spec as ssd
from penstock.lab.instorage.flash.input import engine_input
from penstock.lab.instorage.flash.scan import ScanResult, scan_drive
from penstock.lab.instorage.policies import HOST_POLICIES
from penstock.lab.instorage.query import match_query
from penstock.lab.simulation.cluster.spec import Cluster
from penstock.lab.simulation.memory.levels import EXCLUSIVE, Hierarchy, Level
from penstock.lab.simulation.memory.levels_replay import replay_levels
from penstock.scheme.machines import load_machine, load_tier
from penstock.scheme.machines.drives import load_drive
from penstock.scheme.machines.networks import load_network
from penstock.scheme.params import catalogue
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import Lru, SizedCache
from penstock.scheme.play.hierarchy import PlayedPoint, replay
from support import invariants
from twins.laws import play

RUNS = 24
"""Of each kind."""


@pytest.mark.parametrize("kind", physics.KINDS)
def test_what_a_random_run_says_is_possible(kind: str) -> None:
    results = [physics.case(seed, kind) for seed in range(RUNS)]
    assert not [str(each) for each in results if each.faults]


def test_the_bench_draws_every_kind(tmp_path: Path) -> None:
    results = physics.bench(tmp_path, 120, seed=7, jobs=1)
    assert not [str(each) for each in results if each.faults]
    assert {each.kind for each in results} == physics.KINDS.keys()
    assert SIZES["physics"] == 1000


def test_a_run_that_breaks_off_is_a_fault_of_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(draw: physics.Draw) -> Iterator[str]:
        yield f"{draw.whole(3, 3)} is more than 2"

    monkeypatch.setitem(physics.KINDS, "cache", broken)
    (result,) = [physics.case(5, "cache")]
    assert (result.seed, result.faults) == (5, ("3 is more than 2",))


# The invariants find what they look for.
def told(change: Callable[[ScanResult], ScanResult]) -> str:
    small = {"channels": "2 channels", "blocks": "64 blocks/plane", "spare_blocks": "8 blocks/plane"}
    drive = load_drive("ssd-s", small)
    scan = ssd.Scan(size_bytes=3 * 10**6)
    writes = ssd.HostTraffic(bytes_per_s=5e8)
    given = engine_input(
        drive,
        scan,
        host=ssd.ScanTarget.PCIE,
        arbitration=ssd.Arbitration.PIPELINED,
        engine=ssd.ScanEngine.EVENTS,
        consumers=(),
        host_consumer=None,
        aggregator=None,
        mapping=None,
        reads=None,
        writes=writes,
    )
    got = scan_drive(drive, scan, host=ssd.ScanTarget.PCIE, writes=writes)
    return "; ".join(invariants.of_scan(drive, given, change(got)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda got: got, ""),
        (lambda got: replace(got, array_busy=1.1), "busy share of dies: 1.1"),
        (lambda got: replace(got, pcie_up_busy=got.pcie_up_busy / 2), "counted work of PCIe to the host in its busy"),
        (lambda got: replace(got, wear=replace(got.wear, erases=1443)), "counted work of dies in its busy time"),
        (lambda got: replace(got, simulated_s=got.simulated_s / 9), "counted work of"),
        (lambda got: replace(got, write_latency=replace(got.write_latency, count=10**6)), "writes that have come"),
        (lambda got: replace(got, latency=replace(got.latency, max_s=1.0)), "largest latency of pages"),
    ],
)
def test_a_scan_that_cannot_be_is_found_out(change: Callable[[ScanResult], ScanResult], said: str) -> None:
    found = told(change)
    assert (said in found) if said else (found == "")


def test_caches_and_levels_that_cannot_be_are_found_out() -> None:
    accesses = Accesses.of([[(1, 4), (2, 4)], [(1, 4)], [(3, 4)], [(2, 4)]])
    kept = replay(accesses, Lru(8), detail=True)
    needs = {1: 4, 2: 4, 3: 4}
    assert not [*invariants.of_replay(kept, needs)]
    for change in ({"hits": 3}, {"miss_bytes": 8}, {"peak_resident_bytes": 9}, {"evictions": 99}):
        assert [*invariants.of_replay(replace(kept, **change), needs)], change
    tier = load_tier("hbm")
    times = play([1e-9] * 4, accesses, Lru(8), tier, timeline=True)
    assert not [*invariants.of_timeline(times, "serial", tier, None)]
    for changed in ({"io_s": times.io_s / 2}, {"total_s": times.compute_s / 2}, {"decode_s": 1.0}):
        assert [*invariants.of_timeline(replace(times, **changed), "serial", tier, None)], changed
    levels = (Level(name="a", cache=SizedCache("lru", 4)), Level(name="b", cache=SizedCache("lru", 3)), Level(name="c"))
    got = replay_levels(accesses, Hierarchy(levels, inclusion=EXCLUSIVE))
    sizes = accesses.access_bytes.tolist()
    assert not [*invariants.of_levels(got, sizes)]
    lying = replace(got.loads[1], demoted_bytes=4, operation_bytes=got.loads[1].operation_bytes + np.int64(1))
    found = [*invariants.of_levels(replace(got, loads=(got.loads[0], lying, got.loads[2])), sizes)]
    assert "demoted_bytes of b, which holds nothing: 4 is not 0" in found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, ""),
        ({"ordinary_served_bytes_per_s": 7.1e9}, "bytes over the link"),
        ({"ordinary_bytes_per_s": 1e9}, "reads that are served"),
        ({"busy": {"pcie": 1e-3}}, "busy time of the link"),
    ],
)
def test_an_answer_that_the_link_cannot_carry_is_found_out(change: dict[str, Any], said: str) -> None:
    policy = HOST_POLICIES["restream-overlap"]
    query = match_query(catalogue.get("fheins-pir"), database_bytes=10**8, starts=1)
    got = played_on_host(query, load_drive("ssd-s"), load_machine("sharp"), policy, ordinary_bytes_per_s=7.1e9)
    found = "; ".join(invariants.of_answer(replace(got, **change), drive_rates("ssd-s"), policy))
    assert (said in found) if said else (found == "")


def test_a_drawing_that_goes_on_behind_the_end_is_found_out() -> None:
    drawn = {"traceEvents": [{"name": "erase", "ph": "X", "ts": 5.0, "dur": 2.0}]}
    told = [[*invariants.of_drawing(drawn, lambda _: None, 9, end_s)] for end_s in (7e-6, 6e-6)]
    assert told[0] == []
    assert "end of what is drawn: 7e-06" in told[1][0]


def test_a_host_that_is_faster_than_itself_is_found_out() -> None:
    single = PlayedPoint(
        compute_s=1, io_s=0, decode_s=0, total_s=2, io_bytes=0, loaded_bytes=0, hit_ratio=None, energy_j=None
    )
    for hosts, total_s, said in ((1, 2, 0), (1, 1.9, 2), (4, 0.5, 0), (4, 0.4, 1)):
        cluster = Cluster(hosts=hosts, network=load_network("nvlink4"))
        got = replace(single, compute_s=0.4, total_s=total_s)
        told = [*invariants.of_cluster(got, cluster, "overlap", load_tier("hbm"), single)]
        assert len(told) == said
        assert all("speed-up" in each for each in told)
