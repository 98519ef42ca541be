"""Limbs dealt over hosts: nothing is lost, and the busiest host is the one that the formula says."""

from __future__ import annotations

import pytest

from penstock.lab.simulation.cluster.collectives import AllGather, Broadcast
from penstock.lab.simulation.cluster.dealing import REPLICATED, Dealing, DealtOperation, holdings, most
from penstock.lab.simulation.cluster.partitions import PARTITIONS, Together
from penstock.scheme.operations import SMALL_KINDS, TRAITS, OpKind
from penstock.scheme.work.kernel_work import AMOUNTS
from penstock.scheme.work.kernels import KernelWork
from penstock.scheme.work.shapes import Shape, shape_work
from support.toy import toy

SHARP = toy(ring_dim=2**16, slots=2**15, q_bits=(36,) * 35, p_bits=(36,) * 12, dnum=3, word_bits=36)
MANY_DIGITS = toy(ring_dim=2**16, slots=2**15, q_bits=(28,) * 30, p_bits=(28,), dnum=30, word_bits=32)
LIMB = SHARP.polynomial_bytes(1)
PRIMITIVES = [
    kind for kind, traits in TRAITS.items() if not traits.composite and not traits.client and kind not in SMALL_KINDS
]

kinds = pytest.mark.parametrize("kind", PRIMITIVES)
sets = pytest.mark.parametrize("params", [SHARP, MANY_DIGITS], ids=["3-digits", "30-digits"])


def shape(kind: OpKind, limbs: int, params=SHARP, **changes) -> Shape:
    out = {OpKind.RESCALE: limbs - 1, OpKind.MOD_RAISE: params.num_q, OpKind.MOD_DROP: limbs - 1}.get(kind, limbs)
    fields = {"implied_rescales": 0, "implied_scalar_mults": 0, "polynomials": 2} | changes
    return Shape(kind=kind.value, limbs_in=limbs, limbs_out=out, **fields)


def total(works) -> KernelWork:
    return sum(works, KernelWork())


@kinds
@sets
@pytest.mark.parametrize("special", ["same", "opposed"])
@pytest.mark.parametrize("hosts", [1, 3, 8, 40])
def test_the_hosts_together_do_the_work_of_the_operation(kind, params, special, hosts):
    for limbs in (2, 7, 13, 24, 29):
        for implied in (0, 2):
            one = shape(kind, limbs, params, implied_rescales=implied, implied_scalar_mults=implied)
            operation = DealtOperation(one, params, Dealing(hosts, special))
            got, expected = total(w for host in range(hosts) for w in operation.stages(host)), shape_work(one, params)
            for name in AMOUNTS:
                times = hosts if name in REPLICATED else 1
                assert getattr(got, name) == times * getattr(expected, name), (name, limbs, implied)


@kinds
@sets
def test_one_host_does_the_operation_as_it_is_with_the_same_loops(kind, params):
    one = shape(kind, 13, params)
    operation = DealtOperation(one, params, Dealing(1))
    assert total(operation.stages(0)) == shape_work(one, params)
    assert operation.path() == shape_work(one, params)
    assert operation.exchanged() == ()


@kinds
@pytest.mark.parametrize("special", ["same", "opposed"])
def test_the_hosts_that_are_looked_at_have_the_most_of_every_kernel(kind, special):
    for limbs in (2, 12, 13, 23, 35):
        for hosts in (2, 5, 12, 32, 40):
            operation = DealtOperation(shape(kind, limbs, implied_rescales=1), SHARP, Dealing(hosts, special))
            stages = zip(*(operation.stages(host) for host in range(hosts)), strict=True)
            everywhere = total(most(works) for works in stages)
            path = operation.path()
            assert all(getattr(path, name) == getattr(everywhere, name) for name in AMOUNTS)


