"""What `analyze` simulates, and the rows that it keeps of a simulation."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from penstock.base.runs.folder import RunFolder
from penstock.base.runs.record import DamagedRun
from penstock.base.system.progress import Progress
from penstock.errors import PenstockError, UsageError
from penstock.front.cli.main import main
from penstock.front.cli.verbs import analyze as verb
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.library import Library
from penstock.lab import analysis
from penstock.lab.analysis import (
    AnalysisRequest,
    _encrypted,
    _fit,
    _simulate,
    accelerator_trace,
    describe,
    headline,
    request_of,
    simulated_rows,
    tidy_rows,
)
from penstock.lab.simulation.play import simulate
from penstock.program.running.trace import trace_workload
from penstock.scheme.machines import Machine, load_machine
from penstock.scheme.machines.catalogue import load_tier
from penstock.scheme.machines.written import write_machine
from penstock.scheme.play.caches import ForcedHitRatio
from penstock.scheme.play.price import price_trace
from penstock.scheme.traces.io import read_trace, write_trace
from support.fake_run import write_fake_run


def test_the_hit_ratio_that_80_percent_needs_counts_the_latency_of_each_read() -> None:
    machine, tier = load_machine("heap"), load_tier("nvme-gen5")
    assert tier.latency_s > 0
    trace = trace_workload("inner-product", "heap", "ci")
    priced = price_trace(trace, machine)
    rows = list(tidy_rows(simulated_rows(trace, [tier], priced), trace, [tier], priced))
    (needed,) = (row["value"] for row in rows if row["quantity"] == "hit_ratio_for_80_percent")
    assert 0 < needed < 1
    (played,) = simulate(priced, [tier], caches=[ForcedHitRatio(needed)], modes=("serial",))
    assert played["slowdown"] == pytest.approx(1.25, rel=1e-3)


def asked(workload: str, *machines: str, data: Path | None = None) -> AnalysisRequest:
    return request_of(workload, params=None, size="ci", seed=0, threads=1, data=data, machines=machines, tiers=("hbm",))


def test_data_of_the_users_own_say_how_large_the_program_is_on_every_machine(tmp_path: Path) -> None:
    csv = tmp_path / "people.csv"
    csv.write_text("phenotype,a,b\n" + "".join(f"{i % 2},{i % 3},1\n" for i in range(5)))
    own = asked("chi-square", "sharp", data=csv)
    # A product a person, three sums over people, and 27 operations once.
    by_hand = 5 + 3 * (5 - 1) + 27
    assert describe(own)["num_operations"] == by_hand
    assert len(accelerator_trace(own, load_machine("sharp")).server_operations()) == by_hand
    assert describe(asked("chi-square"))["num_operations"] == 64 + 3 * (64 - 1) + 27


def test_machines_whose_names_differ_in_signs_only_are_all_simulated(tmp_path: Path) -> None:
    request = asked("inner-product", "sharp")
    (sharp,) = request.machines
    assert sharp is not None
    names = ["my_sharp", "my-sharp", "My sharp", "é", "sharp"]
    request = replace(request, machines=tuple(replace(sharp, name=name) for name in names))
    trace = trace_workload("inner-product", "sharp", "ci")
    with RunFolder.open_or_resume(tmp_path / "run", request.config("test")) as run:
        _simulate(run, request, trace, sharp, lambda: None)
        assert len(run.stages()) == len(names)
        assert sorted({row["machine"] for row in headline(run, trace)["simulated"]}) == sorted(names)


def test_a_machine_without_a_rate_is_unknown_in_the_table_of_a_run(tmp_path: Path) -> None:
    request = asked("inner-product", "sharp")
    (sharp,) = request.machines
    assert sharp is not None
    bare = replace(sharp, name="bare", units={"transforms": sharp.units["transforms"]})
    with write_fake_run(tmp_path / "run", finish=False) as run:
        trace = read_trace(run.trace_path)
        _simulate(run, replace(request, machines=(bare,)), trace, sharp, lambda: None)
        found = headline(run, trace)
    out = io.StringIO()
    verb._draw(Console(file=out, width=200), found)
    (line,) = (line for line in out.getvalue().splitlines() if line.startswith("bare"))
    assert line.split()[3:] == ["unknown", "unknown", "unknown", "-"]


def test_a_file_that_is_named_like_this_cpu_is_refused_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    write_machine(replace(load_machine("sharp"), name="this-cpu"), path)
    with pytest.raises(UsageError, match="change 'name' in the file"):
        asked("inner-product", "this-cpu", str(path))


@pytest.mark.parametrize("gone", [True, False])
def test_a_finished_run_whose_measurements_are_damaged_is_an_error_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], gone: bool
) -> None:
    folder, request = tmp_path / "run", asked("inner-product", "sharp")
    with RunFolder.create(folder, request.config("test")) as run:
        run.append_rows("measured", [{"quantity": "wall_s", "value": 1.0, "unit": "s", "provenance": "measured"}])
        write_trace(trace_workload("inner-product", request.params, "ci"), run.trace_path)
        run.finish()
    part = folder / "stages" / "measured.parquet"
    part.unlink() if gone else part.write_bytes(part.read_bytes()[:-10])
    words = ["--size", "ci", "--threads", "1", "--machine", "sharp", "--tier", "hbm", "-o", str(folder)]
    assert main(["analyze", "inner-product", *words]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "measured.parquet, what was measured, is damaged or gone; run the same command again with --force" in said


def test_a_finished_run_names_the_stages_that_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, request = tmp_path / "run", asked("inner-product", "sharp")
    with RunFolder.create(folder, request.config("test")) as run:
        for stage in ("measured", "fit"):
            run.append_rows(stage, [{"quantity": "wall_s", "value": 1.0, "unit": "s", "provenance": "measured"}])
        write_trace(trace_workload("inner-product", request.params, "ci"), run.trace_path)
        run.finish()
    (folder / "stages" / "fit.parquet").unlink()
    monkeypatch.setattr("penstock.front.hall.analyzing.headline", lambda *_: {"passed": True})
    monkeypatch.setattr(verb, "emit", lambda *_, **__: None)
    words = ["--size", "ci", "--threads", "1", "--machine", "sharp", "--tier", "hbm", "-o", str(folder)]
    assert main(["analyze", "inner-product", *words]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "stages/fit.parquet is gone: its rows are left out; run the same command again with --force" in said


@pytest.mark.parametrize("name", ["this-cpu.toml", "trace.parquet"])
def test_a_file_of_an_earlier_stage_that_was_changed_is_refused_on_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    request, trace = asked("inner-product", "sharp"), trace_workload("inner-product", "sharp", "ci")
    fitted = replace(load_machine("sharp"), name="this-cpu")
    monkeypatch.setattr(analysis, "fit_machine", lambda *_, **__: fitted)

    def resumed() -> Machine:
        with RunFolder.open_or_resume(tmp_path / "run", request.config("test")) as run:
            if not run.has_stage("measured"):
                write_trace(trace, run.trace_path)
                run.note_artifact("trace.parquet")
                row = {"quantity": "wall_s", "value": 1.0, "unit": "s", "provenance": "measured"}
                run.append_rows("measured", [row])
            _encrypted(run, request, Progress(quiet=True))
            return _fit(run, trace, 1)

    first, path = resumed(), tmp_path / "run" / name
    assert resumed() == first
    whole = path.read_bytes()
    if name == "this-cpu.toml":
        path.write_bytes(whole.replace(b"1 GHz", b"0 GHz", 1))
        assert path.read_bytes() != whole
    else:
        write_trace(trace_workload("bootstrapping", "sharp"), path, force=True)
    with pytest.raises(PenstockError, match=f"{name} is not the file that the run wrote.*--force"):
        resumed()
    path.unlink()
    if name == "trace.parquet":
        with pytest.raises(DamagedRun, match=f"{name} is gone.*put the old file back"):
            resumed()
        path.write_bytes(whole)
    assert resumed() == first
    assert path.read_bytes() == whole


def test_a_fitted_machine_that_was_changed_is_refused_by_the_explorer(tmp_path: Path) -> None:
    write_fake_run(tmp_path / "run").close()
    path = tmp_path / "run" / "this-cpu.toml"
    write_machine(replace(load_machine("sharp"), name="this-cpu"), path)
    engine = Engine(Library(runs=tmp_path))
    assert engine.machine("run:run").name == "this-cpu"  # of an older penstock, which noted no digest
    (tmp_path / "run" / ".complete").unlink()
    with RunFolder.open_or_resume(tmp_path / "run", RunFolder.open(tmp_path / "run").config) as run:
        run.note_artifact("this-cpu.toml")
    path.write_bytes(path.read_bytes().replace(b"1 GHz", b"9 GHz", 1))
    with pytest.raises(DamagedRun, match="does not match its checksum"):
        engine.machine("run:run")
