"""The engine's input: whole picoseconds, pages and blocks, from a drive and a scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

from penstock.base.types import Row
from penstock.base.units import PICOSECONDS_PER_SECOND, format_bytes
from penstock.errors import UsageError
from penstock.lab.instorage.flash import spec
from penstock.scheme.machines.drives import Drive, picoseconds

MOST_QUEUED = 2**24
MOST_COUNT = 2**32 - 1
MOST_PICOSECONDS = 2**52
"""Of one step of a drive, or between two requests: 75 minutes."""
_COUNTS = ("channels", "chips_per_channel", "dies_per_chip", "planes_per_die", "blocks_per_plane", "pages_per_block",
           "spare_blocks", "max_retries", "host_buffer_pages", "entries", "collect_below", "wear_gap")  # fmt: skip
_DURATIONS = ("read_command", "further_plane", "sense", "data_out", "program_command", "data_in", "program",
              "erase_command", "erase", "correction", "dram", "upload", "download")  # fmt: skip
_SWITCHES = ("multi_plane", "cache_read")


class EngineConsumer(SimpleNamespace):
    """One consumer as the engine has it: `Consumer` of crates/penstock-py/src/ssd.rs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTraffic:
    """Other traffic as the engine has it: no requests where the interval is 0."""

    interval: int = 0
    span_pages: int = 0
    requests: int = 0
    seed: int = 0


class EngineInput(SimpleNamespace):
    """One run as the engine has it: `DriveInput` of crates/penstock-py/src/ssd.rs, which refuses one that lacks a name.

    Its rules are in crates/penstock-sim/src/ssd/spec.rs.
    """

    pages: int
    seed: int
    reads: EngineTraffic
    writes: EngineTraffic


def engine_input(
    drive: Drive,
    scan: spec.Scan,
    *,
    host: spec.ScanTarget,
    arbitration: spec.Arbitration,
    engine: spec.ScanEngine,
    consumers: Sequence[spec.Consumer],
    host_consumer: spec.HostConsumer | None,
    aggregator: spec.Aggregator | None,
    mapping: spec.PageMapping | None,
    reads: spec.HostTraffic | None,
    writes: spec.HostTraffic | None,
) -> EngineInput:
    """The engine's input. The engine checks each rule of its spec, so these are not checked twice.

    Raises: UsageError: a scan that is negative, empty of traffic, beyond the drive, or of requests that are not a part
            of a page. A queue depth out of range. A buffer smaller than one chunk. Consumers and a host at once. A page
            table, or a cache of it, that the drive's DRAM does not hold. A count or a duration larger than the engine
            has.
    """
    page, request = drive.page_bytes, _request(drive, scan)
    first, pages = _range(drive, scan)
    _check(scan, pages, host, consumers, host_consumer, reads, writes)
    link, dram = drive.host_link_bytes_per_s, drive.dram_bytes_per_s
    held = mapping if mapping is not None else spec.IdentityMapping()
    given = EngineInput(
        **_own(drive),
        order=drive.stripe,
        data_out=transfer_ps(request, drive.channel_bytes_per_s),
        data_in=transfer_ps(page, drive.channel_bytes_per_s),
        dram=transfer_ps(drive.dram_passes * request, dram),
        upload=transfer_ps(request, link),
        download=transfer_ps(page, link),
        convoy=arbitration is spec.Arbitration.CONVOY,
        retry=min(int(Fraction(drive.retry_probability) * 2**64), 2**64 - 1),
        host_buffer_pages=drive.host_buffer_bytes // page,
        first_page=first,
        pages=pages,
        random_span=_random_span(drive, scan, first),
        queue_depth=scan.queue_depth,
        seed=scan.seed,
        to_host=host is spec.ScanTarget.PCIE,
        consumers=[
            _consumer(drive, consumer, request, f"consumers[{index}]") for index, consumer in enumerate(consumers)
        ],
        host_consumer=None if host_consumer is None else _consumer(drive, host_consumer, request, "host_consumer"),
        aggregate=None if aggregator is None else aggregator.service_ps_per_output,
        cached_pages=_cached_pages(drive, held),
        entries=page // drive.table_entry_bytes,
        ahead=isinstance(held, spec.NandMapping) and held.ahead,
        reads=_traffic(drive, reads, request),
        writes=_traffic(drive, writes, page),
        jump=engine is spec.ScanEngine.JUMP,
    )
    _fits(drive, given)
    _table_fits(drive, held)
    return given


def _request(drive: Drive, scan: spec.Scan) -> int:
    """Bytes of a request."""
    page = drive.page_bytes
    request = page if scan.request_bytes is None else scan.request_bytes
    if not 1 <= request <= page:
        raise UsageError(
            f"request size {request} B is not a part of a page of {format_bytes(page)}; give 1 B to a page"
        )
    return request


