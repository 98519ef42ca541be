"""Queries inside a drive against formulas written out here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import ParamsError, UsageError
from penstock.lab.instorage.drive import DriveRates
from penstock.lab.instorage.machine import UnitAccelerator, with_options
from penstock.lab.instorage.machine_spec import load_instorage
from penstock.lab.instorage.ordinary import (
    Modes,
    Ordinary,
    in_storage_under,
    left_by,
    most_reads,
    on_host_under,
)
from penstock.lab.instorage.policies import BASE, HOST_POLICIES, Contention, Encoding, Switches
from penstock.lab.instorage.queries import Inside, in_storage, on_host, speedup
from penstock.lab.instorage.query import Query, match_query, pir_query, ssc_query
from penstock.lab.instorage.traffic import queries_at_once, queries_resident, spilled_bytes
from penstock.scheme.machines import load_machine
from penstock.scheme.params import catalogue
from penstock.scheme.params.rlwe import KeyForm

GIB = 2**30
DRIVE = DriveRates(
    name="test",
    channels=16,
    capacity_bytes=4 * 2**40,
    geometry_bytes=8 * 2**40,
    page_bytes=32768,
    bus_bytes_per_s=25.6e9,
    flash_bytes_per_s=25e9,
    array_bytes_per_s=280e9,
    dram_bytes_per_s=51.2e9,
    dram_capacity_bytes=4 * 10**9,
    dram_passes=2,
    pcie_bytes_per_s=7.9e9,
)
PIR = catalogue.get("fheins-pir")
SSC = catalogue.get("fheins-ssc")


def fheins() -> UnitAccelerator:
    found = load_instorage("fheins")
    assert isinstance(found, UnitAccelerator)
    return found


def pir(**changes: int) -> Query:
    return pir_query(PIR, **{"database_bytes": 288 * GIB, "record_bytes": 288, "slot_bits": 32, **changes})


def test_a_plaintext_is_a_column_of_a_block() -> None:
    """2^30 records of 288 bytes, 4 bytes a slot and 2^11 slots: 2^19 blocks of 72 columns of 8 KiB."""
    query = pir()
    assert (query.num_objects, query.columns, query.object_bytes) == (2**19 * 72, 72, 8192)
    assert query.database_bytes == 288 * GIB
    assert query.work.query_ciphertexts == {3: 1024, 2: 512}


def test_one_query_is_bound_by_the_channels_and_a_large_batch_by_computing() -> None:
    """T(B) = max(D / flash, B D / (K r)): r = 8192 B / (144 + 24 ns), 4 accelerators."""
    query, database = pir(), 288 * GIB
    rate = 8192 / (3 * 2**11 * 12 / 512 * 1e-9 + 2 * 3 * 2**12 / 1024 * 1e-9)
    for batch in (1, 2, 4, 7, 8, 64):
        found = in_storage(query, DRIVE, fheins(), batch=batch)
        assert found.seconds == pytest.approx(max(database / 25e9, batch * database / (4 * rate)), rel=1e-9)
        assert found.bottleneck == ("channel" if batch <= 7 else "compute")
    assert speedup(
        in_storage(query, DRIVE, fheins()), on_host(query, DRIVE, load_machine("sharp"), HOST_POLICIES["batch-overlap"])
    ) == pytest.approx(25 / 7.9, rel=1e-9)


def test_hosts_re_stream_or_batch_overlap_or_take_turns() -> None:
    """I/O: B D / PCIe or D / PCIe; time: the longer of I/O and computing, or their sum."""
    query, host, batch = pir(), load_machine("sharp"), 8
    io = query.database_bytes / 7.9e9
    found = {name: on_host(query, DRIVE, host, policy, batch=batch) for name, policy in HOST_POLICIES.items()}
    compute = found["batch-overlap"].busy["compute"]
    assert found["restream-overlap"].seconds == pytest.approx(max(batch * io, compute))
    assert found["restream-serial"].seconds == pytest.approx(batch * io + compute)
    assert found["batch-overlap"].seconds == pytest.approx(max(io, compute))
    assert found["batch-serial"].seconds == pytest.approx(io + compute)
    cached = replace(HOST_POLICIES["restream-overlap"], cached_bytes=64 * 10**9)
    kept = on_host(query, DRIVE, host, cached, batch=batch).busy["pcie"]
    assert kept == pytest.approx(batch * io - (batch - 1) * 64e9 / 7.9e9)
    assert found["batch-overlap"].joules == pytest.approx(94.7 * found["batch-overlap"].seconds)


def test_selections_come_over_the_dram_once_for_a_block_of_columns() -> None:
    """One ciphertext of 2 x 3 x 2^12 x 4.5 bytes for 72 plaintexts, and 16 times that without a broadcast to 4."""
    query = pir()
    held = Inside(contention=Contention.DRAM)
    found = in_storage(query, DRIVE, fheins(), batch=2, inside=held)
    assert found.busy["dram"] == pytest.approx(2 * 2**19 * 2 * 3 * 2**12 * 4.5 / 51.2e9, rel=1e-12)
    alone = replace(held, switches=Switches(broadcast=False))
    assert in_storage(query, DRIVE, fheins(), batch=2, inside=alone).busy["dram"] == pytest.approx(
        4 * found.busy["dram"], rel=1e-12
    )
    half = in_storage(query, DRIVE, fheins(), batch=2, inside=replace(held, dram_efficiency=0.5))
    assert half.busy["dram"] == pytest.approx(2 * found.busy["dram"], rel=1e-12)


def test_sums_that_do_not_fit_take_further_passes() -> None:
    """18 columns an accelerator of 110,592 bytes each, beside a selection and a plaintext: 3 queries in 7 MB."""
    query = pir()
    assert queries_at_once(query, fheins(), 4) == int((7e6 - 110592 - 55296) // (18 * 110592)) == 3
    found = in_storage(query, DRIVE, fheins(), batch=8, inside=Inside(contention=Contention.SPILL))
    assert found.busy["channel"] == pytest.approx(3 * 288 * GIB / 25e9)


def test_a_batch_that_the_dram_does_not_hold_takes_further_passes() -> None:
    """A query is 1024 ciphertexts of three limbs and 512 of two: 151 MB, and 26 of them fit in 4 GB beside two keys."""
    query = pir()
    size = 1024 * 2 * 3 * 2**12 * 9 // 2 + 512 * 2 * 2 * 2**12 * 9 // 2
    assert query.work.query_bytes == size
    held = Inside(contention=Contention.DRAM)
    assert queries_resident(query, DRIVE, held.switches) == 4 * 10**9 // size == 26
    found = in_storage(query, DRIVE, fheins(), batch=64, inside=held)
    assert found.busy["channel"] == pytest.approx(3 * query.database_bytes / 25e9)
    with pytest.raises(UsageError, match="one query"):
        in_storage(query, replace(DRIVE, dram_capacity_bytes=10**8), fheins(), inside=held)


def test_encoding_once_leaves_multiplying_and_adding() -> None:
    """Transforms 144 ns once, then 24 + 24 ns a query; the pipeline takes the longer."""
    query = pir()
    once = Inside(switches=Switches(encoding=Encoding.BATCH))
    for batch, each in ((1, 144e-9), (3, 144e-9), (64, 64 * 48e-9)):
        found = in_storage(query, DRIVE, fheins(), batch=batch, inside=once)
        assert found.busy["compute"] == pytest.approx(query.num_objects * each / 4, rel=1e-9)


def test_scores_cost_a_product_a_fold_a_mask_and_a_turn() -> None:
    """At n = 39, then 38: (b+2)(n+k), 2n, 10 ((b+2)(n'+k) + 4n'), n' transforms of 2^15 x 16 / 512 cycles."""
    query = ssc_query(SSC, database_bytes=128 * 10**9, batch=64, summation="fold")
    n, k, b = 39, 10, 4
    transforms = (b + 2) * (n + k) + 2 * n + 10 * ((b + 2) * (n - 1 + k) + 4 * (n - 1)) + (n - 1)
    adds = 10 * 2 * (n - 1) * 2**16 / 1024
    per_object = (transforms * 2**15 * 16 / 512 + adds) * 1e-9
    found = in_storage(query, DRIVE, fheins())
    assert found.busy["compute"] == pytest.approx(query.num_objects * per_object / 4, rel=1e-9)
    assert query.num_objects == -(-128 * 10**9 // (2 * 39 * 2**16 * 36 // 8))


def test_no_resource_is_busy_for_less_than_nothing() -> None:
    """The first sums of all need no addition: less is left for the drive's end than was counted for each object."""
    found = in_storage(ssc_query(SSC, database_bytes=128 * 10**9, batch=512), DRIVE, fheins())
    assert found.busy["drive"] == 0
    assert min(found.busy.values()) >= 0


def test_the_base_reads_one_whole_key_and_the_twiddles_for_each_ciphertext() -> None:
    query = ssc_query(SSC, database_bytes=128 * 10**9, batch=64, summation="fold")
    key, twiddles = SSC.key_bytes(39, KeyForm.FULL), SSC.polynomial_bytes(39 + 10)
    assert key == 2 * 4 * 49 * 2**16 * 36 // 8
    base = in_storage(query, DRIVE, fheins(), inside=Inside(switches=BASE))
    assert base.busy["channel"] == pytest.approx(query.num_objects * (query.object_bytes + key + twiddles) / 25e9)
    seeded = in_storage(query, DRIVE, fheins(), inside=Inside(switches=replace(BASE, seeded_keys=True)))
    assert base.busy["channel"] - seeded.busy["channel"] == pytest.approx(query.num_objects * key / 2 / 25e9)
    every = in_storage(query, DRIVE, fheins(), inside=Inside(switches=replace(BASE, keys_read=None)))
    rest = 10 * SSC.key_bytes(38, KeyForm.FULL)
    assert every.busy["channel"] - base.busy["channel"] == pytest.approx(query.num_objects * rest / 25e9)


def test_key_stationary_order_trades_keys_for_ciphertexts() -> None:
    """Keys / G, shared by 4 accelerators; a ciphertext is of one, and leaves and comes back between keys."""
    query = ssc_query(SSC, database_bytes=128 * 10**9, batch=64, summation="fold")
    keys = SSC.key_bytes(39, KeyForm.SEEDED) + 10 * SSC.key_bytes(38, KeyForm.SEEDED)
    waits = 2 * (SSC.ciphertext_bytes(39) + 10 * SSC.ciphertext_bytes(38))
    for group in (1, 8):
        found = in_storage(
            query, DRIVE, fheins(), inside=Inside(contention=Contention.DRAM, switches=Switches(key_stationary=group))
        )
        moved = (keys / group + SSC.ciphertext_bytes(39)) / 4 + (waits if group > 1 else 0)
        assert found.busy["dram"] == pytest.approx(query.num_objects * moved / 51.2e9, rel=1e-12)
    flash = Switches(keys_in_dram=False, keys_read=None, key_stationary=8)
    held = in_storage(query, DRIVE, fheins(), inside=Inside(contention=Contention.DRAM, switches=flash))
    moved = SSC.ciphertext_bytes(39) / 4 + waits
    assert held.busy["dram"] == pytest.approx(query.num_objects * moved / 51.2e9, rel=1e-12), "keys from flash"
    assert held.busy["channel"] == pytest.approx(query.num_objects * (query.object_bytes + keys / 8) / 25e9)


def test_a_key_is_shared_by_no_more_ciphertexts_than_there_are() -> None:
    query = ssc_query(SSC, database_bytes=3 * SSC.ciphertext_bytes(39), batch=64, summation="fold")
    flash = Switches(keys_in_dram=False, keys_read=None)
    for contention in Contention:
        three, more = (
            in_storage(
                query,
                DRIVE,
                fheins(),
                inside=Inside(contention=contention, switches=replace(flash, key_stationary=group)),
            ).busy
            for group in (3, 1000)
        )
        assert three == more


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 6])
def test_each_block_has_its_own_selection_however_few_its_columns(columns: int) -> None:
    """A ciphertext for a block, read by one accelerator for each column that there is, or once for all."""
    query = pir(database_bytes=GIB, record_bytes=4 * columns)
    assert query.columns == columns
    blocks = query.num_objects / columns
    for broadcast, times in ((True, 1), (False, min(4, columns))):
        how = Inside(contention=Contention.DRAM, switches=Switches(broadcast=broadcast))
        found = in_storage(query, DRIVE, fheins(), inside=how)
        assert found.busy["dram"] == pytest.approx(times * blocks * PIR.ciphertext_bytes(3) / 51.2e9, rel=1e-12)
    one_sum = with_options(fheins(), scratchpad_bytes=4 * PIR.ciphertext_bytes(3))
    held = 3 - 1 if columns <= 4 else 1  # beside a selection and a plaintext
    assert queries_at_once(query, one_sum, 4) == held


