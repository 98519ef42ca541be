"""The same points in several results, oldest first: how times spread, how they moved, and whether that is chance."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.base.types import RowView
from penstock.lab.fit.measurements import OPENFHE
from penstock.lab.measure.bench.compare import compared
from penstock.lab.measure.bench.results import by_point, check_row, run_median_s, spread

OWN_SET = "bench-"
"""Sets of a suite's axes are named by their numbers and a digest; people read the numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One point of the last results, and the same point in those before."""

    item: str
    where: str
    """Parameter set, limbs, threads and condition, for people."""
    group: str
    reading: str
    samples: Mapping[str, tuple[float, ...]]
    """Name of the results -> seconds of a call, the median of each of their runs; the oldest results first."""
    change: RowView | None
    """As `compared`, of the last results against the latest ones before that have the point."""
    against: str | None
    """Name of those."""

    @property
    def label(self) -> str:
        return f"{self.item}, {self.where}" if self.where else self.item

    @property
    def last(self) -> tuple[float, ...]:
        """The samples of the last results."""
        return self.samples[next(reversed(list(self.samples)))]

    @property
    def median_s(self) -> float:
        return statistics.median(self.last)

    @property
    def spread(self) -> float | None:
        return spread(self.last)

    @property
    def verdict(self) -> str:
        return "measured once" if self.change is None else str(self.change["verdict"])


def histories(results: Sequence[tuple[str, pa.Table]]) -> list[History]:
    """Every point of the last of these results, in its order.

    Args:   results: (name, table of `load_results`), the oldest first; each name once.
    Raises: UsageError: a time is 0 or no number.
    """
    measured = [(name, by_point(table)) for name, table in results]
    *before, (last, points) = measured
    timelines = []
    for key, runs in points.items():
        older = [(name, points_of[key]) for name, points_of in before if key in points_of]
        samples = {}
        for name, own_runs in [*older, (last, runs)]:
            for run in own_runs:
                check_row(run, name)
            samples[name] = tuple(run_median_s(run) for run in own_runs)
        against, mates = older[-1] if older else (None, [])
        shown = runs[0]
        timelines.append(
            History(
                item=" ".join(str(shown[name]) for name in ("item", "size") if shown[name]),
                where=where_of(shown),
                group=shown["group"],
                reading=shown["reading"],
                samples=samples,
                change=compared(mates, runs) if mates else None,
                against=against,
            )
        )
    return timelines


def where_of(row: RowView) -> str:
    """The dimensions of a point in words, without digests.

    >>> where_of({"params": "bench-n13-d6-k3-0c1f", "ring_dim": 8192, "depth": 6, "dnum": 3, "limbs": 7, "threads": 2,
    ...           "across": 1, "condition": "warm", "reading": "openfhe"})
    'N = 2^13, depth 6, dnum 3, 7 limbs, 2 threads'
    """
    parts = (
        set_of(row),
        None if row["limbs"] is None else f"{row['limbs']} limbs",
        f"{row['threads']} thread{'s' if row['threads'] > 1 else ''}",
        f"{row['across']} operations at a time" if row["across"] > 1 else None,
        row["condition"] if row["condition"] != "warm" else None,
        row["reading"] if row["reading"] != OPENFHE else None,
    )
    return ", ".join(part for part in parts if part)


def set_of(row: RowView) -> str:
    """A parameter set in words: its name, or its numbers where a suite made it."""
    name = row["params"] or ""
    if not name.startswith(OWN_SET) or not row["ring_dim"]:
        return str(name)
    return f"N = 2^{row['ring_dim'].bit_length() - 1}, depth {row['depth']}, dnum {row['dnum']}"
