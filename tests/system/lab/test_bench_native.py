"""The benchmark suite on the native evaluator, on the smallest rings: the kernels that `penstock run` computes with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.base.runs.folder import RunFolder
from penstock.errors import UsageError
from penstock.front.cli.main import main
from penstock.lab.fit.fit import trace_measurements
from penstock.lab.measure.bench import primitive_runs, timing
from penstock.lab.measure.bench.catalogue import PRIMITIVES
from penstock.lab.measure.bench.primitives import TOLERANCE, prepare
from penstock.lab.measure.bench.results import load_results
from penstock.lab.measure.bench.spec import SuitePlan, parse_suite, plan
from penstock.lab.measure.bench.store import is_stored
from penstock.lab.measure.bench.suite import Options, config_of, open_set, run_plan
from penstock.lab.prediction.importers import ImportLog, load
from penstock.scheme.traces.io import read_trace

pytestmark = pytest.mark.usefixtures("encrypting")

SUITE = """
[timing]
min_time = "1 ms"
runs = 3
[[primitives]]
ring_dim = "2^11"
depth = 6
limbs = ["fresh", "last"]
chebyshev_degree = 5
across_operations = [1, 2]
[[primitives]]
items = ["rotate", "key_load"]
ring_dim = "2^11"
depth = 6
conditions = ["cold", "cold-keys"]
[[primitives]]
items = [
    "recorded_add", "recorded_mult_plain", "recorded_rotate", "recorded_mult", "recorded_decrypt",
    "recorded_chebyshev_series",
]
ring_dim = "2^11"
depth = 6
chebyshev_degree = 5
[[primitives]]
items = ["add", "mult", "decrypt"]
ring_dim = "2^11"
depth = 6
scaling = "flexible-auto"
[[micro]]
workload = "matrix-multiplication"
threads = 1
"""


def planned() -> SuitePlan:
    return plan(parse_suite(SUITE, "toy", "toy.toml"), reading="native")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("bench")
    wanted, options = planned(), Options(store=folder / "store")
    with pytest.MonkeyPatch.context() as patch, RunFolder.create(folder / "run", config_of(wanted, options)) as run:
        quick(patch)
        run_plan(wanted, run, options)
    assert is_stored(folder / "store", wanted.points[0].params, "native")
    return run


def quick(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(primitive_runs, "REPEATS", 1)
    patch.setattr(timing, "PROBE_POINT_S", 1e-3)
    patch.setattr("penstock.lab.measure.bench.timing.last_level_cache_bytes", lambda: 1 << 20)


def rows_of(measured: RunFolder) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = load_results(measured.path).to_pylist()
    return rows


def test_every_primitive_that_the_evaluator_has_is_measured_and_meets_clear(measured: RunFolder) -> None:
    rows = [row for row in rows_of(measured) if row["group"] == "primitives"]
    assert {row["item"] for row in rows} == set(PRIMITIVES) - {"bootstrap", "key_load"}
    assert {row["item"] for row in rows if row["passed"] is None} == {"decompose", "encode"}
    assert not [row["item"] for row in rows if row["passed"] is False]
    assert {row["reading"] for row in rows_of(measured)} == {"native"}
    assert all(row["seconds_per_call"] > 0 for row in rows)


def test_what_the_native_reading_does_not_time_is_named_with_the_reason(measured: RunFolder) -> None:
    why = {each["what"].partition(" at")[0]: each["why"] for each in measured.record["skipped"]}
    assert "'penstock keys bench' times" in why["key_load (warm)"]
    assert "'penstock keys bench' times" in why["rotate (cold-keys)"]
    assert "encrypts with all limbs" in why["encrypt (warm)"]
    assert "--reading openfhe" in why["add (warm)"]
    with pytest.raises(UsageError, match=r"no point to measure: key_load .*'penstock keys bench'"):
        plan(parse_suite(SUITE, "toy", "toy.toml"), only=["key_load"], reading="native")


def test_the_time_of_a_primitive_is_that_of_the_same_call_in_a_run(measured: RunFolder) -> None:
    rows = rows_of(measured)
    (program,) = [row for row in rows if row["group"] == "micro"]
    assert program["passed"]
    assert json.loads(program["note"])["server_s"] > 0
    trace = read_trace(measured.path / "traces" / f"{program['point']}.parquet")
    assert {m.reading for m in trace_measurements(trace)} == {"native"}
    point = next(p for p in planned().points if (p.item, p.limbs, p.condition) == ("rotate", 7, "warm"))
    with open_set(point, measured.path.parent / "store", lambda *_: None) as stored:
        prepared = prepare(point, stored)
        own = []
        for _ in range(20):
            prepared.call()
            own.append(prepared.call.computed_s())  # type: ignore[attr-defined]
        timed = [s for row in rows if row["point"] == point.key for s in row["samples_s"]]
        assert min(timed) == pytest.approx(min(own), rel=0.5)
        assert prepared.max_abs_error() < TOLERANCE  # type: ignore[operator]


def test_the_record_of_a_call_is_less_than_the_call(measured: RunFolder) -> None:
    fastest: dict[tuple[str, int], float] = {}
    for row in rows_of(measured):
        if row["condition"] == "warm" and row["group"] == "primitives" and row["scaling"] == "fixed-manual":
            key = row["item"], row["limbs"]
            fastest[key] = min([fastest.get(key, np.inf), *row["samples_s"]])
    for item in ("mult", "rotate"):
        assert 0 < fastest[f"recorded_{item}", 7] < fastest[item, 7]
    assert fastest["recorded_chebyshev_series", 7] > 3 * fastest["recorded_add", 7]
    assert fastest["rotate", 1] < 0.7 * fastest["rotate", 7]


def test_results_become_measurements_of_the_native_reading(measured: RunFolder) -> None:
    found = load(measured.path, log=ImportLog(skip_bad=True))  # a call that is stalled for long is no timing
    assert {m.reading for m in found} == {"native"}
    assert {m.condition for m in found} == {"warm", "cold"}


def test_the_command_measures_natively_unless_it_is_told_otherwise(tmp_path: Path, capsys: Any) -> None:
    suite = tmp_path / "tiny.toml"
    suite.write_text('[[primitives]]\nitems = "add"\nring_dim = "2^11"\ndepth = 2\n')
    for words, reading in (([], "native"), (["--reading", "openfhe"], "openfhe")):
        assert main(["bench", "run", "--suite", str(suite), "--dry-run", "--format", "json", *words]) == 0
        assert {row["reading"] for row in json.loads(capsys.readouterr().out)} == {reading}
