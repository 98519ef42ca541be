"""Bootstrapping as a circuit: mod raise, CoeffsToSlots, EvalMod, SlotsToCoeffs, as a `BootstrapPlan` shapes it.

The circuit computes: on plain vectors that stand for polynomials it removes the multiples of q_0 that the mod raise
adds. It is the bootstrapping of accelerator parameters; for OpenFHE's parameters the expansion of the library's one
call is taken, whose own steps are in `penstock.program.evaluator.circuits.openfhe.bootstrapping`.

Values that repeat with a period of n slots belong to a polynomial in a subring. The mod raise leaves the subring; a sum
over log2(N / 2n) rotations leads back. The transforms are those of n slots, and the two real halves of the coefficients
share one ciphertext, so EvalMod runs once.
Sources: Cheon et al., EUROCRYPT 2018 (ePrint 2018/153); Bossuat et al., EUROCRYPT 2021 (ePrint 2020/1203); Chen & Han,
EUROCRYPT 2018 (ePrint 2018/067), for the order that begins with SlotsToCoeffs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, replace

from penstock.errors import ParamsError
from penstock.program.evaluator.call import Cipher
from penstock.program.evaluator.circuit_evaluator import CircuitEvaluator
from penstock.program.evaluator.circuits.eval_mod import eval_mod, eval_mod_levels
from penstock.program.evaluator.circuits.openfhe.bootstrapping import BootstrapSetup, bootstrap, can_expand, sine_of
from penstock.program.evaluator.circuits.openfhe.stages import FEW_KEYS
from penstock.program.evaluator.circuits.slot_transform import apply_stage, stages_of
from penstock.program.evaluator.circuits.sums import fold
from penstock.program.evaluator.protocol import Ciphertext, InnerEvaluator
from penstock.scheme.params.ckks import BootstrapPlan, CkksParameters

MESSAGE_BITS = 5
"""log2 of q_0 over the scale, where the circuit computes on plain vectors: values up to 1 are small against q_0."""

SINE_FACTOR = 2.0**MESSAGE_BITS / (2 * math.pi)
"""From the sine of a value over q_0 to the value."""


def bootstrap_limbs(plan: BootstrapPlan) -> int:
    """Limbs that the circuit consumes from the full chain."""
    limbs = plan.cts_stages * plan.cts_limbs + eval_mod_levels(plan) * plan.eval_mod_limbs + plan.extra_limbs
    return limbs if plan.order == "stc-first" else limbs + plan.stc_stages * plan.stc_limbs


def input_levels(params: CkksParameters) -> int:
    """Levels that bootstrapping takes of its input, before it raises the modulus."""
    plan = params.bootstrap
    first = plan.stc_stages * plan.stc_limbs if plan is not None and plan.order == "stc-first" else 0
    return first + (params.library == "openfhe")


def refreshed_levels(params: CkksParameters) -> int:
    """Levels of a refreshed ciphertext, by the plan; OpenFHE's own degrees may leave another number.

    Raises: ParamsError: no plan, or a chain that is shorter than the circuit.
    """
    return _limbs_left(params) - 1


def _limbs_left(params: CkksParameters) -> int:
    plan = params.bootstrap
    if plan is None:
        raise ParamsError(
            f"the program needs bootstrapping, and parameter set '{params.name}' has none: take a set with a bootstrap "
            "plan ('penstock params list'), or a smaller size of the program if one has fewer levels"
        )
    left = params.num_q - bootstrap_limbs(plan)
    if left < 2:
        raise ParamsError(
            f"bootstrapping consumes {bootstrap_limbs(plan)} limbs and set '{params.name}' has {params.num_q}: "
            "no level would be left; take a longer chain or a smaller plan"
        )
    return left


def bootstrap_circuit(ev: InnerEvaluator, a: Ciphertext, slots: int | None = None) -> Ciphertext:
    """The refresh of `a` (one ciphertext, few limbs) to the full chain less `bootstrap_limbs`.

    Args:   slots: the period of the values; all slots if omitted.
    Raises: ParamsError: the chain is shorter than the circuit.
    """
    params: CkksParameters = ev.params
    left = _limbs_left(params)
    slots = params.slots if slots is None else slots
    if is_library(params):
        assert isinstance(ev, CircuitEvaluator)
        return library_bootstrap(ev, a, slots)
    assert params.bootstrap is not None
    return _Circuit(ev, params.bootstrap, slots, left).run(a)


def scope_name(params: CkksParameters, slots: int) -> str:
    """The name of a bootstrapping's scope in traces: it says the slots where they are not all of them."""
    return "bootstrap" if slots == params.slots else f"bootstrap-{slots}"


