"""Fitting a CPU: known coefficients come back, disturbed timings do not move them, what is not identified is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from penstock.lab.fit.cpu import CACHE_SIZES, MEASURES, UNITS, Structure, TimedRows, fit_costs, solve
from penstock.lab.fit.fit import fit_machine, trace_measurements
from penstock.lab.fit.measurements import Measurement
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.scheme.machines import FITTED_MACHINE, Evidence, Overlap
from penstock.scheme.machines.schema import Machine
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.schema import OPERATIONS_SCHEMA, Trace, TraceMeta
from penstock.scheme.work.shapes import Shape, shape_work
from support.toy import toy

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


def timed(kinds=ALL, limbs=range(3, 15), repeats=3, noise=0.0, seed=0, params=PARAMS) -> list[Measurement]:
    rng = np.random.default_rng(seed)
    return [
        Measurement(
            item=kind.value,
            group="primitives",
            params=params,
            shape=each,
            seconds=float(np.median(true_seconds(each, params) * (1 + noise * rng.standard_normal(repeats)))),
            runs=repeats,
            source="imagined",
        )
        for kind in kinds
        for n in limbs
        for each in [shape(kind, n)]
    ]


def costs_ns(machine: Machine) -> dict[str, float]:
    return {unit: 1e9 / rate.figure.value for unit, rate in machine.units.items()}


def test_the_coefficients_of_exact_timings_come_back():
    machine = fit_machine(timed())
    assert costs_ns(machine) == pytest.approx(TRUE_NS, rel=1e-4)
    assert machine.overhead.value == pytest.approx(OVERHEAD_S, rel=1e-4)
    assert machine.overlap is Overlap.IN_TURN
    assert (machine.name, machine.fit.shapes) == (FITTED_MACHINE, len(ALL) * 12)
    assert [text.split(":")[0] for text in machine.fit.merged] == ["transforms", "threads"]  # one ring, one thread
    assert machine.fit.overall.worst_abs < 1e-4
    assert machine.fit.overall.samples == 3 * len(ALL) * 12
    assert machine.fit.total_error == pytest.approx(0, abs=1e-4)
    assert machine.fit.spread is None  # no shape was timed four times


def test_noise_of_a_few_percent_moves_the_large_coefficients_by_a_few_percent():
    machine = fit_machine(timed(noise=0.05, repeats=9))
    found = costs_ns(machine)
    for unit in ("transforms", "multiplications", "additions", "results"):
        assert found[unit] == pytest.approx(TRUE_NS[unit], rel=0.1), unit
    assert machine.fit.overall.mean_abs < 0.05
    assert machine.fit.warnings == ()
    # Those that stay open are named, and are not called calibrated.
    assert {text.split(":")[0] for text in machine.fit.merged} >= {"constant_products", "automorphisms"}
    assert machine.units["automorphisms"].figure.kind is Evidence.ASSUMED


def test_whole_shapes_that_are_off_are_outvoted():
    off = {shape(OpKind.MULT_PLAIN, 5), shape(OpKind.ADD, 9), shape(OpKind.RESCALE, 12)}
    samples = [replace(s, seconds=s.seconds * (3 if s.shape in off else 1)) for s in timed()]
    assert costs_ns(fit_machine(samples)) == pytest.approx(TRUE_NS, rel=0.05)


def test_errors_are_reported_for_all_and_for_each_kind_with_their_sign():
    samples = [replace(s, seconds=s.seconds * (2 if s.shape.kind == "add_plain" else 1)) for s in timed()]
    by_kind = {error.kind: error for error in fit_machine(samples).fit.errors}
    assert next(iter(by_kind)) == "all"
    assert set(by_kind) == {"all", *(kind.value for kind in ALL)}
    assert by_kind["add_plain"].bias < -0.1  # measured at twice the cost: its factor meets it in part
    assert by_kind["add_plain"].bias == pytest.approx(-by_kind["add_plain"].mean_abs)
    assert by_kind["all"].worst_abs == max(error.worst_abs for error in by_kind.values())
    assert all(e.median_abs <= e.p90_abs <= e.worst_abs for e in by_kind.values())


def test_a_program_without_rotations_gets_their_automorphism_from_the_other_kernels():
    kinds = [kind for kind in ALL if kind not in (OpKind.ROTATE, OpKind.ROTATE_HOISTED)]
    machine = fit_machine(timed(kinds))
    found = costs_ns(machine)
    assert found["transforms"] == pytest.approx(TRUE_NS["transforms"], rel=1e-3)
    # Nominally an automorphism costs 0.3 of a multiplication, and nothing but nominal ratios says anything of it.
    assert found["automorphisms"] == pytest.approx(0.3 * found["multiplications"], rel=0.5)
    assert machine.units["automorphisms"].figure.kind is Evidence.ASSUMED
    assert machine.units["transforms"].figure.kind is Evidence.CALIBRATED
    assert [text for text in machine.fit.merged if "no timed operation" in text]


def test_kernels_that_few_shapes_cannot_tell_apart_are_priced_at_nominal_ratios_and_named():
    samples = timed((OpKind.ROTATE, OpKind.ADD), limbs=(13, 14))
    machine = fit_machine(samples, fewest=1)
    assert {text.split(":")[0] for text in machine.fit.merged} >= {"automorphisms", "index_maps"}
    for sample in samples:
        assert machine.price(shape_work(sample.shape, PARAMS)).seconds == pytest.approx(sample.seconds, rel=0.1)
    assert all(1 / 20 < found / TRUE_NS[unit] < 20 for unit, found in costs_ns(machine).items())


def test_a_single_shape_fixes_one_scale():
    sample = timed((OpKind.ROTATE,), limbs=(10,), repeats=1)[0]
    machine = fit_machine([sample], fewest=1)
    assert machine.price(shape_work(sample.shape, PARAMS)).seconds == pytest.approx(sample.seconds, rel=1e-4)
    rates = [text for text in machine.fit.merged if text.partition(":")[0] in MEASURES and "nominal" in text]
    assert 0 < len(rates) < len(MEASURES)
    assert all(rate.figure.value > 0 for rate in machine.units.values())


def test_samples_of_several_rings_are_fitted_together():
    small = toy(name="small", ring_dim=2**11, slots=2**10, q_bits=PARAMS.q_bits, p_bits=PARAMS.p_bits)
    machine = fit_machine([*timed(), *timed((OpKind.ROTATE,), params=small)])
    assert costs_ns(machine) == pytest.approx(TRUE_NS, rel=1e-4)


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
    return with_times(trace, np.arange(len(trace)) + 0.5)


def with_times(trace: Trace, ends: np.ndarray) -> Trace:
    table = trace.operations
    for name, values in (("start_s", np.arange(len(trace)) * 1.0), ("end_s", ends)):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, OPERATIONS_SCHEMA.field(name), pa.array(values))
    return Trace(trace.meta, table, trace.objects)


def test_a_trace_gives_one_measurement_for_each_shape_of_the_servers_primitives():
    found = trace_measurements(measured_trace(), threads=2)
    assert [(m.item, m.shape.polynomials, m.runs) for m in found] == [
        ("mult", 2, 1), ("rescale", 2, 1), ("mult_no_relin", 2, 1), ("add", 3, 1), ("relinearize", 3, 1),
        ("decompose", 2, 1), ("rotate_hoisted", 2, 2), ("add", 2, 2),
    ]  # fmt: skip
    assert all(m.seconds == pytest.approx(0.5) and m.spread is None for m in found)
    assert {(m.threads, m.params, m.condition) for m in found} == {(2, PARAMS, "warm")}
    assert found[1].shape == Shape("rescale", 14, 13, 0, 0, 2)


def test_a_call_that_another_process_disturbed_moves_neither_the_median_nor_the_spread():
    ev = SymbolicEvaluator(PARAMS)
    a = ev.fresh(1)
    for _ in range(9):
        ev.rotate(a, 1)
    trace = ev.builder.finish(TraceMeta(workload="test", params=PARAMS.to_dict(), reading="native"))
    ends = np.arange(len(trace)) + 0.5
    ends[-1] += 40.0
    (found,) = trace_measurements(with_times(trace, ends))
    assert (found.seconds, found.spread, found.runs) == (pytest.approx(0.5), pytest.approx(0.0), 9)


def test_rows_without_times_are_no_samples():
    trace = measured_trace()
    at = trace.operations.schema.get_field_index("end_s")
    blank = pa.array([None] * len(trace), pa.float64())
    table = trace.operations.set_column(at, OPERATIONS_SCHEMA.field("end_s"), blank)
    assert trace_measurements(Trace(trace.meta, table, trace.objects)) == []


def test_four_noisy_timings_that_an_overhead_alone_would_meet_give_costs() -> None:
    """Measured on a busy machine: `analyze` of a small program refused its own timings."""
    whole = np.zeros((4, len(UNITS)))
    whole[:, 9] = 917504, 851968, 851968, 851968
    whole[0, 3] = 114688
    whole[1, [0, 1, 5, 6]] = 688128, 106496, 106496, 106496
    whole[2, [0, 1, 2, 4, 5, 6, 7, 8]] = 2088960, 1089536, 262144, 417792, 192512, 159744, 106496, 4096
    whole[3, 6] = 106496
    rows = TimedRows(
        seconds=np.array([0.00428355, 0.00818615, 0.00252151, 0.0001145]),
        weights=np.array([0.280214589, 0.512732067, 0.0410882052, 4.73567738e-05]),
        whole=whole, divided=whole, loops=np.zeros(4), beyond=np.zeros((4, len(CACHE_SIZES))), calls=np.ones(4),
    )  # fmt: skip
    everything = (tuple(range(len(UNITS))),)
    assert solve(rows, Structure(groups=everything, overhead=True)).cost.max() == 0.0
    costs = fit_costs(rows, Structure(groups=(), overhead=True))
    assert costs.cost.max() > 0
    assert costs.overhead == 0
