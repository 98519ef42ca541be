"""`min-ks`: rotations by many steps become repeated rotations by few, so that few keys are enough.

Three shapes, in this order:
 - *fan-out*: x rotated by r m_1, r m_2, … becomes the chain x -> r -> 2 r -> …, each result kept (baby steps);
 - *sums*: rot(y_1, r) + rot(y_2, 2 r) + … becomes Horner's rule: turn, add, turn, add (giant steps);
 - *lone rotations* by a small multiple of a step whose key is there anyway are repeated.
A chain takes no part in hoisting, since each rotation has another operand: fewer unique bytes of keys, more work. All
of it is kept only where the whole program reads fewer keys in the end.
Source: Kim et al., "ARK", MICRO 2022 (arXiv 2205.00922), section on minimum key-switching.
"""

from __future__ import annotations

from collections import defaultdict
from math import gcd

from penstock.lab.rewriting.options import RewriteOptions
from penstock.lab.rewriting.program import ROTATIONS, Op, Program
from penstock.lab.rewriting.sums import SumTree, Term, signed_sum, sum_trees
from penstock.scheme.operations import rotation_key


def min_ks(program: Program, options: RewriteOptions) -> str:
    """Rewrite groups of rotations where the chain is at most `stretch` times as long, if fewer keys are then read."""
    keys, rotations = program.num_keys(), program.count(ROTATIONS)
    ops, num_objects = program.ops, len(program.objects)
    _fan_outs(program, options.stretch)
    _sums(program, options.stretch)
    if options.repeats > 1:
        _lone(program, options.repeats)
    program.drop_unread()
    if program.num_keys() >= keys:
        program.ops = ops
        del program.objects[num_objects:]
        return f"no chains were found with which the program reads fewer than {keys} keys"
    return f"{program.num_keys()} instead of {keys} keys, {program.count(ROTATIONS)} instead of {rotations} rotations"


def _chain(steps: set[int], stretch: float) -> int | None:
    """The step of the chain that reaches all `steps`; `None` where it is too long or saves no key."""
    if len(steps) < 2 or 0 in steps:
        return None
    unit = gcd(*steps)
    up, down = max(0, *steps) // unit, max(0, *(-step for step in steps)) // unit
    if up + down > stretch * len(steps) or (up > 0) + (down > 0) >= len(steps):
        return None
    return unit


def _fan_outs(program: Program, stretch: float) -> None:
    """Rotations of one ciphertext."""
    groups: dict[tuple[int, int], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for index, op in enumerate(program.ops):
        if op.kind in ROTATIONS and op.plain_scaling:
            groups[op.operands[0], op.limbs_in][program.step_of(op)].append(index)
    instead: dict[int, list[Op]] = {}
    for (operand, limbs), by_step in groups.items():
        unit = _chain(set(by_step), stretch)
        if unit is None:
            continue
        first = min(place for places in by_step.values() for place in places)
        chain: list[Op] = []
        for places in by_step.values():
            instead.update((place, []) for place in places)
        for sign in (1, -1):
            at, step = operand, 0
            while any((other - step) * sign > 0 for other in by_step):
                step += sign * unit
                # What the program rotated twice it rotates twice still.
                for output in [program.ops[place].output for place in by_step.get(step, ())] or [None]:
                    chain.append(program.rotate(program.ops[first], at, sign * unit, limbs, output))
                assert chain[-1].output is not None
                at = chain[-1].output
        instead[first] = chain
    program.replace_ops(instead)


def _sums(program: Program, stretch: float) -> None:
    """Summed rotations, each of a different ciphertext."""
    uses, makers = program.uses(), program.makers()
    instead: dict[int, list[Op]] = {}
    for tree in sum_trees(program):
        limbs = program.ops[tree.root].limbs_in
        exact = program.params.scaling.automatic
        by_step: dict[int, list[int]] = defaultdict(list)
        for term in tree.terms:
            maker = makers.get(term.object_id, -1)
            if maker < 0 or uses[term.object_id] != 1 or term.negative:
                continue
            op = program.ops[maker]
            if op.kind in ROTATIONS and op.plain_scaling and (op.limbs_in == limbs or not exact):
                by_step[program.step_of(op)].append(maker)
        for sign in (1, -1):
            side = {step: places for step, places in by_step.items() if step * sign > 0}
            unit = _chain(set(side), stretch)
            if unit is not None:
                _horner(program, tree, side, sign * unit, instead)
                break  # one chain a tree: rotations to the other side stay as they are
    program.replace_ops(instead)


def _horner(
    program: Program, tree: SumTree, side: dict[int, list[int]], unit: int, instead: dict[int, list[Op]]
) -> None:
    """Replace a tree by the sum of its other terms and one chain."""
    root = program.ops[tree.root]
    limbs = root.limbs_in
    moved = {program.ops[place].output for places in side.values() for place in places}
    ops: list[Op] = []
    total: Term | None = None
    for step in range(max(side, key=abs), 0, -unit):
        terms = [Term(program.ops[place].operands[0]) for place in side.get(step, ())]
        if total is not None:
            terms.append(total)
        inner, total = signed_sum(program, terms, limbs, root)
        ops += inner
        turned = program.rotate(root, total.object_id, unit, limbs)
        ops.append(turned)
        assert turned.output is not None
        total = Term(turned.output)
    assert total is not None
    rest = [total, *(term for term in tree.terms if term.object_id not in moved)]
    if len(rest) == 1:
        ops[-1] = ops[-1]._replace(output=root.output)
    else:
        ops += signed_sum(program, rest, limbs, root, root.output)[0]
    for place in (*tree.inside, *(place for places in side.values() for place in places)):
        instead[place] = []
    instead[tree.root] = ops


def _lone(program: Program, repeats: int) -> None:
    """Rotations by a small multiple of a step that is kept, where nothing else reads the key of the multiple."""
    held = {op.key for op in program.ops if op.kind not in ROTATIONS or not op.plain_scaling}
    steps = {program.step_of(op): op.key for op in program.ops if op.kind in ROTATIONS}
    kept: set[int] = set()
    base: dict[int, int] = {}
    for step in sorted(steps, key=lambda step: (abs(step), step)):
        for times in range(2, repeats + 1):
            if step and steps[step] not in held and step % times == 0 and step // times in kept:
                base[step] = times
                break
        else:
            kept.add(step)
    instead: dict[int, list[Op]] = {}
    for index, op in enumerate(program.ops):
        if op.kind not in ROTATIONS:
            continue
        step = program.step_of(op)
        if step not in base:
            continue
        part = step // base[step]
        first = op._replace(
            key=rotation_key(part, program.params.ring_dim), step=part, output=program.ciphertext(op.limbs_in)
        )
        chain = [first]
        for place in range(1, base[step]):
            last = place == base[step] - 1
            operand = chain[-1].output
            assert operand is not None
            chain.append(program.rotate(op, operand, part, op.limbs_in, op.output if last else None))
        instead[index] = chain
    program.replace_ops(instead)
