"""Looking at traces: a summary, the rules of the format, the difference of two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.operations import CONJ_KEY, RELIN_KEY, TRAITS, OpKind, rotation_key
from penstock.trace.schema import (
    CLIENT_KINDS,
    OBJECT_CLASSES,
    ORIGIN_CALLED,
    ORIGIN_COMPOSITE,
    ORIGIN_MODELLED,
    Trace,
)


def summary(trace: Trace, *, composites: bool = False) -> dict[str, Any]:
    """What `penstock trace info` prints. Composites are expanded unless `composites`."""
    view = trace.view(composites=composites)
    params = trace.parameters()
    counts = view.count_by_kind()
    keys, limbs = view.operations["key"].to_pylist(), view.operations["limbs_in"].to_pylist()
    touched = sum(params.key_bytes(n) for key, n in zip(keys, limbs, strict=True) if key is not None)
    unique = view.key_ids()
    server = {kind: n for kind, n in counts.items() if kind not in CLIENT_KINDS}
    measured = [s for s in view.operations["start_s"].to_pylist() if s is not None]
    return {
        "workload": trace.meta.workload,
        "params": params.name,
        "num_operations": sum(server.values()),
        "by_kind": server,
        "num_keys": len(unique),
        "key_bytes_touched": touched,
        "key_bytes_unique": len(unique) * params.key_bytes(),
        "client_operations": {kind: n for kind, n in counts.items() if kind in CLIENT_KINDS},
        "implied_rescales": int(np.sum(view.operations["implied_rescales"].to_numpy())) if len(view) else 0,
        "reading": trace.meta.reading,
        "size": trace.meta.size,
        "provenance": "measured" if measured else "predicted",
        "security_bits": params.security_bits,
        "ring_dim": params.ring_dim,
        "keys": unique,
    }


def problems(trace: Trace) -> Iterator[str]:
    """Every rule of the format that the trace breaks, in words; nothing if it is valid."""
    params = trace.parameters()
    classes = trace.objects["class"].to_pylist()
    object_limbs = trace.objects["limbs"].to_pylist()
    for index, (object_id, cls, size) in enumerate(
        zip(trace.objects["id"].to_pylist(), classes, trace.objects["bytes"].to_pylist(), strict=True)
    ):
        if object_id != index:
            yield f"object row {index}: id {object_id}; ids are 0, 1, 2, …"
        if cls not in OBJECT_CLASSES:
            yield f"object {index}: class '{cls}' is unknown"
        if size < 0:
            yield f"object {index}: {size} bytes"
    made: dict[int, int] = {}
    used: dict[int, int] = {}
    kinds = {kind.value: kind for kind in OpKind}
    for row, op in enumerate(trace.operations.to_pylist()):
        where = f"operation {row} ({op['kind']})"
        if op["id"] != row:
            yield f"operation row {row}: id {op['id']}; ids are 0, 1, 2, …"
        if op["kind"] not in kinds:
            yield f"{where}: unknown kind"
            continue
        if op["origin"] not in (ORIGIN_CALLED, ORIGIN_COMPOSITE, ORIGIN_MODELLED):
            yield f"{where}: unknown origin '{op['origin']}'"
        for name in ("limbs_in", "limbs_out"):
            if not 1 <= op[name] <= params.num_q:
                yield f"{where}: {name} is {op[name]}; the set has 1 to {params.num_q} limbs"
        yield from _key_problems(where, kinds[op["kind"]], op, params.ring_dim)
        for operand in op["operands"]:
            if not 0 <= operand < len(classes):
                yield f"{where}: operand {operand} is no object"
                continue
            used.setdefault(operand, row)
            if classes[operand] not in ("ciphertext", "digits", "extended"):
                yield f"{where}: operand {operand} is a {classes[operand]}"
            elif op["limbs_in"] > object_limbs[operand]:
                yield f"{where}: computes at {op['limbs_in']} limbs, operand {operand} has {object_limbs[operand]}"
        if op["kind"] in _EXTENDED:
            if op["origin"] != ORIGIN_MODELLED:
                yield f"{where}: '{op['origin']}'; this kind is only inside the expansion of a composite"
            yield from _extended_problems(where, op, classes)
        plaintext = op["plaintext"]
        if plaintext is not None and (not 0 <= plaintext < len(classes) or classes[plaintext] != "plaintext"):
            yield f"{where}: plaintext {plaintext} is no plaintext object"
        output = op["output"]
        if output is None:
            if op["kind"] != OpKind.DECRYPT.value:
                yield f"{where}: no output"
        elif not 0 <= output < len(classes):
            yield f"{where}: output {output} is no object"
        else:
            if output in made and op["origin"] != ORIGIN_COMPOSITE:
                yield f"{where}: output {output} was made by operation {made[output]} already"
            if output in used and used[output] <= row and output not in made:
                yield f"{where}: output {output} was used by operation {used[output]} before it was made"
            made.setdefault(output, row)
            if object_limbs[output] != op["limbs_out"]:
                yield f"{where}: output has {object_limbs[output]} limbs, the row says {op['limbs_out']}"
        start, end = op["start_s"], op["end_s"]
        if (start is None) != (end is None) or (start is not None and end < start):
            yield f"{where}: times {start} to {end}"


_EXTENDED = {
    OpKind.EXTEND.value: (("ciphertext",), "extended"),
    OpKind.ADD_EXTENDED.value: (("extended", "extended"), "extended"),
    OpKind.MULT_PLAIN_EXTENDED.value: (("extended",), "extended"),
    OpKind.ROTATE_HOISTED_EXTENDED.value: (("ciphertext", "digits"), "extended"),
    OpKind.DECOMPOSE_EXTENDED.value: (("extended",), "digits"),
    OpKind.ROTATE_EXTENDED.value: (("extended", "digits"), "extended"),
    OpKind.MOD_DOWN.value: (("extended",), "ciphertext"),
}
"""Kinds over Q and P -> classes of their operands and of their result."""


def _extended_problems(where: str, op: dict[str, Any], classes: list[str]) -> Iterator[str]:
    operands, output = _EXTENDED[op["kind"]]
    found = tuple(classes[each] for each in op["operands"] if 0 <= each < len(classes))
    if found != operands:
        yield f"{where}: operands are of classes {', '.join(found) or 'none'}; this kind takes {', '.join(operands)}"
    made = op["output"]
    if made is not None and 0 <= made < len(classes) and classes[made] != output:
        yield f"{where}: output {made} is of class {classes[made]}; this kind makes {output}"


def _key_problems(where: str, kind: OpKind, op: dict[str, Any], ring_dim: int) -> Iterator[str]:
    wanted, key = TRAITS[kind].key, op["key"]
    if wanted is None:
        if key is not None:
            yield f"{where}: reads key '{key}'; this kind reads none"
    elif key is None:
        yield f"{where}: names no key; this kind reads one"
    elif wanted == "rot":
        if not (key.startswith("rot:") and key[4:].isdigit() and int(key[4:]) % 2 == 1):
            yield f"{where}: key '{key}'; a rotation reads rot:<galois_element>, an odd number"
        elif op["step"] is not None and key != rotation_key(op["step"], ring_dim):
            yield f"{where}: key '{key}' does not rotate by {op['step']}"
    elif key != {"relin": RELIN_KEY, "conj": CONJ_KEY}[wanted]:
        yield f"{where}: key '{key}'; this kind reads '{wanted}'"


@dataclass(frozen=True, slots=True)
class Difference:
    """One place in which two traces differ."""

    row: int
    column: str
    left: Any
    right: Any

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
