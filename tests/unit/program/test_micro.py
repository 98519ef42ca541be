"""Logistic function, sign evaluation, chi-square: what they compute, in the clear."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, chi2_contingency

from penstock.errors import ParamsError, UsageError
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.running.clear import run_clear
from penstock.program.running.reading import resolve
from penstock.program.running.trace import trace_workload
from penstock.program.workloads import chi_square, logistic_function, matrix_multiplication, sign_evaluation
from support.toy import toy


def test_the_logistic_series_is_as_near_to_the_function_as_each_size_promises() -> None:
    for size in logistic_function.SIZES.values():
        data = logistic_function.data(size, 64, 0)
        clear = logistic_function.program(ClearEvaluator(toy()), data, size)
        assert np.max(np.abs(clear - 1 / (1 + np.exp(-data.x)))) <= size.fit_tolerance
        assert set(data.x) >= {-25.0, 25.0}


def test_a_lower_degree_breaks_the_promise_of_the_full_size() -> None:
    size = logistic_function.Size(params="insecure-ci", degree=59, fit_tolerance=1e-5)
    data = logistic_function.data(size, 64, 0)
    clear = logistic_function.program(ClearEvaluator(toy()), data, size)
    assert not logistic_function.check(clear, clear, data, size).passed


@pytest.mark.parametrize("coefficients", [sign_evaluation.F3, sign_evaluation.G3, (1.0, -2.0, 3.0, -4.0)])
def test_the_odd_polynomial_equals_its_definition(coefficients: tuple[float, float, float, float]) -> None:
    x = np.linspace(-1, 1, 64)
    expected = sum(c * x ** (2 * i + 1) for i, c in enumerate(coefficients))
    assert np.allclose(sign_evaluation.odd_septic(ClearEvaluator(toy()), x, coefficients), expected, atol=1e-12)


def test_one_polynomial_takes_three_levels_and_five_key_switches() -> None:
    ev = SymbolicEvaluator(toy())
    a = ev.encrypt(np.zeros(64))
    result = sign_evaluation.odd_septic(ev, a, sign_evaluation.F3)
    assert ev.levels(a) - ev.levels(result) == 3
    assert [row[1] for row in ev.builder._ops].count("mult") == 3
    assert [row[1] for row in ev.builder._ops].count("square") == 2


def test_signs_hold_down_to_the_gap_and_not_below() -> None:
    size = sign_evaluation.SIZES["ci"]
    ev = ClearEvaluator(toy())
    grid = np.linspace(size.gap, 1.0, 64)
    for x in (grid, -grid):
        assert np.max(np.abs(sign_evaluation.program(ev, sign_evaluation.Data(x), size) - np.sign(x))) < 1e-3
    near = sign_evaluation.Data(np.full(64, size.gap / 2))
    clear = sign_evaluation.program(ev, near, size)
    assert not sign_evaluation.check(clear, clear, near, size).passed


def test_chi_square_equals_scipy_and_the_odds_ratio_its_definition() -> None:
    size = chi_square.Size(params="insecure-ci", people=40, variants=32, associated=2)
    data = chi_square.data(size, 64, 5)
    statistics, odds = chi_square.program(ClearEvaluator(toy()), data, size)
    for variant in range(size.variants):
        cases = data.phenotypes == 1
        minor = [data.genotypes[group, variant].sum() for group in (cases, ~cases)]
        table = np.array([[m, 2 * group.sum() - m] for m, group in zip(minor, (cases, ~cases), strict=True)])
        assert np.isfinite(statistics[variant]) == bool((table.sum(axis=0) > 0).all())
        if np.isfinite(statistics[variant]):
            expected = chi2_contingency(table, correction=False)
            assert statistics[variant] == pytest.approx(expected.statistic, rel=1e-9, abs=1e-12)
            assert chi_square.p_values(statistics[[variant]])[0] == pytest.approx(expected.pvalue, rel=1e-9)
        if table[0, 1] * table[1, 0] > 0:
            assert odds[variant] == pytest.approx(table[0, 0] * table[1, 1] / (table[0, 1] * table[1, 0]), rel=1e-9)
        else:
            assert np.isnan(odds[variant])


def test_a_variant_that_everybody_shares_has_no_statistic() -> None:
    genotypes = np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 2.0], [0.0, 1.0]])
    data = chi_square.Data(genotypes, np.array([1.0, 0.0, 1.0, 0.0]))
    statistics, odds = chi_square.program(ClearEvaluator(toy()), data, chi_square.SIZES["ci"])
    assert np.isnan(statistics[0])
    assert np.isnan(odds[0])
    assert statistics[1] > 0


def test_planted_associations_are_among_the_largest_statistics() -> None:
    size = chi_square.SIZES["full"]
    data = chi_square.data(size, size.variants, 0)
    statistics = run_clear("chi-square", size="full", data=data)[0]
    top = np.argsort(np.nan_to_num(statistics))[::-1][: len(data.associated)]
    assert set(top.tolist()) == set(data.associated)
    assert max(chi_square.p_values(statistics[list(data.associated)])) < chi2.sf(10.0, 1)


def test_a_wrong_statistic_fails_the_check() -> None:
    size = chi_square.SIZES["ci"]
    data = chi_square.data(size, 512, 0)
    clear = chi_square.program(ClearEvaluator(toy(slots=512)), data, size)
    assert chi_square.check(clear, clear, data, size).passed
    assert not chi_square.check(clear, clear * 1.01, data, size).passed
    missing = clear.copy()
    missing[0, 3] = np.nan
    assert not chi_square.check(clear, missing, data, size).passed


def genotype_file(folder: Path, text: str) -> Path:
    path = folder / "genotypes.csv"
    path.write_text(text)
    return path


def test_a_genotype_file_is_read_with_labels_left_and_variants_right(tmp_path: Path) -> None:
    text = "sample,age,phenotype,rs1,rs2\na,44,1,0,2\nb,51,0,1,1\nc,39,1,2,0\n"
    data = chi_square.data(chi_square.SIZES["ci"], 64, 0, genotype_file(tmp_path, text))
    assert list(data.variants) == ["rs1", "rs2"]
    assert data.genotypes.tolist() == [[0, 2], [1, 1], [2, 0]]
    assert data.phenotypes.tolist() == [1, 0, 1]
    statistics, _ = chi_square.program(ClearEvaluator(toy()), data, chi_square.SIZES["ci"])
    assert statistics.shape == (2,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "genotypes.csv is empty"),
        ("sample,rs1\na,0\n", "row 1: 0 columns are named 'phenotype'"),
        ("phenotype,condition,rs1\n1,1,0\n", "row 1: 2 columns"),
        ("sample,phenotype\na,1\n", "row 1: no column is to the right"),
        ("phenotype,rs1\n1,0\n0,3\n", "row 3, column 'rs1': '3' is none of 0, 1, 2"),
        ("phenotype,rs1\n1,0\n0,NA\n", "row 3, column 'rs1': 'NA'"),
        ("phenotype,rs1\n2,0\n0,1\n", "row 2, column 'phenotype': '2' is none of 0, 1"),
        ("\nphenotype,rs1\n1,0\n\n\n0,3\n", "row 6, column 'rs1'"),
        ("\n\nsample,phenotype\na,1\n", "row 3: no column is to the right"),
        ("phenotype,rs1,rs2\n1,0\n", "row 2: 2 cells and the header names 3 columns"),
        ("phenotype,rs1\n1,0\n1,1\n", "2 of 2 people are cases"),
        ("phenotype,rs1\n", "0 of 0 people are cases"),
    ],
)
def test_a_malformed_genotype_file_is_refused_with_file_row_and_rule(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=r"genotypes\.csv") as error:
        chi_square.read_genotypes(genotype_file(tmp_path, text), 64)
    assert message in str(error.value)


def test_a_genotype_file_that_is_missing_a_folder_or_binary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        chi_square.read_genotypes(tmp_path / "none.csv", 64)
    with pytest.raises(UsageError, match="is a folder"):
        chi_square.read_genotypes(tmp_path, 64)
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(UsageError, match="cannot be read as a CSV file"):
        chi_square.read_genotypes(binary, 64)


def test_more_variants_than_slots_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="one a variant"):
        chi_square.data(chi_square.SIZES["ci"], 256, 0)
    header = "phenotype," + ",".join(f"rs{i}" for i in range(65))
    with pytest.raises(ParamsError, match="65 variants"):
        chi_square.read_genotypes(genotype_file(tmp_path, header + "\n"), 64)


@pytest.mark.parametrize("module", [logistic_function, sign_evaluation])
def test_data_of_ones_own_is_refused_where_it_has_no_meaning(module: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="takes no --data"):
        module.data(module.SIZES["ci"], 64, 0, tmp_path)


@pytest.mark.parametrize("name", ["logistic-function", "sign-evaluation", "chi-square"])
def test_the_same_seed_gives_the_same_data(name: str) -> None:
    workload, size_name, params = resolve(name, None, "ci")
    make: Callable[[int], Any] = lambda seed: workload.data(workload.SIZES[size_name], params.slots, seed)  # noqa: E731
    first = "genotypes" if name == "chi-square" else "x"
    assert np.array_equal(getattr(make(3), first), getattr(make(3), first))
    assert not np.array_equal(getattr(make(3), first), getattr(make(4), first))


@pytest.mark.parametrize("order", [8, 16, 32, 64])
def test_matrix_products_come_in_the_orders_of_the_sweep(order: int) -> None:
    size = matrix_multiplication.SIZES[f"d{order}"]
    assert size.order == order
    counts = trace_workload("matrix-multiplication", size=f"d{order}").count_by_kind()
    assert counts["mult"] == order
