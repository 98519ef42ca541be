"""OpenFHE's sum over slots as a circuit."""

from __future__ import annotations

from penstock.program.evaluator.call import Cipher
from penstock.program.evaluator.circuit_evaluator import CircuitEvaluator
from penstock.program.evaluator.circuits.openfhe.extended import Extended


def sum_slots(ev: CircuitEvaluator, a: Cipher, count: int, stride: int = 1) -> Cipher:
    """Each slot becomes the sum of `count` slots, `stride` apart; `count` is a power of two.

    Rotations by 1, 2 and 3 times a power of four, the digits shared; one rotation by half where a factor 2 is left.
    All sums are over Q and P, with one ModDown at the end.
    Checked against OpenFHE 1.6.1 (EvalSum, and the first sum of EvalBootstrap): key switches, decompositions and
    ModDowns by debugger, the steps by the keys that are read.
    """
    if count < 2:
        return a
    wide, step = Extended(ev), 1
    total = wide.extend(a)
    while step < count:
        steps = [step, 2 * step, 3 * step] if 2 * step < count else [step]
        if step == 1:
            terms = wide.rotated(a, [s * stride for s in steps])
        else:
            digits = wide.digits(total)
            terms = [wide.rotate(total, s * stride, digits) for s in steps]
        for term in terms:
            total = wide.add(total, term)
        step *= 4
    return wide.divided(total)
