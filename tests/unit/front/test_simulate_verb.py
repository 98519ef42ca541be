"""`penstock simulate`: rows, files, and what it refuses."""

from __future__ import annotations

import csv
import io
import json

import pytest

from penstock.front.cli.main import main
from penstock.program.running import trace_workload
from penstock.scheme.play.rows import ROW_NAMES
from penstock.scheme.traces.io import write_trace

WORKLOAD = ["simulate", "inner-product", "--params", "sharp"]


def run(capsys, *arguments: str) -> str:
    assert main([*arguments]) == 0
    return capsys.readouterr().out


def refused(capsys, *arguments: str) -> str:
    """The message of a command that must end with 2."""
    assert main([*arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_rows_are_stable_json_one_for_each_tier_of_the_study(capsys):
    rows = json.loads(run(capsys, *WORKLOAD, "--machine", "sharp", "--format", "json"))
    assert [tuple(row) for row in rows] == [(*ROW_NAMES, "assumptions")] * 4
    assert [row["tier"] for row in rows] == ["hbm", "ddr5", "pcie5", "rdma"]
    assert {row["mode"] for row in rows} == {"serial"}
    assert all(row["hit_ratio"] == 0 and row["policy"] == "forced" and row["cache_bytes"] is None for row in rows)
    demand = [(row["slowdown"] - 1) * bw for row, bw in zip(rows, (1000, 358.4, 64, 12.5), strict=True)]
    assert demand == pytest.approx([demand[0]] * 4, rel=1e-6)


def test_a_trace_file_and_its_workload_give_the_same_rows(capsys, tmp_path):
    path = tmp_path / "trace.parquet"
    write_trace(trace_workload("inner-product", "sharp"), path)
    options = ["--machine", "sharp", "--format", "json"]
    from_file = json.loads(run(capsys, "simulate", str(path), *options))
    assert from_file == json.loads(run(capsys, *WORKLOAD, *options))


def test_caches_policies_modes_and_machines_multiply(capsys):
    out = run(
        capsys,
        *WORKLOAD,
        "--machine",
        "sharp",
        "--machine",
        "a100-tensorfhe",
        "--tier",
        "3.5 GB/s",
        "--cache",
        "on-chip",
        "--cache",
        "1 GiB",
        "--policy",
        "lru",
        "--policy",
        "belady",
        "--mode",
        "serial",
        "--mode",
        "bound",
        "--format",
        "csv",
    )
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 2 * 4 * 2
    assert {row["cache_bytes"] for row in rows} == {"198000000", str(40 * 2**20), str(2**30)}
    assert {row["tier"] for row in rows} == {"3.5 GB/s"}


def test_the_table_says_what_is_simulated_assumed_and_calibrated(capsys):
    out = run(capsys, *WORKLOAD, "--machine", "sharp", "--tier", "pcie5", "--hit-ratio", "0.5")
    assert "simulated" in out
    assert "sharp, calibrated: utilisation" in out
    assert "sharp, assumed: " in out
    assert "0.5 of the bytes" in out


def test_key_form_decode_and_classes_change_the_rows(capsys):
    def first(*options: str) -> dict:
        arguments = (*WORKLOAD, "--machine", "sharp", "--tier", "pcie5", "--format", "json", *options)
        return json.loads(run(capsys, *arguments))[0]

    seeded, full = first(), first("--key-form", "full")
    assert full["key_bytes"] == 2 * seeded["key_bytes"]
    assert first("--decode", "0.27 GB/s")["decode_s"] > 0
    assert first("--classes", "keys,ciphertexts")["io_bytes"] > seeded["io_bytes"]


@pytest.mark.parametrize("suffix", ["json", "csv"])
def test_rows_go_to_a_file_that_is_not_overwritten(capsys, tmp_path, suffix):
    path = tmp_path / f"rows.{suffix}"
    arguments = (*WORKLOAD, "--machine", "sharp", "-o", str(path))
    assert run(capsys, *arguments) == ""
    text = path.read_text()
    rows = json.loads(text) if suffix == "json" else list(csv.DictReader(io.StringIO(text)))
    assert [tuple(row) for row in rows] == [(*ROW_NAMES, *(["assumptions"] * (suffix == "json")))] * 4
    assert "use --force" in refused(capsys, *arguments)
    run(capsys, *arguments, "--force")
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "name a machine: --machine a100-cheddar|a100-tensorfhe|ark|"),
        (["--machine", "shrap"], "did you mean 'sharp'?"),
        (["--machine", "sharp", "--tier", "hbmm"], "did you mean 'hbm'?"),
        (["--machine", "sharp", "--tier", "7"], "has no unit"),
        (["--machine", "sharp", "--mode", "seriel"], "did you mean 'serial'?"),
        (["--machine", "sharp", "--hit-ratio", "1.5"], "between 0 and 1"),
        (["--machine", "sharp", "--hit-ratio", "0.5", "--cache", "1 GiB"], "either --hit-ratio or --cache"),
        (["--machine", "sharp", "--policy", "lru"], "give its size with --cache"),
        (["--machine", "sharp", "--cache", "1 GiB", "--policy", "lur"], "did you mean 'lru'?"),
        (["--machine", "sharp", "--cache", "12"], "has no unit"),
        (["--machine", "sharp", "--classes", "keyz"], "did you mean 'keys'?"),
        (["--machine", "sharp", "--classes", ","], "name at least one"),
        (["--machine", "sharp", "--key-form", "seed"], "did you mean 'seeded'?"),
        (["--machine", "sharp", "--decode", "fast"], "is not a number with a unit"),
        (["--machine", "sharp", "--hosts", "32"], "name a --network"),
        (["--machine", "sharp", "--network", "ethernet"], "did you mean 'ethernet-400'?"),
        (["--machine", "sharp", "-o", "rows.txt"], ".json or .csv"),
    ],
)
def test_a_wrong_request_ends_with_2_and_the_remedy(capsys, options, message):
    assert message in refused(capsys, *WORKLOAD, *options)


