"""`penstock simulate` with levels, prefetching, other programs and the comparison of runtimes."""

from __future__ import annotations

import csv
import io
import json

import pytest

from penstock.front.cli.main import main
from penstock.lab.simulation.memory.locality import RUNTIMES
from penstock.program.running import trace_workload
from penstock.scheme.play.rows import LEVEL_NAMES, ROW_NAMES
from twins.laws import LOCALITY_NAMES

WORKLOAD = ["simulate", "inner-product", "--params", "sharp", "--machine", "sharp"]
LEVELS = ["--levels", "on-chip,hbm2:1 GB,nvme-gen4"]


def run(capsys, *options: str) -> str:
    assert main([*WORKLOAD, *options]) == 0
    return capsys.readouterr().out


def rows(capsys, *options: str) -> list[dict]:
    return json.loads(run(capsys, *options, "--format", "json"))


def test_one_cache_and_one_tier_are_two_levels(capsys):
    (levels,) = rows(capsys, "--levels", "on-chip:90 MB,pcie5", "--policy", "belady")
    (plain,) = rows(capsys, "--tier", "pcie5", "--cache", "90 MB", "--policy", "belady")
    assert tuple(plain) == (*ROW_NAMES, "assumptions")
    assert tuple(levels) == (*ROW_NAMES, "levels", "assumptions")
    assert levels["tier"] == "on-chip+pcie5"
    assert {name: levels[name] for name in ROW_NAMES if name != "tier"} == {
        name: plain[name] for name in ROW_NAMES if name != "tier"
    }
    assert [tuple(level) for level in levels["levels"]] == [LEVEL_NAMES] * 2


def test_policies_modes_and_prefetching_multiply(capsys):
    out = run(
        capsys,
        *LEVELS,
        "--policy",
        "lru",
        "--policy",
        "optimal",
        "--mode",
        "serial",
        "--mode",
        "overlap",
        "--prefetch",
        "none",
        "--prefetch",
        "next-2",
        "--prefetch",
        "perfect",
        "--prefetch-buffer",
        "90 MB",
        "--format",
        "csv",
    )
    found = list(csv.DictReader(io.StringIO(out)))
    assert len(found) == 2 * (1 + 3)
    assert [row["prefetch"] for row in found[:4]] == ["", "none", "next-2, 90 MB", "perfect, 90 MB"]
    assert [level["policy"] for level in json.loads(found[-1]["levels"])] == ["optimal", "optimal", None]
    serial, none, *ahead = (float(row["total_s"]) for row in found[:4])
    assert serial == none
    assert all(total <= none for total in ahead)


def test_prefetching_works_over_a_tier_too(capsys):
    found = rows(capsys, "--tier", "pcie5", "--mode", "overlap", "--prefetch", "none", "--prefetch", "next-4")
    assert [row["prefetch"] for row in found] == ["none", "next-4"]
    assert found[0]["total_s"] > found[1]["total_s"]
    (default,) = rows(capsys, "--tier", "pcie5", "--mode", "overlap")
    assert default["prefetch"] == "next-1"


def test_a_file_of_levels_and_rows_in_files(capsys, tmp_path):
    path = tmp_path / "levels.toml"
    path.write_text(
        '[[levels]]\ntier = "on-chip"\n[[levels]]\ntier = "hbm3"\ncapacity = "80 GB"\npinned = ["ciphertexts"]\n'
        'reserved = ["opt-13b:4"]\n[[levels]]\ntier = "nvme-gen5"\n'
    )
    (row,) = rows(capsys, "--levels", str(path), "--decode", "0.27 GB/s")
    memory, drive = row["levels"][1:]
    assert memory["pinned_bytes"] > 0  # the class is played because it is pinned
    assert memory["reserved_bytes"] > 26 * 2**30
    assert drive["decode_s"] == pytest.approx(drive["channel_bytes"] / 0.27e9)
    out = tmp_path / "rows.csv"
    assert run(capsys, "--levels", str(path), "-o", str(out)) == ""
    assert json.loads(next(csv.DictReader(io.StringIO(out.read_text())))["levels"])[1]["level"] == "hbm3"


