"""Two sets of benchmark results against each other: ratio of medians, its uncertainty, and whether it is chance."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Floats
from penstock.base.types import Row, Rows
from penstock.errors import UsageError, cut
from penstock.lab.fit.measurements import OPENFHE
from penstock.lab.measure.bench.results import by_point, check_row, run_median_s, spread

_SHOWN = ("item", "size", "params", "limbs", "threads", "across", "condition", "reading")
ALPHA = 0.05
RESAMPLES = 2000
SEED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Rows for points in both, and labels of those in one only."""

    rows: Rows
    only_first: list[str]
    only_second: list[str]

    def missed(self, threshold: float) -> Rows:
        """Points that are slower than `threshold` times the first, and where that is not chance.

        A single run has no test, and the ratio alone decides.
        """
        return [
            row
            for row in self.rows
            if row["ratio"] > threshold and (row["p_value"] is None or row["verdict"] == "slower")
        ]

    @property
    def noise(self) -> float | None:
        """The median noise of the points that are compared; `None` where it was not measured."""
        known = [row["noise"] for row in self.rows if row["noise"] is not None]
        return statistics.median(known) if known else None


def compare(first: pa.Table, second: pa.Table) -> Comparison:
    """Each point of both tables: median times, second : first, 95 % interval of the ratio, Mann-Whitney U.

    The samples are the runs' medians: calls within a run are not independent of each other.
    Raises: UsageError: they have no point in common, or a time is 0 or no number.
    """
    a, b = by_point(first), by_point(second)
    common = [key for key in a if key in b]
    if not common:
        raise UsageError(
            "the two results have no point in common: compare runs of the same suite, items, parameters, threads and "
            "reading"
        )
    rows = []
    for key in common:
        for runs, where in ((a[key], "the first results"), (b[key], "the second results")):
            for run in runs:
                check_row(run, where)
        rows.append(compared(a[key], b[key]))
    return Comparison(
        rows=rows,
        only_first=[_label(a[k][0]) for k in a if k not in b],
        only_second=[_label(b[k][0]) for k in b if k not in a],
    )


def compared(before: Sequence[Row], after: Sequence[Row]) -> Row:
    """The runs of one point in two results: its dimensions, and `statistics_of` their medians."""
    first, second = ([run_median_s(run) for run in runs] for runs in (before, after))
    return {name: before[0][name] for name in _SHOWN} | statistics_of(first, second, noise_between(before, after))


def statistics_of(before: Sequence[float], after: Sequence[float], noise: float | None = None) -> Row:
    """Ratio, interval, test and verdict of two samples of times.

    The runs of a point lie within a minute or two, so the test does not see a machine that is slower for longer.
    `noise`, the change of a fixed piece of work, does; a difference below it does not count.

    >>> statistics_of([1.0, 1.01, 0.99, 1.0, 1.02], [2.0, 2.02, 1.98, 2.0, 2.04])["verdict"]
    'slower'
    """
    ratio = statistics.median(after) / statistics.median(before)
    low = high = p_value = None
    verdict = "one run only"
    if len(before) > 1 and len(after) > 1:
        low, high = ratio_interval(before, after)
        from scipy.stats import mannwhitneyu  # half a second to import

        p_value = float(mannwhitneyu(before, after, alternative="two-sided").pvalue)
        verdict = "no difference seen"
        if p_value < ALPHA and not low <= 1.0 <= high:
            verdict = "slower" if ratio > 1 else "faster"
            if noise is not None and max(ratio, 1 / ratio) - 1 <= noise:
                verdict = "within the noise"
    return {
        "first_s": statistics.median(before), "second_s": statistics.median(after), "ratio": ratio, "low": low,
        "high": high, "p_value": p_value, "first_spread": spread(before), "second_spread": spread(after),
        "noise": noise, "runs": min(len(before), len(after)), "verdict": verdict, "provenance": "measured",
    }  # fmt: skip


def ratio_interval(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """95 % bootstrap interval of the ratio of medians; the same samples give the same interval."""
    generator = np.random.default_rng(SEED)

    def medians(values: Sequence[float]) -> Floats:
        drawn = generator.choice(np.asarray(values), size=(RESAMPLES, len(values)))
        return np.median(drawn, axis=1)

    low, high = np.percentile(medians(after) / medians(before), (2.5, 97.5))
    return float(low), float(high)


def noise_between(before: Sequence[Row], after: Sequence[Row]) -> float | None:
    """How far apart two measurements of the same thing may be for reasons of the machine alone.

    The larger of how the calibration loop's medians differ, and of the time in which a single-threaded run was not on a
    processor. The interval and the test already contain the differences from run to run.
    """
    speeds_of = [[run["calibration_s"] for run in runs if run["calibration_s"] is not None] for runs in (before, after)]
    shares: list[float] = []
    if all(speeds_of):
        speeds = [statistics.median(values) for values in speeds_of]
        shares.append(max(speeds[0] / speeds[1], speeds[1] / speeds[0]) - 1)
    shares += [share for share in map(_waited, (before, after)) if share is not None]
    return max(shares, default=None)


def _waited(runs: Sequence[Row]) -> float | None:
    """Time off the processor, relative to time on it; `None` where runs have more threads or wait by themselves, as for
    a client in another process."""
    first = runs[0]
    if first["reading"] != OPENFHE and first["item"] in ("encrypt", "decrypt"):
        return None
    if first["group"] != "primitives" or first["threads"] * first["across"] > 1 or first["condition"] != "warm":
        return None
    known = [run["wall_s"] / run["cpu_s"] - 1 for run in runs if run["cpu_s"]]
    return max(0.0, statistics.median(known)) if known else None


def _label(run: Row) -> str:
    names = ("item", "size", "params", "limbs", "threads", "condition", "reading")
    return ", ".join(cut(str(run[name])) for name in names if run[name] is not None)
