"""Rows of `reproduce fheins` beyond its two workloads: every database workload, the two modes, INSPIRE's units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.base.types import Row
from penstock.errors import UsageError
from penstock.lab.instorage.machine import Engines, UnitAccelerator
from penstock.lab.instorage.named import QUERIES, named_query
from penstock.lab.instorage.ordinary import Modes, Ordinary, in_storage_under, on_host_under
from penstock.lab.instorage.queries import in_storage, on_host, speedup
from penstock.lab.instorage.query import Query
from penstock.scheme.machines.figure import Evidence
from penstock_studies.fheins import data
from penstock_studies.fheins.model import FAIR, HEADLINE, POLICIES, FheinsStudy, Policy
from penstock_studies.fheins.rows import row

SPILLED = next(policy for policy in POLICIES if policy.name == "batch-overlap/spill")
READS_BYTES_PER_S = (1e9, 4e9)
"""Of the 7.2 GB/s that the host's link carries."""
INSPIRE_LANES = (4, 8, 16, 32, 64)
"""Butterflies a cycle at each channel."""
INSPIRE_CHANNELS = 16


def workload_rows(study: FheinsStudy) -> Iterator[Row]:
    """Each database workload as a scan inside the drive, under the headline's policy and fairer ones."""
    for workload, named in QUERIES.items():
        query = _query(study, workload)
        for drive in data.DRIVES:
            for policy, batch in ((HEADLINE, 1), (FAIR, 1), (SPILLED, 1), (FAIR, data.BATCHES[-1])):
                yield _workload_row(study, workload, query, drive, policy, batch, named.says)


def _workload_row(
    study: FheinsStudy, workload: str, query: Query, drive: str, policy: Policy, batch: int, says: str
) -> Row:
    middle = "" if policy is HEADLINE else f".{policy.name.replace('/', '-')}"
    row_id = f"workload.{workload}.{drive}.batch{batch}{middle}.speedup"
    try:
        ratio, ours, theirs = study.compared(query, drive, policy, batch)
    except UsageError as error:
        return row(row_id, "workloads", "speedup", None, f"{says}; refused: {error}", policy=f"workload/{policy.name}")
    note = (
        f"{says}; FHEIns waits for {ours.bottleneck}, the host for {theirs.bottleneck}; {ours.query_s:.3g} s and "
        f"{theirs.query_s:.3g} s a query"
    )
    return row(row_id, "workloads", "speedup", ratio, note, policy=f"workload/{policy.name}")


def mode_rows(study: FheinsStudy) -> Iterator[Row]:
    """What ordinary reads of the host leave of each query, the two modes at once or in turns."""
    for workload in QUERIES:
        query = _query(study, workload)
        for drive in data.DRIVES:
            rates = study.drives[drive]
            alone = in_storage(query, rates, study.accelerator)
            for modes in Modes:
                for rate in READS_BYTES_PER_S:
                    reads = Ordinary(bytes_per_s=rate, modes=modes)
                    ours = in_storage_under(query, rates, study.accelerator, reads)
                    theirs = on_host_under(query, rates, study.host, HEADLINE.host, reads)
                    note = (
                        f"the host reads {rate / 1e9:g} GB/s of other data, {modes}: {ours.query_s:.3g} s a query "
                        f"instead of {alone.query_s:.3g} s; {speedup(ours, theirs):.3g} times as fast as on the host, "
                        "which reads them too"
                    )
                    row_id = f"modes.{workload}.{drive}.reads{rate / 1e9:g}.{modes}.slowdown"
                    ratio = ours.seconds / alone.seconds
                    yield row(row_id, "modes", "slowdown", ratio, note, policy=f"modes-{modes}")


def inspire_unit_rows(study: FheinsStudy) -> Iterator[Row]:
    """INSPIRE as units at each channel instead of its published 36 s.

    Its numbers of units are not among our sources. So the rows are a curve over them, and one row has the number that
    gives the published time.
    """
    query = study.pir()
    for drive in data.DRIVES:
        rates = study.drives[drive]
        theirs = on_host(query, rates, study.host, HEADLINE.host)
        published = in_storage(query, rates, study.inspire)
        for lanes in INSPIRE_LANES:
            ours = in_storage(query, rates, inspire_units(study.accelerator, lanes))
            note = (
                f"an engine of {lanes} lanes at each channel, records encoded for each query: waits for "
                f"{ours.bottleneck}; {ours.query_s:.3g} s a query, by its published rate {published.query_s:.3g} s"
            )
            row_id = f"inspire.{drive}.lanes{lanes}.speedup"
            yield row(row_id, "inspire", "speedup", speedup(ours, theirs), note, policy="inspire-units")
    rates = study.drives[data.DRIVES[0]]
    one = in_storage(query, rates, inspire_units(study.accelerator, 1)).busy["compute"]
    lanes_needed = one / in_storage(query, rates, study.inspire).seconds
    note = (
        f"butterflies a cycle and channel at 1 GHz that give the published 36 s on {INSPIRE_CHANNELS} channels; an "
        "engine of a power of two stands at 8 or 16"
    )
    yield row("inspire.lanes", "inspire", "lanes", lanes_needed, note, unit="1/cycle", policy="inspire-units")


def inspire_units(accelerator: UnitAccelerator, lanes: int) -> UnitAccelerator:
    """FHEIns' kinds of units, one engine of each at every channel: `assumed`."""

    def one(engines: Engines) -> Engines:
        return replace(engines, count=1, lanes=lanes, source="an engine at each channel", kind=Evidence.ASSUMED)

    return replace(
        accelerator,
        name="inspire-units",
        title="INSPIRE as units at the channels",
        channels_per_accelerator=1,
        ntt=one(accelerator.ntt),
        bconv=one(accelerator.bconv),
        modu=one(accelerator.modu),
    )


def _query(study: FheinsStudy, workload: str) -> Query:
    return named_query(workload, slot_bits=int(study.accelerator.slot.value))
