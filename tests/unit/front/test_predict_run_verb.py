"""`penstock predict run`: one object, what-if rows, tables of counts, and what is refused."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from penstock.front.cli.main import main
from penstock.program.running import trace_workload
from penstock.scheme.machines import load_machine
from penstock.scheme.machines.figure import Evidence, Figure
from penstock.scheme.machines.written import write_machine
from penstock.scheme.traces.io import write_trace

KEYS = {
    "predicted_s", "low_s", "high_s", "predicted_j", "low_j", "high_j", "idle_j", "energy_kind", "peak_bytes",
    "low_peak_bytes", "high_peak_bytes", "key_bytes", "key_bytes_touched", "num_keys", "num_operations", "server_s",
    "client_s", "encode_s", "recording_s", "warnings", "contributions", "provenance", "workload", "params", "size",
    "machine", "threads", "assumptions", "unpriced", "at_least", "reading",
}  # fmt: skip
BASE = ["predict", "run"]
INNER = [*BASE, "inner-product", "--params", "sharp", "--machine", "sharp"]


def run(capsys, *arguments: str) -> str:
    assert main([*arguments]) == 0
    return capsys.readouterr().out


def refused(capsys, *arguments: str) -> str:
    assert main([*arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_json_is_one_object_with_stable_keys(capsys):
    found = json.loads(run(capsys, *INNER, "--format", "json", "--contributions", "2"))
    assert set(found) == KEYS
    assert (found["workload"], found["params"], found["machine"]) == ("inner-product", "sharp", "sharp")
    assert found["provenance"] == "predicted"
    assert found["threads"] is None
    assert found["low_s"] is None
    assert found["predicted_s"] > 0
    assert found["key_bytes"] > 0
    assert found["peak_bytes"] > found["key_bytes"]
    assert len(found["contributions"]) == 2
    assert set(found["contributions"][0]) == {"kind", "limbs", "count", "seconds", "share", "factor"}


def test_a_trace_predicts_what_its_workload_does(capsys, tmp_path):
    path = tmp_path / "inner.parquet"
    write_trace(trace_workload("inner-product", "sharp"), path)
    of_trace = json.loads(run(capsys, *BASE, str(path), "--machine", "sharp", "--format", "json"))
    of_name = json.loads(run(capsys, *INNER, "--format", "json"))
    assert of_trace == of_name


def test_the_table_names_what_is_assumed_and_why_there_is_no_interval(capsys):
    shown = run(capsys, *INNER)
    assert "predicted, 90 % intervals" in shown
    assert "no interval" in shown
    assert "sharp, assumed:" in shown
    assert "rotate" in shown


def test_what_if_gives_one_row_a_combination(capsys):
    words = [*BASE, "inner-product", "--params", "insecure-ci", "--machine", "sharp", "--quiet"]
    rows = json.loads(run(capsys, *words, "--what-if", "depth=2..4", "--what-if", "dnum=1,9", "--format", "json"))
    assert [(r["depth"], r["dnum"]) for r in rows] == [(d, k) for d in (2, 3, 4) for k in (1, 9)]
    assert [r["reason"] is None for r in rows] == [True, False] * 3
    text = run(capsys, *words, "--what-if", "depth=2..4", "--format", "csv")
    assert [row["depth"] for row in csv.DictReader(io.StringIO(text))] == ["2", "3", "4"]
    table = run(capsys, *words, "--what-if", "dnum=1,9")
    assert "dnum 9" in table


def test_a_table_of_counts_has_a_wider_interval_and_says_so(capsys, tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("operation,count\nEvalMult,10\nEvalRotate,20\n")
    words = [*BASE, "--op-counts", str(file), "--params", "openfhe-demo", "--machine", "sharp", "--format", "json"]
    found = json.loads(run(capsys, *words))
    assert set(found) == KEYS
    assert found["low_s"] < found["predicted_s"] < found["high_s"]
    assert "30 operations (100%) state no limbs" in found["warnings"][0]
    assert (found["peak_bytes"], found["key_bytes"], found["size"]) == (None, None, None)


def test_requests_that_mean_nothing_are_refused(capsys, tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("operation,count\nEvalMult,10\n")
    assert "name a machine: --machine a100-" in refused(capsys, *BASE, "inner-product")
    assert "one of the two" in refused(capsys, *BASE, "--machine", "sharp")
    assert "one of the two" in refused(capsys, *INNER, "--op-counts", str(file))
    assert "add --params" in refused(capsys, *BASE, "--op-counts", str(file), "--machine", "sharp")
    assert "did you mean 'inner-product'" in refused(capsys, *BASE, "inner-produkt", "--machine", "sharp")
    assert "what-if axis" in refused(capsys, *INNER, "--what-if", "limbs=3")
    assert "key form" in refused(capsys, *INNER, "--key-form", "half")


def test_one_thing_is_not_said_in_two_options(capsys):
    for option, value, axis in (("--threads", "4", "threads=1,2"), ("--key-form", "seeded", "key-form=full")):
        said = refused(capsys, *INNER, option, value, "--what-if", axis)
        assert f"{option} and --what-if {option[2:]}=" in said


def test_the_table_has_the_energy_without_work(capsys, tmp_path):
    idle = Figure(value=20.0, text="20 W", source="a test", kind=Evidence.ASSUMED)
    write_machine(replace(load_machine("sharp"), name="mine", idle_power=idle), tmp_path / "mine.toml")
    words = [*BASE, "inner-product", "--params", "sharp", "--machine", str(tmp_path / "mine.toml")]
    idle_j = json.loads(run(capsys, *words, "--format", "json"))["idle_j"]
    assert f"{idle_j:.4g} J in that time without work" in run(capsys, *words)
    assert "without work" not in run(capsys, *INNER)


def test_help_shows_examples(capsys):
    with pytest.raises(SystemExit):
        raise SystemExit(main([*BASE, "--help"]))
    assert "Examples:" in capsys.readouterr().out
