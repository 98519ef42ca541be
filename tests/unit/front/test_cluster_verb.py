"""`penstock simulate --hosts --network`: rows, table, and what it refuses."""

from __future__ import annotations

import json

import pytest

from penstock.front.cli.main import main
from penstock.lab.simulation.cluster.partitions import PARTITIONS
from penstock.scheme.play.rows import CLUSTER_NAMES, ROW_NAMES

COMMAND = ["simulate", "inner-product", "--params", "sharp", "--machine", "sharp", "--tier", "pcie5"]


def rows(capsys, *options: str) -> list[dict]:
    assert main([*COMMAND, *options, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_hosts_and_networks_multiply_and_rows_say_which(capsys):
    got = rows(capsys, "--hosts", "1,2,4", "--network", "ethernet-400", "--network", "fastfabric-300")
    assert [tuple(row) for row in got] == [(*ROW_NAMES, *CLUSTER_NAMES, "assumptions")] * 6
    assert [(row["network"], row["hosts"]) for row in got] == [
        (network, hosts) for network in ("ethernet-400", "fastfabric-300") for hosts in (1, 2, 4)
    ]
    for row in got:
        parts = row["compute_s"] + row["io_s"] + row["decode_s"] + row["communication_s"]
        assert row["total_s"] == pytest.approx(parts)
        assert (row["topology"], row["partition"], row["provenance"]) == ("star", "rplp", "simulated")
    ethernet, fabric = got[1]["communication_s"], got[4]["communication_s"]
    assert ethernet == pytest.approx(6 * fabric)
    assert got[0]["speedup"] == pytest.approx(1)
    assert got[2]["compute_s"] < got[1]["compute_s"] < got[0]["compute_s"]


def test_one_host_has_the_times_of_a_run_without_a_cluster(capsys):
    (alone,) = rows(capsys)
    (one,) = rows(capsys, "--hosts", "1", "--network", "ethernet-400")
    differ = {name for name in ROW_NAMES if alone[name] != pytest.approx(one[name])}
    assert differ == {"network"}


def test_partitions_topologies_caches_and_modes_are_columns(capsys):
    got = rows(
        capsys,
        "--hosts",
        "4",
        "--network",
        "100 Gb/s",
        "--topology",
        "clos:leaf=2,spines=1",
        "--partition",
        "rplp",
        "--partition",
        "by-digit",
        "--partition",
        "by-tenant",
        "--cache",
        "1 GiB",
        "--policy",
        "belady",
        "--mode",
        "serial",
        "--mode",
        "overlap",
        "--mode",
        "bound",
        "--all-gather",
        "ring",
    )
    assert len(got) == 9
    assert {row["topology"] for row in got} == {"clos:leaf=2,spines=1,oversubscription=1"}
    assert {(row["policy"], row["cache_bytes"], row["all_gather"]) for row in got} == {("belady", 2**30, "ring")}
    assert [row["programs"] for row in got] == [1] * 6 + [4] * 3
    assert [row["mode"] for row in got[:3]] == ["serial", "overlap", "bound"]


def test_tenants_need_no_network(capsys):
    (row,) = rows(capsys, "--hosts", "4", "--partition", "by-tenant")
    assert (row["network"], row["communication_s"], row["speedup"]) == (None, 0, pytest.approx(4))


@pytest.mark.parametrize("mode", ["serial", "overlap", "bound"])
def test_no_partition_is_faster_than_its_hosts_on_one_host_together(capsys, mode):
    """Against one host by the same model of time: with list scheduling one host was 1.03 times as fast as one host."""
    names = [name for name in PARTITIONS if mode != "bound" or name != "by-ciphertext"]
    got = rows(
        capsys,
        *("--hosts", "1,2,8", "--network", "nvlink4", "--mode", mode),
        *(word for name in names for word in ("--partition", name)),
    )
    assert len(got) == 3 * len(names)
    for row in got:
        assert row["speedup"] <= row["hosts"] * (1 + 1e-9), row["partition"]
        if row["hosts"] == 1:
            assert row["speedup"] == pytest.approx(1, rel=1e-12)


def test_the_table_shows_hosts_and_repeats_what_networks_assume(capsys):
    assert main([*COMMAND, "--hosts", "1,8", "--network", "fastfabric-300"]) == 0
    out = capsys.readouterr().out
    assert "communication" in out
    assert "fastfabric-300, assumed: bandwidth 300 GB/s; latency 0 us" in out
    assert "sharp, calibrated: utilisation" in out
    assert "pcie5, assumed: latency 0 ns" in out


def test_the_table_tells_its_rows_apart(capsys):
    options = ["--hosts", "4", "--network", "nvlink4", "--mode", "overlap", "--cache", "1 GB", "--cache", "on-chip"]
    assert main([*COMMAND, *options, "--policy", "lru", "--prefetch", "none", "--prefetch", "next-3"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line.startswith("sharp")]
    assert sum("1 GB lru" in line for line in lines) == sum("198 MB lru" in line for line in lines) == 2
    assert sum("overlap, next-3" in line for line in lines) == sum("overlap, none" in line for line in lines) == 2


def test_more_hosts_than_limbs_are_explained_on_stderr(capsys):
    assert main([*COMMAND, "--hosts", "40", "--network", "nvlink4", "--format", "json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)[0]["hosts"] == 40
    assert "a limb is not cut, so 5 hosts never hold one" in " ".join(captured.err.split())


@pytest.mark.parametrize(("hosts", "idle"), [("40", None), ("47", None), ("64", 17)])
def test_opposed_the_special_limbs_lie_on_hosts_that_hold_no_other(capsys, hosts, idle):
    """35 limbs of Q from the first host on, 12 of P from the last one down."""
    options = ["--hosts", hosts, "--network", "nvlink4", "--partition", "rplp-opposed", "--format", "json"]
    assert main([*COMMAND, *options]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert ("never hold one" in said) == (idle is not None)
    assert idle is None or f"so {idle} hosts never hold one and only make exchanges longer; use 47 hosts" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--hosts", "32"], "name a --network"),
        (["--hosts", "4", "--network", "nvlink4", "--compare-policies"], "plays one host: leave --hosts"),
        (["--hosts", "4", "--network", "nvlink4", "--with", "inner-product"], "plays one host: leave --hosts"),
        (["--hosts", "0", "--network", "nvlink4"], "not a number of hosts"),
        (["--hosts", "2;4", "--network", "nvlink4"], "not a number of hosts"),
        (["--hosts", "4", "--network", "nvlink5"], "did you mean 'nvlink"),
        (["--hosts", "4", "--network", "400"], "has no unit"),
        (["--hosts", "4", "--network", "-4 GB/s"], "is negative"),
        (["--hosts", "4", "--network", "nvlink4", "--topology", "stars"], "did you mean 'star'"),
        (["--hosts", "4", "--network", "nvlink4", "--topology", "fat-tree:k=2"], "2 places for 4 hosts"),
        (["--hosts", "4", "--network", "nvlink4", "--partition", "by-tenants"], "did you mean 'by-tenant'"),
        (["--hosts", "4", "--network", "nvlink4", "--all-gather", "bruk"], "did you mean 'bruck'"),
        (["--all-gather", "bruk"], "did you mean 'bruck'"),
        (["--partition", "by-tenants"], "did you mean 'by-tenant'"),
        (["--topology", "stars", "--compare-policies"], "did you mean 'star'"),
        (["--simgrid"], "name --hosts and a --network"),
    ],
)
def test_what_cannot_be_played_ends_with_2_before_anything_is_traced(capsys, options, message):
    assert main([*COMMAND, *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
