"""The part of CryptOracle's artifact that the user has, with its quirks, through all that reads it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from penstock.lab.prediction.importers import ImportLog, load
from penstock_studies.cryptoracle.artifact import breakdowns, count_table, estimates
from penstock_studies.cryptoracle.artifact_rows import build_rows, figure11_rows, sweep_rows
from penstock_studies.cryptoracle.data import Dataset, PredictedApplication, Priced, load_data, points

VARIABLE = "PENSTOCK_CRYPTORACLE_ARTIFACT"
FOLDER = Path(os.environ.get(VARIABLE, Path(__file__).parents[2] / ".." / "shared/data/cryptoracle-artifact"))
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"CryptOracle's artifact is not in {FOLDER} ({VARIABLE} names another folder)"
)


@pytest.fixture(scope="module")
def log() -> ImportLog:
    return ImportLog()


@pytest.fixture(scope="module")
def data(log: ImportLog) -> dict[str, Dataset]:
    return load_data(FOLDER, log)


@pytest.fixture(scope="module")
def found(data: dict[str, Dataset]) -> list[PredictedApplication]:
    return points(data["amd"])


def test_nothing_is_refused_and_each_quirk_is_said(data: dict[str, Dataset], log: ImportLog) -> None:
    assert not log.bad
    said = "\n".join([*log.warnings, *log.left_out])
    for words in (
        "the times of 60 rows are half of what passed",
        "'Power' is twice the energy over the time in 530 rows",
        "primitive-results-perf-events.csv too",
        "'chi_square_test', which",
        "no row of column 'low_memory_resnet20 Time' has a time",
        "of the build 'hexl' of the library",
        "with samples by function, and no timings",
    ):
        assert words in said


def test_single_folders_and_files_are_read_too() -> None:
    for path in (FOLDER / "datasets", FOLDER / "ae-datasets", *sorted((FOLDER / "datasets").rglob("*sizes*.csv"))):
        assert load(path)


def test_matrix_products_and_the_network_are_met(found: list[PredictedApplication]) -> None:
    def mean(name: str, size: str) -> float:
        of = [p for p in found if (p.name, p.size) == (name, size)]
        off = [abs(p.ours.seconds / p.seconds - 1) for p in of if isinstance(p.ours, Priced)]
        assert len(off) == len(of) > 0
        return sum(off) / len(off)

    assert mean("matrix-multiplication", "order8") < 0.10
    assert mean("matrix-multiplication", "order16") < 0.10
    assert mean("cnn", "") < 0.20


def test_figure_11_has_its_counts_and_gains(data: dict[str, Dataset]) -> None:
    read = estimates(FOLDER, ImportLog())
    assert count_table(read)["rectangular-mm"] == {
        "CKKS_Add": 2339, "CKKS_Mult": 12, "CKKS_Mult_Plaintext": 2328, "CKKS_Rotate": 386,
    }  # fmt: skip
    rows = {row["id"]: row for row in figure11_rows(read, data)}
    gains = [row["published"] for name, row in rows.items() if "d6-over-d3" in name]
    assert all(10 < gain < 16 for gain in gains)
    assert all(5 < row["published"] < 6.2 for name, row in rows.items() if "d6-over-d6" in name)


def test_rows_have_ids_of_their_own_and_values(data: dict[str, Dataset], found: list[PredictedApplication]) -> None:
    rows: list[dict[str, Any]] = [*sweep_rows(data, found), *build_rows(FOLDER)]
    assert len({row["id"] for row in rows}) == len(rows)
    assert all(row["published"] is not None or row["first_principles"] is not None for row in rows)
    assert set(breakdowns(FOLDER, ImportLog())) >= {"cnn", "chi-square", "matrix-multiplication"}
