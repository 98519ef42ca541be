"""Predictions: prices of tallies, their intervals, contributions, energy and memory."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

from penstock.errors import MachineError, UsageError
from penstock.lab.fit.fit import fit_machine, fit_power
from penstock.lab.fit.measurements import primitive_shape
from penstock.lab.prediction.batch import WorkBatch, batch_seconds
from penstock.lab.prediction.energy import part_energies, work_joules
from penstock.lab.prediction.memory import memory_of
from penstock.lab.prediction.prediction import predict
from penstock.lab.prediction.uncertainty import interval, log_sd
from penstock.program.running import trace_workload
from penstock.program.running.counting import count_workload
from penstock.scheme.machines import load_machine
from penstock.scheme.machines.figure import Evidence, Figure
from penstock.scheme.machines.power import PowerModel
from penstock.scheme.machines.report import FitReport
from penstock.scheme.machines.schema import Machine
from penstock.scheme.operations import OpKind
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.play.price import price_trace
from penstock.scheme.work.kernel_work import KernelWork
from penstock.scheme.work.shapes import Shape, shape_work
from support.imagined_cpu import params_of, sweep, true_seconds

FIT = FitReport(
    fitted_to="nothing",
    shapes=1,
    total_error=0.0,
    spread=None,
    merged=[],
    errors=[],
    common_sd=0.03,
    kinds={"rotate": 0.04, "add": 0.1},
    interval_scale=1.2,
    degrees_of_freedom=7.0,
    ranges={"ring_dim": [2**11, 2**13], "threads": [1, 4]},
)


@pytest.fixture(scope="module")
def cpu() -> Machine:
    """Fitted to an imagined CPU at 1, 2 and 4 threads, with energies: 40 W and 10 W a thread."""
    measured = [
        replace(m, joules=(40 + 10 * m.threads) * m.seconds, seconds=m.seconds * (1 + 0.01 * (-1) ** i))
        for i, m in enumerate(sweep(rings=(11, 12, 13), depths=(6, 9), threads=(1, 2, 4)))
    ]
    return fit_machine(measured, name="imagined")


def figure(value: float, kind: Evidence = Evidence.MEASURED) -> Figure:
    return Figure(value=value, text=f"{value} W", source="a test", kind=kind)


def test_the_seconds_of_an_accelerator_are_those_of_the_priced_trace() -> None:
    sharp = load_machine("sharp")
    trace = trace_workload("inner-product", "sharp")
    found = predict(trace, sharp)
    assert found.predicted_s == pytest.approx(price_trace(trace, sharp).ideal_s, rel=1e-12)
    assert found == predict(count_workload("inner-product", "sharp"), sharp)
    assert (found.low_s, found.high_s, found.low_j, found.client_s) == (None, None, None, None)
    assert any("no interval" in warning for warning in found.warnings)
    assert found.num_operations == len(trace.view().server_operations())
    assert found.key_bytes == len(trace.key_ids()) * trace.parameters().key_bytes()


def test_a_machine_fitted_to_the_server_alone_prices_the_server_and_says_what_is_missing(cpu: Machine) -> None:
    tally = count_workload("inner-product", "insecure-ci", "ci")
    found = predict(tally, cpu, threads=2)
    served = {s: n for s, n in tally.counts.items() if s.kind not in ("encrypt", "decrypt")}
    truth = sum(n * true_seconds(shape, tally.params, 2) for shape, n in served.items())
    assert found.predicted_s == pytest.approx(truth, rel=0.05)
    assert (found.server_s, found.client_s, found.encode_s) == (found.predicted_s, None, None)
    assert any("taken as cached" in warning for warning in found.warnings)
    assert any("does not know the client" in warning for warning in found.warnings)
    assert found.low_s is not None
    assert found.high_s is not None
    assert found.low_s < found.predicted_s < found.high_s
    assert found.predicted_s**2 == pytest.approx(found.low_s * found.high_s)


def test_contributions_are_sorted_and_add_up(cpu: Machine) -> None:
    found = predict(count_workload("logistic-regression", size="ci"), cpu)
    seconds = [each.seconds for each in found.contributions]
    assert seconds == sorted(seconds, reverse=True)
    assert sum(seconds) == pytest.approx(found.predicted_s, rel=1e-12)
    assert sum(each.share for each in found.contributions) == pytest.approx(1.0)
    assert len({(each.kind, each.limbs) for each in found.contributions}) == len(found.contributions)


def test_batches_price_as_machines_do_one_by_one(cpu: Machine) -> None:
    tally = count_workload("cnn", size="ci")
    works = [shape_work(shape, tally.params) for shape in tally.counts]
    batch = WorkBatch.of(works)
    for machine in (
        cpu.at(1),
        cpu.at(2),
        cpu.at(4),
        cpu.at(7),
        cpu.at(500),
        load_machine("sharp"),
        load_machine("a100-tensorfhe"),
    ):
        expected = [machine.price(work).seconds for work in works]
        np.testing.assert_allclose(batch_seconds(machine, batch), expected, rtol=1e-12)
    assert batch_seconds(cpu, WorkBatch.of([])).shape == (0,)


def test_errors_of_one_kind_are_the_same_wherever_it_occurs() -> None:
    sd = log_sd(FIT, {"rotate": 3.0, "add": 1.0})
    assert sd == pytest.approx(math.sqrt(0.03**2 + (0.75 * 0.04) ** 2 + (0.25 * 0.1) ** 2))
    # A kind that was not measured is taken for as uncertain as the worst.
    assert log_sd(FIT, {"mult": 1.0}) == pytest.approx(math.hypot(0.03, 0.1))
    assert log_sd(FIT, {}) == 0.03
    assert log_sd(FIT.model_copy(update={"common_sd": None}), {"add": 1.0}) is None


def test_intervals_are_students_scaled_and_wider_above() -> None:
    low, high = interval(FIT, 10.0, 0.1)
    width = student.ppf(0.95, 7) * 0.1 * 1.2
    assert (low, high) == (pytest.approx(10 * math.exp(-width)), pytest.approx(10 * math.exp(width)))
    assert high - 10 > 10 - low
    normal = interval(FIT.model_copy(update={"degrees_of_freedom": math.inf, "interval_scale": 1.0}), 1.0, 0.1)[1]
    assert normal == pytest.approx(math.exp(1.6448536 * 0.1))


def test_predictions_outside_the_measurements_say_so(cpu: Machine) -> None:
    params = params_of(15, 8)
    found = predict({primitive_shape(OpKind.ROTATE, params, 8): 3}, cpu, params=params, threads=8)
    joined = " ".join(found.warnings)
    assert "ring_dim 32768" in joined
    assert "threads 8" in joined
    assert found.memory is None
    assert found.key_bytes is None
    assert found.peak_bytes is None
    inside = params_of(12, 6)
    assert predict({primitive_shape(OpKind.ROTATE, inside, 6): 3}, cpu, params=inside, threads=2).warnings == ()


def test_a_composite_without_an_expansion_is_named() -> None:
    params = params_of(12)
    counts = {Shape("composite", 8, 8, 0, 0, 2): 4, primitive_shape(OpKind.ADD, params, 8): 1}
    found = predict(counts, load_machine("sharp"), params=params)
    assert found.unpriced == {"composite": 4}
    assert any("4 operations 'composite' have no price" in warning for warning in found.warnings)
    assert (found.num_operations, found.at_least["num_operations"]) == (None, 1)


def test_counts_without_parameters_and_threads_that_are_not_known_are_refused(cpu: Machine) -> None:
    with pytest.raises(UsageError, match="parameter set"):
        predict({}, cpu)
    single = fit_machine([m for m in sweep() if m.threads == 1], name="one")
    with pytest.raises(MachineError, match="1 thread only"):
        predict(count_workload("cnn", size="ci"), single, threads=4)


# Energy.
def test_measured_power_by_threads_prices_the_energy(cpu: Machine) -> None:
    tally = count_workload("inner-product", "insecure-ci", "ci")
    for threads, watts in ((1, 50.0), (2, 60.0), (4, 80.0)):
        found = predict(tally, cpu, threads=threads)
        assert found.predicted_j == pytest.approx(watts * found.predicted_s, rel=0.02)
        assert found.energy.kind is Evidence.MEASURED
        assert found.low_j is not None
        assert found.high_j is not None
        assert found.low_j < found.predicted_j < found.high_j
    assert found.energy.idle_j is None
    idle = predict(tally, replace(cpu, idle_power=figure(12.0)), threads=4)
    assert idle.energy.idle_j == pytest.approx(12 * idle.predicted_s)


def test_an_idle_energy_that_is_no_part_of_the_energy_is_said_so(cpu: Machine) -> None:
    tally = count_workload("inner-product", "insecure-ci", "ci")

    def said(machine: Machine) -> list[str]:
        return [text for text in predict(tally, machine).warnings if "idle_j" in text]

    assert said(replace(cpu, idle_power=figure(12.0))) == []
    assert said(replace(cpu, thread_power=None)) == []
    assert said(replace(cpu, thread_power=None, idle_power=figure(12.0))) == []
    (more,) = said(replace(cpu, idle_power=figure(500.0)))
    assert "is more than predicted_j" in more


def test_threads_that_a_machine_says_nothing_of_are_warned_of(cpu: Machine) -> None:
    tally = count_workload("inner-product", "sharp")
    said = "machine 'sharp' says nothing of threads: 8 of them"
    assert any(said in text for text in predict(tally, load_machine("sharp"), threads=8).warnings)
    assert not any("of threads" in text for text in predict(tally, load_machine("sharp")).warnings)
    small = count_workload("inner-product", "insecure-ci", "ci")
    assert not any("of threads" in text for text in predict(small, cpu, threads=2).warnings)


def test_power_is_interpolated_in_the_logarithm_of_threads_and_stays_beyond() -> None:
    model = PowerModel(watts={1: figure(60.0), 4: figure(80.0)})
    assert [model.at(n) for n in (1, 2, 4, 64)] == [60.0, 70.0, 80.0, 80.0]
    assert model.nearest(3).value == 80.0
    assert fit_power([], "nothing") is None


def test_absurd_energies_do_not_move_the_power() -> None:
    timed = sweep(threads=(1,))
    measured = [replace(m, joules=m.seconds * (7000 if i % 10 == 0 else 64)) for i, m in enumerate(timed)]
    model = fit_power(measured, "a test")
    assert model is not None
    assert model.at(1) == pytest.approx(64.0)
    assert model.log_sd == 0.0


def test_what_makes_a_machines_times_less_than_they_seem_is_said_with_a_prediction() -> None:
    ark, tally = load_machine("ark"), count_workload("inner-product", "ark")
    assert ark.warnings(tally.params)
    assert set(ark.warnings(tally.params)) <= set(predict(tally, ark).warnings)


def test_energy_without_a_power_is_unknown_as_a_simulation_has_it(cpu: Machine) -> None:
    silent = replace(cpu, thread_power=None)
    found = predict(count_workload("cnn", size="ci"), silent)
    assert found.predicted_j is found.low_j is found.high_j is found.energy.kind is None
    assert any("energy is unknown" in warning and "order of magnitude" in warning for warning in found.warnings)


def test_energies_of_parts_are_those_of_the_table() -> None:
    table = part_energies()
    assert table.memory == pytest.approx(1.3e-9 / 8)  # 1.3 nJ for 64 bits
    additions = work_joules(KernelWork(ring_dim=1024, elementwise_adds=10), 32, table)
    assert additions == pytest.approx(10 * (2 * 0.1e-12 + 3 * 10e-12))
    products = work_joules(KernelWork(ring_dim=1024, elementwise_mults=10), 64, table)
    assert products == pytest.approx(10 * (3 * 4 * 3.1e-12 + 3 * 20e-12))
    assert work_joules(KernelWork(key_bytes=1000), 64, table) == pytest.approx(1000 * table.memory)
    assert work_joules(KernelWork(), 64, table) == 0.0


# Memory.
MEASURED_PEAKS = {
    ("logistic-function", "ci"): 138e6,
    ("matrix-multiplication", "ci"): 244e6,
    ("sign-evaluation", "ci"): 137e6,
    ("chi-square", "ci"): 348e6,
    ("cnn", "ci"): 225e6,
    ("inner-product", "ci"): 164e6,
    ("logistic-regression", "ci"): 217e6,
    ("bootstrapping", "ci"): 324e6,
    ("resnet20", "ci"): 773e6,
    ("inner-product", "demo"): 573e6,
    ("logistic-regression", "demo"): 995e6,
    ("matrix-multiplication", "demo"): 2106e6,
    ("resnet20", "full"): 15.09e9,
    ("bootstrapping", "full-2^14"): 15.27e9,
}
"""Peak resident bytes of encrypted runs with OpenFHE 1.6.1 (CPython 3.10, x86-64, 2 threads)."""


@pytest.mark.parametrize(("name", "size"), MEASURED_PEAKS)
def test_measured_peaks_are_within_the_range_and_near_the_prediction(name: str, size: str) -> None:
    found, measured = memory_of(count_workload(name, size=size)), MEASURED_PEAKS[name, size]
    assert found.low_bytes <= measured <= found.high_bytes
    assert found.peak_bytes == pytest.approx(measured, rel=0.15)


def test_an_accelerator_holds_keys_and_data_only() -> None:
    tally = count_workload("inner-product", "sharp")
    found = memory_of(tally)
    assert found.peak_bytes == tally.key_bytes() + tally.live_bytes == sum(found.parts.values())


def test_paged_keys_take_their_budget_and_those_of_bootstrapping() -> None:
    tally = count_workload("resnet20", size="full")
    paged, whole = memory_of(tally), memory_of(tally, key_budget_bytes=2**60)
    assert paged.parts["keys"] < whole.parts["keys"] == tally.key_bytes()
    inside = {key: tally.keys[key] for key in tally.composite_keys}
    assert paged.parts["keys"] == 3 * 2**29 + tally.params.total_key_bytes(inside)


def test_truncated_keys_take_the_memory_of_their_rows() -> None:
    tally = count_workload("resnet20", size="full")
    form = KeyForm.TRUNCATED
    of_composites = sum(tally.params.key_bytes(tally.keys[key], key=key) for key in tally.composite_keys)
    budget = 2**28
    assert memory_of(tally, key_form=form, key_budget_bytes=budget).parts["keys"] == budget + of_composites
    assert memory_of(tally, key_form=form, key_budget_bytes=2**60).parts["keys"] == tally.key_bytes(form)
    assert tally.key_bytes(form) == sum(tally.params.key_bytes(limbs, key=key) for key, limbs in tally.keys.items())
