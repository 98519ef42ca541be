"""Choosing what to time next: on imagined machines, the chosen times teach what programs take, as was foreseen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from penstock.errors import UsageError
from penstock.lab.fit.fit import fit_machine
from penstock.lab.prediction.composites import expanded
from penstock.lab.prediction.experiments import candidates as cost_of_points
from penstock.lab.prediction.experiments.candidates import Candidates, candidates
from penstock.lab.prediction.experiments.loop import Goal, MeasurementLoop, Report, Watcher
from penstock.lab.prediction.experiments.outlook import Expected, Outlook
from penstock.lab.prediction.experiments.posterior import scales_of
from penstock.lab.prediction.experiments.programs import programs
from penstock.scheme.machines.schema import Machine
from support.imagined_lab import ImaginedLab, Killed, errors, machine_of, mean

THREADS = (1, 2)
PROGRAMS = (
    ("inner-product", "ci"), ("matrix-multiplication", "demo"), ("logistic-function", "ci"), ("chi-square", "ci"),
    ("cnn", "ci"), ("logistic-regression", "demo"), ("matrix-multiplication", "ci"),
)  # fmt: skip
BUDGET_S, SHORT_S = 75.0, 40.0


@lru_cache
def known() -> Candidates:
    return candidates(THREADS)


def outlook() -> Outlook:
    return Outlook(known(), programs(THREADS, PROGRAMS), lambda params: True)


def measured(lab: ImaginedLab, budget_s: float = BUDGET_S, target: float = 1e-3, spent_s: float = 0.0) -> Report:
    return MeasurementLoop(lab, outlook(), Goal(budget_s=budget_s, target=target), Watcher(), spent_s).run()


@pytest.fixture(scope="module", autouse=True)
def cache() -> Iterator[None]:
    """The imagined machine's last-level cache, not that of the one that runs the tests: cold points flush it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost_of_points, "last_level_cache_bytes", lambda: 32 << 20)
        cost_of_points._flush_s.cache_clear()
        yield
    cost_of_points._flush_s.cache_clear()


@pytest.fixture(scope="module")
def found() -> tuple[ImaginedLab, Report]:
    lab = ImaginedLab(truth=machine_of(3, scale=2.0))
    return lab, measured(lab)


@pytest.fixture(scope="module")
def machine(found: tuple[ImaginedLab, Report]) -> Machine:
    return fit_machine(found[0].measured, expand=expanded)


def test_programs_are_met_as_well_as_was_expected(found: tuple[ImaginedLab, Report], machine: Machine) -> None:
    lab, report = found
    error = errors(machine, lab.truth, programs(THREADS, PROGRAMS))
    assert mean(error) < 1.3 * report.expected.mean
    assert max(error.values()) < 0.08


def test_the_time_is_kept_and_used(found: tuple[ImaginedLab, Report]) -> None:
    lab, report = found
    assert lab.now <= 1.05 * BUDGET_S
    assert report.spent_s == lab.now
    assert lab.now > 0.7 * BUDGET_S
    assert not report.reached
    assert report.visits == len(lab.made) > 3


def test_the_fit_has_every_part_of_a_machine_on_each_number_of_threads(machine: Machine) -> None:
    assert None not in (machine.threads, machine.cold, machine.client, machine.recording, machine.calibrated)
    assert machine.at(1).thread_count == 1
    assert machine.at(2).thread_count == 2
    assert machine.fit is not None
    assert machine.fit.common_sd is not None


def test_every_cold_call_has_the_warm_one_that_it_is_compared_with(found: tuple[ImaginedLab, Report]) -> None:
    points = {point for visit in found[0].made for point in visit}
    warm = {(p.item, p.params, p.limbs, p.threads) for p in points if p.condition == "warm"}
    cold = {(p.item, p.params, p.limbs, p.threads) for p in points if p.condition == "cold"}
    assert cold
    assert cold <= warm


def test_the_plan_foresees_the_error_and_more_time_gives_less() -> None:
    short, long = (outlook().plan(seconds, 1e-3) for seconds in (0.85 * 30.0, 0.85 * SHORT_S))
    after = [step.expected.mean for step in long]
    assert after == sorted(after, reverse=True)
    assert after[-1] < short[-1].expected.mean
    assert sum(step.choice.seconds for step in long) <= SHORT_S
    assert len({step.params for step in long}) > 3
    report = measured(ImaginedLab(truth=machine_of(4)), SHORT_S)
    assert report.expected.mean == pytest.approx(after[-1], rel=0.35)


