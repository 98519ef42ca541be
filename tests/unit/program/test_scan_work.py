"""The work of a scan, derived from databases of one and two objects, equals the tally of whole programs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.program.database.packing import RecordPacking
from penstock.program.database.pir import PirPlan
from penstock.program.database.scan_work import ScanWork, scan_work
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.evaluator.tally import tally_of
from penstock.program.workloads import equi_join, filter_aggregate, pir, ssc, string_match
from penstock.program.workloads.ranking import top_k
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.traces.schema import TraceMeta


def served(module: object, size: object) -> tuple[ScanWork, dict[object, int], dict[str, int]]:
    """What `scan_work` says of a size, and the tally of its whole program: server's operations, and keys."""
    params = catalogue.get(size.params)  # type: ignore[attr-defined]
    ev = SymbolicEvaluator(params)
    module.program(ev, module.blank(size, params.slots), size)  # type: ignore[attr-defined]
    trace = ev.builder.finish(TraceMeta(workload="test", params=params.to_dict(), reading="trace"))
    tally = tally_of(trace)
    left_out = {kind.value for kind, traits in TRAITS.items() if traits.client} | {OpKind.MOD_DROP.value}
    operations = {shape: n for shape, n in tally.counts.items() if shape.kind not in left_out}
    return scan_work(size.plan(params)), operations, dict(tally.keys)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("blocks", "folds", "record_bytes"),
    [(1, (), 3), (5, (), 4), (6, (3,), 9), (7, (3,), 9), (1, (4,), 96), (2, (1,), 12)],
)
def test_pir_work_equals_the_trace_of_any_number_of_blocks(
    blocks: int, folds: tuple[int, ...], record_bytes: int
) -> None:
    size = replace(pir.SIZES["ci"], records=blocks * 2048 - 5, record_bytes=record_bytes, folds=folds)
    work, operations, keys = served(pir, size)
    assert work.operations() == operations
    assert work.keys == keys
    assert work.num_objects == blocks * -(-record_bytes // 3)


def test_pir_work_of_three_dimensions_and_several_queries() -> None:
    deep = replace(pir.SIZES["ci"], params="insecure-small", record_bytes=6, bits_per_slot=16)
    for blocks in (8, 11, 12):
        size = replace(deep, records=blocks * 1024, folds=(2, 3), queries=2)
        work, operations, _ = served(pir, size)
        assert work.operations(queries=2) == operations


@pytest.mark.parametrize("summation", ["bsgs", "fold"])
@pytest.mark.parametrize("objects", [1, 2, 7, 8, 9, 17])
def test_ssc_work_equals_the_trace_of_any_number_of_ciphertexts(objects: int, summation: str) -> None:
    size = replace(ssc.SIZES["ci"], vectors=objects * 256 - 1, features=8, summation=summation)
    work, operations, keys = served(ssc, size)
    assert work.operations() == operations
    assert work.num_objects == objects
    if objects > 1:
        assert work.keys == keys


def test_the_named_sizes_of_the_paper_have_the_bytes_that_their_parameters_give() -> None:
    plan = pir.SIZES["vcall"].plan(catalogue.get("fheins-pir"))
    work = scan_work(plan)
    # 3 limbs x 4096 coefficients x 36 bits, a plaintext of 2048 records of one byte each.
    assert (work.object_bytes, work.raw_bytes) == (3 * 4096 * 36 // 8, 2048.0)
    assert work.query_ciphertexts == {3: 8, 2: 4}
    plan = ssc.SIZES["published"].plan(catalogue.get("fheins-ssc"))
    work = scan_work(plan)
    assert work.object_bytes == 2 * 39 * 2**16 * 36 // 8
    assert len(work.keys) == 1 + 30 + 1


def test_work_of_a_database_of_2_30_records_takes_no_longer_than_of_a_small_one() -> None:
    plan = PirPlan(
        params=catalogue.get("fheins-pir"),
        records=2**30,
        folds=(724,),
        packing=RecordPacking(record_bytes=288, bits_per_slot=8),
    )
    work = scan_work(plan)
    assert work.num_objects == 2**30 // 2048 * 288
    assert work.num_objects * work.raw_bytes == 2**30 * 288
    counts = {shape.kind: n for shape, n in work.operations().items()}
    assert counts["mult_plain"] == work.num_objects
    # Every place of the second dimension closes a sum of each column.
    assert counts["mult_no_relin"] == 288 * 724
    assert counts["rotate"] == 287


def test_match_work_is_one_addition_for_each_start_of_the_pattern() -> None:
    work, operations, keys = served(string_match, string_match.SIZES["ci"])
    assert work.operations() == operations
    assert keys == {}
    # Records of 32 bytes hold a pattern of 16 bytes at 9 words of 2 bytes.
    assert {shape.kind: n for shape, n in work.per_object.items()} == {"add": 9}


@pytest.mark.parametrize("objects", [1, 2, 5])
def test_filter_work_equals_the_trace_of_any_number_of_rows(objects: int) -> None:
    size = replace(filter_aggregate.SIZES["ci"], rows=objects * 1024 - 3)
    work, operations, keys = served(filter_aggregate, size)
    assert work.operations() == operations
    assert (work.workload, work.num_objects) == ("filter-aggregate", objects)
    assert work.keys == keys


@pytest.mark.parametrize("objects", [1, 3])
def test_join_work_equals_the_trace_of_any_number_of_rows(objects: int) -> None:
    size = replace(equi_join.SIZES["ci"], rows=objects * 1024)
    work, operations, keys = served(equi_join, size)
    assert work.operations() == operations
    assert work.keys == keys
    assert (work.workload, work.num_objects) == ("equi-join", objects)
    assert work.query_ciphertexts == {work.object_limbs: 6}
    assert sum(work.answer_ciphertexts.values()) == 2
    assert work.per_object[next(s for s in work.per_object if s.kind == "square")] == 3, "a mask for each small row"


@pytest.mark.parametrize("objects", [1, 3])
def test_ranking_work_equals_the_trace_of_any_number_of_records(objects: int) -> None:
    size = replace(top_k.SIZES["ci"], records=objects * 8 - 1)
    work, operations, keys = served(top_k, size)
    assert work.operations() == operations
    assert work.keys == keys
    assert (work.workload, work.num_objects) == ("top-k", objects)
    assert sum(work.answer_ciphertexts.values()) == 2 * objects
    assert not work.query_ciphertexts
