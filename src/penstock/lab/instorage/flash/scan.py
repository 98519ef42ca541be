"""A solid-state drive at page granularity: the cost of a database scan, on the host or inside the drive.

    drive = load_drive("ssd-s")
    scan_drive(drive, Scan(size_bytes=4 * 10**9, queue_depth=1024), host=ScanTarget.PCIE).bytes_per_s

The reader of the pages is
- nobody (`ScanTarget.NONE`: a page is done when it has left error correction), or the host (`ScanTarget.PCIE`: through
  the controller's DRAM and PCIe), which may compute on them (`HostConsumer`), or
- accelerators inside the drive (`Consumer`), each fed by its channels through an input buffer in which a channel must
  have room before it sends a page, so that a full buffer stops the channel.

The engine is in Rust (crates/penstock-sim/src/ssd; docs/guides/ssd.md has its rules); `closed_form` has
the formulas that it meets, and `tests/twins` its slow twin. All times inside are whole picoseconds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.base.types import Row
from penstock.base.units import PICOSECONDS_PER_SECOND
from penstock.lab.instorage.flash import spec
from penstock.lab.instorage.flash.input import EngineInput, engine_input
from penstock.scheme.machines.drives import Drive
from penstock.scheme.play.engine import _engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """From the moment a request is made until it is done; `None` where there was none.

    Percentiles come from a histogram whose buckets are 0.05 % wide, and lie within the smallest and the largest.
    """

    count: int
    mean_s: float | None
    p50_s: float | None
    p99_s: float | None
    max_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WearResult:
    """What writes did to the flash."""

    host_pages: int
    """Programmed for the host; `write_latency` also counts pages that are still in the write buffer."""
    moved_pages: int
    """Programmed again by garbage collection and wear-levelling."""
    erases: int
    write_amplification: float | None
    """Pages programmed per page that the host wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanResult:
    """What a simulated scan took.

    Every count and every share of the time covers `simulated_s`: what has ended by then, and the part by then of what
    goes on. Other traffic that is under way when the scan ends is played to its end, and the rest of it not counted.
    """

    pages: int
    bytes: int
    """That the scan asked for and got: pages times the bytes of a request."""
    simulated_s: float
    """Until the last page was read, computed on, and its output sent; without a scan, until the last request's end."""
    bytes_per_s: float
    latency: Latency
    """Of the scan's pages: until in the host's memory, in a consumer's buffer, or out of error correction."""
    read_latency: Latency
    """Of the other reads."""
    write_latency: Latency
    events: int
    """Of the whole run, other traffic's rest included; the same whether played or jumped."""
    played_events: int
    """Those that were played one by one."""
    period_pages: int | None
    """Pages of the steady state's period that was jumped."""
    cpu_s: float
    channel_busy: tuple[float, ...]
    """Share of the time that the bus of each channel was taken: by commands, or by data."""
    bus_busy: float
    """The same, mean over channels; likewise all below."""
    array_busy: float
    """Of dies: sensing, programming or erasing."""
    dram_busy: float
    pcie_up_busy: float
    pcie_down_busy: float
    retries: int
    """Senses that failed error correction, so that the page is sensed again."""
    mapping_reads: int
    """Pages of the logical-to-physical table read from NAND."""
    wear: WearResult
    run: _engine.DriveRun = field(repr=False, compare=False)
    """What the engine counted, consumers, eDRAM and aggregator too."""

    def row(self) -> Row:
        """Rate, latencies and size of the scan, in SI units."""
        late = self.latency
        latencies = {"mean_latency_s": late.mean_s, "p50_latency_s": late.p50_s, "p99_latency_s": late.p99_s}
        own = {name: getattr(self, name) for name in ("pages", "events", "simulated_s", "cpu_s")}
        return {"bytes_per_s": self.bytes_per_s, **latencies, **own}

    def details(self) -> Row:
        """Busy units, other traffic, retries and wear."""
        wear, reads, writes = self.wear, self.read_latency, self.write_latency
        busy = ("bus_busy", "channel_busy", "array_busy", "dram_busy", "pcie_up_busy", "pcie_down_busy")
        counts = ("retries", "mapping_reads", "played_events", "period_pages")
        return {
            **{name: getattr(self, name) for name in busy},
            "channel_busy": list(self.channel_busy),
            "max_latency_s": self.latency.max_s,
            **{name: getattr(self, name) for name in counts},
            "background_reads": reads.count,
            "background_read_mean_latency_s": reads.mean_s,
            "background_read_p99_latency_s": reads.p99_s,
            "background_writes": wear.host_pages,
            "buffered_writes": writes.count - wear.host_pages,
            "background_write_mean_latency_s": writes.mean_s,
            "background_write_p99_latency_s": writes.p99_s,
            **{name: getattr(wear, name) for name in ("moved_pages", "erases", "write_amplification")},
        }