def test_the_busiest_host_holds_the_ceiling_of_both():
    for hosts in (1, 2, 4, 8, 16, 32):
        for limbs in range(1, 36):
            held = holdings(SHARP, limbs, Dealing(hosts))
            assert max(h.own + h.special for h in held) == -(-limbs // hosts) + -(-12 // hosts)
            assert sum(h.own for h in held) == limbs
            assert sum(h.special for h in held) == 12


def test_dealt_from_both_ends_few_limbs_leave_every_host_one():
    assert max(h.own + h.special for h in holdings(SHARP, 13, Dealing(32))) == 2
    assert max(h.own + h.special for h in holdings(SHARP, 13, Dealing(32, "opposed"))) == 1


def test_a_rotation_on_two_hosts_by_hand():
    # 13 limbs of Q: 7 and 6; 12 of P: 6 and 6; two digits of 12 and 1 limbs, of which host 0 has 6 and 1.
    operation = DealtOperation(shape(OpKind.ROTATE, 13), SHARP, Dealing(2))
    first, second, third, rest = operation.stages(0)
    assert first.limb_transforms == 7
    # Digit 0 to 13 - 6 other limbs, digit 1 to 13 - 1; then INTT of 6 limbs of P in two polynomials.
    assert second.limb_transforms == 7 + 12 + 2 * 6
    assert second.bconv_macs == (12 * 7 + 1 * 12) * 2**16
    assert second.elementwise_mults == (2 * 2 * 13 + 2 * 6) * 2**16
    assert second.key_bytes == SHARP.key_bytes(13) * 13 // 25
    assert third.limb_transforms == 2 * 7
    assert third.bconv_macs == 2 * 12 * 7 * 2**16
    assert rest.automorphism_coefficients == 2 * 7 * 2**16
    assert operation.exchanged() == (
        AllGather((0, 1), (7 * LIMB, 6 * LIMB)),  # ModUp: 13 limbs of one polynomial
        AllGather((0, 1), (12 * LIMB, 12 * LIMB)),  # ModDown: 12 limbs of two
    )


def test_hoisted_rotations_share_the_mod_up():
    decompose = DealtOperation(shape(OpKind.DECOMPOSE, 13), SHARP, Dealing(4)).exchanged()
    hoisted = DealtOperation(shape(OpKind.ROTATE_HOISTED, 13), SHARP, Dealing(4)).exchanged()
    rotation = DealtOperation(shape(OpKind.ROTATE, 13), SHARP, Dealing(4)).exchanged()
    assert decompose + hoisted == rotation
    assert len(decompose) == len(hoisted) == 1


def test_over_q_and_p_only_decompositions_and_mod_downs_exchange_limbs():
    def exchanged(kind: OpKind):
        return DealtOperation(shape(kind, 13), SHARP, Dealing(2)).exchanged()

    q, p = AllGather((0, 1), (7 * LIMB, 6 * LIMB)), AllGather((0, 1), (6 * LIMB, 6 * LIMB))
    assert exchanged(OpKind.DECOMPOSE_EXTENDED) == (p, q)
    assert exchanged(OpKind.MOD_DOWN) == exchanged(OpKind.ROTATE_HOISTED)
    for kind in (OpKind.ROTATE_EXTENDED, OpKind.ROTATE_HOISTED_EXTENDED, OpKind.EXTEND, OpKind.ADD_EXTENDED):
        assert exchanged(kind) == ()


def test_a_rescale_broadcasts_the_dropped_limb_of_each_polynomial_from_its_home():
    assert DealtOperation(shape(OpKind.RESCALE, 13), SHARP, Dealing(5)).exchanged() == (
        Broadcast((0, 1, 2, 3, 4), 2, 2 * LIMB),
    )
    implied = DealtOperation(shape(OpKind.ADD, 13, implied_rescales=2), SHARP, Dealing(5)).exchanged()
    assert implied == (Broadcast((0, 1, 2, 3, 4), 3, 2 * LIMB),) * 2


@pytest.mark.parametrize("kind", [OpKind.ADD, OpKind.MULT_PLAIN, OpKind.NEGATE, OpKind.MOD_DROP, OpKind.MULT_NO_RELIN])
def test_element_wise_operations_stay_where_they_are(kind):
    assert DealtOperation(shape(kind, 13), SHARP, Dealing(8)).exchanged() == ()


def test_hosts_without_a_limb_are_left_out_only_where_that_is_asked():
    everyone = DealtOperation(shape(OpKind.ROTATE, 3), SHARP, Dealing(32)).exchanged()
    holders = DealtOperation(shape(OpKind.ROTATE, 3), SHARP, Dealing(32, holders_only=True)).exchanged()
    assert [len(each.members) for each in everyone] == [32, 32]
    assert [len(each.members) for each in holders] == [12, 12]
    # Limbs of P go to the hosts with limbs of Q alone, which convert them; limbs of Q to all, for their limbs of P too.
    assert [each.receivers for each in holders] == [None, (0, 1, 2)]
    assert [each.receivers for each in everyone] == [None, None]


@pytest.mark.parametrize("name", [name for name, each in PARTITIONS.items() if isinstance(each, Together)])
@kinds
@sets
def test_every_partition_keeps_one_host_as_it_is_and_loses_no_work(name, kind, params):
    partition = PARTITIONS[name]
    for limbs in (2, 13, 29):
        one = shape(kind, limbs, params)
        whole = shape_work(one, params)
        alone = partition.part(one, params, None, 1)
        assert (alone.path, alone.total, alone.exchanged) == (whole, whole, ())
        for hosts in (2, 5, 32):
            part = partition.part(one, params, None, hosts)
            for field in AMOUNTS:
                if field in REPLICATED:
                    continue
                assert getattr(part.total, field) >= getattr(whole, field), field
                assert getattr(part.path, field) * hosts >= getattr(whole, field), field
                if field != "elementwise_adds":  # sums of the digits' products are added
                    assert getattr(part.path, field) <= getattr(whole, field), field


def test_by_digit_divides_what_goes_with_digits_and_nothing_else():
    part = PARTITIONS["by-digit"].part(shape(OpKind.ROTATE, 35), SHARP, None, 8)
    whole = shape_work(shape(OpKind.ROTATE, 35), SHARP)
    assert part.path.key_bytes == whole.key_bytes // 3
    # ModUp of one digit of three (the first, of 12 limbs) is 47 of 141 transforms; ModDown is done by every host.
    assert part.path.limb_transforms == 47 + 2 * 47
    scatter, gather = part.exchanged
    assert sum(scatter.blocks) == sum(gather.blocks) == 2 * 47 * LIMB
    assert (len(scatter.members), len(gather.members)) == (3, 8)
