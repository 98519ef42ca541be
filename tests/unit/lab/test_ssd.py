"""Drives and scans: what is refused and how, what options change, and what the command prints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import MachineError, SimulationInputError, UnknownName, UsageError
from penstock.front.cli.main import main
from penstock.lab.instorage.flash.scan import scan_drive
from penstock.lab.instorage.flash.spec import (
    Arbitration,
    CachedMapping,
    Consumer,
    HostConsumer,
    HostTraffic,
    NandMapping,
    Scan,
    ScanPattern,
    ScanTarget,
)
from penstock.scheme.machines.drives import drive_names, load_drive

JSON_NAMES = ["bytes_per_s", "mean_latency_s", "p50_latency_s", "p99_latency_s", "pages", "events", "simulated_s",
              "cpu_s"]  # fmt: skip
SMALL = Scan(size_bytes=10**7)


def test_the_drives_of_the_issue_are_there() -> None:
    assert drive_names() == ["micron-9550", "samsung-990-pro", "sata", "ssd-l", "ssd-s"]


def test_table_one_holds_twice_what_it_states_and_a_note_says_so() -> None:
    small, large = load_drive("ssd-s"), load_drive("ssd-l")
    assert (small.raw_bytes, large.raw_bytes) == (8 * 2**40, 32 * 2**40)
    assert (small.stated_bytes, large.stated_bytes) == (4 * 2**40, 16 * 2**40)
    assert "8 TiB" in small.notes()[0]
    assert "4 TiB" in small.notes()[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"channels": "0 channels"}, "channels '0 channels' is zero"),
        ({"channels": "-1 channels"}, "negative"),
        ({"channels": "1.5 channels"}, "not a whole number"),
        ({"planes_per_die": "3 planes/die", "blocks": "2048 blocks/die"}, "3 is not a divisor of 2048 blocks/die"),
        ({"spare_blocks": "1024 blocks/plane"}, "leave none for data"),
        ({"sense": "30"}, "no unit"),
        ({"sense": "30 GB/s"}, "unknown unit"),
        ({"transfers": "1600"}, "no unit"),
        ({"page": "32"}, "no unit"),
        ({"stripe": "cwd"}, "not an order"),
        ({"retry": "120 %"}, "over 100 %"),
        ({"multi_plane": "maybe"}, "write yes or no"),
    ],
)
def test_an_impossible_drive_is_refused_with_the_reason(changes: dict[str, str], words: str) -> None:
    with pytest.raises(MachineError, match=words.replace("(", r"\(")):
        load_drive("ssd-s", changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"channels": "99999999999 channels"}, "channels: 99999999999; at most 4294967295"),
        ({"page": "1 TB"}, "entries of the page table in a page: 250000000000; at most"),
        ({"sense": "1e30 s"}, r"sense of a page takes 1e\+30 s; at most 75 minutes"),
        ({"transfers": "1e-9 MT/s"}, "data_out of a page takes 3.28e\\+07 s; at most 75 minutes"),
    ],
)
def test_values_beyond_the_engine_are_refused_by_name(changes: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        scan_drive(load_drive("ssd-s", changes), SMALL)


def test_a_seed_and_a_rate_beyond_the_engine_are_refused() -> None:
    drive = load_drive("ssd-s")
    with pytest.raises(UsageError, match="seed 18446744073709551616 is out of range"):
        scan_drive(drive, Scan(size_bytes=10**7, seed=2**64))
    with pytest.raises(UsageError, match=r"a request every .* give a higher rate"):
        scan_drive(drive, SMALL, reads=HostTraffic(bytes_per_s=1e-9))


def test_planes_that_divide_the_blocks_of_a_die_share_them() -> None:
    assert load_drive("ssd-s", {"blocks": "2048 blocks/die"}).blocks_per_plane == 1024


def test_unknown_drives_and_values_get_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match="did you mean 'ssd-s'"):
        load_drive("ssd_s")
    with pytest.raises(UnknownName, match="did you mean 'sense'"):
        load_drive("ssd-s", {"sens": "3 us"})


def test_a_drive_file_with_an_unknown_key_or_without_a_source_is_refused(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "src/penstock/scheme/machines/data/drives/ssd-s.toml").read_text()
    path = tmp_path / "mine.toml"
    path.write_text(text + 'sence = { value = "30 us", source = "x", kind = "assumed" }\n')
    with pytest.raises(MachineError, match="did you mean 'sense'"):
        load_drive(path)
    path.write_text(text.replace('source = "the source states no rate: 256 bytes a cycle at 1 GHz"', 'source = " "'))
    with pytest.raises(MachineError, match="edram has no source"):
        load_drive(path)
    path.write_text(text.replace("[", "{"))
    assert load_drive(path).name == "ssd-s"
    path.write_text("name = ")
    with pytest.raises(MachineError, match="TOML"):
        load_drive(path)


def test_an_engine_limit_is_an_error_of_input() -> None:
    with pytest.raises(SimulationInputError, match="channels is 65: at most 64"):
        scan_drive(load_drive("ssd-s", {"channels": "65 channels", "dram_capacity": "8 GB"}), SMALL)


@pytest.mark.parametrize(
    ("scan", "words"),
    [
        (Scan(size_bytes=9 * 2**40), "choose a larger drive"),
        (Scan(size_bytes=10**6, first_byte=8 * 2**40), "choose a larger drive"),
        (Scan(size_bytes=-1), "neither may be negative"),
        (Scan(size_bytes=0), "nothing to do"),
        (Scan(size_bytes=1, queue_depth=0), "queue depth 0"),
        (Scan(size_bytes=1, request_bytes=2**16), "not a part of a page"),
        (Scan(size_bytes=1, span_bytes=10), "sequential scan has no span"),
        (Scan(size_bytes=1, span_bytes=9 * 2**40, pattern=ScanPattern.RANDOM), "falls on a page to"),
    ],
)
def test_a_scan_that_cannot_be_is_refused_with_the_reason(scan: Scan, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        scan_drive(load_drive("ssd-s"), scan)


def test_the_last_page_of_a_drive_can_be_read_and_the_one_behind_not() -> None:
    drive = load_drive("ssd-s")
    last = drive.capacity_bytes - drive.page_bytes
    assert scan_drive(drive, Scan(size_bytes=drive.page_bytes, first_byte=last)).pages == 1
    with pytest.raises(UsageError, match="choose a larger drive"):
        scan_drive(drive, Scan(size_bytes=drive.page_bytes + 1, first_byte=last))


def consumer(**changes: Any) -> Consumer:
    given = {
        "channels": tuple(range(16)),
        "service_ps_per_chunk": 10,
        "chunk_pages": 4,
        "buffer_bytes": 10**6,
    } | changes
    return Consumer(**given)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"consumers": [consumer(buffer_bytes=4 * 32768 - 1)]}, "no room for one chunk"),
        ({"consumers": [consumer(chunk_pages=0)]}, "at least one"),
        ({"consumers": [consumer(service_ps_per_chunk=-1)]}, "not negative"),
        ({"consumers": [consumer(channels=(0, 1))]}, "every channel feeds a consumer"),
        ({"consumers": [consumer(), consumer(channels=(3,))]}, "feeds no other consumer"),
        ({"consumers": [consumer()], "host": ScanTarget.PCIE}, "not by both"),
        ({"host_consumer": HostConsumer(service_ps_per_chunk=1, chunk_pages=1, buffer_bytes=10**6)}, "over PCIe"),
        ({"mapping": CachedMapping(cache_bytes=1000)}, "holds no page"),
        ({"mapping": NandMapping(open_pages=0)}, "at least 1"),
        ({"reads": HostTraffic(bytes_per_s=0)}, "more than zero"),
        ({"writes": HostTraffic(bytes_per_s=1e6, span_bytes=10)}, "falls on a page"),
        ({"writes": HostTraffic(bytes_per_s=1e6, requests=0)}, "at least 1"),
    ],
)
def test_what_reads_and_shares_a_drive_is_checked(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        scan_drive(load_drive("ssd-s"), SMALL, **options)


def test_writes_need_spare_blocks() -> None:
    drive = load_drive("ssd-s", {"spare_blocks": "5 blocks/plane"})
    with pytest.raises(SimulationInputError, match="spare_blocks is 5"):
        scan_drive(drive, SMALL, writes=HostTraffic(bytes_per_s=1e6))


def test_full_buffers_stop_channels_and_nothing_is_lost() -> None:
    drive = load_drive("ssd-s")
    tight = consumer(service_ps_per_chunk=50_000_000, buffer_bytes=4 * 32768)
    roomy = consumer(service_ps_per_chunk=50_000_000, buffer_bytes=64 * 32768)
    slow, fast = (scan_drive(drive, SMALL, consumers=[each]) for each in (tight, roomy))
    assert slow.pages == fast.pages == 306
    assert slow.run.chunks == fast.run.chunks == [77]
    assert slow.simulated_s > 1.2 * fast.simulated_s, "with one buffer, filling and serving take turns"


def test_other_traffic_slows_a_scan_and_is_slowed_by_it() -> None:
    drive = load_drive("ssd-s")
    scan = Scan(size_bytes=2 * 10**9)
    alone = scan_drive(drive, scan)
    both = scan_drive(
        drive, scan, reads=HostTraffic(bytes_per_s=2e9), writes=HostTraffic(bytes_per_s=1e9, span_bytes=10**9)
    )
    assert both.bytes_per_s < 0.95 * alone.bytes_per_s
    quiet = scan_drive(drive, Scan(size_bytes=0), reads=HostTraffic(bytes_per_s=1e9, requests=2000)).read_latency
    assert quiet.mean_s is not None
    assert both.read_latency.mean_s is not None
    assert both.read_latency.mean_s > 3 * quiet.mean_s
    assert both.wear.write_amplification == 1.0, "there was room for all of it"


@pytest.mark.parametrize("rate", [1e6, 1e3])
@pytest.mark.parametrize("kind", ["reads", "writes"])
def test_a_request_that_comes_behind_the_scan_changes_no_share_of_its_time(kind: str, rate: float) -> None:
    drive, scan = load_drive("ssd-s"), Scan(size_bytes=10**7)
    alone = scan_drive(drive, scan, host=ScanTarget.PCIE)
    other: dict[str, Any] = {kind: HostTraffic(bytes_per_s=rate)}
    late = scan_drive(drive, scan, host=ScanTarget.PCIE, **other)
    assert late.pcie_up_busy > 0.9
    assert replace(late, cpu_s=0, events=0, played_events=0) == replace(alone, cpu_s=0, events=0, played_events=0)


def test_erases_and_moves_of_a_scan_fit_in_its_time() -> None:
    drive = load_drive(
        "ssd-s",
        {
            "channels": "2 channels",
            "chips_per_channel": "1 chips/channel",
            "dies_per_chip": "1 dies/chip",
            "planes_per_die": "2 planes/die",
            "blocks": "32 blocks/plane",
            "pages_per_block": "16 pages/block",
            "spare_blocks": "6 blocks/plane",
        },
    )
    scan = Scan(size_bytes=10**8, pattern=ScanPattern.RANDOM, queue_depth=8)
    got = scan_drive(drive, scan, writes=HostTraffic(bytes_per_s=3e8))
    assert got.wear.erases > 50
    programs = (got.wear.host_pages + got.wear.moved_pages) / drive.planes_per_die
    needed_s = got.wear.erases * drive.erase_s + programs * drive.program_s
    assert needed_s <= got.array_busy * drive.dies * got.simulated_s <= drive.dies * got.simulated_s
    assert got.wear.host_pages < got.write_latency.count, "writes that wait in the write buffer are done for the host"


def test_a_table_in_nand_costs_a_read_for_its_entries_and_a_small_cache_costs_random_reads_more() -> None:
    drive = load_drive("ssd-s")
    scan = Scan(size_bytes=4 * 10**9)
    plain, nand = scan_drive(drive, scan), scan_drive(drive, scan, mapping=NandMapping())
    assert nand.mapping_reads == -(-nand.pages // 8192)
    assert nand.bytes_per_s > 0.995 * plain.bytes_per_s
    random = Scan(size_bytes=10**8, pattern=ScanPattern.RANDOM, queue_depth=1)
    misses = scan_drive(drive, random, mapping=CachedMapping(cache_bytes=10**6))
    assert misses.mapping_reads > 0.98 * misses.pages
    hits = scan_drive(drive, random).latency.mean_s
    assert misses.latency.mean_s is not None
    assert hits is not None
    assert misses.latency.mean_s == pytest.approx(2 * hits, rel=0.05)


def test_retries_cost_what_their_probability_says() -> None:
    """Geometric, cut off at five: p + p^2 + … + p^5 more senses a page."""
    drive = load_drive("ssd-s", {"retry": "25 %"})
    got = scan_drive(drive, Scan(size_bytes=2 * 10**9))
    assert got.retries / got.pages == pytest.approx(sum(0.25**i for i in range(1, 6)), rel=0.02)
    assert got.retries == scan_drive(drive, Scan(size_bytes=2 * 10**9)).retries
    assert got.retries != scan_drive(drive, Scan(size_bytes=2 * 10**9, seed=1)).retries


def test_a_request_of_a_part_of_a_page_takes_less_of_the_bus() -> None:
    drive = load_drive("ssd-s")
    part = Scan(size_bytes=10**8, pattern=ScanPattern.RANDOM, queue_depth=1, request_bytes=4096)
    got = scan_drive(drive, part)
    assert got.latency.mean_s == pytest.approx(0.29e-6 + 30e-6 + 4096 / 1.6e9, rel=1e-6)
    assert got.bytes == got.pages * 4096


def test_both_policies_have_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    rates = {}
    for policy in Arbitration:
        assert main(["ssd", "scan", "--arbitration", policy.value, "--format", "json", "--size", "1 GB"]) == 0
        row = json.loads(capsys.readouterr().out)
        assert list(row) == JSON_NAMES
        rates[policy] = row["bytes_per_s"]
    assert rates[Arbitration.CONVOY] < 0.9 * rates[Arbitration.PIPELINED]


@pytest.mark.parametrize("engine", ["events", "jump"])
def test_both_engines_print_the_same(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["ssd", "scan", "--drive", "ssd-l", "--host", "pcie", "--engine", engine, "--format", "json", "--details"]
    assert main(args) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["pages"], row["played_events"] < row["events"]) == (122071, engine == "jump")
    assert row["bytes_per_s"] == pytest.approx(7.2013e9, rel=1e-4)


def test_the_largest_seed_serves_other_traffic_too(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["ssd", "scan", "--seed", str(2**64 - 1), "--background-reads", "1 GB/s", "--size", "1 MB"]
    assert main([*args, "--background-writes", "1 GB/s"]) == 0
    capsys.readouterr()


def test_a_table_in_nand_takes_no_dram() -> None:
    drive = load_drive("ssd-s", {"dram_capacity": "1 GB"})
    assert scan_drive(drive, SMALL).pages
    small = load_drive("ssd-s", {"dram_capacity": "998 MB"})
    assert scan_drive(small, SMALL, mapping=NandMapping()).pages
    with pytest.raises(UsageError, match="the page table takes"):
        scan_drive(small, SMALL)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--size", "4"], "has no unit"),
        (["--size", "0 B"], "is zero"),
        (["--size", "90 TB"], "choose a larger drive"),
        (["--drive", "ssd-x"], "unknown drive"),
        (["--set", "sense"], "VALUE=TEXT"),
        (["--set", "sense=45"], "no unit"),
        (["--mapping-cache", "1 GB"], "--page-mapping cached"),
        (["--page-mapping", "cached", "--mapping-cache", "1000 TB"], "the DRAM of drive 'ssd-s' holds 4 GB"),
        (["--set", "dram_capacity=1 B"], "the page table takes 998.2 MB"),
        (["--set", "sense=1 us", "--set", "sense=2 us"], "'sense' is set twice"),
        (["--pattern", "random", "--from", "9 TB"], "the scan begins at 9 TB"),
        (["--timeline-events", "20000"], "--timeline"),
        (["--force"], "--timeline"),
        (["--seed", str(2**64)], f"seed {2**64} is out of range"),
        (["--background-span", "1 GB"], "other traffic"),
        (["--background-writes", "5"], "no unit"),
        (["--queue-depth", "0"], "queue-depth"),
        (["--drive", "/nowhere.toml"], "nowhere"),
    ],
)
def test_a_wrong_command_line_exits_with_2_and_the_reason(
    args: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ssd", "scan", *args]) in (1, 2)
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error


def test_the_list_of_drives_and_the_sources_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ssd", "drives", "--format", "json"]) == 0
    assert [row["drive"] for row in json.loads(capsys.readouterr().out)] == drive_names()
    assert main(["ssd", "drives", "ssd-s", "--format", "json"]) == 0
    rows = {row["value"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["sense"] == {
        "drive": "ssd-s",
        "value": "sense",
        "is": "30 us",
        "kind": "datasheet",
        "source": "FHEIns, Table I",
    }
    assert rows["read_command"]["kind"] == "assumed"


@pytest.mark.parametrize("field", ["bus_width", "read_command", "table_entry", "stated_capacity"])
@pytest.mark.parametrize("number", ["1" + "0" * 60, "1e290", "1e-300"])
def test_a_number_beyond_all_drives_is_named(field: str, number: str) -> None:
    unit = load_drive("micron-9550").figures[field].text.split()[1]
    with pytest.raises(MachineError, match=rf"{field} '{number} .*' cannot be right: no value is below 1e-36"):
        load_drive("micron-9550", {field: f"{number} {unit}"})
