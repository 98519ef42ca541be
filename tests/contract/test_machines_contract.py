"""What every machine and tier of the catalogue promises. A new file under `data/` joins by itself."""

from __future__ import annotations

import itertools
import math
import re

import pytest

from penstock.scheme.machines import Evidence, load_machine, load_tier, machine_names, tier_names
from penstock.scheme.machines.catalogue import read_machine
from penstock.scheme.machines.written import write_machine
from penstock.scheme.operations import SMALL_KINDS, TRAITS, OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.work.kernels import KernelWork, kernel_work
from support.toy import toy

SHARP = toy(ring_dim=2**16, slots=2**15, q_bits=(36,) * 35, p_bits=(36,) * 12, dnum=3, word_bits=36)
MANY_DIGITS = toy(ring_dim=2**16, slots=2**15, q_bits=(28,) * 30, p_bits=(28,), dnum=30, word_bits=32)
PRIMITIVES = [kind for kind in OpKind if not TRAITS[kind].composite and kind not in SMALL_KINDS]
FREE = {OpKind.MOD_DROP}

machines = pytest.mark.parametrize("name", machine_names())
tiers = pytest.mark.parametrize("name", tier_names())
kinds = pytest.mark.parametrize("kind", PRIMITIVES)


@machines
@kinds
def test_every_operation_has_a_finite_price_above_zero(name, kind):
    cost = load_machine(name).price(kernel_work(kind, SHARP, 20, limbs_out=19 if kind is OpKind.MOD_DROP else None))
    assert math.isfinite(cost.seconds)
    assert cost.seconds > 0 or kind in FREE
    assert cost.bound_by in {*cost.per_unit, "overhead"}
    assert all(seconds >= 0 for seconds in cost.per_unit.values())


@machines
@kinds
@pytest.mark.parametrize("params", [SHARP, MANY_DIGITS], ids=["3-digits", "30-digits"])
def test_more_limbs_never_cost_less(name, kind, params):
    machine = load_machine(name)
    first = 2 if kind is OpKind.RESCALE else 1
    limbs = range(first, params.num_q + 1)
    prices = [machine.price(kernel_work(kind, params, n)).seconds for n in limbs]
    if kind is OpKind.MOD_RAISE:  # the fewer limbs there are, the more are to be filled
        return
    assert all(a <= b * (1 + 1e-12) for a, b in itertools.pairwise(prices))


@machines
def test_twice_the_work_takes_at_most_twice_the_time(name):
    machine = load_machine(name)
    work = kernel_work(OpKind.ROTATE, SHARP, 30)
    one, two = machine.price(work), machine.price(work.times(2))
    assert one.seconds < two.seconds <= 2 * one.seconds * (1 + 1e-12)
    if machine.power is not None:
        assert one.joules == pytest.approx(machine.power.value * one.seconds)


@machines
def test_no_work_costs_the_overhead(name):
    machine = load_machine(name)
    assert machine.price(KernelWork()).seconds == (machine.overhead.value if machine.overhead else 0.0)


@machines
def test_every_value_names_its_source_and_its_kind(name):
    for path, figure in load_machine(name).figures():
        assert len(figure.source) > 8, path
        assert figure.kind in Evidence, path
        assert figure.value > 0, path


@machines
def test_a_machine_survives_its_file(name, tmp_path):
    machine = load_machine(name)
    write_machine(machine, tmp_path / f"{name}.toml")
    assert read_machine(tmp_path / f"{name}.toml") == machine


@machines
def test_a_machine_names_a_parameter_set_that_exists(name):
    native = load_machine(name).native_params
    assert native in catalogue.names()


@tiers
def test_a_tier_has_a_bandwidth_and_says_where_it_is_from(name):
    tier = load_tier(name)
    assert tier.name == name
    assert tier.bandwidth_bytes_per_s > 0
    assert tier.latency_s >= 0
    assert len(tier.source) > 8
    assert tier.kind in Evidence


@machines
def test_what_is_only_remembered_is_not_called_a_datasheet_s(name):
    for path, figure in load_machine(name).figures():
        if figure.kind is Evidence.DATASHEET:
            assert "from memory" not in figure.source.split(";")[0], path
            assert "assumed" not in figure.source, path


@machines
def test_an_overlap_rule_is_explained_and_a_dispute_is_a_sentence(name):
    machine = load_machine(name)
    assert len(machine.overlap_source) > 40
    assert all(len(text) > 40 and text.endswith(".") for text in machine.disputed)


@machines
def test_a_utilisation_that_was_taken_from_another_machine_is_that_machine_s(name):
    share = load_machine(name).utilisation
    assert share is not None
    if share.kind is Evidence.CALIBRATED:
        return
    assert share.kind is Evidence.ASSUMED
    donors = re.findall(r"machine '([a-z0-9-]+)'", share.source)
    assert len(donors) == 1, f"name the machine whose utilisation it is in the source: \"machine '{name}'\""
    donor = load_machine(donors[0]).utilisation
    assert donor is not None
    assert donor.kind is Evidence.CALIBRATED
    assert share.value == donor.value, f"give '{name}' the utilisation of '{donors[0]}', {donor.text}"


@machines
def test_a_machine_that_is_calibrated_to_nothing_warns_at_its_own_set_and_fits_it(name):
    machine = load_machine(name)
    params = catalogue.get(machine.native_params)
    found = machine.warnings(params)
    assert len(found) == (machine.utilisation.kind is Evidence.ASSUMED)
    assert not any("does not fit" in text for text in found)
