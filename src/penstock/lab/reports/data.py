"""The report's view of a run folder: rows selected by their meaning."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from penstock.base.runs.folder import RunFolder
from penstock.base.types import Row, Rows, RowView
from penstock.errors import PenstockError
from penstock.lab.reports.working_set import Window, key_windows, unexpanded_composites

K = TypeVar("K", bound=Hashable)

MODE_ORDER = ("serial", "overlap", "bound")
TIER_ORDER = ("hbm", "ddr5", "pcie5", "rdma")
FORCED = frozenset({None, "", "none", "forced", "hit-ratio"})


@dataclass(slots=True)
class ReportData:
    """A run's record and rows, its trace's key windows, and why a part is missing."""

    record: Row
    rows: Rows
    windows: list[Window]
    unexpanded: int
    trace_problem: str | None
    recorded: bool
    """Whether the trace was recorded while the program ran encrypted, not made symbolically."""
    complete: bool
    """Whether every stage is done: `.complete`, or the merged results that are written after the last stage."""
    stages: list[str] = field(default_factory=list)

    @property
    def config(self) -> Row:
        config = self.record.get("config")
        return config if isinstance(config, dict) else {}

    def section(self, name: str) -> Row:
        """A section of `run.json` that is an object; empty where it is missing."""
        value = self.record.get(name)
        return value if isinstance(value, dict) else {}

    def entries(self, name: str) -> Rows:
        """A section of `run.json` that is a list of objects; empty where it is missing."""
        return entries_of(self.record, name)

    def of(self, quantity: str, stage: str | None = None) -> Rows:
        """Rows of one quantity with a known value."""
        return [
            row
            for row in self.rows
            if row["quantity"] == quantity and row["value"] is not None and (stage is None or row["stage"] == stage)
        ]

    def one(self, quantity: str) -> Row | None:
        """The last row of a quantity that a run has once."""
        rows = self.of(quantity)
        return rows[-1] if rows else None

    def slowdowns(self) -> Rows:
        return self.of("slowdown")

    def modes(self) -> list[str]:
        """Time modes of the simulation, `serial` first."""
        return ordered((row["mode"] for row in self.slowdowns() if row["mode"]), MODE_ORDER)

    def machines(self) -> list[str]:
        """Machines in the order in which the run names them."""
        named = [m for m in self.config.get("machines") or [] if isinstance(m, str)]
        present = {r["machine"] for q in ("slowdown", "hit_ratio_for_80_percent") for r in self.of(q) if r["machine"]}
        return ordered(present, named or ("this-cpu",))

    def tiers(self) -> list[str]:
        """Tiers from fast to slow, as far as the run's own slowdowns tell."""
        worst: dict[str, float] = defaultdict(float)
        for row in self.slowdowns():
            if row["tier"]:
                worst[row["tier"]] = max(worst[row["tier"]], row["value"])
        others = {row["tier"] for row in self.rows if row["tier"]} - set(worst)
        return sorted(worst, key=lambda tier: (worst[tier], ordered([tier], TIER_ORDER))) + ordered(others, TIER_ORDER)


def entries_of(record: RowView, name: str) -> Rows:
    """A section of `run.json` that is a list of objects; empty where it is missing."""
    value = record.get(name)
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def is_cached(row: Row) -> bool:
    """Whether the row comes from a real cache (a size and a policy), not from a forced hit ratio."""
    return row["cache_bytes"] is not None and row["policy"] not in FORCED


def is_streamed(row: Row) -> bool:
    """Whether every key access goes to the tier: neither a cache nor hits."""
    return not is_cached(row) and not row["hit_ratio"] and not row["cache_bytes"]


def is_forced(row: Row) -> bool:
    """Whether the row's hit ratio was forced; streaming is the hit ratio 0."""
    return not is_cached(row) and (row["hit_ratio"] is not None or is_streamed(row))


def provenances(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row["provenance"] for row in rows))


def ordered(names: Iterable[str], first: Sequence[str]) -> list[str]:
    """Distinct names: the ones in `first` in its order, then the others by name."""
    present = set(names)
    return [n for n in dict.fromkeys(first) if n in present] + sorted(present - set(first))


def sum_by(rows: Iterable[Row], key: Callable[[Row], K]) -> dict[K, float]:
    """The sum of the values for each key, in the order of first appearance."""
    sums: dict[K, float] = {}
    for row in rows:
        sums[key(row)] = sums.get(key(row), 0.0) + row["value"]
    return sums


def last_by(rows: Iterable[Row], key: Callable[[Row], K]) -> dict[K, float]:
    """The last value for each key."""
    return {key(row): row["value"] for row in rows}


def load(run: RunFolder) -> ReportData:
    """Read everything that the report shows. A trace that cannot be read leaves its part out, with the reason.

    Raises: DamagedRun: a table of the run is not the one that it wrote.
    """
    run.check_tables()
    windows: list[Window] = []
    unexpanded = 0
    recorded = False
    problem: str | None = None
    if not run.trace_path.is_file():
        problem = "the run holds no trace.parquet yet"
    else:
        try:
            from penstock.scheme.traces.inspect import read_program

            run.check_artifact(run.trace_path.name)
            trace = read_program(run.trace_path)
            windows, unexpanded = key_windows(trace), unexpanded_composites(trace)
            recorded = trace.meta.reading != "trace"
            if not windows:
                problem = "the trace names no evaluation key"
        except PenstockError as error:
            problem = f"the trace cannot be read: {error}"
            run.warn(
                f"the trace of this run cannot be read: {error}",
                "repeat the command of this run with --force to record it again",
            )
    stages = run.stages()
    rows = run.results().to_pylist()
    return ReportData(
        dict(run.record), rows, windows, unexpanded, problem, recorded, run.complete or run.has_results, stages
    )
