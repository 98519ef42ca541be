"""What a program package holds, in memory: instructions, constants, inputs, outputs and the parameter set.

An instruction is one call of `penstock.program.evaluator.protocol.Evaluator`. Values are numbered in the
order in which instructions make them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from penstock.errors import PenstockError
from penstock.program.evaluator.protocol import Values
from penstock.program.evaluator.scaling import ScaleState
from penstock.scheme.operations import Verb as Verb
from penstock.scheme.operations import operations
from penstock.scheme.params.ckks import CkksParameters


class PackageError(PenstockError):
    """A program package that cannot be read, or whose content breaks a rule of the format."""


SHAPES = {verb: operations()[verb.value] for verb in Verb}
"""Operands, results, constants and numbers of each verb, from the table of operations."""


class Instruction(NamedTuple):
    """One call. A tuple, since a program has tens of thousands."""

    verb: Verb
    operands: tuple[int, ...] = ()
    """Numbers of values that earlier instructions made."""
    results: int = 1
    constants: tuple[int, ...] = ()
    """Numbers of constants, encoded where they are used."""
    number: complex = 0.0
    argument: int = 0
    state: ScaleState | None = None
    """Of the (first) result, where the program was recorded; `None`: not stated."""
    scope: int = 0
    """The scope that it is in."""


@dataclass(frozen=True, slots=True)
class Scope:
    """One opening of a scope. Scope 0 is the program; every other one lies in an earlier one."""

    name: str
    parent: int


@dataclass(frozen=True, slots=True)
class PackageSeries:
    """Coefficients, lowest first: of Chebyshev polynomials over an interval (c_0 counts half), or of powers."""

    coefficients: tuple[float, ...]
    lower: float = -1.0
    upper: float = 1.0


@dataclass(frozen=True, slots=True)
class Input:
    """A vector that the client encrypts."""

    name: str
    length: int
    """Values, at most the slots of the set; zeros follow."""
    limbs: int = 0
    """At which it is encrypted, where that is not the full chain; 0: the full chain."""
    is_complex: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """A vector that the client decrypts."""

    name: str
    length: int
    """Values that count, from slot 0 on."""
    is_complex: bool = False
    """As a service says of its program: whether imaginary parts are values. A package's instructions tell it."""


class Noise(NamedTuple):
    """Bounds that hold for every input and result of a package, in whole numbers.

    One of each is for all vectors: bounds by vector would tell which ones were zero when the package was recorded.
    """

    input_eighths: int
    """No value of an input is larger than 2^(this / 8)."""
    result_bits: int
    """No value of a result is larger than this power of two."""
    error_bits: int
    """The root mean square of the values of a result's error is not larger than this power of two, at worst."""

    @property
    def largest_input(self) -> float:
        return float(2.0 ** (self.input_eighths / 8))


class Constants(Protocol):
    """The vectors that a program uses as plaintexts."""

    def __len__(self) -> int: ...

    def values(self, number: int) -> Values:
        """One vector, (n,) float64 or complex128, without the zeros at its end. Raises: PackageError: damaged."""
        ...


class ConstantSink(Protocol):
    """Takes a program's constants while it is recorded."""

    def add(self, values: Values) -> int:
        """The number of a vector; vectors with the same values have one number."""
        ...


class ConstantsInMemory:
    """Constants as arrays, by number; equal ones once."""

    def __init__(self) -> None:
        self._vectors: list[Values] = []
        self._known: dict[tuple[str, bytes], int] = {}

    def __len__(self) -> int:
        return len(self._vectors)

    def values(self, number: int) -> Values:
        return self._vectors[number]

    def add(self, values: Values) -> int:
        values = trimmed(values)
        key = values.dtype.str, values.tobytes()
        if key not in self._known:
            self._known[key] = len(self._vectors)
            self._vectors.append(values)
        return self._known[key]


def trimmed(values: Values) -> Values:
    """A vector as packages hold it: float64, or complex128 where an imaginary part is not 0; no zeros at its end.

    Zeros lose their sign, which no encoding keeps: masks times weights have many of both.

    >>> trimmed(np.array([1 + 0j, -0.0, 2, 0]))
    array([1., 0., 2.])
    """
    values = np.asarray(values)
    if values.dtype.kind == "c" and not np.any(values.imag):
        values = values.real
    values = np.asarray(values, dtype=np.complex128 if values.dtype.kind == "c" else np.float64) + 0.0
    used = np.flatnonzero(values)
    return values[: int(used[-1]) + 1 if len(used) else 0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A program as data."""

    name: str
    params: CkksParameters
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    instructions: Sequence[Instruction]
    scopes: tuple[Scope, ...] = (Scope("", 0),)
    series: tuple[PackageSeries, ...] = ()
    constants: Constants = field(default_factory=ConstantsInMemory)
    keys: dict[str, int] = field(default_factory=dict)
    """Evaluation key -> the most limbs at which the program uses it, at `params`."""
    description: str = ""
    provenance: dict[str, str] = field(default_factory=dict)
    """Versions of what made it; never a user, host, path or argument."""
    noise: Noise | None = None
    """`None`: not stated, so that no result can be given to others."""

    def last_uses(self) -> list[tuple[int, ...]]:
        """For each instruction the values whose last use it is; values without a use are freed where they are made."""
        last: dict[int, int] = {}
        made = 0
        for at, call in enumerate(self.instructions):
            for value in call.operands:
                last[value] = at
            for value in range(made, made + call.results):
                last[value] = at
            made += call.results
        freed: list[list[int]] = [[] for _ in self.instructions]
        for value, at in last.items():
            freed[at].append(value)
        return [tuple(values) for values in freed]


def scope_moves(scopes: Sequence[Scope], before: int, after: int) -> tuple[int, Iterator[int]]:
    """How many scopes to leave, and which to enter, to go from one scope to another."""
    entered, at = [], after
    ancestors = [before]
    while ancestors[-1]:
        ancestors.append(scopes[ancestors[-1]].parent)
    place = {scope: left for left, scope in enumerate(ancestors)}
    while at not in place:
        entered.append(at)
        at = scopes[at].parent
    return place[at], reversed(entered)
