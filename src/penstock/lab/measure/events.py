"""Processor and software events: their names and meaning on each vendor, and their groups.

A name stays the reader's; processors count different things under it: `events.toml` says what, and by which source.
"""

from __future__ import annotations

import difflib
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.base.system import toml
from penstock.base.types import Row
from penstock.errors import cut
from penstock.lab.measure.grouping import grouped

_WRITTEN = toml.packaged("penstock.lab.measure", "events.toml")
TABLE_4: dict[str, list[str]] = _WRITTEN["table_4"]
"""The events of CryptOracle's Table 4, by category."""
SOFTWARE: list[str] = _WRITTEN["software"]
"""Events that the kernel counts itself: they work where the processor shows no counters."""
DEFAULT_EVENTS: tuple[str, ...] = (
    *(name for names in TABLE_4.values() for name in names),
    *(name for name in SOFTWARE if name not in TABLE_4["page-faults"]),
)
SYNONYMS: dict[str, str] = _WRITTEN["synonyms"]
KNOWN_NAMES: tuple[str, ...] = (*DEFAULT_EVENTS, *_WRITTEN["known"])
"""Names that every perf knows, to suggest the nearest for an unknown one."""
FALLBACKS: dict[str, dict[str, list[str]]] = _WRITTEN["fallbacks"]
"""Vendor's own names, tried in order where a processor has no event of the general name."""
ABSENT: dict[str, dict[str, tuple[str, str]]] = {
    vendor: {event: (absent["why"], absent["instead"]) for absent in listed for event in absent["events"]}
    for vendor, listed in _WRITTEN["absent"].items()
}
"""Why a general name has no event on a vendor's processors, and what to take instead."""
MEANINGS: dict[str, dict[str, str]] = _WRITTEN["meanings"]
"""What a general name counts on each vendor's processors; the same name may not be compared across vendors."""
RATIOS: dict[str, tuple[str, str]] = _WRITTEN["ratios"]
"""What is derived from two counted events: the first over the second."""

GROUP_SIZE = 4
"""Events that count at the same time: the general counters that every x86 core since 2011 leaves free."""

