"""Readers of perf and valgrind output, on recorded outputs and on documented formats (tests/data/perf/README.md)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from penstock.lab.measure import callgrind
from penstock.lab.measure.energy import CpuPackage, EnergyMeter, energy_rows, packages, used_uj
from penstock.lab.measure.events import (
    DEFAULT_EVENTS,
    TABLE_4,
    EventRow,
    Processor,
    Unavailable,
    canonical,
    derived_rows,
    group,
    nearest,
    parse_events,
)
from penstock.lab.measure.perf import Counters, Perf, explain_failure
from penstock.lab.measure.perf_script import parse_script
from penstock.lab.measure.perf_stat import number, parse_stat, to_rows

DATA = Path(__file__).parents[2] / "data" / "perf"
HARDWARE = [name for category in ("core", "cache", "tlb") for name in TABLE_4[category]]

AMD_HARDWARE = Processor(vendor="AMD", has_counters=True, hypervisor=False)
INTEL_HARDWARE = Processor(vendor="Intel", has_counters=True, hypervisor=False)
VIRTUAL = Processor(vendor="AMD", has_counters=False, hypervisor=True)


def read(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def rows(name: str, events: list[str], processor: Processor) -> dict[str, EventRow]:
    return {row.event: row for row in to_rows(events, parse_stat(read(name)), processor)}


# perf stat.


def test_on_a_virtual_machine_hardware_events_are_unavailable_and_software_events_count() -> None:
    found = rows("stat-amd-vm.csv", [*HARDWARE, "page-faults", "task-clock", "context-switches"], VIRTUAL)
    for event in HARDWARE:
        assert (found[event].status, found[event].value) == ("unavailable", None)
        assert "virtual machine shows no hardware counters" in found[event].reason
        assert "--callgrind" in found[event].remedy
    assert found["page-faults"].value == 8538
    assert found["task-clock"].value == pytest.approx(0.09819)
    assert found["task-clock"].unit == "s"
    assert found["context-switches"].status == "ok"


def test_events_that_shared_counters_are_marked_scaled_with_their_share() -> None:
    found = rows("stat-amd-zen4.csv", [*HARDWARE, "page-faults", "task-clock"], AMD_HARDWARE)
    assert found["instructions"].value == 41839216743
    for event in HARDWARE:
        assert found[event].status == "scaled"
        assert found[event].running_share == pytest.approx(0.666, abs=1e-3)
        assert "--exact" in found[event].remedy
    assert found["page-faults"].status == "ok"
    assert found["page-faults"].running_share == 1.0


def test_zen_has_no_last_level_cache_event_and_the_row_says_what_to_take_instead() -> None:
    row = rows("stat-amd-zen4.csv", ["LLC-loads"], AMD_HARDWARE)["LLC-loads"]
    assert row.status == "unavailable"
    assert "amd_l3" in row.reason
    assert "cache-references" in row.remedy


def test_the_same_name_says_what_it_counts_on_each_vendor() -> None:
    amd = rows("stat-amd-zen4.csv", ["cache-references"], AMD_HARDWARE)["cache-references"]
    assert "second-level" in amd.note
    assert "last-level" in INTEL_HARDWARE.meaning("cache-references")


def test_both_kinds_of_cores_of_a_hybrid_processor_are_added_without_perf_s_extrapolation() -> None:
    found = rows(
        "stat-intel-raptor-lake.csv", ["instructions", "cpu-cycles", "L1-dcache-loads", "page-faults"], INTEL_HARDWARE
    )
    # perf extrapolated 24e9 at 80 % to 30e9, and 4e9 at 20 % to 20e9.
    assert found["instructions"].value == 28_000_000_000
    assert found["cpu-cycles"].value == 12_800_000_000
    assert found["instructions"].status == "ok"
    assert "both kinds of cores" in found["instructions"].note
    assert found["L1-dcache-loads"].status == "scaled", "only one kind of core has it, and ran 80 % of the time"


def test_user_mode_counts_say_so_and_kernel_events_are_not_given_as_zero() -> None:
    found = rows("stat-amd-vm-user.csv", ["task-clock", "context-switches", "page-faults"], VIRTUAL)
    assert found["page-faults"].value == 55
    assert "user mode only" in found["page-faults"].note
    assert found["context-switches"].value is None
    assert "perf_event_paranoid" in found["context-switches"].remedy


def test_an_event_that_found_no_counter_is_unavailable_not_zero() -> None:
    found = rows("stat-intel-skylake.csv", ["cache-misses", "L1-icache-loads", "instructions"], INTEL_HARDWARE)
    assert found["cache-misses"].value is None
    assert "no counter was free" in found["cache-misses"].reason
    assert "misses of the instruction cache only" in found["L1-icache-loads"].reason
    assert found["instructions"].value == 9812345678


def test_a_raw_event_with_a_comma_in_its_name_is_read_with_either_separator() -> None:
    text = read("stat-intel-skylake.csv")
    raw = "cpu/event=0x3c,umask=0x1/u"
    for separator, lines in ((";", text), (",", text.replace(";", ","))):
        found = {r.event: r for r in parse_stat(lines, separator)}
        assert found[raw].value == 512345
        assert found[raw].running_share == 0.5
        assert found["power/energy-pkg/"].unit == "J"
        assert found["power/energy-pkg/"].value == 12.34


def test_the_variance_of_repeated_runs_is_passed_over() -> None:
    found = {r.event: r for r in parse_stat(read("stat-repeat.csv"))}
    assert found["instructions"].value == 1002345
    assert found["instructions"].running_share == 1.0
    assert found["task-clock"].value == pytest.approx(812e-6)


def test_a_locale_with_a_decimal_comma_is_read_right() -> None:
    found = {r.event: r for r in parse_stat(read("stat-decimal-comma.csv"))}
    assert found["task-clock"].value == pytest.approx(0.40243)
    assert found["instructions"].running_share == 0.75
    assert number("0,5") == 0.5


def test_a_decimal_comma_between_commas_is_refused_instead_of_read_wrong() -> None:
    (reading,) = parse_stat("0,78,msec,task-clock,778284,100,00,0,008,CPUs utilized", ",")
    assert (reading.event, reading.value, reading.state) == ("task-clock", None, "unreadable")
    (row,) = to_rows(["task-clock"], [reading], VIRTUAL)
    assert row.status == "unavailable"
    assert "decimal comma" in row.reason


def test_a_group_with_an_unsupported_member_counts_nothing_of_it() -> None:
    found = {r.event: r.state for r in parse_stat(read("stat-amd-vm-comma.csv"), ",")}
    assert found == {"task-clock": "not-counted", "instructions": "not-supported", "page-faults": "counted"}


def test_messages_and_metric_lines_between_the_events_are_passed_over() -> None:
    text = "Events enabled\n5;;cs;9;100.00;;\n;;;;;0.63;stalled cycles per insn\nnonsense;;;;\n\n# comment\n"
    assert [r.event for r in parse_stat(text)] == ["cs"]


def test_an_event_asked_for_twice_is_not_added_up() -> None:
    line = "100;;instructions:u;9;100.00;;\n"
    (row,) = to_rows(["instructions"], parse_stat(line * 2), INTEL_HARDWARE)
    assert row.value == 100


# Names, groups and ratios.


def test_the_default_events_hold_all_of_table_4() -> None:
    assert set(HARDWARE) | {"page-faults", "minor-faults"} <= set(DEFAULT_EVENTS)


def test_groups_hold_four_hardware_events_of_one_category_and_software_events_alone() -> None:
    groups = group(DEFAULT_EVENTS)
    assert groups[0] == list(TABLE_4["core"])
    assert groups[1] == list(TABLE_4["cache"])
    assert groups[2] == list(TABLE_4["tlb"])
    assert all(len(g) == 1 for g in groups[3:])
    assert sorted(e for g in groups for e in g) == sorted(DEFAULT_EVENTS)
    assert [len(g) for g in group([f"r{i:04x}" for i in range(6)])] == [4, 2]


@pytest.mark.parametrize(
    ("given", "close"), [("instrucions", "instructions"), ("L1-dcache-lods", "L1-dcache-loads"), ("qqqq", None)]
)
def test_an_unknown_event_gets_the_nearest_name(given: str, close: str | None) -> None:
    assert nearest(given) == close


def test_events_are_split_at_commas_outside_of_slashes() -> None:
    assert parse_events("a,cpu/event=1,umask=2/u, b,,a") == ["a", "cpu/event=1,umask=2/u", "b"]
    assert canonical("BRANCH-INSTRUCTIONS:u") == "branches"


def test_a_ratio_is_unavailable_where_a_term_is_and_scaled_where_a_term_is() -> None:
    def row(event: str, value: int | None, status: str) -> EventRow:
        return EventRow(event=event, value=value, unit="1", status=status)

    (ipc,) = derived_rows([row("instructions", 30, "scaled"), row("cycles", 10, "ok")], None)
    assert (ipc.event, ipc.value, ipc.status) == ("instructions-per-cycle", 3.0, "scaled")
    (ipc,) = derived_rows([row("instructions", None, "unavailable"), row("cycles", 10, "ok")], None)
    assert (ipc.value, ipc.status) == (None, "unavailable")
    (ipc,) = derived_rows([row("instructions", 1, "ok"), row("cycles", 0, "ok")], None)
    assert ipc.value is None


# The processor.


def test_vendor_and_virtual_machine_are_read_from_cpuinfo(tmp_path: Path) -> None:
    (tmp_path / "software").mkdir()
    text = "processor: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu vme hypervisor lahf_lm\n"
    found = Processor.here(text, tmp_path)
    assert (found.vendor, found.has_counters, found.hypervisor) == ("AMD", False, True)
    (tmp_path / "cpu_core").mkdir()
    hybrid = Processor.here("vendor_id : GenuineIntel\nflags : fpu\n", tmp_path)
    assert (hybrid.vendor, hybrid.has_counters, hybrid.hypervisor) == ("Intel", True, False)


def test_each_vendor_has_its_own_names_to_fall_back_on() -> None:
    assert AMD_HARDWARE.fallbacks("L1-dcache-loads") == ("ls_dispatch.ld_dispatch",)
    assert INTEL_HARDWARE.fallbacks("L1-dcache-loads") == ("mem_inst_retired.all_loads",)
    assert VIRTUAL.fallbacks("page-faults") == ()


# perf that fails.


@pytest.mark.parametrize(
    ("name", "reason", "remedy"),
    [
        ("stderr-forbidden.txt", "may not count events", "sysctl -w kernel.perf_event_paranoid=1"),
        ("stderr-unknown-event.txt", "knows no event 'instrucions'", "did you mean 'instructions'?"),
        ("stderr-unknown-pmu.txt", "knows no event", "perf list"),
        ("stderr-no-kernel-tools.txt", "wrapper", "apt install linux-tools-$(uname -r)"),
    ],
)
def test_what_perf_says_becomes_a_reason_and_a_remedy(name: str, reason: str, remedy: str) -> None:
    event = "power/energy-pkg/" if "pmu" in name else "instrucions"
    why = explain_failure(255, read(name), event)
    assert reason in why.reason
    assert remedy in why.remedy


def fake_perf(folder: Path, script: str) -> str:
    path = folder / "perf"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_without_perf_every_event_is_unavailable_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with Counters(["instructions", "page-faults"], perf=Perf(INTEL_HARDWARE)) as counters:
        counters.on()
        counters.off()
    assert [(r.status, r.value) for r in counters.rows()] == [("unavailable", None)] * 2
    assert "apt install linux-perf" in counters.rows()[0].remedy


def test_a_forbidden_perf_makes_rows_not_errors(tmp_path: Path) -> None:
    binary = fake_perf(tmp_path, f"cat {DATA / 'stderr-forbidden.txt'} >&2; exit 255")
    with Counters(["instructions"], perf=Perf(AMD_HARDWARE, binary)) as counters:
        counters.on()
        counters.off()
    (row,) = counters.rows()
    assert row.value is None
    assert "perf_event_paranoid" in row.remedy


def test_one_unknown_event_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    script = """case "$*" in
      *bogus*) echo "event syntax error: 'bogus'" >&2; exit 129;;
      *) echo "7;;instructions;9;100.00;;" >&2; echo "1.0;msec;task-clock;9;100.00;;" >&2;;
    esac"""
    chosen = Perf(AMD_HARDWARE, fake_perf(tmp_path, script)).choose(["instructions", "bogus", "task-clock"])
    assert chosen.names == ["instructions", "task-clock"]
    assert "bogus" in chosen.missing["bogus"].reason


def test_a_vendor_s_own_name_stands_in_for_a_missing_general_one(tmp_path: Path) -> None:
    script = """case "$*" in
      *ls_dispatch*) echo "5;;ls_dispatch.ld_dispatch;9;100.00;;" >&2;;
      *task-clock*) echo "1.0;msec;task-clock;9;100.00;;" >&2;;
      *) echo "<not supported>;;L1-dcache-loads;0;100.00;;" >&2;;
    esac"""
    chosen = Perf(AMD_HARDWARE, fake_perf(tmp_path, script)).choose(["L1-dcache-loads"])
    assert chosen.counted_as == {"L1-dcache-loads": "ls_dispatch.ld_dispatch"}
    (row,) = to_rows(
        chosen.asked, parse_stat("5;;ls_dispatch.ld_dispatch;9;100.00;;"), AMD_HARDWARE, {}, chosen.counted_as
    )
    assert (row.event, row.value, row.counted_as) == ("L1-dcache-loads", 5, "ls_dispatch.ld_dispatch")


def test_a_perf_that_dies_when_attaching_gives_its_reason(tmp_path: Path) -> None:
    script = """case "$*" in
      *--control*) echo "Error: unknown option \\`control'" >&2; exit 129;;
      *) echo "1.0;msec;task-clock;9;100.00;;" >&2;;
    esac"""
    with Counters(["task-clock"], perf=Perf(VIRTUAL, fake_perf(tmp_path, script))) as counters:
        counters.on()
        counters.off()
    assert "older than 5.10" in counters.rows()[0].reason


def test_counters_count_this_process_only_while_they_are_on() -> None:
    perf = Perf()
    if perf.missing() is not None:
        pytest.skip(f"perf does not work here: {perf.missing()}")
    events = ["task-clock", "no-such-event"]

    def spin() -> None:
        start = os.times().user
        while os.times().user - start < 0.2:
            sum(range(1000))

    with Counters(events, perf=perf) as counters:
        spin()
        counters.on()
        spin()
        counters.off()
        spin()
    clock, unknown = counters.rows()
    assert clock.value is not None
    assert 0.15 < clock.value < 0.35, "0.2 s were counted, 0.4 s were not"
    assert unknown.value is None
    assert "no-such-event" in unknown.reason


# perf script.


def test_samples_of_an_encrypted_run_name_the_library_s_functions() -> None:
    samples = list(parse_script(read("script-openfhe-dwarf.txt").splitlines(keepends=True)))
    assert len(samples) == 3
    assert len({s.thread for s in samples}) == 2
    for sample in samples:
        assert sample.weight_s == pytest.approx(1 / 199, rel=1e-3)
        assert sample.time_s > 5000
    main = samples[0]
    assert main.stack[0].name == "_start"
    assert any(f.name == "lbcrypto::KeySwitchHYBRID::EvalKeySwitchPrecomputeCore" for f in main.stack)
    assert main.stack[-1].name.startswith("std::vector<unsigned long")


def test_names_with_spaces_and_brackets_offsets_and_deleted_files_are_read() -> None:
    first, second = parse_script(read("script-documented.txt").splitlines(), period_s=0.01)
    assert (first.command, first.thread) == ("OMP worker 1", 4250)
    assert first.weight_s == 0.01, "a cycle count is no time"
    assert [f.name for f in first.stack] == [
        "[unknown]",
        "operator new[](unsigned long)",
        "(anonymous namespace)::kernel(double*)",
    ]
    assert first.stack[-1].module == "/opt/my app (x86)/libfast.so"
    assert second.weight_s == pytest.approx(0.01010101)
    assert second.stack[-1].module == "[kernel.kallsyms]"


def test_lines_that_are_no_sample_give_none() -> None:
    assert list(parse_script(["", "# comment", "\t 123 orphan (lib)", "garbage line"])) == []


# Energy.


def zone(root: Path, name: str, label: str, value: str = "1000", turn: str = "5000") -> Path:
    folder = root / name
    folder.mkdir()
    (folder / "name").write_text(label + "\n")
    (folder / "energy_uj").write_text(value + "\n")
    (folder / "max_energy_range_uj").write_text(turn + "\n")
    return folder


def test_only_packages_are_counted_not_their_parts_nor_the_platform(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0")
    zone(tmp_path, "intel-rapl:0:0", "core")
    zone(tmp_path, "intel-rapl:1", "package-1")
    zone(tmp_path, "intel-rapl:2", "psys")
    zone(tmp_path, "intel-rapl-mmio:0", "package-0")
    found = packages(tmp_path)
    assert isinstance(found, list)
    assert [p.name for p in found] == ["package-0", "package-1"]


def test_a_counter_that_started_again_is_added_up_right(tmp_path: Path) -> None:
    folder = zone(tmp_path, "intel-rapl:0", "package-0", value="4900", turn="5000")
    meter = EnergyMeter([CpuPackage("package-0", folder / "energy_uj", 5000)])
    meter.on()
    (folder / "energy_uj").write_text("300")
    meter.off()
    (folder / "energy_uj").write_text("900")  # not counted: it is off
    meter.on()
    (folder / "energy_uj").write_text("1000")
    meter.off()
    assert meter.joules == pytest.approx(500e-6)
    assert used_uj(5, 5, 100) == 0


def test_without_rapl_energy_is_unavailable_with_a_reason(tmp_path: Path) -> None:
    why = packages(tmp_path)
    assert isinstance(why, Unavailable)
    rows = energy_rows(why, 1.0, None, idle_asked=True)
    assert [(r.event, r.value, r.status) for r in rows] == [
        ("energy-pkg", None, "unavailable"),
        ("power-pkg", None, "unavailable"),
        ("idle-power-pkg", None, "unavailable"),
    ]


def test_idle_power_is_given_apart_and_taken_off_in_a_row_of_its_own() -> None:
    rows = {r.event: r.value for r in energy_rows(100.0, 2.0, 20.0, idle_asked=True)}
    assert rows == {"energy-pkg": 100.0, "power-pkg": 50.0, "idle-power-pkg": 20.0, "energy-pkg-above-idle": 60.0}


# Callgrind.

CALLGRIND = """# callgrind format
version: 1
creator: callgrind-3.19.0
positions: line
events: Ir

