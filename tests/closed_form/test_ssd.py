"""Simulated drives against formulas: saturated reads, what binds, one read at a time, write amplification."""

from __future__ import annotations

import math

import pytest

from penstock.lab.instorage.flash import closed_form as law
from penstock.lab.instorage.flash.scan import scan_drive
from penstock.lab.instorage.flash.spec import (
    Aggregator,
    Arbitration,
    Consumer,
    HostConsumer,
    HostTraffic,
    Scan,
    ScanEngine,
    ScanPattern,
    ScanTarget,
)
from penstock.scheme.machines.drives import Drive, load_drive
from twins import laws

LONG = 32 * 2**30
"""Long enough that filling and emptying the pipeline is less than 0.1 %."""
BOUND = 1e-3
DRIVES = ("ssd-s", "ssd-l")


def scan(size: int = LONG, depth: int = 4096) -> Scan:
    return Scan(size_bytes=size, queue_depth=depth)


def convoy_rate(drive: Drive, planes: int) -> float:
    """Data before commands, one die of a chip at a time: a round is a command, a sense, and all chips' data.

    In a round each of w chips gives p pages. Its first data is ready one command and one sense after the bus became
    free for commands. The other chips' commands hide in that sense, and their senses in the first one's data: channels
    x w p pages / (command + tR + w p x). Holds where (w - 1) commands are no longer than a sense.
    """
    chips = drive.chips_per_channel
    round_s = law.command_s(drive, planes) + drive.sense_s + chips * planes * law.page_on_bus_s(drive)
    return drive.channels * chips * planes * drive.page_bytes / round_s


@pytest.mark.parametrize(("name", "stated"), [("ssd-s", 25.03e9), ("ssd-l", 74.24e9)])
def test_saturated_reads_are_bound_by_bus_and_commands(name: str, stated: float) -> None:
    """channels x 2 pages / (2 x + 0.94 us), x = page / channel rate."""
    drive = load_drive(name)
    expected = drive.channels * 2 * drive.page_bytes / (2 * drive.page_bytes / drive.channel_bytes_per_s + 0.94e-6)
    assert expected == pytest.approx(law.bus_rate_with_commands(drive, 2)) == pytest.approx(stated, rel=2e-4)
    got = scan_drive(drive, scan(), engine=ScanEngine.JUMP)
    assert got.bytes_per_s == pytest.approx(expected, rel=BOUND)
    assert got.bytes_per_s == pytest.approx(law.scan_rate(drive), rel=BOUND)
    assert got.bus_busy > 0.999
    assert len(got.channel_busy) == drive.channels
    assert min(got.channel_busy) > 0.999
    assert max(got.channel_busy) <= 1


@pytest.mark.parametrize("depth", [256, 1024, 8192])
@pytest.mark.parametrize("name", DRIVES)
def test_the_bound_holds_at_every_deep_queue(name: str, depth: int) -> None:
    drive = load_drive(name)
    got = scan_drive(drive, scan(depth=depth))
    assert got.bytes_per_s == pytest.approx(law.bus_rate_with_commands(drive, 2), rel=BOUND)


@pytest.mark.parametrize(("name", "stated"), [("ssd-s", 25.6e9), ("ssd-l", 76.8e9)])
def test_without_commands_the_bus_alone_binds(name: str, stated: float) -> None:
    """channels x transfers x width."""
    drive = load_drive(name, {"read_command": "0 ns", "further_plane": "0 ns"})
    assert law.bus_rate(drive) == pytest.approx(stated)
    assert scan_drive(drive, scan(), engine=ScanEngine.JUMP).bytes_per_s == pytest.approx(stated, rel=BOUND)


def without_buses(name: str) -> Drive:
    """Transfers so fast that a page takes 0.3 ps, which is no whole picosecond, and commands in no time."""
    return load_drive(name, {"read_command": "0 ns", "further_plane": "0 ns", "transfers": "100000000000 MT/s"})


@pytest.mark.parametrize(("name", "stated"), [("ssd-s", 279.6e9), ("ssd-l", 1118e9)])
def test_with_free_buses_the_sense_binds(name: str, stated: float) -> None:
    """dies x 2 pages / tR."""
    drive = without_buses(name)
    assert laws.sense_rate(drive, 2) == pytest.approx(stated, rel=5e-4)
    got = scan_drive(drive, scan(size=288 * 2**30), engine=ScanEngine.JUMP)
    assert got.bytes_per_s == pytest.approx(laws.sense_rate(drive, 2), rel=BOUND)
    assert got.array_busy > 0.999


