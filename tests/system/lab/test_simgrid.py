"""The flow engine = SimGrid, where SimGrid is installed. A skip says how to get it."""

from __future__ import annotations

import json

import pytest

from penstock.front.cli.main import main
from penstock.lab.simulation.cluster.collectives import AllGather, Broadcast, Pattern, pattern_of
from penstock.lab.simulation.cluster.flows import bottleneck_seconds, flow_seconds, pattern_seconds
from penstock.lab.simulation.cluster.simgrid import PYTHON_VARIABLE, SimGrid, SimGridMissing, find_python
from penstock.lab.simulation.cluster.topology import build
from penstock.lab.sweeps import play
from penstock.lab.sweeps.store import read_results
from penstock.scheme.machines.networks import load_network

LIMB = 294912
ALL = tuple(range(32))
EVEN = AllGather(ALL, (LIMB,) * 32)
UNEVEN = AllGather(ALL, (2 * LIMB,) * 3 + (LIMB,) * 29)
FEW = AllGather(ALL, (LIMB,) * 13 + (0,) * 19)
SENDERS = AllGather(ALL[:12], (2 * LIMB,) * 4 + (LIMB,) * 8, ALL[:5])
"""Seven hosts only send, as those do that hold limbs of P and none of Q."""
FAT_TREE_TOLERANCE = 0.10
"""Where links have latency, SimGrid gives a message over six links a third of the rate of one over two (the round-trip
unfairness of TCP); the engine shares equally unless asked to do the same, and ends up to 5 % sooner."""

SMALL_FAT_TREE_TOLERANCE = 0.35
"""The same with 5 to 13 hosts: up to 31 % sooner was seen."""


@pytest.fixture(scope="module")
def simgrid() -> SimGrid:
    """SimGrid, or a skip that names what is missing."""
    try:
        return SimGrid(python=find_python())
    except SimGridMissing as error:
        pytest.skip(str(error))


def seconds(topology: str, network: str, pattern: Pattern, sharing="equal") -> float:
    return float(flow_seconds(build(topology, 32), load_network(network), pattern, sharing=sharing).sum())


@pytest.mark.parametrize("collective", [EVEN, UNEVEN, FEW], ids=["even", "uneven", "fewer-than-hosts"])
@pytest.mark.parametrize("network", ["ethernet-400", "infiniband-ndr"])
def test_on_a_star_the_engine_the_closed_form_and_simgrid_agree(simgrid, collective, network):
    for algorithm in ("direct", "ring", "recursive-doubling", "bruck"):
        pattern = pattern_of(collective, algorithm)
        layout, link = build("star", 32), load_network(network)
        (expected,) = simgrid.seconds(layout, link, [pattern])
        assert seconds("star", network, pattern) == pytest.approx(expected, rel=1e-6)
        assert bottleneck_seconds(layout, link, pattern) == pytest.approx(expected, rel=1e-6)
        assert pattern_seconds(layout, link, pattern) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("topology", ["star", "fat-tree", "clos:leaf=8,spines=4,oversubscription=3", "torus", "ring"])
def test_without_latency_they_agree_on_every_topology(simgrid, topology):
    patterns = [pattern_of(each) for each in (EVEN, UNEVEN, FEW, SENDERS, Broadcast(ALL, 5, 2 * LIMB))]
    expected = simgrid.seconds(build(topology, 32), load_network("ethernet-400"), patterns)
    assert [seconds(topology, "ethernet-400", p) for p in patterns] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("topology", ["fat-tree", "clos:leaf=8,spines=4,oversubscription=3", "torus", "ring"])
def test_with_latency_they_agree_where_messages_share_as_simgrid_has_it(simgrid, topology):
    patterns = [pattern_of(each) for each in (EVEN, UNEVEN, FEW, SENDERS)]
    *expected, senders = simgrid.seconds(build(topology, 32), load_network("infiniband-ndr"), patterns)
    *got, last = [seconds(topology, "infiniband-ndr", pattern, "by-latency") for pattern in patterns]
    assert got == pytest.approx(expected, rel=1e-6)
    # On the Clos SimGrid ends 0.16 % sooner; the engine is its twin in exact fractions there.
    assert last == pytest.approx(senders, rel=2e-3 if topology.startswith("clos") else 1e-6)


def test_on_a_fat_tree_equal_sharing_stays_within_its_stated_tolerance(simgrid):
    patterns = [pattern_of(each, name) for each in (EVEN, UNEVEN, FEW) for name in ("direct", "ring", "bruck")]
    expected = simgrid.seconds(build("fat-tree", 32), load_network("infiniband-ndr"), patterns)
    got = [seconds("fat-tree", "infiniband-ndr", pattern) for pattern in patterns]
    assert got == pytest.approx(expected, rel=FAT_TREE_TOLERANCE)
    assert all(a <= b * (1 + 1e-9) for a, b in zip(got, expected, strict=True))


