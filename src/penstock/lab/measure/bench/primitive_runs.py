"""The runs of one primitive while they are gathered: warm or after a flush, alone or side by side, until they agree."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from penstock.base.types import Row, Rows
from penstock.lab.fit.measurements import OPENFHE
from penstock.lab.measure.bench import timing
from penstock.lab.measure.bench.catalogue import PRIMITIVES
from penstock.lab.measure.bench.cores import one_core_each
from penstock.lab.measure.bench.primitives import OTHER_INPUTS, TOLERANCE, PreparedPrimitive, prepare
from penstock.lab.measure.bench.rows import dimensions, timed
from penstock.lab.measure.bench.spec import BenchPoint
from penstock.lab.measure.bench.store import BenchSet
from penstock.program.openfhe.evaluator import set_threads
from penstock.scheme.operations import TRAITS

UNCERTAIN = 0.0125
"""Points whose median is less certain than this (standard error) are run again: two such medians differ by less than
5 % in all but one case in two hundred."""
REPEATS = 3
"""At most so many times the planned runs."""


class PrimitiveRuns:
    """One primitive point while its runs are gathered."""

    def __init__(self, point: BenchPoint, stored: BenchSet) -> None:
        self.point, self.stored = point, stored
        self.runs: list[timing.TimedRun] = []
        self._once: Row = {}
        self._probes: list[timing.Probe] = []

    def wants_more(self) -> bool:
        """Whether a run is missing: the planned ones, then up to `REPEATS` times as many while they disagree."""
        done, planned = len(self.runs), self.point.runs
        if done < planned:
            return True
        return planned > 1 and done < REPEATS * planned and uncertainty(self.runs) > UNCERTAIN

    def prepare(self) -> list[PreparedPrimitive]:
        """Inputs and keys, made or found, for each of the operations that run side by side."""
        if self.point.reading == OPENFHE:
            set_threads(self.point.threads)
        return [prepare(self.point, self.stored) for _ in range(self.point.across)]

    def run(self, noise: Callable[[timing.Probe], timing.Probe], probed: timing.Probe | None = None) -> None:
        """One run, and before it a call that does not count.

        Args:   noise: told of the fixed piece of work before the run; probed: its times, where it was timed already.
        """
        point, first_round = self.point, not self.runs
        if first_round:
            timing.reset_peak_memory()
        before, setup = probed or timing.probe(timing.PROBE_POINT_S), self.stored.setup_s
        prepared = self.prepare()
        setup = self.stored.setup_s - setup
        with one_core_each(point.threads if point.across == 1 and point.reading == OPENFHE else 1):
            first = timing.measure(prepared[0].call, min_time_s=0.0, max_samples=0)
            if point.across == 1:
                run = timing.measure(
                    prepared[0].call,
                    min_time_s=point.min_time_s,
                    max_samples=point.max_samples,
                    before=self._coldness(prepared[0]),
                    less_s=prepared[0].less_s,
                )
            else:
                run = timing.measure_across(
                    [primitive.call for primitive in prepared],
                    min_time_s=point.min_time_s,
                    max_samples=point.max_samples,
                )
                set_threads(point.threads)
        self.runs.append(run)
        if first_round:
            peak = timing.peak_memory_bytes()
            error = prepared[0].max_abs_error()
            reads_key = point.condition == "cold-keys" or point.item == "key_load"
            self._once = {
                "first_call_s": first.total_s, "setup_s": setup, "peak_rss_bytes": peak,
                "key_bytes": prepared[0].key_bytes if reads_key else None, "max_abs_error": error,
                "tolerance": None if error is None else TOLERANCE,
                "passed": None if error is None else error <= TOLERANCE,
            }  # fmt: skip
        self._probes.append(noise(before))

    def _coldness(self, prepared: PreparedPrimitive) -> Callable[[], None] | None:
        """What runs ahead of each call, untimed.

        `cold`: a flush, and then the same call on other inputs, as in a program something ran just before. A composite
        is long enough to have no need of that.
        """
        point = self.point
        if point.condition == "warm":
            return None
        flush = timing.Flush()
        if point.condition == "cold-keys":
            path = prepared.key_path
            assert path is not None

            def drop() -> None:
                timing.drop_page_cache(path)
                flush()

            return drop
        kind = PRIMITIVES[point.item].kind
        if kind is not None and TRAITS[kind].composite:
            return flush
        other = prepare(point, self.stored, OTHER_INPUTS).call

        def before() -> None:
            flush()
            other()

        return before

    def rows(self, suite: str, first: int = 0) -> Rows:
        """One row a run; `first` is the number of the first."""
        point = self.point
        kind, around = PRIMITIVES[point.item].kind, timing.joined(self._probes)
        common = (
            dimensions(suite, point)
            | self._once
            | {
                "kind": None if kind is None else str(kind),
                "overhead_s": timing.overhead_s(),
                "noise_spread": around.spread,
                "calibration_s": around.median_s,
            }
        )
        return [common | timed(number, run) for number, run in enumerate(self.runs, first)]


def uncertainty(runs: Sequence[timing.TimedRun]) -> float:
    """Standard error of the median of the runs' medians, relative to it.

    Source: McGill, Tukey & Larsen, "Variations of box plots", 1978: 1.25 IQR / (1.35 sqrt(n)).
    """
    low, middle, high = np.percentile([run.median_s for run in runs], (25, 50, 75))
    return float(1.25 * (high - low) / (1.35 * math.sqrt(len(runs)) * middle))
