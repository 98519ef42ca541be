"""A reproduction in one line: how many published numbers come out, the errors, and whether they are noise."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from penstock.base.types import RowView

NEAR = 0.1
"""Share of a published value within which a row agrees with it."""
MEASURED = "measured"


def verdict_of(rows: Iterable[RowView], *, of: str = "first_principles") -> str:
    """The verdict on rows with a published value and an error.

    Args:   of: the column whose error counts; `error_` and its name.
    """
    compared = [row for row in rows if row.get("published") is not None and row.get(f"error_{of}") is not None]
    if not compared:
        return "nothing to compare: no row has a published value and one of ours"
    errors = [abs(float(row[f"error_{of}"])) for row in compared]
    near = sum(error <= NEAR for error in errors)
    worst = compared[errors.index(max(errors))]
    timed = sum(row.get("policy") == MEASURED for row in compared)
    noise = (
        f"{timed} of them are measured and differ from run to run"
        if timed
        else "no noise: every run of this version computes the same numbers"
    )
    return (
        f"{near} of {len(compared)} published numbers come out within {NEAR:.0%}; |error| median {median(errors):.1%}, "
        f"largest {max(errors):.1%} ({worst['id']}); {noise}"
    )
