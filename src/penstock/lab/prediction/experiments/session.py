"""A measurement of this machine in a run folder: new, or the rest of an interrupted one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.base.runs.folder import RunFolder
from penstock.base.types import Row
from penstock.lab.fit.measurements import OPENFHE
from penstock.lab.measure.bench import timing
from penstock.lab.measure.bench.estimate import estimate
from penstock.lab.measure.bench.spec import BenchPoint
from penstock.lab.measure.bench.store import is_stored
from penstock.lab.measure.bench.suite import Options
from penstock.lab.measure.bench.visits import Visits
from penstock.lab.prediction.experiments.candidates import SUITE, candidates
from penstock.lab.prediction.experiments.loop import Goal, Lab, MeasurementLoop, Report, Watcher, program_points
from penstock.lab.prediction.experiments.outlook import Expected, Outlook
from penstock.lab.prediction.experiments.programs import programs

SECTION = "experiment"
"""Of `run.json`: the time that was spent, and the expected error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The threads and the reading that are measured, and the place of keys."""

    threads: tuple[int, ...]
    store: Path
    reading: str
    """Who computes."""

    def config(self) -> Row:
        """What makes two measurements the same: neither the budget nor the target, so that either may grow."""
        config = {"verb": "bench", "suite": SUITE, "threads": list(self.threads)}
        return config if self.reading == OPENFHE else config | {"reading": self.reading}

    def outlook(self) -> Outlook:
        """Before anything is timed.

        Raises: UsageError: more threads than cores.
        """
        timing.check_affinity(max(self.threads))
        free = timing.available_bytes()

        def fits(point: BenchPoint) -> bool:
            return free is None or estimate(point).memory_bytes <= free

        return Outlook(
            candidates(self.threads, fits, self.reading),
            programs(self.threads),
            lambda params: is_stored(self.store, params, self.reading),
        )

    def folder(self) -> Path:
        """The folder of an interrupted measurement with these threads, else a new one's."""
        return RunFolder.find_unfinished(SUITE, self.config()) or RunFolder.default_path(SUITE)

    def measure(self, path: Path, asked: Goal, watcher: Watcher) -> Report:
        """Measure into the folder, and finish it.

        Raises: UsageError: the budget is too small; CheckFailed: a result differs from clear; as `RunFolder`.
        """
        outlook = self.outlook()
        known = [*outlook.candidates.points, *program_points(self.threads, self.reading)]
        with RunFolder.open_or_resume(path, self.config()) as run:
            visits = Visits(SUITE, known, run, Options(store=self.store))
            before = float(run.record.get(SECTION, {}).get("spent_s", 0.0))
            visits.started()

            def done(spent_s: float, expected: Expected) -> None:
                run.update(**{SECTION: _section(spent_s, expected, asked)})
                watcher.done(spent_s, expected)

            heard = Watcher(planned=watcher.planned, starts=watcher.starts, done=done)
            report = MeasurementLoop(Lab(visits), outlook, asked, heard, before).run()
            run.update(**{SECTION: _section(report.spent_s, report.expected, asked)})
            visits.finish()
        return report


def default_counts(cores: int) -> tuple[int, ...]:
    """Numbers of threads: one, two, and all cores.

    >>> default_counts(1), default_counts(2), default_counts(16)
    ((1,), (1, 2), (1, 2, 16))
    """
    return tuple(sorted({1, min(2, cores), cores}))


def _section(spent_s: float, expected: Expected, asked: Goal) -> Row:
    by_threads: Sequence[Row] = [
        {"threads": count, "expected_error": error} for count, error in expected.by_threads.items()
    ]
    return {"spent_s": spent_s, "expected_error": expected.mean, "by_threads": by_threads, **asdict(asked)}
