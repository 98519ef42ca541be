"""A machine from many configurations: what made the times comes back, with its threads, cache and uncertainty."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from penstock.errors import MachineError, UnknownName
from penstock.front.hall.fitting import FitChoice, chosen
from penstock.lab.fit.fit import fit_machine
from penstock.lab.fit.measurements import Measurement, primitive_shape
from penstock.scheme.machines import Evidence, load_machine
from penstock.scheme.machines.figure import Figure
from penstock.scheme.machines.parallel import CacheModel, ThreadModel
from penstock.scheme.machines.report import FitError, FitReport
from penstock.scheme.machines.schema import Machine, Overlap, UnitRate
from penstock.scheme.machines.spec import machine_from_spec, spec_of
from penstock.scheme.machines.written import machine_toml, write_machine
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.work.shapes import shape_work
from support.toy import toy

KINDS = (
    OpKind.ADD, OpKind.ADD_PLAIN, OpKind.MULT_PLAIN, OpKind.MULT_SCALAR, OpKind.RESCALE, OpKind.DECOMPOSE,
    OpKind.ROTATE_HOISTED, OpKind.ROTATE, OpKind.MULT, OpKind.SQUARE,
)  # fmt: skip
SETS = [
    toy(name=f"n{log_n}-l{limbs}", ring_dim=2**log_n, slots=2 ** (log_n - 1), q_bits=(50,) * limbs, p_bits=(60,) * k)
    for log_n, limbs, k in ((12, 9, 3), (13, 9, 3), (13, 15, 5), (14, 9, 3), (15, 12, 4))
]


def figure(value: float) -> Figure:
    return Figure(value=value, text=str(value), source="a test", kind=Evidence.CALIBRATED)


def cpu(**costs_ns: float) -> Machine:
    """The true machine: nanoseconds of one element of each unit."""
    known = {
        "transforms": 1.6,
        "base_conversion": 0.9,
        "conversions": 5.0,
        "multiplications": 2.2,
        "key_products": 2.5,
        "constant_products": 1.5,
        "additions": 1.0,
        "automorphisms": 1.2,
        "index_maps": 15.0,
        "results": 0.05,
    } | costs_ns
    return Machine(
        name="true",
        title="",
        description="",
        overlap=Overlap.IN_TURN,
        overlap_source="a test",
        units={
            unit: UnitRate(
                figure=figure(1e9 / cost), measure="butterflies" if unit == "transforms" else "", per_cycle=False
            )
            for unit, cost in known.items()
        },
        overhead=figure(20e-6),
        threads=ThreadModel(
            count=1,
            shared={
                "transforms": figure(0.3e-9),
                "conversions": figure(9e-9),
                "key_products": figure(3e-9),
                "multiplications": figure(1e-9),
            },
            loop=figure(3e-6),
        ),
    )


def measured(
    machine: Machine,
    sets: Iterable[CkksParameters] = SETS,
    threads: Iterable[int] = (1, 2, 4, 8),
    kinds: Iterable[OpKind] = KINDS,
    noise: float = 0.0,
    common: float = 0.0,
    seed: int = 0,
    levels: bool = True,
) -> Iterator[Measurement]:
    """Times on a machine; `common` is noise that all operations of one configuration share."""
    rng = np.random.default_rng(seed)
    for params in sets:
        for count in threads:
            shared = common * rng.standard_normal()
            for kind in kinds:
                for limbs in range(2, params.num_q + 1, 2) if levels else (params.num_q,):
                    shape = primitive_shape(kind, params, limbs)
                    seconds = machine.at(count).price(shape_work(shape, params)).seconds
                    yield Measurement(
                        item=kind.value,
                        group="primitives",
                        params=params,
                        shape=shape,
                        threads=count,
                        seconds=seconds * math.exp(shared + noise * rng.standard_normal()),
                        runs=3,
                        source="imagined",
                    )


def costs_ns(machine: Machine) -> dict[str, float]:
    return {unit: 1e9 / rate.figure.value for unit, rate in machine.units.items()}


def test_what_made_the_times_comes_back_with_its_threads():
    true = cpu()
    found = fit_machine(measured(true), name="mine", fitted_to="a test")
    assert costs_ns(found) == pytest.approx(costs_ns(true), rel=1e-3)
    assert found.overhead.value == pytest.approx(20e-6, rel=1e-3)
    shared = {unit: 1e9 * each.value for unit, each in found.threads.shared.items() if each.value > 1e-14}
    assert shared == pytest.approx(
        {"transforms": 0.3, "conversions": 9.0, "key_products": 3.0, "multiplications": 1.0}, rel=1e-3
    )
    assert found.threads.loop.value == pytest.approx(3e-6, rel=1e-3)
    assert (found.name, found.fit.fitted_to, found.cache) == ("mine", "a test", None)
    assert found.fit.overall.worst_abs < 1e-4


def test_it_predicts_a_number_of_threads_that_was_never_measured():
    true = cpu()
    found = fit_machine(measured(true))
    for params in SETS:
        work = shape_work(primitive_shape(OpKind.MULT, params, params.num_q), params)
        assert found.at(6).price(work).seconds == pytest.approx(true.at(6).price(work).seconds, rel=1e-3)
        assert found.at(1).price(work).seconds == found.price(work).seconds


def test_data_beyond_the_cache_is_found_where_it_costs():
    true = replace(cpu(), cache=CacheModel(size=figure(8 * 2**20), beyond=figure(8e9)))
    found = fit_machine(measured(true, threads=(1, 2)))
    assert found.cache.size.value == 8 * 2**20
    assert found.cache.beyond.value == pytest.approx(8e9, rel=0.02)
    assert found.fit.overall.worst_abs < 0.01


def test_a_machine_of_one_number_of_threads_is_that_and_says_what_to_measure():
    true = cpu()
    found = fit_machine(measured(true, threads=(2,)))
    assert found.threads is None
    assert found.thread_count == 2
    assert found.at(2) is found
    with pytest.raises(MachineError, match=r"fitted at 2 threads only.*--threads 1,4"):
        found.at(4)
    assert any("--threads 1,2" in text for text in found.fit.merged)


def test_two_numbers_of_threads_tell_what_they_share():
    found = fit_machine(measured(cpu(), threads=(1, 2)))
    assert found.threads.shared["transforms"].value == pytest.approx(0.3e-9, rel=0.01)
    assert found.threads.shared["key_products"].value == pytest.approx(3e-9, rel=0.01)


def test_one_ring_dimension_and_one_level_are_named_with_the_runs_that_settle_it():
    found = fit_machine(measured(cpu(), sets=SETS[1:2], levels=False))
    texts = " | ".join(found.fit.merged)
    assert "ring dimension 8192" in texts
    assert "two ring dimensions more" in texts
    assert "base_conversion" in texts
    assert "9 limbs" in texts


@pytest.mark.parametrize(
    ("kinds", "message"),
    [((), "0 timed primitives"), ((OpKind.ROTATE,), r"cannot tell the rates .*at least 8 are needed: measure add")],
)
def test_too_few_measurements_are_refused_with_the_runs_to_make(kinds, message):
    with pytest.raises(MachineError, match=message):
        fit_machine(measured(cpu(), sets=SETS[:1], threads=(1,), kinds=kinds))


def test_a_time_that_nothing_meets_is_an_error_and_no_crash():
    timed = list(measured(cpu(), sets=SETS[:2], threads=(1,)))
    timed[-1] = replace(timed[-1], seconds=1e-4 * timed[-1].seconds)
    with pytest.raises(MachineError, match="far shorter than their work can be"):
        fit_machine(timed)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("degrees_of_freedom", 0.0, r"fit\.degrees_of_freedom is 0\.0; it is more than zero"),
        ("degrees_of_freedom", math.nan, "more than zero"),
        ("common_sd", math.nan, r"fit\.common_sd is nan; it is a finite number"),
        ("common_sd", -0.1, "not negative"),
        ("interval_scale", -1.0, r"fit\.interval_scale is -1\.0"),
        ("kinds", {"add": -0.1}, r"fit\.kinds\.add is -0\.1"),
        ("scales", {"program/1/inside": math.inf}, "finite"),
        ("total_error", math.nan, "finite"),
    ],
)
def test_a_machine_file_whose_uncertainty_cannot_be_is_refused(field, value, said):
    error = FitError(kind="all", samples=1, mean_abs=0.0, median_abs=0.0, p90_abs=0.0, worst_abs=0.0, bias=0.0)
    fit = FitReport(fitted_to="a test", shapes=1, total_error=0.0, common_sd=0.02, errors=[error])
    spec = spec_of(load_machine("sharp")).model_copy(update={"fit": fit})
    assert machine_from_spec(spec, "mine.toml").fit.degrees_of_freedom == math.inf
    wrong = spec.model_copy(update={"fit": fit.model_copy(update={field: value})})
    with pytest.raises(MachineError, match=rf"mine\.toml: .*{said}"):
        machine_from_spec(wrong, "mine.toml")


def test_the_file_names_the_reading_and_one_without_it_is_of_openfhe(tmp_path):
    timed = [replace(m, reading="native") for m in measured(cpu(), sets=SETS[:3], threads=(1,))]
    machine = fit_machine(timed, name="mine")
    write_machine(machine, tmp_path / "mine.toml")
    text = (tmp_path / "mine.toml").read_text()
    assert load_machine(tmp_path / "mine.toml").fit.reading == "native"
    assert "effective ones of the native reading" in machine.description
    older = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("reading"))
    assert older != text
    (tmp_path / "older.toml").write_text(older)
    assert load_machine(tmp_path / "older.toml").fit.reading == "openfhe"


def test_measurements_of_two_readings_are_refused_with_the_remedy():
    timed = list(measured(cpu(), sets=SETS[:2], threads=(1,)))
    mixed = [replace(m, reading="native" if i % 2 else "openfhe") for i, m in enumerate(timed)]
    with pytest.raises(MachineError, match=r"of the readings native and openfhe.*name it with --reading native"):
        fit_machine(mixed)
    with pytest.raises(MachineError, match="the results are of the readings native and openfhe"):
        chosen(mixed, FitChoice())
    assert {m.reading for m in chosen(mixed, FitChoice(reading="native"))} == {"native"}
    with pytest.raises(UnknownName, match="measured reading"):
        chosen(timed, FitChoice(reading="native"))


def test_without_any_transform_the_rate_that_matters_is_named():
    with pytest.raises(MachineError, match="transforms cannot be identified"):
        fit_machine(measured(cpu(), kinds=(OpKind.ADD, OpKind.MULT_PLAIN)))


def test_a_kernel_that_nothing_tells_apart_is_assumed_not_calibrated():
    found = fit_machine(measured(cpu(), kinds=[k for k in KINDS if k not in (OpKind.ROTATE, OpKind.ROTATE_HOISTED)]))
    assert found.units["index_maps"].figure.kind is Evidence.ASSUMED
    assert found.units["transforms"].figure.kind is Evidence.CALIBRATED
    assert any(text.startswith("index_maps: no timed operation") for text in found.fit.merged)
    multiplication = 1e9 / found.units["multiplications"].figure.value
    assert 1e9 / found.units["index_maps"].figure.value == pytest.approx(10 * multiplication, rel=0.5)


def test_the_times_of_a_composite_count_where_its_operations_are_known():
    true = cpu(conversions=20.0)
    params = SETS[1]
    parts = {primitive_shape(OpKind.MULT, params, 8): 3, primitive_shape(OpKind.RESCALE, params, 8): 5}
    seconds = sum(n * true.price(shape_work(shape, params)).seconds for shape, n in parts.items())
    composite = Measurement(
        item="chebyshev_series", group="primitives", params=params, degree=5, seconds=seconds, source="imagined"
    )
    kinds = (OpKind.MULT, OpKind.ADD)  # neither tells conversions from transforms as well as a rescale does
    timed = [*measured(true, threads=(1,), kinds=kinds), composite]
    without, with_it = fit_machine(timed), fit_machine(timed, expand=lambda m: parts if m is composite else {})
    assert with_it.fit.shapes == without.fit.shapes + 1
    assert "composite" in {error.kind for error in with_it.fit.errors}


def test_client_operations_and_programs_are_left_out():
    timed = list(measured(cpu(), threads=(1,)))
    params = SETS[0]
    odd = [
        Measurement(item="encrypt", group="primitives", params=params, seconds=9.0, source="imagined",
                    shape=primitive_shape(OpKind.ENCRYPT, params, 3)),
        Measurement(item="cnn", group="workloads", params=params, size="ci", seconds=9.0, source="imagined"),
        Measurement(item="bootstrap", group="primitives", params=params, seconds=9.0, source="imagined"),
    ]  # fmt: skip
    assert machine_toml(fit_machine([*timed, *odd])) == machine_toml(fit_machine(timed))


def test_disturbed_measurements_do_not_move_it():
    timed = list(measured(cpu()))
    disturbed = [replace(m, seconds=m.seconds * (3 if i % 10 == 0 else 1)) for i, m in enumerate(timed)]
    assert costs_ns(fit_machine(disturbed)) == pytest.approx(costs_ns(cpu()), rel=0.03)


def test_measurements_whose_runs_scatter_count_less():
    timed = list(measured(cpu()))
    off = [
        replace(m, seconds=m.seconds * (1.5 if i % 2 else 1), spread=2.0 if i % 2 else 0.0) for i, m in enumerate(timed)
    ]
    assert costs_ns(fit_machine(off))["transforms"] == pytest.approx(1.6, rel=0.1)


# Uncertainty.


def test_the_stated_deviations_are_those_of_the_noise():
    found = fit_machine(measured(cpu(), noise=0.04, common=0.08)).fit
    assert 0.04 < found.common_sd < 0.12
    assert all(0.02 < sd < 0.07 for sd in found.kinds.values())
    assert set(found.kinds) == {kind.value for kind in KINDS}
    assert found.degrees_of_freedom == len(SETS) * 4 - 1


def test_exact_times_have_narrow_intervals_and_known_coefficients():
    found = fit_machine(measured(cpu())).fit
    assert found.common_sd == max(found.kinds.values()) == 0.005  # the floor
    assert {c.name for c in found.coefficients} >= {"transforms", "shared transforms", "shared key_products", "loops"}
    assert all(c.standard_error < 0.01 for c in found.coefficients if c.value > 1e-12)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ninety_per_cent_intervals_hold_about_ninety_per_cent_of_new_configurations(seed):
    noise = {"noise": 0.05, "common": 0.06}
    found = fit_machine(measured(cpu(), seed=seed, **noise))
    new = [
        toy(name=f"new{n}-{limbs}", ring_dim=2**n, slots=2 ** (n - 1), q_bits=(50,) * limbs, p_bits=(60,) * 4)
        for n, limbs in ((12, 10), (13, 11), (14, 12), (15, 10), (14, 8), (13, 8))
    ]
    inside = []
    for m in measured(cpu(), sets=new, threads=(1, 2, 3, 4, 6, 8), seed=seed + 100, **noise):
        sd = math.hypot(found.fit.common_sd, found.fit.kinds[m.shape.kind])
        half = 1.6449 * sd * found.fit.interval_scale
        predicted = found.at(m.threads).price(shape_work(m.shape, m.params)).seconds
        inside.append(abs(math.log(predicted / m.seconds)) <= half)
    assert 0.8 <= np.mean(inside) <= 0.97


def test_too_little_to_leave_anything_out_states_no_uncertainty():
    found = fit_machine(measured(cpu(), sets=SETS[:1], threads=(1,), levels=False))
    assert found.fit.common_sd is None
    assert found.fit.ranges["threads"] == [1, 1]


# The file, and what lies outside.


def test_everything_survives_its_file(tmp_path):
    machine = fit_machine(measured(cpu(), noise=0.03, common=0.02), fitted_to="a test")
    write_machine(machine, tmp_path / "mine.toml")
    again = load_machine(tmp_path / "mine.toml")
    assert again == machine
    assert again.at(4).threads.count == 4
    work = shape_work(primitive_shape(OpKind.ROTATE, SETS[0], 4), SETS[0])
    assert again.at(4).price(work).seconds == pytest.approx(machine.at(4).price(work).seconds, rel=1e-12)


def test_the_same_measurements_give_the_same_file():
    assert machine_toml(fit_machine(measured(cpu(), noise=0.05))) == machine_toml(
        fit_machine(measured(cpu(), noise=0.05))
    )


def test_what_lies_outside_the_measurements_is_named():
    machine = fit_machine(measured(cpu()))
    assert machine.extrapolations(SETS[2], (2, 9), 4) == []
    far = toy(name="far", ring_dim=2**17, slots=2**16, q_bits=(50,) * 30, p_bits=(60,) * 4, dnum=6)
    texts = machine.extrapolations(far, (1, 30), 16)
    assert [text.split(" ")[0] for text in texts] == ["ring_dim", "dnum", "depth", "limbs", "threads"]
    assert "131072 is outside 4096 to 32768" in texts[0]
    assert all("fit again" in text for text in texts)


def test_a_machine_that_was_not_fitted_extrapolates_nothing():
    assert load_machine("sharp").extrapolations(SETS[0], (1, 100), 64) == []
