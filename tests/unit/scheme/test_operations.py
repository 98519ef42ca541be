"""The table of operations, and what is checked against it."""

from __future__ import annotations

from penstock import _engine
from penstock.scheme.operations import (
    EPHEMERAL_KEYS,
    KINDS,
    MANY,
    SINGLE_KEYS,
    SMALL_KINDS,
    SMALL_ROTATION,
    TRAITS,
    OpKind,
    operations,
)


def test_the_kinds_of_traces_are_those_of_the_table() -> None:
    assert tuple(name for name, row in operations().items() if row.is_traced) == KINDS
    assert list(TRAITS) == list(OpKind)
    assert all(row.description for row in TRAITS.values())


def test_the_names_of_keys_are_those_of_the_table() -> None:
    kinds = {name: (of_element, ephemeral) for name, of_element, ephemeral in _engine.key_kinds()}
    assert tuple(name for name, (of_element, _) in kinds.items() if not of_element) == SINGLE_KEYS
    assert set(EPHEMERAL_KEYS) == {name for name, (_, ephemeral) in kinds.items() if ephemeral}
    assert {name for name, (of_element, _) in kinds.items() if of_element} == {"rot", SMALL_ROTATION}
    assert {row.key for row in operations().values()} == {None, *kinds}


def test_operations_of_a_small_ring_are_those_that_meet_its_ciphertexts_or_its_keys() -> None:
    assert {
        OpKind.EXPAND_SMALL,
        OpKind.INNER_PRODUCTS,
        OpKind.PACK_SMALL,
        OpKind.SWITCH_SMALL,
        OpKind.SWITCH_SMALL_SQUARED,
    } == SMALL_KINDS


def test_a_row_of_many_operands_has_one_class_for_all() -> None:
    for row in operations().values():
        assert len(row.takes) == (1 if row.operands == MANY else row.operands), row.name
