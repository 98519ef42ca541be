"""A drive as an in-storage query sees it: a few rates, from its closed forms."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.lab.instorage.flash import closed_form as ssd_closed_form
from penstock.scheme.machines.drives import Drive, load_drive


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
    """All channels together, sequential reads: commands and the dies' own cycle included."""
    array_bytes_per_s: float
    """All planes sensing: the tR bound."""
    dram_bytes_per_s: float
    dram_capacity_bytes: int
    dram_passes: int
    """How often a page for the host crosses the DRAM; accelerators in the drive read before it."""
    pcie_bytes_per_s: float
    """Payload."""


_OWN = (
    "name", "channels", "page_bytes", "capacity_bytes", "dram_bytes_per_s", "dram_capacity_bytes", "dram_passes",
)  # fmt: skip


def drive_rates(drive: Drive | str) -> DriveRates:
    """The rates of a drive, or of the one of that name.

    The array gives planes x page / tR; its sequential output is `ssd_closed_form.scan_rate`.
    Raises: as `load_drive`.
    """
    drive = load_drive(drive) if isinstance(drive, str) else drive
    array = drive.planes * drive.page_bytes / drive.sense_s if drive.sense_s else float("inf")
    return DriveRates(
        **{name: getattr(drive, name) for name in _OWN},
        geometry_bytes=drive.raw_bytes,
        bus_bytes_per_s=ssd_closed_form.bus_rate(drive),
        flash_bytes_per_s=ssd_closed_form.scan_rate(drive),
        array_bytes_per_s=array,
        pcie_bytes_per_s=drive.host_link_bytes_per_s,
    )