def test_pins_shares_and_reservations_from_the_command_line(capsys):
    (row,) = rows(
        capsys,
        *LEVELS,
        "--classes",
        "keys,ciphertexts",
        "--pin",
        "ciphertexts=hbm2",
        "--share",
        "keys=on-chip:90 MB",
        "--reserve",
        "hbm2=100 MB @ 50 %",
    )
    (free,) = rows(capsys, *LEVELS, "--classes", "keys,ciphertexts")
    assert row["levels"][1]["reserved_bytes"] == 10**8
    assert row["levels"][1]["busy_s"] > free["levels"][1]["busy_s"]
    assert row["levels"][2]["channel_bytes"] < free["levels"][2]["channel_bytes"]


def test_programs_beside_each_other_end_later(capsys):
    (alone,) = rows(capsys, "--tier", "pcie5", "--cache", "on-chip")
    for order in ("round-robin", "time"):
        (both,) = rows(
            capsys, "--tier", "pcie5", "--cache", "on-chip", "--with", "inner-product", "--interleave", order
        )
        assert both["workload"] == "inner-product+inner-product"
        assert [each["tenant"] for each in both["tenants"]] == ["inner-product 1", "inner-product 2"]
        assert both["compute_s"] == pytest.approx(2 * alone["compute_s"])
        assert max(each["finish_s"] for each in both["tenants"]) == pytest.approx(both["total_s"])
    (levels,) = rows(capsys, *LEVELS, "--with", "inner-product")
    assert len(levels["tenants"]) == 2


def test_the_table_states_the_slowdown_of_the_worst_tenant(capsys):
    for more in (["--tier", "pcie5", "--cache", "on-chip"], LEVELS):
        (row,) = rows(capsys, *more, "--with", "inner-product")
        assert row["tenant_slowdown"] > 1.9 * row["slowdown"]
        text = run(capsys, *more, "--with", "inner-product")
        assert "worst tenant" in text
        assert f"{row['tenant_slowdown']:.4g}x" in text[: text.index("operations")]  # not only in each tenant's line


def test_runtimes_are_compared_on_each_tier(capsys):
    found = rows(capsys, "--compare-policies", "--tier", "hbm", "--tier", "rdma", "--cache", "200 MB")
    assert [tuple(row) for row in found] == [(*LOCALITY_NAMES, "assumptions")] * (2 * len(RUNTIMES))
    least = min(row["io_bytes"] for row in found)
    assert {row["io_bytes"] for row in found if row["runtime"] == "optimal"} == {least}
    assert rows(capsys, "--compare-policies", "--tier", "hbm")[0]["memory_bytes"] == 198_000_000


def test_tables_show_levels_programs_and_runtimes(capsys):
    out = run(capsys, *LEVELS, "--with", "inner-product", "--mode", "overlap")
    assert "sharp, overlap, prefetch next-1" in out
    assert "nvme-gen4  everything" in out
    assert "inner-product 2" in out
    out = run(capsys, "--compare-policies", "--tier", "pcie5")
    assert "optimal+prefetch" in out
    out = run(capsys, "--tier", "pcie5", "--with", "inner-product")
    assert "inner-product 2" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--levels", "on-chip:1 MB,pcie5"], "pass by it; give it room for the largest object"),
        (["--tier", "pcie5", "--cache", "1 MB"], "pass by it; give the cache room for the largest object"),
        (
            ["--tier", "pcie5", "--mode", "overlap", "--prefetch", "perfect", "--prefetch-buffer", "1 MB"],
            "give the buffer room for the largest operation",
        ),
    ],
)
def test_what_is_too_large_is_warned_of_and_streamed(capsys, options, message):
    assert main([*WORKLOAD, *options]) == 0
    captured = capsys.readouterr()
    assert message in " ".join(captured.err.split())
    assert captured.out


