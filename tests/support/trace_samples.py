"""A small trace, and copies of its file with something exchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.scheme.traces.io import _digest
from penstock.scheme.traces.schema import Trace, TraceMeta
from support.toy import toy


def small_trace(**meta: Any) -> Trace:
    """Two inputs, a product, a hoisted pair of rotations, a sum, a decryption."""
    ev = SymbolicEvaluator(toy())
    a, b = ev.encrypt(np.zeros(64), name="a"), ev.encrypt(np.zeros(64), name="b")
    with ev.scope("body"):
        c = ev.rescale(ev.mult(a, b))
        left, right = ev.rotate_many(c, [1, 2])
        d = ev.mult(ev.add(left, right), ev.encode(np.ones(64), name="mask"))
    ev.decrypt(ev.rescale(d))
    return ev.builder.finish(TraceMeta(workload="small", params=ev.params.to_dict(), reading="trace", **meta))


def signed(source: Path, target: Path, table: pa.Table | None = None, **footer: bytes) -> Path:
    """A copy of a trace with entries of its footer replaced, and the digest that fits."""
    read = pq.read_table(source)
    entries = read.schema.metadata | {f"penstock.{name}".encode(): value for name, value in footer.items()}
    plain = (read if table is None else table).replace_schema_metadata(None)
    entries[b"penstock.sha256"] = _digest(entries, plain)
    pq.write_table(plain.replace_schema_metadata(entries), target)
    return target
