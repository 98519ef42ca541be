"""What a trace computes, in the clear: the proof that a pass keeps it.

A trace holds no values, so inputs, plaintexts and constants are drawn at random, by the id of the object that they are
or make. Vectors have one entry for each slot, all N/2, and entries are Gaussian integers modulo the prime 2^31 - 1.
Sums and products are exact. Two programs that differ as polynomials of their inputs differ on random inputs, all but
surely (Schwartz, 1980; Zippel, 1979). An operation that is not a polynomial (a mod raise, an unexpanded composite) is a
cube plus a constant, through which no sum and no product moves. Rescaling and dropping limbs leave the values.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

import numpy as np

from penstock.base.arrays import Ints
from penstock.errors import TraceError
from penstock.lab.rewriting.program import Op, Program, galois_step
from penstock.scheme.operations import TRAITS, OpKind, Rules
from penstock.scheme.traces.schema import Trace

PRIME = 2**31 - 1
"""3 modulo 4, so that -1 is not a square and Gaussian integers modulo it are a field; products fit in 63 bits."""


@dataclass(frozen=True, slots=True)
class Vector:
    """(N/2,) Gaussian integers modulo `PRIME`."""

    re: Ints
    im: Ints

    def __add__(self, other: Vector) -> Vector:
        return Vector((self.re + other.re) % PRIME, (self.im + other.im) % PRIME)

    def __sub__(self, other: Vector) -> Vector:
        return Vector((self.re - other.re) % PRIME, (self.im - other.im) % PRIME)

    def __mul__(self, other: Vector) -> Vector:
        # Two products of less than 2^62 each.
        re = self.re * other.re + self.im * (PRIME - other.im)
        im = self.re * other.im + self.im * other.re
        return Vector(re % PRIME, im % PRIME)

    def rotated(self, step: int) -> Vector:
        """By so many slots to the left."""
        return Vector(np.roll(self.re, -step), np.roll(self.im, -step))

    def conjugated(self) -> Vector:
        return Vector(self.re, -self.im % PRIME)

    def equals(self, other: Vector) -> bool:
        return bool(np.array_equal(self.re, other.re) and np.array_equal(self.im, other.im))


MEANINGS: Rules[Callable[..., Vector]] = Rules("meaning", "lab/rewriting/interpret.py", lambda _: False)
"""Kind -> its result, of the operands and a plaintext or a number behind them. Without one no pass moves anything
through the operation."""
_K = OpKind
for _meaning, _kinds in (
    (Vector.__add__, (_K.ADD, _K.ADD_PLAIN, _K.ADD_SCALAR, _K.ADD_EXTENDED)),
    (Vector.__sub__, (_K.SUB, _K.SUB_PLAIN, _K.SUB_SCALAR)),
    (Vector.__mul__, (_K.MULT, _K.MULT_NO_RELIN, _K.MULT_PLAIN, _K.MULT_SCALAR, _K.MULT_PLAIN_EXTENDED)),
    (lambda a: a * a, (_K.SQUARE,)),
    (lambda a: Vector(-a.re % PRIME, -a.im % PRIME), (_K.NEGATE,)),
    (Vector.conjugated, (_K.CONJUGATE,)),
    (lambda a: a, (_K.RELINEARIZE, _K.TO_SPARSE, _K.TO_DENSE, _K.RESCALE, _K.MOD_DROP, _K.EXTEND, _K.MOD_DOWN)),
    (lambda a: a, (_K.DECOMPOSE, _K.DECOMPOSE_EXTENDED)),
):
    MEANINGS.of(*_kinds)(_meaning)


def interpret(trace: Trace, *, seed: int = 0, undecrypted: Set[int] | None = None) -> dict[int, Vector]:
    """The results of a trace: its decrypted objects; without any, `undecrypted`, or else the objects that no operation
    reads.

    Returns: object -> its values.
    Raises: TraceError: the trace breaks a rule of the format, or an operation reads digits of another ciphertext.
    """
    program = Program.of(trace)
    ops = program.ops
    uses = program.uses()
    decrypted = {op.operands[0] for op in ops if op.kind is OpKind.DECRYPT}
    results = decrypted or (program.unread if undecrypted is None else undecrypted)
    clear = _ClearObjects(program, seed)
    outputs: dict[int, Vector] = {}
    for index, op in enumerate(ops):
        for operand in op.operands:
            if operand not in clear.values:
                clear.values[operand] = clear.drawn(operand)
        if op.output is not None:
            clear.values[op.output] = clear.run(index, op)
            if op.output in results:
                outputs[op.output] = clear.values[op.output]
        elif op.operands[0] not in outputs:
            outputs[op.operands[0]] = clear.values[op.operands[0]]
        for operand in op.operands:
            uses[operand] -= 1
        for operand in {*op.operands, *(() if op.output is None else (op.output,))}:
            if not uses[operand]:
                clear.values.pop(operand, None)
    return outputs


def differing_results(left: Trace, right: Trace) -> list[int]:
    """Objects of the results of two traces that differ, or that only one of them has; none where they are equal.

    If nothing is decrypted, the results are the objects that no operation of `left` reads.

    Raises: as `interpret`.
    """
    a = interpret(left)
    b = interpret(right, undecrypted=a.keys())
    return sorted((a.keys() ^ b.keys()) | {key for key in a.keys() & b.keys() if not a[key].equals(b[key])})


class _ClearObjects:
    """Values of objects while a program runs."""

    def __init__(self, program: Program, seed: int) -> None:
        self.program, self.seed = program, seed
        self.length = program.params.ring_dim // 2
        self.values: dict[int, Vector] = {}

    def drawn(self, object_id: int, length: int | None = None) -> Vector:
        """The values of an object that nothing computes."""
        generator = np.random.default_rng((self.seed, object_id))
        both = generator.integers(0, PRIME, (2, self.length if length is None else length))
        return Vector(both[0], both[1])

    def run(self, index: int, op: Op) -> Vector:
        """The result of one operation."""
        output = -1 if op.output is None else op.output
        if op.kind is OpKind.ENCRYPT:
            return self.drawn(output)
        a, *rest = [self.values[operand] for operand in op.operands]
        row = TRAITS[op.kind]
        if op.kind is OpKind.ROTATE or (row.key == "rot" and row.takes[1:] == ("digits",)):
            return self._rotated(index, op, a)
        if row.constants and op.plaintext is not None:
            rest.append(self.drawn(op.plaintext))
        elif row.numbers:
            rest.append(self.drawn(output, 1))
        if op.kind in MEANINGS:
            return MEANINGS[op.kind](a, *rest)
        for other in rest:
            a = a * a * a + other
        a = a * a * a + self.drawn(output, 1)
        return a.rotated(galois_step(op.key, self.program.params.ring_dim)) if row.key == "rot" else a

    def _rotated(self, index: int, op: Op, a: Vector) -> Vector:
        if op.kind is not OpKind.ROTATE and not self.values[op.operands[1]].equals(a):
            raise TraceError(f"operation {index} ({op.kind}): the digits are not those of object {op.operands[0]}")
        return a.rotated(galois_step(op.key, self.program.params.ring_dim))