def test_a_comparison_warns_as_its_points_do(capsys):
    assert main([*WORKLOAD, "--compare-policies", "--tier", "hbm", "--cache", "20 MB", "--prefetch-buffer", "1 B"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "accesses need more than the whole cache (20 MB" in said
    assert "more than the whole prefetch buffer" in said
    assert said.count("the whole cache (20 MB") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--levels", "on-chip,hbm", "--tier", "hbm"], "leave --tier, --cache and --hit-ratio out"),
        (["--levels", "on-chip,hbm", "--cache", "1 GB"], "leave --tier, --cache and --hit-ratio out"),
        (["--levels", "on-chip,hbmm"], "did you mean 'hbm'?"),
        (["--levels", "on-chip,hbm", "--policy", "lur"], "did you mean 'lru'?"),
        (["--levels", "on-chip,hbm", "--pin", "keys"], "write CLASS=LEVEL"),
        (["--levels", "on-chip,hbm", "--pin", "keyz=hbm"], "did you mean 'keys'?"),
        (["--levels", "on-chip,hbm", "--pin", "keys=hbn"], "did you mean 'hbm'?"),
        (["--levels", "on-chip,hbm", "--pin", "keys=on-chip", "--reserve", "on-chip=198 MB"], "too little for key"),
        (["--levels", "on-chip,hbm", "--share", "keys=on-chip"], "is not a number with a unit"),
        (["--levels", "on-chip,hbm", "--reserve", "on-chip=opt-31b"], "did you mean 'opt-13b'?"),
        (["--pin", "keys=hbm"], "name them with --levels"),
        (["--prefetch", "next-2"], "add --mode overlap"),
        (["--prefetch", "perfect", "--mode", "overlap"], "state the buffer's size"),
        (["--prefetch-buffer", "1 GB"], "add --prefetch perfect"),
        (["--prefetch", "next-2", "--prefetch-depth", "2", "--mode", "overlap"], "give one of them"),
        (["--compare-policies", "--policy", "lru"], "sets policies, mode and prefetching"),
        (["--compare-policies", "--mode", "bogus"], "sets policies, mode and prefetching"),
        (["--prefetch-depth", "2"], "--prefetch-depth is of mode overlap, the only one that loads ahead of compute"),
        (["--mode", "overlap", "--prefetch", "none", "--prefetch-buffer", "1 MB"], "needs no buffer"),
        (
            ["--write-back"],
            "--write-back is of ciphertexts, which are resident unless named: add --classes keys,ciphertexts",
        ),
        (["--write-back", "--classes", "ciphertexts", "--hit-ratio", "0.5"], "leave --hit-ratio"),
        (["--write-back", "--classes", "ciphertexts", "--compare-policies"], "--compare-policies out"),
        (["--write-back", "--classes", "ciphertexts", "--hosts", "2", "--network", "ethernet-400"], "plays one host"),
        (["--write-back", "--classes", "ciphertexts", "--timeline", "t.json"], "leave --with, --write-back"),
        (["--interleave", "time"], "how programs take turns: name another program, --with"),
        (["--compare-policies", "--prefetch-depth", "7"], "sets policies, mode and prefetching"),
        (["--compare-policies", "--cache", "0 B"], "a cache of 0 bytes keeps nothing"),
        (["--compare-policies", "--cache", "1 GB", "--prefetch-buffer", "2 GB"], "it is a part of the memory"),
        (["--with", "inner-prodct"], "did you mean 'inner-product'?"),
        (["--levels", "on-chip,hbm", "--hosts", "2", "--network", "ethernet-400"], "leave --hosts and --network out"),
    ],
)
def test_a_wrong_request_ends_with_2_and_the_remedy(capsys, options, message):
    assert main([*WORKLOAD, *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--pin", "keys=hbm2", "--pin", "keys=nvme-gen4"), "keys live in 'hbm2' already; pin a class once"),
        (("--share", "keys=hbm2:1 MB", "--share", "keys=hbm2:2 MB"), "keys have a share of 'hbm2' already"),
    ],
)
def test_what_is_pinned_or_shared_twice_is_refused(capsys, options, message):
    assert main([*WORKLOAD, *LEVELS, *options]) == 2
    assert message in capsys.readouterr().err


