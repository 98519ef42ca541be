"""Bytes, seconds, rates, watts: read with their unit at the edge, bytes and seconds inside.

Decimal and binary prefixes are different units: GB = 10^9 bytes, GiB = 2^30, Gb/s = 10^9 bits/s.
A number without a unit is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from penstock.errors import UnitError

WORD_BYTES = 8
"""Bytes of a machine word, which holds one coefficient of one limb in OpenFHE."""

BITS_PER_BYTE = 8
LONGEST = 200
"""Characters of a quantity; the time to look through a text grows with the square of its length."""
PICOSECONDS_PER_SECOND = 1_000_000_000_000

_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_PREFIX = {**_DECIMAL, **_BINARY}

BYTE_UNITS: dict[str, float] = {f"{p}B": m for p, m in _PREFIX.items()}
RATE_UNITS: dict[str, float] = {f"{unit}/s": m for unit, m in BYTE_UNITS.items()} | {
    f"{p}b/s": m / BITS_PER_BYTE for p, m in _PREFIX.items()
}
SECOND_UNITS: dict[str, float] = {
    "ps": 1e-12, "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0,
}  # fmt: skip
HERTZ_UNITS: dict[str, float] = {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9}
WATT_UNITS: dict[str, float] = {"mW": 1e-3, "W": 1.0, "kW": 1e3}
JOULE_UNITS: dict[str, float] = {"pJ": 1e-12, "nJ": 1e-9, "uJ": 1e-6, "mJ": 1e-3, "J": 1.0}
JOULE_PER_BYTE_UNITS: dict[str, float] = {
    "pJ/B": 1e-12,
    "nJ/B": 1e-9,
    "J/B": 1.0,
    "pJ/b": 8e-12,
}
MM2_UNITS: dict[str, float] = {"mm2": 1.0, "mm^2": 1.0}

_QUANTITY = re.compile(r"^\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*([^\d\s].*?)?\s*$")


def parse_quantity(text: str, units: dict[str, float], what: str) -> float:
    """The value of `text` in the base unit of `units`.

    Args:   text: a number and a unit, `"3.5 GB/s"`; units: unit -> factor; what: what is read, for the message.
    Raises: UnitError: not a number, not finite, no unit, an unknown unit, a negative value.
    >>> parse_quantity("400 Gb/s", RATE_UNITS, "bandwidth")
    50000000000.0
    """
    usual = 9 if max(units.values(), default=0) >= 1e6 else 0
    example = min(units, key=lambda unit: abs(math.log10(units[unit]) - usual), default="")
    if isinstance(text, str) and len(text) > LONGEST:
        raise UnitError(
            f"{what} is a text of {len(text)} characters; a quantity is a number and a unit: write for example "
            f"'4 {example}'"
        )
    match = _QUANTITY.match(text) if isinstance(text, str) else None
    if match is None:
        raise UnitError(f"{what} '{text}' is not a number with a unit; write for example '4 {example}'")
    number, unit = float(match.group(1)), _canonical(match.group(2))
    if not unit:
        raise UnitError(f"{what} '{text}' has no unit; write for example '{match.group(1)} {example}'")
    if unit not in units and _names_both(text):
        raise UnitError(f"{what} '{text}' has decimal and binary units, which differ by 7.4 % at GB and GiB; write one")
    if unit not in units:
        raise UnitError(f"{what} '{text}': unknown unit '{unit}'; known: {', '.join(units)}")
    if not math.isfinite(number):
        raise UnitError(f"{what} '{text}' is not finite")
    if number < 0:
        raise UnitError(f"{what} '{text}' is negative")
    value = number * units[unit]
    if not math.isfinite(value):
        raise UnitError(f"{what} '{text}' is too large")
    return value


def _names_both(text: str) -> bool:
    """Whether a decimal and a binary unit of bytes are in one text, as in "80 GB (74.5 GiB)"."""
    return re.search(r"[kKMGTP]B\b", text) is not None and re.search(r"[KMGTP]iB\b", text) is not None


def _split(text: str) -> tuple[str, str]:
    """Number and unit of a text that `parse_quantity` has accepted."""
    match = _QUANTITY.match(text)
    return (match.group(1), _canonical(match.group(2)) or "") if match else ("", "")


def _canonical(unit: str | None) -> str | None:
    """The Greek letter mu and the micro sign are the same prefix."""
    return unit.replace("\N{GREEK SMALL LETTER MU}", "\N{MICRO SIGN}") if unit else unit


def parse_bytes(text: str, what: str = "size") -> int:
    """Bytes of `"16 GiB"`; fractions of a byte are refused.

    >>> parse_bytes("1.5 MiB")
    1572864
    """
    parse_quantity(text, BYTE_UNITS, what)
    number, unit = _split(text)
    value = Fraction(number) * int(BYTE_UNITS[unit])  # exact: a float holds bytes only up to 2^53
    if value.denominator != 1:
        raise UnitError(f"{what} '{text}' is not a whole number of bytes")
    return int(value)


def parse_rate(text: str, what: str = "bandwidth") -> float:
    """Bytes per second of `"7 GB/s"` or `"400 Gb/s"`; zero is refused."""
    value = parse_quantity(text, RATE_UNITS, what)
    if value == 0:
        raise UnitError(f"{what} '{text}' is zero; a bandwidth is positive")
    return value


def parse_percent(text: str) -> float:
    """A percentage as a share; no number where it is none.

    >>> parse_percent("5%"), parse_percent("5")
    (0.05, nan)
    """
    number, sign, rest = text.strip().partition("%")
    try:
        return float(number) / 100 if sign and not rest else math.nan
    except ValueError:
        return math.nan


def parse_seconds(text: str, what: str = "time") -> float:
    """Seconds of `"12.5 us"`."""
    return parse_quantity(text, SECOND_UNITS, what)


def _scaled(value: float, steps: list[tuple[float, str]]) -> tuple[float, str]:
    for factor, unit in steps:
        if abs(value) >= factor:
            return value / factor, unit
    factor, unit = steps[-1]
    return value / factor, unit


def _digits(value: float) -> str:
    """At most four significant digits, without an exponent for everyday sizes."""
    return f"{value:.4g}" if abs(value) < 9999.5 else f"{value:.0f}"


def format_bytes(value: float) -> str:
    """A size in decimal and binary units.

    >>> format_bytes(100663296)
    '100.7 MB (96 MiB)'
    """
    if abs(value) < 1000:
        return f"{_digits(value)} B"
    dec, dec_unit = _scaled(value, [(1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")])
    binary, bin_unit = _scaled(
        value, [(2.0**50, "PiB"), (2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB")]
    )
    return f"{_digits(dec)} {dec_unit} ({_digits(binary)} {bin_unit})"


def format_seconds(value: float) -> str:
    """A duration with the unit that suits it.

    >>> format_seconds(0.0123)
    '12.3 ms'
    """
    if value == 0:
        return "0 s"
    if abs(value) >= 120:
        minutes, seconds = divmod(round(abs(value)), 60)
        return f"{'-' if value < 0 else ''}{minutes} min {seconds} s"
    scaled, unit = _scaled(value, [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"), (1e-12, "ps")])
    return f"{_digits(scaled)} {unit}"


def format_rate(value: float) -> str:
    """A bandwidth in decimal units, as drives and links are sold.

    >>> format_rate(358.4e9)
    '358.4 GB/s'
    """
    scaled, unit = _scaled(value, [(1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")])
    return f"{_digits(scaled)} {unit}"


class UnitOfName(NamedTuple):
    """The unit that a column's name ends in."""

    suffix: str
    sign: str
    text: Callable[[float], str]


