"""The inside of machines: their files, what schedules of kernels refuse, and programs with scheduled operations."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.errors import MachineError, UsageError
from penstock.front.cli.main import main
from penstock.lab.prediction.machine_tables import schedule_rows
from penstock.lab.simulation.inside.timeline import kernel_timeline
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.running import trace_workload
from penstock.scheme.machines import InsideModel, Machine, assumptions, load_machine
from penstock.scheme.machines.missing import missing
from penstock.scheme.machines.written import machine_toml, write_machine
from penstock.scheme.operations import OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.play.price import price_trace
from penstock.scheme.play.schedule import (
    CRITICAL_PATH,
    ProgramShapes,
    Schedule,
    schedule_operation,
    schedule_program,
)
from penstock.scheme.traces.schema import TraceMeta
from penstock.scheme.work.graph import KernelName
from penstock.scheme.work.graphs import kernel_graph
from penstock.scheme.work.shapes import Shape
from support.timeline_format import check_format
from support.toy import toy

SHARP = catalogue.get("sharp")
MACHINE = """
name = "mine"
title = "a machine of my own"
overlap = "pipelined"
overlap_source = "a test"
clock = { value = "1 GHz", source = "a test", kind = "assumed" }

[units]
transforms = { value = "1024 points/cycle", source = "a test", kind = "assumed" }
base_conversion = { value = "12288 MAC/cycle", source = "a test", kind = "assumed" }
multiplications = { value = "4096 mult/cycle", source = "a test", kind = "assumed" }
additions = { value = "4096 add/cycle", source = "a test", kind = "assumed" }
automorphisms = { value = "1024 coeff/cycle", source = "a test", kind = "assumed" }