def test_results_are_written_back_over_a_tier_as_over_levels(capsys):
    options = ("--classes", "keys,ciphertexts", "--mode", "serial", "--mode", "overlap", "--write-back")
    over_tier = rows(capsys, *options, "--tier", "nvme-gen5", "--cache", "20 MB", "--policy", "lru", "--policy", "arc")
    over_levels = rows(capsys, *options, "--policy", "lru", "--policy", "arc", "--levels", "on-chip:20 MB,nvme-gen5")
    for one, two in zip(over_tier, over_levels, strict=True):
        assert (one["tier"], one["policy"]) == ("nvme-gen5", two["policy"])
        assert one["written_bytes"] == two["levels"][1]["written_bytes"] > 0
        for name in ("total_s", "io_s", "io_bytes", "hit_ratio", "cache_bytes", "mode", "prefetch", "energy_j"):
            assert one[name] == two[name], name
    plain = rows(capsys, *options[:-1], "--tier", "nvme-gen5", "--cache", "20 MB", "--policy", "lru", "--policy", "arc")
    for one, other in zip(over_tier, plain, strict=True):
        assert one["io_bytes"] == other["io_bytes"]
        assert "written_bytes" not in other
        if one["mode"] == "serial":
            # The drive writes at 6.6 GB/s, and each result that is written waits 80 us.
            writing_s = one["total_s"] - other["total_s"] - one["written_bytes"] / 6.6e9
            assert writing_s / 80e-6 == pytest.approx(round(writing_s / 80e-6), abs=1e-6)
    roomy = rows(capsys, *options, "--tier", "nvme-gen5", "--cache", "1 TB")
    assert [row["written_bytes"] for row in roomy] == [0, 0]


def test_what_is_written_back_may_be_named_by_a_pin_or_a_share(capsys):
    (plain,) = rows(capsys, "--write-back", "--hit-ratio", "0", "--classes", "ciphertexts", "--tier", "hbm")
    assert plain["written_bytes"] > 0
    levels = ("--levels", "on-chip:40 MB,hbm:40 GB,nvme-gen5", "--write-back")
    (shared,) = rows(capsys, *levels, "--share", "ciphertexts=on-chip:20 MB")
    (pinned,) = rows(capsys, *levels, "--pin", "ciphertexts=hbm")
    assert shared["written_bytes"] > 0
    assert pinned["written_bytes"] > 0


def test_tables_say_what_is_written_back(capsys):
    common = [*WORKLOAD, "--classes", "ciphertexts", "--write-back"]
    assert main([*common, "--tier", "hbm", "--cache", "20 MB"]) == 0
    captured = capsys.readouterr()
    assert "written back" in captured.out
    assert "states no rate of writing" in " ".join(captured.err.split())
    assert main([*common, "--levels", "on-chip:20 MB,nvme-gen4"]) == 0
    out = capsys.readouterr().out
    assert "written" in out
    assert "nvme-gen4, assumed: latency 80 us; energy 1.6 nJ/B" in out


def test_results_are_no_loads_from_the_drive(capsys):
    """Ciphertexts that fit on chip are made there: the drive serves the inputs, wherever they are kept later."""
    options = ("--classes", "ciphertexts", "--levels")
    (fits,) = rows(capsys, *options, "on-chip:1 TB,nvme-gen5")
    (evicts,) = rows(capsys, *options, "on-chip:20 MB,hbm3:80 GB,nvme-gen5")
    inputs = fits["levels"][-1]["served_bytes"]
    kinds = trace_workload("inner-product", "sharp").operations["kind"].to_pylist()
    assert fits["levels"][-1]["transfers"] == kinds.count("encrypt")
    assert 0 < inputs < fits["levels"][0]["served_bytes"]
    assert evicts["levels"][-1]["served_bytes"] == inputs
    assert evicts["levels"][1]["served_bytes"] > 0
    (pinned,) = rows(capsys, *options, "on-chip:20 MB,hbm3:80 GB,nvme-gen5", "--pin", "ciphertexts=hbm3")
    assert pinned["levels"][-1]["channel_bytes"] == 0
    assert evicts["total_s"] - pinned["total_s"] == pytest.approx(evicts["levels"][-1]["busy_s"])
