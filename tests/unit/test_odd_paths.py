"""Paths that are something else than a verb expects, and names that are no UTF-8: no internal error, no lost run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench_rows import folder_of, points_of, rows_of
from penstock.cli.main import main
from penstock.measure.bench.results import load_results
from penstock.running.trace import trace_workload
from penstock.runs.folder import RunFolder
from penstock.sweeps.plan import plan
from penstock.sweeps.run import run_sweep
from penstock.sweeps.spec import sweep_of
from penstock.sweeps.store import read_results
from penstock.traces.io import read_trace, write_trace

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
