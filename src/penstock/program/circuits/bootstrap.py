"""Bootstrapping as a circuit: mod raise, CoeffsToSlots, EvalMod, SlotsToCoeffs, as a `BootstrapPlan` shapes it.

Used symbolically: the bootstrapping of accelerator parameters is the circuit here; for OpenFHE's parameters it is the
expansion of the library's one call, whose own steps are in `penstock.program.circuits.openfhe.bootstrapping`.
Sources: Cheon et al., EUROCRYPT 2018 (ePrint 2018/153); Bossuat et al., EUROCRYPT 2021 (ePrint 2020/1203).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from penstock.errors import ParamsError
from penstock.params.ckks import BootstrapPlan, CkksParameters
from penstock.program.circuits.chebyshev import at_levels, chebyshev_levels, evaluate, rescale_level
from penstock.program.circuits.linear import baby_steps, linear_transform
from penstock.program.circuits.sums import fold
from penstock.program.evaluator import Plain


def stage_radices(slots: int, stages: int) -> list[int]:
    """The radix of each stage of the slot transform, widest last: their product is `slots`.

    >>> stage_radices(2**15, 3), stage_radices(2**14, 3)
    ([32, 32, 32], [16, 32, 32])
    """
    bits = slots.bit_length() - 1
    stages = min(stages, bits)
    base, rest = divmod(bits, stages)
    return [1 << base] * (stages - rest) + [1 << (base + 1)] * rest


def bootstrap_limbs(plan: BootstrapPlan) -> int:
    """Limbs that the circuit consumes from the full chain."""
    degree_levels = chebyshev_levels(plan.chebyshev_degree)
    return (
        plan.cts_stages * plan.cts_limbs
        + (degree_levels + plan.double_angles) * plan.eval_mod_limbs
        + plan.stc_stages * plan.stc_limbs
        + plan.extra_limbs
    )


def bootstrap_circuit(ev: Any, a: Any) -> Any:
    """The refresh of `a` (one ciphertext, few limbs) to the full chain less `bootstrap_limbs`.

    Raises: ParamsError: the chain is shorter than the circuit.
    """
    params: CkksParameters = ev.params
    plan = params.bootstrap
    assert plan is not None
    left = params.num_q - bootstrap_limbs(plan)
    if left < 2:
        raise ParamsError(
            f"bootstrapping consumes {bootstrap_limbs(plan)} limbs and set '{params.name}' has {params.num_q}: "
            "no level would be left; take a longer chain or a smaller plan"
        )
    return library_bootstrap(ev, a) if is_library(params) else _Circuit(ev, plan, left).run(a)


def is_library(params: CkksParameters) -> bool:
    """Whether bootstrapping is OpenFHE's own, whose steps are known one by one."""
    from penstock.program.circuits.openfhe.bootstrapping import can_expand

    return params.library == "openfhe" and can_expand(params)


def library_bootstrap(ev: Any, a: Any) -> Any:
    """OpenFHE's EvalBootstrap, step for step: its rotations, key switches, decompositions, products and rescales."""
    from penstock.program.circuits.openfhe.bootstrapping import BootstrapSetup, bootstrap
    from penstock.program.symbolic import SymbolicEvaluator

    params: CkksParameters = ev.params
    plan = params.bootstrap
    assert plan is not None
    if a.state.limbs - a.state.degree < 1:
        raise ParamsError(
            f"bootstrapping with OpenFHE takes one level of its input, and the ciphertext has none left "
            f"({a.state.limbs} limbs): bootstrap earlier"
        )
    setup = BootstrapSetup(params.slots, (plan.cts_stages, plan.stc_stages))
    # The sums over a sparse packing rotate by more than the slots that the program sees.
    wide = SymbolicEvaluator(replace(params, slots=params.ring_dim // 2), ev.builder)
    refreshed = bootstrap(wide, a, setup)
    # EvalBootstrap leaves a product; where the program rescales, the refresh ends with that rescale.
    return ev.rescale(refreshed)


class _Circuit:
    def __init__(self, ev: Any, plan: BootstrapPlan, left: int) -> None:
        self.ev, self.plan, self.left = ev, plan, left
        self.slots: int = ev.params.slots
        self.sparse = self.slots < ev.params.ring_dim // 2

    def run(self, a: Any) -> Any:
        ev, plan = self.ev, self.plan
        with ev.scope("mod_raise"):
            a = ev.mod_raise(a)
            if self.sparse:
                a = fold(ev, a, ev.params.ring_dim // 2 // self.slots, self.slots)
        radices = stage_radices(self.slots, plan.cts_stages)
        stride = self.slots
        for index, radix in enumerate(reversed(radices)):
            stride //= radix
            with ev.scope("cts"):
                a = self._stage(a, f"cts{index}", radix, stride, plan.cts_limbs)
        with ev.scope("eval_mod"):
            conjugated = ev.conjugate(a)
            parts = [ev.add(a, conjugated)] if self.sparse else [ev.add(a, conjugated), ev.sub(a, conjugated)]
            parts = [self._eval_mod(part) for part in parts]
            a = parts[0] if self.sparse else ev.add(parts[0], parts[1])
        stride = 1
        for index, radix in enumerate(stage_radices(self.slots, plan.stc_stages)):
            with ev.scope("stc"):
                a = self._stage(a, f"stc{index}", radix, stride, plan.stc_limbs)
            stride *= radix
        return at_levels(ev, a, self.left - 1)

    def _stage(self, a: Any, name: str, radix: int, stride: int, level_limbs: int) -> Any:
        """One stage of the slot transform: 2 radix - 1 diagonals, `stride` apart, by BSGS."""
        diagonals = 2 * radix - 1
        baby = baby_steps(diagonals)
        plains = self.ev.builder.shared.setdefault(
            f"bootstrap/{name}", {k: Plain(np.zeros(0), f"{name}[{k}]") for k in range(diagonals)}
        )
        # With few slots the steps of the two ends coincide modulo the slots; the rotation is then the identity.
        total = linear_transform(self.ev, a, plains, stride=stride, offset=-(radix - 1), baby=baby)
        return rescale_level(self.ev, total, level_limbs)

    def _eval_mod(self, a: Any) -> Any:
        """x mod q_0 as a scaled sine: a Chebyshev series of the cosine, then double angles."""
        ev, plan = self.ev, self.plan
        # The sine is odd about its centre, but the shifted cosine that is used has every coefficient.
        a = evaluate(ev, ev.sub(a, 0.25), np.ones(plan.chebyshev_degree + 1), plan.eval_mod_limbs)
        for _ in range(plan.double_angles):
            a = rescale_level(ev, ev.square(a), plan.eval_mod_limbs)
            a = ev.sub(ev.add(a, a), 1.0)
        return a
