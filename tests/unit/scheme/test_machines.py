"""Machines and tiers: what they charge, and what their files may say."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.base.system.files import FileError, WouldOverwrite
from penstock.errors import MachineError, UnitError, UnknownName
from penstock.scheme.machines import (
    STUDY_TIERS,
    Evidence,
    Overlap,
    assumptions,
    load_machine,
    load_tier,
    machine_names,
    tier_names,
)
from penstock.scheme.machines.written import write_machine
from penstock.scheme.work.kernels import KernelWork

MACHINE = """
name = "mine"
title = "a machine of my own"
overlap = "pipelined"
overlap_source = "a test"

[clock]
value = "2 GHz"
source = "a test"
kind = "datasheet"

[units]
transforms = { value = "1024 points/cycle", source = "a test", kind = "datasheet" }
base_conversion = { value = "4096 MAC/cycle", source = "a test", kind = "datasheet" }
multiplications = { value = "1 Tmult/s", source = "a test", kind = "assumed" }

[utilisation]
value = "50 %"
source = "a test"
kind = "calibrated"
"""
TIER = """
name = "mine"
title = "a tier of my own"

[bandwidth]
value = "7 GB/s"
source = "a datasheet"
kind = "datasheet"

[latency]
value = "80 us"
source = "a datasheet"
kind = "measured"

