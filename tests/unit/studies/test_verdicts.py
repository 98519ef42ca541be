"""One line on top of a comparison: what changed, by how much, and whether it is noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.front.cli.main import main
from penstock.lab.measure.bench.compare import compare
from penstock.lab.measure.bench.results import load_results, table_of
from penstock.lab.measure.bench.spec import BenchPoint
from penstock.lab.measure.bench.verdict import previous_run, verdict_of, verdict_of_run
from penstock_studies.verdict import verdict_of as verdict_of_study
from support.bench_rows import folder_of, points_of, rows_of

SMALL = """
[timing]
min_time = "1 ms"
runs = 6
[[primitives]]
items = ["add", "rotate"]
ring_dim = ["2^11"]
depth = 4
limbs = ["fresh"]
threads = [1]
"""


def measured(factor: float = 1.0, of: str = "rotate", seed: int = 0, **more: Any) -> list[dict[str, Any]]:
    """Rows whose times vary by 1 %, with one item `factor` times as long."""
    drawn = np.random.default_rng(seed)

    def seconds(point: BenchPoint, run: int) -> float:
        return 1e-3 * float(drawn.normal(1.0, 0.01)) * (factor if point.item == of else 1.0)

    return rows_of(points_of(SMALL), seconds, **more)


def test_a_change_beyond_chance_and_noise_is_named_with_its_size() -> None:
    before, after = table_of(measured()), table_of(measured(1.5, seed=1))
    said = verdict_of(compare(before, after))
    assert said.startswith("changed: of 2 points 1 slower (rotate")
    assert "1 the same" in said
    (row,) = [row for row in compare(before, after).rows if row["verdict"] == "slower"]
    assert f"{row['ratio']:.3f} times, 95 % {row['low']:.3f} to {row['high']:.3f}" in said
    assert "1 faster (rotate" in verdict_of(compare(after, before))


def test_no_change_is_said_to_be_none() -> None:
    said = verdict_of(compare(table_of(measured()), table_of(measured(seed=3))))
    assert said.startswith("nothing changed: of 2 points none")
    assert " in the mean" in said


def test_a_change_within_the_noise_of_the_machine_is_noise() -> None:
    slow = [{**row, "calibration_s": 1.2} for row in measured(1.1, seed=1)]
    quick = [{**row, "calibration_s": 1.0} for row in measured()]
    found = compare(table_of(quick), table_of(slow))
    said = verdict_of(found)
    assert said.startswith("nothing changed")
    assert "1 differ by less than the noise" in said
    assert f"noise of the machine {found.noise:.1%}" in said


def test_single_runs_have_no_verdict() -> None:
    one = [row for row in measured() if row["run"] == 0]
    said = verdict_of(compare(table_of(one), table_of(one)))
    assert said.startswith("not known: 2 points with one run each have no test")
    assert "measure several runs" in said


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The first and the third run of a suite; the second did not finish."""
    folder = tmp_path_factory.mktemp("runs")
    first = folder_of(folder / "a", measured(), suite="toy")
    folder_of(folder / "b", measured(3.0), suite="toy", finished=False)
    return first, folder_of(folder / "c", measured(1.5, seed=2), suite="toy")


def test_a_run_is_held_against_the_last_one_of_its_suite(runs: tuple[Path, Path]) -> None:
    first, second = runs
    assert previous_run(first) is None
    said = verdict_of_run(first, load_results(first))
    assert said.startswith(f"first run of this suite in {first.parent}: 2 points")
    assert previous_run(second) == first
    assert verdict_of_run(second, load_results(second)).startswith(f"against {first}: changed: of 2 points 1 slower")


def test_the_verdict_is_the_first_line_of_the_table(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = runs
    assert main(["bench", "compare", str(first), str(second)]) == 0
    assert capsys.readouterr().out.startswith("verdict: changed: of 2 points 1 slower")
    assert main(["bench", "compare", str(first), str(second), "--format", "json"]) == 0
    assert "verdict: " not in capsys.readouterr().out


def test_a_reproduction_counts_what_comes_out_and_names_the_largest_error() -> None:
    rows: list[dict[str, Any]] = [
        {"id": "a", "published": 10, "error_first_principles": 0.05},
        {"id": "b", "published": 10, "error_first_principles": -0.5},
        {"id": "c", "published": 10, "error_first_principles": 0.0},
        {"id": "d", "published": None, "error_first_principles": None},
        {"id": "e", "published": 3, "error_first_principles": None},
    ]
    said = verdict_of_study(rows)
    assert said == (
        "2 of 3 published numbers come out within 10%; |error| median 5.0%, largest 50.0% (b); no noise: every run of "
        "this version computes the same numbers"
    )
    assert "1 of them are measured" in verdict_of_study([{**rows[0], "policy": "measured"}, rows[1]])
    assert verdict_of_study(rows[3:]).startswith("nothing to compare")


def test_a_study_begins_with_its_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "cryptoracle", "--workload", "matrix-multiplication"]) == 0
    assert capsys.readouterr().out.startswith("verdict: ")
