"""Argmax and top-k: every rank by all pairs in slots, the selection of places, and what a plan refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.errors import ParamsError, UsageError
from penstock.lab.instorage.query import rank_query
from penstock.program.database.ranking import RankPlan, RankScan
from penstock.program.database.scan_work import scan_work
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.workloads import get
from penstock.scheme.operations import OpKind
from penstock.scheme.params import catalogue

SET = catalogue.get("insecure-resnet20-multiplexed")
QUALITY: dict[int, dict[str, Any]] = {
    4: {"lower_bits": 4, "degrees": "15-15", "rank_degrees": "15-15"},
    8: {"lower_bits": 5, "degrees": "15-15", "rank_degrees": "15-15"},
    16: {"lower_bits": 6, "degrees": "15-27", "rank_degrees": "15-27"},
}


def plan(scores: int, records: int, top: int) -> RankPlan:
    return RankPlan(params=SET, records=records, scores=scores, top=top, **QUALITY[scores])


def spread(records: int, scores: int, seed: int = 0) -> np.ndarray:
    """Scores of which each is 0.4 / scores from the next at least."""
    generator = np.random.default_rng(seed)
    values = (np.arange(scores) + generator.uniform(0.2, 0.8, (records, scores))) / scores
    return generator.permuted(values, axis=1)


def ranked(of: RankPlan, scores: np.ndarray) -> np.ndarray:
    ev = ClearEvaluator(SET)
    scan = RankScan(ev, of)
    return of.decoded([scan.absorb(ev.encrypt(of.packed(scores, n))) for n in range(of.num_objects)])


@pytest.mark.parametrize(
    ("scores", "top"), [(4, 1), (4, 2), (4, 4), (8, 1), (8, 3), (8, 8), (16, 1), (16, 5), (16, 16)]
)
@pytest.mark.parametrize("records", [1, 9, 40])
def test_the_largest_scores_and_their_indices_are_numpys(scores: int, top: int, records: int) -> None:
    table = spread(records, scores, seed=records)
    got = ranked(plan(scores, records, top), table)
    order = np.argsort(-table, axis=1)[:, :top]
    assert got.shape == (records, top, 2)
    assert np.array_equal(np.rint(got[..., 1]), order)
    assert np.max(np.abs(got[..., 0] - np.take_along_axis(table, order, axis=1))) < 1e-3
    assert np.max(np.abs(got[..., 1] - order)) < 0.01


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]])
def test_every_place_is_found_wherever_it_stands(order: list[int]) -> None:
    table = np.array([order]) / 4 + 0.125
    got = ranked(plan(4, 1, 4), table)
    assert np.rint(got[0, :, 1]).tolist() == np.argsort([-each for each in order]).tolist()


def test_short_records_end_in_zeros_that_lose() -> None:
    table = 0.1 + 0.9 * spread(5, 8)[:, :6]
    got = ranked(plan(8, 5, 6), table)
    assert np.array_equal(np.rint(got[..., 1]), np.argsort(-table, axis=1))


def test_two_equal_scores_share_a_place_and_the_others_keep_theirs() -> None:
    """Of two equal scores each counts half of the other: both ranks lie between the two places."""
    table = np.array([[0.9, 0.5, 0.5, 0.1]])
    got = ranked(plan(4, 1, 4), table)[0]
    assert np.rint(got[[0, 3], 1]).tolist() == [0, 3]
    assert got[[0, 3], 0] == pytest.approx([0.9, 0.1], abs=1e-3)
    # Each is compared with its own place: half of both scores in each of the two places, and half of both indices.
    assert got[1:3, 0] == pytest.approx([0.5, 0.5], abs=1e-3)
    assert got[1:3, 1] == pytest.approx([1.5, 1.5], abs=0.01)


def test_the_levels_of_a_plan_are_what_its_scan_takes() -> None:
    from penstock.program.evaluator.symbolic import SymbolicEvaluator

    for name in ("sharp", "fheins-ssc"):
        params = catalogue.get(name)
        of = replace(get("top-k").SIZES["published"].plan(params), records=1)
        ev = SymbolicEvaluator(params)
        answers = RankScan(ev, of).absorb(ev.mod_drop(ev.encrypt(np.zeros(1)), of.object_limbs))
        assert {ev.levels(each) for each in answers} == {0}


def test_the_keys_are_rotations_by_powers_of_two_of_four_strides() -> None:
    of = get("argmax").SIZES["published"].plan(catalogue.get("fheins-ssc"))
    work = scan_work(of)
    # 64 scores: 6 steps of own, which the rows and the shift share, 7 of the others, 6 of the sum, 6 of the selection.
    assert len(work.keys) == 1 + 6 + 7 + 6 + 6
    top = scan_work(replace(of, top=10))
    assert top.keys.keys() == work.keys.keys()
    rotations = [
        sum(n for shape, n in each.per_object.items() if shape.kind == OpKind.ROTATE.value) for each in (work, top)
    ]
    assert rotations == [6 + 7 + 6 + 1 + 2 * 6, 6 + 7 + 6 + 4 + 1 + 2 * 6]


def test_plans_that_nothing_carries_are_refused() -> None:
    with pytest.raises(UsageError, match="argmax: a table of 0 records"):
        plan(8, 0, 1)
    for scores in (2, 12):
        with pytest.raises(UsageError, match=f"records of {scores} scores: the number is a power of two from 4 on"):
            RankPlan(params=SET, records=1, scores=scores, **QUALITY[8])
    for top in (0, 9):
        with pytest.raises(UsageError, match=f"the {top} largest of 8 scores: ask for 1 to 8"):
            plan(8, 1, top)
    with pytest.raises(ParamsError, match=r"32 scores are compared in 2048 slots and set '.*' has 1024"):
        RankPlan(params=SET, records=1, scores=32, **QUALITY[8])
    with pytest.raises(UsageError, match=r"top-k: comparisons of degrees 7 from 2\^-6 on are off by"):
        RankPlan(params=SET, records=1, scores=16, top=2, lower_bits=6, degrees="7", rank_degrees="15")
    with pytest.raises(ParamsError, match="18 multiplications in sequence, and set 'insecure-ci' carries 13"):
        RankPlan(params=catalogue.get("insecure-ci"), records=1, scores=8, **QUALITY[8])
    with pytest.raises(ParamsError, match="18 limbs of a stored ciphertext: the products need 19"):
        replace(plan(8, 1, 1), limbs=18)
    with pytest.raises(UsageError, match="holds no ciphertext"):
        rank_query(catalogue.get("fheins-ssc"), database_bytes=0)


@pytest.mark.parametrize("name", ["argmax", "top-k"])
def test_the_check_sees_a_wrong_index_and_a_wrong_score(name: str) -> None:
    workload = get(name)
    size = workload.SIZES["ci"]
    data = workload.data(size, SET.slots, 1)
    clear = workload.program(ClearEvaluator(SET), data, size)
    assert workload.check(clear, clear, data, size).passed
    for change in ([1e-2, 0.0], [0.0, 1.0]):
        assert not workload.check(clear, clear + np.array(change), data, size).passed
    with pytest.raises(UsageError, match="takes no --data"):
        workload.data(size, SET.slots, 1, Path("scores.npy"))


def test_a_query_counts_ciphertexts_of_as_many_limbs_as_it_needs() -> None:
    params = catalogue.get("fheins-ssc")
    size = params.ciphertext_bytes(27)
    found = rank_query(params, database_bytes=10 * size - 1, top=10)
    assert (found.workload, found.num_objects, found.object_bytes) == ("top-k", 10, size)
    assert found.work.query_bytes == 0
    assert found.work.answer_bytes == 20 * params.ciphertext_bytes(1)
    whole = rank_query(params, database_bytes=10**9, limbs=39)
    assert whole.object_bytes == params.ciphertext_bytes(39)
    assert whole.workload == "argmax"
