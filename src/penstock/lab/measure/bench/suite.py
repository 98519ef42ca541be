"""Runs a plan into a run folder that resumes: point by point, or in turns.

Each finished point is stored at once: its runs under `bench/`, its tidy rows as a stage of the run folder. A run that
was killed goes on with the first point that is missing. In turns every point is run once before any is run again, and
the runs of unfinished points are stored as well.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import json
import math
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from penstock.base.runs.folder import RunFolder
from penstock.base.runs.tables import signed
from penstock.base.system.files import os_errors, remove_leftovers
from penstock.base.system.tables import parquet
from penstock.base.types import Row, Rows
from penstock.base.units import format_bytes
from penstock.errors import CheckFailed, PenstockError
from penstock.lab.fit.measurements import OPENFHE
from penstock.lab.measure.bench import timing
from penstock.lab.measure.bench.cores import one_core_each
from penstock.lab.measure.bench.estimate import PointEstimate, estimate
from penstock.lab.measure.bench.primitive_runs import PrimitiveRuns
from penstock.lab.measure.bench.results import BENCH_SCHEMA, FILE, read_part, table_of
from penstock.lab.measure.bench.rows import dimensions, event_rows, tidy, timed, uncounted_events
from penstock.lab.measure.bench.spec import IN_TURNS, BenchPoint, SuitePlan
from penstock.lab.measure.bench.store import BenchSet, StoredSet
from penstock.lab.measure.energy import metered
from penstock.program.running.reading import Run

PROBE_BEFORE_S = 0.5
BLOCK_S = 60.0
"""Primitives that are measured in turns take about so long, as predicted."""


class DoesNotFit(PenstockError):
    """Points that were refused, since they would take more memory than there is."""


@dataclass(slots=True, kw_only=True)
class Options:
    """The conditions of a plan's runs; none of them changes the points."""

    store: Path
    events: tuple[str, ...] = ()
    seed: int = 0
    on_start: Callable[[BenchPoint], None] = lambda point: None
    on_done: Callable[[BenchPoint, float], None] = lambda point, share: None
    """Told which share of a point's runs was made."""
    available_bytes: Callable[[], int | None] = timing.available_bytes
    predict: Callable[[BenchPoint], PointEstimate] = estimate


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a run of a plan did."""

    measured: int = 0
    resumed: int = 0
    """Points that were stored by an earlier, interrupted run."""
    refused: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Points whose result differs from the clear one."""


def config_of(plan: SuitePlan, options: Options) -> Row:
    """What makes two bench runs the same run: `RunFolder`'s configuration."""
    keys = hashlib.sha256("\n".join(p.key for p in plan.points).encode()).hexdigest()
    readings = sorted({p.reading for p in plan.points})
    config = {
        "verb": "bench", "suite": plan.suite, "num_points": len(plan.points), "points_sha256": keys,
        "threads": sorted({p.threads for p in plan.points}),
        "events": list(options.events), "seed": options.seed,
    }  # fmt: skip
    # Folders of OpenFHE's times are older than the word.
    return config if readings == [OPENFHE] else config | {"reading": readings}


def run_plan(plan: SuitePlan, run: RunFolder, options: Options) -> Outcome:
    """Measure every point that is not stored yet, and finish the folder.

    Raises: UsageError: more threads than cores; CheckFailed: a result differs from clear; DoesNotFit: points were
            refused. Everything that was measured is stored before either.
    """
    timing.check_affinity(max(max(p.threads, p.across) for p in plan.points))
    runner = Runner(plan, run, options)
    run.update(skipped=plan.skipped, points={p.key: p.label() for p in plan.points})
    return runner.all()


