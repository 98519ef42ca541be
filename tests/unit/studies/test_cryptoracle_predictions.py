"""Tables 7 and 8 and figures 9 to 11 from a folder of data: here a small one, made from known costs."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from penstock.errors import UsageError
from penstock.front.cli.main import cli, main
from penstock_studies.cryptoracle import tables
from penstock_studies.cryptoracle.data import (
    ENCODING,
    Dataset,
    PredictedApplication,
    Priced,
    load_data,
    points,
    primitive_costs,
)
from penstock_studies.cryptoracle.drawings import MODELS, draw_predictions
from penstock_studies.cryptoracle.errors import as_published, cosine, errors
from penstock_studies.cryptoracle.predictions import error_rows, figure_rows, pairs
from penstock_studies.cryptoracle.work import published_counts
from penstock_studies.importers.columns import CALLS
from penstock_studies.importers.settings import parameters
from support.pictures import picture, texts, titles

ABOUT = [
    "Date and Time of Benchmark",
    "CPU Model Name",
    "security_standard_level",
    "n",
    "batch_size",
    "depth",
    "num_threads",
]
CONFIGURATIONS = [(n, depth, threads) for n in (13, 16) for depth in (10, 20) for threads in (1, 8)]
JOULES_PER_SECOND = 50.0


def cost(column: str, n: int, depth: int, threads: int) -> float:
    """Seconds of a made-up primitive: the more work, the longer, and threads halve it."""
    heavy = {"CKKS_Mult": 40, "CKKS_Square": 38, "CKKS_Rotate": 35, "CKKS_Fast_Rotate": 20,
             "CKKS_Fast_Rotate_Precompute": 18, "CKKS_Chebyshev_Series": 900, "CKKS_Chebyshev_Function": 890,
             "CKKS_Logistic": 910}  # fmt: skip
    return heavy.get(column, 1.0) * 1e-9 * 2**n * (depth + 1) / (1 if threads == 1 else 2)


def write(folder: Path, name: str, items: Mapping[str, Any], cpu: str = "AMD Ryzen 9", noise: float = 0.01) -> Path:
    """A file with two runs of every configuration; `items` maps a column to its cost."""
    generator = np.random.default_rng(3)
    path = folder / name
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*ABOUT, *(f"{item} {what}" for item in items for what in ("Time", "Energy"))])
        for run in range(2):
            for n, depth, threads in CONFIGURATIONS:
                values = []
                for of in items.values():
                    seconds = of(n, depth, threads) * (1 + noise * generator.standard_normal())
                    values += [seconds, seconds * JOULES_PER_SECOND]
                writer.writerow([f"{name}-{run}-{n}-{depth}-{threads}", cpu, "none", n, 12, depth, threads, *values])
    return path


def primitives() -> dict[str, Any]:
    return {
        column: (lambda n, d, t, column=column: cost(column, n, d, t))
        for column in CALLS
        if column not in ("CKKS_Encryption", "CKKS_Decryption", "CKKS_Bootstrap")
    }


def micro() -> dict[str, Any]:
    return {
        "matrix_multiplication": lambda n, d, t: 200 * cost("CKKS_Rotate", n, d, t),
        "logistic_function": lambda n, d, t: 150 * cost("CKKS_Mult", n, d, t),
        "sign_eval": lambda n, d, t: 400 * cost("CKKS_Mult", n, d, t),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("data")
    write(made, "primitives.csv", primitives())
    write(made, "micro.csv", micro())
    return made


@pytest.fixture(scope="module")
def data(folder: Path) -> dict[str, Dataset]:
    return load_data(folder)


@pytest.fixture(scope="module")
def found(data: dict[str, Dataset]) -> list[PredictedApplication]:
    return points(data["amd"])


@pytest.fixture(scope="module")
def rows(data: dict[str, Dataset], found: list[PredictedApplication]) -> dict[str, dict[str, Any]]:
    every = [*tables.table_rows(data, found), *figure_rows(found)]
    by_id = {row["id"]: row for row in every}
    assert len(by_id) == len(every)
    return by_id


def test_there_is_a_point_for_each_program_and_configuration(found: list[PredictedApplication]) -> None:
    assert len(found) == 3 * len(CONFIGURATIONS)
    assert {(p.log_n, p.depth, p.threads) for p in found} == set(CONFIGURATIONS)
    assert all(p.runs == 2 for p in found)


def test_the_additive_model_is_counts_times_costs_at_the_configuration(
    data: dict[str, Dataset], found: list[PredictedApplication]
) -> None:
    costs = primitive_costs(data["amd"].primitives)
    point = next(p for p in found if (p.name, p.log_n, p.depth, p.threads) == ("matrix-multiplication", 13, 20, 8))
    of = {item: costs[item, None, point.params, 8] for item in ("add", "mult", "mult_plain", "rotate")}
    assert isinstance(point.additive, Priced)
    expected = sum(
        n * of[item].seconds for item, n in (("add", 178), ("mult", 16), ("mult_plain", 32), ("rotate", 193))
    )
    assert point.additive.seconds == pytest.approx(expected)
    assert point.additive.joules == pytest.approx(expected * JOULES_PER_SECOND, rel=1e-6)


def test_ours_uses_no_timing_of_a_program(folder: Path, tmp_path: Path, found: list[PredictedApplication]) -> None:
    write(tmp_path, "primitives.csv", primitives())
    write(tmp_path, "micro.csv", {name: (lambda n, d, t, of=of: 7 * of(n, d, t)) for name, of in micro().items()})
    again = points(load_data(tmp_path)["amd"])
    for before, after in zip(found, again, strict=True):
        assert isinstance(before.ours, Priced)
        assert isinstance(after.ours, Priced)
        assert after.seconds == pytest.approx(7 * before.seconds)
        assert after.ours.seconds == before.ours.seconds
        assert after.regression == before.regression


def test_contributions_add_up_to_each_prediction(found: list[PredictedApplication]) -> None:
    for p in found:
        for priced in (p.additive, p.ours, p.regression):
            assert isinstance(priced, Priced)
            assert sum(priced.by_operation.values()) == pytest.approx(priced.seconds)
            assert set(priced.by_operation) - {ENCODING} == set(published_counts(p.name))


def test_rows_of_points_hold_what_the_data_states(
    rows: dict[str, dict[str, Any]], found: list[PredictedApplication]
) -> None:
    for p in found:
        row = rows[f"figure9.{p.name}.amd.n{p.log_n}.d{p.depth}.t{p.threads}.runtime"]
        assert row["published"] == p.seconds
        assert row["error_calibrated"] == pytest.approx(row["calibrated"] / p.seconds - 1)
        assert row["error_first_principles"] == pytest.approx(row["first_principles"] / p.seconds - 1)
        assert row["error_regression"] == pytest.approx(row["regression"] / p.seconds - 1)


def test_table_7_compares_with_the_published_time_and_checks_its_shares(rows: dict[str, dict[str, Any]]) -> None:
    row = rows["table7.sign-evaluation.amd.roi"]
    assert row["published"] == 19.2
    assert row["first_principles"] is not None
    share = rows["table7.sign-evaluation.amd.event-profiling.share"]
    assert share["published"] == pytest.approx(0.616, abs=5e-4)  # printed as 61.6 %
    assert rows["table7.sign-evaluation.intel.roi"]["first_principles"] is None  # no timing of that CPU in this folder


def test_what_cannot_be_reproduced_keeps_its_row_with_the_reason(rows: dict[str, dict[str, Any]]) -> None:
    kept = [
        "table7.logistic-function.amd.event-profiling",
        "table8.resnet20.amd.profiling",
        "figure9.workload.runtime.as_published",
    ]
    for row_id in kept:
        assert rows[row_id]["first_principles"] is None
        assert len(rows[row_id]["note"]) > 20
    assert "no primitives" in rows["table8.resnet20.amd.profiling"]["note"]


def test_speedups_of_table_8_are_the_published_quotients() -> None:
    for columns in tables.TABLE8.values():
        for profiling, speedup in columns.values():
            assert speedup == pytest.approx(profiling / tables.PREDICTION_S, abs=0.06)


def test_a_geometric_mean_is_only_beside_a_published_one(rows: dict[str, dict[str, Any]]) -> None:
    geometric = [row for row in rows.values() if row["quantity"].startswith("geometric")]
    assert len(geometric) == 4
    assert all(row["published"] is not None and row["first_principles"] is None for row in geometric)


def test_errors_are_of_all_points_and_of_each_group(
    rows: dict[str, dict[str, Any]], found: list[PredictedApplication]
) -> None:
    ours = [p.ours.seconds / p.seconds - 1 for p in found if isinstance(p.ours, Priced)]
    assert rows["figure9.micro.runtime.mean_abs_error"]["first_principles"] == pytest.approx(np.mean(np.abs(ours)))
    assert rows["figure9.micro.runtime.bias"]["first_principles"] == pytest.approx(np.mean(ours))
    some = [p.ours.seconds / p.seconds - 1 for p in found if isinstance(p.ours, Priced) and p.threads == 8]
    assert rows["figure9.micro.t8.runtime.worst_abs_error"]["first_principles"] == pytest.approx(np.max(np.abs(some)))
    assert not list(error_rows([]))


def test_errors_of_known_pairs() -> None:
    got = errors([(1.1, 1.0), (0.8, 1.0), (2.0, 1.0)])
    assert got["worst_abs_error"] == 1.0
    assert got["mean_abs_error"] == pytest.approx(1.3 / 3)
    assert got["median_abs_error"] == pytest.approx(0.2)
    assert got["bias"] == pytest.approx(0.3)
    assert errors([]) == {}
    # One lucky point makes the paper's figure vanish; the mean hardly moves.
    lucky = as_published([(1.3, 1.0), (1.0 + 1e-9, 1.0)])
    assert lucky is not None
    assert lucky < 1e-3
    assert cosine([(3.0, 1.0), (6.0, 2.0)]) == pytest.approx(1.0)


# Another CPU: primitives at one configuration only.


def test_a_cpu_without_programs_is_reached_by_the_ratio_of_its_key_switches(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    twice = {c: (lambda n, d, t, c=c: 2 * cost(c, n, d, t)) for c in ("CKKS_Mult", "CKKS_Rotate", "CKKS_Add")}
    write(tmp_path, "intel.csv", twice, cpu="13th Gen Intel(R) Core", noise=0.0)
    sets = load_data(tmp_path)
    found = points(sets["amd"])
    rows = {row["id"]: row for row in tables.table7_rows(sets, found)}
    for name in ("matrix-multiplication", "sign-evaluation"):
        ratio = (rows[f"table7.{name}.intel.roi"]["first_principles"] or 0) / rows[f"table7.{name}.amd.roi"][
            "first_principles"
        ]
        assert ratio == pytest.approx(2.0, rel=0.03)
    assert "EvalMultPlaintext was not timed" in rows["table7.matrix-multiplication.intel.roi"]["note"]


# Bad input.


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere.*no such folder"):
        load_data(tmp_path / "nowhere")
    assert main(["reproduce", "cryptoracle", "--data", str(tmp_path / "nowhere")]) == 2


def test_a_folder_without_results_is_named(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("nothing here")
    with pytest.raises(UsageError, match="no CSV file"):
        load_data(tmp_path)


def test_a_folder_with_primitives_only_says_what_is_missing(tmp_path: Path) -> None:
    write(tmp_path, "primitives.csv", primitives())
    with pytest.raises(UsageError, match="microbenchmarks"):
        load_data(tmp_path)


def test_a_csv_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UsageError, match="CryptOracle"):
        load_data(tmp_path)


def test_a_negative_time_is_named_by_file_and_row(tmp_path: Path) -> None:
    write(tmp_path, "primitives.csv", primitives())
    path = write(tmp_path, "micro.csv", micro())
    lines = path.read_text().splitlines()
    cells = lines[4].split(",")
    cells[len(ABOUT)] = "-1.0"
    lines[4] = ",".join(cells)
    path.write_text("\n".join(lines))
    with pytest.raises(UsageError, match=r"micro\.csv:5.*more than zero"):
        load_data(tmp_path)


# The command.


def test_the_command_leaves_bad_rows_out_where_that_is_asked(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(folder, data)
    file = next(data.rglob("*.csv"))
    file.write_text(file.read_text() + file.read_text().splitlines()[1][:-20] + "\n")
    asked = ["reproduce", "cryptoracle", "--workload", "matrix-multiplication", "--data", str(data), "--format", "json"]
    refused = CliRunner().invoke(cli, asked)
    assert isinstance(refused.exception, UsageError)
    assert f"{file.name}:" in str(refused.exception)
    done = CliRunner().invoke(cli, [*asked, "--skip-bad"])
    assert done.exit_code == 0, done.output


def test_the_command_prints_one_study_and_draws_the_figures(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        cli,
        [
            "reproduce",
            "cryptoracle",
            "--workload",
            "matrix-multiplication",
            "--data",
            str(folder),
            "--figures",
            str(tmp_path / "figures"),
            "--format",
            "json",
        ],
    )
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)["rows"]
    names = {name for row in rows for name in row}
    assert {"id", "group", "policy", "published", "calibrated", "first_principles", "note"} <= names
    assert {"table3", "table7", "table8", "figure9", "figure9-errors", "figure10", "figure11"} <= {
        r["group"] for r in rows
    }
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        "figure5-amd.svg",
        "figure7-amd.svg",
        "figure8-amd.svg",
        "figure9-errors.svg",
        "figure9-correlation.svg",
        "figure10.svg",
    }


def test_pictures_of_predictions_have_every_point_and_each_share(
    found: list[PredictedApplication], tmp_path: Path
) -> None:
    draw_predictions(found, tmp_path)
    points = Counter(title.split(", ")[0] for title in titles(tmp_path / "figure9-correlation.svg"))
    for name in {p.name for p in found}:
        own = [p for p in found if p.name == name]
        assert points[name] == sum(len(pairs(own, which, "runtime")) for which in MODELS.values())
    for model in MODELS:
        shares = [title for title in titles(tmp_path / "figure10.svg") if model in title]
        assert sum(float(title.split(", ")[-1]) for title in shares) == pytest.approx(
            100 * len({title.split(", ")[1] for title in shares}), abs=0.5
        )
    assert {*MODELS, "measured (the paper's data)"} <= set(texts(picture(tmp_path / "figure9-correlation.svg")))


def test_without_data_and_results_a_row_says_how_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(
        cli, ["reproduce", "cryptoracle", "--workload", "matrix-multiplication", "--format", "json"]
    )
    assert done.exit_code == 0, done.output
    row = next(r for r in json.loads(done.stdout)["rows"] if r["id"] == "figure9.missing")
    assert "penstock bench run" in row["note"]


def test_the_parameters_are_those_of_the_papers_generator(found: list[PredictedApplication]) -> None:
    assert {p.params for p in found} == {parameters(0, n, 12, depth, False) for n in (13, 16) for depth in (10, 20)}
