"""The `Evaluator` protocol: the operations of a program on encrypted vectors. Each reading gives it one meaning.

A program is written once against this protocol. The ciphertext type belongs to the reading; programs only pass it on.
Slots are numbered from 0; a rotation by `step` moves slot `step` to slot 0 (to the left).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError, UsageError
from penstock.scheme.params.ckks import CkksParameters

Values = npt.NDArray[Any]
"""float64 or complex128."""
Ciphertext = Any
"""Of the reading; programs only pass it on."""
Kept: TypeAlias = dict[Hashable, Any]
"""What one run keeps of a plaintext, in types of its reading."""
Made = TypeVar("Made")


@dataclass(eq=False, slots=True)
class Traits:
    """What is known of a vector without the vector."""

    is_complex: bool = False
    """Whether it had an imaginary part when it was made; until then nothing is known."""

    def look(self, values: Values) -> None:
        self.is_complex = values.dtype.kind == "c" and bool(np.any(values.imag))


@dataclass(eq=False, slots=True)
class Plain:
    """A vector to be used as a plaintext operand. A reading encodes it once for each number of limbs it meets."""

    source: Values | Callable[[], Values]
    """The vector, or what makes it: readings without cryptography never ask for it."""
    name: str | None = None
    encoded: WeakKeyDictionary[object, Kept] = field(default_factory=WeakKeyDictionary, repr=False)
    """What each owner keeps of it: `kept`."""
    traits: Traits = field(default_factory=Traits, repr=False)
    slots: int | None = None
    """Of the set that it was made for; `None`: any."""

    @classmethod
    def of(cls, values: Values | Callable[[], Values], slots: int, name: str | None = None) -> Plain:
        """A plaintext of `slots` slots, zeros at the end."""
        name = name_of(name)
        if callable(values):
            return cls(lambda: padded(values(), slots), name, slots=slots)
        vector = padded(values, slots)
        vector.setflags(write=False)
        made = cls(vector, name, slots=slots)
        made.traits.look(vector)
        return made

    def kept(self, owner: object) -> Kept:
        """What one run keeps of it: encodings by limbs and scale, numbers of objects. It goes when its owner goes.

        A program may keep a plaintext and run again, at other parameters too. An owner's `id` would come back then.
        """
        return self.encoded.setdefault(owner, {})

    def fitting(self, slots: int) -> Plain:
        """Itself. Raises: UsageError: it was made for another number of slots."""
        if self.slots not in (None, slots):
            raise UsageError(
                f"an operand is a plaintext of {self.slots} slots, and the ciphertexts of this run have {slots}: make "
                "plaintexts in the run that uses them, ev.encode(vector)"
            )
        return self

    @property
    def values(self) -> Values:
        """The vector; made once."""
        self.source = self.fleeting()
        return self.source

    def fleeting(self) -> Values:
        """The vector, which is not kept where a function makes it."""
        if not callable(self.source):
            return self.source
        made = self.source()
        self.traits.look(made)
        return made


Weight = Plain | Callable[[], Values]
"""The factor of a term of a weighted sum."""
Operand = Any
"""A ciphertext of the reading, a `Plain`, or a number."""


class PlainCalls(Protocol):
    """The calls of some ciphertexts, and at most one whole number, that have one result.

    A subclass defines each call, or `plain_call` for all others.
    """

    def plain_call(self, name: str, a: Ciphertext, *others: Ciphertext, argument: int | None = None) -> Ciphertext:
        """The call of this name.

        Raises: PenstockError: the reading does not have it.
        """
        raise PenstockError(f"{name}: {type(self).__name__} has no such call")

    def negate(self, a: Ciphertext) -> Ciphertext:
        """-a."""
        return self.plain_call("negate", a)

    def mult_no_relin(self, a: Ciphertext, b: Ciphertext) -> Ciphertext:
        """a * b as three polynomials; `relinearize` brings it back to two."""
        return self.plain_call("mult_no_relin", a, b)

    def relinearize(self, a: Ciphertext) -> Ciphertext:
        """Two polynomials from three."""
        return self.plain_call("relinearize", a)

    def square(self, a: Ciphertext) -> Ciphertext:
        """a * a, relinearized; not rescaled."""
        return self.plain_call("square", a)

    def rotate(self, a: Ciphertext, step: int) -> Ciphertext:
        """Slots moved to the left by `step` (to the right if negative), cyclically. Step 0 returns `a`."""
        return self.plain_call("rotate", a, argument=step)

    def decompose(self, a: Ciphertext) -> Ciphertext:
        """The digits of `a`, for `rotate_hoisted`. Programs call `rotate_many`; recorded calls come one by one."""
        return self.plain_call("decompose", a)

    def rotate_hoisted(self, a: Ciphertext, digits: Ciphertext, step: int) -> Ciphertext:
        """As `rotate`, with the digits of `a`."""
        return self.plain_call("rotate_hoisted", a, digits, argument=step)

    def conjugate(self, a: Ciphertext) -> Ciphertext:
        """Complex conjugate of every slot."""
        return self.plain_call("conjugate", a)

    def rescale(self, a: Ciphertext) -> Ciphertext:
        """Division by the last prime: one limb fewer, and the scale of a product back to the scale of its factors."""
        return self.plain_call("rescale", a)

    def mod_drop(self, a: Ciphertext, limbs: int) -> Ciphertext:
        """`a` with `limbs` limbs, without division."""
        return self.plain_call("mod_drop", a, argument=limbs)

    def mult_by_i(self, a: Ciphertext) -> Ciphertext:
        """Every slot times i: a product with a monomial, which leaves the scale.

        Raises: PenstockError: the reading computes with OpenFHE, whose contexts are of real data here.
        """
        return self.plain_call("mult_by_i", a)


class Evaluator(PlainCalls, Protocol):
    """One method a primitive. Results are new ciphertexts; operands never change.

    Under a `fixed-manual` parameter set a product must be rescaled by the program before it is multiplied again or
    added to something that is rescaled. Under an automatic one `rescale` returns its operand.
    """

    params: CkksParameters
    turns: int | None
    """Rotations by steps that differ by this many slots are one; the slots of the set if it is `None`. A program that
    was recorded keeps its steps, and with them its keys, by stating N/2."""

    def encrypt(self, values: Values, *, name: str | None = None) -> Ciphertext:
        """A fresh ciphertext of `values`, shape (slots,) or shorter (padded with zeros)."""

    def encode(self, values: Values | Callable[[], Values], *, name: str | None = None) -> Plain:
        """A plaintext operand of shape (slots,) or shorter (padded with zeros), or a function that makes one."""

    def decrypt(self, a: Ciphertext) -> Values:
        """The vector in `a`, shape (slots,); with imaginary parts where the program may have made some."""

    def add(self, a: Operand, b: Operand) -> Ciphertext:
        """a + b: one is a ciphertext, the other a ciphertext, a plaintext or a number."""

    def sub(self, a: Operand, b: Operand) -> Ciphertext:
        """a - b; at least one is a ciphertext, the other may be a plaintext (second place) or a number."""

    def mult(self, a: Operand, b: Operand) -> Ciphertext:
        """a * b, as `add`; relinearized, not rescaled."""

    def weighted_sum(self, terms: Iterable[Ciphertext], weights: Iterable[Weight]) -> Ciphertext:
        """Sum of terms[i] * weights[i], at least one; not rescaled.

        Args:   weights: plaintexts, or functions that make vectors for one use; each is encoded when its product is
                taken, so that they are never all in memory.
        Raises: UsageError: no term, or not as many weights as terms.
        """

    def rotate_many(self, a: Ciphertext, steps: Sequence[int]) -> list[Ciphertext]:
        """One rotation a step, of none or more; the digit decomposition is shared (hoisting)."""

    def bootstrap(self, a: Ciphertext, slots: int | None = None) -> Ciphertext:
        """`a` with its limbs refreshed.

        Args:   slots: where the values repeat, the period, a power of two; the refresh of few slots takes less work,
                and leaves nothing of what does not repeat.
        """

    def bootstrap_many(self, operands: Sequence[Ciphertext], slots: int | None = None) -> list[Ciphertext]:
        """Each of `operands` refreshed, with values as by `bootstrap`.

        Our own evaluator does each step for all of them, so that it reads each key once. Operands of different levels
        are lowered to the fewest. OpenFHE refreshes one after the other.

        Args:   slots: as in `bootstrap`, the same for all.
        """

    def chebyshev_series(self, a: Ciphertext, coefficients: Sequence[float], lower: float, upper: float) -> Ciphertext:
        """Sum of c_k T_k over [lower, upper]; c_0 counts half, as in OpenFHE. A single c_0 is a constant: the product
        of `a` with 0, plus c_0 / 2."""

    def chebyshev_function(
        self, a: Ciphertext, function: Callable[[Values], Values], lower: float, upper: float, degree: int
    ) -> Ciphertext:
        """A smooth function over [lower, upper] by its Chebyshev series of `degree`."""

    def polynomial(self, a: Ciphertext, coefficients: Sequence[float]) -> Ciphertext:
        """Sum of c_k a^k, by the powers of `a`. Zeros in the highest places do not count; a constant is the product of
        `a` with 0, plus c_0."""

    def scaled(self, a: Ciphertext, factor: float) -> Ciphertext:
        """Every slot times a number, by reading the same ciphertext at another scale: no operation.

        Raises: PenstockError: the reading computes with real scales, of which each level has one.
        """

    def levels(self, a: Ciphertext) -> int:
        """Multiplications in sequence that `a` still carries."""

    def scope(self, name: str) -> AbstractContextManager[object]:
        """Operations inside are traced under `name`."""


class InnerEvaluator(Evaluator, Protocol):
    """What circuits that stand for a composite call besides. Symbolic and clear readings have it."""

    def mod_raise(self, a: Ciphertext) -> Ciphertext:
        """The modulus raised to the full chain: the first step of bootstrapping."""

    def rescale_limbs(self, a: Ciphertext, limbs: int) -> Ciphertext:
        """The end of a level that is `limbs` primes wide, whatever the scaling rule."""

    def lowered(self, a: Ciphertext, levels: int) -> Ciphertext:
        """`a` with at most `levels` levels left, by dropping limbs."""

    def shared(self, name: str, make: Callable[[], Made]) -> Made:
        """What `make` returns, made once within a run."""


def name_of(name: object) -> str | None:
    """The name of a vector, if it has one. Raises: UsageError: something that is not text."""
    if name is None or isinstance(name, str):
        return name
    raise UsageError(f"the name of a vector is of type {type(name).__name__}: give text, or leave it out")


def padded(values: Values, slots: int) -> Values:
    """A copy of `values` as (slots,), zeros at the end: the caller may fill its array anew.

    Raises: UsageError: no values, or more than slots; not one dimension, or no numbers.
    """
    try:
        values = np.asarray(values)
    except ValueError:
        raise UsageError("a vector has lists of several lengths: give one list of numbers") from None
    if values.ndim != 1 or not 1 <= values.shape[0] <= slots:
        raise UsageError(
            f"a vector of shape {values.shape} does not fit in {slots} slots: it has one dimension and 1 to {slots} "
            "values"
        )
    # Whole numbers that numpy has no type for come as objects.
    if values.dtype.kind not in "biufc" and not all(isinstance(number, int | float | np.number) for number in values):
        raise UsageError(f"a vector of type {values.dtype} has no numbers: give integers, or real or complex numbers")
    values = finite(values)
    return np.concatenate([values, np.zeros(slots - values.shape[0], dtype=values.dtype)])


_HELD = "replace it, or scale the values down until a double holds them (1.8e308)"


def finite(values: Values) -> Values:
    """Numbers as float64 or complex128.

    Raises: UsageError: one that a double does not hold.
    """
    try:
        with np.errstate(over="ignore"):  # of longer floats
            values = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64, copy=False)
    except OverflowError as error:
        raise UsageError(f"a vector has a whole number that no double holds: {_HELD}") from error
    if not np.isfinite(values).all():
        place = int(np.argmin(np.isfinite(values)))
        raise UsageError(
            f"a vector has {values.flat[place]:g} at place {place}; ciphertexts and plaintexts hold finite numbers: "
            f"{_HELD}"
        )
    return values


def check_real(values: Values) -> None:
    """Raises: PenstockError: a vector with imaginary parts."""
    if values.dtype.kind == "c" and np.any(values.imag):
        raise PenstockError(
            "OpenFHE's contexts are of real data here, and would drop the imaginary parts of a vector: encode real and "
            "imaginary parts as vectors of their own"
        )


def chebyshev_coefficients(
    function: Callable[[Values], Values], lower: float, upper: float, degree: int
) -> list[float]:
    """Coefficients c_0 … c_degree of `function` over [lower, upper] at the Chebyshev nodes; c_0 counts half.

    >>> [round(c, 12) + 0.0 for c in chebyshev_coefficients(lambda x: x, -1.0, 1.0, 2)]
    [0.0, 1.0, 0.0]
    """
    n = degree + 1
    theta = np.pi * (np.arange(n) + 0.5) / n
    nodes = 0.5 * (upper - lower) * np.cos(theta) + 0.5 * (upper + lower)
    samples = np.asarray(function(nodes), dtype=np.float64)
    return [float(2.0 / n * np.sum(samples * np.cos(k * theta))) + 0.0 for k in range(n)]