def scan_drive(
    drive: Drive,
    scan: spec.Scan,
    *,
    host: spec.ScanTarget = spec.ScanTarget.NONE,
    arbitration: spec.Arbitration = spec.Arbitration.PIPELINED,
    engine: spec.ScanEngine = spec.ScanEngine.EVENTS,
    consumers: Sequence[spec.Consumer] = (),
    host_consumer: spec.HostConsumer | None = None,
    aggregator: spec.Aggregator | None = None,
    mapping: spec.PageMapping | None = None,
    reads: spec.HostTraffic | None = None,
    writes: spec.HostTraffic | None = None,
) -> ScanResult:
    """Plays the scan to its end.

    Raises: UsageError: a scan larger than the drive, a buffer smaller than a chunk, channels without a consumer or with
            two, …: every rule is in `engine_input`; ClockOverflow: more than 106 days; ConservationError: a defect.
    """
    given = engine_input(
        drive,
        scan,
        host=host,
        arbitration=arbitration,
        engine=engine,
        consumers=consumers,
        host_consumer=host_consumer,
        aggregator=aggregator,
        mapping=mapping,
        reads=reads,
        writes=writes,
    )
    start = time.process_time()
    played = _engine.play_drive(given)
    scanned = given.pages * (scan.request_bytes or drive.page_bytes)
    return _scanned(drive, given, played, scanned, time.process_time() - start)


def _scanned(drive: Drive, given: EngineInput, played: _engine.DriveRun, scanned: int, cpu_s: float) -> ScanResult:
    end = played.scan_end_ps if given.pages else played.end_ps
    scan_s = end / PICOSECONDS_PER_SECOND

    def share(busy: int, units: int = 1) -> float:
        return busy / (end * units) if end else 0.0

    written = played.written_pages
    return ScanResult(
        pages=played.pages,
        bytes=scanned,
        simulated_s=scan_s,
        bytes_per_s=scanned / scan_s if scan_s else 0.0,
        latency=_latency(played.latency),
        read_latency=_latency(played.read_latency),
        write_latency=_latency(played.write_latency),
        events=played.events,
        played_events=played.events - played.jumped_events,
        period_pages=played.period_pages,
        cpu_s=cpu_s,
        channel_busy=tuple(share(busy) for busy in played.bus_busy_ps),
        bus_busy=share(sum(played.bus_busy_ps), drive.channels),
        array_busy=share(played.array_busy_ps, drive.dies),
        dram_busy=share(played.dram_busy_ps),
        pcie_up_busy=share(played.upload_busy_ps),
        pcie_down_busy=share(played.download_busy_ps),
        retries=played.retries,
        mapping_reads=played.table_reads,
        wear=WearResult(
            host_pages=written,
            moved_pages=played.moved_pages,
            erases=played.erases,
            write_amplification=(written + played.moved_pages) / written if written else None,
        ),
        run=played,
    )


def _latency(played: _engine.DriveLatency) -> Latency:
    def seconds(value: float | None) -> float | None:
        return None if value is None else value / PICOSECONDS_PER_SECOND

    return Latency(
        count=played.count,
        mean_s=seconds(played.mean_ps),
        p50_s=seconds(played.p50_ps),
        p99_s=seconds(played.p99_ps),
        max_s=seconds(played.max_ps),
    )
