"""How the report prints numbers: with their unit, and with no more digits than they carry."""

from __future__ import annotations

import itertools
import math

from penstock.base.units import format_bytes, format_seconds

UNKNOWN = "–"


def seconds(value: float | None) -> str:
    """A duration; a dash where it is unknown."""
    return UNKNOWN if value is None else format_seconds(value)


def size(value: float | None) -> str:
    """A size in decimal and binary units."""
    return UNKNOWN if value is None else format_bytes(value)


def short_size(value: float | None) -> str:
    """A size in decimal units only, where room is short."""
    return UNKNOWN if value is None else format_bytes(value).split(" (")[0]


def count(value: float | None) -> str:
    """A whole number with thousands separated by thin spaces.

    >>> count(12345.0)
    '12\u202f345'
    """
    return UNKNOWN if value is None else f"{round(value):,}".replace(",", "\u202f")


def ratio(value: float | None) -> str:
    """A ratio such as a slowdown, with decimals enough to tell 1.004 from 1.

    >>> ratio(1.004), ratio(26.52), ratio(131.7), ratio(5130.0)
    ('1.00×', '26.5×', '132×', '5\u202f130×')
    """
    if value is None:
        return UNKNOWN
    if not math.isfinite(value):
        return "unlimited"
    decimals = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:,.{decimals}f}×".replace(",", "\u202f")


def percent(value: float | None, digits: int = 1) -> str:
    """A fraction as a percentage.

    >>> percent(0.8333)
    '83.3 %'
    """
    return UNKNOWN if value is None else f"{100 * value:.{digits}f} %"


def significant(value: float | None, digits: int = 4) -> str:
    """A plain number with `digits` significant digits, without an exponent in the everyday range.

    >>> significant(131.7, 3), significant(4.2e-7, 3)
    ('132', '4.2e-07')
    """
    if value is None:
        return UNKNOWN
    if not math.isfinite(value):
        return "unlimited" if value > 0 else str(value)
    if 10**digits <= abs(value) < 1e6:
        return count(value)
    return f"{value:.{digits}g}"


def free(name: str, value: object) -> str:
    """A value whose unit its name tells: `_s`, `_bytes`, `_j`, accuracies as percentages."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if "accuracy" in name:
            return percent(value, 2)
        if name.endswith("_bytes"):
            return size(value)
        if name.endswith("_s"):
            return seconds(value)
        if name.endswith("_j"):
            return f"{significant(value)} J"
        return count(value) if isinstance(value, int) and abs(value) >= 10_000 else significant(value)
    if isinstance(value, list | tuple):
        return run_lengths([free(name, v) for v in value])
    return str(value)


def shortened(text: str, most: int) -> str:
    """`text` cut to `most` characters, for places without room.

    >>> shortened("a100-tensorfhe", 6)
    'a100-…'
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def run_lengths(values: list[str]) -> str:
    """`60, 50 × 9` for one 60 and nine times 50."""
    groups = [(value, len(list(run))) for value, run in itertools.groupby(values)]
    return ", ".join(value if n == 1 else f"{value} × {n}" for value, n in groups) or UNKNOWN


def words(name: str) -> str:
    """A column or field name as words: `max_abs_error` is `max abs error`."""
    for suffix in ("_bytes", "_s", "_j"):
        name = name.removesuffix(suffix)
    return name.replace("_", " ")
