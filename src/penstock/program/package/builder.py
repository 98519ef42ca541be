"""Builds a package one call at a time: the one way in which recorders make packages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from penstock.program.evaluator.protocol import Values
from penstock.program.evaluator.scaling import ScaleState
from penstock.program.package.content import (
    SHAPES,
    Constants,
    ConstantSink,
    Input,
    Instruction,
    Output,
    Package,
    PackageSeries,
    Scope,
    Verb,
)
from penstock.scheme.params.ckks import CkksParameters


class PackageBuilder:
    """Collects instructions; constants go to `sink` at once, so that they need not be in memory together."""

    def __init__(self, sink: ConstantSink) -> None:
        self._sink = sink
        self._instructions: list[Instruction] = []
        self._inputs: list[Input] = []
        self._outputs: list[Output] = []
        self._scopes = [Scope("", 0)]
        self._scope = 0
        self._series: dict[PackageSeries, int] = {}
        self._values = 0

    @property
    def num_instructions(self) -> int:
        return len(self._instructions)

    @property
    def inputs(self) -> tuple[Input, ...]:
        return tuple(self._inputs)

    @contextmanager
    def open_scope(self, name: str) -> Iterator[None]:
        """Instructions inside are in scope `name`."""
        with self.in_scope(self.new_scope(Scope(name, self._scope))):
            yield

    def new_scope(self, scope: Scope) -> int:
        """The number of a scope that is opened for the first time."""
        self._scopes.append(scope)
        return len(self._scopes) - 1

    @contextmanager
    def in_scope(self, number: int) -> Iterator[None]:
        """Instructions inside are in the scope of that number."""
        outside, self._scope = self._scope, number
        try:
            yield
        finally:
            self._scope = outside

    def constant(self, values: Values) -> int:
        """The number of a vector."""
        return self._sink.add(values)

    def add(
        self,
        verb: Verb,
        operands: Sequence[int] = (),
        *,
        results: int = 1,
        constants: Sequence[int] = (),
        number: complex = 0.0,
        argument: int = 0,
        state: ScaleState | None = None,
    ) -> int:
        """Append one instruction; the number of its (first) result."""
        assert SHAPES[verb].results in (results, -1)
        first, self._values = self._values, self._values + results
        self._instructions.append(
            Instruction(verb, tuple(operands), results, tuple(constants), number, argument, state, self._scope)
        )
        self._added()
        return first

    def _added(self) -> None:
        """An instruction was appended."""

    def encrypt(self, given: Input, state: ScaleState | None = None) -> int:
        """An input; the value that it is."""
        self._inputs.append(given)
        return self.add(Verb.ENCRYPT, argument=len(self._inputs) - 1, state=state)

    def output(self, value: int, wanted: Output) -> int:
        """A value that the client decrypts; the number of the output."""
        self._outputs.append(wanted)
        self.add(Verb.OUTPUT, [value], results=0, argument=len(self._outputs) - 1)
        return len(self._outputs) - 1

    def shorten(self, output: int, length: int) -> None:
        """Fewer values of an output count."""
        self._outputs[output] = replace(self._outputs[output], length=length)

    def series(self, verb: Verb, operand: int, series: PackageSeries, state: ScaleState | None = None) -> int:
        """A Chebyshev or power series of a value."""
        assert SHAPES[verb].argument == "series"
        number = self._series.setdefault(series, len(self._series))
        return self.add(verb, [operand], argument=number, state=state)

    def finish(
        self,
        name: str,
        params: CkksParameters,
        constants: Constants,
        *,
        description: str = "",
        provenance: dict[str, str] | None = None,
        keyed: bool = True,
    ) -> Package:
        """The package; its keys are found by running it without cryptography.

        Args:   keyed: else it is returned as it was collected: nothing is checked, and its keys are not known.
        Raises: ParamsError: the program does not fit the parameters.
        """
        from penstock.program.package.replay import with_keys

        made = Package(
            name=name,
            params=params,
            inputs=tuple(self._inputs),
            outputs=tuple(self._outputs),
            instructions=self._instructions,
            scopes=tuple(self._scopes),
            series=tuple(self._series),
            constants=constants,
            description=description,
            provenance=dict(provenance or {}),
        )
        return with_keys(made) if keyed else made
