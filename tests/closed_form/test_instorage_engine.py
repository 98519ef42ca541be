"""Queries played page by page on the drive's engine against their closed forms."""

from __future__ import annotations

import pytest

from penstock.errors import UsageError
from penstock.lab.instorage.drive import drive_rates
from penstock.lab.instorage.engine import played_in_storage, played_on_host
from penstock.lab.instorage.flash.spec import ScanEngine
from penstock.lab.instorage.machine import UnitAccelerator
from penstock.lab.instorage.machine_spec import load_instorage
from penstock.lab.instorage.policies import BASE, HOST_POLICIES, Contention, HostPolicy, Passes
from penstock.lab.instorage.queries import Inside, in_storage, on_host
from penstock.lab.instorage.query import Query, pir_query, ssc_query
from penstock.scheme.machines import load_machine
from penstock.scheme.machines.drives import load_drive
from penstock.scheme.params import catalogue

GIB = 2**30
PIR = pir_query(catalogue.get("fheins-pir"), database_bytes=32 * GIB, record_bytes=288, slot_bits=16)
SSC = ssc_query(catalogue.get("fheins-ssc"), database_bytes=32 * 10**9, batch=512)


def fheins() -> UnitAccelerator:
    found = load_instorage("fheins")
    assert isinstance(found, UnitAccelerator)
    return found


@pytest.mark.parametrize("name", ["ssd-s", "ssd-l"])
@pytest.mark.parametrize(
    ("query", "batch", "inside", "bound"),
    [
        (PIR, 1, Inside(), "channel"),
        (PIR, 64, Inside(), "compute"),
        (SSC, 1, Inside(), "compute"),
        (SSC, 1, Inside(contention=Contention.DRAM), "dram"),
        (SSC, 1, Inside(switches=BASE), "channel"),
    ],
)
def test_inside_the_drive(name: str, query: Query, batch: int, inside: Inside, bound: str) -> None:
    """T = the longest of the resources' times; what is left is the first page and the last chunk: under 0.1 %."""
    drive = load_drive(name)
    formula = in_storage(query, drive_rates(drive), fheins(), batch=batch, inside=inside)
    assert formula.bottleneck == bound
    played = played_in_storage(query, drive, fheins(), batch=batch, inside=inside)
    assert played.seconds == pytest.approx(formula.seconds, rel=1e-3)
    assert played.seconds >= formula.seconds * (1 - 1e-6)


@pytest.mark.parametrize("name", ["ssd-s", "ssd-l"])
@pytest.mark.parametrize(("size", "stages", "bound"), [(32 * GIB, 1, "pcie"), (20 * 10**6, 2, "drive")])
def test_the_way_in_and_the_drives_accelerator_bind_beside_the_scan(
    name: str, size: int, stages: int, bound: str
) -> None:
    query = pir_query(catalogue.get("fheins-pir"), database_bytes=size, record_bytes=288, slot_bits=16, stages=stages)
    drive = load_drive(name)
    formula = in_storage(query, drive_rates(drive), fheins(), batch=64)
    assert formula.bottleneck == bound
    played = played_in_storage(query, drive, fheins(), batch=64)
    assert played.seconds == formula.seconds
    assert played.seconds >= max(played.busy.values())


def test_two_resources_that_are_nearly_as_busy_hinder_each_other() -> None:
    """Channels at 97 % of computing, with metadata over the DRAM: the engine is a little slower than the formula."""
    drive = load_drive("ssd-s")
    held = Inside(contention=Contention.DRAM)
    formula = in_storage(PIR, drive_rates(drive), fheins(), batch=4, inside=held)
    assert 0.95 < formula.busy["channel"] / formula.busy["compute"] < 1
    played = played_in_storage(PIR, drive, fheins(), batch=4, inside=held)
    assert 1 <= played.seconds / formula.seconds < 1.03


@pytest.mark.parametrize("policy", HOST_POLICIES.values(), ids=lambda policy: policy.name)
def test_on_a_host(policy: HostPolicy) -> None:
    """Overlapped: the longer of reading and computing; serial: their sum. A first chunk cannot overlap: 0.3 %."""
    drive, host = load_drive("ssd-s"), load_machine("sharp")
    formula = on_host(PIR, drive_rates(drive), host, policy, batch=3)
    played = played_on_host(PIR, drive, host, policy, batch=3)
    assert played.seconds == pytest.approx(formula.seconds, rel=3e-3)
    assert played.engine == "jump"


@pytest.mark.parametrize("policy", HOST_POLICIES.values(), ids=lambda policy: policy.name)
@pytest.mark.parametrize("batch", [1, 64])
@pytest.mark.parametrize(("size", "most"), [(20 * 10**6, 0.03), (300 * 10**6, 0.006), (10**9, 0.006)])
def test_a_host_computes_no_longer_on_a_small_database_than_it_has(
    policy: HostPolicy, batch: int, size: int, most: float
) -> None:
    """Sizes that no whole number of chunks of 268 MB fills."""
    query = pir_query(catalogue.get("fheins-pir"), database_bytes=size, record_bytes=288, slot_bits=16)
    drive, host = load_drive("ssd-s"), load_machine("sharp")
    formula = on_host(query, drive_rates(drive), host, policy, batch=batch)
    played = played_on_host(query, drive, host, policy, batch=batch)
    assert 0 <= played.seconds / formula.seconds - 1 < most


def test_jumping_changes_nothing() -> None:
    small = pir_query(catalogue.get("fheins-pir"), database_bytes=GIB, record_bytes=288, slot_bits=16)
    drive = load_drive("ssd-s")
    jumped, every = (
        played_in_storage(small, drive, fheins(), batch=8, engine=engine)
        for engine in (ScanEngine.JUMP, ScanEngine.EVENTS)
    )
    assert jumped.seconds == every.seconds


def test_what_the_engine_does_not_have_is_refused() -> None:
    drive = load_drive("ssd-s")
    with pytest.raises(UsageError, match="closed form"):
        played_on_host(
            PIR, drive, load_machine("sharp"), HostPolicy(passes=Passes.BATCH, overlapped=True, cached_bytes=10**9)
        )
    wide = load_drive("ssd-s", {"page": "256 KiB"})
    with pytest.raises(UsageError, match="no two pages"):
        played_in_storage(PIR, wide, fheins())