_UNITS_OF_NAMES = (
    UnitOfName("bytes_per_s", "B/s", format_rate),
    UnitOfName("bytes", "B", lambda value: format_bytes(value).split(" (")[0]),
    UnitOfName("w", "W", lambda value: f"{_digits(value)} W"),
    UnitOfName("hz", "Hz", lambda value: f"{_digits(value)} Hz"),
    UnitOfName("j", "J", lambda value: f"{_digits(value)} J"),
    UnitOfName("s", "s", format_seconds),
)


def unit_of(name: str) -> UnitOfName | None:
    """The unit that a name ends in (`total_s`, `key_bytes`); `None` where it ends in none, or in another rate.

    >>> unit_of("bandwidth_bytes_per_s").sign, unit_of("hosts"), unit_of("queries_per_s")
    ('B/s', None, None)
    """
    unit = next((unit for unit in _UNITS_OF_NAMES if f"_{name}".endswith(f"_{unit.suffix}")), None)
    return None if unit is None or name == "s" or name.endswith(f"_per_{unit.suffix}") else unit


def format_named(name: str, value: object) -> str:
    """A value as text, in the unit that its name ends in; a dash where it is not known.

    >>> format_named("total_s", 0.0123), format_named("slowdown", 2.53611), format_named("tier", None)
    ('12.3 ms', '2.536', '-')
    """
    if value is None:
        return "-"
    unit = unit_of(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(getattr(value, "value", value))
    if unit is not None:
        return unit.text(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