def _own(drive: Drive) -> Row:
    """Counts, switches and durations that have the drive's own names."""
    own = {name: getattr(drive, name) for name in (*_COUNTS, *_SWITCHES) if hasattr(drive, name)}
    return own | {name: picoseconds(getattr(drive, f"{name}_s")) for name in _DURATIONS if hasattr(drive, f"{name}_s")}


def _check(
    scan: spec.Scan,
    pages: int,
    host: spec.ScanTarget,
    consumers: Sequence[spec.Consumer],
    host_consumer: spec.HostConsumer | None,
    reads: spec.HostTraffic | None,
    writes: spec.HostTraffic | None,
) -> None:
    if not 1 <= scan.queue_depth <= MOST_QUEUED:
        raise UsageError(f"queue depth {scan.queue_depth} is out of range: 1 to {MOST_QUEUED}")
    if consumers and (host_consumer is not None or host is spec.ScanTarget.PCIE):
        raise UsageError("a scan is read by consumers in the drive or by the host, not by both: leave one out")
    if host_consumer is not None and host is not spec.ScanTarget.PCIE:
        raise UsageError("a consumer on the host reads over PCIe: choose the host 'pcie' with it")
    if pages == 0 and not (reads and reads.requests) and not (writes and writes.requests):
        raise UsageError("there is nothing to do: give the scan a size, or other traffic a number of requests")


def _fits(drive: Drive, given: EngineInput) -> None:
    """Refuses values that the engine's integers do not hold; its own rules are narrower, where there are any."""
    for field in _COUNTS:
        if (count := getattr(given, field)) > MOST_COUNT:
            what = "entries of the page table in a page" if field == "entries" else field
            raise UsageError(f"drive '{drive.name}': {what}: {count}; at most {MOST_COUNT}")
    for field in _DURATIONS:
        if (taken := getattr(given, field)) > MOST_PICOSECONDS:
            raise UsageError(
                f"drive '{drive.name}': {field} of a page takes {taken / PICOSECONDS_PER_SECOND:.3g} s; at most 75 "
                "minutes (2^52 ps): give a shorter time, or a higher rate"
            )
    for seed in (given.seed, given.reads.seed, given.writes.seed):
        if not 0 <= seed < 2**64:
            raise UsageError(f"seed {seed} is out of range: 0 to 2^64 - 1")


def _table_fits(drive: Drive, mapping: spec.PageMapping) -> None:
    """Refuses a page table, or a cache of it, that the drive's DRAM does not hold."""
    if isinstance(mapping, spec.NandMapping):
        return
    if isinstance(mapping, spec.CachedMapping):
        what, taken, remedy = "a mapping cache", mapping.cache_bytes, "make it smaller"
    else:
        what, remedy = "the page table", "take a cache of it, read it from NAND"
        taken = drive.capacity_bytes // drive.page_bytes * drive.table_entry_bytes
    if taken > drive.dram_capacity_bytes:
        raise UsageError(
            f"{what} takes {format_bytes(taken)}, and the DRAM of drive '{drive.name}' holds "
            f"{format_bytes(drive.dram_capacity_bytes)}; {remedy}, or raise dram_capacity"
        )


def transfer_ps(size_bytes: int, bytes_per_s: float) -> int:
    """Whole picoseconds of a transfer, rounded."""
    return round(Fraction(size_bytes * PICOSECONDS_PER_SECOND) / Fraction(bytes_per_s))


