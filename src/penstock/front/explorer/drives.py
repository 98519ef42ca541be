"""Drives on the what-if page: a scan by the simulator of drives, and how long each of its parts was busy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.front.explorer.state import State

if TYPE_CHECKING:
    from penstock.lab.instorage.flash.scan import ScanResult


SCAN_BYTES = 10**9
"""The scanned size: long enough for a steady state at every queue depth."""


def names() -> list[str]:
    """Drives of the catalogue."""
    from penstock.scheme.machines.drives import drive_names

    return drive_names()


def scan(state: State) -> ScanResult:
    """A scan of `SCAN_BYTES`; it ends at `pcie` through DRAM and PCIe to the host, at `none` out of error correction.

    Raises: UnknownName: no such drive; UsageError: the drive is smaller than the scan.
    """
    from penstock.lab.instorage.flash.scan import scan_drive
    from penstock.lab.instorage.flash.spec import Scan, ScanEngine, ScanPattern, ScanTarget
    from penstock.scheme.machines.drives import load_drive

    asked = Scan(size_bytes=SCAN_BYTES, pattern=ScanPattern(state.pattern), queue_depth=state.queue_depth)
    engine = ScanEngine.JUMP if state.pattern == "sequential" else ScanEngine.EVENTS
    return scan_drive(load_drive(state.drive), asked, host=ScanTarget(state.scan_end), engine=engine)


def argv(state: State) -> list[str]:
    """The command that does the same scan."""
    engine = "jump" if state.pattern == "sequential" else "events"
    words = ["penstock", "ssd", "scan", "--drive", state.drive, "--pattern", state.pattern]
    words += ["--queue-depth", str(state.queue_depth), "--host", state.scan_end, "--engine", engine]
    return [*words, "--size", "1 GB", "--details"]
