"""Trees of additions and subtractions, flattened to signed terms; what passes put in their place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.lab.rewriting.program import Op, Program
from penstock.scheme.operations import OpKind


@dataclass(frozen=True, slots=True)
class Term:
    """An object that is added, or subtracted."""

    object_id: int
    negative: bool = False


@dataclass(frozen=True, slots=True)
class SumTree:
    """A sum that no other sum of its kind reads alone."""

    root: int
    """Place of the operation that makes the whole sum."""
    inside: tuple[int, ...]
    """Places of the operations whose results only this sum reads."""
    terms: tuple[Term, ...]


def sum_trees(program: Program) -> Iterator[SumTree]:
    """Every tree of sums, in the order of their roots.

    A sum is part of another where nothing else reads it and automatic scaling does nothing between them.
    """
    uses, makers = program.uses(), program.makers()
    sums = {index for index, op in enumerate(program.ops) if op.kind in (OpKind.ADD, OpKind.SUB) and op.plain_scaling}
    inner: set[int] = set()
    for index in sums:
        for operand in program.ops[index].operands:
            maker = makers.get(operand, -1)
            if maker in sums and joins(program, program.ops[maker], program.ops[index]) and uses[operand] == 1:
                inner.add(maker)
    for root in sorted(sums - inner):
        inside: list[int] = []
        terms: list[Term] = []
        pending = [
            Term(o, n)
            for o, n in zip(reversed(program.ops[root].operands), _signs(program.ops[root], False), strict=True)
        ]
        while pending:
            term = pending.pop()
            maker = makers.get(term.object_id, -1)
            if maker in inner and uses[term.object_id] == 1:
                inside.append(maker)
                op = program.ops[maker]
                pending += [Term(o, n) for o, n in zip(reversed(op.operands), _signs(op, term.negative), strict=True)]
            else:
                terms.append(term)
        yield SumTree(root, tuple(inside), tuple(terms))


def joins(program: Program, before: Op, after: Op) -> bool:
    """Whether `after` may read what `before` read: at its limbs, or at more where surplus limbs simply go."""
    if program.params.scaling.automatic:
        return before.limbs_in == after.limbs_in
    return before.limbs_in >= after.limbs_in


def signed_sum(
    program: Program, terms: Sequence[Term], limbs: int, like: Op, output: int | None = None
) -> tuple[list[Op], Term]:
    """Operations that add `terms` up at `limbs`, in the place of `like`, and the sum as a term.

    It is negative where all terms are.
    With `output` the sum is that object, and positive; then there are two terms at least, or one that is negative.
    """
    ordered = sorted(terms, key=lambda term: term.negative)
    negative = ordered[0].negative
    ops: list[Op] = []
    total = ordered[0].object_id
    for place, term in enumerate(ordered[1:], start=2):
        last = output is not None and not negative and place == len(ordered)
        polynomials = max(program.polynomials(total), program.polynomials(term.object_id))
        made = output if last and output is not None else program.ciphertext(limbs, polynomials)
        kind = OpKind.ADD if term.negative == negative else OpKind.SUB
        ops.append(like.instead(kind, limbs, (total, term.object_id), made))
        total = made
    if output is not None and negative:
        ops.append(like.instead(OpKind.NEGATE, limbs, (total,), output))
        return ops, Term(output)
    return ops, Term(total, negative)


def _signs(op: Op, negative: bool) -> tuple[bool, ...]:
    """Signs of the operands, last first, in a sum that is itself `negative` or not."""
    return (negative != (op.kind is OpKind.SUB), negative)