class Runner:
    """Measures the points of a plan into a run folder."""

    def __init__(self, plan: SuitePlan, run: RunFolder, options: Options) -> None:
        for name in ("bench", "traces"):
            with os_errors(run.path / name, "create"):
                (run.path / name).mkdir(exist_ok=True)
            remove_leftovers(run.path / name)
        self.plan, self.run, self.options = plan, run, options
        self.outcome = Outcome()
        self.probes: list[timing.Probe] = []
        self.ticks = timing.processor_ticks()

    def all(self) -> Outcome:
        todo = [point for point in self.plan.points if not self._is_done(point)]
        self.outcome.resumed = len(self.plan.points) - len(todo)
        if todo:
            self.noise_before()
            (self._in_turns if self.plan.order == IN_TURNS else self._in_blocks)(todo)
            self.noise_after()
        return self._finish()

    def _in_blocks(self, todo: Sequence[BenchPoint]) -> None:
        """One set of parameters after another."""
        for _, same in itertools.groupby(todo, key=_batch):
            points = list(same)
            if points[0].group == "primitives":
                self._primitives(points)
            else:
                for point in points:
                    if not self._refused(point):
                        self._store(point, *self.program(point, range(point.runs)))
                        self.options.on_done(point, 1.0)

    def _in_turns(self, todo: Sequence[BenchPoint]) -> None:
        """What changes on a machine over minutes meets all points alike. None is run more often than planned."""
        rows_of = {point.key: self._unfinished(point) for point in todo}
        refused: set[str] = set()
        turns = max(point.runs for point in todo)
        for turn in range(turns):
            due = [p for p in todo if p.key not in refused and turn in turns_of(p.runs, turns)[len(rows_of[p.key]) :]]
            for _, same in itertools.groupby(due, key=_batch):
                batch = list(same)
                refused.update(p.key for p in batch if not rows_of[p.key] and self._refused(p))
                for point, rows, events in self._turn([p for p in batch if p.key not in refused], rows_of):
                    rows_of[point.key] += rows
                    if len(rows_of[point.key]) == point.runs:
                        self._store(point, rows_of[point.key], events)
                    else:
                        self.store_part(point.key, rows_of[point.key])
                    self.options.on_done(point, 1 / point.runs)

    def _turn(
        self, batch: Sequence[BenchPoint], rows_of: Mapping[str, Rows]
    ) -> Iterator[tuple[BenchPoint, Rows, Rows]]:
        """One run of each point of a batch: its row, and its events after the last."""
        if batch and batch[0].group == "primitives":
            with open_set(batch[0], self.options.store, self.run.warn) as stored:
                for point in batch:
                    self.options.on_start(point)
                    number, measured = len(rows_of[point.key]), PrimitiveRuns(point, stored)
                    measured.run(self.noise)
                    yield (
                        point,
                        measured.rows(self.plan.suite, number),
                        self._count(measured) if number + 1 == point.runs else [],
                    )
            return
        for point in batch:
            number = len(rows_of[point.key])
            yield point, *self.program(point, range(number, number + 1), uncounted=1)

    def _unfinished(self, point: BenchPoint) -> Rows:
        """The runs that an earlier, interrupted run in turns has stored."""
        if not self._part(point).is_file():
            return []
        try:
            return list(read_part(self._part(point), self.run.id).to_pylist()[: point.runs - 1])
        except PenstockError:
            if not self.run.has_stage(point.key):  # else it was said
                self._warn_damaged(point)
            return []

    # Points.

    def _primitives(self, points: Sequence[BenchPoint]) -> None:
        fitting = [point for point in points if not self._refused(point)]
        if not fitting:
            return
        timing.reset_peak_memory()
        with open_set(fitting[0], self.options.store, self.run.warn) as stored:
            for block in blocks(fitting, self.options.predict):
                self._block(block, stored)

    def _block(self, points: Sequence[BenchPoint], stored: BenchSet) -> None:
        """Rounds over the points, one run of each a round, so that a disturbance of a few seconds spoils few runs of
        any; then more rounds over those whose runs disagree."""
        wanting = [PrimitiveRuns(point, stored) for point in points]
        while wanting:
            for measured in wanting:
                if not measured.runs:
                    self.options.on_start(measured.point)
                measured.run(self.noise)
                if not measured.wants_more():
                    self._store(measured.point, measured.rows(self.plan.suite), self._count(measured))
                    self.options.on_done(measured.point, 1.0)
            wanting = [measured for measured in wanting if measured.wants_more()]

    def program(self, point: BenchPoint, numbers: range, uncounted: int = 0) -> tuple[Rows, Rows]:
        """Runs of a program in one context. The first run of a context has fresh memory to make."""
        from penstock.program import workloads
        from penstock.program.running.clear import run_clear
        from penstock.program.running.readings import READINGS
        from penstock.scheme.traces.io import write_trace

        self.options.on_start(point)
        timing.reset_peak_memory()
        before = timing.probe(timing.PROBE_POINT_S)
        module, seed = workloads.get(point.item), self.options.seed
        size = workloads.size_of(module, point.size or module.DEFAULT_SIZE)
        data = module.data(size, point.params.slots, seed)
        clear = run_clear(point.item, point.params, point.size, seed, data)
        runs, checks, notes, events, setup, loaded = [], [], [], [], 0.0, 0.0
        started = time.perf_counter()
        prepared = READINGS[point.reading].prepared
        assert prepared is not None
        with prepared(point.item, point.params, point.size, seed, data, threads=point.threads) as encrypted:
            setup = time.perf_counter() - started
            for _ in range(uncounted):
                loaded = encrypted().key_load_s
            for _ in numbers:
                done, run = _encrypted_run(encrypted, point)
                runs.append(run)
                checks.append(module.check(clear, done.result, data, size))
                # Keys that are paged are counted over all runs of the context.
                notes.append(
                    {"server_s": done.server_s, "encode_s": done.encode_s, "key_load_s": done.key_load_s - loaded}
                )
                loaded = done.key_load_s
            if self.options.events and numbers.stop == point.runs:
                events = event_rows(point, self.options.events, encrypted, lambda _: 1)
        write_trace(done.trace, self.run.path / "traces" / f"{point.key}.parquet", force=True)
        peak, around = timing.peak_memory_bytes(), self.noise(before)
        worst = max(checks, key=lambda check: (not check.passed, check.max_abs_error))
        common = dimensions(self.plan.suite, point) | {
            "setup_s": setup,
            "peak_rss_bytes": peak,
            "noise_spread": around.spread,
            "calibration_s": around.median_s,
            **{name: getattr(worst, name) for name in ("max_abs_error", "tolerance", "passed")},
        }
        about = {"rules": list(worst.rules), "num_operations": len(done.trace.view().server_operations())}
        rows = [common | timed(number, run) for number, run in zip(numbers, runs, strict=True)]
        return [row | {"note": json.dumps(about | note)} for row, note in zip(rows, notes, strict=True)], events

    def _count(self, measured: PrimitiveRuns) -> Rows:
        point = measured.point
        if not self.options.events or point.across > 1:
            return []
        if point.condition != "warm" or point.reading != OPENFHE:
            return uncounted_events(point, self.options.events)
        prepared = measured.prepare()[0]
        return event_rows(
            point,
            self.options.events,
            lambda: timing.measure(prepared.call, min_time_s=point.min_time_s, max_samples=0),
            lambda run: run.calls,
        )

    # Memory.

    def _refused(self, point: BenchPoint) -> bool:
        """Whether the point would take more memory than there is; asked just before it starts."""
        needed, free = self.options.predict(point).memory_bytes, self.options.available_bytes()
        if free is None or needed <= free:
            return False
        self.outcome.refused.append(
            f"{point.label()} (predicted peak {format_bytes(needed)}, available {format_bytes(free)})"
        )
        return True

    # Noise.

    def noise_before(self) -> None:
        """Time a fixed piece of work, and warn where it varies."""
        probe = timing.probe(PROBE_BEFORE_S)
        self.run.update(noise={"before_spread": probe.spread, "before_median_s": probe.median_s})
        governor = self.run.record.get("host", {}).get("governor")
        if governor not in (None, "performance"):
            self.run.warn(
                f"the CPU frequency governor is '{governor}': the clock changes with the load",
                "set it to 'performance' for the run (cpupower frequency-set -g performance)",
            )
        if probe.spread > timing.NOISY_SPREAD:
            self._warn_noisy("before the run", probe.spread)

    def noise(self, before: timing.Probe) -> timing.Probe:
        """The noise and the speed of the machine around a point or a run."""
        around = timing.joined([before, timing.probe(timing.PROBE_POINT_S)])
        self.probes.append(around)
        return around

    def noise_after(self) -> None:
        """Keep how much the fixed piece of work varied meanwhile."""
        during = timing.joined(self.probes).spread if self.probes else None
        stolen = timing.stolen_share(self.ticks, timing.processor_ticks())
        self.run.update(noise=self.run.record.get("noise", {}) | {"during_spread": during, "stolen_share": stolen})
        if during is not None and during > timing.NOISY_SPREAD:
            self._warn_noisy("during the run", during)

    def _warn_noisy(self, when: str, spread: float) -> None:
        self.run.warn(
            f"the machine is too noisy: a fixed piece of work spread by {spread:.0%} {when}, more than "
            f"{timing.NOISY_SPREAD:.0%}",
            "stop what else runs, pin the process (taskset), and measure again before you compare to a few percent",
        )

    # The folder.

    def _part(self, point: BenchPoint) -> Path:
        return self.run.path / "bench" / f"{point.key}.parquet"

    def _is_done(self, point: BenchPoint) -> bool:
        if not self.run.has_stage(point.key) or not self._part(point).is_file():
            return False
        try:
            read_part(self._part(point), self.run.id)
        except PenstockError:
            self._warn_damaged(point)
            return False
        return True

    def _warn_damaged(self, point: BenchPoint) -> None:
        self.run.warn(f"the stored runs of {point.label()} were damaged; it was measured again", "check the disk")

    def store_part(self, name: str, rows: Rows) -> None:
        """Write the rows of a point or a visit."""
        table = signed(table_of(rows), self.run.id)
        parquet.store_table(table, self.run.path / "bench" / f"{name}.parquet", write_page_checksum=True)

    def store_all(self, table: pa.Table) -> None:
        """Write the rows of all points."""
        parquet.store_table(table, self.run.path / FILE, compression="zstd")
        self.run.note_artifact(FILE)

    def _store(self, point: BenchPoint, rows: Rows, events: Rows) -> None:
        self.store_part(point.key, rows)
        # If only the part was lost, the stage still holds the old rows; readers use the part.
        if not self.run.has_stage(point.key):
            self.run.append_rows(point.key, [*tidy(point, rows), *events])
        self.outcome.measured += 1

    def _finish(self) -> Outcome:
        stored = {point.key: self._part(point) for point in self.plan.points if self._part(point).is_file()}
        tables = [read_part(path, self.run.id) for path in stored.values()]
        table = pa.concat_tables(tables) if tables else BENCH_SCHEMA.empty_table()
        self.store_all(table)
        labels = {point.key: point.label() for point in self.plan.points}
        failed = {row["point"]: row["max_abs_error"] for row in table.to_pylist() if row["passed"] is False}
        self.outcome.failed = [f"{labels[key]} (error {error:.3g})" for key, error in failed.items()]
        self.run.update(refused=self.outcome.refused, failed=self.outcome.failed)
        if self.outcome.refused:
            # Left unfinished: with more memory the same command measures the rest.
            self.run.write_results()
        else:
            self.run.finish()
        return self.outcome


