"""The idle power of a machine: stated by a person, or counted by its packages while nothing runs."""

from __future__ import annotations

from penstock.base.units import WATT_UNITS, parse_quantity
from penstock.errors import CapabilityMissing, UnitError, UsageError
from penstock.lab.measure.energy import idle_power_w, packages
from penstock.lab.measure.events import Unavailable
from penstock.scheme.machines.figure import Evidence, Figure

MEASURE = "measure"
WATCHED_S = 10.0
"""Long against the update of the counters (a millisecond) and the wake-ups of an idle system."""


def idle_power(text: str) -> Figure:
    """Idle power from `"20 W"`, or from the packages' energy counters for `"measure"`.

    Raises: UsageError: the power is not above zero; CapabilityMissing: no counters to measure with.
    """
    if text == MEASURE:
        return _measured()
    try:
        watts = parse_quantity(text, WATT_UNITS, "--idle-power")
    except UnitError as error:
        raise UsageError(f"{error}; or write '{MEASURE}'") from error
    if not watts > 0:
        raise UsageError(f"--idle-power {text!r}: a machine that is on takes some power; leave it out if it is unknown")
    return Figure(value=watts, text=text, source="stated when the machine was fitted", kind=Evidence.ASSUMED)


def _measured() -> Figure:
    counters = packages()
    if isinstance(counters, Unavailable):
        raise CapabilityMissing(f"idle power cannot be measured: {counters.reason}: {counters.remedy}")
    watts = float(f"{idle_power_w(counters, WATCHED_S):.4g}")
    if not watts > 0:
        raise CapabilityMissing(f"idle power cannot be measured: the counters stood still for {WATCHED_S:.0f} s")
    source = f"package counters over {WATCHED_S:.0f} s without work of penstock; other processes' work is in it"
    return Figure(value=watts, text=f"{watts:g} W", source=source, kind=Evidence.MEASURED)
