"""Values that a machine file does not state: assumptions are taken instead, and every result says so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import penstock as ps
from penstock.base.runs.folder import RunFolder
from penstock.front.cli.main import main
from penstock.front.explorer.columns import simulated_columns
from penstock.lab.reports.build import build_report
from penstock.lab.sweeps.plan import plan
from penstock.lab.sweeps.run import config_of, run_sweep
from penstock.lab.sweeps.spec import parse_sweep
from penstock.program.running import trace_workload
from penstock.scheme.machines import Evidence, Machine, assumptions, load_machine, load_tier
from penstock.scheme.machines.missing import missing
from penstock.scheme.machines.written import machine_toml, write_machine
from penstock.scheme.operations import OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.play.price import price_trace
from penstock.scheme.work.kernels import kernel_work

SHARP = catalogue.get("sharp")
RATES = {
    "transforms": "1024 points/cycle",
    "base_conversion": "12288 MAC/cycle",
    "multiplications": "4096 mult/cycle",
    "additions": "4096 add/cycle",
    "automorphisms": "1024 coeff/cycle",
}


def machine_file(folder: Path, *, kind: str = "datasheet", first: str | None = None, more: str = "") -> Path:
    """SHARP's rates without anything else; `first` is the kind of the first rate."""
    kinds = dict.fromkeys(RATES, kind) | {"transforms": first or kind}
    units = "\n".join(
        f'{unit} = {{ value = "{rate}", source = "a test", kind = "{kinds[unit]}" }}' for unit, rate in RATES.items()
    )
    path = folder / "bare.toml"
    path.write_text(
        'name = "bare"\ntitle = "rates alone"\noverlap = "pipelined"\noverlap_source = "a test"\n'
        f'clock = {{ value = "1 GHz", source = "a test", kind = "datasheet" }}\n{more}\n[units]\n{units}\n'
    )
    return path


@pytest.mark.parametrize("kind", ["datasheet", "assumed"])
def test_a_machine_without_a_utilisation_takes_that_of_sharp_as_an_assumption(tmp_path, kind):
    bare, sharp = load_machine(machine_file(tmp_path, kind=kind)), load_machine("sharp")
    assert bare.utilisation is not None
    assert bare.utilisation.value == sharp.utilisation.value
    assert bare.utilisation.kind is Evidence.ASSUMED
    assert "machine 'sharp'" in bare.utilisation.source
    work = kernel_work(OpKind.ROTATE, SHARP, 20)
    assert bare.price(work).seconds == sharp.price(work).seconds


def test_a_bootstrapping_on_sharp_s_rates_takes_no_less_than_on_sharp_without_its_on_chip_extension(tmp_path):
    trace = trace_workload("bootstrapping", "sharp")
    bare = price_trace(trace, load_machine(machine_file(tmp_path)))
    sharp = price_trace(trace, replace(load_machine("sharp"), plaintext_transforms=None))
    assert bare.compute_s.sum() == pytest.approx(sharp.compute_s.sum(), rel=1e-12)
    assert any("its utilisation of 62.68 % is assumed" in text for text in bare.warnings)


def test_a_stated_utilisation_is_taken_as_it_is(tmp_path):
    more = 'utilisation = { value = "100 %", source = "a test", kind = "assumed" }'
    bare = load_machine(machine_file(tmp_path, more=more))
    assert bare.utilisation.value == 1.0


@pytest.mark.parametrize("kind", ["measured", "calibrated"])
def test_rates_that_were_measured_are_effective_and_need_no_utilisation(tmp_path, kind):
    bare = load_machine(machine_file(tmp_path, kind=kind))
    assert bare.utilisation is None
    assert "utilisation" not in [each.field for each in missing(bare)]
    assert bare.warnings(SHARP) == ()