def turns_of(runs: int, turns: int) -> list[int]:
    """The turns in which a point is run, evenly spread.

    >>> turns_of(2, 10), turns_of(3, 3)
    ([2, 7], [0, 1, 2])
    """
    return [(2 * run + 1) * turns // (2 * runs) for run in range(runs)]


def blocks(points: Sequence[BenchPoint], predict: Callable[[BenchPoint], PointEstimate]) -> Iterator[list[BenchPoint]]:
    """Points that are measured in turns: about `BLOCK_S` of them, so that a run that is killed loses no more.

    A bootstrap is alone, since its keys take the place of all others.
    """
    block: list[BenchPoint] = []
    total = 0.0
    for point in points:
        alone = point.item == "bootstrap"
        if block and (alone or total > BLOCK_S):
            yield block
            block, total = [], 0.0
        block.append(point)
        total += predict(point).total_s
        if alone:
            total = math.inf
    if block:
        yield block


def raise_problems(outcome: Outcome) -> None:
    """Raises: CheckFailed: results differ from clear; DoesNotFit: points were refused."""
    if outcome.failed:
        raise CheckFailed(f"the encrypted result differs from clear: {'; '.join(outcome.failed)}")
    if outcome.refused:
        raise DoesNotFit(
            f"{len(outcome.refused)} point{'s' if len(outcome.refused) > 1 else ''} refused for memory before the "
            f"start: {'; '.join(outcome.refused[:5])}; free some memory and repeat the command, or leave them out"
        )


def open_set(point: BenchPoint, root: Path, warn: Callable[[str, str], None]) -> AbstractContextManager[BenchSet]:
    """The stored context and keys of a primitive's parameter set and reading."""
    made = StoredSet
    if point.reading != OPENFHE:
        made = importlib.import_module("penstock.lab.measure.key_bench").NativeSet
    return made(root, point.params, warn=warn)


def _encrypted_run(encrypted: Callable[[], Run], point: BenchPoint) -> tuple[Run, timing.TimedRun]:
    began = time.time()
    with one_core_each(point.threads if point.reading == OPENFHE else 1), metered() as joules:
        cpu = time.process_time()
        done = encrypted()
        cpu = time.process_time() - cpu
    wall_s = done.wall_s
    run = timing.TimedRun(
        calls=1, total_s=wall_s, wall_s=wall_s, cpu_s=cpu, samples_s=(wall_s,), started_s=began, joules=joules()
    )
    return done, run


def _batch(point: BenchPoint) -> tuple[Hashable, ...]:
    """Points that share a context: primitives of one parameter set."""
    return (point.group, point.reading, point.params if point.group == "primitives" else point.key)
