"""Views of many points and runs: sweeps, design spaces, benchmarks, two runs; keys of rotations by their step."""

from __future__ import annotations

import json
import os
import shlex
import time
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.base.runs.folder import RunFolder
from penstock.errors import PenstockError, UnknownName, UsageError
from penstock.front.cli.main import main
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.library import Library
from penstock.front.explorer.state import State
from penstock.front.explorer.views import show
from penstock.lab.reports.sweep import sweep_rows
from penstock.scheme.operations import rotation_key
from penstock.scheme.params.catalogue import get as params_of
from support.bench_rows import SWEEP, folder_of, points_of, rows_of
from support.explore_site import sweep_run
from support.fake_run import write_fake_run

SMALL = State(workload="bootstrapping", params="sharp", machine="sharp")


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(Library(runs=Path("no-such-folder")))


def printed(capsys, command: str) -> list[dict[str, object]]:
    """The rows that a command prints."""
    assert main([*shlex.split(command)[1:], "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = found if isinstance(found, list) else [found]
    return [{name: value for name, value in row.items() if name != "assumptions"} for row in rows]


def test_the_default_comparison_has_something_to_compare(tmp_path):
    def made(name, quantity):
        with RunFolder.create(tmp_path / name, {"workload": "w", "params": "p"}) as run:
            run.append_rows("stage", [{"unit": "s", "provenance": "measured", "quantity": quantity, "value": 1.0}])
        os.utime(tmp_path / name / "run.json", (at := len(list(tmp_path.iterdir())), at))

    for name, quantity in (("oldest", "wall_s"), ("old", "other_s"), ("new", "wall_s"), ("newest", "none_like_it_s")):
        made(name, quantity)
    engine = Engine(Library(runs=tmp_path))
    assert engine.library.run_names() == ["newest", "new", "old", "oldest"]
    assert show(engine, "compare", SMALL).drawing["runs"] == ["oldest", "new"]
    assert show(engine, "compare", replace(SMALL, other_run="oldest")).drawing["runs"] == ["new", "oldest"]
    assert show(engine, "compare", replace(SMALL, run="old")).drawing["runs"] == ["old", "newest"]


def test_keys_of_rotations_are_named_by_their_step(engine):
    view = show(engine, "residency", replace(SMALL, cache="1 GB"))
    params = params_of("sharp")
    labels = view.drawing["labels"]
    turned = [row for row in view.rows if row["key"].startswith("rot:")]
    assert turned
    for row in turned:
        assert rotation_key(row["step"], params.ring_dim) == row["key"]
        assert labels[row["key"]] == f"rotate {row['step']}"
    assert labels["relin"] == "relinearize"


def test_a_sweep_is_a_view_and_its_rows_are_the_front(tmp_path, capsys):
    sweep_run(tmp_path / "tiers")
    write_fake_run(tmp_path / "other").close()
    engine = Engine(Library(runs=tmp_path))
    rows = sweep_rows(tmp_path / "tiers")
    view = show(engine, "sweep", SMALL)
    assert view.drawing["run"] == "tiers"
    assert json.loads(view.drawing["space"])["count"] == len(rows)
    assert min(row["total_s"] for row in view.rows) == min(row["total_s"] for row in rows)
    assert printed(capsys, view.command) == json.loads(view.to_json())["rows"]
    one = show(engine, "sweep", replace(SMALL, where="tier=pcie5", shape="map"))
    assert {row["tier"] for row in one.rows} == {"pcie5"}
    assert len(one.rows) == sum(row["tier"] == "pcie5" for row in rows)
    assert printed(capsys, one.rows[0]["command"])[0]["total_s"] == one.rows[0]["total_s"]
    assert show(engine, "run", replace(SMALL, run="tiers")).name == "sweep"
    assert [row["sort"] for row in show(engine, "runs", SMALL).rows if row["run"] == "tiers"] == ["sweep"]
    for state, said in (
        (replace(SMALL, x="totl_s"), "did you mean 'total_s'"),
        (replace(SMALL, where="tier=pci5"), "did you mean 'pcie5'"),
        (replace(SMALL, run="other"), "is not a sweep"),
    ):  # fmt: skip
        with pytest.raises(PenstockError, match=said):
            show(engine, "sweep", state)
    started = time.perf_counter()
    show(engine, "sweep", replace(SMALL, x="slowdown")).to_json()
    assert time.perf_counter() - started < 0.05


def test_a_design_space_is_a_view_whose_front_is_that_of_the_command(engine, capsys):
    view = show(engine, "designs", replace(SMALL, where="within_budgets=met"))
    front = [(row["query_s"], row["watts"]) for row in view.rows]
    assert main(["ssd", "space", "ssc", "--quiet", "--format", "json"]) == 0
    expected = [(row["query_s"], row["watts"]) for row in json.loads(capsys.readouterr().out)]
    assert sorted(front) == sorted(expected)
    assert main([*shlex.split(view.rows[0]["command"])[1:], "--quiet", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["query_s"] == view.rows[0]["query_s"]
    with pytest.raises(UnknownName, match="did you mean 'pir'"):
        show(engine, "designs", replace(SMALL, query="pirr"))


def test_benchmark_runs_are_a_view_with_what_changed(tmp_path, capsys):
    slower = {"before": 1.0, "middle": 1.0, "now": 1.5}
    for at, (name, factor) in enumerate(slower.items()):
        points = points_of(SWEEP.replace("runs = 3", "runs = 8"))
        rows = rows_of(points, lambda point, run, factor=factor: factor * 1e-3 * (1 + 0.002 * run))
        folder_of(tmp_path / name, rows)
        os.utime(tmp_path / name / "run.json", (at, at))
    engine = Engine(Library(runs=tmp_path))
    view = show(engine, "bench", SMALL)
    assert view.drawing["runs"] == ["before", "middle", "now"]
    assert {row["verdict"] for row in view.rows} == {"slower"}
    assert {round(row["ratio"], 6) for row in view.rows} == {1.5}
    assert not any("bench-n" in row["where"] for row in view.rows)
    assert any("N = 2^11, depth 6" in row["where"] for row in view.rows)
    assert "1.500 times" in view.notes[0]
    assert [len(samples) for samples in view.drawing["points"][0]["samples"]] == [8, 8, 8]
    assert printed(capsys, view.command) == json.loads(view.to_json())["rows"]
    still = show(engine, "bench", replace(SMALL, run="middle"))
    assert still.drawing["runs"] == ["before", "middle"]
    assert "nothing changed: of" in still.notes[0]
    assert show(engine, "bench", replace(SMALL, other_run="before")).drawing["runs"][-2:] == ["before", "now"]
    with pytest.raises(UsageError, match="both sides"):
        show(engine, "bench", replace(SMALL, run="now", other_run="now"))
