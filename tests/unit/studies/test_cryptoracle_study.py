"""`penstock reproduce cryptoracle`: published counts, ours, and a note wherever they differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from penstock.base.system.files import UnfinishedFile
from penstock.front.cli.main import cli, main
from penstock.lab.measure.bench.results import FILE, table_of
from penstock.program import workloads
from penstock.program.package.file import FIRST_SET
from penstock.program.running.trace import trace_workload
from penstock.scheme.operations import KINDS, SMALL_KINDS, TRAITS, OpKind, operations
from penstock.scheme.traces.schema import CLIENT_KINDS
from penstock_studies.cryptoracle import counts as study
from penstock_studies.cryptoracle import figures as drawings
from penstock_studies.cryptoracle.drawings import draw_measured

QUICK = ["matrix-multiplication", "logistic-function", "sign-evaluation", "chi-square"]
NAMES = {"id", "group", "policy", "quantity", "unit", "published", "calibrated", "first_principles",
         "regression", "error_calibrated", "error_first_principles", "error_regression", "note"}  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return study.rows(QUICK)


def by_id(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in rows}


def test_table_3_is_the_papers_own() -> None:
    columns = {column.workload: dict(zip(study.OPERATIONS, column.counts, strict=True)) for column in study.TABLE3}
    assert len(columns) == 7
    # Sums of the paper's rows.
    assert sum(c["EvalAdd"] for c in columns.values()) == 178 + 70 + 519 + 47 + 6845 + 39 + 598
    assert sum(c["EvalRotate"] for c in columns.values()) == 193 + 33 + 1218 + 20
    assert columns["chi-square"]["EvalMultNoRelin"] == 207
    assert columns["resnet20"]["EvalBootstrap"] == 21
    assert columns["logistic-function"]["EvalSquare"] == 8


def test_rows_have_the_documented_names_and_unique_ids(rows: list[dict[str, Any]]) -> None:
    assert all(set(row) >= NAMES for row in rows)
    assert len({row["id"] for row in rows}) == len(rows)
    assert by_id(rows)["table3.matrix-multiplication.EvalRotate"]["published"] == 193
    assert all(row["calibrated"] is None and row["error_calibrated"] is None for row in rows)


def test_counts_are_those_of_the_trace(rows: list[dict[str, Any]]) -> None:
    counts = trace_workload("matrix-multiplication", size="d32").count_by_kind()
    found = by_id(rows)
    for name, kind in (("EvalMult", "mult"), ("EvalRotate", "rotate"), ("EvalFastRotate", "rotate_hoisted")):
        row = found[f"table3.matrix-multiplication.{name}"]
        assert row["first_principles"] == counts[kind]
    row = found["table3.matrix-multiplication.EvalMult"]
    assert row["error_first_principles"] == pytest.approx((counts["mult"] - 16) / 16)


def test_counts_by_limbs_add_up_to_the_expanded_counts(rows: list[dict[str, Any]]) -> None:
    found = by_id(rows)
    for stem in {row["id"].rpartition(".limbs")[0] for row in rows if row["group"] == "limbs"}:
        parts = [row["first_principles"] for row in rows if row["id"].startswith(f"{stem}.limbs")]
        whole = found.get(f"{stem}.expanded", found.get(stem))
        assert whole is not None
        assert sum(parts) == whole["first_principles"]


def test_every_difference_is_explained_and_every_equality_called_so(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if row["group"] == "table3":
            same = row["published"] == row["first_principles"]
            assert (row["note"] == study.EQUAL) == same
            assert len(row["note"]) > 20 or same


def test_an_error_is_null_where_nothing_is_published_or_the_policy_is_another(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if not row["published"] or row["policy"] != study.CALLS:
            assert row["error_first_principles"] is None


def test_the_chi_square_sums_are_exactly_the_published_ones(rows: list[dict[str, Any]]) -> None:
    row = by_id(rows)["table3.chi-square.EvalAdd"]
    assert (row["published"], row["first_principles"], row["error_first_principles"]) == (598, 598, 0.0)


def test_every_kind_of_operation_is_counted_by_some_row() -> None:
    composites = {kind.value for kind in OpKind if TRAITS[kind].composite}
    counted = {str(kind) for table in (study.OPERATIONS, study.BESIDE) for kinds in table.values() for kind in kinds}
    rest = set(KINDS) - counted - set(CLIENT_KINDS) - {str(kind) for kind in SMALL_KINDS}
    first_set = {name for name, row in operations().items() if row.code is None or row.code < FIRST_SET}
    assert rest & first_set <= composites - {"bootstrap", "chebyshev"}, "the paper has no later operations"


def test_a_workload_that_is_not_registered_has_null_counts_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "names", lambda: [])
    made = study.rows(["resnet20"])
    assert len(made) == len(study.OPERATIONS)
    assert all(row["first_principles"] is None and row["note"] == study.NOT_REGISTERED for row in made)


def test_the_command_prints_json_a_table_and_csv() -> None:
    runner = CliRunner()
    chosen = ["--workload", "sign-evaluation"]
    got = json.loads(runner.invoke(cli, ["reproduce", "cryptoracle", *chosen, "--format", "json"]).stdout)
    assert got["study"] == "cryptoracle"
    assert got["rows"][0]["id"] == "table3.sign-evaluation.EvalAdd"
    table = runner.invoke(cli, ["reproduce", "cryptoracle", *chosen]).stdout
    assert "published" in table
    assert "568" in table
    csv = runner.invoke(cli, ["reproduce", "cryptoracle", *chosen, "--format", "csv"]).stdout
    assert csv.startswith("id,group,policy,quantity,unit,published,calibrated,first_principles")


def test_an_unknown_workload_and_figures_without_results_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "cryptoracle", "--workload", "chi-sqare"]) == 2
    assert "did you mean 'chi-square'" in capsys.readouterr().err
    assert main(["reproduce", "cryptoracle", "--figures", "somewhere"]) == 2
    assert "--results" in capsys.readouterr().err
    assert main(["reproduce", "cryptoracle", "--workload", "chi-square", "--results", "no-such-folder"]) == 2
    assert "does not exist" in capsys.readouterr().err


def measurement(item: str, seconds: float, **changes: Any) -> dict[str, Any]:
    base = {
        "point": f"{item}-{changes}", "group": "primitives", "item": item, "params": "cryptoracle", "ring_dim": 2**16,
        "limbs": 11, "threads": 1, "across": 1, "condition": "warm", "run": 0, "calls": 10,
        "seconds_per_call": seconds, "total_s": seconds * 10, "wall_s": seconds * 10, "provenance": "measured",
    }  # fmt: skip
    return {**base, **changes}


def bench_rows() -> list[dict[str, Any]]:
    made = [measurement("mult", s / t, threads=t, run=r) for t in (1, 2) for r, s in enumerate((0.2, 0.3, 0.4))]
    made += [measurement("mult", 0.05, limbs=2), measurement("mult", 9.0, condition="cold")]
    made += [
        measurement("matrix-multiplication", s, group="micro", size="d8", limbs=None, ring_dim=n)
        for n, s in ((2**14, 1.0), (2**15, 2.0))
    ]
    return made


def test_figures_take_the_median_of_warm_runs_on_fresh_operands() -> None:
    found = drawings.points(table_of(bench_rows()))
    five = [(p.x, p.value, p.runs) for p in found if p.figure == "figure5"]
    assert five == [(1, 0.3, 3), (2, 0.15, 3)]
    eight = [(p.x, p.value) for p in found if p.figure == "figure8"]
    assert eight == [(2**14, 1.0), (2**15, 2.0)]
    gaps = dict(drawings.missing(found))
    assert set(gaps) == {"figure5.energy", "figure6", "figure7"}
    assert "one thread count" in gaps["figure7"]


def test_a_figure_is_the_same_each_time_and_an_interrupted_one_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [point for point in drawings.points(table_of(bench_rows())) if point.figure == "figure5"]
    (path,) = draw_measured(found, tmp_path)
    first = path.read_bytes()
    draw_measured(found, tmp_path)
    assert path.read_bytes() == first

    def interrupted(_: UnfinishedFile, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(UnfinishedFile, "publish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        draw_measured(found, tmp_path)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"figure5.svg": first}


def test_events_and_energy_come_from_the_rows_of_the_same_point() -> None:
    table = table_of(bench_rows())
    fresh = next(r for r in table.to_pylist() if r["item"] == "mult" and r["threads"] == 2)
    matrix = next(r for r in table.to_pylist() if r["item"] == "matrix-multiplication")
    events = [
        {"stage": fresh["point"], "quantity": "instructions_per_call", "value": 5e8, "unit": "1"},
        {"stage": fresh["point"], "quantity": "cache-misses_per_call", "value": None, "unit": "1"},
        {"stage": matrix["point"], "quantity": "energy-pkg_per_call", "value": 12.5, "unit": "J"},
        {"stage": "another", "quantity": "instructions_per_call", "value": 1.0, "unit": "1"},
    ]
    found = drawings.event_points(table, events)
    assert [(p.figure, p.line, p.x, p.quantity, p.value) for p in found] == [
        ("figure6", "mult", 2, "instructions", 5e8),
        ("figure7", "matrix-multiplication d8 (cryptoracle)", 1, "energy-pkg", 12.5),
    ]
    assert {figure for figure, _ in drawings.missing(found)} == {"figure5", "figure7", "figure8"}
    assert next(row["id"] for row in study.figure_rows(found)) == "figure6.mult.threads2.instructions"


def test_results_that_hold_nothing_of_a_figure_say_what_to_measure() -> None:
    gaps = dict(drawings.missing(drawings.points(table_of([measurement("mult", 0.1)]))))
    assert "bench run" in gaps["figure8"]
    made = study.figure_rows([])
    assert all(row["measured"] is None and row["published"] is None for row in made)


def test_figures_are_drawn_from_a_run_folder(tmp_path: Path) -> None:
    pq.write_table(table_of(bench_rows()), tmp_path / FILE)
    out = tmp_path / "figures"
    done = CliRunner().invoke(
        cli,
        [
            "reproduce",
            "cryptoracle",
            "--workload",
            "sign-evaluation",
            "--results",
            str(tmp_path),
            "--figures",
            str(out),
            "--format",
            "json",
        ],
    )
    assert done.exit_code == 0, done.output
    assert sorted(p.name for p in out.iterdir()) == ["figure5.svg", "figure7.svg", "figure8.svg"]
    measured = [row for row in json.loads(done.stdout)["rows"] if row["policy"] == study.MEASURED]
    assert {row["id"] for row in measured} >= {"figure5.mult.threads1", "figure6.missing"}
    assert all(row["published"] is None for row in measured)
