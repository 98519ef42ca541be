"""Totals of which a part has no price: unknown, with a lower bound, and never a value.

A result that leaves operations out names them in `unpriced` (kind -> how many). Each of its totals is then `None`, and
`at_least` has the sum of the other parts under the total's name, or `None` where nothing is known. If every part has
a price, `unpriced` and `at_least` are `None`.

>>> row = bounded({"machine": "m", "total_s": 1.5, "energy_j": 0.0, "slowdown": 2.0}, {"bootstrap": 2},
...     ["total_s", "energy_j"], ["slowdown"])
>>> row["total_s"], row["energy_j"], row["slowdown"], row["unpriced"], row["at_least"]
(None, None, None, {'bootstrap': 2}, {'total_s': 1.5, 'energy_j': None, 'slowdown': None})
>>> shown_total(row, "total_s", str), shown_total(row, "energy_j", str)
('at least 1.5', 'unknown')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from penstock.base.types import Row, RowView
from penstock.errors import UsageError
from penstock.scheme import operations

UNPRICED, AT_LEAST = "unpriced", "at_least"
UNKNOWN = "unknown"
"""Of a total in a table, of which not even a lower bound is known."""


def bounded(row: RowView, unpriced: Mapping[str, int], sums: Iterable[str], ratios: Iterable[str] = ()) -> Row:
    """The row with `unpriced` and `at_least`.

    Args:   sums: its totals, which every further part makes larger or leaves; ratios: quotients of totals, which have
            no bound.
    """
    if not unpriced:
        return {**row, UNPRICED: None, AT_LEAST: None}
    known = {name: row[name] or None for name in sums if row.get(name) is not None}
    known |= dict.fromkeys(name for name in ratios if row.get(name) is not None)
    return {**row, **dict.fromkeys(known), UNPRICED: dict(unpriced), AT_LEAST: known}


def added(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The unpriced operations of several programs together.

    >>> added([{"bootstrap": 1}, {}, {"bootstrap": 2, "composite": 1}])
    {'bootstrap': 3, 'composite': 1}
    """
    totals: dict[str, int] = {}
    for part in parts:
        for kind, count in part.items():
            totals[kind] = totals.get(kind, 0) + count
    return totals


def opaque(unpriced: Mapping[str, int]) -> bool:
    """Whether the keys and the data of an operation are not known either: nobody knows the inside.

    >>> opaque({"bootstrap": 1}), opaque({"add": 3})
    (True, False)
    """
    return any(operations.TRAITS[operations.OpKind(kind)].composite for kind in unpriced)


def counted(unpriced: Mapping[str, int]) -> str:
    """Operations in words.

    >>> counted({"bootstrap": 1, "composite": 2})
    "1 operation 'bootstrap' and 2 operations 'composite'"
    """
    return " and ".join(f"{count:,} operation{'s' * (count != 1)} '{kind}'" for kind, count in unpriced.items())


def reason(unpriced: Mapping[str, int], what: str = "price") -> str:
    """What is left out, in words.

    >>> reason({"bootstrap": 1, "composite": 2})
    "1 operation 'bootstrap' and 2 operations 'composite' have no price"
    >>> reason({"bootstrap": 1})
    "1 operation 'bootstrap' has no price"
    """
    verb = "has" if list(unpriced.values()) == [1] else "have"
    return f"{counted(unpriced)} {verb} no {what}"


def warned(unpriced: Mapping[str, int]) -> tuple[str, ...]:
    """The warning of a result, and the remedy; nothing where every part has a price."""
    if not unpriced:
        return ()
    return (
        f"{reason(unpriced)}: totals are unknown, and at least the sum of the other operations; write that part with "
        "primitive operations, or give the machine the rates that it lacks, to have it priced",
    )


def refuse(unpriced: Mapping[str, int], what: str) -> None:
    """Raises: UsageError: an operation has no price, so that a result that rests on the whole time cannot be."""
    if unpriced:
        raise UsageError(
            f"{what}: {reason(unpriced)}, so that its time is not known; write that part with primitive operations, or "
            "give the machine the rates that it lacks"
        )


def shown_total(row: RowView, name: str, text: Callable[[float], str], absent: str = "-") -> str:
    """A total in a table: its value, `at least` so much, or `unknown`; `absent` where it does not apply."""
    if row.get(name) is not None:
        return text(row[name])
    known = row.get(AT_LEAST) or {}
    if name not in known:
        return absent
    return UNKNOWN if known[name] is None else f"at least {text(known[name])}"
