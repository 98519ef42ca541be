"""`additions`: the sum of one linear map of many ciphertexts is the map of their sum.

Additions read no key, so the map (a rotation, a conjugation, a relinearization) is better done once, after the sum:
rot(a) + rot(b) = rot(a + b), and a b + c d is relinearized once (lazy relinearization). Rescales between a product and
a sum move behind the sum too, to uncover sums of products. Fewer keys are read, at the price of a decomposition that
hoisted rotations had shared, and of sums with three polynomials.

A product by a constant reads no key, and a trace does not hold the constant: such products stay.
"""

from __future__ import annotations

from collections.abc import Hashable

from penstock.lab.rewriting.options import RewriteOptions
from penstock.lab.rewriting.program import ROTATIONS, Op, Program
from penstock.lab.rewriting.sums import SumTree, Term, signed_sum, sum_trees
from penstock.scheme.operations import RELIN_KEY, TRAITS, OpKind

PRODUCTS = (OpKind.MULT, OpKind.SQUARE)


def additions(program: Program, options: RewriteOptions) -> str:
    """Move maps behind sums until none is left to move."""
    before = sum(TRAITS[op.kind].key is not None for op in program.ops)
    while _once(program):
        pass
    program.drop_unread()
    after = sum(TRAITS[op.kind].key is not None for op in program.ops)
    return f"{before - after} of {before} key switches became additions"


def _once(program: Program) -> bool:
    """One round over all trees of sums; whether anything changed."""
    uses, makers = program.uses(), program.makers()
    instead: dict[int, list[Op]] = {}
    for tree in sum_trees(program):
        root = program.ops[tree.root]
        groups: dict[Hashable, list[tuple[Term, int]]] = {}
        for term in tree.terms:
            maker = makers.get(term.object_id)
            if maker is None or uses[term.object_id] != 1:
                continue
            name = _map_of(program, program.ops[maker], root.limbs_in)
            if name is not None:
                groups.setdefault(name, []).append((term, maker))
        shared = [group for group in groups.values() if len(group) > 1]
        if shared:
            _rebuild(program, tree, shared, instead)
    program.replace_ops(instead)
    return bool(instead)


def _map_of(program: Program, op: Op, limbs: int) -> Hashable | None:
    """What must be equal for results of operations to be summed before it; `None` where nothing moves."""
    # Surplus limbs simply go under manual scaling only; three polynomials at other limbs are not summed.
    exact = program.params.scaling.automatic
    if op.kind in PRODUCTS or op.kind is OpKind.RELINEARIZE:
        return (RELIN_KEY, op.limbs_in) if op.limbs_in == limbs or not exact else None
    if not op.plain_scaling or (exact and op.kind is not OpKind.RESCALE and op.limbs_in != limbs):
        return None
    if op.kind in ROTATIONS or op.kind is OpKind.CONJUGATE:
        return (op.key, op.limbs_in)
    if op.kind is OpKind.RESCALE and not exact:
        return (op.kind, op.limbs_in, op.limbs_out, program.polynomials(op.operands[0]))
    return None


def _rebuild(
    program: Program, tree: SumTree, shared: list[list[tuple[Term, int]]], instead: dict[int, list[Op]]
) -> None:
    """Put the sum of a tree together anew, each group of `shared` behind its own sum."""
    root = program.ops[tree.root]
    moved = {term.object_id for group in shared for term, _ in group}
    others = [term for term in tree.terms if term.object_id not in moved]
    ops: list[Op] = []
    terms: list[Term] = []
    for group in shared:
        limbs = program.ops[group[0][1]].limbs_in
        inputs = []
        for term, maker in group:
            op = program.ops[maker]
            instead[maker] = []
            if op.kind in PRODUCTS:
                product, factors = program.ciphertext(limbs, 3), (op.operands * 2)[:2]
                instead[maker] = [op._replace(kind=OpKind.MULT_NO_RELIN, operands=factors, output=product, key=None)]
                inputs.append(Term(product, term.negative))
            else:
                inputs.append(Term(op.operands[0], term.negative))
        inner, total = signed_sum(program, inputs, limbs, root)
        ops += inner
        if all(others.count(term) >= inputs.count(term) for term in inputs):
            # x + y + rot(x) + rot(y) = s + rot(s) with s = x + y: the sum is there already.
            for term in inputs:
                others.remove(term)
            others.append(total)
        ops.append(_mapped(program, program.ops[group[0][1]], total.object_id, root))
        made = ops[-1].output
        assert made is not None
        terms.append(Term(made, total.negative))
    for index in tree.inside:
        instead[index] = []
    terms += others
    if len(terms) == 1 and not terms[0].negative:
        ops += _last_drop(program, ops, root)
    else:
        ops += signed_sum(program, terms, root.limbs_in, root, root.output)[0]
    instead[tree.root] = ops


def _mapped(program: Program, op: Op, operand: int, root: Op) -> Op:
    """The map that `op` is, of another object, in the place of `root`."""
    if op.kind in PRODUCTS or op.kind is OpKind.RELINEARIZE:
        made = program.ciphertext(op.limbs_in)
        return root.instead(OpKind.RELINEARIZE, op.limbs_in, (operand,), made, key=RELIN_KEY)
    made = program.ciphertext(op.limbs_out, program.polynomials(operand))
    kind = OpKind.ROTATE if op.kind in ROTATIONS else op.kind
    return root.instead(kind, op.limbs_in, (operand,), made, limbs_out=op.limbs_out, key=op.key, step=op.step)


def _last_drop(program: Program, ops: list[Op], root: Op) -> list[Op]:
    """Give the one operation that is left the output of the sum; where the sum was at fewer limbs, drop the surplus."""
    last = ops[-1]
    if last.limbs_out == root.limbs_out:
        ops[-1] = last._replace(output=root.output)
        return []
    assert last.output is not None
    return [root.instead(OpKind.MOD_DROP, last.limbs_out, (last.output,), root.output, limbs_out=root.limbs_out)]
