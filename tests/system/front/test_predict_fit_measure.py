"""`penstock predict fit --measure`: the plan, wrong requests, and one small measurement of this machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.base.runs.folder import RunFolder
from penstock.base.system.host import available_cores
from penstock.front.cli.main import main
from penstock.lab.measure.bench import estimate, timing
from penstock.lab.prediction.experiments import candidates as cost_of_points
from penstock.lab.prediction.experiments import loop, session
from penstock.lab.prediction.experiments.candidates import Candidates, candidates
from penstock.scheme.machines import load_machine


def planned(capsys: Any, *words: str) -> list[dict[str, Any]]:
    command = ["predict", "fit", "--measure", "--dry-run", "--format", "json", "--quiet", *words]
    assert main(command) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return rows


def test_a_dry_run_says_what_is_measured_and_which_error_to_expect(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cost_of_points, "_flush_s", lambda: 0.013)  # of 32 MiB: a plan grows with this machine's cache
    store = ["--store", str(tmp_path / "store")]
    short, long = planned(capsys, "--budget", "40 s", "--target", "1%", *store), planned(capsys, *store)
    assert 20 < sum(row["predicted_s"] for row in short) <= 40
    errors = [row["expected_error"] for row in short]
    assert errors == sorted(errors, reverse=True)
    assert sum(row["predicted_s"] for row in long) <= 600
    assert long[-1]["expected_error"] <= 0.05 < long[-2]["expected_error"]
    assert {count for row in long for count in row["threads"]} >= {1}
    assert "decrypt" in short[0]["items"]
    assert list(tmp_path.iterdir()) == []
    assert main(["predict", "fit", "--measure", "--dry-run", "--budget", "3min"]) == 0
    assert "expected error of programs then" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--budget", "3min"], "--budget: options of a measurement; add --measure"),
        (["--dry-run", "--target", "5%"], "--target, --dry-run: options of a measurement"),
        (["--measure", "runs/mine"], "leave RESULTS and --only out"),
        (["--measure", "--only", "add"], "leave RESULTS and --only out"),
        (["--measure", "--budget", "ten"], "--budget"),
        (["--measure", "--budget", "0 s"], "more than no time"),
        (["--measure", "--target", "5"], "a share between 0 and 100 %"),
        (["--measure", "--threads", "4096"], "cores"),
    ],
)
def test_a_wrong_request_is_one_error_and_measures_nothing(
    words: list[str], said: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["predict", "fit", "-o", "mine.toml", *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []


def few(threads: tuple[int, ...], fits: Any, reading: str) -> Candidates:
    """The first visit alone, without series, with one short run of each point."""
    found = candidates(threads, fits, reading)
    start = [i for i in found.start if found.points[i].item != "recorded_chebyshev_series"]
    first = {i: n for n, i in enumerate(start)}
    return Candidates(
        points=tuple(replace(found.points[i], runs=1, min_time_s=1e-4) for i in start),
        twins=tuple(first.get(-1 if (twin := found.twins[i]) is None else twin) for i in start),
        sets=(tuple(range(len(first))),),
        start=tuple(range(len(first))),
    )


def test_a_measurement_of_this_machine_becomes_one_that_predicts_on_one_thread_and_two(
    openfhe: Any, encrypting: None, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if available_cores() == 1:
        pytest.skip("this process has one core")
    monkeypatch.chdir(tmp_path)
    # A flush of the real one takes a second where the processor has hundreds of MiB.
    for module in (timing, estimate):
        monkeypatch.setattr(module, "last_level_cache_bytes", lambda: 8 << 20)
    monkeypatch.setattr(cost_of_points, "_flush_s", lambda: 0.003)
    monkeypatch.setattr(session, "candidates", few)
    monkeypatch.setattr(loop, "CHECKED", (("matrix-multiplication", "ci"),))
    monkeypatch.setattr(loop, "PROGRAM_RUNS", 1)
    words = ["--threads", "1,2", "--store", str(tmp_path / "store"), "--budget", "4min", "--format", "json"]
    assert main(["predict", "fit", "--measure", "-o", "mine.toml", *words]) == 0
    shown = capsys.readouterr()
    found = json.loads(shown.out)["experiment"]
    assert found["visits"] == 1
    assert {row["threads"] for row in found["expected_by_threads"]} == {1, 2}
    assert {(row["program"], row["threads"]) for row in found["check"]} == {
        ("matrix-multiplication", 1),
        ("matrix-multiplication", 2),
    }
    assert all(row["measured_s"] > 0 for row in found["check"])
    assert "planned:" in shown.err
    machine = load_machine("mine.toml")
    assert None not in (machine.threads, machine.client, machine.recording)
    (folder,) = Path("runs").iterdir()
    run = RunFolder.open(folder)
    assert run.complete
    assert run.record["experiment"]["expected_error"] == found["expected_error"]
    for threads in ("1", "2"):
        assert main(["predict", "run", "cnn", "--machine", "mine.toml", "--threads", threads, "--format", "json"]) == 0
        row = json.loads(capsys.readouterr().out)
        assert 0 < row["low_s"] < row["predicted_s"] < row["high_s"]
        assert row["client_s"] > 0
    protocol = ["--protocol", "unseen-application-wall", "--model", "penstock", "--format", "json"]
    assert main(["predict", "validate", str(folder), *protocol]) == 0
    assert {row["application"] for row in json.loads(capsys.readouterr().out)} >= {"all", "matrix-multiplication"}
