"""Runs a package on an evaluator: each instruction is one call, so that every reading runs packages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np

from penstock.errors import EvaluationRefused, ParamsError, UsageError
from penstock.program.evaluator.protocol import Ciphertext, Evaluator, Plain, Values
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.package.content import SHAPES, Input, Instruction, Package, Verb, scope_moves
from penstock.scheme.traces.schema import Trace, TraceMeta


def run_package(ev: Evaluator, package: Package, inputs: Mapping[str, Values]) -> dict[str, Values]:
    """The outputs of a program by name, each of shape (length,).

    Args:   inputs: a vector for each input, by name, of its length.
    Raises: UsageError: an input is missing, unknown or of another shape; as the evaluator.
    """
    return PackageReplay(ev, package, checked_inputs(package, inputs)).run()


def checked_inputs(package: Package, inputs: Mapping[str, Values]) -> dict[str, Values]:
    """The inputs as vectors, each checked.

    Raises: UsageError: an input is missing, unknown, of another shape, or no numbers.
    """
    wanted = {vector.name: vector for vector in package.inputs}
    if unknown := [name for name in inputs if name not in wanted]:
        raise UsageError(f"'{package.name}' has no input '{unknown[0]}'; it has {', '.join(wanted) or 'none'}")
    if missing := [name for name in wanted if name not in inputs]:
        raise UsageError(f"'{package.name}' needs input '{missing[0]}', {wanted[missing[0]].length} values: give it")
    return {name: _checked_input(package.name, vector, inputs[name]) for name, vector in wanted.items()}


def _checked_input(package: str, wanted: Input, values: Values) -> Values:
    vector = np.asarray(values)
    where = f"input '{wanted.name}' of '{package}'"
    if vector.shape != (wanted.length,):
        raise UsageError(f"{where} has shape {vector.shape}; it takes ({wanted.length},)")
    if vector.dtype.kind not in "biufc":
        raise UsageError(f"{where} has type {vector.dtype}; it takes numbers")
    if not np.all(np.isfinite(vector)):
        raise UsageError(f"{where} has values that are not finite")
    if vector.dtype.kind == "c" and not wanted.is_complex and np.any(vector.imag):
        raise UsageError(f"{where} has imaginary parts; it takes real values")
    return vector if wanted.is_complex or vector.dtype.kind != "c" else vector.real


class PackageReplay:
    """One run. Values are dropped after their last use."""

    def __init__(self, ev: Evaluator, package: Package, inputs: Mapping[str, Values]) -> None:
        self.ev, self.package, self.inputs = ev, package, inputs
        self.values: dict[int, Ciphertext] = {}
        self.outputs: dict[str, Values] = {}
        self._plains: dict[int, Plain] = {}
        self._uses = Counter(number for call in package.instructions for number in call.constants)
        # Rotations keep the step that the program names: other steps have other keys.
        ev.turns = package.params.ring_dim // 2 if package.params.ring_dim == ev.params.ring_dim else None

    def run(self) -> dict[str, Values]:
        package, made, scope, entered_up_to = self.package, 0, 0, 0
        opened: list[ExitStack] = []
        try:
            for at, freed in enumerate(package.last_uses()):
                call = package.instructions[at]
                # Scopes without an instruction are entered too, since repeated names are numbered.
                for new in range(entered_up_to + 1, call.scope):
                    self._move(opened, scope, new)
                    scope = new
                if call.scope != scope:
                    self._move(opened, scope, call.scope)
                    scope = call.scope
                entered_up_to = max(entered_up_to, scope)
                for number, value in enumerate(self._named(at, call)):
                    self.values[made + number] = value
                made += call.results
                for value in freed:
                    del self.values[value]
        finally:
            while opened:
                opened.pop().close()
        return self.outputs

    def _named(self, at: int, call: Instruction) -> Sequence[Ciphertext]:
        """The results of an instruction, whose errors say which it is."""
        try:
            return self.results(call)
        except (ParamsError, EvaluationRefused) as error:
            if not hasattr(error, "instruction"):
                error.args = (f"'{self.package.name}', instruction {at} ({call.verb}): {error}",)
                vars(error)["instruction"] = at
            raise

    def _move(self, opened: list[ExitStack], before: int, after: int) -> None:
        """Leave and enter scopes."""
        left, entered = scope_moves(self.package.scopes, before, after)
        for _ in range(left):
            opened.pop().close()
        for inner in entered:
            stack = ExitStack()
            stack.enter_context(self.ev.scope(self.package.scopes[inner].name))
            opened.append(stack)

    def plain(self, number: int) -> Plain:
        """A constant, read when it is encoded; one that is used again stays."""
        known = self._plains.get(number)
        if known is None:
            constants = self.package.constants
            known = self.ev.encode(lambda: constants.values(number))
            if self._uses[number] > 1:
                self._plains[number] = known
        return known

    def results(self, call: Instruction) -> Sequence[Ciphertext]:
        """What one instruction makes."""
        if call.verb is Verb.OUTPUT:
            wanted = self.package.outputs[call.argument]
            self.outputs[wanted.name] = self.ev.decrypt(self.values[call.operands[0]])[: wanted.length]
            return ()
        if call.verb is Verb.BOOTSTRAP:
            operands = [self.values[value] for value in call.operands]
            slots = call.argument or None
            return (
                [self.ev.bootstrap(operands[0], slots)]
                if len(operands) == 1
                else self.ev.bootstrap_many(operands, slots)
            )
        row, operands = SHAPES[call.verb], [self.values[value] for value in call.operands]
        if call.verb in _OWN_CALLS:
            return [_OWN_CALLS[call.verb](self, call, *operands)]
        arguments = [*operands, *(self.plain(number) for number in call.constants)]
        if row.numbers:
            arguments.append(_number(call))
        if row.argument != "none":
            arguments.append(call.argument)
        # A sum or a product is one method, whatever its second operand is.
        return [getattr(self.ev, call.verb.removesuffix("_plain").removesuffix("_scalar"))(*arguments)]

    def encrypt(self, call: Instruction) -> Ciphertext:
        given = self.package.inputs[call.argument]
        fresh = self.ev.encrypt(self.inputs[given.name], name=given.name)
        return self.ev.mod_drop(fresh, given.limbs) if given.limbs else fresh

    def weighted_sum(self, call: Instruction, *terms: Ciphertext) -> Ciphertext:
        return self.ev.weighted_sum(terms, [self.plain(number) for number in call.constants])

    def series(self, call: Instruction, a: Ciphertext) -> Ciphertext:
        series = self.package.series[call.argument]
        if call.verb is Verb.POLYNOMIAL:
            return self.ev.polynomial(a, series.coefficients)
        return self.ev.chebyshev_series(a, series.coefficients, series.lower, series.upper)


def _number(call: Instruction) -> complex:
    return call.number if call.number.imag else call.number.real


_OWN_CALLS: dict[Verb, Callable[..., Ciphertext]] = {
    Verb.ENCRYPT: PackageReplay.encrypt,
    Verb.SCALAR_SUB: lambda run, call, a: run.ev.sub(_number(call), a),
    Verb.CHEBYSHEV: PackageReplay.series,
    Verb.POLYNOMIAL: PackageReplay.series,
    Verb.WEIGHTED_SUM: PackageReplay.weighted_sum,
}
"""Calls that the table of operations does not describe."""


def no_vectors() -> Values:
    """For plaintexts of the symbolic reading, which reads no vectors."""
    raise AssertionError("the symbolic reading reads no vectors")


def trace_package(package: Package, on_add: Callable[[int], None] | None = None) -> Trace:
    """The trace of a package at its parameters, without cryptography. `on_add`: hears of each row."""
    ev = SymbolicEvaluator(package.params)
    ev.builder.on_add = on_add
    run_package(ev, package, blank_inputs(package.inputs))
    return trace_of(ev, package.name)


def trace_of(ev: SymbolicEvaluator, program: str) -> Trace:
    """What an evaluator has recorded of a program."""
    return ev.builder.finish(TraceMeta(workload=program, params=ev.params.to_dict(), reading="trace"))


def blank_inputs(inputs: Iterable[Input]) -> dict[str, Values]:
    """Zeros for a run without cryptography."""
    return {vector.name: np.zeros(vector.length) for vector in inputs}


def with_keys(package: Package) -> Package:
    """The package with the keys that it needs, each up to its highest limbs."""
    return replace(package, keys=trace_package(package).view().key_limbs())
