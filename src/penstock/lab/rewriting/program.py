"""A trace taken apart: operations and objects as rows that passes may change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.errors import TraceError
from penstock.scheme.operations import OpKind, rotation_key, rotation_steps
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.builder import rows_to_table
from penstock.scheme.traces.inspect import check_rules
from penstock.scheme.traces.schema import OBJECTS_SCHEMA, OPERATIONS_SCHEMA, ORIGIN_CALLED, Trace, TraceMeta

ROTATIONS = (OpKind.ROTATE, OpKind.ROTATE_HOISTED)
_LEFT_OUT = (*ROTATIONS, OpKind.DECOMPOSE)


class Op(NamedTuple):
    """One operation; its fields match the table of operations."""

    kind: OpKind
    limbs_in: int
    limbs_out: int
    operands: tuple[int, ...]
    output: int | None
    key: str | None = None
    plaintext: int | None = None
    step: int | None = None
    implied_rescales: int = 0
    implied_scalar_mults: int = 0
    scope: str = ""
    origin: str = ORIGIN_CALLED

    def instead(
        self,
        kind: OpKind,
        limbs: int,
        operands: tuple[int, ...],
        output: int | None,
        *,
        limbs_out: int | None = None,
        key: str | None = None,
        step: int | None = None,
    ) -> Op:
        """Another operation in this one's place in the program: its scope and origin."""
        out = limbs if limbs_out is None else limbs_out
        return Op(kind, limbs, out, operands, output, key, None, step, scope=self.scope, origin=self.origin)

    @property
    def plain_scaling(self) -> bool:
        """Whether automatic scaling does nothing inside the call."""
        return not self.implied_rescales and not self.implied_scalar_mults


@dataclass(slots=True)
class Stored:
    """One object: a row of the table of objects without its id, which is its place in the list."""

    cls: str
    name: str | None
    limbs: int
    num_bytes: int