@pytest.mark.parametrize("name", DRIVES)
def test_with_a_host_the_link_binds(name: str) -> None:
    """16 GT/s x 4 lanes x 128/130 x payload efficiency."""
    drive = load_drive(name)
    expected = 16e9 * 4 / 8 * 128 / 130 * 256 / 280
    assert drive.host_link_bytes_per_s == pytest.approx(expected, rel=1e-4)
    got = scan_drive(drive, scan(), host=ScanTarget.PCIE, engine=ScanEngine.JUMP)
    assert got.bytes_per_s == pytest.approx(expected, rel=BOUND)
    assert got.pcie_up_busy > 0.999


@pytest.mark.parametrize(("name", "stated_us"), [("ssd-s", 50.8), ("ssd-l", 43.9)])
@pytest.mark.parametrize("pattern", list(ScanPattern))
def test_one_read_at_a_time(name: str, stated_us: float, pattern: ScanPattern) -> None:
    """command + tR + x, and then DRAM in and out and the link."""
    drive = load_drive(name)
    expected = 0.29e-6 + 30e-6 + drive.page_bytes / drive.channel_bytes_per_s
    assert expected == pytest.approx(laws.single_read_s(drive)) == pytest.approx(stated_us * 1e-6, rel=2e-3)
    one = Scan(size_bytes=10**8, queue_depth=1, pattern=pattern, seed=5)
    got = scan_drive(drive, one).latency
    for value in (got.mean_s, got.p50_s, got.p99_s, got.max_s):
        assert value == pytest.approx(expected, rel=1e-6)
    to_host = scan_drive(drive, one, host=ScanTarget.PCIE).latency
    assert to_host.mean_s == pytest.approx(laws.single_read_to_host_s(drive), rel=1e-6)


@pytest.mark.parametrize("name", DRIVES)
def test_a_convoy_idles_a_sense_each_round(name: str) -> None:
    """channels x chips x 2 pages / (command + tR + chips x 2 x)."""
    drive = load_drive(name)
    expected = convoy_rate(drive, 2)
    assert expected < 0.95 * law.bus_rate_with_commands(drive, 2)
    got = scan_drive(drive, scan(), arbitration=Arbitration.CONVOY, engine=ScanEngine.JUMP)
    assert got.bytes_per_s == pytest.approx(expected, rel=BOUND)


def test_few_dies_cannot_hide_the_sense_unless_they_cache() -> None:
    """One die a channel: p pages / (command + tR + p x); with cache reads the larger of bus and sense."""
    one = {"chips_per_channel": "1 chip/channel", "dies_per_chip": "1 die/chip"}
    drive = load_drive("ssd-s", one)
    got = scan_drive(drive, scan(size=4 * 10**9), engine=ScanEngine.JUMP)
    assert got.bytes_per_s == pytest.approx(law.cycle_rate(drive, 2), rel=BOUND)
    cached = scan_drive(load_drive("ssd-s", one | {"cache_read": "yes"}), scan(size=4 * 10**9), engine=ScanEngine.JUMP)
    assert cached.bytes_per_s == pytest.approx(law.bus_rate_with_commands(drive, 2), rel=BOUND)


def test_single_plane_commands_take_less_of_the_bus() -> None:
    drive = load_drive("ssd-s", {"multi_plane": "no"})
    got = scan_drive(drive, scan(), engine=ScanEngine.JUMP)
    assert got.bytes_per_s == pytest.approx(law.bus_rate_with_commands(drive, 1), rel=BOUND)


def consumers(drive: Drive, **changes: int) -> list[Consumer]:
    """An accelerator for each four channels, with chunks of six pages and a buffer of 7 MB."""
    given = {"service_ps_per_chunk": 1000, "chunk_pages": 6, "buffer_bytes": 7 * 10**6} | changes
    return [Consumer(channels=tuple(range(first, first + 4)), **given) for first in range(0, drive.channels, 4)]


@pytest.mark.parametrize("name", DRIVES)
def test_accelerators_bind_where_they_are_slow(name: str) -> None:
    """consumers x chunk / service."""
    drive = load_drive(name)
    slow = consumers(drive, service_ps_per_chunk=100_000_000)
    got = scan_drive(drive, scan(size=4 * 2**30), consumers=slow)
    expected = laws.served_rate(len(slow), 6 * drive.page_bytes, 100e-6)
    assert got.bytes_per_s == pytest.approx(expected, rel=4e-3), "start and end are longer here"
    assert min(got.run.consumer_busy_ps) > 0.99 * got.run.scan_end_ps


