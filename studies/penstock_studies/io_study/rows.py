"""One row of `reproduce io-study`: published, by the study's rules, from first principles, and why they differ."""

from __future__ import annotations

from penstock.base.types import Row
from penstock_studies.io_study.data import PrintedNumber

STUDY_POLICY = "study"
"""The headline: mode `serial`, every key read from the tier, as the study has it."""
CLOSE, EXPLAIN = 0.01, 0.10
"""Calibrated rows agree within the first; first-principles rows that are off by more than the second are explained."""


def row(
    row_id: str,
    group: str,
    quantity: str,
    ours: float | None,
    note: str = "",
    *,
    unit: str = "1",
    published: PrintedNumber | float | None = None,
    calibrated: float | None = None,
    policy: str = STUDY_POLICY,
    because: str = "",
    contradicts: str = "",
    fitted: bool = False,
) -> Row:
    """A flat row; errors are relative and signed.

    Args:   because: why first principles differ, said where they do by more than 10 %; contradicts: which row of the
            study the calibrated value follows instead of this one; fitted: the calibrated value is an input of that
            reading, or was fitted to this row, and is not held against it.
    """
    printed = published if isinstance(published, PrintedNumber) else None
    value = printed.value if printed is not None else published
    assert value is None or isinstance(value, float)
    bound = printed is not None and printed.bound
    compare = value is not None and not bound and policy == STUDY_POLICY
    error_calibrated = error_of(calibrated, value) if compare and not fitted else None
    error_ours = error_of(ours, value) if compare else None
    notes = [note] if note else []
    if fitted:
        notes.append("calibrated: an input of that reading, or fitted to this row, so it has no error")
    if contradicts:
        notes.append(f"contradiction within the study: {contradicts}")
    elif error_calibrated is not None and abs(error_calibrated) > CLOSE and printed is not None:
        assert calibrated is not None
        says = "agrees with" if printed.agrees(calibrated) else "differs from"
        notes.append(f"calibrated: {says} the digits printed ({printed.text}{' %' if printed.percent else ''})")
    if bound and value is not None:
        for name, computed in (("calibrated", calibrated), ("first principles", ours)):
            if computed is not None:
                notes.append(f"bound: {name} {'holds' if computed > value else 'does not hold'}")
    if because and error_ours is not None and abs(error_ours) > EXPLAIN:
        notes.append(because)
    return {
        "id": row_id, "group": group, "policy": policy, "quantity": quantity, "unit": unit, "published": value,
        "calibrated": calibrated, "first_principles": ours, "error_calibrated": error_calibrated,
        "error_first_principles": error_ours, "note": "; ".join(notes),
    }  # fmt: skip


def error_of(value: float | None, published: float | None) -> float | None:
    """Relative and signed; none of a value that is not known, or against 0."""
    return None if value is None or not published else (value - published) / published
