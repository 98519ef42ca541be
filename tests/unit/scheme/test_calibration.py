"""Factors of kinds of operations: learned from what the kernel work leaves, shrunk, kept in bounds, and in the file."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from penstock.errors import MachineError
from penstock.lab.fit.calibration import LEVEL_PRIOR, Labels, fit_calibration
from penstock.lab.fit.fit import fit_machine
from penstock.lab.fit.heldout import conformal
from penstock.lab.fit.measurements import Measurement
from penstock.lab.prediction.models import fit_penstock
from penstock.lab.prediction.prediction import predict
from penstock.scheme.machines import Machine, assumptions, load_machine
from penstock.scheme.machines.calibration import Calibration
from penstock.scheme.machines.report import scale_of
from penstock.scheme.machines.written import machine_toml
from penstock.scheme.play.price import price_trace
from penstock.scheme.work.shapes import shape_work
from support.imagined_cpu import params_of, ran, sweep

SWEEP = sweep(rings=(11, 12, 13), depths=(6, 9), threads=(1, 2))


def off(kind: str, factor: float) -> list[Measurement]:
    """The imagined CPU, on which one kind takes longer than its kernel work says."""
    return [replace(m, seconds=factor * m.seconds) if m.item == kind else m for m in SWEEP]


@pytest.fixture(scope="module")
def machine() -> Machine:
    return fit_machine(off("sub", 1.5), name="off")


def labels(n: int, rings: Iterable[float] | None = None, threads: int = 1) -> Labels:
    return Labels(
        kinds=np.full(n, "mult", dtype=object),
        threads=np.full(n, threads),
        ring_dims=np.asarray(list(rings) if rings is not None else [4096.0] * n),
        limbs=np.full(n, 8.0),
    )


def test_a_kind_that_is_off_its_kernel_work_is_met_and_another_stays(machine: Machine) -> None:
    for m in SWEEP:
        assert m.shape is not None
        factor = machine.at(m.threads).factor(m.item, m.params.ring_dim, m.shape.limbs_in)
        priced = factor * machine.at(m.threads).price(shape_work(m.shape, m.params)).seconds
        expected = m.seconds * (1.5 if m.item == "sub" else 1.0)
        assert priced == pytest.approx(expected, rel=0.12 if m.item in ("sub", "add") else 0.05)
    assert machine.factor("rotate", 4096, 6) == pytest.approx(1.0, abs=0.02)
    assert machine.factor("conjugate", 4096, 6) == 1.0  # was not timed


def test_few_timings_move_a_level_little() -> None:
    for n in (1, 4, 40):
        found = fit_calibration(np.full(n, 0.2), labels(n), "a test")
        assert found is not None
        assert found.factor("mult", 4096, 8, 1) == pytest.approx(math.exp(0.2 * n / (n + LEVEL_PRIOR)), rel=1e-4)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_factor_that_curves_over_the_limbs_is_met_and_kept_in_the_file(threads: int, tmp_path: Path) -> None:
    limbs = np.asarray([4.0, 6.0, 8.0, 12.0, 16.0, 24.0] * 40)
    curved = 0.1 + 0.05 * np.log2(limbs / 8) + 0.06 * np.log2(limbs / 8) ** 2
    of_two = np.repeat([1, 2], 120)
    many = Labels(kinds=np.full(240, "mult", dtype=object), threads=of_two, ring_dims=np.full(240, 4096.0), limbs=limbs)
    found = fit_calibration(curved, many, "a test")
    assert found is not None
    for count in (4, 6, 8, 12, 16, 24):
        assert math.log(found.factor("mult", 4096, count, threads)) == pytest.approx(
            0.1 + 0.05 * math.log2(count / 8) + 0.06 * math.log2(count / 8) ** 2, abs=0.07
        )
    assert found.factors["mult"][threads].limbs_curve > 0.03
    assert found.factor("mult", 4096, 48, threads) == found.factor("mult", 4096, 24, threads), "no further than timed"
    file = tmp_path / "curved.toml"
    file.write_text(machine_toml(replace(fit_machine(SWEEP, name="curved"), calibrated=found)))
    assert (
        load_machine(file).calibrated.factors["mult"][threads].limbs_curve == found.factors["mult"][threads].limbs_curve
    )


def test_three_numbers_of_limbs_make_no_parabola() -> None:
    limbs = np.asarray([4.0, 8.0, 16.0] * 20)
    few = Labels(
        kinds=np.full(60, "mult", dtype=object), threads=np.full(60, 1), ring_dims=np.full(60, 4096.0), limbs=limbs
    )
    found = fit_calibration(0.1 * np.log2(limbs / 8) ** 2, few, "a test")
    assert found is not None
    assert found.factors["mult"][1].limbs_curve == 0.0


def test_a_disturbed_timing_moves_neither_level_nor_slope() -> None:
    rings = [4096.0, 8192.0, 16384.0] * 20
    residuals = np.zeros(60)
    residuals[59] = 3.0
    found = fit_calibration(residuals, labels(60, rings), "a test")
    assert found is not None
    assert [found.factor("mult", ring, 8, 1) for ring in (4096, 8192, 16384)] == pytest.approx([1.0] * 3)


def drifting() -> Calibration:
    rings = [4096.0, 8192.0, 16384.0] * 40
    found = fit_calibration(0.1 * np.log2(np.asarray(rings) / 8192), labels(120, rings), "a test")
    assert found is not None
    return found


def test_a_drift_with_the_ring_is_followed_and_ends_with_the_timings() -> None:
    found = drifting()
    slope = math.log(found.factor("mult", 16384, 8, 1) / found.factor("mult", 8192, 8, 1))
    assert slope == pytest.approx(0.1 * 80 / (80 + 16), rel=1e-3)
    assert found.factor("mult", 65536, 8, 1) == found.factor("mult", 16384, 8, 1)
    assert found.factor("mult", 1024, 8, 1) == found.factor("mult", 4096, 8, 1)


def test_numbers_of_threads_between_are_interpolated_and_beyond_they_stay() -> None:
    each = [labels(1000, threads=threads) for threads in (1, 4)]
    both = Labels(
        kinds=np.concatenate([one.kinds for one in each]),
        threads=np.concatenate([one.threads for one in each]),
        ring_dims=np.concatenate([one.ring_dims for one in each]),
        limbs=np.concatenate([one.limbs for one in each]),
    )
    found = fit_calibration(np.repeat([0.0, 0.2], 1000), both, "a test")
    assert found is not None
    assert math.log(found.factor("mult", 4096, 8, 2)) == pytest.approx(0.1, rel=0.01)
    assert found.factor("mult", 4096, 8, 32) == found.factor("mult", 4096, 8, 4)


def test_composites_have_no_factor_of_their_own() -> None:
    made = labels(3)
    made.kinds[:] = "composite"
    assert fit_calibration(np.full(3, 0.5), made, "a test") is None


def test_no_timing_of_a_program_is_learned_from() -> None:
    slow = [*SWEEP, ran("inner-product", "ci", 1, factor=5.0)]
    assert fit_penstock(slow).machine == fit_penstock(SWEEP).machine  # type: ignore[attr-defined]


def test_playing_a_trace_and_predicting_it_agree(machine: Machine) -> None:
    from penstock.program.running.trace import trace_workload

    trace = trace_workload("inner-product", "insecure-ci", "ci")
    bare = replace(machine, cold=None, client=None).at(2)
    assert price_trace(trace, bare).ideal_s == pytest.approx(predict(trace, bare).server_s, rel=1e-12)


def test_reports_state_the_factors_in_one_line(machine: Machine) -> None:
    stated = [each for each in assumptions(machine) if each["field"].startswith("calibrated")]
    assert [each["kind"] for each in stated] == ["calibrated"]
    assert stated[0]["value"].startswith("12 factors of kinds of operations")  # six kinds, one and two threads
    assert machine.calibrated is not None
    assert len(list(machine.calibrated.figures())) == 12


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('kind = "sub"', 'kind = "subb"', "sub"),
        ("threads = 2", "threads = 1", "twice"),
        ("threads = 2", "threads = 0", "at least one thread"),
        ("limbs = [2.0, 9.0]", "limbs = [9.0, 2.0]", "smallest and the largest"),
        ("ring_slope = ", "ring_slope = inf #", "finite"),
        (" x", " s", "unit"),
    ],
)
def test_a_damaged_factor_is_named(tmp_path, machine: Machine, old: str, new: str, said: str) -> None:
    head, mark, tail = machine_toml(machine).partition("[calibrated]")
    assert old in tail
    file = tmp_path / "off.toml"
    file.write_text(head + mark + tail.replace(old, new, 1))
    with pytest.raises(MachineError, match=said):
        load_machine(file)


def test_the_conformal_quantile_is_that_of_one_more() -> None:
    assert conformal(np.arange(1.0, 10.0)) == 9.0  # nine errors: the largest
    assert conformal(np.arange(1.0, 100.0)) == 90.0
    assert conformal(np.asarray([2.0])) == 2.0


def test_a_group_without_a_scale_takes_none_that_is_narrower_than_those_of_fewer_threads() -> None:
    scales = {"program/1/inside": 0.8, "program/2/inside": 1.4, "program/inside": 1.1, "program/1/outside": 0.7}
    assert [scale_of(scales, 1.0, "program", threads, False) for threads in (1, 2, 4)] == [0.8, 1.4, 1.4]
    assert [scale_of(scales, 1.0, "program", threads, True) for threads in (1, 2)] == [0.8, 1.4]
    assert scale_of({}, 1.3, "program", 4, True) == 1.3
    assert scale_of(scales, 1.0, "program", 10**15, False) == 1.4  # at once


def test_what_was_never_timed_is_less_sure_and_programs_have_a_scale_of_their_own() -> None:
    fit = fit_machine(sweep(rings=(11, 12, 13, 14, 15), depths=(6, 9, 12), threads=(1, 2))).fit
    assert fit is not None
    # Without one kind of key switch the cost of a conversion is hardly known; of sums there are two kinds.
    assert fit.unknown_kinds["key-switching"] > 5 * fit.kinds["rotate"]
    assert fit.unknown_kinds["element-wise"] == fit.kinds["sub"] == 0.005
    assert {"program/inside", "key-switching/1/inside"} <= set(fit.scales)
    # More threads than were timed are met no better than the timed ones, what is outside no better than what is inside.
    known = [fit.scales[f"program/{threads}/inside"] for threads in (1, 2)]
    assert fit.scale("program", 16, False) == max(fit.scales["program/inside"], *known)
    assert fit.scale("program", 2, True) >= fit.scale("program", 2, False) == known[1]
    assert fit.scale("nothing known", 1, True) == fit.interval_scale


def test_outside_of_the_measurements_the_interval_is_another(machine: Machine) -> None:
    assert machine.fit is not None
    stated = machine.fit.model_copy(update={"scales": {"key-switching/inside": 1.0, "key-switching/outside": 3.0}})
    widths = []
    for ring in (12, 15):
        params = params_of(ring, 9)
        shape = next(m.shape for m in SWEEP if m.item == "rotate" and m.shape)
        found = predict({shape: 1}, replace(machine, fit=stated), params=params)
        assert found.high_s is not None
        widths.append(math.log(found.high_s / found.predicted_s))
    assert widths[1] == pytest.approx(3 * widths[0])
