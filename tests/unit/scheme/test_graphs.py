"""Operations as graphs of kernels: their sums are the kernel algebra, and their order can be run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import UsageError
from penstock.scheme.operations import SMALL_KINDS, TRAITS, OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.work.graph import UNIT_OF, Builder, KernelName, OperationGraph
from penstock.scheme.work.graphs import kernel_graph
from penstock.scheme.work.kernels import Hoisting, kernel_work
from penstock.scheme.work.stages import Operation
from penstock.scheme.work.units import UNIT_MEASURES
from support.toy import toy

PRIMITIVES = [kind for kind in OpKind if not TRAITS[kind].composite and kind not in SMALL_KINDS]
SETS = (
    catalogue.get("sharp"),
    toy(ring_dim=1024, q_bits=(50,) * 10, p_bits=(60,) * 4, dnum=3),  # digits of 4, 4 and 2 limbs
    toy(ring_dim=2048, q_bits=(50,) * 7, p_bits=(60,), dnum=7),
)


def limbs_of(params: CkksParameters) -> list[int]:
    alpha = params.digit_limbs
    return sorted({each for each in (1, 2, alpha, alpha + 1, 2 * alpha + 1, params.num_q) if each <= params.num_q})


@pytest.mark.parametrize("kind", PRIMITIVES)
def test_the_kernels_of_a_graph_add_up_to_the_kernel_algebra(kind: OpKind) -> None:
    for params in SETS:
        for limbs in limbs_of(params):
            outs = {None}
            if kind is OpKind.RESCALE:
                outs = {max(0, limbs - 1) or None, max(1, limbs - 3)} - {0}
                if limbs == 1:
                    outs = {1}
            if kind is OpKind.MOD_RAISE:
                outs = {None, limbs}
            for out in outs:
                for rescales, scalars, polynomials in ((0, 0, 2), (1, 0, 3), (2, 1, 2)):
                    asked = {
                        "limbs_out": out,
                        "implied_rescales": rescales,
                        "implied_scalar_mults": scalars,
                        "polynomials": polynomials,
                    }
                    graph = kernel_graph(kind, params, limbs, **asked)
                    assert graph.work == kernel_work(kind, params, limbs, **asked), (params.name, limbs, asked)


@pytest.mark.parametrize("hoisting", Hoisting)
@pytest.mark.parametrize("form", [KeyForm.FULL, KeyForm("seeded")])
def test_key_forms_and_hoisting_are_those_of_the_algebra(hoisting: Hoisting, form: KeyForm) -> None:
    for kind in (OpKind.ROTATE, OpKind.ROTATE_HOISTED, OpKind.ROTATE_EXTENDED, OpKind.TO_SPARSE):
        for limbs in (1, 14, 35):
            asked = {"key_form": form, "hoisting": hoisting}
            assert kernel_graph(kind, SETS[0], limbs, **asked).work == kernel_work(kind, SETS[0], limbs, **asked)


@pytest.mark.parametrize("kind", PRIMITIVES)
def test_each_kernel_stands_behind_those_that_it_needs_and_each_limb_has_a_source(kind: OpKind) -> None:
    for params in SETS:
        for limbs in limbs_of(params)[1:]:
            graph = kernel_graph(kind, params, limbs)
            for i, kernel in enumerate(graph.kernels):
                assert all(0 <= j < i for j in (*kernel.each, *kernel.whole)), (kind, i)
                assert len(set(kernel.limbs)) == len(kernel.limbs)
                known = {limb for j in kernel.each for limb in graph.kernels[j].limbs}
                if not (kernel.operand or kernel.whole or kind is OpKind.ENCRYPT):
                    assert known >= set(kernel.limbs), (kind, limbs, i)
                assert UNIT_OF[kernel.name] in UNIT_MEASURES
            made = {limb for kernel in graph.kernels if kernel.result for limb in kernel.limbs}
            assert made or kind is OpKind.MOD_DROP or limbs == params.num_q


def test_a_rotation_at_full_limbs_has_the_kernels_of_a_key_switch() -> None:
    graph = kernel_graph(OpKind.ROTATE, SETS[0], 35)
    passes: dict[KernelName, int] = dict.fromkeys(KernelName, 0)
    for kernel in graph.kernels:
        passes[kernel.name] += len(kernel.limbs)
    assert passes[KernelName.INVERSE] == 35 + 2 * 12
    assert passes[KernelName.TRANSFORM] == 3 * 47 - 35 + 2 * 35
    assert passes[KernelName.KEY_PRODUCT] == 2 * 3 * 47
    assert passes[KernelName.CONVERSION] == 3 * 47 - 35 + 2 * 35
    assert passes[KernelName.AUTOMORPHISM] == 70
    conversions = [kernel for kernel in graph.kernels if kernel.name is KernelName.CONVERSION]
    assert [(len(each.limbs), each.reads) for each in conversions] == [(35, 12), (35, 12), (36, 11), (35, 12), (35, 12)]


def _least_by_hand(graph: OperationGraph) -> int:
    """Every limb by name, kernel after kernel."""
    alive: set[tuple[int, int]] = set()
    readers = {
        i: [j for j, each in enumerate(graph.kernels) if i in (*each.each, *each.whole)]
        for i in range(len(graph.kernels))
    }
    most = 0
    for i, kernel in enumerate(graph.kernels):
        done = {(j, limb) for j, limb in alive if not graph.kernels[j].result and max(readers[j], default=-1) <= i}
        over = {(j, limb) for j, limb in done if j not in kernel.whole}
        # A kernel writes over what it reads last, but a conversion reads all of it for each limb that it makes.
        most = max(most, len(alive), len(alive) - len(over) + len(kernel.limbs))
        alive -= done
        alive |= {(i, limb) for limb in kernel.limbs if kernel.result or readers[i]}
    return most + 1 if graph.kernels else 0


@pytest.mark.parametrize("kind", PRIMITIVES)
def test_the_least_working_set_is_what_is_alive_at_once(kind: OpKind) -> None:
    for params in SETS:
        graph = kernel_graph(kind, params, params.num_q if kind is not OpKind.MOD_RAISE else 1)
        assert graph.least_limbs == _least_by_hand(graph)
        assert graph.held_bytes >= graph.least_bytes


def test_a_graph_refuses_what_no_operation_can_be() -> None:
    with pytest.raises(UsageError, match="1 to 35 limbs"):
        kernel_graph(OpKind.ROTATE, SETS[0], 36)
    with pytest.raises(UsageError, match="composite"):
        kernel_graph(OpKind.BOOTSTRAP, SETS[0], 3)


def test_an_amount_is_dealt_by_limbs_and_nothing_is_lost() -> None:
    s = Operation(params=SETS[1], limbs=3, limbs_out=3, key_form=None, polynomials=2, hoisting=Hoisting.RESULTS)
    b = Builder(s)
    made = [b.add(KernelName.SUM, "", range(width)) for width in (1, 2, 4)]
    b.shared("plaintext_bytes", 100, made)
    assert [b.kernels[i].work.plaintext_bytes for i in made] == [100 - 28 - 57, 28, 57]
    assert replace(b.kernels[0].work, plaintext_bytes=0).elementwise_adds == 1024
