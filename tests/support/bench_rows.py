"""Rows of benchmark results as a run writes them, with times of our own choosing, for tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.base.runs.folder import RunFolder
from penstock.base.system.tables import parquet
from penstock.lab.measure.bench import timing
from penstock.lab.measure.bench.catalogue import PRIMITIVES
from penstock.lab.measure.bench.results import table_of
from penstock.lab.measure.bench.rows import dimensions, timed
from penstock.lab.measure.bench.spec import BenchPoint, parse_suite, plan

SWEEP = """
[timing]
min_time = "1 ms"
runs = 3
[[primitives]]
items = ["add", "rescale", "rotate", "relinearize", "mult", "encode", "chebyshev_series"]
ring_dim = ["2^11", "2^12"]
depth = 6
limbs = ["fresh", 2]
threads = [1, 2]
"""


def points_of(text: str = SWEEP) -> list[BenchPoint]:
    return plan(parse_suite(text, "toy", "toy.toml")).points


def rows_of(
    points: list[BenchPoint],
    seconds: Callable[[BenchPoint, int], float] = lambda point, run: 1e-3 * (1 + run),
    **more: Any,
) -> list[dict[str, Any]]:
    """One row a run; each run is two calls of `seconds(point, run)`."""
    found = []
    for point in points:
        kind = PRIMITIVES[point.item].kind if point.item in PRIMITIVES else None
        for number in range(point.runs):
            each = seconds(point, number)
            run = timing.TimedRun(
                calls=2, total_s=2 * each, wall_s=2 * each, cpu_s=2 * each, samples_s=(each, each), started_s=1e9
            )
            found.append(
                dimensions("toy", point)
                | timed(number, run)
                | {
                    "kind": kind and str(kind),
                    "note": None if point.group == "primitives" else json.dumps({"server_s": each}),
                }
                | more
            )
    return found


def folder_of(path: Path, rows: list[dict[str, Any]], *, finished: bool = True, **config: Any) -> Path:
    """A run folder that holds the rows, sealed as a run seals them: without a seal each reading starts a process."""
    with RunFolder.create(path, {"verb": "bench", **config}) as run:
        parquet.write_table(table_of(rows), path / "bench.parquet")
        run.note_artifact("bench.parquet")
        if finished:
            run.finish()
    return path
