"""`penstock run -o`: the folder that a run leaves, what it holds, and what happens when it is there already."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.base.runs.folder import RunFolder
from penstock.front.cli.main import main
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.library import Library
from penstock.front.explorer.state import State
from penstock.front.explorer.views import show
from penstock.scheme.traces.io import read_trace

PROGRAM = """
import numpy as np
PARAMS = "insecure-ci"

def data(size, slots, seed):
    return np.random.default_rng(seed).uniform(-1, 1, 8)

def program(ev, data, size):
    x = ev.encrypt(data)
    x = ev.add(x, ev.rotate(x, 1))
    return np.real(ev.decrypt(ev.rescale(ev.square(x))))[:7]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept.py").write_text(PROGRAM)
    return tmp_path


def ran(capsys, *words: str) -> dict[str, object]:
    assert main(["run", "kept.py", *words, "--quiet", "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_run_leaves_a_folder_like_an_analysis(here, capsys, encrypting):
    numbers = ran(capsys, "--client", "inside", "-o", "runs/kept", "--seed", "3")
    folder = RunFolder.open(here / "runs/kept")
    assert folder.complete
    assert (numbers["run_folder"], numbers["report"]) == ("runs/kept", "runs/kept/report.html")
    assert numbers["passed"] is folder.record["check"]["passed"] is True
    assert folder.config["verb"] == "run"
    assert {name: folder.config[name] for name in ("workload", "reading", "seed", "client")} == {
        "workload": "kept.py", "reading": "native", "seed": 3, "client": "inside",
    }  # fmt: skip
    rows = folder.results().to_pylist()
    wall = next(row for row in rows if row["quantity"] == "wall_s")
    assert (wall["value"], wall["provenance"], wall["unit"]) == (numbers["wall_s"], "measured", "s")
    kinds = {row["kind"]: row["value"] for row in rows if row["quantity"] == "op_count"}
    assert kinds["rotate"] == kinds["square"] == 1
    assert {row["kind"] for row in rows if row["quantity"] == "bytes_touched"} == {"key", "ciphertext", "plaintext"}
    assert read_trace(folder.trace_path).count_by_kind()["rotate"] == 1
    assert folder.timeline_path.is_file()
    assert "kept.py" in folder.report_path.read_text()
    assert main(["report", "runs/kept"]) == 0
    # The explorer lists it, and plays its trace.
    engine = Engine(Library(runs=here / "runs"))
    assert [row["run"] for row in show(engine, "runs", State()).rows] == ["kept"]
    assert any(row["quantity"] == "op_seconds" for row in show(engine, "run", State(run="kept")).rows)
    assert show(engine, "whatif", State(workload="run:kept", params="")).rows[0]["workload"] == "kept.py"


def test_the_same_run_is_shown_and_not_run_again(here, capsys):
    first = ran(capsys, "--reading", "noisy", "-o", "runs/kept")
    written = (here / "runs/kept/results.parquet").stat().st_mtime_ns
    assert ran(capsys, "--reading", "noisy", "-o", "runs/kept") == first
    assert (here / "runs/kept/results.parquet").stat().st_mtime_ns == written
    again = ran(capsys, "--reading", "noisy", "-o", "runs/kept", "--force")
    assert again["run_folder"] == first["run_folder"]
    assert (here / "runs/kept/results.parquet").stat().st_mtime_ns != written
    assert not (here / "runs/kept/.replaced").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--seed", "4"], "another configuration (seed: 0 in the folder"),
        (["--output", "y.npy"], "--output asks for what only a run writes: add --force"),
    ],
)
def test_another_run_is_not_overwritten(here, capsys, words, reason):
    ran(capsys, "--reading", "noisy", "-o", "runs/kept")
    assert main(["run", "kept.py", "--reading", "noisy", "-o", "runs/kept", *words]) == 2
    assert reason.split(" (")[0] in capsys.readouterr().err
    assert not (here / "y.npy").exists()


def test_a_changed_program_is_another_run(here, capsys):
    from penstock.program.workloads import own

    ran(capsys, "--reading", "clear", "-o", "runs/kept")
    (here / "kept.py").write_text(PROGRAM + "\nTOLERANCE = 0.5\n")
    own._LOADED.clear()
    assert main(["run", "kept.py", "--reading", "clear", "-o", "runs/kept"]) == 2
    assert "another configuration" in capsys.readouterr().err


def test_a_run_that_cannot_start_leaves_no_folder_and_one_that_differs_is_kept(here, capsys):
    assert main(["run", "kept.py", "--size", "huge", "-o", "runs/kept"]) == 2
    assert not (here / "runs").exists()
    (here / "off.py").write_text(PROGRAM + "\nTOLERANCE = 0\n")
    assert main(["run", "off.py", "--reading", "noisy", "-o", "runs/off", "--quiet"]) == 1
    folder = RunFolder.open(here / "runs/off")
    assert folder.complete
    assert folder.record["check"]["passed"] is False
    capsys.readouterr()
    assert main(["run", "--tenants", "t.toml", "--jobs", "j.toml", "-o", "runs/queue"]) == 2
    assert "a queue takes no -o" in capsys.readouterr().err
