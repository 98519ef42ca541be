"""Measures points that are chosen on the way: visit after visit to one parameter set, into a run folder that resumes.

The rows of a visit are one file, `bench/visit-003.parquet`, written anew after each round over its points. A process
that ends leaves the rounds that it finished.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import itemgetter

from penstock.base.runs.folder import RunFolder
from penstock.base.system.files import os_errors
from penstock.base.types import Rows
from penstock.errors import CheckFailed, PenstockError
from penstock.lab.measure.bench import timing
from penstock.lab.measure.bench.primitive_runs import PrimitiveRuns
from penstock.lab.measure.bench.results import BENCH_SCHEMA, read_part, table_of
from penstock.lab.measure.bench.rows import tidy
from penstock.lab.measure.bench.spec import BenchPoint, SuitePlan
from penstock.lab.measure.bench.suite import Options, Runner, open_set
from penstock.lab.measure.grouping import grouped

STAGE = "visits"
"""Of the run folder: the rows of all visits."""
_NAME = re.compile(r"visit-(\d{3,6})\.parquet")


class Visits:
    """The visits of one run.

    Args:   suite: name of the measurement in its rows; points: all that may be visited, for their labels.
    """

    def __init__(self, suite: str, points: Sequence[BenchPoint], run: RunFolder, options: Options) -> None:
        self.run, self.options, self._suite = run, options, suite
        self._points = {point.key: point for point in points}
        self._runner = Runner(SuitePlan(suite=suite, points=[]), run, options)
        self.stored: dict[int, Rows] = self._stored()
        """Number of a visit -> its rows."""

    def started(self) -> None:
        """Time a fixed piece of work before the first visit."""
        self._runner.noise_before()

    def visit(self, points: Sequence[BenchPoint]) -> Rows:
        """Run each point as often as it says, in rounds, and store the rows.

        Raises: CheckFailed: a result differs from the clear one.
        """
        number = self._next()
        taken = self._taken()
        timing.reset_peak_memory()
        with open_set(points[0], self.options.store, self.run.warn) as stored:
            measured = [PrimitiveRuns(point, stored) for point in points]
            for round_ in range(max(point.runs for point in points)):
                before = timing.probe(timing.PROBE_POINT_S)
                for primitive in measured:
                    if round_ < primitive.point.runs:
                        self.options.on_start(primitive.point)
                        primitive.run(lambda probe: probe, before)
                self._runner.noise(before)
                self._write(number, [row for m in measured for row in m.rows(self._suite, taken.get(m.point.key, 0))])
        rows = self.stored[number]
        wrong = {row["point"] for row in rows if row["passed"] is False}
        if wrong:
            labels = "; ".join(self._points[key].label() for key in sorted(wrong))
            raise CheckFailed(f"the encrypted result differs from clear: {labels}")
        return rows

    def program(self, point: BenchPoint) -> Rows:
        """Run a program as often as its point says, after one run that does not count, and store the rows."""
        self._points[point.key] = point
        rows, _ = self._runner.program(point, range(point.runs), uncounted=1)
        self._write(self._next(), rows)
        return rows

    def finish(self) -> None:
        """Write the tables of all visits, and mark the run complete."""
        self._runner.noise_after()
        rows = [row for _, of_visit in sorted(self.stored.items()) for row in of_visit]
        table = table_of(rows) if rows else BENCH_SCHEMA.empty_table()
        self._runner.store_all(table)
        by_key = of_points(rows)
        if not self.run.has_stage(STAGE):
            self.run.append_rows(
                STAGE, [one for key, of_point in by_key.items() for one in tidy(self._points[key], of_point)]
            )
        self.run.update(points={key: self._points[key].label() for key in by_key})
        self.run.finish()

    # Inside.

    def _stored(self) -> dict[int, Rows]:
        stored = {}
        for path in sorted((self.run.path / "bench").iterdir()):
            name = _NAME.fullmatch(path.name)
            if name is None:
                continue
            try:
                rows: Rows = read_part(path, self.run.id).to_pylist()
            except PenstockError:
                self.run.warn(f"the stored rows of {path.name} were damaged; they are left out", "check the disk")
                with os_errors(path, "delete"):
                    path.unlink()
                continue
            stored[int(name[1])] = rows
        return stored

    def _next(self) -> int:
        return max(self.stored, default=0) + 1

    def _taken(self) -> dict[str, int]:
        """Key of a point -> number of its next run."""
        taken: dict[str, int] = {}
        for rows in self.stored.values():
            for row in rows:
                taken[row["point"]] = max(taken.get(row["point"], 0), row["run"] + 1)
        return taken

    def _write(self, number: int, rows: Rows) -> None:
        self._runner.store_part(f"visit-{number:03d}", rows)
        self.stored[number] = rows


def of_points(rows: Rows) -> dict[str, Rows]:
    """Key of a point -> its rows."""
    return grouped(rows, itemgetter("point"))
