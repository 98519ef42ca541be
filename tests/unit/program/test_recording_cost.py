"""What the record of a program's calls costs: found from recorded calls, written, and priced."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import MachineError
from penstock.lab.fit.fit import fit_machine
from penstock.lab.fit.measurements import Measurement
from penstock.lab.fit.program_costs import UNIFORM, fit_recording
from penstock.lab.prediction.composites import expanded
from penstock.lab.prediction.models import PenstockModel, predictable
from penstock.lab.prediction.prediction import RECORDING, predict
from penstock.program.running.counting import count_workload
from penstock.scheme.machines import assumptions, load_machine
from penstock.scheme.machines.figure import Evidence, Figure
from penstock.scheme.machines.record_cost import RecordingModel
from penstock.scheme.machines.schema import Machine
from penstock.scheme.machines.written import machine_toml, write_machine
from support.imagined_cpu import params_of, ran, sweep

LIGHT, HEAVY, ROW, SLOT = 80e-6, 150e-6, 12e-6, 0.1e-6
WARM = sweep(rings=(11, 12, 13), depths=(6, 9), threads=(1, 2))


def recorded(*, warmer: float = 0.5) -> list[Measurement]:
    """Recorded calls with these costs; warm ones cost less."""
    found = []
    for ring in (11, 12, 13):
        params = params_of(ring, 9)
        for item, seconds, degree in (
            ("recorded_add", LIGHT, None),
            ("recorded_mult_plain", LIGHT, None),
            ("recorded_rotate", HEAVY, None),
            ("recorded_mult", HEAVY, None),
            ("recorded_decrypt", LIGHT + SLOT * params.slots, None),
            ("recorded_chebyshev_series", HEAVY, 13),
        ):
            for condition, share in (("cold", 1.0), ("warm", warmer)):
                m = Measurement(
                    item=item,
                    group="primitives",
                    params=params,
                    limbs=9,
                    degree=degree,
                    condition=condition,
                    seconds=1.0,
                    source="x",
                )
                rows = sum(expanded(replace(m, item="chebyshev_series")).values()) if degree else 0
                found.append(replace(m, seconds=share * (seconds + ROW * rows)))
    return found


@pytest.fixture(scope="module")
def machine() -> Machine:
    return fit_machine([*WARM, *recorded()], name="recorded", expand=expanded)


def test_costs_come_back_as_measured(machine: Machine) -> None:
    assert machine.recording is not None
    found = {term: figure.value for term, figure in machine.recording.costs.items()}
    assert found == pytest.approx(
        {"element-wise": LIGHT, "key-switching": HEAVY, "expanded": ROW, "values": SLOT}, rel=2e-3
    )
    assert {figure.kind for figure in machine.recording.costs.values()} == {Evidence.MEASURED}
    assert machine.recording.log_sd == pytest.approx(0.5 / UNIFORM, rel=1e-3)
    assert machine.recording.call("bootstrap") == machine.recording.call("rotate")


def test_what_warm_calls_leave_open_is_in_the_deviation() -> None:
    closed, wide = (fit_recording(recorded(warmer=share), lambda m: 0.0) for share in (1.0, 0.2))
    assert closed is not None
    assert wide is not None
    assert closed.log_sd == 0.0
    assert wide.log_sd == pytest.approx(0.8 / UNIFORM, rel=1e-3)
    assert "expanded" not in closed.costs  # rows of the expansion are not known
    assert fit_recording([m for m in recorded() if m.item != "recorded_add"][:6], lambda m: 0.0) is None
    assert fit_recording([m for m in recorded() if m.condition == "warm"], lambda m: 0.0) is None


def test_recorded_calls_change_nothing_else_of_a_machine(machine: Machine) -> None:
    assert replace(machine, recording=None) == fit_machine(WARM, name="recorded", expand=expanded)
    assert not any(predictable(m) for m in recorded())


def test_a_program_pays_for_every_call_row_and_slot(machine: Machine) -> None:
    known = machine.recording
    assert known is not None
    tally = count_workload("logistic-function", "insecure-ci", "ci")
    found, bare = predict(tally, machine), predict(tally, replace(machine, recording=None))
    clients = sum(n for shape, n in tally.counts.items() if shape.kind in ("encrypt", "decrypt"))
    assert (clients, tally.calls["chebyshev"]) == (2, 1)
    own = sum(n for kind, n in tally.calls.items() if kind not in ("encrypt", "decrypt", "chebyshev"))
    rows = tally.num_operations - own
    expected = 2 * known.call("add") + known.call("rotate") + known.expanded(rows) + known.values(tally.params.slots)
    expected += sum(n * known.call(k) for k, n in tally.calls.items() if k not in ("encrypt", "decrypt", "chebyshev"))
    assert rows > 50
    assert found.recording_s == pytest.approx(expected, rel=1e-9)
    assert found.predicted_s == pytest.approx(bare.predicted_s + expected, rel=1e-9)
    assert (found.server_s, bare.recording_s) == (bare.server_s, None)
    assert sum(part.seconds for part in found.contributions) == pytest.approx(found.predicted_s)
    (part,) = [part for part in found.contributions if part.kind == RECORDING]
    assert part.count == sum(tally.calls.values())


def test_the_calls_own_times_are_compared_without_the_record(machine: Machine) -> None:
    m = ran("inner-product", "ci", 1)
    assert PenstockModel(machine).predict(m) == PenstockModel(replace(machine, recording=None)).predict(m)
    single = next(m for m in WARM if m.item == "add" and m.threads == 1)
    assert PenstockModel(machine).predict(single) == PenstockModel(replace(machine, recording=None)).predict(single)


def test_the_record_widens_an_interval_by_its_share(machine: Machine) -> None:
    known = machine.recording
    assert known is not None
    tally = count_workload("inner-product", "insecure-ci", "ci")
    widths = []
    for sd in (0.0, 0.8):
        found = predict(tally, replace(machine, recording=replace(known, log_sd=sd)))
        assert found.high_s is not None
        widths.append(math.log(found.high_s / found.predicted_s))
    assert widths[1] > widths[0]


def test_a_machine_file_has_it(machine: Machine, tmp_path: Path) -> None:
    write_machine(machine, tmp_path / "mine.toml")
    again = load_machine(tmp_path / "mine.toml")
    assert again.recording == machine.recording
    assert machine_toml(again) == machine_toml(machine)
    assert {each["kind"] for each in assumptions(again) if each["field"].startswith("recording")} <= {"measured"}
    text = (tmp_path / "mine.toml").read_text()
    (tmp_path / "bad.toml").write_text(text.replace("element-wise = {", "elementwise = {"))
    with pytest.raises(MachineError, match="recording has 'elementwise'; its terms are element-wise"):
        load_machine(tmp_path / "bad.toml")
    (tmp_path / "bad.toml").write_text(text.replace("[recording]\nlog_sd = ", "[recording]\nlog_sd = -"))
    with pytest.raises(MachineError, match=r"recording\.log_sd is -"):
        load_machine(tmp_path / "bad.toml")


def test_a_term_that_was_not_timed_costs_nothing() -> None:
    call = Figure(value=1.0, text="1 s", source="a test", kind=Evidence.MEASURED)
    model = RecordingModel(costs={"element-wise": call})
    assert (model.call("add"), model.call("rotate"), model.values(10), model.expanded(3)) == (1.0, 0.0, 0.0, 0.0)
