"""Every in-storage architecture keeps its promises: sources for all values, an answer or a reasoned refusal."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from penstock.errors import UsageError
from penstock.lab.instorage.drive import drive_rates
from penstock.lab.instorage.engine import played_in_storage
from penstock.lab.instorage.machine import InStorage, UnitAccelerator
from penstock.lab.instorage.machine_spec import accelerators, load_instorage
from penstock.lab.instorage.policies import Contention
from penstock.lab.instorage.queries import RESOURCES, Inside, in_storage
from penstock.lab.instorage.query import Query, match_query, pir_query, ssc_query
from penstock.scheme.machines import assumed
from penstock.scheme.machines.drives import drive_names, load_drive
from penstock.scheme.machines.figure import Evidence
from penstock.scheme.params import catalogue

PIR = pir_query(catalogue.get("fheins-pir"), database_bytes=10**10, record_bytes=96, slot_bits=16)
QUERIES = {
    "pir": PIR,
    "ssc": ssc_query(catalogue.get("fheins-ssc"), database_bytes=10**10, batch=512),
    "string-match": match_query(catalogue.get("fheins-pir"), database_bytes=10**10),
}


def loaded(name: str) -> InStorage:
    return load_instorage(name)


@pytest.mark.parametrize("name", accelerators())
def test_every_value_has_a_source_and_assumed_ones_are_reported(name: str) -> None:
    figures = dict(loaded(name).figures())
    assert figures
    assert all(figure.source.strip() for figure in figures.values())
    assert {each["field"] for each in assumed("accelerator", name, figures.items())} == {
        path for path, figure in figures.items() if figure.kind is Evidence.ASSUMED
    }


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize("name", accelerators())
def test_a_query_is_answered_or_refused_with_a_reason(name: str, query: Query) -> None:
    drive = drive_rates("ssd-s")
    refused = ""
    try:
        one = in_storage(query, drive, loaded(name))
    except UsageError as error:
        refused = str(error)
    if refused:
        assert f"'{name}'" in refused
        assert "use" in refused, "the remedy is named"
        return
    row = one.row()
    assert row["simulated_s"] == max(one.busy.values()) > 0
    assert row["bottleneck"] in RESOURCES
    assert in_storage(query, drive, loaded(name)).row() == row
    many = in_storage(query, drive, loaded(name), batch=8)
    assert one.seconds <= many.seconds <= 8 * one.seconds * (1 + 1e-12)


@pytest.mark.parametrize("drive", drive_names())
def test_formula_and_engine_agree_on_every_drive(drive: str) -> None:
    """Within 0.1 %: the first page and the last chunk; with one die a channel too, which nothing hides the sense of."""
    accelerator = loaded("fheins")
    assert isinstance(accelerator, UnitAccelerator)
    named = load_drive(drive)
    for found, batch in product((named, replace(named, chips_per_channel=1, dies_per_chip=1)), (1, 16)):
        formula = in_storage(PIR, drive_rates(found), accelerator, batch=batch)
        played = played_in_storage(PIR, found, accelerator, batch=batch)
        assert played.seconds == pytest.approx(formula.seconds, rel=1e-3)


@pytest.mark.parametrize("contention", Contention)
def test_more_to_carry_never_makes_it_faster(contention: Contention) -> None:
    accelerator, drive = loaded("fheins"), drive_rates("ssd-l")
    for query in QUERIES.values():
        free = in_storage(query, drive, accelerator)
        held = in_storage(query, drive, accelerator, inside=Inside(contention=contention))
        assert held.seconds >= free.seconds
