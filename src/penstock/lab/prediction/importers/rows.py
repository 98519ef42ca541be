"""The common part of the importers: refused and omitted rows, and checks of numbers before they count."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.base.system.outside import content_of, decoded
from penstock.errors import UsageError


class BadTiming(UsageError):
    """A row that no measurement can have; the message names file and row, the rule and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The place and time of the measurements; `None`: the file does not say."""

    cpu: str | None = None
    """Name of the model."""
    library: str | None = None
    date: str | None = None
    noise: float | None = None
    """Spread of a fixed piece of work meanwhile, relative to its median."""

    def __str__(self) -> str:
        """
        >>> str(Origin(cpu="AMD EPYC", library="OpenFHE 1.6.1", noise=0.04))
        'AMD EPYC, OpenFHE 1.6.1, a fixed piece of work spread by 4% meanwhile'
        """
        noise = None if self.noise is None else f"a fixed piece of work spread by {self.noise:.0%} meanwhile"
        return ", ".join(part for part in (self.cpu, self.library, self.date, noise) if part)


@dataclass(slots=True, kw_only=True)
class ImportLog:
    """The fate of the rows that gave no measurement, and the file's other statements."""

    skip_bad: bool = False
    """Leave bad rows out and list them, instead of stopping at the first."""
    bad: list[str] = field(default_factory=list)
    """The fault of each omitted row."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Reason -> timings that are sound but of something that no machine is fitted to."""
    used: Counter[str] = field(default_factory=Counter)
    """File -> timings that became measurements, where a folder of files was read."""
    warnings: list[str] = field(default_factory=list)
    """Warnings about the timings in use."""
    origins: dict[str, Origin] = field(default_factory=dict)
    """File or folder -> where its timings were made."""

    def refuse(self, message: str) -> None:
        """A bad row. Raises: BadTiming: unless bad rows are skipped."""
        if not self.skip_bad:
            raise BadTiming(f"{message}; mend the row, or leave such rows out with --skip-bad")
        self.bad.append(message)

    def leave_out(self, reason: str, timings: int = 1) -> None:
        """Sound timings that are not used, and why."""
        self.left_out[reason] += timings


def number(text: object, what: str, rule: str) -> float:
    """A finite number.

    Raises: ValueError: it is missing, no number, NaN or infinite; the text goes behind file and row.
    >>> number("2.5e-3", "the time", "seconds")
    0.0025
    """
    if text is None or (isinstance(text, str) and text.strip() in ("", "N/A")):
        raise ValueError(f"{what} is missing; it is a number ({rule})")
    try:
        value = float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError(f"{what} is {text!r}, which is not a number ({rule})") from None
    if not math.isfinite(value):
        raise ValueError(f"{what} is {text!r}; it is a finite number ({rule})")
    return value


def positive_seconds(text: object, what: str) -> float:
    """A time in seconds.

    Raises: ValueError: as `number`; it is zero or negative.
    """
    value = number(text, what, "seconds")
    if value <= 0:
        raise ValueError(f"{what} is {text}; a time is more than zero seconds")
    return value


def energy_joules(text: object, what: str) -> float | None:
    """An energy in joules, or `None` where it was not measured.

    Raises: ValueError: it is negative or no number.
    """
    if text is None or (isinstance(text, str) and text.strip() in ("", "N/A", "NaN", "nan")):
        return None
    value = number(text, what, "joules")
    if value < 0:
        raise ValueError(f"{what} is {text}; an energy is not negative")
    return value


def whole(text: object, what: str, lowest: int, highest: int) -> int:
    """A whole number from `lowest` to `highest`.

    Raises: ValueError: it is none.
    """
    value = number(text, what, f"{lowest} to {highest}")
    if value != int(value) or not lowest <= value <= highest:
        raise ValueError(f"{what} is {text}; it is a whole number from {lowest} to {highest}")
    return int(value)


def spread(values: Sequence[float], middle: float) -> float | None:
    """From the smallest to the largest, relative to the median; one value has none."""
    return (max(values) - min(values)) / middle if len(values) > 1 else None


def read_text(path: Path) -> str:
    """The text of a file of timings.

    Raises: BadTiming: it is empty or not UTF-8; FileError: it cannot be read; TooLarge.
    """
    content = content_of(path)
    if not content.strip():
        raise BadTiming(f"{path} is empty: it holds no timings; measure again, or name another file")
    try:
        return decoded(content)
    except ValueError as error:
        raise BadTiming(f"{path}: {error}, or name another file") from error