_EVENT = re.compile(r"(?:[^,/]|/[^/]*/?)+")
_MODIFIER = re.compile(r":[a-zA-Z]+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One event of one region of interest. `value` is `None` where it is unavailable; it is never 0 then."""

    event: str
    value: float | int | None
    unit: str
    status: str
    """`ok`; `scaled`: counted only a part of the time and extrapolated; `unavailable`."""
    running_share: float | None = None
    """Part of the region during which the event was really counted."""
    reason: str = ""
    remedy: str = ""
    source: str = "perf"
    """`perf`, `getrusage`, `rapl`, `clock`, `callgrind`, or `derived` from other rows."""
    counted_as: str = ""
    """The event that was counted, where it is not the general name."""
    note: str = ""
    samples: tuple[float, ...] = ()
    """The value of each run; `value` is their median."""
    provenance: str = "measured"

    def to_row(self) -> Row:
        """The row as printed."""
        row = asdict(self)
        row["samples"] = list(self.samples)
        return row


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why something is missing, and what to do about it."""

    reason: str
    remedy: str

    def row(self, event: str, unit: str = "1", source: str = "perf") -> EventRow:
        """The row of an event that is missing for this reason."""
        return EventRow(event=event, value=None, unit=unit, status="unavailable", source=source, **asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """What of the processor decides which events exist."""

    vendor: str
    """`AMD`, `Intel`, or the processor's own name."""
    has_counters: bool
    """The kernel drives a performance-monitoring unit of the cores."""
    hypervisor: bool

    @classmethod
    def here(cls, cpuinfo: str | None = None, devices: Path = Path("/sys/bus/event_source/devices")) -> Processor:
        """The processor of this machine."""
        if cpuinfo is None:
            try:
                cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
            except OSError:
                cpuinfo = ""
        vendor_id = re.search(r"^vendor_id\s*:\s*(\S+)", cpuinfo, re.MULTILINE)
        vendor = {"AuthenticAMD": "AMD", "HygonGenuine": "AMD", "GenuineIntel": "Intel"}.get(
            vendor_id.group(1) if vendor_id else "", vendor_id.group(1) if vendor_id else platform.machine()
        )
        flags = re.search(r"^flags\s*:(.*)$", cpuinfo, re.MULTILINE)
        try:
            pmus = [path.name for path in devices.iterdir()]
        except OSError:
            pmus = []
        return cls(
            vendor=vendor,
            has_counters=any(name == "cpu" or name.startswith(("cpu_", "armv")) for name in pmus),
            hypervisor=bool(flags and " hypervisor" in flags.group(1)),
        )

    def why_unsupported(self, event: str) -> Unavailable:
        """Why the processor does not count an event that perf knows."""
        if not self.has_counters:
            where = "this virtual machine shows" if self.hypervisor else "the kernel shows"
            return Unavailable(
                f"{where} no hardware counters (no 'cpu' unit in /sys/bus/event_source/devices)",
                "measure on hardware, or let the hypervisor pass its counters (KVM: -cpu host,pmu=on); software events "
                "work here, and 'penstock profile --callgrind' counts instructions at tiny sizes",
            )
        known = ABSENT.get(self.vendor, {}).get(canonical(event))
        if known is not None:
            return Unavailable(*known)
        return Unavailable(f"this {self.vendor} processor has no event for '{event}'", "'perf list' shows what it has")

    def meaning(self, event: str) -> str:
        """What a general name counts here, where vendors differ."""
        return MEANINGS.get(self.vendor, {}).get(canonical(event), "")

    def fallbacks(self, event: str) -> tuple[str, ...]:
        """The vendor's own names for a general event."""
        return tuple(FALLBACKS.get(self.vendor, {}).get(canonical(event), ()))


def parse_events(text: str) -> list[str]:
    """The events of `--events a,b`; commas inside `cpu/event=0x3c,umask=0/` do not separate.

    >>> parse_events("instructions, cpu/event=0x3c,umask=0/,LLC-loads")
    ['instructions', 'cpu/event=0x3c,umask=0/', 'LLC-loads']
    """
    return unique(event for part in _EVENT.findall(text) if (event := part.strip()))


def unique(names: Iterable[str]) -> list[str]:
    """`names` without repetitions, in order."""
    return list(dict.fromkeys(names))


def base_name(event: str) -> str:
    """An event's name without unit and modifier.

    >>> base_name("cpu_core/instructions/u"), base_name("instructions:u"), base_name("cpu/event=0x3c,umask=0/")
    ('instructions', 'instructions', 'cpu/event=0x3c,umask=0/')
    """
    event = _MODIFIER.sub("", event)
    match = re.fullmatch(r"cpu(?:_core|_atom)?/([\w.-]+)/[a-zA-Z]*", event)
    return match.group(1) if match else event


def canonical(event: str) -> str:
    """The general name of an event: unit and modifier off, synonyms and letter case resolved.

    >>> canonical("cycles:u"), canonical("cpu_atom/branch-instructions/"), canonical("dtlb-loads")
    ('cpu-cycles', 'branches', 'dTLB-loads')
    """
    name = base_name(event)
    lower = {known.lower(): known for known in KNOWN_NAMES}
    name = lower.get(name.lower(), name)
    return SYNONYMS.get(name, name)


def is_software(event: str) -> bool:
    """Whether the kernel counts the event itself.

    >>> is_software("faults"), is_software("cpu-cycles")
    (True, False)
    """
    return canonical(event) in (*SOFTWARE, "cpu-clock", "alignment-faults", "emulation-faults")


def nearest(event: str, known: Iterable[str] = ()) -> str | None:
    """The known event whose name is closest, or `None`.

    >>> nearest("instrucions"), nearest("dTLB-load-mises"), nearest("zzz")
    ('instructions', 'dTLB-load-misses', None)
    """
    if cut(event) != event:  # it takes the square of its length
        return None
    names = {name.lower(): name for name in (*known, *KNOWN_NAMES)}
    close = difflib.get_close_matches(event.lower(), names, n=1, cutoff=0.6)
    return names[close[0]] if close else None


def unknown_event(event: str, known: Iterable[str] = ()) -> Unavailable:
    """perf does not know this name."""
    close = nearest(event, known)
    hint = f"did you mean '{close}'? " if close else ""
    return Unavailable(f"perf knows no event '{cut(event)}'", f"{hint}'perf list' shows the names")


def group(events: Sequence[str]) -> list[list[str]]:
    """Events that are counted together: hardware events in groups of `GROUP_SIZE`, software events one by one.

    Events of one category stay together, so that ratios between them are taken from the same time.

    >>> group(["instructions", "cpu-cycles", "page-faults", "cache-misses"])
    [['instructions', 'cpu-cycles'], ['cache-misses'], ['page-faults']]
    """
    category = {name: i for i, names in enumerate(TABLE_4.values()) for name in names}
    hardware = (event for event in events if not is_software(event))
    by_category = grouped(hardware, lambda event: category.get(canonical(event), len(TABLE_4)))
    groups = [
        members[i : i + GROUP_SIZE]
        for _, members in sorted(by_category.items())
        for i in range(0, len(members), GROUP_SIZE)
    ]
    return groups + [[event] for event in events if is_software(event)]


def derived_rows(rows: Sequence[EventRow], wall_s: float | None) -> list[EventRow]:
    """Ratios that come from counted events: `unavailable` where one of their terms is."""
    by_name = {canonical(row.event): row for row in rows}

    def derived(event: str, value: float, note: str, status: str = "ok") -> EventRow:
        return EventRow(event=event, value=value, unit="1", status=status, source="derived", note=note)

    def ratio(name: str, top: str, bottom: str) -> EventRow:
        a, b = by_name[top], by_name[bottom]
        if a.value is None or b.value is None:
            lacking = Unavailable("it is a ratio of events that are unavailable", "see the reason there")
            return lacking.row(name, source="derived")
        if b.value == 0:
            return Unavailable(f"{bottom} was 0 in the region", "profile a longer region").row(name, source="derived")
        scaled = "scaled" in (a.status, b.status)
        return derived(name, a.value / b.value, f"{top} / {bottom}", "scaled" if scaled else "ok")

    made = []
    for name, (top, bottom) in RATIOS.items():
        if {top, bottom} <= set(by_name):
            made.append(ratio(name, top, bottom))
    clock = by_name.get("task-clock")
    if clock is not None and clock.value is not None and wall_s:
        made.append(derived("cores-used", clock.value / wall_s, "task-clock / wall-time"))
    return made
