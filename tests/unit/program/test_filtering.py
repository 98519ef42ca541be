"""Filters and joins over encrypted tables: sums and counts in the clear, with noise, and what a plan refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.errors import ParamsError, UsageError
from penstock.lab.instorage.query import filter_query, hdc_query
from penstock.program.database.filtering import FilterPlan, FilterScan, JoinPlan, JoinScan, unit_of_codes
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.workloads import equi_join
from penstock.scheme.params import catalogue

SET = catalogue.get("insecure-small")
CATEGORIES = 4


def table(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.integers(0, CATEGORIES, rows), generator.uniform(0, 1, rows)


def run(ev: ClearEvaluator, scan: FilterScan | JoinScan, codes: np.ndarray, values: np.ndarray) -> list[float]:
    unit, slots = unit_of_codes(CATEGORIES), SET.slots
    for at in range(0, len(codes), slots):
        scan.absorb((ev.encrypt(codes[at : at + slots] / unit), ev.encrypt(values[at : at + slots])))
    return [float(np.real(ev.decrypt(each))[0]) for each in scan.finish()]


def test_a_filter_sums_and_counts_the_rows_of_a_code() -> None:
    codes, values = table(2 * SET.slots)
    plan = FilterPlan(params=SET, rows=len(codes), categories=CATEGORIES)
    ev = ClearEvaluator(SET)
    total, count = run(ev, FilterScan(ev, plan, 2), codes, values)
    assert total == pytest.approx(values[codes == 2].sum())
    assert count == pytest.approx((codes == 2).sum())


@pytest.mark.parametrize("small", [{1: 0.5}, {2: 0.5, 0: 0.25, 3: 1.0}, {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0}])
def test_a_join_sums_value_times_attribute_over_pairs_of_equal_codes(small: dict[int, float]) -> None:
    codes, values = table(3 * SET.slots, seed=1)
    plan = JoinPlan(params=SET, rows=len(codes), categories=CATEGORIES, small_rows=len(small))
    ev = ClearEvaluator(SET)
    total, count = run(ev, JoinScan(ev, plan, list(small), list(small.values())), codes, values)
    met = np.array([small.get(int(code), 0.0) for code in codes])
    assert total == pytest.approx((met * values).sum())
    assert count == pytest.approx(np.isin(codes, list(small)).sum())


@pytest.mark.parametrize("rows", [1, 1000, 2500])
@pytest.mark.parametrize("small_rows", [1, 4])
def test_the_workload_leaves_out_the_rows_that_fill_up(rows: int, small_rows: int) -> None:
    size = replace(equi_join.SIZES["ci"], rows=rows, small_rows=small_rows)
    for seed in range(3):
        drawn = equi_join.data(size, SET.slots, seed)
        got = equi_join.program(ClearEvaluator(SET), drawn, size)
        assert equi_join.check(got, got, drawn, size).passed
        assert not equi_join.check(got, got + 1e-3, drawn, size).passed


def test_tables_that_a_plan_does_not_carry_are_refused() -> None:
    with pytest.raises(UsageError, match="filter-aggregate: 1 categories leave nothing to choose"):
        FilterPlan(params=SET, rows=1, categories=1)
    with pytest.raises(UsageError, match="0 rows has no sum"):
        FilterPlan(params=SET, rows=0, categories=2)
    with pytest.raises(ParamsError, match="equi-join: 64 categories take 9 multiplications"):
        JoinPlan(params=SET, rows=1, categories=64, small_rows=1)
    with pytest.raises(UsageError, match="from 1 to the 4 categories"):
        JoinPlan(params=SET, rows=1, categories=4, small_rows=5)
    with pytest.raises(ParamsError, match="3 limbs of a stored ciphertext: the products need 6"):
        FilterPlan(params=SET, rows=1, categories=4, limbs=3)
    plan = JoinPlan(params=SET, rows=1, categories=4, small_rows=2)
    with pytest.raises(UsageError, match="1 codes and 2 attributes"):
        JoinScan(ClearEvaluator(SET), plan, [1], [0.5, 0.5])
    with pytest.raises(UsageError, match="codes that differ"):
        JoinScan(ClearEvaluator(SET), plan, [1, 1], [0.5, 0.5])


def test_queries_count_pairs_of_ciphertexts_and_their_keys() -> None:
    params = catalogue.get("fheins-ssc")
    found = filter_query(params, database_bytes=10 * 2 * params.ciphertext_bytes(39) - 1)
    assert (found.workload, found.num_objects, found.object_bytes) == (
        "filter-aggregate", 10, 2 * params.ciphertext_bytes(39),
    )  # fmt: skip
    assert set(found.key_switches()) == {36, 37, 38, 39}, "a square, and three levels of products"
    joined = filter_query(params, database_bytes=10**9, small_rows=8)
    assert joined.workload == "equi-join"
    assert joined.work.query_bytes == 16 * params.ciphertext_bytes(39)
    shorter = filter_query(params, database_bytes=10**9, limbs=8)
    assert shorter.object_bytes == 2 * params.ciphertext_bytes(8)
    with pytest.raises(UsageError, match="holds no ciphertext"):
        filter_query(params, database_bytes=0)


def test_hypervectors_are_scores_of_as_many_vectors_as_fit() -> None:
    params = catalogue.get("fheins-ssc")
    found = hdc_query(params, database_bytes=10**9)
    assert found.workload == "hdc-classify"
    assert len(found.work.keys) == 1 + 12 + 1, "HMult, a sum by doubling over 4096, a turn"
    with pytest.raises(UsageError, match="from 1 to the 32768 slots"):
        hdc_query(params, database_bytes=10**9, dimensions=2**16)
