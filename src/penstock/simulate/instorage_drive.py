"""A drive as an in-storage query sees it: a few rates, from its closed forms."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.machines.drives import Drive, load_drive


@dataclass(frozen=True, slots=True, kw_only=True)
class DriveRates:
    """Bytes a second of each path, and what fits."""

    name: str
    channels: int
    page_bytes: int
    capacity_bytes: int
    """What data may fill."""
    geometry_bytes: int
    """Of all its pages, spare ones included."""
    bus_bytes_per_s: float
    """All channels together, data alone."""
    flash_bytes_per_s: float
    """All channels together, sequential reads, commands included."""
    array_bytes_per_s: float
    """All planes sensing: the tR bound."""
    dram_bytes_per_s: float
    dram_capacity_bytes: int
    dram_passes: int
    """How often a page for the host crosses the DRAM; accelerators in the drive read before it."""
    pcie_bytes_per_s: float
    """Payload."""


def drive_rates(drive: Drive | str) -> DriveRates:
    """The rates of a drive, or of the one of that name.

    A command on a channel's bus reads p planes of a die (1 without multi-plane reads): p pages take
    p t_x + t_command + (p - 1) t_plane of the bus, while other dies sense; the array gives planes x page / tR.
    Raises: as `load_drive`.
    """
    found = load_drive(drive) if isinstance(drive, str) else drive
    together = found.planes_per_die if found.multi_plane else 1
    transfer_s = found.page_bytes / found.channel_bytes_per_s
    command_s = found.read_command_s + (together - 1) * found.further_plane_s
    array = found.planes * found.page_bytes / found.sense_s if found.sense_s else float("inf")
    bus = found.channels * together * found.page_bytes / (together * transfer_s + command_s)
    return DriveRates(
        name=found.name,
        channels=found.channels,
        page_bytes=found.page_bytes,
        capacity_bytes=found.capacity_bytes,
        geometry_bytes=found.raw_bytes,
        bus_bytes_per_s=found.channels * found.channel_bytes_per_s,
        flash_bytes_per_s=min(bus, array),
        array_bytes_per_s=array,
        dram_bytes_per_s=found.dram_bytes_per_s,
        dram_capacity_bytes=found.dram_capacity_bytes,
        dram_passes=found.dram_passes,
        pcie_bytes_per_s=found.host_link_bytes_per_s,
    )