def test_a_key_switch_that_fits_spills_nothing() -> None:
    big = with_options(fheins(), scratchpad_bytes=(39 + 2 * 49 + 3) * SSC.polynomial_bytes(1))
    assert spilled_bytes(SSC, 39, big) == 0
    small = with_options(fheins(), scratchpad_bytes=int(big.scratchpad.value) - 1)
    assert spilled_bytes(SSC, 39, small) > 0
    # 7 MB: 23 limbs, blocks of (23 - 10 - 3) / 2 = 5 limbs: 39 (1 + 10) + 4 x 49 + 4 x 39 limbs.
    assert spilled_bytes(SSC, 39, fheins()) == (39 * 11 + 4 * 49 + 4 * 39) * SSC.polynomial_bytes(1)


def test_inspire_takes_its_published_time_on_sixteen_channels() -> None:
    query, inspire = pir(), load_instorage("inspire")
    assert in_storage(query, DRIVE, inspire).seconds == pytest.approx(36, rel=1e-5)
    wide = replace(DRIVE, channels=32)
    assert in_storage(query, wide, inspire, batch=2).seconds == pytest.approx(36, rel=1e-5)
    with pytest.raises(UsageError, match="'ssc'"):
        in_storage(ssc_query(SSC, database_bytes=10**9, batch=64), DRIVE, inspire)


