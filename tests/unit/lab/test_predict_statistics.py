"""Quiet times and medians: which of them a point has, which a protocol compares, and what its rows say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.errors import MachineError, UnknownName
from penstock.front.cli.main import main
from penstock.lab.fit.measurements import MEDIAN, QUIET, Measurement, quiet_seconds, statistic_of
from penstock.lab.measure.bench.spec import BenchPoint
from penstock.lab.prediction.importers import load
from penstock.lab.prediction.models import Estimate, served
from penstock.lab.prediction.validation.protocols import PROTOCOLS, Given
from penstock.lab.prediction.validation.scores import Validation, validate
from penstock.lab.prediction.validation.statistics import AUTO, OVER_PRIMITIVES, measured_as
from support.bench_rows import folder_of, points_of, rows_of
from support.imagined_cpu import ran, sweep, true_seconds

DISTURBED = 1.25
"""What a median is above the quiet time here."""


class Undisturbed:
    """Knows what the imagined CPU takes where nothing disturbs it, times what it was fitted to is disturbed by."""

    def __init__(self, train: Sequence[Measurement]) -> None:
        self.factor = 1.0 if statistic_of(m for m in train if m.group == "primitives") == QUIET else DISTURBED

    def predict(self, measurement: Measurement) -> Estimate:
        shapes = {measurement.shape: 1} if measurement.shape is not None else served(measurement).counts
        at = measurement.params, measurement.threads
        return Estimate(self.factor * sum(n * true_seconds(shape, *at) for shape, n in shapes.items()))


def disturbed(calls: int = 100) -> list[Measurement]:
    """Primitives whose medians are disturbed and whose quiet times are not."""
    found = sweep(rings=(11, 12, 13), depths=(6, 8, 12), threads=(1, 2))
    return [replace(m, seconds=DISTURBED * m.seconds, quiet_s=m.seconds, calls=calls) for m in found]


def scored(protocol: str, statistic: str, measurements: Sequence[Measurement]) -> Validation:
    given = Given(measurements=tuple(measurements), other=tuple(sweep(rings=(12, 13))))
    return validate(given, {protocol: PROTOCOLS[protocol]}, {"penstock": Undisturbed}, statistic=statistic)


PROGRAMS = [ran("inner-product", "ci", 1, factor=DISTURBED), ran("sign-evaluation", "ci", 1, factor=DISTURBED)]


# The rule.


@pytest.mark.parametrize(
    ("calls", "expected"), [(1, 1), (5, 1), (19, 1), (20, 2), (39, 2), (40, 3), (100, 6), (1000, 51)]
)
def test_the_quiet_time_is_the_call_that_five_percent_are_faster_than_and_of_few_the_fastest(
    calls: int, expected: int
) -> None:
    shuffled = np.random.default_rng(calls).permutation(np.arange(1, calls + 1))
    assert quiet_seconds(shuffled) == expected


def test_calls_that_are_disturbed_move_the_median_and_not_the_quiet_time() -> None:
    generator = np.random.default_rng(1)
    for share in (0.0, 0.3, 0.6, 0.9):
        calls = 1e-3 * (1 + 0.002 * generator.standard_normal(2000))
        calls[generator.random(2000) < share] *= 1.4
        assert quiet_seconds(calls) == pytest.approx(1e-3, rel=0.006)
    assert np.median(calls) == pytest.approx(1.4e-3, rel=0.01)


def test_few_calls_give_a_quiet_time_that_is_rather_too_long() -> None:
    generator = np.random.default_rng(2)
    exact = np.quantile(generator.exponential(size=200_000), 0.05)
    for calls in (5, 10, 19):
        assert np.mean([quiet_seconds(generator.exponential(size=calls)) for _ in range(4000)]) >= exact


# What a point has.


def test_the_quiet_time_of_a_point_is_that_of_the_calls_of_all_its_runs(tmp_path: Path) -> None:
    rows = rows_of(points_of()[:1])
    for number, row in enumerate(rows):
        row["samples_s"] = [1e-3 * (1 + number + call) for call in range(10)]
    (found,) = load(folder_of(tmp_path / "run", rows))
    together = sorted(call for row in rows for call in row["samples_s"])
    assert (found.quiet_s, found.calls, found.statistic) == (together[1], 30, MEDIAN)
    assert found.quiet_spread == pytest.approx(2e-3 / together[1])
    quiet = found.as_quiet()
    assert (quiet.seconds, quiet.spread, quiet.statistic) == (found.quiet_s, found.quiet_spread, QUIET)


def test_programs_and_points_without_single_calls_keep_what_they_have(tmp_path: Path) -> None:
    program = points_of('[[workloads]]\nworkload = "inner-product"\nthreads = 1')
    (found,) = load(folder_of(tmp_path / "program", rows_of(program)))
    assert (found.quiet_s, found.calls, found.as_quiet()) == (None, 0, found)
    rows = rows_of(points_of()[:1], samples_s=[])
    (mean,) = load(folder_of(tmp_path / "mean", rows))
    assert (mean.quiet_s, mean.as_quiet()) == (None, mean)


@pytest.mark.parametrize("wrong", [{"quiet_s": 0.0}, {"quiet_s": float("nan")}, {"statistic": "mean"}])
def test_a_quiet_time_is_a_time_and_a_statistic_has_a_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(MachineError, match=r"a time is positive|it is median or quiet"):
        replace(sweep()[0], **wrong)


# What a protocol compares.


@pytest.mark.parametrize("protocol", sorted(OVER_PRIMITIVES))
@pytest.mark.parametrize(("statistic", "said"), [(AUTO, QUIET), (QUIET, QUIET), (MEDIAN, MEDIAN)])
def test_protocols_over_primitives_compare_quiet_times_with_quiet_times(
    protocol: str, statistic: str, said: str
) -> None:
    found = scored(protocol, statistic, [*disturbed(), *PROGRAMS])
    assert {row["statistic"] for row in found.rows()} == {said}
    assert all(abs(point.error) < 1e-12 for point in found.points)


@pytest.mark.parametrize("protocol", ["unseen-application", "unseen-application-wall", "paper"])
@pytest.mark.parametrize(
    ("statistic", "said", "error"),
    [(AUTO, MEDIAN, 0.0), (MEDIAN, MEDIAN, 0.0), (QUIET, "quiet for median", 1 / DISTURBED - 1)],
)
def test_programs_are_compared_with_medians_and_quiet_times_are_too_short_for_them(
    protocol: str, statistic: str, said: str, error: float
) -> None:
    params = next(m.params for m in disturbed() if m.params.num_q == 8 and m.params.ring_dim == 2**12)
    programs = [ran("inner-product", "ci", 1, factor=DISTURBED, params=params)]
    found = scored(protocol, statistic, [*disturbed(), *programs])
    assert {row["statistic"] for row in found.rows()} == {said}
    assert [point.error for point in found.points] == pytest.approx([error] * len(programs))


def test_programs_that_are_held_out_along_an_axis_are_compared_with_medians_there() -> None:
    sets = {m.params.ring_dim: m.params for m in disturbed() if m.params.num_q == 12}
    programs = [ran("inner-product", "ci", 1, factor=DISTURBED, params=params) for params in sets.values()]
    found = scored("unseen-ring-dim", AUTO, [*disturbed(), *programs])
    assert {(p.measurement.group, p.statistic) for p in found.points} == {("primitives", QUIET), ("workloads", MEDIAN)}
    assert all(abs(point.error) < 1e-9 for point in found.points)
    said = {row["application"]: row["statistic"] for row in found.rows()}
    assert (said["all"], said["inner-product"]) == ("median and quiet", MEDIAN)


def test_results_without_calls_are_compared_as_they_are() -> None:
    given = [replace(m, quiet_s=None, calls=0) for m in disturbed()]
    for statistic in (AUTO, QUIET):
        assert {row["statistic"] for row in scored("unseen-depth", statistic, given).rows()} == {MEDIAN}


def test_quiet_times_of_few_calls_are_a_warning() -> None:
    measurements = disturbed()
    measurements[0] = replace(measurements[0], calls=7)
    (warning,) = scored("unseen-ring-dim", AUTO, measurements).warnings
    assert f"1 of {len(measurements)} quiet times are of fewer than 20 calls (the fewest: 7)" in warning
    assert scored("unseen-ring-dim", MEDIAN, measurements).warnings == []


def test_an_unknown_statistic_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match="median"):
        scored("unseen-ring-dim", "medain", disturbed())


def test_quiet_times_are_taken_where_they_are_asked_for() -> None:
    measurements = disturbed()[:3]
    assert measured_as(measurements, AUTO) == tuple(measurements)
    assert {m.statistic for m in measured_as(measurements, QUIET)} == {QUIET}


# The verbs.

SWEEP = """
[[primitives]]
items = ["add", "mult_plain", "rescale", "rotate", "mult"]
ring_dim = ["2^11", "2^12", "2^13"]
depth = 6
limbs = ["fresh", 4, "last"]
threads = 1
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def seconds(point: BenchPoint, run: int) -> float:
        return 1e-6 * point.params.ring_dim * (point.limbs or point.params.num_q) ** 0.5

    rows = rows_of(points_of(SWEEP), seconds)
    for row in rows:
        each = row["samples_s"][0]
        row["samples_s"] = [each] * 10 + [DISTURBED * each] * 30
    return folder_of(tmp_path_factory.mktemp("measured") / "run", rows)


