"""A recorded package, run without cryptography: its states and keys, and whether it keeps the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.program.evaluator.call import Cipher
from penstock.program.evaluator.scaling import ScaleState
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.package.content import Instruction, Package
from penstock.program.package.replay import PackageReplay, blank_inputs, trace_of


class StatedReplay(PackageReplay):
    """A package without cryptography: the state of each result, the keys, and which instruction breaks a rule."""

    def __init__(self, package: Package) -> None:
        self.symbolic = SymbolicEvaluator(package.params)
        super().__init__(self.symbolic, package, blank_inputs(package.inputs))
        self.done = 0
        self._states: list[ScaleState | None] = []

    def results(self, call: Instruction) -> Sequence[Cipher]:
        made = super().results(call)
        self._states.append(made[0].state if made else None)
        self.done += 1
        return made

    def stated(self) -> Package:
        package = self.package
        stated = [call._replace(state=state) for call, state in zip(package.instructions, self._states, strict=True)]
        return replace(package, instructions=stated, keys=trace_of(self.symbolic, package.name).view().key_limbs())
