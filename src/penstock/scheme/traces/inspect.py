"""Looking at traces: a summary, the rules of the format, the difference of two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.base.types import Row
from penstock.errors import TraceError
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.params.sizes import bytes_by_form
from penstock.scheme.traces.io import read_trace
from penstock.scheme.traces.rules import object_problems, operation_problems
from penstock.scheme.traces.schema import CLIENT_KINDS, Trace
from penstock.scheme.unpriced import added, bounded


def summary(trace: Trace, *, composites: bool = False) -> Row:
    """What `penstock trace info` prints. Composites are expanded unless `composites`.

    Nobody counts the keys inside composites that stay whole: totals are lower bounds then (`penstock.scheme.unpriced`).
    """
    view = trace.view(composites=composites)
    params = trace.parameters()
    counts = view.count_by_kind()
    keys, limbs = view.operations["key"].to_pylist(), view.operations["limbs_in"].to_pylist()
    touched = sum(params.key_bytes(n, key=key) for key, n in zip(keys, limbs, strict=True) if key is not None)
    key_limbs = view.key_limbs()
    server = {kind: n for kind, n in counts.items() if kind not in CLIENT_KINDS}
    measured = [s for s in view.operations["start_s"].to_pylist() if s is not None]
    whole = added([{kind: n for kind, n in server.items() if TRAITS[OpKind(kind)].composite}, trace.meta.left_out])
    inside = ("num_keys", "key_bytes_touched", "key_bytes_unique", *(() if composites else ("num_operations",)))
    row = {
        "workload": trace.meta.workload,
        "params": params.name,
        "num_operations": sum(server.values()),
        "by_kind": server,
        "num_keys": len(key_limbs),
        "key_bytes_touched": touched,
        "key_bytes_unique": params.total_key_bytes(key_limbs),
        "client_operations": {kind: n for kind, n in counts.items() if kind in CLIENT_KINDS},
        "implied_rescales": int(np.sum(view.operations["implied_rescales"].to_numpy())) if len(view) else 0,
        "reading": trace.meta.reading,
        "size": trace.meta.size,
        "provenance": "measured" if measured else "predicted",
        "security_bits": params.security_bits,
        "ring_dim": params.ring_dim,
        "keys": list(key_limbs),
        "key_form": params.key_form.value,
        "key_limbs": key_limbs,
        "key_forms": bytes_by_form(params, key_limbs, whole),
    }
    return bounded(row, whole, inside)


def problems(trace: Trace) -> Iterator[str]:
    """Every rule of the format that the trace breaks, in words; nothing if it is valid."""
    params = trace.parameters()
    yield from object_problems(trace, params)
    yield from operation_problems(trace, params)


def check_rules(trace: Trace) -> None:
    """Raises: TraceError: the trace breaks a rule of the format."""
    broken = next(problems(trace), None)
    if broken is not None:
        raise TraceError(f"{broken}: make the trace again; 'penstock trace validate' names all that is wrong")


def read_program(path: Path) -> Trace:
    """The trace in a file, to be played or priced: one that keeps every rule.

    Raises: as `read_trace`; TraceError: it breaks a rule.
    """
    trace = read_trace(path)
    try:
        check_rules(trace)
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from error
    return trace


@dataclass(frozen=True, slots=True)
class Difference:
    """One place in which two traces differ."""

    row: int
    column: str
    left: object
    right: object

    def __str__(self) -> str:
        return f"operation {self.row}, {self.column}: {self.left} against {self.right}"


STRUCTURE = (
    "kind", "origin", "limbs_in", "limbs_out", "operands", "output", "key", "plaintext", "step", "implied_rescales",
    "implied_scalar_mults", "scope",
)  # fmt: skip
"""What two readings of one program must agree in: everything but times."""


def differences(left: Trace, right: Trace) -> Iterator[Difference]:
    """Where two traces differ, operation by operation; times and metadata do not count."""
    if len(left) != len(right):
        yield Difference(min(len(left), len(right)), "number of operations", len(left), len(right))
    shared = min(len(left), len(right))
    columns = {
        name: (left.operations[name].slice(0, shared), right.operations[name].slice(0, shared)) for name in STRUCTURE
    }
    lists = {name: (a.to_pylist(), b.to_pylist()) for name, (a, b) in columns.items() if not a.equals(b)}
    for row in range(shared):
        for name, (a, b) in lists.items():
            if a[row] != b[row]:
                yield Difference(row, name, a[row], b[row])
    if not left.objects.equals(right.objects):
        for row, (a, b) in enumerate(zip(left.objects.to_pylist(), right.objects.to_pylist(), strict=False)):
            if a != b:
                yield Difference(row, "object", a, b)
        if left.objects.num_rows != right.objects.num_rows:
            yield Difference(0, "number of objects", left.objects.num_rows, right.objects.num_rows)
