"""Key switching in closed form at the parameters of accelerators: hand-computed bytes, and what sharing saves."""

from __future__ import annotations

import pytest

from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.scheme.machines import load_machine
from penstock.scheme.operations import OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.traces.schema import TraceMeta
from penstock.scheme.work.kernels import kernel_work

N16, N17 = 2**16, 2**17
ACCELERATORS = ("ark", "bts-ins1", "bts-ins2", "bts-ins3", "cheddar-30", "craterlake", "fab", "poseidon", "sharp")


@pytest.mark.parametrize(
    ("name", "limbs", "by_hand"),
    [
        # 2 polynomials x active digits x (limbs + special limbs) x N words.
        ("sharp", 35, 2 * 3 * 47 * N16 * 36 // 8),
        ("sharp", 24, 2 * 2 * 36 * N16 * 36 // 8),  # two digits of 12 limbs
        ("sharp", 13, 2 * 2 * 25 * N16 * 36 // 8),  # 12 limbs and one more
        ("sharp", 12, 2 * 1 * 24 * N16 * 36 // 8),
        ("sharp", 1, 2 * 1 * 13 * N16 * 36 // 8),
        ("ark", 24, 2 * 4 * 30 * N16 * 8),  # 120 MiB
        ("ark", 7, 2 * 2 * 13 * N16 * 8),
        ("bts-ins1", 28, 2 * 1 * 56 * N17 * 8),  # 112 MiB: one digit
        ("bts-ins2", 40, 2 * 2 * 60 * N17 * 8),
        ("fab", 24, 2 * 3 * 32 * N16 * 54 // 8),
        ("cheddar-30", 48, 2 * 4 * 60 * N16 * 4),
    ],
)
def test_a_key_switch_reads_the_limbs_in_use_and_a_seeded_key_half_of_them(name, limbs, by_hand):
    params = catalogue.get(name)
    full, seeded = (kernel_work(OpKind.ROTATE, params, limbs, key_form=form) for form in (KeyForm.FULL, KeyForm.SEEDED))
    assert full.key_bytes == by_hand
    assert seeded.key_bytes * 2 == by_hand
    # The seed changes what is read, not what is computed.
    assert full.limb_transforms == seeded.limb_transforms
    assert full.elementwise_mults == seeded.elementwise_mults


@pytest.mark.parametrize("name", ACCELERATORS)
@pytest.mark.parametrize("rotations", [1, 2, 14])
def test_hoisting_r_rotations_saves_r_minus_1_decompositions_and_no_key(name, rotations):
    params = catalogue.get(name)
    limbs, special = params.num_q, params.num_p
    alone = kernel_work(OpKind.ROTATE, params, limbs).times(rotations)
    shared = kernel_work(OpKind.DECOMPOSE, params, limbs) + kernel_work(OpKind.ROTATE_HOISTED, params, limbs).times(
        rotations
    )
    digits = params.active_digits(limbs)
    assert alone.limb_transforms - shared.limb_transforms == (rotations - 1) * digits * (limbs + special)
    assert alone.bconv_macs - shared.bconv_macs == (
        (rotations - 1) * kernel_work(OpKind.DECOMPOSE, params, limbs).bconv_macs
    )
    assert alone.key_bytes == shared.key_bytes
    assert alone.automorphism_coefficients == shared.automorphism_coefficients


@pytest.mark.parametrize("name", ["sharp", "ark", "bts", "craterlake", "f1-plus", "poseidon", "a100-cheddar"])
def test_a_hoisted_rotation_takes_no_machine_longer_than_a_plain_one(name):
    machine = load_machine(name)
    params = catalogue.get(machine.native_params)
    for limbs in (1, params.num_q // 2, params.num_q):
        plain, hoisted = (kernel_work(kind, params, limbs) for kind in (OpKind.ROTATE, OpKind.ROTATE_HOISTED))
        assert machine.price(hoisted).seconds <= machine.price(plain).seconds


@pytest.mark.parametrize(("name", "stages"), [("sharp", {"cts[0]": 10, "cts[1]": 14, "cts[2]": 14}), ("ark", {})])
def test_minimum_key_switching_touches_a_stage_s_two_keys_half_as_often_as_it_rotates(name, stages):
    """r rotations with two keys read 2 keys' bytes r / 2 times: 7 times at the 14 rotations of SHARP's stages."""
    params = catalogue.get(name)
    ev = SymbolicEvaluator(params)
    ev.bootstrap(ev.fresh(1))
    trace = ev.builder.finish(TraceMeta(workload="bootstrap", params=params.to_dict(), reading="trace"))
    turns: dict[str, list[tuple[str, int]]] = {}
    for row in trace.view().operations.to_pylist():
        stage = row["scope"].rpartition("/")[2]
        if row["kind"] == "rotate" and stage.startswith(("cts", "stc")):
            turns.setdefault(stage, []).append((row["key"], row["limbs_in"]))
    assert len(turns) == 6
    for stage, found in turns.items():
        keys, limbs = {key for key, _ in found}, {limbs for _, limbs in found}
        assert (len(keys), len(limbs)) == (2, 1)
        work = kernel_work(OpKind.ROTATE, params, *limbs)
        touched, unique = work.times(len(found)).key_bytes, len(keys) * params.key_bytes(*limbs)
        assert touched / unique == len(found) / 2
        assert len(found) == stages.get(stage, len(found))
        # No decomposition is shared: (b + 2) (n + k) transforms for each rotation.
        switch = (params.active_digits(*limbs) + 2) * (max(limbs) + params.num_p)
        assert work.times(len(found)).limb_transforms == len(found) * switch


@pytest.mark.parametrize(("name", "first"), [("sharp", 35), ("craterlake", 46), ("tensorfhe-helr", 39)])
def test_a_level_of_two_primes_is_two_divisions_one_after_the_other(name, first):
    """Double-prime scaling: from n to n - 2 limbs, transforms 2 (n + n - 1), never two primes at once."""
    params = catalogue.get(name)
    double = kernel_work(OpKind.RESCALE, params, first, limbs_out=first - 2)
    assert double.limb_transforms == 2 * (first + first - 1)
    assert double.bconv_macs == 2 * (first - 1 + first - 2) * params.ring_dim
    one, two = (kernel_work(OpKind.RESCALE, params, limbs) for limbs in (first, first - 1))
    assert double.limb_transforms == one.limb_transforms + two.limb_transforms
    assert double.elementwise_mults == one.elementwise_mults + two.elementwise_mults


@pytest.mark.parametrize("limbs", [1, 12, 24])
def test_a_plaintext_that_is_made_on_chip_costs_a_transform_a_limb_where_the_machine_makes_it(limbs):
    """ARK extends a stored limb to the others on the fly: one transform each, 64 cycles of 1024 lanes at N = 2^16."""
    ark = load_machine("ark")
    work = kernel_work(OpKind.MULT_PLAIN, catalogue.get("ark"), limbs)
    assert (work.limb_transforms, work.plaintext_limbs) == (0, limbs)
    assert ark.utilisation is not None
    assert ark.price(work).per_unit["transforms"] == pytest.approx(limbs * 64e-9 / ark.utilisation.value)
    assert load_machine("bts").price(work).per_unit["transforms"] == 0