@dataclass(slots=True)
class Program:
    """Operations in their order and the objects that they name. Ids of objects never change; new ones are appended."""

    meta: TraceMeta
    params: CkksParameters
    ops: list[Op]
    objects: list[Stored]
    unread: set[int]
    """Objects that the trace makes and never reads: its results, where nothing is decrypted."""

    @classmethod
    def of(cls, trace: Trace) -> Program:
        """The expanded operations of a trace.

        Raises: TraceError: it breaks a rule of the format.
        """
        check_rules(trace)
        params = trace.parameters()
        objects = [Stored(o["class"], o["name"], o["limbs"], o["bytes"]) for o in trace.objects.to_pylist()]
        ops = []
        for row in trace.view().operations.to_pylist():
            own = {"kind": OpKind(row["kind"]), "operands": tuple(row["operands"])}
            ops.append(Op(**{name: row[name] for name in Op._fields} | own))
        made = {op.output for op in ops if op.output is not None}
        return cls(trace.meta, params, ops, objects, made - {operand for op in ops for operand in op.operands})

    def trace(self, notes: Sequence[str] = ()) -> Trace:
        """The program as a trace. No operation has a time, since it was not run; expanded composites stay expanded."""
        known = {stored.name for stored in self.objects if stored.cls == "key"}
        for key in dict.fromkeys(op.key for op in self.ops):
            if key is not None and key not in known:
                self.objects.append(Stored("key", key, self.params.num_q, 0))
        self._store_keys()
        objects = [(i, o.cls, o.name, o.limbs, o.num_bytes) for i, o in enumerate(self.objects)]
        rows = []
        for number, op in enumerate(self.ops):
            row = {**op._asdict(), "kind": op.kind.value, "id": number}
            rows.append(tuple(row.get(name) for name in OPERATIONS_SCHEMA.names))  # it has no times
        meta = replace(self.meta, params=self.params.to_dict(), reading="trace", notes=(*self.meta.notes, *notes))
        return Trace(meta, rows_to_table(rows, OPERATIONS_SCHEMA), rows_to_table(objects, OBJECTS_SCHEMA))

    def _store_keys(self) -> None:
        """Size the keys' objects in the form of the parameters; a truncated key ends at the most limbs of a use."""
        most: dict[str | None, int] = {}
        for op in self.ops:
            if op.key is not None:
                most[op.key] = max(most.get(op.key, 0), op.limbs_in)
        for stored in self.objects:
            if stored.cls == "key":
                if self.params.key_form.is_truncated:
                    stored.limbs = most.get(stored.name, stored.limbs)
                stored.num_bytes = self.params.stored_key_bytes(stored.limbs, key=stored.name)

    def ciphertext(self, limbs: int, polynomials: int = 2) -> int:
        """A new ciphertext; its id."""
        self.objects.append(Stored("ciphertext", None, limbs, self.params.ciphertext_bytes(limbs, polynomials)))
        return len(self.objects) - 1

    def digits(self, limbs: int) -> int:
        """A new digit decomposition; its id."""
        size = self.params.active_digits(limbs) * self.params.polynomial_bytes(limbs + self.params.num_p)
        self.objects.append(Stored("digits", None, limbs, size))
        return len(self.objects) - 1

    def polynomials(self, object_id: int) -> int:
        """Polynomials of a ciphertext: 3 between a product and its relinearization."""
        stored = self.objects[object_id]
        return round(stored.num_bytes / self.params.polynomial_bytes(stored.limbs))

    def uses(self) -> Counter[int]:
        """The number of uses of each object as an operand."""
        return Counter(operand for op in self.ops for operand in op.operands)

    def makers(self) -> dict[int, int]:
        """Object -> place of the operation that makes it."""
        return {op.output: index for index, op in enumerate(self.ops) if op.output is not None}

    def rotate(self, like: Op, operand: int, step: int, limbs: int, output: int | None = None) -> Op:
        """A rotation by `step` slots in the place of `like`, into a new object unless `output` names one."""
        made = self.ciphertext(limbs) if output is None else output
        key = rotation_key(step, self.params.ring_dim)
        return like.instead(OpKind.ROTATE, limbs, (operand,), made, key=key, step=step)

    def step_of(self, op: Op) -> int:
        """Slots to the left that a rotation turns, in [-N/4, N/4] unless the trace states another number.

        Raises: TraceError: a key that no rotation reads.
        """
        if op.step is not None:
            return op.step
        return galois_step(op.key, self.params.ring_dim)

    def replace_ops(self, instead: Mapping[int, Sequence[Op]]) -> None:
        """Put `instead[i]` in the place of operation i."""
        self.ops = [new for index, op in enumerate(self.ops) for new in instead.get(index, (op,))]

    def drop_unread(self) -> None:
        """Leave out rotations and decompositions that no operation reads any more."""
        wanted = set(self.unread)
        kept: list[Op] = []
        for op in reversed(self.ops):
            if op.kind in _LEFT_OUT and op.output not in wanted:
                continue
            wanted.update(op.operands)
            kept.append(op)
        self.ops = kept[::-1]

    def count(self, kinds: Iterable[OpKind]) -> int:
        """Operations of these kinds."""
        wanted = set(kinds)
        return sum(op.kind in wanted for op in self.ops)

    def num_keys(self) -> int:
        """Different evaluation keys."""
        return len({op.key for op in self.ops if op.key is not None})


def galois_step(key: str | None, ring_dim: int) -> int:
    """Slots to the left that the key `rot:<galois_element>` turns, in (-N/4, N/4].

    Raises: TraceError: no key of a rotation.
    >>> galois_step("rot:5", 1024), galois_step("rot:1", 1024)
    (1, 0)
    """
    element = (key or "").removeprefix("rot:")
    step = rotation_steps(ring_dim).get(int(element)) if element.isdigit() else None
    if step is None:
        raise TraceError(f"key '{key}' turns no slots; a rotation reads rot:<power of 5 modulo 2N>")
    return step
