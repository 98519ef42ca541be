"""How records are packed into slots, and what a plan refuses before anything is encrypted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ParamsError, UsageError
from penstock.program.database.matching import MatchPlan, MatchScan, matches_in
from penstock.program.database.packing import RecordPacking, precision_bits
from penstock.program.database.pir import PirPlan, PirScan
from penstock.program.database.ssc import SscPlan, SscScan, top_k
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.workloads import get
from penstock.scheme.params import catalogue
from penstock.scheme.traces.inspect import differences

SET = catalogue.get("insecure-database")


def packing(record_bytes: int = 96, bits: int = 24) -> RecordPacking:
    return RecordPacking(record_bytes=record_bytes, bits_per_slot=bits)


@given(st.integers(1, 40), st.sampled_from([8, 16, 24, 32]), st.integers(0, 2**32 - 1))
def test_records_survive_chunks_and_errors_below_half_a_step(width: int, bits: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    records = generator.integers(0, 256, (5, width), dtype=np.uint8)
    chunks = packing(width, bits).chunks(records)
    assert chunks.shape == (-(-width // (bits // 8)), 5)
    assert chunks.min() >= 0
    assert chunks.max() < 1
    noisy = chunks + generator.uniform(-0.49, 0.49, chunks.shape) / 2.0**bits
    back, distance = packing(width, bits).rounded(noisy)
    assert np.array_equal(back, records)
    assert distance.max() < 0.5


def test_an_error_of_more_than_half_a_step_is_a_wrong_byte() -> None:
    records = np.full((1, 2), 7, dtype=np.uint8)
    back, _ = packing(2, 16).rounded(packing(2, 16).chunks(records) + 0.6 / 2**16)
    assert not np.array_equal(back, records)


def test_chunks_are_whole_bytes() -> None:
    for bits in (0, 7, 12, 56):
        with pytest.raises(UsageError, match="whole bytes"):
            packing(bits=bits)


def test_precision_falls_by_half_a_bit_when_additions_double() -> None:
    assert precision_bits(SET, 64) - precision_bits(SET, 128) == pytest.approx(0.5)
    assert precision_bits(SET, 64) - precision_bits(catalogue.get("openfhe-pir"), 64) == pytest.approx(6, abs=0.01)


def test_more_bits_a_slot_than_ckks_returns_are_refused_with_the_number() -> None:
    with pytest.raises(ParamsError, match=r"40 bits a slot.*returns"):
        PirPlan(params=SET, records=4096, packing=packing(bits=40))
    # The paper's 36-bit words: a byte a slot comes back, two do not.
    paper = catalogue.get("fheins-pir")
    PirPlan(params=paper, records=2**16, packing=packing(bits=8), folds=(4,))
    with pytest.raises(ParamsError, match="fewer bits a slot"):
        PirPlan(params=paper, records=2**16, packing=packing(bits=16), folds=(4,))


def test_a_record_wider_than_an_answer_is_refused() -> None:
    with pytest.raises(ParamsError, match="takes 2049 slots"):
        PirPlan(params=SET, records=4096, packing=packing(3 * 2048 + 1))
    with pytest.raises(ParamsError, match="takes 3000 slots"):
        MatchPlan(params=SET, records=10, packing=packing(6000, 16), pattern_bytes=2)
    with pytest.raises(ParamsError, match="wider than the 2048 slots"):
        SscPlan(params=SET, vectors=10, features=4096)


def test_a_query_deeper_than_the_parameters_is_refused() -> None:
    with pytest.raises(ParamsError, match=r"multiplies 3 times in sequence.*carries 2"):
        PirPlan(params=SET, records=2**16, packing=packing(), folds=(4, 2))
    shallow = catalogue.spec("insecure-database").model_copy(update={"depth": 1, "dnum": 2, "name": "insecure-d"})
    with pytest.raises(ParamsError, match=r"2 times in sequence.*carries 1"):
        SscPlan(params=shallow.build(), vectors=10, features=64)


@pytest.mark.parametrize(("name", "bits"), [("openfhe-ssc", 3), ("openfhe-pir", 8), ("openfhe-gwas", 59)])
def test_a_score_fits_what_two_products_leave_of_the_modulus(name: str, bits: int) -> None:
    plan = SscPlan(params=catalogue.get(name), vectors=10, features=64)
    assert plan.score_limit == pytest.approx(2.0**bits, rel=1e-6)
    plan.check_length(2.0 ** (bits / 2) * 0.999, "the query")
    for length in (2.0 ** (bits / 2) * 1.001, math.inf, math.nan):
        with pytest.raises(ParamsError, match=rf"the query has a length .* set '{name}' carries scores below"):
            plan.check_length(length, "the query")


def test_a_long_chain_carries_any_score() -> None:
    SscPlan(params=catalogue.get("openfhe-bootstrap"), vectors=10, features=64).check_length(1e100, "the query")


@pytest.mark.parametrize("index", [-1, 4096])
def test_an_index_that_the_database_does_not_hold_is_refused(index: int) -> None:
    plan = PirPlan(params=SET, records=4096, packing=packing())
    with pytest.raises(UsageError, match=r"no record .*records 0 to 4095"):
        PirScan(ClearEvaluator(SET), plan, [index])


def test_a_scan_that_missed_objects_answers_nothing() -> None:
    plan = PirPlan(params=SET, records=4096, packing=packing(6))
    scan = PirScan(ClearEvaluator(SET), plan, [5])
    scan.absorb(ClearEvaluator(SET).encode(np.zeros(8)))
    with pytest.raises(UsageError, match="saw 1 of 4 objects"):
        scan.finish()
    ssc = SscScan(ClearEvaluator(SET), SscPlan(params=SET, vectors=100, features=64), np.ones(64))
    with pytest.raises(UsageError, match="saw 0 of 4 objects"):
        ssc.finish()


@pytest.mark.parametrize(("records", "folds"), [(1, ()), (2048, (3,)), (2049, ()), (9000, (2,)), (11 * 2048, (4,))])
def test_every_block_is_retrieved_whatever_the_dimensions(records: int, folds: tuple[int, ...]) -> None:
    plan = PirPlan(params=SET, records=records, packing=packing(4, 16), folds=folds)
    data = np.random.default_rng(1).integers(0, 256, (records, 4), dtype=np.uint8)
    ev = ClearEvaluator(SET)
    wanted = sorted({0, records - 1, *range(0, records, 2048), *range(2047, records, 2048)})
    scan = PirScan(ev, plan, wanted)
    for block in range(plan.blocks):
        for column in plan.columns_of(data, block):
            scan.absorb(ev.encode(column))
    chunks = np.stack([plan.decoded(a, i) for a, i in zip(scan.finish(), wanted, strict=True)], axis=1)
    assert np.array_equal(plan.packing.rounded(chunks)[0], data[wanted])


@pytest.mark.parametrize("summation", ["fold", "bsgs"])
@pytest.mark.parametrize("features", [1, 2, 8, 32])
@pytest.mark.parametrize("batch", [0, 1, 3])
def test_scores_are_inner_products_in_the_order_of_the_vectors(summation: str, features: int, batch: int) -> None:
    plan = SscPlan(params=SET, vectors=3 * 33 + 1, features=features, batch=batch, summation=summation)
    generator = np.random.default_rng(2)
    vectors, query = generator.standard_normal((plan.vectors, features)), generator.standard_normal(features)
    scan = SscScan(ClearEvaluator(SET), plan, query)
    for number in range(plan.num_objects):
        scan.absorb(plan.packed(vectors, number))
    scores = plan.scores(scan.finish())
    assert np.allclose(scores, vectors @ query, atol=1e-9)
    assert top_k(scores, 5) == top_k(vectors @ query, 5)


def test_patterns_are_found_at_words_and_nowhere_else() -> None:
    texts = [b"abcdefgh", b"xxabcdxx", b"xabcdxxx", b"xxxxabcd", b"abcdabcd"]
    records = np.frombuffer(b"".join(texts), dtype=np.uint8).reshape(-1, 8)
    plan = MatchPlan(params=SET, records=5, packing=packing(8, 16), pattern_bytes=4)
    sums = MatchScan(ClearEvaluator(SET), plan, b"abcd").absorb(plan.packed(records, 0))
    distances = np.stack([plan.distances(each, start) for start, each in enumerate(sums)], axis=1)[:5]
    assert matches_in(distances).tolist() == [[0, 0], [1, 1], [3, 2], [4, 0], [4, 2]]
    with pytest.raises(UsageError, match="multiple"):
        MatchPlan(params=SET, records=5, packing=packing(8, 16), pattern_bytes=3)
    with pytest.raises(UsageError, match="longer than a record"):
        MatchPlan(params=SET, records=5, packing=packing(8, 16), pattern_bytes=10)


def test_filter_needs_a_level_for_sums_and_two_categories() -> None:
    from dataclasses import replace

    workload = get("filter-aggregate")
    size = workload.SIZES["ci"]
    with pytest.raises(ParamsError, match="64 categories take"):
        workload.program(
            ClearEvaluator(catalogue.get("insecure-small")), workload.blank(size, 1024), replace(size, categories=64)
        )
    with pytest.raises(UsageError, match="at least 2"):
        workload.program(ClearEvaluator(SET), workload.blank(size, 1024), replace(size, categories=1))


@pytest.mark.parametrize("rows", [1, 1000, 1024, 2500])
@pytest.mark.parametrize("categories", [2, 3, 5, 8])
def test_filter_in_the_clear_counts_and_sums_like_numpy(rows: int, categories: int) -> None:
    from dataclasses import replace

    workload, params = get("filter-aggregate"), catalogue.get("insecure-small")
    size = replace(workload.SIZES["ci"], rows=rows, categories=categories)
    for query in range(categories):
        data = replace(workload.data(size, params.slots, rows), query=query)
        got = workload.program(ClearEvaluator(params), data, size)
        assert workload.check(got, got, data, size).passed


@pytest.mark.parametrize(
    "name", ["pir", "ssc", "string-match", "filter-aggregate", "equi-join", "hdc-classify", "top-k"]
)
def test_database_programs_are_oblivious(name: str) -> None:
    """Two data sets, two queries, one trace."""
    from penstock.program.running.reading import resolve
    from penstock.program.running.trace import trace_workload

    workload, size_name, params = resolve(name, None, "ci")
    size = workload.SIZES[size_name]
    traces = [trace_workload(name, params, size_name, data=workload.data(size, params.slots, seed)) for seed in (1, 2)]
    assert list(differences(*traces)) == []
