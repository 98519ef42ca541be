"""A sweep in short: its programs and points before they are played, and how far each program's points lie apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.types import Rows, RowView
from penstock.lab.sweeps.play import impossible
from penstock.lab.sweeps.points import Plan, no_point

_NAMES = ("workload", "size", "params", "machine", "key_form")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The programs of a plan that can be played."""

    rows: Rows
    """One a program, with its number of points."""
    skipped: Counter[tuple[str, str]]
    """(what, why) -> points that cannot be."""
    num_chunks: int

    @property
    def left_out(self) -> Rows:
        """The skipped points, in the columns of `rows`."""
        return [
            {**dict.fromkeys(self.rows[0]), "workload": what, "points": count, "skipped": why}
            for (what, why), count in self.skipped.items()
        ]


def outlined(planned: Plan, on_program: Callable[[int], None]) -> Outline:
    """Trace the programs of a plan, and play nothing.

    Raises: UsageError: no point can be.
    """
    points = Counter[int]()
    for chunk in planned.chunks:
        points[chunk.program] += len(chunk.points)
    skipped = Counter(planned.skipped)
    for i, program in enumerate(planned.programs):
        why = impossible(program)
        if why is not None:
            skipped[program.label(), why] += points.pop(i)
        on_program(1)
    if not points:
        raise no_point(planned.name, skipped)
    rows = [
        {
            "workload": "+".join(other.name for other in (program, *program.beside))
            + _seed(program.seed, program.source),
            "size": program.size,
            "params": program.params.name if program.params else None,
            "machine": program.machine.name,
            "key_form": program.key_form.value if program.key_form else None,
            "points": points[i],
            "skipped": None,
        }
        for i, program in enumerate(planned.programs)
        if i in points
    ]
    return Outline(rows=rows, skipped=skipped, num_chunks=sum(chunk.program in points for chunk in planned.chunks))


def by_program(results: pa.Table) -> Rows:
    """A row for each program of a played sweep: its name, its number of points, their least and most time and slowdown.

    Of programs that run together, the worst one gives the slowdown.
    """
    felt = pc.if_else(pc.is_valid(results["tenants"]), results["tenant_slowdown"], results["slowdown"])
    results = results.set_column(results.schema.get_field_index("slowdown"), "slowdown", felt)
    keys = [*_NAMES, "trace", "seed", "beside", "interleave", "classes"]
    ends = [(name, end) for name in ("total_s", "slowdown") for end in ("min", "max")]
    grouped = results.group_by(keys, use_threads=False).aggregate([("tier", "count"), *ends])
    return [{**row, "program": _program(row)} for row in grouped.to_pylist()]


def _seed(seed: int | None, source: str | None) -> str:
    """Of a workload's trace, where it is not the usual."""
    return f", seed {seed}" if seed and source is None else ""


def _program(row: RowView) -> str:
    """As the outline names it: two traces may be of one workload."""
    if row["trace"] is None:
        return f"{row['workload']}{_seed(row['seed'], None)}"
    return "+".join([row["trace"], *(row["beside"] or "").split(",")]).rstrip("+")
