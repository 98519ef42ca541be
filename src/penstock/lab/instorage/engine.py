"""The same queries played page by page on the drive's event engine: the closed form's quantities as simulated values.

A consumer in the drive is one accelerator, fed by its channels through its input buffer, half of which fills while the
other half is computed on. Keys and twiddle factors that come from flash are pages of the scan; ciphertexts of the
query and keys that come over the DRAM are a chunk's metadata. A host is the engine's host consumer; with a buffer of
one chunk it reads and computes in turns.
"""

from __future__ import annotations

import math
from dataclasses import replace

from penstock.base.types import Row
from penstock.base.units import PICOSECONDS_PER_SECOND
from penstock.errors import UsageError
from penstock.lab.instorage.drive import DriveRates, drive_rates
from penstock.lab.instorage.flash import spec
from penstock.lab.instorage.flash.scan import ScanResult, scan_drive
from penstock.lab.instorage.machine import UnitAccelerator
from penstock.lab.instorage.machine_power import footprint
from penstock.lab.instorage.machine_scaling import redesigned
from penstock.lab.instorage.ordinary import Ordinary
from penstock.lab.instorage.policies import HostPolicy, Passes
from penstock.lab.instorage.queries import Answered, Inside, in_storage, object_seconds, on_host
from penstock.lab.instorage.query import Query
from penstock.lab.instorage.traffic import traffic
from penstock.scheme.machines.drives import Drive
from penstock.scheme.machines.schema import Machine

QUEUED_PER_PLANE = 4
"""Requests under way at once, so that every plane has work."""
HOST_CHUNK_PAGES = 8192
"""Pages that a host reads before it computes on them, at most."""
OVERLAPPED_CHUNKS = 64
"""Of a database, at least, where a host reads and computes at once: reading the first is not overlapped."""
OVERLAPPED_CHUNK_PAGES = 64
"""At least, so that two of them keep the link busy."""


