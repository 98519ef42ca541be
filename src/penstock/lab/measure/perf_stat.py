"""What `perf stat -x` prints, as in perf-stat(1), "CSV FORMAT"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.lab.measure.events import EventRow, Processor, Unavailable, base_name, canonical

SEPARATOR = ";"
"""No event name and no number of any locale holds it."""

_UNITS = {"": (1.0, "1"), "msec": (1e-3, "s"), "ns": (1e-9, "s"), "Joules": (1.0, "J"), "Bytes": (1.0, "B")}
_FULL_SHARE = 0.9995
"""perf prints the share in hundredths of a percent; above this the event was never taken off its counter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatLine:
    """One line of `perf stat -x`: an event of one performance-monitoring unit."""

    event: str
    """As perf prints it: with unit prefix and modifier."""
    value: float | int | None
    unit: str
    state: str
    """`counted`, `not-counted`, `not-supported` or `unreadable`."""
    running_share: float
    """Part of the enabled time during which it was on a counter, 0..1; perf has extrapolated from it."""

    @property
    def user_only(self) -> bool:
        """Counted in user mode only: what perf falls back to without permission for the kernel."""
        return self.event.rpartition(":")[2] == "u" if ":" in self.event else self.event.endswith("/u")


def number(text: str) -> float | int:
    """A number as perf prints it with `-x`, whatever the locale: digits are never grouped, so a comma is decimal.

    Raises: ValueError: not a number.
    >>> number("1234567"), number("402.43"), number("402,43")
    (1234567, 402.43, 402.43)
    """
    text = text.strip().replace(",", ".").replace("\u066b", ".")
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)


def parse_stat(text: str, separator: str = SEPARATOR) -> list[StatLine]:
    """The events of `perf stat -x` output; comments, metric-only lines and perf's own messages are passed over.

    A line is value, unit, event, [variance with -r,] run time in ns, share of the time in percent, metric, its unit.
    >>> parse_stat("<not supported>;;cycles;0;100.00;;")[0].state
    'not-supported'
    """
    readings = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        fields = _fields(line, separator)
        if len(fields) < 5 or not fields[2]:
            continue
        value, unit, event, *rest = fields
        if rest[0].endswith("%"):
            rest = rest[1:]
        state, parsed = _state(value)
        if state == "unreadable" and not _is_number(unit):
            continue
        factor, base_unit = _UNITS.get(unit, (1.0, unit))
        share = number(rest[1]) / 100 if len(rest) > 1 and _is_number(rest[1]) else 1.0
        if unit not in _UNITS and _is_number(unit):
            # "0,78,msec,task-clock": a decimal comma shifted every field.
            state, parsed, event, base_unit = "unreadable", None, fields[3], "1"
        if parsed is not None and factor != 1.0:
            parsed = parsed * factor
        readings.append(
            StatLine(
                event=event,
                value=parsed,
                unit=base_unit,
                state=state,
                running_share=share if state == "counted" else 0.0,
            )
        )
    return readings


def _fields(line: str, separator: str) -> list[str]:
    """The fields of a line; a separator inside `unit/…/` belongs to the event's name."""
    fields, inside = [""], False
    for character in line:
        if character == "/" and len(fields) == 3:
            inside = not inside
        if character == separator and not inside:
            fields.append("")
        else:
            fields[-1] += character
    return [f.strip() for f in fields]


def _state(value: str) -> tuple[str, float | int | None]:
    if value == "<not counted>":
        return "not-counted", None
    if value == "<not supported>":
        return "not-supported", None
    return ("counted", number(value)) if _is_number(value) else ("unreadable", None)


def _is_number(text: str) -> bool:
    try:
        number(text)
    except ValueError:
        return False
    return bool(text.strip())


def to_rows(
    asked: Sequence[str],
    readings: Iterable[StatLine],
    processor: Processor,
    missing: dict[str, Unavailable] | None = None,
    counted_as: dict[str, str] | None = None,
) -> list[EventRow]:
    """One row for every event asked for, from what perf printed.

    Events of the two kinds of cores of a hybrid processor are added; each ran only while the region was on its kind.

    Args:   missing: events that were not given to perf, and why; counted_as: event -> name that stood in for it.
    """
    by_name: dict[str, list[StatLine]] = {}
    for reading in readings:
        for name in {reading.event.lower(), base_name(reading.event).lower()}:
            by_name.setdefault(name, []).append(reading)
    rows = []
    for event in asked:
        stand_in = (counted_as or {}).get(event, "")
        if missing and event in missing:
            rows.append(missing[event].row(event))
            continue
        name = (stand_in or event).lower()
        lines = by_name.get(name) or by_name.get(base_name(name), [])
        rows.append(_row(event, lines, processor, stand_in))
    return rows


def _row(event: str, lines: list[StatLine], processor: Processor, counted_as: str) -> EventRow:
    unit = lines[0].unit if lines else "1"
    counted = [r for r in lines if r.state == "counted" and r.value is not None]
    if not all(r.event.startswith("cpu_") for r in counted):
        counted = counted[:1]  # the same event asked for twice; only kinds of cores are added
    if not counted:
        return why_nothing(event, lines, processor).row(event, unit)
    if any(r.user_only for r in counted) and canonical(event) in ("context-switches", "cpu-migrations"):
        return Unavailable(
            "it happens inside the kernel, which this user may not count (perf_event_paranoid is 2 or more)",
            "sysctl -w kernel.perf_event_paranoid=1 (as root)",
        ).row(event)
    value: float | int = counted[0].value or 0
    share = min(sum(r.running_share for r in counted), 1.0) if len(counted) > 1 else counted[0].running_share
    if share <= 0:
        return why_nothing(event, lines, processor).row(event, unit)
    if len(counted) > 1:
        # perf extrapolates each kind of core to the whole region: take that back before adding.
        total = sum((r.value or 0) * r.running_share for r in counted)
        value = total / share if share < _FULL_SHARE else total
        value = round(value) if unit == "1" else value
    notes = [] if counted_as else [processor.meaning(event)]
    if any(r.user_only for r in counted):
        notes.append("user mode only")
    if len(counted) > 1:
        notes.append("both kinds of cores added")
    full = share >= _FULL_SHARE
    return EventRow(
        event=event,
        value=value,
        unit=unit,
        status="ok" if full else "scaled",
        running_share=share,
        reason="" if full else f"counted {share:.1%} of the time and extrapolated by perf: counters were shared",
        remedy="" if full else "--exact runs the workload once for each group of events; or ask for fewer events",
        counted_as=counted_as,
        note="; ".join(n for n in notes if n),
    )


def why_nothing(event: str, lines: list[StatLine], processor: Processor) -> Unavailable:
    """Why an event has no value, from the lines that perf printed of it."""
    states = {r.state for r in lines}
    if "not-supported" in states and "not-counted" not in states:
        return processor.why_unsupported(event)
    if "unreadable" in states:
        return Unavailable(
            "perf wrote a number that cannot be read (a decimal comma with ',' between the fields?)",
            "report it with the raw output in the run folder",
        )
    if lines:
        return Unavailable(
            "no counter was free while the region ran, or nothing of it ran",
            "--exact, fewer events, or a longer region; 'sysctl -w kernel.nmi_watchdog=0' frees one counter",
        )
    return Unavailable("perf printed nothing for this event", "report it with the raw output in the run folder")