def test_validate_says_which_times_it_compares_and_why(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["predict", "validate", str(results), "--protocol", "unseen-ring-dim", "--model", "log-quadratic"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "unseen-ring-dim: predicted / measured - 1, quiet times" in shown
    assert "quiet: 5 % of a primitive's calls are faster" in shown
    assert main([*words, "--statistic", "median", "--format", "json", "-q"]) == 0
    assert {row["statistic"] for row in json.loads(capsys.readouterr().out)} == {"median"}
    assert main([*words, "--statistic", "mean"]) == 2


def transforms_a_second(fitted: dict[str, Any]) -> float:
    (row,) = [row for row in fitted["coefficients"] if row["coefficient"] == "units.transforms"]
    return float(row["value"].split()[0])


def test_fit_takes_medians_unless_it_is_told_otherwise(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {}
    for statistic in (AUTO, MEDIAN, QUIET):
        path = tmp_path / f"{statistic}.toml"
        words = ["predict", "fit", str(results), "-o", str(path), "--statistic", statistic, "--format", "json", "-q"]
        assert main(words) == 0
        found[statistic] = json.loads(capsys.readouterr().out)
    assert (found[AUTO]["statistic"], found[QUIET]["statistic"]) == ("median", "quiet")
    assert found[AUTO]["coefficients"] == found[MEDIAN]["coefficients"]
    assert found[QUIET]["fitted_to"].endswith("quiet times)")
    rates = {name: transforms_a_second(each) for name, each in found.items()}
    assert rates[QUIET] / rates[MEDIAN] == pytest.approx(DISTURBED, rel=0.01)