def test_ciphermatch_adds_at_the_rate_of_the_array_and_refuses_products() -> None:
    query, adders = match_query(PIR, database_bytes=128 * 10**9), load_instorage("ciphermatch")
    found = in_storage(query, DRIVE, adders)
    assert found.busy["compute"] == pytest.approx(query.database_bytes / 280e9)
    assert found.bottleneck == "pcie"
    often = in_storage(match_query(PIR, database_bytes=128 * 10**9, starts=10), DRIVE, adders)
    assert often.busy["compute"] == pytest.approx(10 * found.busy["compute"]), "an addition for each start"
    with pytest.raises(UsageError, match="only adds"):
        in_storage(pir(), DRIVE, adders)


def test_a_pattern_meets_each_ciphertext_once_for_each_start() -> None:
    """Over the DRAM a ciphertext of one limb for each start, broadcast to 4 accelerators."""
    held = Inside(contention=Contention.DRAM)
    for starts in (1, 64):
        query = match_query(PIR, database_bytes=10**9, starts=starts)
        found = in_storage(query, DRIVE, fheins(), inside=held)
        assert found.busy["dram"] == pytest.approx(query.num_objects * starts * PIR.ciphertext_bytes(1) / 4 / 51.2e9)


def test_bad_queries_are_refused() -> None:
    with pytest.raises(UsageError, match="larger than drive"):
        in_storage(pir(database_bytes=8 * 2**40), DRIVE, fheins())
    with pytest.raises(ParamsError, match="carries 2"):
        pir(stages=3)
    with pytest.raises(UsageError, match="power of two"):
        ssc_query(SSC, database_bytes=10**9, batch=48)
    with pytest.raises(UsageError, match="no record"):
        pir(database_bytes=100)
    with pytest.raises(UsageError, match="at least 1"):
        in_storage(pir(), DRIVE, fheins(), batch=0)
    with pytest.raises(UsageError, match="no room for one polynomial"):
        in_storage(pir(), DRIVE, with_options(fheins(), scratchpad_bytes=1000))


