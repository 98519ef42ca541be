"""The kernel algebra against counts made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.scheme.operations import SMALL_KINDS, TRAITS, OpKind
from penstock.scheme.params.ckks import Scaling
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.work.kernel_work import AMOUNTS, add_loops
from penstock.scheme.work.kernels import (
    _DIGITLESS,
    PRICES,
    Hoisting,
    KernelWork,
    digit_sizes,
    kernel_work,
    key_switch,
    mod_down,
    mod_up,
)
from penstock.scheme.work.stages import Operation
from support.toy import toy

N = 2**16
SHARP = toy(
    name="sharp", ring_dim=N, slots=N // 2, q_bits=(36,) * 35, p_bits=(36,) * 12, dnum=3, scale_bits=36, word_bits=36
)
SMALL = toy(ring_dim=1024, q_bits=(50,) * 10, p_bits=(60,) * 4, dnum=3)  # digits of 4, 4 and 2 limbs
PRIMITIVES = [kind for kind in OpKind if not TRAITS[kind].composite and kind not in SMALL_KINDS]
BYTES = {"key_bytes", "plaintext_bytes", "ciphertext_read_bytes", "ciphertext_write_bytes"}


@pytest.mark.parametrize("kind", PRIMITIVES)
@pytest.mark.parametrize("hoisting", Hoisting)
def test_sets_that_share_their_work_have_the_same(kind: OpKind, hoisting: Hoisting) -> None:
    """What one chain has learned is handed out for another: no formula sees more of a set than is compared."""
    longer = toy(
        ring_dim=1024,
        q_bits=(60,) + (45,) * 11,
        p_bits=(50,) * 4,
        dnum=3,
        slots=8,
        scale_bits=45,
        scaling=Scaling.FLEXIBLE_AUTO,
        secret="sparse-ternary",
        library="accelerator",
    )
    assert (longer.digit_limbs, longer.num_p) == (SMALL.digit_limbs, SMALL.num_p)
    others = [longer] + ([toy(ring_dim=1024, q_bits=(50,) * 12, p_bits=(60,), dnum=12)] if kind in _DIGITLESS else [])
    for limbs in (2, 5, 9):
        out = {OpKind.RESCALE: limbs - 1, OpKind.MOD_RAISE: 10}.get(kind, limbs)
        works = [
            PRICES[kind](
                Operation(
                    params=params, limbs=limbs, limbs_out=out, key_form=KeyForm.FULL, polynomials=2, hoisting=hoisting
                )
            )
            for params in (SMALL, *others)
        ]
        assert works == [works[0]] * len(works)
        found = [kernel_work(kind, params, limbs, limbs_out=out, hoisting=hoisting) for params in (SMALL, *others)]
        assert found == works


def test_sets_that_differ_do_not_share_their_work() -> None:
    wide = toy(ring_dim=1024, q_bits=(50,) * 10, p_bits=(60,) * 4, dnum=3, word_bits=36)
    one_digit = toy(ring_dim=1024, q_bits=(50,) * 10, p_bits=(60,) * 4, dnum=1)
    fewer = toy(ring_dim=1024, q_bits=(50,) * 10, p_bits=(60,) * 3, dnum=3)
    seeded = toy(ring_dim=1024, q_bits=(50,) * 10, p_bits=(60,) * 4, dnum=3, key_form=KeyForm.SEEDED)
    works = [kernel_work(OpKind.ROTATE, each, 7) for each in (SMALL, wide, one_digit, fewer, seeded)]
    assert len({repr(work) for work in works}) == 5
    # An implied operation is at a limb more, where there is one.
    top = toy(ring_dim=1024, q_bits=(50,) * 7, p_bits=(60,) * 4, dnum=2)
    assert top.digit_limbs == SMALL.digit_limbs
    below = kernel_work(OpKind.MULT, SMALL, 7, implied_rescales=1)
    assert below.limb_transforms > kernel_work(OpKind.MULT, top, 7, implied_rescales=1).limb_transforms


def compute(work: KernelWork) -> dict[str, int]:
    return {name: getattr(work, name) for name in AMOUNTS if name not in BYTES}


def test_a_rotation_at_the_top_level_of_sharp_is_what_the_papers_count():
    # n = 35, k = 12, alpha = 12: digits of 12, 12 and 11 limbs, b = 3.
    work = kernel_work(OpKind.ROTATE, SHARP, 35)
    assert work.limb_transforms == (3 + 2) * (35 + 12) == 235
    # Digits to the other limbs of 47: 12*35 + 12*35 + 11*36; two polynomials from 12 special limbs to 35.
    assert work.bconv_macs == (12 * 35 + 12 * 35 + 11 * 36 + 2 * 12 * 35) * N
    # Before the conversions 35 and 2*12, with the key 2*3*47, after the division by P 2*35.
    assert work.elementwise_mults == (35 + 24 + 282 + 70) * N
    assert work.elementwise_adds == (70 + 35) * N
    assert work.automorphism_coefficients == 70 * N
    assert work.digit_steps == 3
    assert work.key_bytes == 2 * 3 * 47 * N * 9 // 2 == 83_165_184  # 83.2 MB = 79.3 MiB
    assert work.ciphertext_read_bytes == work.ciphertext_write_bytes == 2 * 35 * N * 9 // 2


def test_key_bytes_are_those_that_simfhe_counts():
    # SimFHE (Agrawal et al., MAD, MICRO 2023) at 36 limbs of 36 bits with alpha + 1 special ones: 0.0867 GB a key.
    simfhe = toy(ring_dim=N, q_bits=(36,) * 36, p_bits=(36,) * 13, dnum=3, word_bits=36)
    assert round(kernel_work(OpKind.ROTATE, simfhe, 36).key_bytes / 1e9, 4) == 0.0867


def test_the_parts_of_a_key_switch_are_counted_one_by_one():
    up, down = mod_up(SHARP, 35), mod_down(SHARP, 35)
    assert up.limb_transforms == 35 + (3 * 47 - 35)
    assert down.limb_transforms == 2 * 12 + 2 * 35
    assert key_switch(SHARP, 35).limb_transforms == 235


@pytest.mark.parametrize(("limbs", "sizes"), [(35, (12, 12, 11)), (25, (12, 12, 1)), (24, (12, 12)), (1, (1,))])
def test_digits_are_full_but_the_last(limbs, sizes):
    assert digit_sizes(SHARP, limbs) == sizes


def test_work_falls_by_a_digit_where_a_digit_is_used_up():
    at_25, at_24 = kernel_work(OpKind.ROTATE, SHARP, 25), kernel_work(OpKind.ROTATE, SHARP, 24)
    assert at_25.limb_transforms == 5 * 37
    assert at_24.limb_transforms == 4 * 36
    assert at_24.key_bytes == 2 * 2 * 36 * N * 9 // 2


def test_a_seeded_key_is_half_a_key():
    full = kernel_work(OpKind.MULT, SHARP, 20, key_form=KeyForm.FULL)
    seeded = kernel_work(OpKind.MULT, SHARP, 20, key_form=KeyForm.SEEDED)
    assert full.key_bytes == 2 * seeded.key_bytes
    assert compute(full) == compute(seeded)


def test_the_parameter_set_says_the_form_of_keys_where_the_caller_does_not():
    seeded = replace(SHARP, key_form=KeyForm.SEEDED)
    assert kernel_work(OpKind.ROTATE, seeded, 35).key_bytes * 2 == kernel_work(OpKind.ROTATE, SHARP, 35).key_bytes


def test_a_product_is_a_tensor_and_a_relinearization_without_the_three_polynomials_between():
    product = kernel_work(OpKind.MULT, SMALL, 10)
    tensor, relinearization = kernel_work(OpKind.MULT_NO_RELIN, SMALL, 10), kernel_work(OpKind.RELINEARIZE, SMALL, 10)
    assert compute(product) == compute(tensor + relinearization)
    ciphertext = SMALL.ciphertext_bytes(10)
    assert (product.ciphertext_read_bytes, product.ciphertext_write_bytes) == (2 * ciphertext, ciphertext)
    assert tensor.ciphertext_write_bytes == relinearization.ciphertext_read_bytes == SMALL.ciphertext_bytes(10, 3)
    assert tensor.elementwise_mults == 4 * 10 * 1024
    assert tensor.key_bytes == tensor.limb_transforms == 0


def test_a_square_saves_one_of_four_products_and_an_operand():
    square, product = kernel_work(OpKind.SQUARE, SMALL, 10), kernel_work(OpKind.MULT, SMALL, 10)
    assert product.elementwise_mults - square.elementwise_mults == 10 * 1024
    assert square.limb_transforms == product.limb_transforms
    assert square.ciphertext_read_bytes == SMALL.ciphertext_bytes(10)


def test_hoisting_shares_the_decomposition_and_nothing_else():
    plain = kernel_work(OpKind.ROTATE, SMALL, 10)
    decomposed, hoisted = kernel_work(OpKind.DECOMPOSE, SMALL, 10), kernel_work(OpKind.ROTATE_HOISTED, SMALL, 10)
    assert decomposed.limb_transforms + hoisted.limb_transforms == plain.limb_transforms == 5 * 14
    assert decomposed.bconv_macs + hoisted.bconv_macs == plain.bconv_macs
    assert decomposed.elementwise_mults + hoisted.elementwise_mults == plain.elementwise_mults
    assert (decomposed.key_bytes, hoisted.key_bytes) == (0, plain.key_bytes)
    assert hoisted.automorphism_coefficients == plain.automorphism_coefficients == 2 * 10 * 1024
    assert decomposed.ciphertext_write_bytes == 3 * SMALL.polynomial_bytes(14)


def test_keys_for_permuted_digits_move_every_digit_instead_of_one_polynomial():
    results = kernel_work(OpKind.ROTATE_HOISTED, SMALL, 10)
    digits = kernel_work(OpKind.ROTATE_HOISTED, SMALL, 10, hoisting=Hoisting.DIGITS)
    assert digits.automorphism_coefficients == (3 * 14 + 10) * 1024  # 3 digits of 14 limbs, and 10 limbs
    assert dict(digits.element_loops) != dict(results.element_loops)
    assert replace(digits, automorphism_coefficients=0, element_loops=()) == replace(
        results, automorphism_coefficients=0, element_loops=()
    )
    for hoisting in Hoisting:
        assert kernel_work(OpKind.ROTATE, SMALL, 10, hoisting=hoisting) == kernel_work(OpKind.ROTATE, SMALL, 10)


def test_a_rotation_over_q_and_p_leaves_the_mod_down_to_others():
    # n = 10, k = 4, b = 3: 14 limbs over both.
    hoisted, extended = (kernel_work(kind, SMALL, 10) for kind in (OpKind.ROTATE_HOISTED, OpKind.ROTATE_EXTENDED))
    assert extended.limb_transforms == extended.bconv_macs == 0
    assert extended.elementwise_mults == extended.key_mults == 2 * 3 * 14 * 1024
    assert extended.elementwise_adds == 14 * 1024  # the polynomial that no key meets
    assert extended.automorphism_coefficients == 2 * 14 * 1024
    assert extended.key_bytes == hoisted.key_bytes
    assert extended.ciphertext_read_bytes == (1 + 3) * SMALL.polynomial_bytes(14)
    assert extended.ciphertext_write_bytes == 2 * SMALL.polynomial_bytes(14)
    # From a ciphertext over Q: its polynomial times P, and read at 10 limbs.
    first = kernel_work(OpKind.ROTATE_HOISTED_EXTENDED, SMALL, 10)
    assert first.elementwise_mults - extended.elementwise_mults == first.constant_mults == 10 * 1024
    assert first.ciphertext_read_bytes == SMALL.polynomial_bytes(10) + 3 * SMALL.polynomial_bytes(14)
    assert dict(first.element_loops) == {10: 1, 14: 2 * 3 + 3}


def test_element_wise_work_over_q_and_p_has_the_limbs_of_both():
    add, product = kernel_work(OpKind.ADD_EXTENDED, SMALL, 10), kernel_work(OpKind.MULT_PLAIN_EXTENDED, SMALL, 10)
    assert add.elementwise_adds == product.elementwise_mults == 2 * 14 * 1024
    assert add.ciphertext_read_bytes == 2 * product.ciphertext_read_bytes == 4 * SMALL.polynomial_bytes(14)
    assert (product.plaintext_limbs, product.plaintext_bytes) == (14, SMALL.plaintext_bytes(14))
    extend = kernel_work(OpKind.EXTEND, SMALL, 10)
    assert extend.elementwise_mults == extend.constant_mults == 2 * 10 * 1024
    assert (extend.ciphertext_read_bytes, extend.ciphertext_write_bytes) == (
        2 * SMALL.polynomial_bytes(10),
        2 * SMALL.polynomial_bytes(14),
    )


def test_a_key_switch_over_q_and_p_in_parts_is_a_key_switch():
    parts = (OpKind.DECOMPOSE, OpKind.ROTATE_EXTENDED, OpKind.MOD_DOWN)
    work, whole = sum((kernel_work(kind, SMALL, 10) for kind in parts), KernelWork()), key_switch(SMALL, 10)
    for name in ("limb_transforms", "bconv_macs", "converted_coefficients", "elementwise_mults", "base_conversions"):
        assert getattr(work, name) == getattr(whole, name), name
    # Between two rotations one polynomial comes back and is decomposed: INTT 4, NTT 10, then 3 digits over 14 limbs.
    between = kernel_work(OpKind.DECOMPOSE_EXTENDED, SMALL, 10)
    assert between.limb_transforms == 4 + 10 + 3 * 14
    assert between.base_conversions == 1 + 3
    assert between.bconv_macs == (4 * 10 + 4 * 10 + 4 * 10 + 2 * 12) * 1024


def test_a_conjugation_is_a_rotation_with_another_key():
    assert kernel_work(OpKind.CONJUGATE, SMALL, 7) == kernel_work(OpKind.ROTATE, SMALL, 7)


def test_a_rescale_transforms_one_limb_back_and_the_others_forth():
    work = kernel_work(OpKind.RESCALE, SMALL, 10)
    assert work.limb_transforms == 2 * 1 + 2 * 9
    assert work.bconv_macs == work.elementwise_mults == work.elementwise_adds == 2 * 9 * 1024
    assert (work.ciphertext_read_bytes, work.ciphertext_write_bytes) == (
        SMALL.ciphertext_bytes(10),
        SMALL.ciphertext_bytes(9),
    )
    assert kernel_work(OpKind.RESCALE, SMALL, 10, polynomials=3).limb_transforms == 30
    assert kernel_work(OpKind.RESCALE, SMALL, 10, limbs_out=8).limb_transforms == 20 + 18


def test_raising_the_modulus_transforms_both_polynomials_and_fills_the_limbs():
    work = kernel_work(OpKind.MOD_RAISE, SHARP, 1)
    assert work.limb_transforms == 2 * (1 + 34)
    assert work.bconv_macs == 2 * 34 * N
    assert work.ciphertext_write_bytes == SHARP.ciphertext_bytes(35)
    assert kernel_work(OpKind.MOD_RAISE, SHARP, 3).bconv_macs == 2 * 3 * 32 * N


def test_dropping_limbs_costs_nothing():
    assert kernel_work(OpKind.MOD_DROP, SMALL, 10, limbs_out=4) == KernelWork(ring_dim=1024)


@pytest.mark.parametrize(
    ("kind", "mults", "adds", "read", "plaintexts"),
    [
        (OpKind.ADD, 0, 2, 2, 0),
        (OpKind.SUB, 0, 2, 2, 0),
        (OpKind.NEGATE, 0, 2, 1, 0),
        (OpKind.ADD_PLAIN, 0, 1, 1, 1),
        (OpKind.SUB_PLAIN, 0, 1, 1, 1),
        (OpKind.ADD_SCALAR, 0, 1, 1, 0),
        (OpKind.SUB_SCALAR, 0, 1, 1, 0),
        (OpKind.MULT_PLAIN, 2, 0, 1, 1),
        (OpKind.MULT_SCALAR, 2, 0, 1, 0),
    ],
)
def test_element_wise_operations_touch_each_coefficient_as_often_as_the_formula_says(
    kind, mults, adds, read, plaintexts
):
    work = kernel_work(kind, SMALL, 6)
    assert work.elementwise_mults == mults * 6 * 1024
    assert work.elementwise_adds == adds * 6 * 1024
    assert work.ciphertext_read_bytes == read * SMALL.ciphertext_bytes(6)
    assert work.plaintext_bytes == plaintexts * SMALL.plaintext_bytes(6)
    assert work.plaintext_limbs == plaintexts * 6
    assert work.limb_transforms == work.bconv_macs == work.key_bytes == 0


def test_three_polynomials_are_added_at_one_and_a_half_times_the_cost():
    assert kernel_work(OpKind.ADD, SMALL, 6, polynomials=3).elementwise_adds == 3 * 6 * 1024


def test_implied_rescales_and_scalar_products_run_with_one_limb_more():
    bare = kernel_work(OpKind.MULT, SMALL, 8)
    full = kernel_work(OpKind.MULT, SMALL, 8, implied_rescales=2, implied_scalar_mults=1)
    assert full.limb_transforms - bare.limb_transforms == 2 * (2 * 9)
    assert full.elementwise_mults - bare.elementwise_mults == (2 * (2 * 8) + 2 * 9) * 1024
    assert full.key_bytes == bare.key_bytes


def test_at_the_top_of_the_chain_an_implied_operation_has_no_limb_more_to_run_with():
    bare, full = kernel_work(OpKind.ADD, SMALL, 10), kernel_work(OpKind.ADD, SMALL, 10, implied_scalar_mults=1)
    assert full.elementwise_mults - bare.elementwise_mults == 2 * 10 * 1024


@pytest.mark.parametrize("kind", PRIMITIVES)
def test_every_primitive_has_a_formula_over_the_right_ring(kind):
    work = kernel_work(kind, SMALL, 5, limbs_out=3 if kind is OpKind.MOD_DROP else None)
    assert work.ring_dim == 1024
    assert all(getattr(work, name) >= 0 for name in AMOUNTS)
    assert bool(work.key_bytes) == (TRAITS[kind].key is not None)


@pytest.mark.parametrize("kind", [OpKind.BOOTSTRAP, OpKind.CHEBYSHEV, OpKind.COMPOSITE])
def test_a_composite_is_refused_with_the_remedy(kind):
    with pytest.raises(UsageError, match="expand it first"):
        kernel_work(kind, SMALL, 5)


@pytest.mark.parametrize(
    ("kind", "limbs", "out", "message"),
    [
        (OpKind.ADD, 0, None, "1 to 10 limbs"),
        (OpKind.ADD, 11, None, "1 to 10 limbs"),
        (OpKind.RESCALE, 1, None, "cannot have 0 limbs"),
        (OpKind.RESCALE, 4, 5, "more limbs"),
        (OpKind.MOD_RAISE, 5, 4, "fewer limbs"),
    ],
)
def test_limbs_outside_the_chain_are_refused_with_the_rule(kind, limbs, out, message):
    with pytest.raises(UsageError, match=message):
        kernel_work(kind, SMALL, limbs, limbs_out=out)


def test_implied_operations_and_polynomials_cannot_be_negative():
    with pytest.raises(UsageError, match="negative"):
        kernel_work(OpKind.ADD, SMALL, 5, implied_rescales=-1)
    with pytest.raises(UsageError, match="at least one polynomial"):
        kernel_work(OpKind.ADD, SMALL, 5, polynomials=0)


def test_works_add_up_over_one_ring_only():
    a, b = kernel_work(OpKind.ADD, SMALL, 5), kernel_work(OpKind.MULT, SMALL, 5)
    assert (a + b).elementwise_adds == a.elementwise_adds + b.elementwise_adds
    assert a + KernelWork() == KernelWork() + a == a
    assert b.times(3) == b + b + b
    with pytest.raises(UsageError, match="1024 and 65536"):
        _ = a + kernel_work(OpKind.ADD, SHARP, 5)


@given(q=st.integers(1, 40), p=st.integers(1, 15), dnum=st.integers(1, 40), data=st.data())
def test_a_key_switch_is_b_plus_2_times_n_plus_k_transforms_for_any_chain(q, p, dnum, data):
    params = toy(q_bits=(40,) * q, p_bits=(40,) * p, dnum=min(dnum, q))
    limbs = data.draw(st.integers(1, q))
    work = key_switch(params, limbs)
    assert sum(digit_sizes(params, limbs)) == limbs
    assert work.limb_transforms == (params.active_digits(limbs) + 2) * (limbs + p)
    assert work.digit_steps == params.active_digits(limbs)


@given(limbs=st.integers(2, 35), kind=st.sampled_from([k for k in PRIMITIVES if k is not OpKind.MOD_RAISE]))
def test_work_never_grows_when_a_limb_is_dropped(limbs, kind):
    if kind is OpKind.RESCALE and limbs == 2:
        return
    more, less = kernel_work(kind, SHARP, limbs), kernel_work(kind, SHARP, limbs - 1)
    # Base conversion alone may: a digit of 12 limbs pairs with 23 others, digits of 11 and 1 with 23 and 33.
    assert all(getattr(less, name) <= getattr(more, name) for name in AMOUNTS if name != "bconv_macs")


@given(limbs=st.integers(2, 35), kind=st.sampled_from(PRIMITIVES), implied=st.integers(0, 2))
def test_loops_over_limbs_hold_all_the_work_that_is_counted(limbs, kind, implied):
    work = kernel_work(kind, SHARP, limbs, implied_rescales=implied, implied_scalar_mults=implied)
    assert sum(width * loops for width, loops in work.transform_loops) == work.limb_transforms
    elements = work.elementwise_mults + work.elementwise_adds + work.automorphism_coefficients
    assert sum(width * loops for width, loops in work.element_loops) * N == elements
    assert max((width for width, _ in work.transform_loops + work.element_loops), default=0) <= 35 + 12


def test_the_loops_of_a_rotation_are_those_of_the_library():
    # n = 10, k = 4, digits of 4, 4 and 2: ModUp INTT 4, 4, 2 and NTT 10, 10, 12; ModDown twice INTT 4 and NTT 10.
    work = kernel_work(OpKind.ROTATE, SMALL, 10)
    assert dict(work.transform_loops) == {2: 1, 4: 2 + 2, 10: 2 + 2, 12: 1}
    # Product with the key: 2 polynomials x 3 digits over 14 limbs.
    assert dict(work.element_loops)[14] == 6
    assert work.base_conversions == 3 + 2


def test_multiplications_are_by_keys_by_constants_or_by_ciphertexts():
    work = kernel_work(OpKind.MULT, SMALL, 10)
    assert work.key_mults == 2 * 3 * 14 * 1024
    assert work.constant_mults == (10 + 2 * (4 + 10)) * 1024  # before ModUp's conversions; in ModDown
    assert work.elementwise_mults - work.key_mults - work.constant_mults == 4 * 10 * 1024  # the tensor product
    assert kernel_work(OpKind.MULT_PLAIN, SMALL, 10).constant_mults == 0
    scalar = kernel_work(OpKind.MULT_SCALAR, SMALL, 10)
    assert scalar.constant_mults == scalar.elementwise_mults == 2 * 10 * 1024


def test_conversions_give_each_limb_that_a_digit_lacks_and_a_rescale_none():
    work = kernel_work(OpKind.DECOMPOSE, SMALL, 10)
    assert work.converted_coefficients == (3 * 14 - 10) * 1024
    assert mod_down(SMALL, 10).converted_coefficients == 2 * 10 * 1024
    assert kernel_work(OpKind.RESCALE, SMALL, 10).converted_coefficients == 0
    assert kernel_work(OpKind.MOD_RAISE, SMALL, 1).converted_coefficients == 0
    assert kernel_work(OpKind.MOD_RAISE, SMALL, 2).converted_coefficients == 2 * 8 * 1024


def test_each_rotation_makes_one_index_map():
    for kind in (OpKind.ROTATE, OpKind.ROTATE_HOISTED, OpKind.CONJUGATE):
        assert kernel_work(kind, SMALL, 3).mapped_indices == 1024
    assert kernel_work(OpKind.MULT, SMALL, 3).mapped_indices == 0


def test_loops_of_one_width_are_one_entry():
    assert add_loops(((3, 1), (5, 2)), ((3, 4),), ()) == ((3, 5), (5, 2))
    assert add_loops(((0, 3),), ((2, 0),), ((1, 1),)) == ((1, 1),)