def test_rates_of_which_some_were_measured_are_taken_whole_with_a_warning(tmp_path):
    bare = load_machine(machine_file(tmp_path, first="measured"))
    assert bare.utilisation is None
    assert ("utilisation", "100 %") in [(each.field, each.taken) for each in missing(bare)]
    (warning,) = bare.warnings(SHARP)
    assert "states no utilisation" in warning
    assert "base_conversion" in warning


def test_what_the_file_does_not_state_is_not_written_into_it(tmp_path):
    bare = load_machine(machine_file(tmp_path))
    assert "utilisation" not in machine_toml(bare)
    write_machine(bare, tmp_path / "again.toml")
    assert load_machine(tmp_path / "again.toml") == bare
    stated = replace(bare, utilisation=load_machine("bts").utilisation)
    assert "62.68 %" in machine_toml(stated)


def taken_of(machine: Machine) -> dict[str, str]:
    return {row["field"]: row["value"] for row in assumptions(machine) if row["kind"] == "missing"}


def test_missing_values_that_change_a_number_are_among_the_assumptions(tmp_path):
    found = taken_of(load_machine(machine_file(tmp_path)))
    assert found == {
        "units.memory": "takes no time",
        "plaintext_transforms": "all limbs of plaintexts are loaded",
        "overhead": "0 s",
        "power": "no energy is known",
    }
    assert taken_of(load_machine("sharp")) == {"units.memory": "takes no time", "overhead": "0 s"}


CHECK = ("machines", "check")


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


def test_check_lists_what_is_missing_and_what_is_taken_what_is_assumed_and_what_is_disputed(capsys, tmp_path):
    path = machine_file(tmp_path, first="assumed", more='disputed = ["area: one page says 90 mm2"]')
    found = json.loads(run(capsys, *CHECK, str(path), "--format", "json"))
    assert found["name"] == "bare"
    rows = {row["field"]: row for row in found["missing"]}
    assert rows["utilisation"]["taken"] == "62.68 %"
    assert rows["utilisation"]["in_results"]
    assert rows["overhead"]["taken"] == "0 s"
    assert rows["architecture.word"]["taken"] == "any width of primes is priced without a warning"
    assert not rows["architecture.word"]["in_results"]
    assert "clock" not in rows
    assert [row["field"] for row in found["assumed"]] == ["units.transforms"]
    assert found["calibrated"] == []
    assert found["disputed"] == ["area: one page says 90 mm2"]
    text = run(capsys, *CHECK, str(path))
    assert "62.68 %" in text
    assert "disputed: area: one page says 90 mm2" in text


def test_check_lists_the_calibrated_value_of_a_shipped_machine(capsys):
    found = json.loads(run(capsys, *CHECK, "sharp", "--format", "json"))
    assert [row["field"] for row in found["calibrated"]] == ["utilisation", "datapath.efficiency"]
    assert "utilisation" not in [row["field"] for row in found["missing"]]
    rows = run(capsys, *CHECK, "sharp", "--format", "csv").splitlines()
    assert rows[0] == "machine,kind,field,value,in_results,source"
    assert any(row.startswith("sharp,disputed,") for row in rows)


def test_check_refuses_a_file_that_cannot_be_read(capsys, tmp_path):
    path = machine_file(tmp_path)
    path.write_text(path.read_text().replace("1024 points", "1024 pints"))
    assert main([*CHECK, str(path)]) == 2
    assert "units.transforms" in capsys.readouterr().err


def test_every_result_names_the_utilisation_that_was_taken(capsys, tmp_path):
    path = str(machine_file(tmp_path))
    words = ("inner-product", "--params", "sharp", "--machine", path)
    assert main(["simulate", *words, "--tier", "hbm"]) == 0
    out, messages = capsys.readouterr()
    assert "bare, assumed: utilisation 62.68 %" in out
    assert "bare, missing: units.memory takes no time" in out
    assert "its utilisation of 62.68 % is assumed" in " ".join(messages.split())
    found = json.loads(run(capsys, "predict", "run", *words, "--format", "json"))
    assert any("its utilisation of 62.68 % is assumed" in text for text in found["warnings"])
    text = run(capsys, "predict", "run", *words)
    assert "bare, missing: units.memory takes no time" in text


