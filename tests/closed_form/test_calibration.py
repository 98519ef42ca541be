"""The one calibrated number of each accelerator meets the published time that its source names, and nothing else.

Where this fails, the bootstrapping circuit or the parameter set has changed: put the utilisation that the message gives
into the machine's file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.running import trace_workload
from penstock.scheme.machines import Evidence, InsideModel, load_machine
from penstock.scheme.params import catalogue
from penstock.scheme.play.price import price_trace
from penstock.scheme.traces.schema import TraceMeta

PUBLISHED = [
    ("sharp", "sharp", 3.12e-3),
    ("a100-tensorfhe", "tensorfhe-resnet20", 250e-3),
]


def utilisation_meeting(seconds_at: Callable[[float], float], seconds: float) -> float:
    """The utilisation at which a program takes so long, by bisection."""
    low, high = 1e-6, 1e6
    while high / low > 1 + 1e-9:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if seconds_at(middle) > seconds else (low, middle)
    return high


@pytest.mark.parametrize(("name", "params_name", "seconds"), PUBLISHED)
def test_bootstrapping_takes_the_published_time(name, params_name, seconds):
    machine, params = load_machine(name), catalogue.get(params_name)
    ev = SymbolicEvaluator(params)
    ev.bootstrap(ev.fresh(1))
    trace = ev.builder.finish(TraceMeta(workload="bootstrap", params=params.to_dict(), reading="trace"))

    def seconds_at(share: float) -> float:
        return price_trace(trace, replace(machine, utilisation=replace(machine.utilisation, value=share))).ideal_s

    got = price_trace(trace, machine).ideal_s
    if got != pytest.approx(seconds, rel=1e-3):
        pytest.fail(f"set the utilisation of '{name}' to \"{100 * utilisation_meeting(seconds_at, seconds):.2f} %\"")
    assert machine.utilisation.kind is Evidence.CALIBRATED
    assert params_name in machine.utilisation.source
    calibrated = [path for path, figure in machine.figures() if figure.kind is Evidence.CALIBRATED]
    assert calibrated == ["utilisation", *(["datapath.efficiency"] if name == "sharp" else [])]


def test_the_schedule_of_bootstrapping_takes_the_published_time():
    machine, params = replace(load_machine("sharp"), inside=InsideModel.SCHEDULE), catalogue.get("sharp")
    ev = SymbolicEvaluator(params)
    ev.bootstrap(ev.fresh(1))
    trace = ev.builder.finish(TraceMeta(workload="bootstrap", params=params.to_dict(), reading="trace"))
    assert price_trace(trace, machine).ideal_s == pytest.approx(3.12e-3, rel=1e-3)


@pytest.mark.parametrize(
    ("workload", "size", "runs", "published_s"),
    [("resnet20-multiplexed", "published", 1, 99e-3), ("logistic-regression", "helr", 32, 2.53e-3)],
)
def test_scheduled_applications_are_near_their_published_times(workload, size, runs, published_s):
    """SHARP's two applications, every byte on chip; the efficiency is calibrated on bootstrapping alone."""
    machine = replace(load_machine("sharp"), inside=InsideModel.SCHEDULE)
    priced = price_trace(trace_workload(workload, catalogue.get("sharp"), size, 0), machine)
    assert priced.ideal_s / runs == pytest.approx(published_s, rel=0.07)
    assert priced.schedule is not None
    assert max(priced.schedule.bounds_s.values()) <= priced.schedule.total_s * (1 + 1e-9)