def test_ordinary_reads_take_their_part_of_every_path() -> None:
    """At once: channels less r, DRAM less 2r, the link less r. In turns: all times over 1 - r / the host's rate."""
    query, reads = pir(), 3e9
    held = Inside(contention=Contention.DRAM)
    alone = in_storage(query, DRIVE, fheins(), inside=held).busy
    shared = in_storage_under(query, DRIVE, fheins(), Ordinary(bytes_per_s=reads), inside=held).busy
    assert shared["channel"] == pytest.approx(alone["channel"] * 25e9 / (25e9 - reads))
    assert shared["dram"] == pytest.approx(alone["dram"] * 51.2e9 / (51.2e9 - 2 * reads))
    assert shared["pcie"] == pytest.approx(alone["pcie"] * 7.9e9 / (7.9e9 - reads))
    assert shared["compute"] == alone["compute"]
    turns = Ordinary(bytes_per_s=reads, modes=Modes.ALTERNATE)
    for name, seconds in in_storage_under(query, DRIVE, fheins(), turns, inside=held).busy.items():
        assert seconds == pytest.approx(alone[name] / (1 - reads / 7.9e9))
    host = on_host_under(query, DRIVE, load_machine("sharp"), HOST_POLICIES["batch-overlap"], turns)
    assert host.busy["pcie"] == pytest.approx(query.database_bytes / (7.9e9 - reads))
    none = Ordinary(bytes_per_s=0.0, modes=Modes.ALTERNATE)
    assert (
        in_storage_under(query, DRIVE, fheins(), none, inside=held).row()
        == in_storage(query, DRIVE, fheins(), inside=held).row()
    )


def test_reads_that_leave_no_room_are_refused_with_the_most_that_works() -> None:
    assert most_reads(DRIVE) == pytest.approx(0.99 * 7.9e9)
    assert most_reads(replace(DRIVE, dram_bytes_per_s=10e9)) == pytest.approx(0.99 * 5e9), "each page crosses it twice"
    left_by(DRIVE, Ordinary(bytes_per_s=most_reads(DRIVE)))
    with pytest.raises(UsageError, match=r"ask for at most 7.821 GB/s"):
        left_by(DRIVE, Ordinary(bytes_per_s=7.9e9))
    with pytest.raises(UsageError, match="not negative"):
        left_by(DRIVE, Ordinary(bytes_per_s=-1.0))
