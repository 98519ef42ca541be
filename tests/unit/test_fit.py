"""Fitting a CPU: known coefficients come back, disturbed timings do not move them, what is not identified is named."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import MachineError, UsageError
from penstock.fit.fit import MEASURES, Sample, fit_cpu, samples_from_trace, utilisation_for
from penstock.machines import FITTED_MACHINE, Evidence, Overlap, load_machine
from penstock.machines.schema import Machine
from penstock.machines.written import machine_toml, write_machine
from penstock.operations import OpKind
from penstock.params.ckks import CkksParameters
from penstock.program.symbolic import SymbolicEvaluator
from penstock.traces.schema import OPERATIONS_SCHEMA, Trace, TraceMeta
from penstock.work.kernels import kernel_work
from penstock.work.shapes import Shape, shape_work
from toy import toy

PARAMS = toy(ring_dim=2**13, slots=2**12, q_bits=(60,) + (42,) * 13, p_bits=(60,) * 4)
TRUE_NS = {
    "transforms": 1.6, "base_conversion": 0.9, "conversions": 5.0, "multiplications": 2.2, "key_products": 2.5,
    "constant_products": 1.5, "additions": 1.0, "automorphisms": 1.2, "index_maps": 15.0, "results": 0.05,
}  # fmt: skip
OVERHEAD_S = 30e-6
ALL = (
    OpKind.ADD, OpKind.ADD_PLAIN, OpKind.MULT, OpKind.MULT_PLAIN, OpKind.SQUARE, OpKind.ROTATE, OpKind.DECOMPOSE,
    OpKind.ROTATE_HOISTED, OpKind.RESCALE,
)  # fmt: skip


def true_seconds(shape: Shape, params: CkksParameters = PARAMS) -> float:
    """Time on a CPU with the true coefficients."""
    work = shape_work(shape, params)
    log_n = params.ring_dim.bit_length() - 1
    amounts = (
        work.limb_transforms * params.ring_dim // 2 * log_n,
        work.bconv_macs,
        work.converted_coefficients,
        work.elementwise_mults - work.key_mults - work.constant_mults,
        work.key_mults,
        work.constant_mults,
        work.elementwise_adds,
        work.automorphism_coefficients,
        work.mapped_indices,
        work.ciphertext_write_bytes,
    )
    return OVERHEAD_S + 1e-9 * sum(a * c for a, c in zip(amounts, TRUE_NS.values(), strict=True))


def shape(kind: OpKind, limbs: int) -> Shape:
    return Shape(kind.value, limbs, limbs - 1 if kind is OpKind.RESCALE else limbs, 0, 0, 2)


def timed(kinds=ALL, limbs=range(3, 15), repeats=3, noise=0.0, seed=0) -> list[Sample]:
    rng = np.random.default_rng(seed)
    return [
        Sample(params=PARAMS.name, shape=s, seconds=true_seconds(s) * (1 + noise * rng.standard_normal()))
        for kind in kinds
        for n in limbs
        for s in [shape(kind, n)]
        for _ in range(repeats)
    ]


def costs_ns(machine: Machine) -> dict[str, float]:
    return {unit: 1e9 / rate.figure.value for unit, rate in machine.units.items()}


def test_the_coefficients_of_exact_timings_come_back():
    machine = fit_cpu(timed(), PARAMS)
    assert costs_ns(machine) == pytest.approx(TRUE_NS, rel=1e-4)
    assert machine.overhead.value == pytest.approx(OVERHEAD_S, rel=1e-4)
    assert machine.overlap is Overlap.IN_TURN
    assert (machine.name, machine.fit.merged, machine.fit.shapes) == (FITTED_MACHINE, [], len(ALL) * 12)
    assert machine.fit.overall.worst_abs < 1e-4
    assert machine.fit.overall.samples == 3 * len(ALL) * 12
    assert machine.fit.total_error == pytest.approx(0, abs=1e-4)
    assert machine.fit.spread is None  # no shape was timed four times


def test_noise_of_a_few_percent_moves_the_large_coefficients_by_a_few_percent():
    machine = fit_cpu(timed(noise=0.05, repeats=9), PARAMS)
    found = costs_ns(machine)
    for unit in ("transforms", "multiplications", "additions", "results"):
        assert found[unit] == pytest.approx(TRUE_NS[unit], rel=0.1), unit
    assert machine.fit.overall.mean_abs < 0.05
    assert machine.fit.warnings == ()
    # Those that stay open are named, and are not called calibrated.
    assert {text.split(":")[0] for text in machine.fit.merged} == {"constant_products", "automorphisms"}
    assert machine.units["automorphisms"].figure.kind is Evidence.ASSUMED


def test_a_few_timings_that_another_process_disturbed_do_not_move_the_fit():
    samples = timed(repeats=9)
    disturbed = [
        Sample(params=s.params, shape=s.shape, seconds=s.seconds * (10 if i % 9 < 3 else 1))
        for i, s in enumerate(samples)
    ]
    assert costs_ns(fit_cpu(disturbed, PARAMS)) == pytest.approx(TRUE_NS, rel=1e-3)


def test_whole_shapes_that_are_off_are_outvoted():
    off = {shape(OpKind.MULT_PLAIN, 5), shape(OpKind.ADD, 9), shape(OpKind.RESCALE, 12)}
    samples = [
        Sample(params=s.params, shape=s.shape, seconds=s.seconds * (3 if s.shape in off else 1)) for s in timed()
    ]
    assert costs_ns(fit_cpu(samples, PARAMS)) == pytest.approx(TRUE_NS, rel=0.05)


def test_timings_that_scatter_carry_a_warning_with_the_remedy():
    samples = [
        Sample(params=s.params, shape=s.shape, seconds=s.seconds * (1 + (i % 8) / 4))
        for i, s in enumerate(timed(repeats=8))
    ]
    machine = fit_cpu(samples, PARAMS)
    assert machine.fit.spread > 0.4
    assert any("quiet machine" in warning for warning in machine.fit.warnings)


def test_errors_are_reported_for_all_and_for_each_kind_with_their_sign():
    samples = [
        Sample(params=s.params, shape=s.shape, seconds=s.seconds * (2 if s.shape.kind == "add_plain" else 1))
        for s in timed()
    ]
    by_kind = {error.kind: error for error in fit_cpu(samples, PARAMS).fit.errors}
    assert next(iter(by_kind)) == "all"
    assert set(by_kind) == {"all", *(kind.value for kind in ALL)}
    assert by_kind["add_plain"].bias < -0.3  # measured at twice the cost: predicted too low
    assert by_kind["add_plain"].bias == pytest.approx(-by_kind["add_plain"].mean_abs)
    assert by_kind["all"].worst_abs == max(error.worst_abs for error in by_kind.values())
    assert all(e.median_abs <= e.p90_abs <= e.worst_abs for e in by_kind.values())


def test_a_program_without_rotations_gets_their_automorphism_from_the_other_kernels():
    kinds = [kind for kind in ALL if kind not in (OpKind.ROTATE, OpKind.ROTATE_HOISTED)]
    machine = fit_cpu(timed(kinds), PARAMS)
    found = costs_ns(machine)
    assert found["transforms"] == pytest.approx(TRUE_NS["transforms"], rel=1e-3)
    # Nominally an automorphism costs 0.3 of a multiplication, and nothing but nominal ratios says anything of it.
    assert found["automorphisms"] == pytest.approx(0.3 * found["multiplications"], rel=0.5)
    assert machine.units["automorphisms"].figure.kind is Evidence.ASSUMED
    assert machine.units["transforms"].figure.kind is Evidence.CALIBRATED
    assert [text for text in machine.fit.merged if "no timed operation" in text]


def test_kernels_that_few_shapes_cannot_tell_apart_are_priced_at_nominal_ratios_and_named():
    samples = timed((OpKind.ROTATE, OpKind.ADD), limbs=(13, 14))
    machine = fit_cpu(samples, PARAMS)
    assert {text.split(":")[0] for text in machine.fit.merged} >= {"automorphisms", "index_maps"}
    for sample in samples:
        assert machine.price(shape_work(sample.shape, PARAMS)).seconds == pytest.approx(sample.seconds, rel=0.1)
    assert all(1 / 20 < found / TRUE_NS[unit] < 20 for unit, found in costs_ns(machine).items())


def test_a_single_shape_fixes_one_scale():
    sample = timed((OpKind.ROTATE,), limbs=(10,), repeats=1)[0]
    machine = fit_cpu([sample], PARAMS)
    assert machine.price(shape_work(sample.shape, PARAMS)).seconds == pytest.approx(sample.seconds, rel=1e-4)
    assert 0 < len(machine.fit.merged) < len(MEASURES)
    assert all(rate.figure.value > 0 for rate in machine.units.values())


def test_without_any_transform_the_rate_that_matters_is_named():
    with pytest.raises(MachineError, match="transforms cannot be identified"):
        fit_cpu(timed((OpKind.ADD, OpKind.MULT_PLAIN)), PARAMS)


def test_nothing_to_fit_to_is_an_error_with_the_remedy():
    with pytest.raises(MachineError, match="run a workload encrypted"):
        fit_cpu([], PARAMS)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_a_time_that_is_not_positive_is_refused(seconds):
    with pytest.raises(MachineError, match="a time is positive"):
        fit_cpu([Sample(params=PARAMS.name, shape=shape(OpKind.ADD, 4), seconds=seconds)], PARAMS)


def test_samples_of_an_unknown_set_are_refused():
    with pytest.raises(MachineError, match="'insecure-test', which is not among those given"):
        fit_cpu(timed(), {"other": PARAMS})


def test_samples_of_several_rings_are_fitted_together():
    small = toy(name="small", ring_dim=2**11, slots=2**10, q_bits=PARAMS.q_bits, p_bits=PARAMS.p_bits)
    samples = timed()
    for n in range(3, 15):
        rotation = shape(OpKind.ROTATE, n)
        samples.append(Sample(params="small", shape=rotation, seconds=true_seconds(rotation, small)))
    machine = fit_cpu(samples, {PARAMS.name: PARAMS, "small": small})
    assert costs_ns(machine) == pytest.approx(TRUE_NS, rel=1e-4)


def test_a_fitted_machine_survives_its_file_with_its_errors(tmp_path):
    machine = fit_cpu(timed(noise=0.05), PARAMS, fitted_to="a test")
    write_machine(machine, tmp_path / "this-cpu.toml")
    again = load_machine(tmp_path / "this-cpu.toml")
    assert again == machine
    assert again.fit == machine.fit
    assert again.fit.fitted_to == "a test"


def test_the_same_samples_give_the_same_file():
    assert machine_toml(fit_cpu(timed(noise=0.05), PARAMS)) == machine_toml(fit_cpu(timed(noise=0.05), PARAMS))


# Samples of a measured trace.


def measured_trace() -> Trace:
    ev = SymbolicEvaluator(PARAMS)
    a, b = ev.encrypt(np.zeros(4)), ev.encrypt(np.zeros(4))
    c = ev.rescale(ev.mult(a, b))
    d = ev.mult_no_relin(c, c)
    d = ev.relinearize(ev.add(d, d))
    for r in ev.rotate_many(d, [1, 2]):
        d = ev.add(d, r)
    ev.decrypt(d)
    trace = ev.builder.finish(TraceMeta(workload="test", params=PARAMS.to_dict(), reading="openfhe"))
    n = len(trace)
    table = trace.operations
    for name, values in (("start_s", np.arange(n) * 1.0), ("end_s", np.arange(n) + 0.5)):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, OPERATIONS_SCHEMA.field(name), pa.array(values))
    return Trace(trace.meta, table, trace.objects)


def test_samples_are_the_timed_primitives_of_the_server():
    samples = samples_from_trace(measured_trace())
    assert [s.shape.kind for s in samples] == [
        "mult",
        "rescale",
        "mult_no_relin",
        "add",
        "relinearize",
        "decompose",
        "rotate_hoisted",
        "rotate_hoisted",
        "add",
        "add",
    ]
    assert all(s.seconds == pytest.approx(0.5) for s in samples)
    assert samples[3].shape.polynomials == 3
    assert samples[1].shape == Shape("rescale", 14, 13, 0, 0, 2)


def test_rows_without_times_are_no_samples():
    trace = measured_trace()
    at = trace.operations.schema.get_field_index("end_s")
    blank = pa.array([None] * len(trace), pa.float64())
    table = trace.operations.set_column(at, OPERATIONS_SCHEMA.field("end_s"), blank)
    assert samples_from_trace(Trace(trace.meta, table, trace.objects)) == []


# Utilisation.


def test_the_utilisation_that_meets_a_time_is_exact():
    machine = fit_cpu(timed(), PARAMS)
    works = [kernel_work(OpKind.ROTATE, PARAMS, n) for n in (4, 8, 12)]
    now = sum(machine.price(work).seconds for work in works)
    kernels = now - 3 * machine.overhead.value
    assert utilisation_for(machine, works, now) == pytest.approx(1.0)
    assert utilisation_for(machine, works, kernels * 2 + 3 * machine.overhead.value) == pytest.approx(0.5)


def test_a_time_below_the_overheads_cannot_be_met():
    machine = fit_cpu(timed(), PARAMS)
    with pytest.raises(UsageError, match="overheads alone"):
        utilisation_for(machine, [kernel_work(OpKind.ADD, PARAMS, 4)], 1e-6)
