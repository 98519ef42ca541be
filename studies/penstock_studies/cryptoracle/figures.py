"""CryptOracle's figures 5 to 8 from this machine's own `bench run`: its points and rows.

The paper prints these figures only as drawings, so no row has a published value. A quantity that the results lack
(energy, counters, a thread count, a ring dimension) is a row without a value; its note names the missing part.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.base.runs.folder import check_written
from penstock.base.runs.tables import RESULTS_BOUNDS
from penstock.base.system.tables.parquet import read_table
from penstock.base.types import Rows, RowView

MICRO = ("matrix-multiplication", "logistic-function", "sign-evaluation")
ENERGY_MISSING = "no energy in these results; 'penstock profile' reads the package counter where the processor has one"
EVENTS_MISSING = (
    "no event counts in these results: 'penstock bench run --events instructions,cache-references' on a processor that "
    "has the counters"
)
PRIMITIVES = ("add", "add_plain", "mult", "mult_plain", "rotate")
"""What figures 5 and 6 of the paper name in the text; the others follow in alphabetical order."""


@dataclass(frozen=True, slots=True)
class FigurePoint:
    """One point of a figure: median of the runs' means (of events: the one pass that counts them)."""

    figure: str
    line: str
    """The meaning of the curve."""
    x_name: str
    x: int
    value: float
    runs: int
    settings: str
    quantity: str = "runtime"
    unit: str = "s"


def points(table: pa.Table) -> list[FigurePoint]:
    """The points of figures 5, 7 and 8 that the results hold.

    Figure 5: primitives on fresh operands at the largest ring, against threads. Figure 7: microbenchmarks, against
    threads. Figure 8: matrix multiplication by order, against the ring dimension. Warm, one operation at a time.
    """
    rows = [r for r in table.to_pylist() if r["condition"] == "warm" and r["across"] == 1]
    made: list[FigurePoint] = []
    primitive = _fresh_at_one_set([r for r in rows if r["group"] == "primitives"])
    made += _curves("figure5", primitive, lambda r: str(r["item"]), "threads")
    micro = [r for r in rows if r["item"] in MICRO]
    made += _curves("figure7", micro, lambda r: f"{r['item']} {r['size']} ({r['params']})", "threads")
    matrix = [r for r in micro if r["item"] == "matrix-multiplication"]
    made += _curves("figure8", matrix, lambda r: f"{r['size']} ({r['threads']} threads)", "ring_dim")
    return made


def _fresh_at_one_set(rows: Sequence[RowView]) -> list[RowView]:
    """Of one parameter set (that with the most thread counts, then the largest ring), at the most limbs of each."""
    by_set: dict[str, list[RowView]] = {}
    for row in rows:
        by_set.setdefault(row["params"], []).append(row)
    if not by_set:
        return []
    chosen = max(by_set.values(), key=lambda rs: (len({r["threads"] for r in rs}), max(r["ring_dim"] or 0 for r in rs)))
    most: dict[str, int] = {}
    for row in chosen:
        most[row["item"]] = max(most.get(row["item"], 0), row["limbs"] or 0)
    return [r for r in chosen if (r["limbs"] or 0) == most[r["item"]]]


def _curves(figure: str, rows: Iterable[RowView], line: Callable[[RowView], str], x_name: str) -> list[FigurePoint]:
    curves: dict[tuple[str, int, str], list[float]] = {}
    for row in rows:
        if row[x_name] is None:
            continue
        limbs = f", {row['limbs']} limbs" if row["limbs"] else ""
        settings = f"set '{row['params']}', {row['threads']} thread(s){limbs}"
        curves.setdefault((line(row), int(row[x_name]), settings), []).append(float(row["seconds_per_call"]))
    return [
        FigurePoint(figure, name, x_name, x, statistics.median(seconds), len(seconds), settings)
        for (name, x, settings), seconds in sorted(curves.items())
    ]


def event_points(table: pa.Table, events: Iterable[RowView]) -> list[FigurePoint]:
    """Points of figure 6, and the energy of figures 5 and 7, from the rows that `bench run --events` adds to results.

    Args: events: rows of the run's results, whose `stage` is the `point` that was measured. An event that the machine
          does not have (no value) gives no point.
    """
    warm = [r for r in table.to_pylist() if r["condition"] == "warm" and r["across"] == 1]
    fresh = {r["point"]: r for r in _fresh_at_one_set([r for r in warm if r["group"] == "primitives"])}
    micro = {r["point"]: r for r in warm if r["item"] in MICRO}
    made = []
    for event in events:
        row = fresh.get(event["stage"]) or micro.get(event["stage"])
        name = str(event["quantity"]).removesuffix("_per_call")
        if row is None or name == event["quantity"] or name == "seconds" or event["value"] is None:
            continue
        energy = event["unit"] == "J"
        if not energy and row["point"] in micro:
            continue
        figure = ("figure7" if row["point"] in micro else "figure5") if energy else "figure6"
        line = str(row["item"]) if row["point"] in fresh else f"{row['item']} {row['size']} ({row['params']})"
        settings = f"set '{row['params']}', {row['threads']} thread(s)"
        made.append(
            FigurePoint(
                figure, line, "threads", int(row["threads"]), float(event["value"]), 1, settings, name, event["unit"]
            )
        )
    return made


def load_events(path: Path) -> Rows:
    """The rows of a run folder's results that are not times; none where it has no such file.

    Raises: DamagedRun: it is not the file that the run wrote, or no table of results.
    """
    file = path / "results.parquet"
    if not file.is_file():
        return []
    check_written(file)
    rows = read_table(file, RESULTS_BOUNDS).to_pylist()
    return [row for row in rows if str(row["quantity"]).endswith("_per_call") and row["unit"] != "s"]


def missing(points: Sequence[FigurePoint]) -> list[tuple[str, str]]:
    """(figure, the missing quantity and how to get it) for gaps of the results."""
    gaps = []
    for figure, what in (("figure5", "primitives"), ("figure7", "microbenchmarks"), ("figure8", "matrix products")):
        of_figure = [p for p in points if p.figure == figure and p.quantity == "runtime"]
        if not of_figure:
            gaps.append(
                (figure, f"no warm measurement of {what} in these results: 'penstock bench run' a suite with it")
            )
        elif len({p.x for p in of_figure}) == 1:
            axis = "one ring dimension" if figure == "figure8" else "one thread count"
            gaps.append((figure, f"measured at {axis} only, so there is no curve: sweep more of them"))
    if not any(p.unit == "J" for p in points):
        gaps.append(("figure5.energy", ENERGY_MISSING))
    if not any(p.figure == "figure6" for p in points):
        gaps.append(("figure6", EVENTS_MISSING))
    return gaps
