"""Visits with fake primitives: rounds, what a killed process leaves, resuming, and the folder at the end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from penstock.base.runs.folder import RunFolder
from penstock.errors import CheckFailed
from penstock.lab.measure.bench import primitive_runs, timing
from penstock.lab.measure.bench import suite as suite_module
from penstock.lab.measure.bench.primitives import INPUTS, PreparedPrimitive
from penstock.lab.measure.bench.results import load_results
from penstock.lab.measure.bench.spec import BenchPoint, parse_suite, plan
from penstock.lab.measure.bench.suite import Options
from penstock.lab.measure.bench.visits import Visits
from penstock.lab.prediction.importers import newest_results
from support.fake_bench import FakeStore, Killed

POINTS = plan(
    parse_suite(
        '[timing]\nmin_time = "0.1 ms"\nruns = 3\n[[primitives]]\nitems = ["add", "mult", "rotate"]\n'
        'ring_dim = ["2^11", "2^12"]\ndepth = 4\n',
        "toy",
        "toy.toml",
    )
).points
SMALL, LARGE = (tuple(p for p in POINTS if p.params.ring_dim == 2**n) for n in (11, 12))
CONFIG = {"verb": "bench", "suite": "toy"}


class Fakes:
    """Primitives that do nothing; `wrong` ones give a wrong answer, and `kill_at` ends the process at a run."""

    def __init__(self) -> None:
        self.prepared: list[str] = []
        self.wrong: set[str] = set()
        self.kill_at: int | None = None

    def prepare(self, point: BenchPoint, stored: FakeStore, inputs: tuple[str, str] = INPUTS) -> PreparedPrimitive:
        if self.kill_at == len(self.prepared):
            raise Killed
        self.prepared.append(point.item)
        off = 1.0 if point.item in self.wrong else 0.0
        return PreparedPrimitive(call=lambda: None, decrypted=lambda result: np.full(4, off), expected=np.zeros(4))


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Fakes:
    made = Fakes()
    monkeypatch.setattr(primitive_runs, "prepare", made.prepare)
    monkeypatch.setattr(suite_module, "StoredSet", FakeStore)
    monkeypatch.setattr(primitive_runs, "set_threads", lambda n: None)
    monkeypatch.setattr(suite_module, "PROBE_BEFORE_S", 0.0)
    monkeypatch.setattr(timing, "PROBE_POINT_S", 0.0)
    return made


def visits(run: RunFolder, tmp_path: Path) -> Visits:
    return Visits("toy", POINTS, run, Options(store=tmp_path / "store"))


def test_a_visit_goes_round_its_points_and_stores_their_runs(fakes: Fakes, tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        made = visits(run, tmp_path)
        made.started()
        rows = made.visit(SMALL)
        assert fakes.prepared == 3 * ["add", "rotate", "mult"]
        assert [row["run"] for row in rows] == 3 * [0, 1, 2]
        again = made.visit(SMALL)
        assert [row["run"] for row in again] == 3 * [3, 4, 5]
        made.visit(LARGE)
        made.finish()
    rows = load_results(tmp_path / "run").to_pylist()
    assert Counter(row["ring_dim"] for row in rows) == {2**11: 3 * 6, 2**12: 3 * 3}
    assert len({(row["point"], row["run"]) for row in rows}) == len(rows)
    assert newest_results(tmp_path) == tmp_path / "run"
    assert len(RunFolder.open(tmp_path / "run").record["points"]) == 6


def test_a_killed_visit_leaves_its_finished_rounds_and_the_rest_goes_on(fakes: Fakes, tmp_path: Path) -> None:
    path = tmp_path / "run"
    fakes.kill_at = 9 + 7  # in the third round of the second visit
    with RunFolder.create(path, CONFIG) as run:
        made = visits(run, tmp_path)
        made.visit(SMALL)
        with pytest.raises(Killed):
            made.visit(LARGE)
    assert load_results(path).num_rows == 9 + 6
    fakes.kill_at = None
    with RunFolder.open_or_resume(path, CONFIG) as run:
        made = visits(run, tmp_path)
        assert {number: len(rows) for number, rows in made.stored.items()} == {1: 9, 2: 6}
        rows = made.visit(LARGE)
        assert [row["run"] for row in rows] == 3 * [2, 3, 4]
        made.finish()
    assert Counter(row["ring_dim"] for row in load_results(path).to_pylist()) == {2**11: 9, 2**12: 15}


def test_a_damaged_visit_is_left_out_with_a_warning(fakes: Fakes, tmp_path: Path) -> None:
    path = tmp_path / "run"
    with RunFolder.create(path, CONFIG) as run:
        visits(run, tmp_path).visit(SMALL)
        visits(run, tmp_path).visit(LARGE)
    (path / "bench" / "visit-001.parquet").write_bytes(b"PAR1")
    with RunFolder.open_or_resume(path, CONFIG) as run:
        made = visits(run, tmp_path)
        assert list(made.stored) == [2]
        assert "visit-001.parquet were damaged" in run.warnings[-1]["what"]


def test_a_wrong_result_ends_the_measurement_and_is_no_timing(fakes: Fakes, tmp_path: Path) -> None:
    fakes.wrong = {"mult"}
    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        with pytest.raises(CheckFailed, match=r"differs from clear: mult, bench-n11"):
            visits(run, tmp_path).visit(SMALL)
        passed = {row["item"]: row["passed"] for row in load_results(tmp_path / "run").to_pylist()}
        assert passed == {"add": True, "rotate": True, "mult": False}