def slots_in(params: CkksParameters, scopes: Iterable[str]) -> set[int]:
    """The slots of the bootstrappings whose scopes these are.

    >>> from penstock.scheme.params import catalogue
    >>> sorted(slots_in(catalogue.get("sharp"), ["iteration[0]/bootstrap-512[0]", "bootstrap[1]"]))
    [512, 32768]
    """
    names = (scope.rpartition("/")[2].partition("[")[0] for scope in scopes)
    return {params.slots if name == "bootstrap" else int(name.removeprefix("bootstrap-")) for name in names}


def with_few_keys(params: CkksParameters) -> CkksParameters:
    """The parameters, with a bootstrapping that needs few keys: the set of the `native` reading. A plan that says so
    already keeps its sine; any other takes the library's.

    >>> from penstock.scheme.params import catalogue
    >>> with_few_keys(catalogue.get("openfhe-bootstrap")).bootstrap.rotations
    'few-keys'
    """
    plan = params.bootstrap
    if plan is None or not is_library(params) or plan.rotations == FEW_KEYS:
        return params
    return replace(params, bootstrap=replace(plan, rotations=FEW_KEYS, **asdict(sine_of(params))))


def is_library(params: CkksParameters) -> bool:
    """Whether bootstrapping is OpenFHE's own, whose steps are known one by one."""
    return params.library == "openfhe" and can_expand(params)


def is_abreast(params: CkksParameters) -> bool:
    """Whether several ciphertexts are refreshed side by side: by our own circuits, not by OpenFHE's one call."""
    if params.library != "openfhe":
        return True
    return is_library(params) and params.bootstrap is not None and params.bootstrap.rotations == FEW_KEYS


