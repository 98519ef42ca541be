"""Sweeps over several memory levels: the rows are those of `simulate`."""

from __future__ import annotations

import json

from support.sweep_rows import planned, rows_of, simulated

STACK = "on-chip,hbm:200 MB,nvme-gen5"


def test_levels_are_those_of_simulate(capsys):
    text = f"""
        workload = "inner-product"
        params = "sharp"
        machine = "sharp"
        levels = "{STACK}"
        inclusion = ["independent", "inclusive", "exclusive"]
        mode = ["serial", "overlap"]
    """
    rows = rows_of(planned(text))
    modes = ["--mode", "serial", "--mode", "overlap"]
    for i, inclusion in enumerate(("independent", "inclusive", "exclusive")):
        expected = simulated(capsys, "--levels", STACK, "--inclusion", inclusion, *modes)
        for row, theirs in zip(rows[2 * i : 2 * i + 2], expected, strict=True):
            assert json.loads(row["levels"]) == theirs.pop("levels")
            assert {name: row[name] for name in theirs} == theirs


PINNED = """
[[levels]]
tier = "on-chip"
capacity = "20 MB"

[[levels]]
tier = "hbm"
capacity = "40 GB"
pinned = ["ciphertexts"]

[[levels]]
tier = "nvme-gen5"
"""


def test_what_a_file_of_levels_pins_is_played(capsys, tmp_path):
    (tmp_path / "pin.toml").write_text(PINNED)
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\ntitle = "a drive"\n[bandwidth]\nvalue = "3 GB/s"\nsource = "a test"\nkind = "assumed"\n'
    )
    line = f"on-chip:20 MB,{tmp_path}/mine.toml"
    text = f"""
        workload = "inner-product"
        params = "sharp"
        machine = "sharp"
        [[sweep]]
        levels = ["{tmp_path}/pin.toml", "{line}"]
        [[sweep]]
        levels = "{tmp_path}/pin.toml"
        write_back = true
    """
    rows = rows_of(planned(text))
    expected = simulated(capsys, "--levels", f"{tmp_path}/pin.toml")
    expected += simulated(capsys, "--levels", f"{tmp_path}/pin.toml", "--write-back")
    expected += simulated(capsys, "--levels", line)
    assert [row["classes"] for row in rows] == ["key,ciphertext", "key,ciphertext", "key"]
    for row, theirs in zip(rows, expected, strict=True):
        assert json.loads(row["levels"]) == theirs.pop("levels")
        assert {name: row[name] for name in theirs} == theirs
    assert json.loads(rows[0]["levels"])[1]["pinned_bytes"] > 0
    assert rows[1]["written_bytes"] > 0


SMALL = "on-chip:20 MB,hbm:200 MB,nvme-gen5"


def test_results_written_back_are_those_of_simulate(capsys):
    text = f"""
        workload = "inner-product"
        params = "sharp"
        machine = "sharp"
        classes = ["keys", "ciphertexts"]
        write_back = true
        [[sweep]]
        tier = ["hbm", "nvme-gen5"]
        cache = "20 MB"
        [[sweep]]
        levels = "{SMALL}"
        [[sweep]]
        tier = ["hbm", "nvme-gen5"]
        cache = "20 MB"
        write_back = false
    """
    *rows, plain_hbm, plain_nvme = rows_of(planned(text))
    common = ["--classes", "keys,ciphertexts", "--write-back"]
    expected = simulated(capsys, *common, "--tier", "hbm", "--tier", "nvme-gen5", "--cache", "20 MB")
    expected += simulated(capsys, *common, "--levels", SMALL)
    for row, theirs in zip(rows, expected, strict=True):
        theirs.pop("levels", None)
        assert {name: row[name] for name in theirs} == theirs
        assert row["written_bytes"] > 0
    assert plain_hbm["written_bytes"] is plain_nvme["written_bytes"] is None
    assert plain_nvme["total_s"] < rows[1]["total_s"]


def test_programs_that_run_together_are_those_of_simulate(capsys):
    text = """
        workload = "inner-product"
        params = "sharp"
        machine = "sharp"
        with = ["inner-product"]
        tier = ["hbm", "pcie5"]
        cache = "on-chip"
    """
    rows = rows_of(planned(text))
    cache = ["--cache", "on-chip", "--tier", "hbm", "--tier", "pcie5"]
    expected = simulated(capsys, "--with", "inner-product", *cache)
    assert [row["programs"] for row in rows] == [2, 2]
    for row, theirs in zip(rows, expected, strict=True):
        assert json.loads(row["tenants"]) == theirs["tenants"]
        for name in ("total_s", "io_bytes", "hit_ratio", "cache_bytes", "policy", "tier", "tenant_slowdown"):
            assert row[name] == theirs[name], name
