"""The idle power of a machine: stated by a person, or counted by its packages while nothing runs."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.base.units import WATT_UNITS, parse_quantity
from penstock.errors import CapabilityMissing, UnitError, UsageError
from penstock.lab.measure.energy import EnergyMeter, packages
from penstock.lab.measure.events import Unavailable
from penstock.scheme.machines.figure import Evidence, Figure

MEASURE = "measure"
WATCHED_S = 10.0
"""Long against the update of the counters (a millisecond) and the wake-ups of an idle system."""


def idle_power(text: str, *, watched_s: float = WATCHED_S, sleep: Callable[[float], None] = time.sleep) -> Figure:
    """Idle power from `"20 W"`, or from the packages' energy counters for `"measure"`.

    Raises: UsageError: the power is not above zero; CapabilityMissing: no counters to measure with.
    """
    if text == MEASURE:
        return _measured(watched_s, sleep)
    try:
        watts = parse_quantity(text, WATT_UNITS, "--idle-power")
    except UnitError as error:
        raise UsageError(f"{error}; or write '{MEASURE}'") from error
    if not watts > 0:
        raise UsageError(f"--idle-power {text!r}: a machine that is on takes some power; leave it out if it is unknown")
    return Figure(value=watts, text=text, source="stated when the machine was fitted", kind=Evidence.ASSUMED)


def _measured(watched_s: float, sleep: Callable[[float], None]) -> Figure:
    counters = packages()
    if isinstance(counters, Unavailable):
        raise CapabilityMissing(f"idle power cannot be measured: {counters.reason}: {counters.remedy}")
    meter = EnergyMeter(counters)
    meter.on()
    start = time.perf_counter()
    sleep(watched_s)
    elapsed = time.perf_counter() - start
    meter.off()
    watts = float(f"{meter.joules / elapsed:.4g}")
    if not watts > 0:
        raise CapabilityMissing(f"idle power cannot be measured: the counters stood still for {elapsed:.0f} s")
    source = f"package counters over {elapsed:.0f} s without work of penstock; other processes' work is in it"
    return Figure(value=watts, text=f"{watts:g} W", source=source, kind=Evidence.MEASURED)
