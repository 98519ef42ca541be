"""A query over an encrypted database, inside the drive or on an accelerator behind PCIe: time, energy, bottleneck.

Closed form: the scan is a pipeline, so its busiest resource sets its time. `penstock.lab.instorage.engine`
plays the same scan page by page. Resources: `channel` (flash buses, command overhead included), `dram`, `compute`,
`drive` (the drive-level accelerator), `pcie`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from penstock.base.types import Row
from penstock.errors import UsageError
from penstock.lab.instorage.drive import DriveRates
from penstock.lab.instorage.machine import ArrayAdders, InStorage, PublishedScan, UnitAccelerator
from penstock.lab.instorage.machine_power import Multiplicity, footprint
from penstock.lab.instorage.policies import Contention, Encoding, HostPolicy, Passes, Switches
from penstock.lab.instorage.query import Query, works
from penstock.lab.instorage.traffic import traffic
from penstock.scheme.machines.schema import Machine
from penstock.scheme.work.kernel_work import KernelWork

RESOURCES = ("channel", "dram", "compute", "drive", "pcie")
CLOSED_FORM = "closed-form"
_ORDINARY = ("bytes_per_s", "served_bytes_per_s", "latency_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A batch of queries, answered."""

    query: Query
    drive: str
    architecture: str
    policy: str
    batch: int
    seconds: float
    """Of the whole batch."""
    busy: Mapping[str, float]
    """Resource -> seconds that it works for the batch: in a formula at the rate that ordinary reads leave, in a played
    run for the reads as well."""
    joules: float | None = None
    """Of the accelerators' logic alone; `None` where its power is not known."""
    engine: str = CLOSED_FORM
    ordinary_bytes_per_s: float = 0.0
    """Other reads of the host meanwhile, as asked for."""
    ordinary_served_bytes_per_s: float = 0.0
    """Those served within `seconds`: fewer than asked for where the engine's link, channels or DRAM are full."""
    ordinary_latency_s: float | None = None
    """Mean of those reads, where the engine played them."""

    @property
    def bottleneck(self) -> str:
        return max(self.busy, key=lambda name: self.busy[name])

    @property
    def query_s(self) -> float:
        """Of one query of the batch."""
        return self.seconds / self.batch

    def row(self) -> Row:
        """A flat row; every value but the database's size is simulated."""
        database = self.query.database_bytes
        return {
            "workload": self.query.workload,
            "params": self.query.params.name,
            **{name: getattr(self, name) for name in ("drive", "architecture", "policy", "batch")},
            "database_bytes": database,
            "simulated_s": self.seconds,
            "query_s": self.query_s,
            "queries_per_s": self.batch / self.seconds,
            "database_bytes_per_s": database * self.batch / self.seconds,
            "energy_j_per_query": None if self.joules is None else self.joules / self.batch,
            "bottleneck": self.bottleneck,
            **{f"{name}_s": self.busy.get(name, 0.0) for name in RESOURCES},
            "engine": self.engine,
            **{f"ordinary_{name}": getattr(self, f"ordinary_{name}") for name in _ORDINARY},
            "provenance": "simulated",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """The drive's operation: its switches and the load of its DRAM."""

    switches: Switches = field(default_factory=Switches)
    contention: Contention = Contention.FREE
    multiplicity: Multiplicity = Multiplicity.ENGINE
    dram_efficiency: float = 1.0
    """Share of the DRAM's rate that is reached."""
    clock_ratio: float = 1.0
    """Times the clock of the machine file."""
    chained: bool = False
    """Whether the operations of one object flow into each other, so that the busiest unit of all of them binds;
    otherwise each operation is priced by itself, as everywhere in penstock."""

    @property
    def name(self) -> str:
        """Of the policy in rows."""
        parts = [f"dram-{self.contention}"]
        if self.chained:
            parts.append("chained")
        if self.switches.encoding is Encoding.BATCH:
            parts.append("encode-once")
        off = Switches(encoding=self.switches.encoding)
        values = {switch.name: getattr(self.switches, switch.name) for switch in fields(off)}
        values = {name: value for name, value in values.items() if value != getattr(off, name)}
        parts += [f"{name.replace('_', '-')}={'all' if value is None else value}" for name, value in values.items()]
        return " ".join(parts)


def in_storage(
    query: Query, drive: DriveRates, accelerator: InStorage, *, batch: int = 1, inside: Inside | None = None
) -> Answered:
    """A batch of queries answered inside the drive.

    Raises: UsageError: the database is larger than the drive, a scratchpad holds no limb, the architecture does not
            run such queries, or the channels do not divide into its groups.
    """
    _check(query, drive, batch)
    how = inside or Inside()
    if isinstance(accelerator, PublishedScan):
        return _published(query, drive, accelerator, batch)
    if isinstance(accelerator, ArrayAdders):
        return _adders(query, drive, accelerator, batch)
    groups = accelerator.on(drive.channels)
    accelerator.check_holds(query.params)
    moved = traffic(query, drive, accelerator, how.switches, how.contention)
    passes = -(-batch // min(batch, moved.queries_at_once))
    per_object = object_seconds(query, accelerator, batch, passes, how)
    busy = {
        "channel": passes * query.num_objects * (query.object_bytes + moved.flash_bytes) / drive.flash_bytes_per_s,
        "dram": batch * query.num_objects * moved.dram_bytes / (drive.dram_bytes_per_s * how.dram_efficiency),
        "compute": query.num_objects * per_object / groups,
        "drive": rest_seconds(query, accelerator, batch, how),
        "pcie": batch * (query.work.query_bytes + query.work.answer_bytes) / drive.pcie_bytes_per_s,
    }
    answered = _pipelined(query, drive, accelerator.name, how.name, batch, busy)
    watts = footprint(accelerator, drive.channels, how.multiplicity).watts
    return replace(answered, joules=watts * answered.seconds)


def object_seconds(query: Query, accelerator: UnitAccelerator, batch: int, passes: int, inside: Inside) -> float:
    """Seconds that one accelerator computes on one object, for all queries of a batch."""

    def price(work: KernelWork) -> float:
        return accelerator.price(work).seconds

    every = works(query.work.per_object, query.params, accelerator.hoisting)
    seconds = _object_seconds(query, every, price, inside.switches.encoding, batch, passes, chained=inside.chained)
    return seconds / inside.clock_ratio


def _object_seconds(
    query: Query,
    every: Sequence[tuple[KernelWork, int]],
    price: Callable[[KernelWork], float],
    encoding: Encoding,
    batch: int,
    passes: int,
    *,
    chained: bool = False,
) -> float:
    """For all queries of a batch; encoding once, where it is so, and multiplying are pipelined: the slower binds."""

    def priced(done: Sequence[tuple[KernelWork, int]]) -> float:
        if not chained:
            return sum(count * price(work) for work, count in done)
        total = sum((work.times(count) for work, count in done), KernelWork())
        return price(total) if total.ring_dim else 0.0

    if encoding is Encoding.QUERY or query.stored != "raw":
        return batch * priced(every)
    encode = [
        (KernelWork(ring_dim=work.ring_dim, plaintext_limbs=work.plaintext_limbs), count)
        for work, count in every
        if work.plaintext_limbs
    ]
    rest = [(replace(work, plaintext_limbs=0), count) for work, count in every]
    return max(passes * priced(encode), batch * priced(rest))


def rest_seconds(query: Query, accelerator: UnitAccelerator, batch: int, inside: Inside) -> float:
    """Seconds that the drive-level accelerator computes at the end, for all queries of a batch.

    Shared work at the end may be less than the count for each object, since the first sum of all needs no addition.
    """
    every = works(query.work.per_query, query.params, accelerator.hoisting)
    seconds = sum(count * accelerator.price(work).seconds for work, count in every)
    return max(0.0, batch * seconds / inside.clock_ratio)


def _published(query: Query, drive: DriveRates, accelerator: PublishedScan, batch: int) -> Answered:
    if query.workload not in accelerator.workloads:
        raise UsageError(
            f"'{accelerator.name}' is known by a published time of {', '.join(accelerator.workloads)} alone, and this "
            f"query is '{query.workload}': use 'fheins' or a host"
        )
    compute = batch * query.database_bytes / accelerator.bytes_per_s(drive.channels)
    busy = {"channel": query.database_bytes / drive.flash_bytes_per_s, "compute": compute}
    return _pipelined(query, drive, accelerator.name, "published-rate", batch, busy)


def _adders(query: Query, drive: DriveRates, accelerator: ArrayAdders, batch: int) -> Answered:
    accelerator.check_executes(query.kinds, f"a query of '{query.workload}'")
    rate = drive.array_bytes_per_s * accelerator.array_share.value
    busy = {
        "compute": batch * query.num_operations * query.database_bytes / rate,
        "pcie": batch * (query.work.query_bytes + query.work.answer_bytes) / drive.pcie_bytes_per_s,
    }
    return _pipelined(query, drive, accelerator.name, "in-array", batch, busy)


def _pipelined(
    query: Query, drive: DriveRates, architecture: str, policy: str, batch: int, busy: Mapping[str, float]
) -> Answered:
    """Resources that work at once: the busiest sets the time."""
    return Answered(
        query=query,
        drive=drive.name,
        architecture=architecture,
        policy=policy,
        batch=batch,
        seconds=max(busy.values()),
        busy=busy,
    )


def on_host(query: Query, drive: DriveRates, machine: Machine, policy: HostPolicy, *, batch: int = 1) -> Answered:
    """A batch of queries answered by a machine behind PCIe that reads the drive by a named policy.

    Raises: UsageError: the database is larger than the drive, the batch is empty, or the machine lacks a rate.
    """
    _check(query, drive, batch)
    passes = batch if policy.passes is Passes.RESTREAM else 1
    cached = min(policy.cached_bytes, query.database_bytes)
    read = passes * query.database_bytes - (passes - 1) * cached

    def price(work: KernelWork) -> float:
        if machine.lacks(work):
            raise UsageError(
                f"machine '{machine.name}' has no rate for a part of the query: the drive is held against its time; "
                "give it the rates that it lacks ('penstock machines check')"
            )
        return machine.price(work).seconds

    every = works(query.work.per_object, query.params)
    objects = query.num_objects * _object_seconds(query, every, price, policy.encoding, batch, passes)
    rest = batch * sum(count * price(work) for work, count in works(query.work.per_query, query.params))
    link = min(drive.pcie_bytes_per_s, drive.flash_bytes_per_s, drive.dram_bytes_per_s / drive.dram_passes)
    busy = {
        "channel": read / drive.flash_bytes_per_s,
        "dram": read * drive.dram_passes / drive.dram_bytes_per_s,
        "compute": objects + rest,
        "pcie": read / drive.pcie_bytes_per_s,
    }
    seconds = max(busy.values()) if policy.overlapped else read / link + busy["compute"]
    joules = None if machine.watts is None else machine.watts * seconds
    answered = _pipelined(query, drive, f"host:{machine.name}", policy.name, batch, busy)
    return replace(answered, seconds=seconds, joules=joules)


def speedup(ours: Answered, baseline: Answered) -> float:
    """The speed-up of a query's answer.

    Raises: UsageError: the two answer other databases.
    """
    if ours.query.database_bytes != baseline.query.database_bytes:
        raise UsageError("a speedup compares queries over the same database; these two are of different sizes")
    return baseline.query_s / ours.query_s


def _check(query: Query, drive: DriveRates, batch: int) -> None:
    if batch < 1:
        raise UsageError(f"a batch of {batch} queries: at least 1")
    query.check_fits(drive.capacity_bytes, drive.name)
