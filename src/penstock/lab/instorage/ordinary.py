"""Ordinary reads of the host next to a query: the rates that they leave, in the two modes that FHEIns names.

In conventional-I/O mode the drive serves the host's reads and writes; in FHE-acceleration mode its accelerators work.
FHEIns says neither whether both may be on at once nor who goes first. Two readings, by name: the modes share the drive,
so that each path has its rate less the reads on it; or they alternate, so that a query stands still while reads are
served at the rate of the host's link.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.base.units import format_rate
from penstock.errors import UsageError
from penstock.lab.instorage.drive import DriveRates
from penstock.lab.instorage.machine import InStorage
from penstock.lab.instorage.policies import HostPolicy
from penstock.lab.instorage.queries import Answered, Inside, in_storage, on_host
from penstock.lab.instorage.query import Query
from penstock.scheme.machines.schema import Machine
from penstock.scheme.operations import Word

ROOM = 0.99
"""Share of the host's path that reads may take at most: beyond it a query would hardly move."""


class Modes(Word):
    """How conventional I/O and FHE acceleration divide the drive."""

    SHARED = "shared"
    """Both at once: reads take a part of the channels, the DRAM and the link."""
    ALTERNATE = "alternate"
    """In turns: all paths serve reads, or the query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordinary:
    """A steady stream of whole pages that the host reads, spread evenly over the channels."""

    bytes_per_s: float
    modes: Modes = Modes.SHARED

    @property
    def name(self) -> str:
        """Of the policy in rows."""
        return f"reads-{self.bytes_per_s / 1e9:g}GB/s-{self.modes}"


def most_reads(drive: DriveRates) -> float:
    """The highest rate of ordinary reads that leaves something for a query [bytes/s]."""
    return ROOM * _link(drive)


def left_by(drive: DriveRates, reads: Ordinary) -> DriveRates:
    """Return the drive as a query sees it while reads share it: the rates that are left.

    Raises: UsageError: negative reads, or more than the drive has room for; the message has the most that works.
    """
    if reads.bytes_per_s < 0:
        raise UsageError(f"ordinary reads of {reads.bytes_per_s} bytes a second: a rate is not negative")
    most = most_reads(drive)
    if reads.bytes_per_s > most:
        raise UsageError(
            f"ordinary reads at {format_rate(reads.bytes_per_s)} leave no room for a query: drive '{drive.name}' "
            f"serves its host at {format_rate(_link(drive))} alone; ask for at most {format_rate(most)}"
        )
    return replace(
        drive,
        bus_bytes_per_s=drive.bus_bytes_per_s - reads.bytes_per_s,
        flash_bytes_per_s=drive.flash_bytes_per_s - reads.bytes_per_s,
        array_bytes_per_s=drive.array_bytes_per_s - reads.bytes_per_s,
        dram_bytes_per_s=drive.dram_bytes_per_s - drive.dram_passes * reads.bytes_per_s,
        pcie_bytes_per_s=drive.pcie_bytes_per_s - reads.bytes_per_s,
    )


def in_storage_under(
    query: Query,
    drive: DriveRates,
    accelerator: InStorage,
    reads: Ordinary,
    *,
    batch: int = 1,
    inside: Inside | None = None,
) -> Answered:
    """A batch of queries answered inside the drive while the host reads other data.

    Alternating, a query has the drive for the time that reads leave, and each of its times grows by that share.
    Raises: as `in_storage` and `left_by`.
    """
    left = left_by(drive, reads)
    if reads.modes is Modes.SHARED or not reads.bytes_per_s:
        answered = in_storage(query, left, accelerator, batch=batch, inside=inside)
    else:
        alone = in_storage(query, drive, accelerator, batch=batch, inside=inside)
        share = 1 - reads.bytes_per_s / _link(drive)
        busy = {name: seconds / share for name, seconds in alone.busy.items()}
        # Accelerators that stand still are taken to need no power: the joules stay.
        answered = replace(alone, seconds=alone.seconds / share, busy=busy)
    return _named(answered, reads)


def on_host_under(
    query: Query, drive: DriveRates, machine: Machine, policy: HostPolicy, reads: Ordinary, *, batch: int = 1
) -> Answered:
    """A batch answered by a machine behind PCIe while the host reads other data.

    Its own reads are conventional I/O too, so that the modes never alternate.
    Raises: as `on_host` and `left_by`.
    """
    answered = on_host(query, left_by(drive, reads), machine, policy, batch=batch)
    return _named(answered, replace(reads, modes=Modes.SHARED))


def _named(answered: Answered, reads: Ordinary) -> Answered:
    if not reads.bytes_per_s:
        return answered
    return replace(
        answered,
        policy=f"{answered.policy} {reads.name}",
        ordinary_bytes_per_s=reads.bytes_per_s,
        ordinary_served_bytes_per_s=reads.bytes_per_s,
    )


def _link(drive: DriveRates) -> float:
    """What the drive can serve its host at."""
    return min(drive.pcie_bytes_per_s, drive.flash_bytes_per_s, drive.dram_bytes_per_s / drive.dram_passes)
