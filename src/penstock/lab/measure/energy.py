"""Energy of the processor packages by RAPL, the counters that Intel and AMD processors keep.

`/sys/class/powercap/intel-rapl:N/energy_uj` (the name is Intel's on AMD too; Linux
Documentation/power/powercap/powercap.rst) counts microjoules up to `max_energy_range_uj` and starts again at 0.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from penstock.base.units import JOULE_UNITS
from penstock.lab.measure.events import EventRow, Processor, Unavailable

POWERCAP = Path("/sys/class/powercap")
POLL_S = 20.0
"""Well below the shortest time in which a counter starts again (about a minute at 1 kW for a 65 kJ range)."""


@dataclass(frozen=True, slots=True)
class CpuPackage:
    """One processor package and its counter."""

    name: str
    counter: Path
    range_uj: int

    def read_uj(self) -> int:
        return int(self.counter.read_text())


def used_uj(before: int, after: int, range_uj: int) -> int:
    """Microjoules between two readings, which lie less than one turn of the counter apart.

    >>> used_uj(100, 250, 1000), used_uj(900, 50, 1000)
    (150, 150)
    """
    return after - before if after >= before else after + range_uj - before


def packages(root: Path = POWERCAP) -> list[CpuPackage] | Unavailable:
    """The packages whose energy can be read, or why there is none.

    Sub-domains (cores, memory), the whole platform (`psys`) and the second interface `intel-rapl-mmio` are left out:
    they count the same energy again.
    """
    zones = []
    for zone in sorted(root.glob("intel-rapl:*")):
        try:
            name = (zone / "name").read_text().strip()
        except OSError:
            continue
        if name.startswith("package"):
            zones.append((zone, name))
    if not zones:
        virtual = Processor.here().hypervisor
        where = "this virtual machine shows no RAPL counters" if virtual else "the kernel shows no RAPL counters"
        return Unavailable(
            f"{where} ({root} has no package of intel-rapl)",
            "measure on hardware" if virtual else "modprobe intel_rapl_msr (as root); AMD needs Linux 5.11 or newer",
        )
    made = []
    for zone, name in zones:
        try:
            package = CpuPackage(name, zone / "energy_uj", int((zone / "max_energy_range_uj").read_text()))
            package.read_uj()
        except PermissionError:
            return Unavailable(
                f"{zone / 'energy_uj'} may be read by root only",
                f"chmod a+r {root}/intel-rapl:*/energy_uj (as root), or run as root",
            )
        except (OSError, ValueError) as error:
            return Unavailable(f"{zone} cannot be read: {error}", "see dmesg")
        made.append(package)
    return made


class EnergyMeter:
    """Adds up the packages' energy between `on` and `off`; a thread reads often enough to see every turn."""

    def __init__(self, counters: list[CpuPackage], poll_s: float = POLL_S) -> None:
        self._packages = counters
        self._poll_s = poll_s
        self._used_uj = 0
        self._last: list[int] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def on(self) -> None:
        """Count from now on."""
        self._last = [p.read_uj() for p in self._packages]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, args=(self._stop,), daemon=True)
        self._thread.start()

    def off(self) -> None:
        """Stop counting; `on` continues from here."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None
            self._advance()

    def switch(self, on: bool) -> None:
        """`on` or `off`."""
        (self.on if on else self.off)()

    @property
    def joules(self) -> float:
        """Energy of all packages so far, in J."""
        return self._used_uj * JOULE_UNITS["uJ"]

    def _poll(self, stop: threading.Event) -> None:
        while not stop.wait(self._poll_s):
            self._advance()

    def _advance(self) -> None:
        now = [p.read_uj() for p in self._packages]
        for package, before, after in zip(self._packages, self._last, now, strict=True):
            self._used_uj += used_uj(before, after, package.range_uj)
        self._last = now


@cache
def _packages_here() -> tuple[CpuPackage, ...]:
    counters = packages()
    return () if isinstance(counters, Unavailable) else tuple(counters)


@contextmanager
def metered(wanted: bool = True) -> Iterator[Callable[[], float | None]]:
    """Meter the block if this machine can; the yielded value tells the joules afterwards, or `None`."""
    counters = list(_packages_here()) if wanted else []
    if not counters:
        yield lambda: None
        return
    meter = EnergyMeter(counters)
    meter.on()
    try:
        yield lambda: meter.joules
    finally:
        meter.off()


def idle_power_w(counters: list[CpuPackage], seconds: float) -> float:
    """Mean power of the packages over `seconds` in which this program does nothing, in W."""
    meter = EnergyMeter(counters)
    meter.on()
    started = time.monotonic()
    time.sleep(seconds)
    meter.off()
    return meter.joules / (time.monotonic() - started)


def energy_rows(
    joules: float | Unavailable, wall_s: float | None, idle_w: float | None, idle_asked: bool
) -> list[EventRow]:
    """Energy and mean power of a region, idle power, and the energy above idle."""
    if isinstance(joules, Unavailable):
        rows = [joules.row("energy-pkg", "J", "rapl"), joules.row("power-pkg", "W", "rapl")]
        return rows + ([joules.row("idle-power-pkg", "W", "rapl")] if idle_asked else [])

    def row(event: str, value: float, unit: str, note: str = "") -> EventRow:
        return EventRow(event=event, value=value, unit=unit, status="ok", source="rapl", note=note)

    rows = [row("energy-pkg", joules, "J", "whole packages: other processes count too")]
    if wall_s:
        rows.append(row("power-pkg", joules / wall_s, "W", "mean over the region"))
    if idle_w is not None:
        rows.append(row("idle-power-pkg", idle_w, "W", "while the workload waited"))
        if wall_s:
            rows.append(row("energy-pkg-above-idle", joules - idle_w * wall_s, "J"))
    return rows
