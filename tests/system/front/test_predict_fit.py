"""`penstock predict fit` from a results file to a machine file that other verbs take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.front.cli.main import main
from penstock.lab.fit.measurements import primitive_shape
from penstock.lab.measure.bench.catalogue import PRIMITIVES
from penstock.lab.measure.bench.results import table_of, to_google_benchmark
from penstock.lab.measure.bench.spec import BenchPoint, load_suite, plan
from penstock.scheme.machines import load_machine
from penstock.scheme.operations import OpKind
from penstock.scheme.work.shapes import shape_work
from support.bench_rows import folder_of, points_of, rows_of
from support.imagined_cpu import true_seconds

SWEEP = """
[[primitives]]
items = ["add", "mult_plain", "rescale", "decompose", "rotate_hoisted", "rotate", "mult"]
ring_dim = ["2^11", "2^12", "2^13"]
depth = [4, 8]
limbs = ["fresh", 4, "last"]
threads = [1, 2]
"""


def seconds(point: BenchPoint, run: int) -> float:
    """Of the imagined CPU, with 1 % of scatter between runs."""
    kind = PRIMITIVES[point.item].kind
    assert kind is not None
    shape = primitive_shape(kind, point.params, point.limbs or point.params.num_q)
    return true_seconds(shape, point.params, point.threads) * (0.995 + 0.005 * (run % 3))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(tmp_path_factory.mktemp("measured") / "run", rows_of(points_of(SWEEP), seconds))


def fitted(capsys: Any, *words: str) -> dict[str, Any]:
    assert main(["predict", "fit", *words, "--format", "json", "--quiet"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_fitted_machine_prices_operations_that_it_was_not_fitted_to(
    results: Path, tmp_path: Path, capsys: Any
) -> None:
    path = tmp_path / "mine.toml"
    found = fitted(capsys, str(results), "-o", str(path), "--name", "imagined")
    assert (found["machine"], found["output"]) == ("imagined", str(path))
    assert {row["coefficient"] for row in found["coefficients"]} >= {"units.transforms", "overhead"}
    assert {row["kind"] for row in found["coefficients"]} <= {"calibrated", "assumed"}
    assert {row["kind"] for row in found["errors"]} >= {"all", "rotate", "mult"}
    assert found["ranges"]["ring_dim"] == [2**11, 2**13]
    machine = load_machine(path)
    held_out = points_of('[[primitives]]\nitems = ["square"]\nring_dim = "2^12"\ndepth = 6\n')[0].params
    shape = primitive_shape(OpKind.SQUARE, held_out, held_out.num_q)
    priced = machine.at(1).price(shape_work(shape, held_out)).seconds
    assert priced == pytest.approx(true_seconds(shape, held_out, 1), rel=0.1)


def test_every_value_has_the_error_of_the_coefficient_that_it_was_made_from(
    results: Path, tmp_path: Path, capsys: Any
) -> None:
    path = tmp_path / "mine.toml"
    found = {
        row["coefficient"]: row["relative_standard_error"]
        for row in fitted(capsys, str(results), "-o", str(path))["coefficients"]
    }
    fit = load_machine(path).fit
    assert fit is not None
    known = {each.name: each.standard_error for each in fit.coefficients}
    shared = [path for path in found if path.startswith("threads.shared.")]
    assert shared
    for value in shared:
        assert found[value] == known.get(f"shared {value.rpartition('.')[2]}")
    assert any(found[value] != found[f"units.{value.rpartition('.')[2]}"] for value in shared)
    assert found["overhead"] == known["overhead"]


def test_the_machine_file_says_where_and_when_it_was_measured(tmp_path: Path, capsys: Any) -> None:
    folder = folder_of(tmp_path / "run", rows_of(points_of(SWEEP), seconds))
    stated = {"host": {"cpu_model": "EPYC"}, "openfhe_version": "1.6.1", "noise": {"during_spread": 0.25}}
    record = json.loads((folder / "run.json").read_text()) | stated
    (folder / "run.json").write_text(json.dumps(record))
    path = tmp_path / "mine.toml"
    (origin,) = fitted(capsys, str(folder), "-o", str(path))["origins"]
    assert origin == {
        "results": str(folder),
        "cpu": "EPYC",
        "library": "OpenFHE 1.6.1",
        "date": record["started"],
        "noise": 0.25,
    }
    said = f"run (EPYC, OpenFHE 1.6.1, {record['started']}, a fixed piece of work spread by 25% meanwhile)"
    assert said in load_machine(path).description


def test_the_machine_file_goes_wherever_a_machine_does(results: Path, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "mine.toml"
    fitted(capsys, str(results), "-o", str(path))
    words = ["--machine", str(path), "--tier", "ddr5", "--format", "json"]
    assert main(["simulate", "inner-product", "--size", "ci", *words]) == 0
    row = json.loads(capsys.readouterr().out)[0]
    assert (row["machine"], row["compute_s"] > 0) == ("mine", True)


def test_table_and_csv_have_every_coefficient_and_its_kind(results: Path, tmp_path: Path, capsys: Any) -> None:
    path = str(tmp_path / "mine.toml")
    assert main(["predict", "fit", str(results), "-o", path]) == 0
    shown = capsys.readouterr()
    for word in ("units.transforms", "calibrated", "rotate_hoisted", "predicted / measured - 1", "timed primitives"):
        assert word in shown.out
    assert f"machine written to {path}" in shown.err.replace("\n", "")
    assert main(["predict", "fit", str(results), "-o", path, "--force", "--format", "csv", "--quiet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "coefficient,value,kind,relative_standard_error,source"
    assert any(line.startswith("units.transforms,") for line in lines)


def test_google_benchmark_json_gives_the_same_machine(results: Path, tmp_path: Path, capsys: Any) -> None:
    data = to_google_benchmark(table_of(rows_of(points_of(SWEEP), seconds)), {})
    (tmp_path / "g.json").write_text(json.dumps(data))
    a = fitted(capsys, str(results), "-o", str(tmp_path / "a.toml"))
    b = fitted(capsys, str(tmp_path / "g.json"), "-o", str(tmp_path / "b.toml"))
    assert [row["value"] for row in a["coefficients"]] == [row["value"] for row in b["coefficients"]]


def test_threads_and_primitives_are_chosen(results: Path, tmp_path: Path, capsys: Any) -> None:
    found = fitted(capsys, str(results), "-o", str(tmp_path / "a.toml"), "--threads", "1", "--only", "rotate,mult,add")
    assert found["ranges"]["threads"] == [1, 1]
    assert {row["kind"] for row in found["errors"]} == {"all", "rotate", "mult", "add"}


def test_the_newest_run_is_taken_where_none_is_named(
    results: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["predict", "fit", "-o", "mine.toml"]) == 3
    assert "penstock bench run --suite fit" in capsys.readouterr().err
    Path("runs").mkdir()
    folder_of(Path("runs/a"), rows_of(points_of(SWEEP), seconds))
    assert fitted(capsys, "-o", "mine.toml")["results"] == ["runs/a"]


def test_bad_rows_are_named_or_skipped_and_listed(tmp_path: Path, capsys: Any) -> None:
    rows = rows_of(points_of(SWEEP), seconds)
    rows[7] |= {"seconds_per_call": -1.0, "samples_s": []}
    folder = folder_of(tmp_path / "run", rows)
    out = str(tmp_path / "a.toml")
    assert main(["predict", "fit", str(folder), "-o", out]) == 2
    said = capsys.readouterr().err
    assert f"{folder}: row 8" in said
    assert "Traceback" not in said
    assert not Path(out).exists()
    assert main(["predict", "fit", str(folder), "-o", out, "--skip-bad", "--format", "json"]) == 0
    shown = capsys.readouterr()
    assert len(json.loads(shown.out)["bad_rows"]) == 1
    assert "1 bad rows were left out" in shown.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["-o", "mine.json"], 2, "written as .toml"),
        (["-o", "there.toml"], 2, "not overwritten"),
        (["-o", "a.toml", "--threads", "3"], 2, "measured were 1, 2"),
        (["-o", "a.toml", "--threads", "one"], 2, "whole numbers"),
        (["-o", "a.toml", "--threads", "0"], 2, "at least 1"),
        (["-o", "a.toml", "--only", "rotat"], 2, "did you mean 'rotate'"),
        (["-o", "a.toml", "--only", "add"], 2, "cannot"),
        ([], 2, "--output"),
    ],
)
def test_a_wrong_request_is_one_error_and_writes_nothing(
    results: Path, words: list[str], code: int, said: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.toml").write_text("mine")
    assert main(["predict", "fit", str(results), *words]) == code
    assert said in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there.toml"]
    assert Path("there.toml").read_text() == "mine"


def test_programs_alone_are_not_fitted_to(tmp_path: Path, capsys: Any) -> None:
    program = points_of('[[workloads]]\nworkload = "inner-product"\nthreads = 1')
    folder = folder_of(tmp_path / "run", rows_of(program))
    assert main(["predict", "fit", str(folder), "-o", str(tmp_path / "a.toml")]) == 2
    assert "1 workloads and no primitives" in capsys.readouterr().err


def test_the_group_shows_its_commands_and_suggests_the_nearest(capsys: Any) -> None:
    assert main(["predict", "--help"]) == 0
    assert "Fit a machine to measured primitives" in capsys.readouterr().out
    assert main(["predict", "fit", "--help"]) == 0
    assert "Examples:" in capsys.readouterr().out
    assert main(["predict", "fti"]) == 2
    assert "did you mean 'fit'" in capsys.readouterr().err


def test_the_suite_of_fitting_leaves_room_to_hold_out() -> None:
    points = plan(load_suite("fit")).points
    timed = [point for point in points if point.group == "primitives" and point.item == "rotate"]
    assert len({point.params.ring_dim for point in timed}) >= 4
    assert len({point.params.depth for point in timed}) >= 4
    assert len({point.params.dnum for point in timed}) >= 3
    assert {point.threads for point in timed} == {1, 2}
    programs = {point.item for point in points if point.group != "primitives"}
    assert {"matrix-multiplication", "logistic-function", "sign-evaluation", "resnet20", "cnn"} <= programs
