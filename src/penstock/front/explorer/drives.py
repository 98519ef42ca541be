"""Drives on the what-if page: a scan by the simulator of drives, and how long each of its parts was busy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.lab.instorage.flash.scan import ScanResult


SCAN_BYTES = 10**9
"""The scanned size: long enough for a steady state at every queue depth."""


def names() -> list[str]:
    """Drives of the catalogue."""
    from penstock.scheme.machines.drives import drive_names

    return drive_names()


def scan(drive: str, pattern: str, queue_depth: int, end: str) -> ScanResult:
    """A scan of `SCAN_BYTES`; `end`: `pcie` through DRAM and PCIe to the host, `none` out of error correction.

    Raises: UnknownName: no such drive; UsageError: the drive is smaller than the scan.
    """
    from penstock.lab.instorage.flash.scan import scan_drive
    from penstock.lab.instorage.flash.spec import Scan, ScanEngine, ScanPattern, ScanTarget
    from penstock.scheme.machines.drives import load_drive

    asked = Scan(size_bytes=SCAN_BYTES, pattern=ScanPattern(pattern), queue_depth=queue_depth)
    engine = ScanEngine.JUMP if pattern == "sequential" else ScanEngine.EVENTS
    return scan_drive(load_drive(drive), asked, host=ScanTarget(end), engine=engine)


def argv(drive: str, pattern: str, queue_depth: int, end: str) -> list[str]:
    """The command that does the same scan."""
    engine = "jump" if pattern == "sequential" else "events"
    words = ["penstock", "ssd", "scan", "--drive", drive, "--pattern", pattern, "--queue-depth", str(queue_depth)]
    return [*words, "--host", end, "--engine", engine, "--size", "1 GB", "--details"]