@pytest.mark.parametrize("name", DRIVES)
def test_accelerators_that_are_fast_leave_the_bus_to_bind(name: str) -> None:
    drive = load_drive(name)
    got = scan_drive(drive, scan(), consumers=consumers(drive), engine=ScanEngine.JUMP)
    assert got.bytes_per_s == pytest.approx(law.bus_rate_with_commands(drive, 2), rel=BOUND)


@pytest.mark.parametrize("name", DRIVES)
def test_metadata_binds_where_it_is_large(name: str) -> None:
    """chunk x DRAM rate / metadata, with 2 MB of keys for each chunk."""
    drive = load_drive(name)
    keyed = consumers(drive, dram_bytes_per_chunk=2_000_000)
    got = scan_drive(drive, scan(size=4 * 2**30), consumers=keyed, engine=ScanEngine.JUMP)
    expected = laws.metadata_rate(6 * drive.page_bytes, 2_000_000, drive.dram_bytes_per_s)
    assert expected < 0.5 * law.scan_rate(drive)
    assert got.bytes_per_s == pytest.approx(expected, rel=2e-3)
    assert got.dram_busy > 0.998


def test_outputs_bind_where_they_are_large() -> None:
    """chunk x link rate / output, and chunk / aggregation."""
    drive = load_drive("ssd-s")
    large = consumers(drive, output_bytes_per_chunk=10**6)
    got = scan_drive(drive, scan(size=2**30), consumers=large, engine=ScanEngine.JUMP)
    assert got.bytes_per_s == pytest.approx(6 * drive.page_bytes * drive.host_link_bytes_per_s / 10**6, rel=2e-3)
    small = consumers(drive, output_bytes_per_chunk=1)
    got = scan_drive(drive, scan(size=2**30), consumers=small, aggregator=Aggregator(service_ps_per_output=50_000_000))
    assert got.bytes_per_s == pytest.approx(6 * drive.page_bytes / 50e-6, rel=2e-3)


def test_a_host_that_takes_turns_adds_its_times_and_one_that_overlaps_takes_the_larger() -> None:
    """Serial: chunk / (read + compute) with one buffer; overlapped: the larger with several.

    A serial read of a chunk of n pages is one page's whole way and n - 1 more on the link.
    """
    drive = load_drive("ssd-s")
    pages, compute_s = 64, 500e-6
    chunk = pages * drive.page_bytes
    link = drive.page_bytes / drive.host_link_bytes_per_s

    def rate(buffers: int) -> float:
        host = HostConsumer(
            service_ps_per_chunk=round(compute_s * 1e12), chunk_pages=pages, buffer_bytes=buffers * chunk
        )
        return scan_drive(drive, scan(size=10**9), host=ScanTarget.PCIE, host_consumer=host).bytes_per_s

    # Two planes of a die share a command here, and the first page waits for that command.
    read = laws.single_read_to_host_s(drive) + drive.further_plane_s + (pages - 1) * link
    assert rate(1) == pytest.approx(chunk / (read + compute_s), rel=2e-3)
    assert rate(8) == pytest.approx(chunk / compute_s, rel=5e-3)


def test_write_amplification_lies_between_none_and_collecting_in_order() -> None:
    """Uniform writes: choosing the block with the most invalid pages beats collecting in the order of writing."""
    drive = load_drive(
        "ssd-s",
        {
            "channels": "2 channels",
            "chips_per_channel": "1 chip/channel",
            "dies_per_chip": "1 die/chip",
            "blocks": "128 blocks/plane",
            "pages_per_block": "64 pages/block",
            "spare_blocks": "24 blocks/plane",
        },
    )
    writes = HostTraffic(bytes_per_s=1e9, requests=400_000)
    got = scan_drive(drive, Scan(size_bytes=0), writes=writes).wear
    # Two blocks of a plane are being filled, and up to three are free.
    in_order = laws.lru_write_amplification(104 / (128 - 4.5))
    greedy = got.write_amplification
    assert greedy is not None
    assert 1 + 0.6 * (in_order - 1) < greedy < in_order
    assert got.host_pages == 400_000
    assert got.moved_pages == round(got.host_pages * (greedy - 1))
    assert math.isclose(got.erases * 64, got.host_pages + got.moved_pages - 4 * 24 * 64, rel_tol=5e-3)