[energy]
value = "10 pJ/b"
source = "a guess"
kind = "assumed"
"""
WORK = KernelWork(
    ring_dim=2**16,
    limb_transforms=100,
    bconv_macs=2**30,
    elementwise_mults=2**20,
    elementwise_adds=2**20,
    automorphism_coefficients=2**20,
    plaintext_limbs=10,
    key_bytes=8_000_000,
    ciphertext_read_bytes=2_000_000,
)


def written(folder: Path, text: str, *changes: tuple[str, str], name: str = "mine.toml") -> Path:
    """A file with `text`, each change made once."""
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = folder / name
    path.write_text(text)
    return path


# Prices.


def test_the_slowest_unit_of_a_pipelined_machine_binds(tmp_path):
    cost = load_machine(written(tmp_path, MACHINE)).price(WORK)
    # 2 GHz at 50 %: 64 cycles a transform, 2^18 cycles of base conversion.
    assert cost.per_unit["transforms"] == pytest.approx(100 * 64 / 1e9)
    assert cost.per_unit["base_conversion"] == pytest.approx(2**18 / 1e9)
    assert cost.per_unit["multiplications"] == pytest.approx(2**20 / 0.5e12)
    assert (cost.bound_by, cost.seconds) == ("base_conversion", cost.per_unit["base_conversion"])
    assert cost.joules is None


def test_kernels_of_a_machine_without_overlap_add_up(tmp_path):
    text = MACHINE.replace('overlap = "pipelined"', 'overlap = "in-turn"')
    cost = load_machine(written(tmp_path, text)).price(WORK)
    assert cost.seconds == pytest.approx(sum(cost.per_unit.values()))
    assert cost.bound_by == "base_conversion"


def test_each_operation_pays_the_overhead_once_and_power_for_its_time(tmp_path):
    text = MACHINE + (
        '[overhead]\nvalue = "5 us"\nsource = "a test"\nkind = "measured"\n'
        '[power]\nvalue = "100 W"\nsource = "a test"\nkind = "measured"\n'
    )
    machine = load_machine(written(tmp_path, text))
    empty = machine.price(KernelWork(ring_dim=2**16))
    assert (empty.seconds, empty.bound_by) == (pytest.approx(5e-6), "overhead")
    assert empty.joules == pytest.approx(5e-4)
    assert machine.price(WORK).seconds == pytest.approx(5e-6 + 2**18 / 1e9)


def test_plaintext_limbs_that_are_made_on_chip_cost_a_transform_each(tmp_path):
    text = MACHINE + '[plaintext_transforms]\nvalue = "1 transform/limb"\nsource = "a test"\nkind = "assumed"\n'
    bare, made = load_machine(written(tmp_path, MACHINE)), load_machine(written(tmp_path, text, name="other.toml"))
    assert made.price(WORK).per_unit["transforms"] == pytest.approx(1.1 * bare.price(WORK).per_unit["transforms"])


@pytest.mark.parametrize(
    ("rate", "each"),
    [
        ("1 Gpoints/s", 2**16 / 1e9),
        ("1 Gbutterflies/s", 2**15 * 16 / 1e9),
        ("1 Tproducts/s", 2 * 2**16 * 256 / 1e12),
        ("2 butterflies/cycle", 2**15 * 16 / 4e9),
    ],
)
def test_a_transform_is_counted_in_the_measure_of_the_rate(tmp_path, rate, each):
    machine = load_machine(written(tmp_path, MACHINE, ("1024 points/cycle", rate)))
    assert machine.price(WORK).per_unit["transforms"] == pytest.approx(100 * each / 0.5)


def test_a_memory_charges_every_byte_that_an_operation_reads_and_writes(tmp_path):
    text = MACHINE.replace("[units]", '[units]\nmemory = { value = "1 TB/s", source = "a test", kind = "datasheet" }')
    assert load_machine(written(tmp_path, text)).price(WORK).per_unit["memory"] == pytest.approx(10e6 / 0.5e12)


def test_sharp_takes_64_cycles_a_limb_transform_before_utilisation():
    sharp = load_machine("sharp")
    one = sharp.price(KernelWork(ring_dim=2**16, limb_transforms=1))
    assert sharp.utilisation is not None
    assert one.seconds * sharp.utilisation.value == pytest.approx(64e-9)
    assert sharp.on_chip_bytes == 198_000_000
    assert one.joules == pytest.approx(94.7 * one.seconds)


# Names, paths, quantities.


def test_the_catalogue_has_the_machines_and_the_tiers_of_the_study():
    assert {"sharp", "a100-tensorfhe"} <= set(machine_names())
    assert STUDY_TIERS == ("hbm", "ddr5", "pcie5", "rdma")
    assert set(STUDY_TIERS) < set(tier_names())
    assert [load_tier(name).bandwidth_bytes_per_s for name in STUDY_TIERS] == [1e12, 358.4e9, 64e9, 12.5e9]


@pytest.mark.parametrize(("ask", "wrong", "nearest"), [(load_machine, "shrap", "sharp"), (load_tier, "pcie", "pcie5")])
def test_an_unknown_name_suggests_the_nearest(ask, wrong, nearest):
    with pytest.raises(UnknownName) as caught:
        ask(wrong)
    assert caught.value.nearest == nearest
    assert caught.value.exit_code == 2


def test_this_cpu_is_in_run_folders_and_the_message_says_so():
    with pytest.raises(MachineError, match="penstock analyze"):
        load_machine("this-cpu")


@pytest.mark.parametrize("text", ["3.5 GB/s", " 3.5  GB/s", "28 Gb/s", ".5 GB/s"])
def test_a_bandwidth_is_a_tier_of_the_users_own(text):
    tier = load_tier(text)
    assert tier.bandwidth_bytes_per_s == (0.5e9 if text == ".5 GB/s" else 3.5e9)
    assert (tier.name, tier.kind, tier.latency_s, tier.energy_j_per_byte) == (
        " ".join(text.split()),
        Evidence.ASSUMED,
        0.0,
        None,
    )
    assert load_tier(tier.name) == tier


@pytest.mark.parametrize("text", ["7", "0 GB/s", "-1 GB/s", "7 GiB", "7 parsec/s"])
def test_a_bandwidth_that_cannot_be_read_is_refused(text):
    with pytest.raises(UnitError, match="bandwidth"):
        load_tier(text)


def test_a_tier_file_gives_bandwidth_latency_and_energy(tmp_path):
    tier = load_tier(written(tmp_path, TIER))
    assert (tier.bandwidth_bytes_per_s, tier.latency_s) == (7e9, pytest.approx(80e-6))
    assert tier.energy_j_per_byte == pytest.approx(80e-12)
    assert load_tier(str(tmp_path / "mine.toml")) == tier


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(FileError, match=r"nothing\.toml"):
        load_machine(tmp_path / "nothing.toml")


# Files that break a rule: file and field are named.


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"2 GHz"', '"2"', r"clock '2' has no unit"),
        ('"2 GHz"', '"-2 GHz"', r"clock '-2 GHz' is negative"),
        ('"2 GHz"', '"0 GHz"', r"clock '0 GHz' is zero"),
        ('"2 GHz"', "2", r"'clock\.value' is 2: .*string with its unit"),
        ('"1024 points/cycle"', '"1024 points"', r"units\.transforms '1024 points': unknown unit 'points'"),
        ('"1024 points/cycle"', '"0 points/cycle"', r"units\.transforms '0 points/cycle' is zero"),
        ('"50 %"', '"120 %"', r"utilisation 120 % is over 100 %"),
        ('"50 %"', '"0.5"', r"utilisation '0\.5' has no unit"),
        ('kind = "calibrated"', 'kind = "calibratd"', r"unknown kind 'calibratd': did you mean 'calibrated'\?"),
        ('overlap = "pipelined"', 'overlap = "pipelind"', r"unknown overlap 'pipelind': did you mean 'pipelined'\?"),
        ('overlap_source = "a test"', 'overlap_source = " "', r"overlap_source is empty"),
        ("[clock]", "[clok]", r"unknown key 'clok': did you mean 'clock'\?"),
        ("multiplications =", "multiplication =", r"unknown key 'units\.multiplication': did you mean 'multip"),
        (
            'value = "2 GHz"\nsource = "a test"',
            'value = "2 GHz"\nsource = ""',
            r"clock has no source",
        ),
        (
            'value = "2 GHz"\nsource = "a test"',
            'value = "2 GHz"\nsorce = "a test"',
            r"unknown key 'clock\.sorce': did you mean 'source'\?|'clock\.source' is missing",
        ),
        ('value = "2 GHz"\nsource = "a test"', 'value = "2 GHz"', r"'clock\.source' is missing"),
        ('name = "mine"', 'name = ""', r"name is empty"),
        ('name = "mine"', 'name = "two\\nlines"', r"name 'two\\nlines' has a line break"),
        ('name = "mine"', "", r"'name' is missing"),
        ('[units]\ntransforms = { value = "1024 points/cycle", source = "a test", kind = "datasheet" }\n', "[units]\n",
         r"'units\.transforms' is missing"),
        ('multiplications = { value = "1 Tmult/s", source = "a test", kind = "assumed" }',
         'multiplications = "1 Tmult/s"', r"'units\.multiplications' is '1 Tmult/s'; write a table"),
    ],
)  # fmt: skip
def test_a_machine_file_that_breaks_a_rule_is_refused_with_file_and_field(tmp_path, old, new, message):
    path = written(tmp_path, MACHINE, (old, new))
    with pytest.raises(MachineError, match=message) as caught:
        load_machine(path)
    assert str(path) in str(caught.value)


def test_a_rate_a_cycle_needs_a_clock(tmp_path):
    text = MACHINE.replace('[clock]\nvalue = "2 GHz"\nsource = "a test"\nkind = "datasheet"\n', "")
    with pytest.raises(MachineError, match="there is no clock"):
        load_machine(written(tmp_path, text))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"7 GB/s"', '"0 GB/s"', "bandwidth '0 GB/s' is zero"),
        ('"7 GB/s"', '"7 GB"', "unknown unit 'GB'"),
        ('"80 us"', '"-80 us"', "latency '-80 us' is negative"),
        ('[latency]', '[delay]', "unknown key 'delay'"),
    ],
)  # fmt: skip
def test_a_tier_file_that_breaks_a_rule_is_refused(tmp_path, old, new, message):
    with pytest.raises(MachineError, match=message):
        load_tier(written(tmp_path, TIER, (old, new)))


@pytest.mark.parametrize("content", [b"name = ", b"\xff\xfe\x00"])
def test_a_file_that_is_no_toml_is_refused_as_such(tmp_path, content):
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    with pytest.raises(MachineError, match="is TOML, and this is not"):
        load_machine(path)


# Writing.


def test_a_machine_file_is_written_once_and_again_only_by_force(tmp_path):
    machine, path = load_machine(written(tmp_path, MACHINE)), tmp_path / "copy.toml"
    write_machine(machine, path)
    assert load_machine(path) == machine
    with pytest.raises(WouldOverwrite):
        write_machine(machine, path)
    write_machine(machine, path, force=True)


def test_odd_characters_survive_the_file(tmp_path):
    machine = replace(load_machine(written(tmp_path, MACHINE)), title='ein "großer"\tRechner \\ 計算機')
    write_machine(machine, tmp_path / "odd.toml")
    assert load_machine(tmp_path / "odd.toml") == machine


def test_assumptions_list_what_is_neither_measured_nor_from_a_datasheet(tmp_path):
    found = [a for a in assumptions(load_machine(written(tmp_path, MACHINE))) if a["kind"] != "missing"]
    assert [(a["field"], a["value"], a["kind"]) for a in found] == [
        ("units.multiplications", "1 Tmult/s", "assumed"),
        ("utilisation", "50 %", "calibrated"),
    ]
    assert all(a["machine"] == "mine" and a["source"] == "a test" for a in found)


def test_a_machine_is_frozen_and_knows_its_overlap(tmp_path):
    machine = load_machine(written(tmp_path, MACHINE))
    assert machine.overlap is Overlap.PIPELINED
    assert machine.on_chip_bytes == 0
    assert math.isclose(machine.units["multiplications"].figure.value, 1e12)
    with pytest.raises(AttributeError):
        machine.name = "other"  # type: ignore[misc]
