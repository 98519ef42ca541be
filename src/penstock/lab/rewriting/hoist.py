"""`hoist`: rotations of one ciphertext by several steps share one digit decomposition.

Source: Halevi & Shoup, CRYPTO 2018 (ePrint 2018/244). Keys and their bytes stay; the ModUps of all but one rotation go,
and the digits are written and read instead.
"""

from __future__ import annotations

from penstock.lab.rewriting.options import RewriteOptions
from penstock.lab.rewriting.program import ROTATIONS, Op, Program
from penstock.scheme.operations import OpKind, rotation_key


def hoist(program: Program, options: RewriteOptions) -> str:
    """Turn rotations of a ciphertext at the same limbs into hoisted ones, where there are two or a decomposition.

    A rotation before the trace's own decomposition stays unchanged.
    """
    unrolled = _unroll(program) if options.unroll else 0
    digits: dict[tuple[int, int], int] = {}
    groups: dict[tuple[int, int], list[int]] = {}
    for index, op in enumerate(program.ops):
        if op.kind is OpKind.DECOMPOSE and op.output is not None:
            digits.setdefault((op.operands[0], op.limbs_in), op.output)
        elif op.kind is OpKind.ROTATE and op.plain_scaling:
            groups.setdefault((op.operands[0], op.limbs_in), []).append(index)
    made_at = program.makers()
    instead: dict[int, list[Op]] = {}
    shared = hoisted = 0
    for (operand, limbs), rotations in groups.items():
        existing = digits.get((operand, limbs))
        if existing is not None:
            rotations = [index for index in rotations if index > made_at[existing]]
        elif len(rotations) < 2:
            continue
        for place, index in enumerate(rotations):
            op = program.ops[index]
            before = []
            if existing is None:
                existing = program.digits(limbs)
                before.append(op.instead(OpKind.DECOMPOSE, limbs, (operand,), existing))
            instead[index] = [*before, op._replace(kind=OpKind.ROTATE_HOISTED, operands=(operand, existing))]
            hoisted += 1
            shared += place == 0
    program.replace_ops(instead)
    text = f"{hoisted} rotations share {shared} decompositions"
    return text if not options.unroll else f"{text}; {unrolled} were unrolled from chains"


def _unroll(program: Program) -> int:
    """Rotate the first ciphertext of a chain instead of the last, and leave out rotations that only led there.

    Returns: how many rotations changed.
    """
    half = program.params.ring_dim // 2
    origin: dict[int, tuple[int, int, int]] = {}  # what a rotation made -> (ciphertext, step, limbs)
    changed = 0
    for index, op in enumerate(program.ops):
        if op.kind not in ROTATIONS or not op.plain_scaling or op.output is None:
            continue
        step = program.step_of(op)
        first, turned, limbs = origin.get(op.operands[0], (op.operands[0], 0, op.limbs_in))
        total = (turned + step + half // 2) % half - half // 2
        if first != op.operands[0] and limbs == op.limbs_in and total:
            key = rotation_key(total, program.params.ring_dim)
            program.ops[index] = op._replace(kind=OpKind.ROTATE, operands=(first,), key=key, step=total)
            changed += 1
        else:
            first, total = op.operands[0], step
        origin[op.output] = first, total, op.limbs_in
    program.drop_unread()
    return changed