def _range(drive: Drive, scan: spec.Scan) -> tuple[int, int]:
    """First page and number of pages."""
    page = drive.page_bytes
    if scan.size_bytes < 0 or scan.first_byte < 0:
        raise UsageError(f"the scan is {scan.size_bytes} B from byte {scan.first_byte} on; neither may be negative")
    first = scan.first_byte // page
    if scan.pattern is spec.ScanPattern.RANDOM:
        return first, -(-scan.size_bytes // page)
    end = -(-(scan.first_byte + scan.size_bytes) // page)
    pages = end - first if scan.size_bytes else 0
    if end * page > drive.capacity_bytes:
        asked = scan.first_byte + scan.size_bytes
        raise UsageError(
            f"the scan ends at {format_bytes(asked)}, and drive '{drive.name}' holds "
            f"{format_bytes(drive.capacity_bytes)} ({format_bytes(drive.raw_bytes)} less spare blocks); "
            "scan less, or choose a larger drive"
        )
    return first, pages


def _random_span(drive: Drive, scan: spec.Scan, first: int) -> int:
    """Pages that a random scan falls on; 0 for a sequential one."""
    if scan.pattern is spec.ScanPattern.SEQUENTIAL:
        if scan.span_bytes is not None:
            raise UsageError("a sequential scan has no span: it reads its size in order; leave the span out")
        return 0
    whole = drive.capacity_bytes // drive.page_bytes - first
    if whole < 1:
        raise UsageError(
            f"the scan begins at {format_bytes(scan.first_byte)}, and drive '{drive.name}' holds "
            f"{format_bytes(drive.capacity_bytes)}; begin earlier, or choose a larger drive"
        )
    span = whole if scan.span_bytes is None else scan.span_bytes // drive.page_bytes
    if not 1 <= span <= whole:
        raise UsageError(
            f"a random scan over {format_bytes(scan.span_bytes or 0)} of drive '{drive.name}'; it falls on a page to "
            f"what the drive holds, {format_bytes(whole * drive.page_bytes)}"
        )
    return span


def _consumer(drive: Drive, consumer: spec.Consumer, page_bytes: int, what: str) -> EngineConsumer:
    chunk_bytes = consumer.chunk_pages * page_bytes
    if consumer.chunk_pages < 1:
        raise UsageError(f"{what}: a chunk of {consumer.chunk_pages} pages; it has at least one")
    if consumer.buffer_bytes < chunk_bytes:
        raise UsageError(
            f"{what}: its buffer of {format_bytes(consumer.buffer_bytes)} has no room for one chunk of "
            f"{consumer.chunk_pages} pages, {format_bytes(chunk_bytes)}; enlarge the buffer or make chunks smaller"
        )
    for name in (
        "service_ps_per_chunk",
        "output_bytes_per_chunk",
        "final_output_bytes",
        "dram_bytes_per_chunk",
        "edram_bytes_per_chunk",
    ):
        if getattr(consumer, name) < 0:
            raise UsageError(f"{what}: {name} is {getattr(consumer, name)}; it is not negative")
    return EngineConsumer(
        channels=list(consumer.channels),
        chunk_pages=consumer.chunk_pages,
        buffer_pages=min(consumer.buffer_bytes // page_bytes, MOST_QUEUED),
        serve=consumer.service_ps_per_chunk,
        dram=transfer_ps(consumer.dram_bytes_per_chunk, drive.dram_bytes_per_s),
        edram=transfer_ps(consumer.edram_bytes_per_chunk, drive.edram_bytes_per_s),
        upload=transfer_ps(consumer.output_bytes_per_chunk, drive.host_link_bytes_per_s),
        final_upload=transfer_ps(consumer.final_output_bytes, drive.host_link_bytes_per_s),
    )


def _cached_pages(drive: Drive, mapping: spec.PageMapping) -> int:
    if isinstance(mapping, spec.IdentityMapping):
        return 0
    if isinstance(mapping, spec.NandMapping):
        if mapping.open_pages < 1:
            raise UsageError(f"{mapping.open_pages} open pages of the mapping table; at least 1")
        return mapping.open_pages
    if isinstance(mapping, spec.CachedMapping) and mapping.cache_bytes < drive.page_bytes:
        raise UsageError(
            f"a mapping cache of {format_bytes(mapping.cache_bytes)} holds no page of the table, "
            f"{format_bytes(drive.page_bytes)}; enlarge it"
        )
    return min(mapping.cache_bytes // drive.page_bytes, MOST_QUEUED)


def _traffic(drive: Drive, traffic: spec.HostTraffic | None, request_bytes: int) -> EngineTraffic:
    if traffic is None:
        return EngineTraffic()
    if traffic.bytes_per_s <= 0:
        raise UsageError(f"other traffic of {traffic.bytes_per_s} bytes/s; it is more than zero")
    span = drive.capacity_bytes if traffic.span_bytes is None else traffic.span_bytes
    if not drive.page_bytes <= span <= drive.capacity_bytes:
        raise UsageError(
            f"other traffic over {format_bytes(span)} of drive '{drive.name}'; it falls on a page "
            f"({format_bytes(drive.page_bytes)}) to the whole drive ({format_bytes(drive.capacity_bytes)})"
        )
    if traffic.requests is not None and traffic.requests < 1:
        raise UsageError(f"other traffic of {traffic.requests} requests; at least 1, or none given")
    interval = max(1, transfer_ps(request_bytes, traffic.bytes_per_s))
    if interval > MOST_PICOSECONDS:
        raise UsageError(
            f"other traffic of {traffic.bytes_per_s:.3g} bytes/s has a request every "
            f"{interval / PICOSECONDS_PER_SECOND:.3g} s; at least every 75 minutes: give a higher rate"
        )
    return EngineTraffic(
        interval=interval, span_pages=span // drive.page_bytes, requests=traffic.requests or 0, seed=traffic.seed
    )
