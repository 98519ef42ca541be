"""The trace format did not move. To change it on purpose: raise SCHEMA_VERSION, keep reading the old one, and write the
golden file again with `PYTHONPATH=tests python tests/golden/test_trace_format.py`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from penstock.params.ckks import Scaling
from penstock.program.symbolic import SymbolicEvaluator
from penstock.traces.export import export
from penstock.traces.schema import OBJECTS_SCHEMA, OPERATIONS_SCHEMA, SCHEMA_VERSION, Trace, TraceMeta
from toy import toy_bootstrap

GOLDEN = Path(__file__).parent / "trace-v1.jsonl"


def program() -> Trace:
    """Every column in use: plaintexts, rotations, hoisting, implied rescales, scopes, a composite and its expansion."""
    ev = SymbolicEvaluator(toy_bootstrap(Scaling.FLEXIBLE_AUTO))
    a, b = ev.encrypt(np.zeros(256), name="a"), ev.encrypt(np.zeros(256), name="b")
    with ev.scope("body"):
        product = ev.mult(ev.mult(a, b), ev.encode(np.ones(256), name="mask"))
        left, right = ev.rotate_many(product, [1, -2])
        total = ev.add(ev.conjugate(left), right)
    with ev.scope("series"):
        total = ev.chebyshev_series(total, [1.0, 0.5, 0.25], -1, 1)
    ev.decrypt(ev.sub(total, 1.0))
    return ev.builder.finish(TraceMeta(workload="golden", params=ev.params.to_dict(), reading="trace", seed=0))


def written() -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.jsonl"
        export(program(), path, "jsonl")
        return path.read_text()


def test_the_content_of_a_trace_did_not_move() -> None:
    assert written() == GOLDEN.read_text()


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


if __name__ == "__main__":
    GOLDEN.write_text(written())
