"""Microbenchmarks of CryptOracle's public data, predicted from its primitives alone, against the paper's own model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from penstock_studies.cryptoracle.data import Dataset, PredictedApplication, Priced, load_data, points
from penstock_studies.cryptoracle.predictions import figure_rows
from penstock_studies.cryptoracle.tables import table_rows

FOLDER = Path(os.environ.get("PENSTOCK_CRYPTORACLE_DATA", Path(__file__).parents[2] / ".." / "shared/data/cryptoracle"))
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(),
    reason=f"CryptOracle's data is not in {FOLDER} (PENSTOCK_CRYPTORACLE_DATA names another folder)",
)


@pytest.fixture(scope="module")
def data() -> dict[str, Dataset]:
    return load_data(FOLDER)


@pytest.fixture(scope="module")
def found(data: dict[str, Dataset]) -> list[PredictedApplication]:
    return points(data["amd"])


@pytest.fixture(scope="module")
def rows(data: dict[str, Dataset], found: list[PredictedApplication]) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in [*table_rows(data, found), *figure_rows(found)]}


def ours(rows: dict[str, dict[str, Any]], group: str, statistic: str, quantity: str = "runtime") -> float:
    return float(rows[f"figure9.{group}.{quantity}.{statistic}"]["first_principles"])


def test_unseen_microbenchmarks_are_met_within_twelve_per_cent(rows: dict[str, dict[str, Any]]) -> None:
    assert ours(rows, "micro", "mean_abs_error") <= 0.12
    assert ours(rows, "micro", "median_abs_error") <= 0.10
    assert ours(rows, "micro", "p90_abs_error") <= 0.20
    assert abs(ours(rows, "micro", "bias")) <= 0.06


@pytest.mark.parametrize("name", ["matrix-multiplication", "logistic-function", "sign-evaluation"])
def test_no_single_microbenchmark_is_far_off(rows: dict[str, dict[str, Any]], name: str) -> None:
    assert ours(rows, name, "mean_abs_error") <= 0.15


def test_the_additive_model_is_off_where_products_run_at_few_limbs(found: list[PredictedApplication]) -> None:
    signs = [p for p in found if (p.name, p.log_n, p.depth) == ("sign-evaluation", 16, 10)]
    assert signs
    for p in signs:
        assert isinstance(p.additive, Priced)
        assert isinstance(p.ours, Priced)
        assert 0.45 <= p.additive.seconds / p.seconds - 1 <= 0.75
        assert abs(p.ours.seconds / p.seconds - 1) < 0.25


def test_ours_beats_the_additive_model_over_all_points(rows: dict[str, dict[str, Any]]) -> None:
    row = rows["figure9.micro.runtime.mean_abs_error"]
    assert row["first_principles"] < row["calibrated"]


def test_the_data_holds_table_7s_times(found: list[PredictedApplication], rows: dict[str, dict[str, Any]]) -> None:
    for name in ("matrix-multiplication", "logistic-function", "sign-evaluation"):
        point = next(p for p in found if (p.name, p.log_n, p.depth, p.threads) == (name, 16, 10, 8))
        assert point.seconds == pytest.approx(rows[f"table7.{name}.amd.roi"]["published"], rel=0.01)


def test_energy_is_met_as_well(rows: dict[str, dict[str, Any]]) -> None:
    assert ours(rows, "micro", "mean_abs_error", "energy") <= 0.15