[datapath]
"""
PORTS = 'ports = { transforms = { value = "4 ports", source = "a test", kind = "assumed" } }\n'


def field(name: str, value: str) -> str:
    return f'{name} = {{ value = "{value}", source = "a test", kind = "assumed" }}\n'


def machine(folder: Path, inside: str, *, without: str | None = None) -> Machine:
    lines = [line for line in MACHINE.splitlines() if without is None or not line.startswith(without)]
    path = folder / "mine.toml"
    path.write_text("\n".join(lines) + "\n" + inside)
    return load_machine(path)


def scheduled(found: Machine) -> Machine:
    return replace(found, inside=InsideModel.SCHEDULE)


def test_the_inside_of_a_machine_is_read_and_written_again(tmp_path: Path) -> None:
    latency = 'latency = { transforms = { value = "368 cycles", source = "a test", kind = "assumed" } }\n'
    found = machine(tmp_path, PORTS + latency + field("chaining", "256 points") + field("network", "4.6 TB/s"))
    inside = found.datapath
    assert (inside.ports_of("transforms"), inside.ports_of("additions")) == (4, 1)
    assert inside.latency_of("transforms") == pytest.approx(368e-9)
    assert [path for path, _ in inside.gaps()] == ["datapath.scratchpad", "datapath.scratchpad_bandwidth"]
    write_machine(scheduled(found), tmp_path / "again.toml")
    again = (tmp_path / "again.toml").read_text()
    assert "368 cycles" in again
    (tmp_path / "mine.toml").write_text(again)
    assert load_machine(tmp_path / "mine.toml") == found
    assert "[datapath]" not in machine_toml(load_machine("trinity"))


@pytest.mark.parametrize(
    ("inside", "says"),
    [
        ('ports = { transform = { value = "4 ports", source = "a test", kind = "assumed" } }', "no such unit"),
        ('ports = { transforms = { value = "1.5 ports", source = "a test", kind = "assumed" } }', "whole number"),
        ('ports = { transforms = { value = "0 ports", source = "a test", kind = "assumed" } }', "1 or more"),
        (field("scratchpad", "0 MB"), "leave it out if it is not known"),
        (field("efficiency", "120 %"), "over 100 %"),
        (field("bandwidth", "1 TB/s"), "bandwidth"),
        (field("network", "1 TB"), "datapath.network"),
    ],
)
def test_an_inside_that_breaks_a_rule_is_refused(tmp_path: Path, inside: str, says: str) -> None:
    with pytest.raises(MachineError, match=says):
        machine(tmp_path, inside)


def test_units_that_share_their_hardware_wait_for_each_other(tmp_path: Path) -> None:
    def ports(text: str) -> str:
        each = 'multiplications = { value = "2 ports", source = "a test", kind = "assumed" }'
        return f'ports = {{ base_conversion = {{ value = "{text}", source = "a test", kind = "assumed" }}, {each} }}\n'

    apart, _ = schedule_operation(OpKind.ROTATE, SHARP, 13, machine(tmp_path, ports("2 ports")))
    both, kernels = schedule_operation(OpKind.ROTATE, SHARP, 13, machine(tmp_path, ports("2 ports of multiplications")))
    assert both.total_s >= apart.total_s
    assert "base_conversion" not in both.busy_s
    work = apart.busy_s["base_conversion"] + apart.busy_s["multiplications"]
    assert both.busy_s["multiplications"] == pytest.approx(work, rel=1e-9)
    assert {"base-conversion ModUp 1", "key-product key 1"} <= set(kernels.name)
    for wrong in ("1 ports of multiplications", "2 ports of additions", "2 ports of base_conversion"):
        with pytest.raises(MachineError, match=r"state as many datapath\.ports"):
            machine(tmp_path, ports(wrong))
    with pytest.raises(MachineError, match="unknown unit"):
        machine(tmp_path, ports("2 ports of multipliers"))


def test_cycles_need_a_clock(tmp_path: Path) -> None:
    text = MACHINE.replace("/cycle", "/s").replace("1024 points", "1 Tpoints")
    lines = [line for line in text.splitlines() if not line.startswith("clock")]
    path = tmp_path / "mine.toml"
    latency = 'latency = { transforms = { value = "3 cycles", source = "a test", kind = "assumed" } }\n'
    path.write_text("\n".join(lines) + "\n" + latency)
    with pytest.raises(MachineError, match=r"in cycles: add a \[clock\] table"):
        load_machine(path)
    path.write_text("\n".join(lines) + "\n" + latency.replace("cycles", "ns"))
    assert load_machine(path).datapath.latency_of("transforms") == pytest.approx(3e-9)


def test_what_is_not_stated_costs_nothing_and_is_said(tmp_path: Path) -> None:
    bare = machine(tmp_path, "")
    gaps = {each.field: each.taken for each in missing(bare) if each.field.startswith("datapath")}
    assert set(gaps) == {
        f"datapath.{name}" for name in ("ports", "latency", "chaining", "scratchpad", "scratchpad_bandwidth", "network")
    }
    fields = [each["field"] for each in assumptions(scheduled(bare))]
    assert "datapath.scratchpad" in fields
    assert "utilisation" not in fields
    assert not any(each["field"].startswith("datapath") for each in assumptions(bare))
    (calibrated, unstated) = scheduled(bare).warnings(SHARP)
    assert "the efficiency of its schedules is assumed" in calibrated
    assert "any number of operations fit on chip at once" in unstated
    found, _ = schedule_operation(OpKind.ADD, SHARP, 35, bare)
    share = load_machine("sharp").datapath.efficiency
    assert share is not None
    assert found.total_s == pytest.approx(2 * 35 * 2**16 / 4096e9 / share.value, rel=1e-6)


def test_a_machine_without_a_unit_for_a_kernel_is_refused_with_the_nearest_value(tmp_path: Path) -> None:
    lacking = machine(tmp_path, "", without="base_conversion")
    with pytest.raises(MachineError, match=r"cannot run 'rotate' at 9 limbs.*nearest value: 4096 MAC/cycle"):
        schedule_operation(OpKind.ROTATE, SHARP, 9, lacking)
    assert schedule_operation(OpKind.ADD, SHARP, 9, lacking)[0].total_s > 0


def test_a_scratchpad_below_the_least_working_set_is_refused_with_what_fits(tmp_path: Path) -> None:
    needed = kernel_graph(OpKind.ROTATE, SHARP, 35).least_bytes
    tight = machine(tmp_path, field("scratchpad", f"{needed} B"))
    assert schedule_operation(OpKind.ROTATE, SHARP, 35, tight)[0].total_s > 0
    small = machine(tmp_path, field("scratchpad", "20 MB"))
    with pytest.raises(UsageError, match=rf"give datapath.scratchpad {needed} B or more") as refused:
        schedule_operation(OpKind.ROTATE, SHARP, 35, small)
    fits = int(str(refused.value).split("it fits at ")[1].split()[0])
    assert kernel_graph(OpKind.ROTATE, SHARP, fits).least_bytes <= 20e6
    assert kernel_graph(OpKind.ROTATE, SHARP, fits + 1).least_bytes > 20e6


@pytest.mark.parametrize(
    ("name", "params", "says"),
    [
        ("fab", "sharp", "one kernel after another"),
        ("sharp", "bts-ins2", "N = 131072.*take N = 65536 at most"),
        ("sharp", "ark", "its units take 36 at most"),
    ],
)
def test_machines_whose_units_cannot_run_a_set_are_refused(name: str, params: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        schedule_operation(OpKind.ROTATE, catalogue.get(params), 3, load_machine(name))


@pytest.mark.parametrize("name", ["sharp", "ark", "bts", "craterlake", "f1-plus", "trinity"])
def test_shipped_machines_run_their_own_set_and_bounds_hold(name: str) -> None:
    found = load_machine(name)
    assert found.native_params is not None
    rows = schedule_rows(found, catalogue.get(found.native_params))
    assert {row["keys"] for row in rows} == {"on chip", "own memory"}
    for row in rows:
        assert max(row["bounds_s"].values()) <= row["seconds"] * (1 + 1e-9)
        assert row["bounds_s"][row["bound"]] == max(row["bounds_s"].values())
        assert max(row["busy"].values()) <= 1 + 1e-9
    here, loaded = rows[0], rows[1]
    assert loaded["seconds"] >= loaded["bounds_s"]["off_chip"] > here["seconds"] / 2


def test_a_program_with_scheduled_operations_adds_up_and_is_kept() -> None:
    sharp = scheduled(load_machine("sharp"))
    trace = trace_workload("inner-product", SHARP, "ci", 0)
    priced = price_trace(trace, sharp)
    schedule = priced.schedule
    assert schedule is not None
    assert priced.ideal_s == pytest.approx(schedule.total_s, rel=1e-12)
    assert (priced.compute_s >= 0).all()
    assert max(schedule.bounds_s.values()) <= schedule.total_s * (1 + 1e-9)
    assert CRITICAL_PATH in schedule.bounds_s
    assert price_trace(trace, sharp).schedule is schedule
    units = price_trace(trace, replace(sharp, inside=InsideModel.UNITS))
    assert units.schedule is None
    assert np.array_equal(units.access_bytes, priced.access_bytes)
    assert priced.joules is not None
    assert priced.joules.sum() == pytest.approx(94.7 * schedule.total_s)


def test_more_room_and_more_ports_of_work_never_hold_a_program_below_its_bounds() -> None:
    sharp = load_machine("sharp")
    trace = trace_workload("inner-product", SHARP, "ci", 0)
    roomy = scheduled(replace(sharp, datapath=replace(sharp.datapath, scratchpad=None)))
    schedule = price_trace(trace, roomy).schedule
    tight = price_trace(trace, scheduled(sharp)).schedule
    assert schedule is not None
    assert tight is not None
    assert schedule.total_s <= tight.total_s
    assert schedule.bounds_s == tight.bounds_s


def test_a_composite_without_an_expansion_takes_no_time_in_a_schedule() -> None:
    """It waits for its operands, and what reads its result waits for it."""
    params = toy(ring_dim=4096, slots=2048, q_bits=(36,) * 6, p_bits=(36,) * 2, dnum=3, word_bits=36)
    ev = SymbolicEvaluator(params)
    turned = ev.rotate(ev.fresh(4), 1)
    trace = ev.builder.finish(TraceMeta(workload="test", params=params.to_dict(), reading="trace"))
    alone = price_trace(trace, scheduled(load_machine("sharp")))
    ev.rotate(turned, 1)
    both = price_trace(
        ev.builder.finish(TraceMeta(workload="test", params=params.to_dict(), reading="trace")),
        scheduled(load_machine("sharp")),
    )
    assert both.schedule is not None
    assert alone.schedule is not None
    assert both.schedule.end_s[0] == pytest.approx(alone.ideal_s, rel=1e-2)  # kernels of the second come between
    assert both.schedule.bounds_s[CRITICAL_PATH] > 1.5 * alone.schedule.bounds_s[CRITICAL_PATH]
    none = np.zeros(0, dtype=np.int64)
    shapes = [Shape("rotate", 4, 4, 0, 0, 2), Shape("composite", 4, 4, 0, 0, 2)]
    program = ProgramShapes(shapes, np.asarray([0, 1, 0]), (np.asarray([0, 0, 1, 2]), np.asarray([0, 1])))
    found = schedule_program(program, params, load_machine("sharp"))
    assert found.end_s[1] == found.end_s[0]
    assert found.total_s == pytest.approx(2 * alone.ideal_s)
    empty = schedule_program(
        ProgramShapes([], none, (np.zeros(1, dtype=np.int64), none)), params, load_machine("sharp")
    )
    assert (empty.total_s, empty.added_s.tolist()) == (0.0, [])


def test_a_machine_adds_exchanges_transforms_of_plaintexts_and_loads(tmp_path: Path) -> None:
    def names(found: Machine, kind: OpKind, *, loads: bool = False) -> list[str]:
        return sorted(set(schedule_operation(kind, SHARP, 5, found, loads=loads)[1].name))

    plain = machine(tmp_path, PORTS)
    sharp = load_machine("sharp")
    assert "exchange" not in names(plain, OpKind.ROTATE)
    assert "exchange" in names(sharp, OpKind.ROTATE)
    assert "transform plaintext" not in names(plain, OpKind.MULT_PLAIN)
    assert "transform plaintext" in names(sharp, OpKind.MULT_PLAIN)
    assert "load plaintext" in names(sharp, OpKind.MULT_PLAIN, loads=True)
    assert "load key key 1" in names(sharp, OpKind.ROTATE, loads=True)
    _, kernels = schedule_operation(OpKind.MULT_PLAIN, SHARP, 5, sharp)
    assert kernels.name.count("transform plaintext") == 5
    assert set(kernels.limb.tolist()) == set(range(5))


def test_operands_pass_a_unit_memory_where_a_machine_has_one(tmp_path: Path) -> None:
    memory = 'memory = { value = "1 TB/s", source = "a test", kind = "assumed" }\n\n[datapath]\n'
    text = MACHINE.replace("\n[datapath]\n", memory)
    (tmp_path / "mine.toml").write_text(text)
    bound = load_machine(tmp_path / "mine.toml")
    found, _ = schedule_operation(OpKind.ADD, SHARP, 35, bound)
    assert found.total_s == pytest.approx(3 * SHARP.ciphertext_bytes(35) / 1e12, rel=1e-6)
    assert found.bounds_s["scratchpad"] == pytest.approx(found.total_s, rel=1e-6)
    (tmp_path / "mine.toml").write_text(MACHINE.replace("\n[datapath]\n", memory.replace("memory", "results", 1)))
    with pytest.raises(MachineError, match="unit 'results', which no kernel runs on"):
        schedule_operation(OpKind.ADD, SHARP, 35, load_machine(tmp_path / "mine.toml"))


REGISTERS = field("scratchpad", "300 MB") + field("scratchpad_bandwidth", "10 TB/s")


def test_limbs_between_kernels_stay_in_registers_and_the_rest_passes_the_scratchpad(tmp_path: Path) -> None:
    def scheduled_on(extra: str) -> Schedule:
        return schedule_operation(OpKind.ROTATE, SHARP, 35, machine(tmp_path, PORTS + REGISTERS + extra))[0]

    graph = kernel_graph(OpKind.ROTATE, SHARP, 35)
    all_limbs = sum(kernel.reads + len(kernel.limbs) for kernel in graph.kernels)
    none = scheduled_on("")
    assert none.bounds_s["scratchpad"] == pytest.approx(all_limbs * graph.limb_bytes / 10e12)
    assert "registers" not in none.bounds_s
    roomy = scheduled_on(field("register_file", "1 GB") + field("register_bandwidth", "20 TB/s"))
    # Every limb passes the registers; operands, rows of keys and results pass the scratchpad too.
    outside = roomy.bounds_s["scratchpad"] * 10e12 / graph.limb_bytes
    operands = sum(len(kernel.limbs) for kernel in graph.kernels if kernel.operand)
    results = sum(len(kernel.limbs) for kernel in graph.kernels if kernel.result)
    rows = sum(len(kernel.limbs) for kernel in graph.kernels if kernel.name is KernelName.KEY_PRODUCT)
    assert outside == pytest.approx(rows + results + operands)
    assert roomy.bounds_s["registers"] == pytest.approx(all_limbs * graph.limb_bytes / 20e12)
    assert roomy.total_s <= none.total_s
    # Half of the room: half of the limbs between kernels pass the scratchpad again.
    half = scheduled_on(field("register_file", f"{graph.least_bytes // 2} B"))
    middle = (none.bounds_s["scratchpad"] + roomy.bounds_s["scratchpad"]) / 2
    assert half.bounds_s["scratchpad"] == pytest.approx(middle)
    assert "registers" not in half.bounds_s


def test_registers_add_to_the_room_and_their_bandwidth_needs_them(tmp_path: Path) -> None:
    needed = kernel_graph(OpKind.ROTATE, SHARP, 35).least_bytes
    small = field("scratchpad", "20 MB")
    enough = machine(tmp_path, small + field("register_file", f"{needed - 20_000_000} B"))
    assert schedule_operation(OpKind.ROTATE, SHARP, 35, enough)[0].total_s > 0
    tight = machine(tmp_path, small + field("register_file", "10 MB"))
    with pytest.raises(
        UsageError, match=rf"20 MB beside 10 MB of registers.*scratchpad {needed - 10_000_000} B or more"
    ):
        schedule_operation(OpKind.ROTATE, SHARP, 35, tight)
    assert "datapath.register_bandwidth" in [path for path, _ in tight.datapath.gaps()]
    with pytest.raises(MachineError, match=r"register_bandwidth is of a register file"):
        machine(tmp_path, field("register_bandwidth", "1 TB/s"))


def test_a_timeline_has_the_kernels_of_whole_operations() -> None:
    sharp = load_machine("sharp")
    trace = trace_workload("inner-product", SHARP, "ci", 0)
    drawn = kernel_timeline(trace, sharp)
    check_format(drawn)
    slices = [event for event in drawn["traceEvents"] if event["ph"] == "X"]
    kernels = [event for event in slices if event["cat"] == "kernel"]
    assert {"transform ModUp 1", "key-product key 1"} <= {event["name"] for event in kernels}
    lanes = {event["args"]["name"] for event in drawn["traceEvents"] if event["name"] == "thread_name"}
    assert {"transforms 1", "transforms 4", "network"} <= lanes
    busy: dict[tuple[int, int], float] = {}
    for event in sorted(kernels, key=lambda each: each["ts"]):
        lane = event["pid"], event["tid"]
        assert event["ts"] >= busy.get(lane, 0.0) - 1e-6
        busy[lane] = event["ts"] + event["dur"]
    counted = [event for event in drawn["traceEvents"] if event["ph"] == "C"]
    inside = [event["args"]["operations"] for event in counted if event["name"] == "operations under way"]
    held = [event["args"]["bytes"] for event in counted if event["name"] == "bytes that they hold on chip"]
    assert 1 < max(inside) <= 64
    assert inside[-1] == held[-1] == 0
    assert sharp.datapath.scratchpad is not None
    assert max(held) <= sharp.datapath.scratchpad.value
    fewer = kernel_timeline(trace, sharp, max_events=len(slices) // 2)
    assert 0 < fewer["otherData"]["operations"] < drawn["otherData"]["operations"]
    with pytest.raises(UsageError, match="holds no operation"):
        kernel_timeline(trace, sharp, max_events=1)


def test_the_command_line_schedules_and_says_what_it_rests_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["simulate", "inner-product", "--size", "ci", "--params", "sharp", "--machine", "sharp", "--tier", "hbm"]
    assert main([*asked, "--inside", "schedule", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert main([*asked, "--format", "json"]) == 0
    (other,) = json.loads(capsys.readouterr().out)
    assert row["compute_s"] != other["compute_s"]
    assert row["key_bytes"] == other["key_bytes"]
    assert "schedule" not in other
    assert row["schedule"]["off_chip_s"] * 1e12 == pytest.approx(row["key_bytes"], rel=0.1)  # plaintexts are the rest
    assert max(row["schedule"]["bounds_s"].values()) <= row["schedule"]["total_s"] * (1 + 1e-9)
    assert main([*asked, "--inside", "schedule"]) == 0
    assert "not shorter than transforms" in capsys.readouterr().out
    assert "datapath.efficiency" in [each["field"] for each in row["assumptions"]]
    assert "utilisation" in [each["field"] for each in other["assumptions"]]
    found = ps.simulate("inner-product", "sharp", "hbm", params="sharp", size="ci", inside="schedule")
    assert found.rows[0]["compute_s"] == row["compute_s"]
    path = tmp_path / "kernels.json"
    assert main([*asked, "--inside", "schedule", "--timeline", str(path)]) == 0
    assert json.loads(path.read_text())["otherData"]["shown"].startswith("kernels on units")
    capsys.readouterr()
    assert main([*asked, "--inside", "schedule", "--hosts", "2", "--network", "ethernet-400"]) == 2
    assert "schedules the operations of one host" in capsys.readouterr().err


def test_machines_show_prints_how_busy_units_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines", "show", "sharp", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["schedule"]
    assert [row["operation"] for row in rows[::2]] == ["rotate", "rotate_hoisted", "mult"]
    assert 0.9 < rows[0]["busy"]["transforms"] <= 1
    assert main(["machines", "show", "fab", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["schedule"] == []
    assert main(["machines", "show", "sharp", "--params", "ark"]) == 0
    assert "kernels are not scheduled: machine 'sharp' cannot run" in capsys.readouterr().out
