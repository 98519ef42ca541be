"""A simulated scan is its trace's price and its bytes' time, played through two stages."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.lab.fit.fit import fit_machine
from penstock.lab.prediction.composites import expanded
from penstock.lab.prediction.database import Simulated, simulate
from penstock.lab.prediction.prediction import predict
from penstock.program.database.description import CIPHERTEXTS, PIR, RECORDS, SSC, Description
from penstock.program.evaluator.tally import tally_of
from penstock.runtime.scanning.disk import Disk
from penstock.runtime.scanning.query import trace_scan
from penstock.runtime.scanning.store import Database, DatabaseLayout
from penstock.scheme.machines.schema import Machine
from penstock.scheme.params import catalogue
from support.imagined_cpu import sweep

SET = catalogue.get("insecure-database")


@pytest.fixture(scope="module")
def machine() -> Machine:
    return fit_machine(sweep(), name="imagined", fitted_to="an imagined CPU", expand=expanded)


def disk(rate: float = 1e9) -> Disk:
    return Disk(
        name="d",
        read_bytes_per_s=rate,
        checksum_bytes_per_s=rate,
        decode_bytes_per_s=rate,
        decode_call_s=0.0,
        source="by hand",
    )


def database(kind: str, records: int, **fields: int) -> Database:
    """One that was never made: a simulation looks at its description only."""
    stored = RECORDS if kind == PIR else CIPHERTEXTS
    description = Description(kind=kind, params=SET, stored=stored, records=records, **fields)  # type: ignore[arg-type]
    return Database(
        path=Path("absent"), description=description, layout=DatabaseLayout.of(description, 1 << 20), identity="0"
    )


def scores(machine: Machine, rate: float, prefetch: int) -> tuple[Simulated, Database]:
    of = database(SSC, 2048, features=64)
    return simulate(of, of.description.plan(), machine, disk(rate), prefetch=prefetch), of


def test_with_a_fast_disk_a_scan_takes_what_its_trace_costs(machine: Machine) -> None:
    found, of = scores(machine, 1e15, 4)
    whole = predict(tally_of(trace_scan(of.description.plan())), machine, threads=1)
    assert found.total_s == pytest.approx(whole.predicted_s)
    assert found.bottleneck == "compute"


def test_with_a_slow_disk_it_takes_what_its_bytes_take(machine: Machine) -> None:
    found, of = scores(machine, 1e5, 4)
    each = (found.read_s + found.checksum_s + found.decode_s) / of.layout.num_entries
    assert found.bottleneck == "load"
    assert found.read_s == pytest.approx(of.layout.total_bytes / 1e5, rel=0.02)
    compute = predict(tally_of(trace_scan(of.description.plan())), machine, threads=1).predicted_s
    assert found.total_s == pytest.approx(of.layout.num_entries * each, abs=compute)


def test_without_reading_ahead_the_stages_add_up(machine: Machine) -> None:
    ahead, _ = scores(machine, 1e8, 4)
    turns, _ = scores(machine, 1e8, 0)
    load = turns.read_s + turns.checksum_s + turns.decode_s
    assert turns.total_s > ahead.total_s
    assert turns.client_s is turns.encode_s is None  # the machine does not know the client
    assert turns.total_s == pytest.approx(load + turns.compute_s)


def test_raw_records_are_not_decoded_and_queries_multiply_the_work(machine: Machine) -> None:
    of = database(PIR, 3 * 2048, record_bytes=24, bits_per_slot=24)
    plan = of.description.plan()
    one, three = (simulate(of, plan, machine, disk(), queries=n) for n in (1, 3))
    assert one.decode_s == three.decode_s == 0
    assert one.read_s == three.read_s
    assert three.compute_s == pytest.approx(3 * one.compute_s)


def test_a_thread_that_was_kept_from_the_processor_is_noted() -> None:
    from penstock.front.hall.databases import disturbed

    result = {"wall_s": 10.0, "wait_s": 2.0, "own_cpu_s": 7.9}
    assert disturbed(result) == []
    (note,) = disturbed(result | {"own_cpu_s": 4.0})
    assert "4 s of the 8 s" in note
