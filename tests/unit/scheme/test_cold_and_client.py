"""What programs cost more than warm calls, and the client: fitted back from times that follow the laws, and priced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from penstock.errors import MachineError
from penstock.lab.fit.fit import fit_machine
from penstock.lab.fit.measurements import Measurement, primitive_shape
from penstock.lab.prediction.composites import expanded
from penstock.lab.prediction.counted import Counted
from penstock.lab.prediction.models import (
    CannotPredict,
    PenstockModel,
    calibration,
    fit_penstock,
    predictable,
    primitives,
)
from penstock.lab.prediction.operation_counts import OperationCount, predict_counts, read_operation_counts
from penstock.lab.prediction.prediction import predict
from penstock.lab.prediction.uncertainty import log_sd
from penstock.lab.prediction.validation.baselines import fit_additive, fit_log_quadratic
from penstock.program.running.counting import count_workload
from penstock.scheme.machines import assumptions, load_machine
from penstock.scheme.machines.client import DECRYPT, ENCODE, ENCRYPT, ClientModel, task_work
from penstock.scheme.machines.cold import ColdModel, operand_bytes
from penstock.scheme.machines.figure import Evidence, Figure
from penstock.scheme.machines.schema import Machine
from penstock.scheme.machines.written import machine_toml, write_machine
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import Scaling
from penstock.scheme.work.shapes import Shape, shape_work
from support.imagined_cpu import params_of, sweep
from support.toy import toy_bootstrap

CALL, RATE = 60e-6, 40e9
CLIENT = {
    ENCODE: {"slots": 5e-9, "coefficients": 60e-9, "residues": 3e-9, "residues_shared": 6e-9},
    ENCRYPT: {"sampling": 120e-9, "residues": 12e-9, "residues_shared": 25e-9},
    DECRYPT: {
        "slots": 4e-9,
        "coefficients": 50e-9,
        "integers": 200e-9,
        "integers_shared": 250e-9,
        "summands": 100e-9,
        "summands_shared": 80e-9,
    },
}
WARM = sweep(rings=(11, 12, 13), depths=(6, 9), threads=(1, 2))


def figure(value: float) -> Figure:
    return Figure(value=value, text=str(value), source="a test", kind=Evidence.CALIBRATED)


def chilled(warm: Sequence[Measurement], scatter: float = 0.0) -> list[Measurement]:
    """The same calls with cold caches."""
    found = []
    for i, m in enumerate(m for m in warm if m.threads == 1):
        assert m.shape is not None
        more = (CALL + operand_bytes(shape_work(m.shape, m.params)) / RATE) * (1 + scatter * (-1) ** i)
        found.append(replace(m, condition="cold", seconds=m.seconds + more))
    return found


def client_timings(machine: Machine) -> list[Measurement]:
    """The tasks of the client on a machine with these costs."""
    model = ClientModel(costs={task: {k: figure(v) for k, v in each.items()} for task, each in CLIENT.items()})
    found = []
    for params in (params_of(ring, 9) for ring in (11, 12, 13, 14)):
        for threads in (1, 2):
            for task in CLIENT:
                for limbs in (1, 4, 9):
                    kernels = machine.at(threads).price(task_work(task, params, limbs)).seconds
                    found.append(
                        Measurement(
                            item=task,
                            group="primitives",
                            params=params,
                            limbs=limbs,
                            threads=threads,
                            source="x",
                            shape=None if task == ENCODE else primitive_shape(OpKind(task), params, limbs),
                            seconds=kernels + model.besides(task, params, limbs, threads),
                        )
                    )
    return found


@pytest.fixture(scope="module")
def warm_only() -> Machine:
    return fit_machine(WARM, name="warm-only")


@pytest.fixture(scope="module")
def machine(warm_only: Machine) -> Machine:
    return fit_machine([*WARM, *chilled(WARM, 0.1), *client_timings(warm_only)], name="whole")


def test_what_cold_calls_cost_more_comes_back(warm_only: Machine) -> None:
    cold = fit_machine([*chilled(WARM), *WARM]).cold
    assert cold is not None
    assert cold.call is not None
    assert cold.operands is not None
    assert cold.call.value == pytest.approx(CALL, rel=1e-4)
    assert cold.operands.value == pytest.approx(RATE, rel=1e-4)
    assert cold.log_sd < 1e-3
    assert "timed warm and cold" in cold.call.source
    assert warm_only.cold is None


def test_what_scatters_evens_out_in_a_program_and_what_is_off_together_does_not() -> None:
    each = list(zip(chilled(WARM, 0.4), chilled(WARM), chilled(WARM, -0.4), strict=True))
    chosen = np.random.default_rng(1).integers(0, 3, len(each)).tolist()
    scattered = fit_machine([*(three[i] for three, i in zip(each, chosen, strict=True)), *WARM]).cold
    # Larger rings cost ten times as much, which no fit to the others can tell.
    rings = [replace(m, seconds=m.seconds + 9 * CALL * (m.params.ring_dim == 2**13)) for m in chilled(WARM)]
    apart = fit_machine([*rings, *WARM]).cold
    assert scattered is not None
    assert apart is not None
    assert scattered.log_sd < 0.4  # what two of three operations are off by
    assert apart.log_sd > 0.5


def test_cold_calls_change_nothing_else_of_a_machine(warm_only: Machine) -> None:
    found = fit_machine([*chilled(WARM), *WARM], name="warm-only")
    assert replace(found, cold=None) == warm_only
    everything = [*WARM, *chilled(WARM)]
    assert primitives(everything) == WARM
    assert not any(predictable(m) for m in chilled(WARM))
    for fit in (fit_additive, fit_log_quadratic):
        assert fit(everything).predict(WARM[7]) == fit(WARM).predict(WARM[7])


def test_without_pairs_or_with_cold_calls_that_are_no_slower_there_is_no_cold_cost() -> None:
    assert fit_machine([*WARM, *chilled(WARM)[:3]]).cold is None
    faster = [replace(m, condition="cold", seconds=0.9 * m.seconds) for m in WARM]
    assert fit_machine([*WARM, *faster]).cold is None


def test_what_the_client_costs_comes_back(warm_only: Machine, machine: Machine) -> None:
    assert machine.client is not None
    for task, terms in CLIENT.items():
        found = {term: each.value for term, each in machine.client.costs[task].items()}
        assert found == pytest.approx(terms, rel=1e-3)
    assert machine.client.log_sd == 0.005
    without = [m for m in client_timings(warm_only) if m.item != DECRYPT]
    assert fit_machine([*WARM, *without]).client is None


def test_a_machine_file_has_both(machine: Machine, tmp_path: Path) -> None:
    write_machine(machine, tmp_path / "mine.toml")
    again = load_machine(tmp_path / "mine.toml")
    assert (again.cold, again.client) == (machine.cold, machine.client)
    assert machine_toml(again) == machine_toml(machine)
    stated = {each["field"]: each["kind"] for each in assumptions(again)}
    assert stated["cold.call"] == stated["client.encrypt.sampling"] == "calibrated"
    text = (tmp_path / "mine.toml").read_text()
    (tmp_path / "bad.toml").write_text(text.replace("sampling = {", "sampels = {"))
    with pytest.raises(MachineError, match=r"client\.encrypt has 'sampels'; its terms are sampling, residues"):
        load_machine(tmp_path / "bad.toml")
    (tmp_path / "bad.toml").write_text(text.replace("[cold]\nlog_sd = ", "[cold]\nlog_sd = -"))
    with pytest.raises(MachineError, match=r"cold\.log_sd is -"):
        load_machine(tmp_path / "bad.toml")


def test_a_program_costs_its_warm_operations_and_what_cold_caches_add(machine: Machine) -> None:
    tally = count_workload("inner-product", "insecure-ci", "ci")
    calls = {shape: n for shape, n in tally.counts.items() if shape.kind not in ("encrypt", "decrypt")}
    works = {shape: shape_work(shape, tally.params) for shape in calls}
    ring = tally.params.ring_dim
    warm = sum(n * machine.factor(s.kind, ring, s.limbs_in) * machine.price(works[s]).seconds for s, n in calls.items())
    cold = machine.cold
    assert cold is not None
    assert cold.call is not None
    assert cold.operands is not None
    more = sum(n * (cold.call.value + operand_bytes(works[s]) / cold.operands.value) for s, n in calls.items())
    found = predict(tally, machine)
    assert found.server_s == pytest.approx(warm + more, rel=1e-9)
    assert found.predicted_s == pytest.approx(found.server_s + found.client_s + found.encode_s, rel=1e-12)
    assert sum(each.seconds for each in found.contributions) == pytest.approx(found.predicted_s, rel=1e-12)
    assert not any("cached" in warning or "client" in warning for warning in found.warnings)
    # As shapes, without calls, they are single operations.
    assert predict(calls, machine, params=tally.params).predicted_s == pytest.approx(warm, rel=1e-9)


def test_the_operations_in_a_composite_read_their_operands_and_are_one_call(machine: Machine) -> None:
    shape, params = Shape("rotate", 6, 6, 0, 0, 2), params_of(12, 9)
    cold = replace(machine, cold=ColdModel(call=figure(1.0), operands=figure(1e9)), client=None)
    found = predict({shape: 5}, cold, params=params, calls={"rotate": 2, "bootstrap": 1})
    work = shape_work(shape, params)
    expected = (
        5 * machine.factor("rotate", params.ring_dim, 6) * machine.price(work).seconds
        + 5 * operand_bytes(work) / 1e9
        + 2
        + 1
    )
    assert found.server_s == pytest.approx(expected, rel=1e-12)
    assert {(c.kind, c.limbs, c.count): c.seconds for c in found.contributions}["bootstrap", 0, 1] == 1.0


def test_decryption_grows_with_the_limbs_and_one_limb_is_read_as_it_is(machine: Machine) -> None:
    client, full = machine.client, params_of(13, 9)
    assert client is not None
    at = {limbs: client.besides(DECRYPT, full, limbs, 1) for limbs in (1, 2, 5, 8)}
    assert at[8] - at[5] == pytest.approx(at[5] - at[2], rel=1e-9) == pytest.approx(3 * 8192 * 100e-9, rel=1e-3)
    assert at[2] - at[1] == pytest.approx(8192 * (200e-9 + 2 * 100e-9), rel=1e-3)
    halved = client.besides(DECRYPT, full, 5, 2) - client.besides(DECRYPT, full, 1, 2)
    assert halved == pytest.approx(8192 * (200e-9 + 250e-9 + 5 * (100e-9 + 80e-9)) / 2, rel=1e-3)


def test_empty_slots_cost_the_client_no_rounding(machine: Machine) -> None:
    client, full = machine.client, params_of(13, 9)
    assert client is not None
    sparse = replace(full, name="sparse", slots=full.slots // 8)
    for task in (ENCODE, DECRYPT):
        saved = client.besides(task, full, 4, 1) - client.besides(task, sparse, 4, 1)
        butterflies = (full.slots * math.log2(full.slots) - sparse.slots * math.log2(sparse.slots)) / 2
        terms = {term: figure.value for term, figure in client.costs[task].items()}
        expected = terms["coefficients"] * 2 * (full.slots - sparse.slots) + terms["slots"] * butterflies
        assert saved == pytest.approx(expected, rel=1e-9)
    assert client.besides(ENCRYPT, full, 4, 1) == client.besides(ENCRYPT, sparse, 4, 1)


def test_the_client_encodes_what_it_encrypts(machine: Machine) -> None:
    tally = count_workload("matrix-multiplication", "insecure-ci", "ci")
    assert machine.client is not None
    assert machine.cold is not None
    encrypted = sum(n for shape, n in tally.counts.items() if shape.kind == "encrypt")
    counted = Counted.of_tally(tally)
    assert sum(counted.encodings.values()) == encrypted + sum(tally.encodings.values())
    found = predict(tally, machine)
    each = {
        (task, limbs): machine.price(task_work(task, tally.params, limbs)).seconds
        + machine.client.besides(task, tally.params, limbs, 1)
        + machine.cold.seconds(1, 0)
        for task in CLIENT
        for limbs in range(1, tally.params.num_q + 1)
    }
    client = sum(n * each[s.kind, s.limbs_in] for s, n in tally.counts.items() if s.kind in (ENCRYPT, DECRYPT))
    assert found.client_s == pytest.approx(client, rel=1e-9)
    assert found.encode_s == pytest.approx(sum(n * each[ENCODE, k] for k, n in counted.encodings.items()), rel=1e-9)


def test_counts_say_that_encoding_is_not_in_their_prediction(machine: Machine) -> None:
    products = OperationCount(kind=OpKind.MULT_PLAIN, count=3, limbs=2, degree=None, source="x")
    sums = replace(products, kind=OpKind.ADD, count=1)
    found = predict_counts([products, sums], params_of(12, 9), machine)
    assert found.encode_s == 0
    assert any("encoding is not in it: 3 operations" in warning for warning in found.warnings)
    assert not any("encoding" in warning for warning in predict_counts([sums], params_of(12, 9), machine).warnings)


def test_a_primitive_is_priced_warm_a_program_cold_and_a_whole_run_with_its_client(machine: Machine) -> None:
    tally = count_workload("inner-product", size="ci")
    ran = Measurement(
        item="inner-product",
        group="workloads",
        params=tally.params,
        size="ci",
        seconds=1.0,
        wall_s=2.0,
        source="a test",
    )
    model, whole = PenstockModel(machine), predict(tally, machine)
    assert model.predict(ran).seconds == pytest.approx(whole.server_s, rel=1e-12)
    estimate = model.predict(ran.as_whole())
    assert (estimate.seconds, estimate.low, estimate.high) == pytest.approx(
        (whole.predicted_s, whole.low_s, whole.high_s), rel=1e-12
    )
    assert WARM[0].shape is not None
    price = machine.price(shape_work(WARM[0].shape, WARM[0].params)).seconds
    assert model.predict(WARM[0]).seconds == pytest.approx(price, rel=1e-12)
    for each in (PenstockModel(replace(machine, client=None)), fit_additive(WARM), fit_log_quadratic(WARM)):
        with pytest.raises(CannotPredict, match="client"):
            each.predict(ran.as_whole())


def test_the_interval_has_the_uncertainty_of_each_part_by_its_share(machine: Machine) -> None:
    fit = machine.fit
    assert fit is not None
    assert fit.common_sd is not None
    kinds = (0.6 * fit.kinds["rotate"]) ** 2
    expected = math.sqrt(fit.common_sd**2 + kinds + (0.3 * 0.8) ** 2 + (0.1 * 0.05) ** 2)
    assert log_sd(fit, {"rotate": 6.0}, [(3.0, 0.8), (1.0, 0.05)]) == pytest.approx(expected)
    tally = count_workload("inner-product", size="ci")
    wide = replace(machine, cold=replace(machine.cold, log_sd=0.9)) if machine.cold else machine
    narrow, wider = predict(tally, machine), predict(tally, wide)
    assert narrow.predicted_s == wider.predicted_s
    assert narrow.high_s is not None
    assert wider.high_s is not None
    assert narrow.high_s < wider.high_s


def test_only_what_is_not_encoded_in_the_time_of_counts_is_said_to_be_missing(machine: Machine, tmp_path: Path) -> None:
    params, file = params_of(12, 9), tmp_path / "counts.csv"
    file.write_text("operation,count,limbs\nEncrypt,3,4\nadd,1,4\n")
    found = predict_counts(read_operation_counts(file), params, machine)
    assert found.encode_s
    assert not any("encoding is not in it" in text for text in found.warnings)
    file.write_text("operation,count,limbs\nEncrypt,3,4\nmult_plain,2,4\n")
    found = predict_counts(read_operation_counts(file), params, machine)
    (said,) = (text for text in found.warnings if "encoding is not in it" in text)
    assert "2 operations" in said


def test_composites_are_fitted_to_by_the_operations_inside_them() -> None:
    params = params_of(12, 9)
    series = Measurement(
        item="chebyshev_series", group="primitives", params=params, degree=13, limbs=9, seconds=1.0, source="a test"
    )
    counts = expanded(series)
    assert counts
    assert "encrypt" not in {s.kind for s in counts}
    assert max(s.limbs_in for s in expanded(replace(series, limbs=8))) == 8
    assert expanded(replace(series, degree=None)) == {}
    assert expanded(replace(series, limbs=None)) == {}  # another release's steps are not known
    assert expanded(replace(series, item="encode")) == {}
    sets = toy_bootstrap(Scaling.FLEXIBLE_AUTO)
    refreshed = expanded(replace(series, item="bootstrap", params=sets, limbs=2, degree=None))
    assert "mod_raise" in {s.kind for s in refreshed}
    # However long it takes, it weighs no more than the heaviest operation.
    model = fit_penstock([*WARM, series])
    assert isinstance(model, PenstockModel)
    assert model.machine.fit is not None
    assert "composite" in {error.kind for error in model.machine.fit.errors}
    assert model.machine.fit.overall.median_abs < 0.02
    assert calibration([series, replace(series, item="cnn", group="workloads")]) == [series]