ob=(1) /opt/libOPENFHEcore.so.1
fl=(1) ???
fn=(1) lbcrypto::DCRTPolyImpl<bigintdyn::ubint<unsigned long> >::SwitchFormat()
0 100
+3 20
cob=(2) /opt/libm.so.6
cfn=(2) 0x0000000000002450
calls=3 0
0 900

fn=(3) lbcrypto::f(int)'2
0 5

ob=(2)
fn=(2)
0 900
* 7

totals: 1032
"""


def test_callgrind_costs_are_added_by_function_without_those_of_the_functions_called() -> None:
    counts = callgrind.parse_callgrind(CALLGRIND.splitlines())
    assert counts.instructions == 1032
    assert [(f.function, f.module, f.instructions) for f in counts.functions] == [
        ("[unknown]", "libm.so.6", 907),
        ("DCRTPoly::SwitchFormat", "libOPENFHEcore.so.1", 120),
        ("f", "libOPENFHEcore.so.1", 5),
    ]


@pytest.mark.parametrize("text", ["", "hello\n", "events: Dr\nfn=(1) f\n0 3\n"])
def test_a_file_that_counts_no_instructions_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"names no events|counts no instructions"):
        callgrind.parse_callgrind(text.splitlines())


def test_an_illegal_instruction_under_valgrind_is_explained() -> None:
    assert "AVX-512" in callgrind.explain_end(-4, "").reason
    assert "AVX-512" in callgrind.explain_end(1, "vex amd64->IR: unhandled\n==1== Unrecognised instruction").reason
    assert "memory" in callgrind.explain_end(-9, "").reason
    assert "status 3: boom" in callgrind.explain_end(3, "boom\n").reason