def test_json_rows_have_them_with_their_sources_as_tables_and_api_have(capsys, tmp_path):
    bare, tiers = load_machine(machine_file(tmp_path)), ["--tier", "hbm", "--tier", "pcie5"]
    words = ("inner-product", "--params", "sharp", "--machine", str(tmp_path / "bare.toml"))
    rows = json.loads(run(capsys, "simulate", *words, "--machine", "sharp", *tiers, "--format", "json"))
    assert [(row["machine"], row["tier"]) for row in rows][:2] == [("bare", "hbm"), ("bare", "pcie5")]
    for row, machine in zip(rows, [bare, bare, *[load_machine("sharp")] * 2], strict=True):
        of_tier = [each for each in row["assumptions"] if "tier" in each]
        assert row["assumptions"] == [*assumptions(machine), *of_tier]
        assert {each["tier"] for each in of_tier} == {row["tier"]}
    assert {"machine": "bare", "field": "overhead", "value": "0 s", "kind": "missing",
            "source": "the machine file states none"} in rows[0]["assumptions"]  # fmt: skip
    output = tmp_path / "rows.json"
    assert main(["simulate", *words, "--machine", "sharp", *tiers, "-o", str(output)]) == 0
    assert json.loads(output.read_text()) == rows
    assert "assumptions" not in run(capsys, "simulate", *words, *tiers, "--format", "csv").partition("\n")[0]
    levels = ["--levels", "on-chip,hbm2:40 GB,nvme-gen4", "--format", "json"]
    (row,) = json.loads(run(capsys, "simulate", *words[:3], "--machine", "sharp", *levels))
    assert {"hbm2", "nvme-gen4"} <= {each.get("tier") for each in row["assumptions"]}
    found = json.loads(run(capsys, "predict", "run", *words, "--format", "json"))
    assert found["assumptions"] == assumptions(bare)
    shown = repr(ps.simulate("inner-product", str(tmp_path / "bare.toml"), "hbm", params="sharp"))
    assert "missing: bare units.memory takes no time" in shown


def test_a_sweep_stores_them_and_its_report_shows_them(tmp_path):
    sweep = parse_sweep(
        'name = "bare"\nworkload = "inner-product"\nparams = "sharp"\ntier = "hbm"\n'
        f'machine = "{machine_file(tmp_path)}"',
        "test",
    )
    planned = plan(sweep)
    with RunFolder.open_or_resume(tmp_path / "run", config_of(sweep, planned)) as folder:
        run_sweep(planned, folder, workers=1)
    stored = RunFolder.open(tmp_path / "run")
    found = {(each["field"], each["value"], each["kind"]) for each in stored.record["assumptions"]}
    assert {("utilisation", "62.68 %", "assumed"), ("overhead", "0 s", "missing")} <= found
    page = build_report(stored).read_text(encoding="utf-8")
    assert "<h2>Assumed and calibrated values</h2>" in page
    assert "62.68 %" in page


def test_the_explorer_says_what_a_machine_s_file_does_not_state(tmp_path):
    columns = simulated_columns(
        [load_machine(machine_file(tmp_path))], [load_tier("hbm")], None, stated=True, decode=""
    )
    source = next(each.source for each in columns if each.source and "its file does not state" in each.source)
    assert "utilisation (62.68 %)" in source
    assert "overhead (0 s)" in source


def test_work_at_the_drive_names_what_its_host_assumes(capsys, tmp_path):
    words = ("inner-product", "--params", "sharp", "--machine", str(machine_file(tmp_path)))
    assert main(["ssd", "near-data", *words]) == 0
    assert "bare, assumed: utilisation 62.68 %" in capsys.readouterr().out