def played_in_storage(
    query: Query,
    drive: Drive,
    accelerator: UnitAccelerator,
    *,
    batch: int = 1,
    inside: Inside | None = None,
    engine: spec.ScanEngine = spec.ScanEngine.JUMP,
    arbitration: spec.Arbitration = spec.Arbitration.PIPELINED,
    mapping: spec.PageMapping | None = None,
    ordinary_bytes_per_s: float = 0.0,
) -> Answered:
    """A batch answered inside the drive, page by page.

    Args:   arbitration, mapping: of the drive, as in `scan_drive`; ordinary_bytes_per_s: other pages that the host
            reads meanwhile, spread over the drive, in both modes at once.

    Raises: as `in_storage`; UsageError: an input buffer that does not hold two pages.
    """
    how = inside or Inside()
    rates = drive_rates(drive)
    closed = in_storage(query, rates, accelerator, batch=batch, inside=how)
    groups = accelerator.on(rates.channels)
    moved = traffic(query, rates, accelerator, how.switches, how.contention)
    passes = -(-batch // min(batch, moved.queries_at_once))
    page, chunk = drive.page_bytes, _chunk_pages(accelerator, drive.page_bytes)
    per_object = query.object_bytes + moved.flash_bytes
    objects = chunk * page / per_object
    service = object_seconds(query, accelerator, batch, passes, how) / passes * objects
    metadata = batch / passes * moved.dram_bytes * objects / how.dram_efficiency
    # Scores leave at once; the answer of a retrieval is known at the end.
    answers = batch / passes * query.work.answer_bytes
    along = query.one_for_all
    width = accelerator.channels_per_accelerator
    consumers = [
        spec.Consumer(
            channels=tuple(range(i * width, (i + 1) * width)),
            service_ps_per_chunk=round(service * PICOSECONDS_PER_SECOND),
            chunk_pages=chunk,
            buffer_bytes=2 * chunk * page,
            dram_bytes_per_chunk=round(metadata),
            output_bytes_per_chunk=round(answers * objects / query.num_objects) if along else 0,
            final_output_bytes=0 if along else math.ceil(answers / groups),
        )
        for i in range(groups)
    ]
    result = scan_drive(
        drive,
        spec.Scan(size_bytes=math.ceil(query.num_objects * per_object), queue_depth=QUEUED_PER_PLANE * drive.planes),
        engine=engine,
        arbitration=arbitration,
        mapping=mapping,
        consumers=consumers,
        reads=_others(ordinary_bytes_per_s),
    )
    watts = footprint(accelerator, rates.channels, how.multiplicity).watts
    return _answered(closed, rates, result, passes, watts, engine, ordinary_bytes_per_s)


def _chunk_pages(accelerator: UnitAccelerator, page: int) -> int:
    """Half of the input buffer. Raises: UsageError: it holds no two pages."""
    pages = int(accelerator.input_buffer.value) // page
    if pages < 2:
        raise UsageError(
            f"'{accelerator.name}': an input buffer of {accelerator.input_buffer.text} holds no two pages of {page} "
            "bytes, one to fill while the other is computed on; give it a larger one"
        )
    return pages // 2


def played_design(
    query: Query, drive: Drive, accelerator: UnitAccelerator, row: Row, *, batch: int = 1, inside: Inside | None = None
) -> Answered:
    """A batch answered by one design of a space, page by page.

    Args:   drive: the row's, as its file has it; accelerator: as published; row: of `Space.rows`.
    Raises: as `played_in_storage`.
    """
    design = redesigned(
        accelerator,
        channels_per_accelerator=row["channels_per_accelerator"],
        lanes=row["lanes"],
        scratchpad_bytes=row["scratchpad_bytes"],
    )
    changed = replace(
        drive,
        dram_bytes_per_s=row["dram_bytes_per_s"],
        dram_capacity_bytes=row["dram_capacity_bytes"],
        host_link_bytes_per_s=row["pcie_bytes_per_s"],
    )
    return played_in_storage(query, changed, design, batch=batch, inside=inside)


def played_on_host(
    query: Query,
    drive: Drive,
    machine: Machine,
    policy: HostPolicy,
    *,
    batch: int = 1,
    engine: spec.ScanEngine = spec.ScanEngine.JUMP,
    ordinary_bytes_per_s: float = 0.0,
) -> Answered:
    """A batch answered by a machine behind PCIe, page by page.

    Args:   ordinary_bytes_per_s: as in `played_in_storage`.

    Raises: as `on_host`; UsageError: a policy with a cache, which the engine does not have.
    """
    if policy.cached_bytes:
        raise UsageError(f"policy '{policy.name}' keeps bytes on the host: only the closed form has such a cache")
    rates = drive_rates(drive)
    closed = on_host(query, rates, machine, policy, batch=batch)
    passes = batch if policy.passes is Passes.RESTREAM else 1
    page = drive.page_bytes
    pages = -(-query.database_bytes // page)
    chunk = _host_chunk_pages(pages, policy)
    # Every chunk takes as long, the last one too: they are as many as share the whole work.
    chunk_s = closed.busy["compute"] / passes / -(-pages // chunk)
    result = scan_drive(
        drive,
        spec.Scan(size_bytes=query.database_bytes, queue_depth=QUEUED_PER_PLANE * drive.planes),
        host=spec.ScanTarget.PCIE,
        engine=engine,
        host_consumer=spec.HostConsumer(
            service_ps_per_chunk=round(chunk_s * PICOSECONDS_PER_SECOND),
            chunk_pages=chunk,
            buffer_bytes=(2 if policy.overlapped else 1) * chunk * page,
        ),
        reads=_others(ordinary_bytes_per_s),
    )
    return _answered(closed, rates, result, passes, machine.watts, engine, ordinary_bytes_per_s)


def _answered(
    closed: Answered,
    rates: DriveRates,
    result: ScanResult,
    passes: int,
    watts: float | None,
    engine: spec.ScanEngine,
    asked_bytes_per_s: float,
) -> Answered:
    """The closed form's answer with the played times: of the batch, and of each resource with the ordinary reads on it.

    The query's way in and the drive-level accelerator run in parallel with the scan. As in the closed form, all bytes
    share one link.
    """
    own_s, link = closed.busy["pcie"], rates.pcie_bytes_per_s
    read = result.read_latency.count * rates.page_bytes
    seconds = max(passes * result.simulated_s, closed.busy.get("drive", 0.0), own_s + passes * read / link)
    served = min(read / result.simulated_s, link * (1 - own_s / seconds)) if read else 0.0
    more = {
        "channel": served / rates.flash_bytes_per_s,
        "dram": served * rates.dram_passes / rates.dram_bytes_per_s,
        "pcie": served / link,
    }
    reads = f" {Ordinary(bytes_per_s=asked_bytes_per_s).name}" if asked_bytes_per_s else ""
    return replace(
        closed,
        policy=closed.policy + reads,
        seconds=seconds,
        busy={name: own + more.get(name, 0.0) * seconds for name, own in closed.busy.items()},
        joules=None if watts is None else watts * seconds,
        engine=engine.value,
        ordinary_bytes_per_s=asked_bytes_per_s,
        ordinary_served_bytes_per_s=served,
        ordinary_latency_s=result.read_latency.mean_s,
    )


def _others(bytes_per_s: float) -> spec.HostTraffic | None:
    """Ordinary reads as the engine plays them: one page each, uniform over the drive."""
    return spec.HostTraffic(bytes_per_s=bytes_per_s) if bytes_per_s else None


def _host_chunk_pages(pages: int, policy: HostPolicy) -> int:
    if not policy.overlapped:
        return min(HOST_CHUNK_PAGES, pages)
    return min(HOST_CHUNK_PAGES, max(OVERLAPPED_CHUNK_PAGES, -(-pages // OVERLAPPED_CHUNKS)), pages)
