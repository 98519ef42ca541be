"""Takes a package to another parameter set: limbs, rescales and steps derived anew from its calls.

A value keeps its levels: the multiplications in sequence that it still carries, limbs less the degree of its scale.
An automatic set rescales by itself, so calls of `rescale` are left out there. At a manual set a product is rescaled
before its first use as a factor; later uses share the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.errors import ParamsError
from penstock.program.evaluator.call import Cipher
from penstock.program.evaluator.protocol import Plain
from penstock.program.evaluator.scaling import ScaleState
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.package.content import SHAPES, Input, Instruction, Package, Verb
from penstock.program.package.replay import PackageReplay, blank_inputs, no_vectors, trace_of
from penstock.scheme.params.ckks import CkksParameters

_FACTORS = {verb for verb, row in SHAPES.items() if row.is_product or row.argument == "series"}
_FACTORS |= {Verb.WEIGHTED_SUM, Verb.BOOTSTRAP}
"""Calls whose operands have the scale of one factor."""
_SUMS = {verb for verb, row in SHAPES.items() if row.takes == ("ciphertext", "ciphertext") and not row.is_product}


def fitted(package: Package, params: CkksParameters) -> CkksParameters:
    """The set with as many slots as the package's: its vectors are packed sparsely where the set has room for more.

    Raises: ParamsError: the set has fewer slots.
    """
    slots = package.params.slots
    if params.slots == slots:
        return params
    if params.slots < slots:
        raise ParamsError(
            f"'{package.name}' packs {slots} values in a ciphertext, and set '{params.name}' has {params.slots} slots: "
            f"take a set of {2 * slots} as ring dimension or more"
        )
    return replace(params, slots=slots, name=f"{params.name}-{slots}-slots")


def derive(package: Package, params: CkksParameters) -> Package:
    """The package at another set of as many slots; constants are shared, and read when they are used.

    Raises: ParamsError: another number of slots (`fitted` makes the set that has it), the program is deeper than the
            set, or refreshes without a bootstrap plan.
    """
    if params == package.params:
        return package
    if params.slots != package.params.slots:
        raise ParamsError(
            f"'{package.name}' packs {package.params.slots} values in a ciphertext, and set '{params.name}' has "
            f"{params.slots} slots: its rotations turn over other vectors there"
        )
    return Derivation(package, params).run()


class _Dry(PackageReplay):
    """Instructions one by one on a symbolic evaluator; constants are not read."""

    def __init__(self, package: Package, inputs: Sequence[Input], params: CkksParameters) -> None:
        changed = replace(package, params=params, inputs=tuple(inputs))
        super().__init__(SymbolicEvaluator(params), changed, blank_inputs(inputs))
        self.made = 0

    def plain(self, number: int) -> Plain:
        if number not in self._plains:
            self._plains[number] = Plain(no_vectors)
        return self._plains[number]

    def add(self, call: Instruction) -> Sequence[Cipher]:
        """The results of one instruction, which get the next numbers."""
        results = self.results(call)
        for result in results:
            self.values[self.made] = result
            self.made += 1
        return results


class Derivation:
    """One package at one set, instruction by instruction; values on both sides by their numbers."""

    def __init__(self, package: Package, params: CkksParameters) -> None:
        self.package, self.params = package, params
        self._same_ring = package.params.ring_dim == params.ring_dim
        self._manual = not params.scaling.automatic
        stated = all(call.state for call in package.instructions if call.verb in (Verb.ENCRYPT, Verb.MOD_DROP))
        self._before = None if stated else _Dry(package, package.inputs, package.params)
        """The package at its own set, where it does not state the levels that are asked for."""
        self._inputs = list(package.inputs)
        self._after = _Dry(package, self._inputs, params)
        self._number: dict[int, int] = {}
        """Value of the package -> value here."""
        self._rescaled: dict[int, int] = {}
        """Product here -> its rescaled value."""
        self._made: list[Instruction] = []

    def run(self) -> Package:
        """The derived package. Raises: as `derive`."""
        package = self.package
        first = 0
        for at, call in enumerate(package.instructions):
            if self._before is not None:
                self._before.add(call)
            try:
                results = self._derived(call, first)
            except ParamsError as error:
                error.args = (f"'{package.name}' at set '{self.params.name}', call {at} ({call.verb}): {error}",)
                raise
            for number, result in enumerate(results):
                self._number[first + number] = result
            first += call.results
        ev = self._after.ev
        assert isinstance(ev, SymbolicEvaluator)
        return replace(
            package,
            params=self.params,
            inputs=tuple(self._inputs),
            instructions=self._made,
            keys=trace_of(ev, package.name).view().key_limbs(),
            noise=None,
        )

    def _derived(self, call: Instruction, first: int) -> Sequence[int]:
        """The numbers of an instruction's results."""
        operands = [self._number[value] for value in call.operands]
        if call.verb is Verb.ENCRYPT:
            return self._encrypted(call, first)
        if call.verb is Verb.RESCALE:
            return [self._rescale(operands[0], call.scope)]
        if call.verb is Verb.MOD_DROP:
            return [self._lowered(operands[0], first, call)]
        if SHAPES[call.verb].argument == "step":
            step = self._step(call.argument)
            if not step:
                return operands[:1]
            call = call._replace(argument=step)
        mixed = call.verb in _SUMS and len({self._state(value).degree for value in operands}) > 1
        if call.verb in _FACTORS or mixed:
            operands = [self._rescale(value, call.scope) for value in operands]
        return self._emit(call._replace(operands=tuple(operands)))

    def _emit(self, call: Instruction) -> list[int]:
        first = self._after.made
        results = self._after.add(call)
        state = results[0].state if call.state is not None and results else None
        self._made.append(call._replace(state=state))
        return list(range(first, first + len(results)))

    def _state(self, value: int) -> ScaleState:
        state: ScaleState = self._after.values[value].state
        return state

    def _levels(self, value: int, call: Instruction) -> int:
        """Levels of the value that an instruction of the package makes, at its own set."""
        state = call.state if self._before is None else self._before.values[value].state
        assert state is not None
        return int(state.limbs - state.degree)

    def _encrypted(self, call: Instruction, first: int) -> Sequence[int]:
        given = self._inputs[call.argument]
        if given.limbs:
            levels = self._levels(first, call)
            limbs = levels + 1 if levels < self.params.depth else 0
            self._inputs[call.argument] = replace(given, limbs=limbs)
            self._after.package = replace(self._after.package, inputs=tuple(self._inputs))
        return self._emit(call)

    def _rescale(self, value: int, scope: int) -> int:
        """The value with the scale of one factor."""
        if not self._manual or self._state(value).degree < 2:
            return value
        if value not in self._rescaled:
            stated = ScaleState(1) if self.package.instructions[0].state is not None else None
            (self._rescaled[value],) = self._emit(Instruction(Verb.RESCALE, (value,), state=stated, scope=scope))
        return self._rescaled[value]

    def _lowered(self, value: int, result: int, call: Instruction) -> int:
        """The value with the levels that `result` has at the package's own set."""
        if self.package.params.scaling.automatic:
            value = self._rescale(value, call.scope)
        state = self._state(value)
        limbs = self._levels(result, call) + (state.degree if self._manual else 1)
        if limbs >= state.limbs:
            return value
        return self._emit(call._replace(operands=(value,), argument=limbs))[0]

    def _step(self, step: int) -> int:
        """A rotation as the package has it, or, in a ring that has other keys, by its one name."""
        if self._same_ring:
            return step
        slots = self.params.slots
        step %= slots
        return step - slots if step > slots // 2 else step
