"""Users of one program on one machine, each with keys of its own: how many are asked about, and a bound on their wait.

>>> counts_in("1..4"), counts_in("8,2"), counts_in("4,8..10")
((1, 2, 3, 4), (2, 8), (4, 8, 9, 10))
>>> verdict([{"num_tenants": n, "times_alone": n * 1.0} for n in (1, 2, 3, 4)], Crowd((1, 2, 3, 4), limit=2.5))
'2 tenants wait at most 2.5 times as long as one alone; 3 wait 3 times'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.base.types import RowView
from penstock.base.units import format_seconds, parse_seconds
from penstock.errors import UsageError
from penstock.lab.simulation.words import OPTIONS, Spelling
from penstock.scheme.unpriced import UNPRICED, reason

MOST = 4096
"""Tenants that may be asked about: each further one lengthens the program that is played."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """Numbers of tenants, ascending, and a bound on their wait: a multiple of a lone tenant's, or seconds."""

    counts: tuple[int, ...]
    limit: float | None = None
    limit_s: float | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and not 1 <= self.limit < float("inf"):
            raise UsageError(
                f"limit {self.limit:g}: give a multiple of the time of a tenant alone, 1 or more, as 3, "
                "or a time, as '450 ms'"
            )

    @property
    def is_limited(self) -> bool:
        return self.limit is not None or self.limit_s is not None

    def exceeded(self, row: RowView) -> bool:
        """Whether the tenants of a row wait longer than the limit; not where that is unknown."""
        if self.limit_s is not None:
            return row["total_s"] is not None and bool(row["total_s"] > self.limit_s)
        return self.limit is not None and row["times_alone"] is not None and bool(row["times_alone"] > self.limit)


def limited(counts: tuple[int, ...], text: str | None, spelling: Spelling = OPTIONS) -> Crowd:
    """Numbers of tenants with a limit as a person writes it: `3`, or `450 ms`.

    Raises: UsageError, UnitError.
    """
    if text is None:
        return Crowd(counts)
    try:
        return Crowd(counts, limit=float(text))
    except ValueError:
        return Crowd(counts, limit_s=parse_seconds(text, spelling("limit")))


def counts_in(text: str, spelling: Spelling = OPTIONS) -> tuple[int, ...]:
    """Numbers of tenants: `4`, `1,2,4` or `1..8`, ascending.

    Raises: UsageError.
    """
    counts = set[int]()
    for item in text.split(","):
        first, dots, last = (part.strip() for part in item.partition(".."))
        ends = [first, last] if dots else [first]
        numbers = [int(end) if end.isdecimal() and len(end) <= len(str(MOST)) else 0 for end in ends]
        if not all(1 <= count <= MOST for count in numbers) or numbers[0] > numbers[-1]:
            raise UsageError(
                f"{spelling('tenants')} '{text}': '{item.strip()}' does not count tenants, 1 to {MOST}: write "
                "'4', '1,2,4' or '1..8'"
            )
        counts |= set(range(numbers[0], numbers[-1] + 1))
    return tuple(sorted(counts))


def verdict(rows: Sequence[RowView], crowd: Crowd) -> str:
    """How many tenants keep to a limit, of the rows of one point with growing numbers of them."""
    if rows[0].get(UNPRICED):
        return f"how long tenants wait is unknown: {reason(rows[0][UNPRICED])}"
    first = next((i for i, row in enumerate(rows) if crowd.exceeded(row)), len(rows))
    bound = f"{crowd.limit:g} times as long as one alone" if crowd.limit_s is None else format_seconds(crowd.limit_s)
    if first == len(rows):
        return f"{_tenants(rows[-1])} at most {bound}, the most that were asked about"
    row = rows[first]
    waited = f"{row['times_alone']:.3g} times" if crowd.limit_s is None else format_seconds(row["total_s"])
    beyond = f"{row['num_tenants']} wait {waited}"
    return f"{_tenants(rows[first - 1])} at most {bound}; {beyond}" if first else f"none keeps to {bound}: {beyond}"


def _tenants(row: RowView) -> str:
    count = row["num_tenants"]
    return f"{count} tenants wait" if count > 1 else "1 tenant waits"
