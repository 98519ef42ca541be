"""A comparison of two runs in one line: what changed, by how much, and whether it is noise."""

from __future__ import annotations

import math
from collections.abc import Sequence, Sized
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from penstock.base.runs.folder import RunFolder
from penstock.base.types import Row
from penstock.errors import PenstockError, cut
from penstock.lab.measure.bench.compare import Comparison, compare
from penstock.lab.measure.bench.history import History
from penstock.lab.measure.bench.results import begun, finished_runs, load_results, summary_rows

UNTESTED = "one run only"
"""Verdict of a point without a test."""


def verdict_of(comparison: Comparison) -> str:
    """The verdict on a comparison.

    A point has changed where the test of `compare` says so: p < 0.05, an interval without 1, and more than the noise of
    the machine. Points of one run have no test and count apart.
    """
    rows = comparison.rows
    tested = [row for row in rows if row["verdict"] != UNTESTED]
    noise = "" if comparison.noise is None else f", noise of the machine {comparison.noise:.1%}"
    if not tested:
        ratio = _mean_ratio(rows)
        return (
            f"not known: {_points(rows)} with one run each have no test, and the ratios are {ratio:.3f} in the mean; "
            "measure several runs a point"
        )
    parts = []
    for word in ("slower", "faster"):
        changed = [row for row in tested if row["verdict"] == word]
        if changed:
            parts.append(f"{len(changed)} {word} ({_most(changed)})")
    within = sum(row["verdict"] == "within the noise" for row in tested)
    if not parts:
        also = f"; {within} differ by less than the noise" if within else ""
        return (
            f"nothing changed: of {_points(tested)} none is faster or slower beyond chance and noise{also}; "
            f"second / first is {_mean_ratio(tested):.3f} in the mean{noise}"
        )
    same = len(tested) - sum(row["verdict"] in ("slower", "faster") for row in tested)
    return (
        f"changed: of {_points(tested)} {', '.join(parts)}, {same} the same{noise}; "
        f"second / first is {_mean_ratio(tested):.3f} in the mean"
    )


def headline(points: Sequence[History]) -> str:
    """The verdict on the points that earlier results have too."""
    rows = [dict(point.change) for point in points if point.change is not None]
    if not rows:
        return "nothing to compare with: one run of each point"
    return verdict_of(Comparison(rows=rows, only_first=[], only_second=[]))


def verdict_of_run(path: Path, results: pa.Table) -> str:
    """The verdict on a run: against the last finished run of its suite in the same folder, where there is one."""
    before = previous_run(path)
    if before is None:
        rows = summary_rows(results)
        worst = max((row["spread"] for row in rows if row["spread"] is not None), default=None)
        within = "" if worst is None else f", spread of a point at most {worst:.1%}"
        return f"first run of this suite in {path.parent}: {_points(rows)}, nothing to compare with{within}"
    return f"against {before}: {verdict_of(compare(load_results(before), results))}"


def previous_run(path: Path) -> Path | None:
    """The last finished run of the same suite on the same processor next to a run folder, with a point in common.

    `None`: there is none.
    """
    mine, points = RunFolder.open(path), set(load_results(path)["point"].to_pylist())
    for run in finished_runs(path.parent):
        if run.path.resolve() == path.resolve() or _of(run) != _of(mine) or begun(run) > begun(mine):
            continue
        with suppress(PenstockError):  # damaged: no basis for a comparison
            if points & set(load_results(run.path)["point"].to_pylist()):
                return run.path
    return None


def _of(run: RunFolder) -> tuple[str | None, str | None]:
    """The suite and the processor."""
    return run.config.get("suite"), run.record.get("host", {}).get("cpu_model")


def _points(rows: Sized) -> str:
    return f"{len(rows)} point{'s' if len(rows) != 1 else ''}"


def _most(rows: Sequence[Row]) -> str:
    """The point that changed most, with its interval."""
    row = max(rows, key=lambda point: abs(math.log(point["ratio"])))
    where = f"{cut(row['item'])}{' ' + row['size'] if row['size'] else ''}"
    where += f" at {row['limbs']} limbs" if row["limbs"] else ""
    return f"{where} most, {row['ratio']:.3f} times, 95 % {row['low']:.3f} to {row['high']:.3f}"


def _mean_ratio(rows: Sequence[Row]) -> float:
    """The geometric mean."""
    return math.exp(math.fsum(math.log(row["ratio"]) for row in rows) / len(rows))
