"""The question to a simulated drive: the scan, its reader, other traffic, and the mapping of pages.

Everything here is checked when the engine's input is made (`penstock.lab.instorage.flash.input`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class ScanPattern(str, Enum):
    """In which order pages are asked for."""

    SEQUENTIAL = "sequential"
    RANDOM = "random"
    """Uniform over the span, by seed; every page of it is as likely at each step."""


class ScanTarget(str, Enum):
    """Where the pages of a scan without consumers in the drive end."""

    NONE = "none"
    """Nowhere: a page is done when it has left error correction."""
    PCIE = "pcie"
    """In the host's memory, through the controller's DRAM and PCIe."""


class Arbitration(str, Enum):
    """Who gets a channel's bus next."""

    PIPELINED = "pipelined"
    """Commands go before data, and each die works independently: dies sense while others send."""
    CONVOY = "convoy"
    """Data always goes before the next command, one die of a chip works at a time: all sense while the bus idles."""


class ScanEngine(str, Enum):
    """The method for a long scan; both give the same result, number for number."""

    EVENTS = "events"
    JUMP = "jump"
    """Whole periods of a steady state are jumped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Reads of `size_bytes` from `first_byte` on, rounded up to whole pages; nothing where `size_bytes` is 0."""

    size_bytes: int
    first_byte: int = 0
    pattern: ScanPattern = ScanPattern.SEQUENTIAL
    span_bytes: int | None = None
    """What a random scan falls on, from `first_byte` on. Default: the rest of the drive."""
    queue_depth: int = 1024
    """Requests under way at once; each is one page."""
    request_bytes: int | None = None
    """Bytes that are sent of each page. Default: the whole page."""
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """An accelerator inside the drive that reads the pages of its channels, after error correction.

    Pages collect in its input buffer. `chunk_pages` of them, in order of arrival, are one chunk. Its metadata (keys) is
    fetched through the shared DRAM and then the shared eDRAM, one chunk ahead of the one being served. Then the chunk
    is served. Then its pages leave the buffer, and its output goes through the aggregator, if there is one, and PCIe to
    the host. The rest at the end of the scan is one smaller chunk, at the same price.
    """

    channels: tuple[int, ...]
    """Numbers of the channels that feed it; each channel feeds exactly one consumer."""
    service_ps_per_chunk: int
    chunk_pages: int
    buffer_bytes: int
    """At least one chunk, or it is refused; two to fill one while the other is served."""
    output_bytes_per_chunk: int = 0
    final_output_bytes: int = 0
    """Sent once, when the last chunk has been served."""
    dram_bytes_per_chunk: int = 0
    edram_bytes_per_chunk: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostConsumer(Consumer):
    """An accelerator on the host that reads what PCIe brings. The host asks only for what its buffer has room for.

    With a buffer of one chunk, reading and computing take turns (serial); with two or more they overlap.
    """

    channels: tuple[int, ...] = ()
    """Every channel feeds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregator:
    """The drive-level accelerator: every output of a consumer passes it, one after another, on its way to the host."""

    service_ps_per_output: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTraffic:
    """Other I/O of the host, one page a request, at a steady rate while the scan runs, uniform over a span by seed.

    Reads go through DRAM and PCIe; writes come through PCIe and DRAM, are done when they are in the write buffer, and
    are programmed where the flash translation layer finds room.
    """

    bytes_per_s: float
    span_bytes: int | None = None
    """From the start of the drive on. Default: the whole drive."""
    requests: int | None = None
    """Their number; requests that end after the scan are played, and not counted. Default: as long as the scan
    lasts."""
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityMapping:
    """The whole logical-to-physical table is in DRAM: a look-up costs nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedMapping:
    """The table is in NAND, and its most recently used pages are in a cache (least recently used leaves)."""

    cache_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NandMapping:
    """The table is in NAND and DRAM is free for other data (FHEIns, section III-D).

    `open_pages` pages of it are kept at hand; with `ahead`, a page that comes into use starts the read of the next.
    """

    open_pages: int = 2
    ahead: bool = True


PageMapping: TypeAlias = IdentityMapping | CachedMapping | NandMapping
