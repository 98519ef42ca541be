"""`penstock machines`: lists, single machines, and the tables of the documentation."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from penstock.front.cli.main import main
from penstock.lab.prediction.machine_tables import markdown
from penstock.scheme.machines import load_machine, machine_names
from penstock.scheme.machines.written import write_machine

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "machines.md"
BEGIN, END = "<!-- penstock machines list --markdown -->\n", "<!-- end -->"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["machines", *words]) == 0
    return capsys.readouterr().out


def test_the_list_has_area_power_and_how_much_is_assumed(capsys):
    rows = {row["name"]: row for row in json.loads(run(capsys, "list", "--format", "json"))}
    assert set(rows) == set(machine_names())
    sharp, bts, fab = rows["sharp"], rows["bts"], rows["fab"]
    assert (sharp["area_mm2"], sharp["power_w"], sharp["technology_nm"]) == (178.8, 94.7, 7)
    assert (sharp["utilisation_kind"], bts["utilisation_kind"]) == ("calibrated", "assumed")
    assert (bts["area_mm2"], bts["power_w"], bts["clock_hz"]) == (373.6, 163.2, 1.2e9)
    assert (fab["area_mm2"], fab["off_chip_bytes_per_s"]) == (None, 460e9)  # an FPGA states no area
    values = sum(sharp[f"num_{kind}"] for kind in ("datasheet", "measured", "calibrated", "assumed"))
    assert values == len(list(load_machine("sharp").figures()))
    assert {row["name"] for row in csv.DictReader(io.StringIO(run(capsys, "list", "--format", "csv")))} == set(rows)
    text = run(capsys, "list")
    assert "178.8 mm2" in text
    assert "94.7 W" in text


def test_one_machine_shows_every_value_with_its_source_what_is_disputed_and_what_operations_cost(capsys):
    found = json.loads(run(capsys, "show", "bts", "--format", "json"))
    assert {row["field"] for row in found["values"]} >= {"units.transforms", "architecture.area", "power"}
    assert all(row["source"] and row["kind"] for row in found["values"])
    assert any("133.8 W" in text for text in found["disputed"])
    assert any("calibrated to nothing" in text for text in found["warnings"])
    assert found["parameter_set"]["effective_levels"] == 20
    rotate = next(row for row in found["operations"] if row["operation"] == "rotate")
    assert rotate["peak_seconds"] == pytest.approx(0.6268 * rotate["seconds"])
    assert rotate["joules"] == pytest.approx(163.2 * rotate["seconds"])
    assert rotate["key_bytes"] == 2 * 2 * 60 * 2**17 * 8
    text = run(capsys, "show", "bts")
    assert "373.6 mm2" in text
    assert "disputed: Power" in text


def test_a_machine_without_a_power_has_no_joules_and_one_without_bootstrapping_no_levels(capsys):
    trinity = json.loads(run(capsys, "show", "trinity", "--format", "json"))
    assert all(row["joules"] is None for row in trinity["operations"])
    heap = json.loads(run(capsys, "show", "heap", "--format", "json"))
    assert heap["parameter_set"]["effective_levels"] is None
    assert "no bootstrapping" in run(capsys, "show", "heap")


def test_another_set_can_be_asked_for_and_a_file_of_ones_own(capsys, tmp_path):
    write_machine(load_machine("sharp"), tmp_path / "copy.toml")
    found = json.loads(run(capsys, "show", str(tmp_path / "copy.toml"), "--params", "ark", "--format", "json"))
    assert found["parameter_set"]["params"] == "ark"
    assert "primes of up to 54 bits, and its units take 36" in found["warnings"][0]


def test_unknown_machines_and_commands_suggest_the_nearest(capsys):
    assert main(["machines", "show", "sharpp"]) == 2
    assert "did you mean 'sharp'" in capsys.readouterr().err
    assert main(["machines", "lst"]) == 2
    assert "did you mean 'list'" in capsys.readouterr().err


def test_the_tables_of_the_page_are_those_that_the_command_prints(capsys):
    """They are made from the files; where this fails: `penstock machines list --markdown`, between the marks."""
    printed = run(capsys, "list", "--markdown")
    assert printed == markdown([load_machine(name) for name in machine_names()])
    page = PAGE.read_text(encoding="utf-8")
    assert page.count(BEGIN) == page.count(END) == 1
    assert page[page.index(BEGIN) + len(BEGIN) : page.index(END)].strip() == printed.strip()