@pytest.mark.parametrize("hosts", [5, 6, 9, 11, 13])
def test_on_small_fat_trees_sharing_counts_for_more(simgrid, hosts):
    blocks = (2 * LIMB,) * (35 % hosts) + (LIMB,) * (hosts - 35 % hosts)
    pattern, layout, link = (
        pattern_of(AllGather(tuple(range(hosts)), blocks), "direct"), build("fat-tree", hosts),
        load_network("infiniband-ndr"),
    )  # fmt: skip
    (expected,) = simgrid.seconds(layout, link, [pattern])
    by_latency, equal = (
        float(flow_seconds(layout, link, pattern, sharing=each).sum()) for each in ("by-latency", "equal")
    )
    assert by_latency == pytest.approx(expected, rel=2e-5)
    assert equal == pytest.approx(expected, rel=SMALL_FAT_TREE_TOLERANCE)
    assert equal <= expected * (1 + 1e-9)


def test_equal_patterns_are_played_once(simgrid):
    mine = SimGrid(python=simgrid.python)
    layout, link = build("star", 4), load_network("ethernet-400")
    pattern = pattern_of(AllGather((0, 1, 2, 3), (7, 7, 7, 7)))
    twice = mine.seconds(layout, link, [pattern, pattern])
    assert twice[0] == twice[1]
    assert mine.seconds(layout, link, [pattern]) == twice[:1]
    assert mine.processes == 1
    assert mine.version


def test_the_command_line_lets_simgrid_play(simgrid, capsys):
    options = ["simulate", "inner-product", "--params", "sharp", "--machine", "sharp", "--tier", "pcie5"]
    options += ["--hosts", "4,8", "--network", "ethernet-400", "--topology", "fat-tree", "--format", "json"]
    assert main(options) == 0
    engine = json.loads(capsys.readouterr().out)
    assert main([*options, "--simgrid"]) == 0
    judge = json.loads(capsys.readouterr().out)
    for mine, its in zip(engine, judge, strict=True):
        assert mine.pop("communication_s") == pytest.approx(its.pop("communication_s"), rel=1e-6)
        assert mine["sent_bytes"] == its["sent_bytes"]


SWEEP = """
workload = "inner-product"
params = "sharp"
machine = "sharp"
tier = ["pcie5", "rdma"]
hosts = [4, 8]
network = "ethernet-400"
topology = ["star", "fat-tree"]
engine = ["penstock", "simgrid"]
"""


def swept(folder, *options: str) -> list[dict]:
    play._simgrid.cache_clear()  # what this process has played before is not remembered
    (folder / "mine.toml").write_text(SWEEP)
    assert main(["sweep", str(folder / "mine.toml"), "-o", str(folder / "run"), *options]) == 0
    return read_results(folder / "run").to_pylist()


def test_a_sweep_has_simgrids_rows_beside_the_engines(simgrid, tmp_path, monkeypatch):
    monkeypatch.setenv(PYTHON_VARIABLE, simgrid.python)
    rows = swept(tmp_path, "--workers", "2", "--quiet")
    assert [row["engine"] for row in rows] == ["penstock"] * 8 + ["simgrid"] * 8
    for own, judged in zip(rows[:8], rows[8:], strict=True):
        assert judged["total_s"] == pytest.approx(own["total_s"], rel=1e-6)
        assert abs(judged["simgrid_difference"]) < 1e-6


@pytest.mark.parametrize("deaths", [1, 1000])
def test_a_worker_that_is_killed_in_a_sweep_is_replaced_or_its_points_are_named(
    simgrid, tmp_path, monkeypatch, capsys, deaths
):
    """An interpreter that dies so many times where it is to play, and is SimGrid's from then on."""
    python = tmp_path / "python"
    python.write_text(
        f"""#!/bin/sh
[ "$3" = --version ] && exec {simgrid.python} "$@"
echo >> {tmp_path}/deaths
[ $(wc -l < {tmp_path}/deaths) -le {deaths} ] && kill -9 $$
exec {simgrid.python} "$@"
"""
    )
    python.chmod(0o755)
    monkeypatch.setenv(PYTHON_VARIABLE, str(python))
    rows = swept(tmp_path, "--workers", "1")
    said = capsys.readouterr().err
    assert len((tmp_path / "deaths").read_text().splitlines()) > 1
    assert len(rows) == (16 if deaths == 1 else 8)
    assert ("8 hosts, ethernet-400, fat-tree:k=4, rplp, serial, simgrid (2 points)" in said) == (deaths > 1)
    assert ("the SimGrid worker was killed by SIGKILL" in said) == (deaths > 1)
