"""FHEIns from first principles: what it prints, how near we come, and what is left of it under fair assumptions.

Bounds are the issue's; where a value lies nearer, a second bound says how near it really is.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.base.system.drawing import written
from penstock.scheme.machines.drives import load_drive
from penstock_studies.fheins import data
from penstock_studies.fheins import reproduction as fheins
from penstock_studies.fheins.figures import LINES, draw
from penstock_studies.headlines import headlines, neighbours_text, readings_of
from support.pictures import titles


@pytest.fixture(scope="module")
def made() -> dict[str, dict[str, Any]]:
    started = time.monotonic()
    rows = fheins.rows()
    assert time.monotonic() - started < 60
    return {each["id"]: each for each in rows}


def test_each_figure_has_every_value_of_its_rows_and_the_published_one(
    made: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    pir, ssc, ablation, power = (titles(path) for path in draw(made.values(), tmp_path))
    for drive in data.DRIVES:
        for batch in data.BATCHES:
            speedup = value(made, f"pir.{drive}.batch{batch}.speedup")
            assert f"host re-reads for each query (headline), {batch}, {written(speedup, 'x')}" in pir
        for batch in data.SSC_BATCHES:
            speedup = value(made, f"ssc.{drive}.batch{batch}.batch-overlap-dram.speedup")
            assert f"keys over the DRAM, {batch}, {written(speedup, 'x')}" in ssc
        assert f"published maximum, {written(data.PIR_MAX[drive].value, 'x')}" in pir
        assert f"published maximum, {written(data.SSC_MAX[drive].value, 'x')}" in ssc
        assert f"published, {written(data.ABLATION[drive].value, 'x')}" in ablation
        slower = value(made, f"ablation.{drive}.base.speedup")
        assert f"one key and twiddles, {written(slower, 'x')}" in ablation
    assert len(pir) == 2 * (len(LINES["pir"]) * len(data.BATCHES) + 2)
    assert len(ssc) == 2 * (len(LINES["ssc"]) * len(data.SSC_BATCHES) + 1)
    assert f"budget, {data.BUDGET_W.value:g} W" in power
    assert len(power) == 2 * 3 + 1


def error(row: dict[str, Any], column: str = "first_principles") -> float:
    found = row[f"error_{column}"]
    assert found is not None
    return abs(float(found))


@pytest.mark.parametrize("drive", data.DRIVES)
def test_private_retrieval_maxima_follow_from_re_streaming(made: dict[str, dict[str, Any]], drive: str) -> None:
    """14.3x and 24.7x within 20 %; really within 10 %."""
    row = made[f"pir.{drive}.max.speedup"]
    assert row["policy"] == "restream-overlap"
    assert error(row) <= 0.10


def test_the_calibrated_maximum_that_was_not_fitted_is_within_10_percent(made: dict[str, dict[str, Any]]) -> None:
    assert error(made["pir.ssd-s.max.speedup"], "calibrated") <= 0.10
    fitted = made["pir.ssd-l.max.speedup"]
    assert fitted["error_calibrated"] is None
    assert fitted["calibrated"] == pytest.approx(24.7, rel=1e-3)


@pytest.mark.parametrize("drive", data.DRIVES)
def test_a_maximum_names_the_batch_of_either_column(made: dict[str, dict[str, Any]], drive: str) -> None:
    row = made[f"pir.{drive}.max.speedup"]
    found = re.fullmatch(r"at batch (\d+); .*; calibrated, at batch (\d+): .*", row["note"])
    assert found is not None
    for column, batch in zip(("first_principles", "calibrated"), found.groups(), strict=True):
        assert made[f"pir.{drive}.batch{batch}.speedup"][column] == row[column]


@pytest.mark.parametrize("drive", data.DRIVES)
def test_inspire_gains_between_1_1_and_2_4(made: dict[str, dict[str, Any]], drive: str) -> None:
    """Really 1.19x and 2.39x, within 5 % of what FHEIns prints."""
    row = made[f"inspire.{drive}.restream-overlap.batch64.speedup"]
    assert 1.1 <= row["first_principles"] <= 2.4
    assert error(row) <= 0.05
    for batch in data.BATCHES:
        beside = made[f"inspire.{drive}.restream-overlap.batch{batch}.speedup"]
        assert beside["first_principles"] == pytest.approx(row["first_principles"], rel=1e-3), "a time for each query"


@pytest.mark.parametrize("drive", data.DRIVES)
def test_scores_are_within_15_percent(made: dict[str, dict[str, Any]], drive: str) -> None:
    """Really within 6 %."""
    assert error(made[f"ssc.{drive}.max.speedup"]) <= 0.06
    if drive == "ssd-l":
        assert error(made["ssc.ssd-l.max.speedup"], "calibrated") <= 0.05


@pytest.mark.parametrize("drive", data.DRIVES)
def test_the_ablation_is_within_20_percent(made: dict[str, dict[str, Any]], drive: str) -> None:
    """Really 17 % and 11 % high; calibrated on other figures, 11 % and 5 %."""
    assert error(made[f"ablation.{drive}.base.speedup"]) <= 0.18
    assert error(made[f"ablation.{drive}.base.speedup"], "calibrated") <= 0.12


def test_the_large_drive_gains_more_on_scores_as_its_own_numbers_say(made: dict[str, dict[str, Any]]) -> None:
    small, large = (made[f"ssc.{drive}.max.speedup"]["first_principles"] for drive in data.DRIVES)
    assert large / small == pytest.approx(2.0, rel=0.01)


def test_against_a_host_that_batches_the_headline_is_gone(made: dict[str, dict[str, Any]]) -> None:
    for drive in data.DRIVES:
        fair = {b: made[f"pir.{drive}.batch{b}.batch-overlap-dram.speedup"]["first_principles"] for b in data.BATCHES}
        assert fair[1] > 3, "one query reads the database once on both sides: the bandwidths' ratio is left"
        assert fair[64] < 1.5, "a large batch is bound by computing on both sides"
        assert all(fair[b] >= fair[2 * b] * (1 - 1e-9) for b in data.BATCHES[:-1])
        assert fair[64] < made[f"pir.{drive}.max.speedup"]["published"] / 10


def test_scores_need_a_dram_that_costs_nothing(made: dict[str, dict[str, Any]]) -> None:
    for drive in data.DRIVES:
        free, keys, spill = (
            made[f"ssc.{drive}.max{policy}.speedup"]["first_principles"]
            for policy in ("", ".batch-overlap-dram", ".batch-overlap-spill")
        )
        assert spill < 0.2 < keys < free
    assert made["ssc.ssd-s.max.batch-overlap-dram.speedup"]["first_principles"] < 1


def test_scores_of_many_queries_are_sooner_on_a_host_that_batches(made: dict[str, dict[str, Any]]) -> None:
    """Re-streaming: the ratio of one query. Once for all 64: a fifth and two fifths, computing on both sides."""
    for drive, bound in zip(data.DRIVES, (0.25, 0.5), strict=True):
        name = f"ssc.{drive}.{{}}.speedup"
        one = made[name.format("max")]["first_principles"]
        assert made[name.format("queries64")]["first_principles"] == pytest.approx(one)
        assert made[name.format("max.batch-overlap")]["first_principles"] == pytest.approx(one), "one query"
        assert made[name.format("queries64.batch-overlap")]["first_principles"] < bound
        assert "the host for compute" in made[name.format("queries64.batch-overlap")]["note"]


@pytest.mark.parametrize("drive", data.DRIVES)
def test_the_engine_agrees_with_the_closed_form(made: dict[str, dict[str, Any]], drive: str) -> None:
    """Page by page, both sides: within 0.1 %."""
    for played, formula in (
        (f"engine.pir.{drive}.batch64.speedup", f"pir.{drive}.batch64.speedup"),
        (f"engine.ssc.{drive}.batch1.speedup", f"ssc.{drive}.max.speedup"),
    ):
        assert made[played]["first_principles"] == pytest.approx(made[formula]["first_principles"], rel=1e-3)


@pytest.mark.parametrize("drive", data.DRIVES)
def test_a_table_in_nand_costs_a_sequential_scan_next_to_nothing(made: dict[str, dict[str, Any]], drive: str) -> None:
    """FHEIns calls it ignorable, and it is: one page of the table for 8192 pages of data."""
    for batch in (1, 64):
        assert 1 - 1e-9 <= made[f"engine.pir.{drive}.l2p-in-nand.batch{batch}.slowdown"]["first_principles"] < 1.005


def test_only_the_headline_has_errors(made: dict[str, dict[str, Any]]) -> None:
    for row in made.values():
        if row["policy"] != "restream-overlap":
            assert row["error_first_principles"] is None
            assert row["error_calibrated"] is None


def test_the_power_of_the_large_drive_is_reported_over_its_budget(made: dict[str, dict[str, Any]]) -> None:
    row = made["table2.ssd-l.per-engine.power"]
    assert row["first_principles"] == pytest.approx(74.0, abs=0.05)
    assert "OVER" in row["note"]
    assert "within" in made["table2.ssd-s.per-engine.power"]["note"]


@pytest.mark.parametrize("drive", data.DRIVES)
def test_energy_is_saved_on_retrieval_and_not_on_scores_of_many_queries(
    made: dict[str, dict[str, Any]], drive: str
) -> None:
    """Joules a query; under both policies a drive has one power, so that fewer seconds are fewer joules."""

    def joules(of: str, whose: str) -> float:
        return float(made[f"{of}.{whose}_energy"]["first_principles"])

    fair = "batch-overlap-dram"
    assert joules(f"pir.{drive}.batch64.{fair}", "fheins") < joules(f"pir.{drive}.batch64.{fair}", "host")
    assert joules(f"ssc.{drive}.batch1", "fheins") < joules(f"ssc.{drive}.batch1", "host")
    for inside in (f"ssc.{drive}.queries64", f"ssc.{drive}.queries64.{fair}"):
        assert joules(inside, "fheins") > joules(f"ssc.{drive}.queries64.{fair}", "host")


def test_every_claim_has_its_numbers(made: dict[str, dict[str, Any]]) -> None:
    found = fheins.claims(list(made.values()))
    assert len(found) == 8
    assert all(each["value"] and each["survives"] for each in found)


def value(made: dict[str, dict[str, Any]], name: str) -> float:
    return float(made[name]["first_principles"])


@pytest.mark.parametrize("drive", data.DRIVES)
def test_every_headline_says_what_it_rests_on_and_what_others_give(made: dict[str, dict[str, Any]], drive: str) -> None:
    found = {each["id"]: each for each in headlines(readings_of("fheins"), list(made.values()))}
    published = {name for name, row in made.items() if row["error_first_principles"] is not None}
    assert published <= found.keys(), "every row that is held against FHEIns is a headline"
    for each in found.values():
        assert each["rests_on"]
        assert len(each["neighbours"]) >= 2
        assert all(number is not None for number in each["neighbours"].values())
        assert each["first_principles"] == made[each["id"]]["first_principles"]
    pir = found[f"pir.{drive}.max.speedup"]
    assert pir["neighbours"]["both read once a batch"] < 1.5 < pir["first_principles"]
    assert "both read once a batch" in neighbours_text(pir)


@pytest.mark.parametrize("drive", data.DRIVES)
def test_every_database_workload_is_a_scan_inside_the_drive(made: dict[str, dict[str, Any]], drive: str) -> None:
    """Filters are bound by the channels, as retrieval is; scores, hypervectors and joins by computing."""
    fair = "batch-overlap-dram"
    for workload in ("pir", "filter-aggregate"):
        assert value(made, f"workload.{workload}.{drive}.batch1.speedup") == pytest.approx(
            value(made, f"pir.{drive}.batch1.speedup")
        )
    for workload in ("ssc", "hdc-classify", "equi-join"):
        free = value(made, f"workload.{workload}.{drive}.batch1.speedup")
        assert 1 < free < 5
        assert value(made, f"workload.{workload}.{drive}.batch1.{fair}.speedup") < free
        assert value(made, f"workload.{workload}.{drive}.batch64.{fair}.speedup") < 0.3
    # A filter has one key, of HMult: it gains with keys over the DRAM too, and loses where scratchpads spill.
    assert value(made, f"workload.filter-aggregate.{drive}.batch1.{fair}.speedup") > 3
    assert value(made, f"workload.filter-aggregate.{drive}.batch1.batch-overlap-spill.speedup") < 0.25
    # Every sum of a match goes back over the link, so that nothing is gained.
    assert value(made, f"workload.string-match.{drive}.batch1.speedup") == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("drive", data.DRIVES)
def test_rankings_wait_for_computing_inside_and_for_the_link_outside(
    made: dict[str, dict[str, Any]], drive: str
) -> None:
    one, ten = (value(made, f"workload.{name}.{drive}.batch1.speedup") for name in ("argmax", "top-k"))
    assert 0.9 * one < ten < one < 1.5
    assert value(made, f"workload.argmax.{drive}.batch1.batch-overlap-spill.speedup") < 0.03
    twice = value(made, "workload.argmax.ssd-l.batch1.speedup") / value(made, "workload.argmax.ssd-s.batch1.speedup")
    assert twice == pytest.approx(2, rel=1e-3)


@pytest.mark.parametrize("drive", data.DRIVES)
def test_ordinary_reads_cost_more_in_turns_than_at_once(made: dict[str, dict[str, Any]], drive: str) -> None:
    for workload in ("pir", "ssc", "hdc-classify", "filter-aggregate", "equi-join", "string-match"):
        for reads in (1, 4):
            name = f"modes.{workload}.{drive}.reads{reads}"
            shared, alternate = (value(made, f"{name}.{modes}.slowdown") for modes in ("shared", "alternate"))
            assert 1 <= shared <= alternate * (1 + 1e-9)
            assert alternate == pytest.approx(1 / (1 - reads * 1e9 / 7.2018497e9), rel=1e-4)


@pytest.mark.parametrize("drive", data.DRIVES)
def test_only_the_links_efficiency_moves_a_headline_of_all_assumed_values_of_a_drive(
    made: dict[str, dict[str, Any]], drive: str
) -> None:
    """PIR and SSC wait for computing inside and for the link outside; commands and geometry are hidden."""
    moved = {
        name.split(".", 3)[3]
        for name, each in made.items()
        if name.startswith(f"assumed.{drive}.") and abs(each["first_principles"] - 1) > 0.01
    }
    assert {each for each in moved if each.startswith("drive.")} == {"drive.host_link_efficiency.times-0.5"}
    assert {each.split(".")[1] for each in moved if each.startswith("fheins.")} == {
        "clock", "plaintext_transforms", "lane", "hoisting",
    }  # fmt: skip
    fields = {name.split(".")[4] for name in made if name.startswith(f"assumed.{drive}.pir.drive.")}
    expected = {
        field
        for field, figure in load_drive(drive).figures.items()
        if figure.kind.value == "assumed" and field != "stripe"
    }
    assert fields == expected, "every assumed value but the order of a stripe has another one"
    words = value(made, f"assumed.{drive}.ssc.fheins.lane.word")
    assert words == pytest.approx(
        value(made, f"sensitivity.ssc.{drive}.lane-word.bsgs.batch512.speedup")
        / value(made, f"ssc.{drive}.max.speedup")
    )


def test_inspires_published_time_takes_thirteen_butterflies_a_cycle_and_channel(
    made: dict[str, dict[str, Any]],
) -> None:
    """FHEIns prints 1.2x on the small drive: between 8 and 16 lanes a channel."""
    assert value(made, "inspire.lanes") == pytest.approx(12.9, abs=0.05)
    small = [value(made, f"inspire.ssd-s.lanes{lanes}.speedup") for lanes in (4, 8, 16, 32, 64)]
    assert small == sorted(small)
    assert small[1] < made["inspire.ssd-s.restream-overlap.batch64.speedup"]["published"] < small[2]
    assert small[-1] == pytest.approx(value(made, "pir.ssd-s.batch1.speedup")), "the channels bind at last"
