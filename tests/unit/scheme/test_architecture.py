"""What a machine is made of: files, what they may not say, and which parameter sets a machine can hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import MachineError
from penstock.program.running import trace_workload
from penstock.scheme.machines import load_machine, load_tier
from penstock.scheme.machines.architecture import Architecture
from penstock.scheme.machines.written import machine_toml, write_machine
from penstock.scheme.params import catalogue
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.play.price import price_trace
from support.toy import toy

MACHINE = """
name = "mine"
title = "a machine of my own"
disputed = ["area: one page says 90 mm2"]
overlap = "pipelined"
overlap_source = "a test"

[units.transforms]
value = "1 Gpoints/s"
source = "a test"
kind = "datasheet"

[utilisation]
value = "100 %"
source = "a test"
kind = "datasheet"

[on_chip.buffer]
value = "512 MB"
source = "a test"
kind = "datasheet"

[power]
value = "90 W"
source = "a test"
kind = "datasheet"

[architecture]
word = { value = "36 bit", source = "a test", kind = "datasheet" }
ring_dim = { value = "65536 points", source = "a test", kind = "datasheet" }
clusters = { value = "4 clusters", source = "a test", kind = "datasheet" }
lanes = { value = "256 lanes", source = "a test", kind = "datasheet" }
off_chip = { value = "1 TB/s", source = "a test", kind = "assumed" }
area = { value = "100 mm2", source = "a test", kind = "datasheet" }
technology = { value = "7 nm", source = "a test", kind = "datasheet" }
"""
TIER = """
name = "mine"
title = "a tier of my own"
[bandwidth]
value = "7 GB/s"
source = "a datasheet"
kind = "datasheet"
"""


def written(folder: Path, text: str, old: str = "", new: str = "") -> Path:
    assert text.count(old) == 1 or not old, old
    path = folder / "mine.toml"
    path.write_text(text.replace(old, new) if old else text)
    return path


def test_every_value_is_read_in_base_units_and_written_back(tmp_path):
    machine = load_machine(written(tmp_path, MACHINE))
    made = machine.architecture
    assert [figure.value for _, figure in made.figures()] == [36, 65536, 4, 256, 1e12, 100, 7]
    assert machine.disputed == ("area: one page says 90 mm2",)
    write_machine(machine, tmp_path / "again.toml")
    assert load_machine(tmp_path / "again.toml") == machine


def test_a_machine_without_an_architecture_holds_everything(tmp_path):
    machine = load_machine(written(tmp_path, MACHINE[: MACHINE.index("[architecture]")]))
    assert machine.architecture == Architecture()
    assert machine.warnings(catalogue.get("openfhe-demo")) == ()
    assert "architecture" not in machine_toml(machine)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "mine"\n', "", r"'name' is missing; write a text: name = "),
        ('name = "mine"\n', 'name = "mine"\nnative_params = "shrp"\n',
         r"native_params: unknown parameter set 'shrp': did you mean 'sharp'"),
        ('"36 bit"', '"36"', r"architecture\.word '36' has no unit"),
        ('"36 bit"', '"-36 bit"', r"architecture\.word '-36 bit' is negative"),
        ('"36 bit"', '"36.5 bit"', r"architecture\.word '36\.5 bit' is not a whole number"),
        ('"36 bit"', "36", r"'architecture\.word\.value' is 36: .*string with its unit"),
        ('"65536 points"', '"2^16 points"', r"architecture\.ring_dim '2\^16 points': unknown unit"),
        ('"4 clusters"', '"0 clusters"', r"architecture\.clusters '0 clusters' is zero"),
        ('"256 lanes"', '"256 PEs"', r"architecture\.lanes '256 PEs': unknown unit 'PEs'; known: lanes"),
        ('"1 TB/s"', '"1 TB"', r"architecture\.off_chip '1 TB': unknown unit 'TB'"),
        ('"1 TB/s"', '"1 TB/s (931 GiB/s)"', r"architecture\.off_chip .*decimal and binary units"),
        ('"100 mm2"', '"100 mm"', r"architecture\.area '100 mm': unknown unit 'mm'"),
        ('"100 mm2"', '"-1 mm2"', r"architecture\.area '-1 mm2' is negative"),
        ('"7 nm"', '"N7"', r"architecture\.technology 'N7' is not a number with a unit"),
        ("technology =", "tecnology =", r"unknown key 'architecture\.tecnology': did you mean 'technology'\?"),
        ('"100 mm2", source = "a test"', '"100 mm2"', r"'architecture\.area\.source' is missing"),
        ('value = "512 MB"', 'value = "512 MB (488 MiB)"', r"on_chip\.buffer .*decimal and binary units"),
        ('value = "512 MB"', 'value = "512"', r"on_chip\.buffer '512' has no unit"),
        ('value = "512 MB"', 'value = "512 MiB/s"', r"on_chip\.buffer '512 MiB/s': unknown unit"),
        ('value = "90 W"', 'value = "-90 W"', r"power '-90 W' is negative"),
        ('value = "90 W"', 'value = "90 watts"', r"power '90 watts': unknown unit 'watts'"),
        ('value = "90 W"', 'value = "inf W"', r"power 'inf W' is not a number"),
        ('disputed = ["area: one page says 90 mm2"]', 'disputed = "area"', r"'disputed' is 'area'"),
        ('disputed = ["area: one page says 90 mm2"]', "dispute = []", r"unknown key 'dispute': did you mean 'disputed"),
    ],
)  # fmt: skip
def test_a_file_that_breaks_a_rule_is_refused_with_file_and_field(tmp_path, old, new, message):
    path = written(tmp_path, MACHINE, old, new)
    with pytest.raises(MachineError, match=message) as caught:
        load_machine(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ('"7 GB/s (6.5 GiB/s)"', "decimal and binary units"),
        ('"7"', "has no unit"),
        ('"-7 GB/s"', "is negative"),
        ('"7 GBps"', "unknown unit 'GBps'"),
        ('"fast"', "is not a number with a unit"),
    ],
)
def test_a_tier_s_bandwidth_has_one_unit_that_is_known(tmp_path, new, message):
    with pytest.raises(MachineError, match=message):
        load_tier(written(tmp_path, TIER, '"7 GB/s"', new))


def test_a_tier_without_a_bandwidth_is_refused(tmp_path):
    with pytest.raises(MachineError, match="'bandwidth' is missing"):
        load_tier(written(tmp_path, TIER[: TIER.index("[bandwidth]")]))


def test_what_counts_is_the_widest_prime_not_the_stored_word(tmp_path):
    machine = load_machine(written(tmp_path, MACHINE))
    stored_in_64 = toy(q_bits=(36,) * 4, p_bits=(36,) * 2, dnum=2, word_bits=64)
    assert machine.warnings(stored_in_64) == ()
    (text,) = machine.warnings(toy(q_bits=(36,) * 4, p_bits=(37,) * 2, dnum=2))
    assert "primes of up to 37 bits, and its units take 36" in text
    assert "penstock machines show" in text


@pytest.mark.parametrize(
    ("machine", "fits", "does_not"),
    [
        ("sharp", "sharp", "ark"),
        ("craterlake", "craterlake", "sharp"),
        ("fab", "fab", "bts-ins2"),
        ("heap", "heap", "sharp"),
        ("a100-cheddar", "cheddar-30", "sharp"),
    ],
)
def test_accelerators_hold_their_own_set_and_not_a_wider_or_larger_one(machine, fits, does_not):
    made = load_machine(machine).architecture
    assert made.misfit(machine, catalogue.get(fits)) is None
    assert made.misfit(machine, catalogue.get(does_not)) is not None


def test_bts_holds_every_accelerator_s_set():
    sets = [catalogue.get(name) for name in catalogue.names()]
    made = load_machine("bts").architecture
    assert all(made.misfit("bts", each) is None for each in sets if each.library == "accelerator")


def test_f1_plus_reads_both_halves_of_craterlake_s_keys():
    own, theirs = catalogue.get(load_machine("f1-plus").native_params), catalogue.get("craterlake")
    assert own.key_form is KeyForm.FULL
    assert own.key_bytes() == 2 * theirs.key_bytes()
    for name in ("ring_dim", "slots", "q_bits", "p_bits", "dnum", "word_bits", "bootstrap", "security_bits"):
        assert getattr(own, name) == getattr(theirs, name), name


def test_trinity_computes_as_sharp_does():
    trinity, sharp = load_machine("trinity"), load_machine("sharp")
    trace = trace_workload("bootstrapping", "sharp")
    assert price_trace(trace, trinity).ideal_s == price_trace(trace, sharp).ideal_s == pytest.approx(3.12e-3, rel=1e-3)
    assert trinity.extends_plaintexts


@pytest.mark.parametrize(
    ("name", "memory", "reading_s", "loading_s", "compute_s"),
    [("a100-tensorfhe", "hbm2", 0.58, 0.40, 8.00), ("a100-cheddar", "hbm2", 0.14, 0.10, 1.45)],
)
def test_keys_on_a_gpu_count_twice_by_what_the_documentation_says(name, memory, reading_s, loading_s, compute_s):
    machine, tier = load_machine(name), load_tier(memory)
    assert machine.architecture.off_chip.value == tier.bandwidth_bytes_per_s
    priced = price_trace(trace_workload("logistic-regression", machine.native_params, "helr"), machine)
    keys = priced.bytes_by_class["key"]
    assert keys / tier.bandwidth_bytes_per_s == pytest.approx(loading_s, abs=0.005)
    assert keys / (tier.bandwidth_bytes_per_s * machine.utilisation.value) == pytest.approx(reading_s, abs=0.005)
    assert priced.ideal_s == pytest.approx(compute_s, abs=0.005)


@pytest.mark.parametrize("name", ["a100-tensorfhe", "a100-cheddar", "h100-cheddar"])
def test_a_gpu_s_roofline_is_that_of_its_architecture(name):
    machine = load_machine(name)
    roof, made = machine.gpu.roofline, machine.architecture
    assert roof.memory.value == made.off_chip.value
    assert roof.multiprocessors.value == made.clusters.value
    assert roof.integers.value == 64 * machine.clock.value