def library_bootstrap(ev: CircuitEvaluator, a: Cipher, slots: int) -> Cipher:
    """OpenFHE's EvalBootstrap, step for step: its rotations, key switches, decompositions, products and rescales.

    Where the plan says `few-keys`, the same with other steps in the transforms.
    """
    params: CkksParameters = ev.params
    plan = params.bootstrap
    assert plan is not None
    slots_last, few_keys = plan.order == "stc-first", plan.rotations == FEW_KEYS
    if slots_last and not few_keys:
        raise ParamsError(
            f"bootstrap.order 'stc-first' of set '{params.name}': OpenFHE's own bootstrapping ends with SlotsToCoeffs; "
            "take rotations 'few-keys', for penstock's evaluator, or order 'stc-last'"
        )
    stages, baby_steps = (plan.cts_stages, plan.stc_stages), (plan.baby_steps, plan.baby_steps)
    setup = BootstrapSetup(slots, stages, baby_steps, few_keys=few_keys, slots_last=slots_last)
    needed = 1 + (min(plan.stc_stages, slots.bit_length() - 1) if slots_last else 0)
    if a.state.limbs - a.state.degree < needed:
        levels = f"{needed} levels" if needed > 1 else "one level"
        raise ParamsError(
            f"bootstrapping with OpenFHE takes {levels} of its input, and the ciphertext has "
            f"{a.state.limbs - a.state.degree or 'none'} left ({a.state.limbs} limbs): bootstrap earlier"
        )
    # The sums over a sparse packing rotate by more than the slots that the program sees.
    wide = ev.sibling(replace(params, slots=params.ring_dim // 2))
    refreshed = bootstrap(wide, a, setup)
    # EvalBootstrap leaves a product; where the program rescales, the refresh ends with that rescale.
    return refreshed if refreshed.state.degree == 1 else ev.rescale(refreshed)


class _Circuit:
    """One bootstrapping of values with a period of `slots`."""

    def __init__(self, ev: InnerEvaluator, plan: BootstrapPlan, slots: int, left: int) -> None:
        self.ev, self.plan, self.slots, self.left = ev, plan, slots, left
        self.copies: int = ev.params.ring_dim // 2 // slots
        self.slots_last = plan.order == "stc-first"
        self.halves = self.copies > 1 and not self.slots_last
        """Whether real and imaginary parts lie one behind the other in 2n slots."""

    def run(self, a: Ciphertext) -> Ciphertext:
        ev = self.ev
        a = self._from_slots(a) if self.slots_last else self._to_slots(a)
        return ev.lowered(a, self.left - 1)

    def _to_slots(self, a: Ciphertext) -> Ciphertext:
        """CoeffsToSlots, EvalMod, SlotsToCoeffs."""
        ev, plan = self.ev, self.plan
        a, lead = self._encode(self._raised(a), 0)
        with ev.scope("eval_mod"):
            conjugated = ev.conjugate(a)
            real = eval_mod(ev, ev.add(a, conjugated), plan)
            if self.halves:
                a = real
            else:
                # Minus i times the difference, and i times its sine.
                imaginary = eval_mod(ev, ev.mult_by_i(ev.sub(conjugated, a)), plan)
                a = ev.add(real, ev.mult_by_i(imaginary))
        a, lead = self._decode(a, lead, SINE_FACTOR)
        if self.halves:
            with ev.scope("stc"):
                a = ev.add(a, ev.rotate(a, self.slots))
        return self._turned_back(a, lead)

    def _from_slots(self, a: Ciphertext) -> Ciphertext:
        """SlotsToCoeffs at few limbs, CoeffsToSlots, EvalMod of the real part: for real values."""
        ev, plan = self.ev, self.plan
        needed = input_levels(ev.params)
        if ev.levels(a) < needed:
            raise ParamsError(
                f"bootstrapping that begins with SlotsToCoeffs takes {needed} levels of its input, and the ciphertext "
                f"has {ev.levels(a)} left: bootstrap earlier"
            )
        a, lead = self._decode(ev.lowered(a, needed), 0, 1.0)
        a, lead = self._encode(self._raised(a), lead)
        with ev.scope("eval_mod"):
            a = eval_mod(ev, ev.add(a, ev.conjugate(a)), plan)
            a = ev.scaled(a, SINE_FACTOR)
        return self._turned_back(a, lead)

    def _raised(self, a: Ciphertext) -> Ciphertext:
        """On the full chain, in the subring of the values' period."""
        ev = self.ev
        with ev.scope("mod_raise"):
            return fold(ev, ev.mod_raise(ev.lowered(a, 0)), self.copies, self.slots)

    def _encode(self, a: Ciphertext, lead: int) -> tuple[Ciphertext, int]:
        """Half of the coefficients over K q_0, and how far they are rotated to the left."""
        # The sum over the copies multiplies by their number, the sum with the conjugate by two.
        factor = 1 / (2 * self.copies * 2.0**MESSAGE_BITS * self.plan.sine_range)
        return self._stages(a, "cts", self.plan.cts_stages, self.plan.cts_limbs, factor, lead)

    def _decode(self, a: Ciphertext, lead: int, factor: float) -> tuple[Ciphertext, int]:
        return self._stages(a, "stc", self.plan.stc_stages, self.plan.stc_limbs, factor, lead)

    def _stages(
        self, a: Ciphertext, name: str, count: int, level_limbs: int, factor: float, lead: int
    ) -> tuple[Ciphertext, int]:
        min_ks = self.plan.rotations == "min-ks"
        stages = stages_of(self.slots, count, decode=name == "stc", halves=self.halves, factor=factor, lead=lead)
        for index, stage in enumerate(stages):
            with self.ev.scope(name):
                a = apply_stage(self.ev, a, stage, f"{name}{index}", min_ks=min_ks, level_limbs=level_limbs)
        return a, stages[-1].shift

    def _turned_back(self, a: Ciphertext, lead: int) -> Ciphertext:
        return self.ev.rotate(a, -lead)
