"""Paths that are something else than a verb expects, and names that are no UTF-8: no internal error, no lost run."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.base.runs.folder import RunFolder
from penstock.errors import UsageError
from penstock.front.cli.main import main
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.library import Library
from penstock.front.explorer.state import State
from penstock.front.explorer.views import show
from penstock.lab.measure.bench.results import load_results
from penstock.lab.measure.bench.store import StoredSet
from penstock.lab.sweeps.plan import plan
from penstock.lab.sweeps.run import run_sweep
from penstock.lab.sweeps.spec import sweep_of
from penstock.lab.sweeps.store import read_results
from penstock.program.running.trace import trace_workload
from penstock.scheme.machines import load_machine
from penstock.scheme.machines.written import write_machine
from penstock.scheme.traces.io import read_trace, write_trace
from support.bench_rows import folder_of, points_of, rows_of

ROOT = Path(__file__).parents[3]
NOT_UTF8 = os.fsdecode(b"caf\xe9")
SWEEP = {"workload": "inner-product", "size": "ci", "params": "sharp", "machine": "sharp", "tier": ["hbm", "pcie5"]}


def new_run(path: Path) -> Path:
    """A finished run with one measured time."""
    with RunFolder.create(path, {"workload": "inner-product", "command": f"penstock analyze -o {path}"}) as run:
        run.append_rows("measured", [{"quantity": "wall_s", "value": 1.5, "unit": "s", "provenance": "measured"}])
        run.finish()
    return path


def test_the_explorer_names_links_that_form_a_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (new_run(tmp_path / "a") / "this-cpu.toml").symlink_to("this-cpu.toml")
    assert main(["explore", "whatif", "machine=run:a", "--print", "--runs", str(tmp_path)]) == 1
    assert "this-cpu.toml: its links form a loop; choose another path" in capsys.readouterr().err


def test_a_run_in_a_folder_whose_name_is_no_utf8_keeps_its_rows(tmp_path: Path) -> None:
    path = new_run(tmp_path / NOT_UTF8)
    assert [row["value"] for row in RunFolder.open(path).stage_rows("measured")] == [1.5]
    (path / ".complete").unlink()
    with RunFolder.open_or_resume(path, RunFolder.open(path).config) as run:
        assert run.has_stage("measured")
        run.finish()
        assert run.warnings == []


def test_a_trace_in_a_file_whose_name_is_no_utf8_is_read_back(tmp_path: Path) -> None:
    trace, path = trace_workload("inner-product", "sharp", "ci"), tmp_path / f"{NOT_UTF8}.parquet"
    write_trace(trace, path)
    assert read_trace(path).operations == trace.operations


def test_a_sweep_in_a_folder_whose_name_is_no_utf8_is_played_and_read(tmp_path: Path) -> None:
    planned, path = plan(sweep_of(SWEEP, "sweep", "axes")), tmp_path / NOT_UTF8
    with RunFolder.create(path, {"kind": "sweep"}) as run:
        run_sweep(planned, run, workers=1)
    assert read_results(path).num_rows == 2


def test_benchmark_results_in_a_folder_whose_name_is_no_utf8_are_read(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", rows_of(points_of()[:1], lambda *_: 1e-3))
    assert load_results(folder.rename(tmp_path / NOT_UTF8)).num_rows > 0


@pytest.mark.parametrize("coding", ["utf-8", "ascii"])
@pytest.mark.parametrize("shape", ["table", "csv", "json"])
def test_what_a_coding_lacks_is_printed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coding: str, shape: str
) -> None:
    new_run(tmp_path / NOT_UTF8)
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding=coding, write_through=True))
    assert main(["explore", "runs", "--print", "--format", shape, "--runs", str(tmp_path)]) == 0
    assert (b"caf\\\\udce9" if shape == "json" else b"caf\\udce9") in printed.getvalue()
    print(NOT_UTF8, "\ud800", "é", end="", file=sys.stdout)  # a path is printed as the bytes that it is
    assert printed.getvalue().endswith(b"caf\xe9 \\ud800 " + (b"\\xe9" if coding == "ascii" else "é".encode()))


def test_the_explorer_finds_a_run_by_the_name_that_it_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new_run(tmp_path / "a"), new_run(tmp_path / NOT_UTF8)
    library = Library(runs=tmp_path)
    assert sorted(library.run_names()) == ["a", "caf\\udce9"]
    for name in ("caf\\udce9", NOT_UTF8):
        assert main(["explore", "run", f"run={name}", "--print", "--runs", str(tmp_path)]) == 0
        assert "wall_s" in capsys.readouterr().out
    view = show(Engine(library), "runs", State())
    assert "caf\\udce9" in view.to_csv().decode()


@pytest.mark.parametrize("words", [["a"], ["a", "b"]])
def test_pages_of_runs_whose_name_is_no_utf8_are_written(tmp_path: Path, words: list[str]) -> None:
    runs = [str(new_run(tmp_path / f"{word}{NOT_UTF8}")) for word in words]
    assert main(["report", *runs, "-o", str(tmp_path / "page.html")]) == 0
    assert f"a{NOT_UTF8}".encode(errors="backslashreplace") in (tmp_path / "page.html").read_bytes()


def test_a_program_of_ones_own_may_have_such_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"{NOT_UTF8}.py"
    path.write_text((ROOT / "examples" / "score.py").read_text(encoding="utf-8"), encoding="utf-8")
    trace = tmp_path / "trace.parquet"
    # Commands of the advice have the path as the bytes that it is, which pytest does not decode.
    assert main(["run", str(path), "--no-advice"]) == 0
    assert main(["trace", str(path), "-o", str(trace)]) == 0
    assert read_trace(trace).meta.workload == "caf\\udce9.py"


def test_a_machine_fitted_to_such_a_file_names_it(tmp_path: Path) -> None:
    machine = load_machine("sharp")
    write_machine(replace(machine, title=f"fitted to {NOT_UTF8}"), tmp_path / "mine.toml")
    assert load_machine(str(tmp_path / "mine.toml")).title == "fitted to caf\\udce9"


def test_openfhe_is_given_no_folder_that_it_cannot_open(tmp_path: Path) -> None:
    pytest.importorskip("openfhe")
    with pytest.raises(UsageError, match="UTF-8"):
        StoredSet(tmp_path / NOT_UTF8, points_of()[0].params)