def test_chosen_times_teach_more_than_the_same_time_spent_at_random(found: tuple[ImaginedLab, Report]) -> None:
    lab, _ = found
    places = known().by_key()
    rng, chosen, rest = np.random.default_rng(0), outlook(), outlook()
    for number, seconds in lab.seconds.items():
        chosen.add(number, {places[key]: each for key, each in seconds.items()})
    other = ImaginedLab(truth=lab.truth)
    rest.add(1, {places[key]: each for key, each in other.visit(lab.made[0]).items()})
    order = rng.permutation(len(known().sets)).tolist()
    while other.now < lab.now:
        at = known().sets[order[len(other.made) % len(order)]]
        points = [known().points[i] for i in rng.permutation(at)[:20].tolist()]
        rest.add(len(other.made) + 1, {places[key]: each for key, each in other.visit(points).items()})
    for each in (chosen, rest):
        each.known.scales = {}  # how well the timings were foreseen is luck
    assert chosen.expected().mean < 0.97 * rest.expected().mean


def test_it_stops_when_the_error_to_expect_is_small_enough() -> None:
    lab = ImaginedLab(truth=machine_of(6))
    report = measured(lab, target=0.06)
    assert report.reached
    assert report.expected.mean <= 0.06
    assert lab.now < 0.6 * BUDGET_S


def test_an_interrupted_measurement_goes_on_where_it_stopped() -> None:
    killed = ImaginedLab(truth=machine_of(7), kill_at=3)
    with pytest.raises(Killed):
        measured(killed, SHORT_S)
    assert len(killed.made) == 3
    rest = ImaginedLab(truth=machine_of(7), before=killed.seconds, seed=1)
    report = measured(rest, SHORT_S, spent_s=killed.now)
    before, after = ({point for visit in lab.made for point in visit} for lab in (killed, rest))
    assert after.isdisjoint(before)
    assert report.visits == len(killed.made) + len(rest.made)
    assert report.points == len(before | after)
    assert 0.7 * SHORT_S < report.spent_s == pytest.approx(killed.now + rest.now)


def test_a_machine_that_scatters_more_than_stated_has_a_larger_error_to_expect() -> None:
    quiet, noisy = (measured(ImaginedLab(truth=machine_of(8), noise=noise), SHORT_S) for noise in (0.01, 0.12))
    assert noisy.expected.mean > 1.3 * quiet.expected.mean
    assert scales_of([]) == {}
    assert scales_of([{2: (0.0, 10_000.0)}]) == {2: 0.6}


def test_who_listens_hears_the_plan_before_anything_is_measured() -> None:
    heard: list[str] = []
    lab = ImaginedLab(truth=machine_of(9))
    told = Watcher(
        planned=lambda steps, expected: heard.append(f"plan of {len(steps) > 0}, {len(lab.made)} made"),
        starts=lambda what, spent: heard.append("starts"),
        done=lambda spent, expected: heard.append("done"),
    )
    MeasurementLoop(lab, outlook(), Goal(budget_s=30.0, target=1e-3), told).run()
    assert heard[:4] == ["plan of True, 0 made", "starts", "done", "plan of True, 1 made"]


def test_too_little_time_is_refused_with_the_least() -> None:
    with pytest.raises(UsageError, match=r"--budget 5 s: the first points alone take about .* s; give more time"):
        measured(ImaginedLab(truth=machine_of(1)), 5.0)


def test_the_mean_is_over_the_numbers_of_threads() -> None:
    assert Expected(by_threads={1: 0.02, 2: 0.06}).mean == pytest.approx(0.04)


def test_points_that_do_not_fit_into_memory_are_no_candidates() -> None:
    small = candidates(THREADS, lambda point: point.params.ring_dim <= 2**13)
    assert {point.params.ring_dim for point in small.points} == {2**12, 2**13}
    assert len(small.start) == len(known().start)
    place = {replace(point, condition="warm"): i for i, point in enumerate(small.points) if point.condition == "warm"}
    assert all(small.twins[i] is None or small.points[small.twins[i]].condition == "warm" for i in range(len(place)))
