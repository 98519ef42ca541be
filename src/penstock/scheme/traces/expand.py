"""A trace whose composites are replaced by the operations inside them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa

from penstock.scheme.traces.schema import ORIGIN_COMPOSITE, Trace


def expanded(trace: Trace) -> tuple[Trace, dict[str, int]]:
    """The trace with each composite's expansion in its place, numbered anew; and composites that have none, by name.

    The operations of an expansion stay marked `modelled`; the measured time of a composite is not theirs: it is gone.
    """
    view = trace.view()
    table = view.operations
    number = pa.array(range(table.num_rows), pa.int64())
    table = table.set_column(0, table.schema.field("id"), number)
    gone = len(trace) - table.num_rows
    composites = [
        op for op in trace.operations.select(["origin", "scope"]).to_pylist() if op["origin"] == ORIGIN_COMPOSITE
    ]
    left = [op for op in table.select(["origin", "scope"]).to_pylist() if op["origin"] == ORIGIN_COMPOSITE]
    note = f"{len(composites) - len(left)} composites expanded by penstock's circuits"
    meta = replace(trace.meta, notes=(*trace.meta.notes, note)) if gone else trace.meta
    kept = Counter(op["scope"].rsplit("/", 1)[-1].split("[")[0] or "composite" for op in left)
    return replace(view, meta=meta, operations=table), dict(kept)
