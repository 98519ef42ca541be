"""Rows of a run folder from an encrypted run: its operations by kind, and the bytes that they touch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from penstock.base.types import Row, RowView
from penstock.scheme.traces.schema import Trace

UNITS = {"_s": "s", "_bytes": "B"}
"""End of a number's name -> its unit."""


def number_rows(numbers: RowView) -> Iterator[Row]:
    """The times and bytes among the numbers of a run."""
    for name, value in numbers.items():
        unit = next((unit for end, unit in UNITS.items() if name.endswith(end)), None)
        if unit is not None and isinstance(value, int | float) and not isinstance(value, bool):
            yield row_of(name, float(value), unit, "measured")


def row_of(quantity: str, value: float | None, unit: str, provenance: str, **dimensions: object) -> Row:
    """One row of results."""
    return {"quantity": quantity, "value": value, "unit": unit, "provenance": provenance, **dimensions}


def measured_rows(trace: Trace) -> Iterator[Row]:
    """Seconds and number of operations, by kind and limbs; composites whole, as they were timed."""
    operations = trace.view(composites=True).operations
    seconds: dict[tuple[str, int], float] = defaultdict(float)
    counts: dict[tuple[str, int], int] = defaultdict(int)
    spent = operations["end_s"].to_numpy(zero_copy_only=False) - operations["start_s"].to_numpy(zero_copy_only=False)
    for kind, limbs, took in zip(
        operations["kind"].to_pylist(), operations["limbs_in"].to_pylist(), spent.tolist(), strict=True
    ):
        seconds[kind, limbs] += took
        counts[kind, limbs] += 1
    for (kind, limbs), total in seconds.items():
        yield row_of("op_seconds", total, "s", "measured", kind=kind, limbs=limbs)
        yield row_of("op_count", counts[kind, limbs], "1", "measured", kind=kind, limbs=limbs)


def byte_rows(trace: Trace) -> Iterator[Row]:
    """Bytes of each class that the server's operations touch, and that exist at all."""
    operations = trace.view().server_operations()
    params = trace.parameters()
    sizes = np.asarray(trace.objects["bytes"].to_pylist(), dtype=np.int64)
    touched = dict.fromkeys(("key", "ciphertext", "plaintext"), 0)
    used: dict[str, set[int]] = {cls: set() for cls in touched}
    named = {"extended": "ciphertext", "small": "ciphertext", "stored": "database"}
    classes = [named.get(cls, cls) for cls in trace.objects["class"].to_pylist()]
    if "database" in classes:
        touched["database"], used["database"] = 0, set()
    for row in operations.select(["key", "limbs_in", "operands", "output", "plaintext"]).to_pylist():
        if row["key"] is not None:
            touched["key"] += params.key_bytes(row["limbs_in"], key=row["key"])
        for object_id in [*row["operands"], row["output"], row["plaintext"]]:
            if object_id is not None and classes[object_id] in touched:
                touched[classes[object_id]] += int(sizes[object_id])
                used[classes[object_id]].add(object_id)
    unique = {cls: int(sum(sizes[i] for i in ids)) for cls, ids in used.items()}
    unique["key"] = params.total_key_bytes(trace.view().key_limbs())
    for cls, total in touched.items():
        yield row_of("bytes_touched", total, "B", "predicted", kind=cls, note="from the trace and the sizes of the set")
        yield row_of("bytes_unique", unique[cls], "B", "predicted", kind=cls, note="each object once, keys as stored")
