"""What a query should take: a scan played on a disk file and a machine file, without reading anything.

Two stages with a queue between them, as `stream` has them: the reading thread brings entry after entry (read, checksum,
decode), the computation takes them in order. An entry is begun when the one before it was brought and its place in the
queue is free; it is computed on when it was brought and the one before it is done. The computation's price is the
program's tally on the fitted machine, as `penstock predict run` prices it; the client's work before and after the scan
is part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.lab.prediction.prediction import Contribution, predict
from penstock.program.database.description import RECORDS
from penstock.program.evaluator.tally import tally_of
from penstock.runtime.scanning.disk import Disk
from penstock.runtime.scanning.query import Plan, trace_scan
from penstock.runtime.scanning.store import Database
from penstock.scheme.machines.client import ENCODE
from penstock.scheme.machines.schema import Machine
from penstock.scheme.operations import OpKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Seconds of a query on a machine: all of it, and each stage by itself."""

    total_s: float
    """From the encryption of the query to the last decryption."""
    read_s: float
    checksum_s: float
    decode_s: float
    encode_s: float | None
    compute_s: float | None
    client_s: float | None
    """Encryption of the query and decryption of the answer; `None`: the machine does not know the client."""
    cpu_s: float
    """Processor seconds of the scan in all threads, without reads, independent of other work."""
    bottleneck: str
    """`load` or `compute`: which of the two stages is busy longer."""
    warnings: tuple[str, ...]


def simulate(
    database: Database,
    plan: Plan,
    machine: Machine,
    disk: Disk,
    *,
    queries: int = 1,
    prefetch: int = 4,
    threads: int = 1,
) -> Simulated:
    """A query over a database that need not be there: only its description and layout are looked at.

    Raises: MachineError: the machine is not known at that many threads.
    """
    layout, stored = database.layout, database.description.stored
    priced = predict(tally_of(trace_scan(plan, queries, stored)), machine, threads=threads)
    query_s = _query_s(plan, priced.contributions)
    compute_s = priced.known_s - query_s
    per_entry = layout.stride + layout.header_bytes / layout.per_segment
    size = layout.entry_bytes
    read_s, checksum_s = disk.read_s(round(per_entry)), disk.checksum_s(size)
    decode_s = 0.0 if stored == RECORDS else disk.decode_s(size)
    n = layout.num_entries
    scan_s = pipeline_s(n, read_s + checksum_s + decode_s, compute_s / n, prefetch)
    return Simulated(
        total_s=query_s + scan_s,
        read_s=n * read_s,
        checksum_s=n * checksum_s,
        decode_s=n * decode_s,
        cpu_s=n * (checksum_s + decode_s) + compute_s,
        encode_s=priced.encode_s,
        compute_s=priced.server_s,
        client_s=priced.client_s,
        bottleneck="load" if n * (read_s + checksum_s + decode_s) > compute_s else "compute",
        warnings=priced.warnings,
    )


def pipeline_s(entries: int, load_s: float, compute_s: float, prefetch: int) -> float:
    """Seconds until the last of so many entries is computed on; `prefetch` places lie between the stages.

    Without a place they take turns. With one or more the slower stage binds, and the other shows once.
    >>> pipeline_s(10, 1.0, 2.0, 0), pipeline_s(10, 1.0, 2.0, 4), pipeline_s(10, 2.0, 1.0, 1)
    (30.0, 21.0, 21.0)
    """
    if prefetch == 0:
        return entries * (load_s + compute_s)
    loaded: list[float] = []
    taken: list[float] = []
    computed = 0.0
    for i in range(entries):
        # The thread holds one entry while the queue is full; its place is free when an earlier entry is taken.
        free = taken[i - prefetch - 1] if i > prefetch else 0.0
        loaded.append(max(loaded[-1] if loaded else 0.0, free) + load_s)
        taken.append(max(computed, loaded[-1]))
        computed = taken[-1] + compute_s
    return computed


def _query_s(plan: Plan, parts: Sequence[Contribution]) -> float:
    """Of a program's parts, encoding and encryption of the query: they come before the scan."""
    encrypted = [part for part in parts if part.kind == OpKind.ENCRYPT.value]
    count = sum(part.count for part in encrypted)
    fresh = (part for part in parts if part.kind == ENCODE and part.limbs == plan.params.num_q)
    return sum(part.seconds for part in encrypted) + sum(part.seconds * count / part.count for part in fresh)
