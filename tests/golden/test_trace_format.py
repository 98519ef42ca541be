"""The columns of a trace did not move. To change them on purpose: raise SCHEMA_VERSION, keep reading the old one, and
add a golden trace of the new number (`make.py`)."""

from __future__ import annotations

from penstock.scheme.traces.schema import OBJECTS_SCHEMA, OPERATIONS_SCHEMA, SCHEMA_VERSION


def test_the_columns_of_version_1_did_not_move() -> None:
    assert SCHEMA_VERSION == 1
    assert [f"{f.name}: {f.type}" for f in OPERATIONS_SCHEMA] == [
        "id: int64",
        "kind: dictionary<values=string, indices=int16, ordered=0>",
        "origin: dictionary<values=string, indices=int16, ordered=0>",
        "limbs_in: int32",
        "limbs_out: int32",
        "operands: list<item: int64>",
        "output: int64",
        "key: dictionary<values=string, indices=int32, ordered=0>",
        "plaintext: int64",
        "step: int32",
        "implied_rescales: int16",
        "implied_scalar_mults: int16",
        "scope: dictionary<values=string, indices=int32, ordered=0>",
        "start_s: double",
        "end_s: double",
    ]
    assert [f"{f.name}: {f.type}" for f in OBJECTS_SCHEMA] == [
        "id: int64",
        "class: dictionary<values=string, indices=int8, ordered=0>",
        "name: string",
        "limbs: int32",
        "bytes: int64",
    ]