def test_an_unknown_workload_suggests_the_nearest(capsys):
    assert "did you mean 'inner-product'?" in refused(capsys, "simulate", "inner-prodct", "--machine", "sharp")


def test_a_trace_has_its_parameters_already(capsys, tmp_path):
    path = tmp_path / "trace.parquet"
    write_trace(trace_workload("inner-product", "sharp"), path)
    assert "leave --params and --size out" in refused(
        capsys, "simulate", str(path), "--params", "sharp", "--machine", "sharp"
    )


def test_a_machine_without_on_chip_memory_has_no_cache_of_its_own(capsys, tmp_path):
    path = tmp_path / "plain.toml"
    path.write_text(
        'name = "plain"\ntitle = "t"\noverlap = "in-turn"\noverlap_source = "a test"\n[units]\n'
        'transforms = { value = "1 Gpoints/s", source = "a test", kind = "assumed" }\n'
    )
    assert "states no on-chip memory" in refused(capsys, *WORKLOAD, "--machine", str(path), "--cache", "on-chip")


def test_a_missing_trace_file_ends_with_2_and_is_named(capsys):
    assert main(["simulate", "nowhere/trace.parquet", "--machine", "sharp"]) == 2
    assert "nowhere/trace.parquet" in capsys.readouterr().err


def test_without_params_the_machine_s_own_set_is_taken_and_a_note_says_so(capsys):
    arguments = ("simulate", "inner-product", "--machine", "ark", "--tier", "hbm")
    assert main([*arguments]) == 0
    captured = capsys.readouterr()
    assert captured.out.split(" at ")[1].split(",")[0] == "ark"
    said = " ".join(captured.err.split())
    assert "note: parameter set 'ark' (size full) is taken: machine 'ark' was built for 'ark'" in said
    assert main([*arguments, "--params", "ark"]) == 0
    assert "note:" not in capsys.readouterr().err


def test_the_hit_ratio_for_80_percent_reaches_it_where_the_tier_has_latency(capsys):
    command = ("simulate", "inner-product", "--params", "heap", "--machine", "heap", "--tier", "nvme-gen5")
    line = next(line for line in run(capsys, *command).splitlines() if line.startswith("heap ") and "hits" in line)
    needed = float(line.split()[-2].rstrip("%")) / 100
    (row,) = json.loads(run(capsys, *command, "--hit-ratio", str(needed), "--format", "json"))
    assert row["slowdown"] == pytest.approx(1.25, rel=1e-3)
