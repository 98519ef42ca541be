"""OpenFHE's sum over slots as a circuit."""

from __future__ import annotations

from penstock.program.recording import Cipher
from penstock.program.symbolic import SymbolicEvaluator


def sum_slots(ev: SymbolicEvaluator, a: Cipher, count: int, stride: int = 1) -> Cipher:
    """Each slot becomes the sum of `count` slots, `stride` apart; `count` is a power of two.

    Rotations by 1, 2 and 3 times a power of four, the digits shared; one rotation by half where a factor 2 is left.
    Checked against OpenFHE 1.6.1 (EvalSum, and the first sum of EvalBootstrap): key switches and decompositions by
    debugger, the steps by the keys that are read.
    """
    step = 1
    while step < count:
        steps = [step, 2 * step, 3 * step] if 2 * step < count else [step]
        for term in ev.rotate_many(a, [s * stride for s in steps]):
            a = ev.add(a, term)
        step *= 4
    return a
