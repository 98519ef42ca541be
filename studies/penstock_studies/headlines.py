"""The reading behind each headline of a study, and the values of its neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from penstock.base.system import toml
from penstock.base.types import Rows, RowView


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineReading:
    """One headline's row, the reading behind its value, and rows of other readings."""

    row: str
    rests_on: str
    neighbours: Mapping[str, str]
    """Another reading -> the row with its value."""


def readings_of(study: str) -> list[HeadlineReading]:
    """The readings of a study, from `readings.toml` in its folder, which says what its names in braces stand for."""
    table = toml.packaged(f"penstock_studies.{study}", "readings.toml")
    return [
        HeadlineReading(
            row=reading["row"].format(**words),
            rests_on=reading["rests_on"].format(**words),
            neighbours={says: other.format(**words) for says, other in reading["neighbours"].items()},
        )
        for group in table["group"]
        for shared in _each(group, table.get("words", {}))
        for reading in group["reading"]
        for words in _each(reading, shared)
    ]


def _each(table: RowView, words: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The words, with each combination of the values in a table's `each`."""
    axes: Mapping[str, Sequence[str]] = table.get("each", {})
    for values in product(*axes.values()):
        yield {**words, **{name: value.format(**words) for name, value in zip(axes, values, strict=True)}}


def headlines(readings: Sequence[HeadlineReading], made: Sequence[RowView]) -> Rows:
    """Return a flat entry for each headline: published, ours, its reading, and each neighbour's value."""
    by_id = {str(line["id"]): line for line in made}
    shown = []
    for reading in readings:
        row = by_id[reading.row]
        shown.append(
            {
                "id": reading.row,
                "unit": row["unit"],
                "published": row["published"],
                "first_principles": row["first_principles"],
                "rests_on": reading.rests_on,
                "neighbours": {says: by_id[other]["first_principles"] for says, other in reading.neighbours.items()},
            }
        )
    return shown


def neighbours_text(headline: RowView) -> str:
    """The neighbours of one headline as a sentence."""
    return "; ".join(f"{says} {value:.3g}" for says, value in headline["neighbours"].items() if value is not None)
