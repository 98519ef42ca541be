"""One call of a program in every reading that writes rows, and the reading's answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from penstock.program.evaluator.protocol import Operand, Plain, Values
from penstock.program.evaluator.scaling import ScaleState
from penstock.scheme.operations import OpKind


@dataclass(eq=False, slots=True)
class Cipher:
    """A ciphertext of a reading that writes rows: its trace object, its state, and the reading's own value."""

    object_id: int
    state: ScaleState
    polynomials: int = 2
    """3 of a product that is not relinearized, `MANY` of a product of such; `DIGITS` of what `decompose` returns."""
    value: Any = None
    source: int = -1
    """Of digits, the object that they are the digits of."""


DIGITS, MANY = 0, 4


@dataclass(frozen=True, slots=True)
class Executed:
    """The effect of one call: the state of its result, the result, and its times if it was timed."""

    state: ScaleState
    value: Any = None
    start_s: float | None = None
    end_s: float | None = None


class Manner(Enum):
    """How a step differs from others of its kind, where one word says it."""

    REVERSED = "reversed"
    """The number minus the ciphertext."""
    ADJUSTED = "adjusted"
    """The first operand is brought to the state of the second."""


@dataclass(frozen=True, slots=True)
class Monomial:
    """A product with X^power: X^(N/2) multiplies every slot by i. The scale stays."""

    power: int


@dataclass(frozen=True, slots=True)
class Whole:
    """A product with a whole number; the scale stays."""

    factor: int


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """A sum of products over Q and P with one vector each, and, where there is one operand more, with that one."""

    plains: tuple[Plain, ...]


@dataclass(frozen=True, slots=True)
class PlainSum:
    """A sum of products with one vector each, in one pass."""

    plains: tuple[Plain, ...]


@dataclass(frozen=True, slots=True)
class NumberSum:
    """A sum of products with one number each, in one pass."""

    weights: Sequence[float]
    kept: dict[int, object]
    """What a reading keeps of the operands, by object, for another sum of the same."""


@dataclass(frozen=True, slots=True)
class ChebyshevSeries:
    """A Chebyshev series over an interval, as one call of the library; c_0 counts half."""

    coefficients: tuple[float, ...]
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Powers:
    """A power series, as one call of the library."""

    coefficients: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Period:
    """The slots of one bootstrapping."""

    slots: int
    ciphertexts: int = 1
    """Refreshed side by side."""


@dataclass(frozen=True, slots=True)
class DatabaseBlock:
    """A block of an encrypted database: of each of d coordinates, a polynomial of whole numbers, one a record."""

    source: Callable[[], Values] | None
    """Makes (d, records); readings without values never ask."""


Composite = ChebyshevSeries | Powers | Period
"""What one composite computes."""
How = DatabaseBlock | Manner | Monomial | Whole | WeightedSum | PlainSum | NumberSum | Composite


class Call(NamedTuple):
    """One call: a tuple, since a trace makes a hundred thousand of them."""

    kind: OpKind
    operands: Sequence[Cipher]
    state: ScaleState
    """Of the result, by the scaling rules."""
    key: str | None = None
    """The evaluation key that it reads."""
    argument: int | None = None
    """The whole number of its operation, of a rotation its step."""
    plain: Plain | None = None
    scalar: complex | None = None
    how: How | None = None


@dataclass(frozen=True, slots=True)
class Refresh:
    """Numbers of one bootstrapping that depend on real scales."""

    adjust: Operand
    """A number, or one for each ciphertext of a bundle. It brings the operand to the scale of the full chain and makes
    it small against q_0."""
    small: int
    """How much smaller: a power of two, taken back at the end."""
    modulus_ratio: float
    """q_0 over the scale of the full chain."""


@dataclass(frozen=True, slots=True)
class Pass:
    """When several rows were computed, in one pass."""

    start_s: float | None
    end_s: float | None

    def parts(self, count: int) -> Iterator[tuple[float | None, float | None]]:
        """Start and end of each of `count` rows: equal parts of the pass.

        >>> list(Pass(1.0, 2.0).parts(2)), list(Pass(None, None).parts(1))
        ([(1.0, 1.5), (1.5, 2.0)], [(None, None)])
        """
        if self.start_s is None or self.end_s is None:
            return iter([(None, None)] * count)
        ends = [self.start_s + (self.end_s - self.start_s) * part / count for part in range(1, count + 1)]
        return zip([self.start_s, *ends], ends, strict=False)
