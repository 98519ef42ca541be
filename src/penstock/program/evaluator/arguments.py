"""The rules for arguments of the methods of the `Evaluator` protocol: one place for all readings.

Each function returns an argument in its one form, or refuses it with the rule and the remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import index
from typing import SupportsIndex, TypeVar

import numpy as np

from penstock.errors import ParamsError, PenstockError, UsageError
from penstock.program.evaluator.protocol import (
    Ciphertext,
    Evaluator,
    Operand,
    Plain,
    Values,
    Weight,
    chebyshev_coefficients,
)
from penstock.scheme.params.ckks import CkksParameters

_LEAST_HIGHEST = 2.0**-44
"""OpenFHE takes a smaller coefficient of a short power series as zero, and refuses one in the highest place."""
MOST_COEFFICIENTS = 1 << 16
"""Of a series, as packages hold them."""
_SHORT_DEGREE = 4
"""Of a power series that OpenFHE sums term by term."""
_SHOWN = 60
Term = TypeVar("Term")


def not_a_ciphertext(what: str, operand: object) -> UsageError:
    """Of an operand in the place of a ciphertext."""
    return UsageError(f"{what}: {_shown(operand)} is not a ciphertext: encrypt it first, ev.encrypt(vector)")


def swapped(what: str, a: Operand, b: Operand, *, is_ciphertext: bool) -> tuple[Operand, Operand]:
    """The operands of a sum or product the other way round: the first is not a ciphertext.

    Raises: UsageError: neither is.
    """
    if not is_ciphertext:
        raise UsageError(
            f"{what}: neither {_shown(a)} nor {_shown(b)} is a ciphertext: encrypt one of them, ev.encrypt(vector)"
        )
    return b, a


def minuend_of(a: Operand, *, is_ciphertext: bool) -> complex:
    """The first operand of a difference, which is not a ciphertext; the second one may be.

    Raises: UsageError: a plaintext, or the second operand is not a ciphertext.
    """
    if isinstance(a, Plain) or not is_ciphertext:
        raise UsageError("sub: the first operand is a ciphertext, or a number less a ciphertext: negate, then add")
    return number_of(a)


def number_of(operand: object) -> complex:
    """An operand that is neither ciphertext nor plaintext.

    Raises: PenstockError: a vector, which the clear reading cannot tell from a ciphertext; something else.
    """
    if isinstance(operand, complex):
        return operand
    if isinstance(operand, int | float):
        return _number(operand, operand)
    if isinstance(operand, list | tuple | np.ndarray) and np.ndim(operand):
        raise PenstockError(
            f"an operand is a vector of {len(operand)} values: make a plaintext of it, ev.encode(vector), or encrypt it"
        )
    if not isinstance(operand, np.generic | np.ndarray) or operand.dtype.kind not in "biufc":
        raise UsageError(f"an operand is {_shown(operand)}: it is a ciphertext, a plaintext or a number")
    return _number(operand, operand.item())


def _number(operand: object, value: complex) -> complex:
    try:
        return complex(value)
    except OverflowError as error:
        raise UsageError(f"an operand is {_shown(operand)}: a number that no double holds") from error


def factor_of(factor: object) -> float:
    """What `scaled` multiplies by.

    Raises: UsageError: no finite real number.
    """
    number = number_of(factor)
    if number.imag or not np.isfinite(number):
        raise UsageError(f"scaled: the factor is {_shown(factor)}: give a finite real number")
    return number.real


def step_of(step: SupportsIndex) -> int:
    """The step of a rotation."""
    return whole("rotate: the step", step)


def steps_of(steps: Iterable[SupportsIndex]) -> list[int]:
    """The steps of several rotations; there may be none."""
    try:
        listed = list(steps)
    except TypeError:
        raise UsageError(f"rotate_many: the steps are {_shown(steps)}: give a list of whole numbers") from None
    return [step_of(step) for step in listed]


def limbs_of(limbs: SupportsIndex) -> int:
    """The limbs that remain.

    Raises: UsageError: no whole number; ParamsError: none.
    """
    count = whole("mod_drop: the number of limbs", limbs)
    if count < 1:
        raise ParamsError(f"mod_drop to {count} limbs: a ciphertext has one at least; ask for 1 or more")
    return count


def period_of(params: CkksParameters, slots: SupportsIndex | None) -> int:
    """The slots of one bootstrapping.

    Raises: ParamsError: not a power of two up to the slots of the set.
    """
    if slots is None:
        return params.slots
    count = whole("bootstrap: the number of slots", slots)
    if count < 1 or count & (count - 1) or count > params.slots:
        raise ParamsError(
            f"bootstrapping of {count} slots: values repeat with a period that is a power of two from 1 to the slots "
            f"of set '{params.name}', {params.slots}"
        )
    return count


def pairs_of(
    terms: Iterable[Ciphertext], weights: Iterable[Weight], ev: Evaluator, checked: Callable[[str, Ciphertext], object]
) -> Iterator[tuple[Ciphertext, Plain]]:
    """Terms of a weighted sum with their weights; each weight is encoded when its pair is asked for.

    Args:   ev: the reading; checked(what, term): refuses a term that is not a ciphertext of the reading.
    Raises: UsageError: no term, not as many weights as terms, or a weight of other slots; as `checked`.
    """
    left, right, count = each_of("terms", terms), each_of("weights", weights), 0
    uneven = "weighted_sum: {} {}, and more {}: give one weight for each term"
    for term in left:
        try:
            weight = next(right)
        except StopIteration:
            raise UsageError(uneven.format(count, "weights", "terms")) from None
        count += 1
        checked("weighted_sum", term)
        plain = weight if isinstance(weight, Plain) else ev.encode(weight)
        yield term, plain.fitting(ev.params.slots)
    for _ in right:
        raise UsageError(uneven.format(count, "terms", "weights"))
    if not count:
        raise UsageError("weighted_sum: a sum of no terms: give one at least")


def each_of(what: str, given: Iterable[Term]) -> Iterator[Term]:
    """The terms or the weights of a sum, one by one. Raises: UsageError: no list."""
    try:
        return iter(given)
    except TypeError:
        raise UsageError(f"weighted_sum: the {what} are {_shown(given)}: give a list of one for each product") from None


def series_of(what: str, coefficients: Iterable[float]) -> tuple[float, ...]:
    """The coefficients of a series, as a list of one dimension of finite real numbers.

    Raises: UsageError: another list, or an empty one.
    """
    try:
        numbers = np.asarray(coefficients if isinstance(coefficients, np.ndarray) else list(coefficients))
    except (TypeError, ValueError):
        raise _no_series(what, _shown(coefficients)) from None
    if numbers.ndim != 1 or not 1 <= len(numbers) <= MOST_COEFFICIENTS:
        raise _no_series(what, f"of shape {numbers.shape}")
    if numbers.dtype.kind not in "biuf":
        raise _no_series(what, f"of type {numbers.dtype}")
    with np.errstate(over="ignore"):  # of longer floats
        doubles = numbers.astype(np.float64)
    if not np.all(np.isfinite(doubles)):
        place = int(np.argmin(np.isfinite(doubles)))
        raise _no_series(what, f"{numbers[place]} at place {place}")
    return tuple(doubles.tolist())


def _no_series(what: str, given: str) -> UsageError:
    return UsageError(
        f"{what}: the coefficients are {given}: a series is a list of 1 to 2^16 finite real numbers, c_0 first"
    )


def powers_of(coefficients: Iterable[float]) -> tuple[float, ...]:
    """The coefficients of a power series, without zeros in the highest places: (c_0,) is a constant.

    Raises: UsageError: as `series_of`; a short series whose highest coefficient OpenFHE takes as zero.
    """
    terms = series_of("polynomial", coefficients)
    degree = max((i for i, c in enumerate(terms) if c != 0), default=0)
    if 0 < degree <= _SHORT_DEGREE and abs(terms[degree]) <= _LEAST_HIGHEST:
        raise UsageError(
            f"polynomial: the highest coefficient, {terms[degree]:g} of x^{degree}, is within 2^-44, and OpenFHE takes "
            "it as zero: leave it out, or scale the values so that it is larger"
        )
    return terms[: degree + 1]


def chebyshev_of(coefficients: Iterable[float], lower: float, upper: float) -> tuple[list[float], float, float]:
    """The coefficients of a Chebyshev series and its interval; ends that change places mirror the series.

    Raises: UsageError: as `series_of`, and as `_interval_of`.
    """
    series, (low, high) = list(series_of("chebyshev_series", coefficients)), _interval_of(lower, upper)
    if low < high:
        return series, low, high
    return [-c if k % 2 else c for k, c in enumerate(series)], high, low


def _interval_of(lower: float, upper: float) -> tuple[float, float]:
    """Raises: UsageError: ends that are not finite real numbers, or so near that the interval has no width."""
    try:
        ends = float(lower), float(upper)
    except (TypeError, ValueError, OverflowError):
        ends = np.nan, np.nan
    if any(isinstance(end, str | bytes) for end in (lower, upper)) or not np.all(np.isfinite(ends)):
        raise UsageError(
            f"chebyshev_series: the interval is from {_shown(lower)} to {_shown(upper)}: its ends are finite real "
            "numbers"
        )
    with np.errstate(all="ignore"):
        factor = np.float64(2.0) / (np.float64(ends[1]) - ends[0])
    if not np.isfinite(factor) or factor == 0:
        width = "is empty" if ends[0] == ends[1] else "is too narrow or too wide for doubles"
        raise UsageError(
            f"chebyshev_series: the interval from {ends[0]:g} to {ends[1]:g} {width}: give the least and the largest "
            "value of the operand"
        )
    return ends


def function_series(
    function: Callable[[Values], Values], lower: float, upper: float, degree: SupportsIndex
) -> tuple[list[float], float, float]:
    """The Chebyshev coefficients of a function over an interval, and the interval.

    Raises: UsageError: a degree that is not a whole number from 0 on; as `_interval_of`; a function that is not defined
            over the interval.
    """
    low, high = _interval_of(lower, upper)
    asked = whole("chebyshev_function: the degree", degree)
    if not 0 <= asked < MOST_COEFFICIENTS:
        least = "0 or more" if asked < 0 else f"at most {MOST_COEFFICIENTS - 1}, of 2^16 coefficients"
        raise UsageError(f"chebyshev_function: the degree is {_shown(asked)}: give {least}")
    if not callable(function):
        raise UsageError(f"chebyshev_function: {_shown(function)} is not a function: give one that takes an array")

    def sampled(nodes: Values) -> Values:
        try:
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                values = np.asarray(function(nodes))
        except PenstockError:
            raise
        except Exception as error:
            raise UsageError(
                f"chebyshev_function: the function fails on an array of {len(nodes)} values from {low:g} to {high:g} "
                f"({_kind(error)}: {error}): give one that returns a number for each value"
            ) from error
        if values.shape not in ((), nodes.shape) or values.dtype.kind not in "biuf" or not np.all(np.isfinite(values)):
            raise UsageError(
                f"chebyshev_function: the function gives no finite real number somewhere from {low:g} to {high:g}, or "
                f"not one for each of {len(nodes)} values: give an interval on which it is defined"
            )
        return values

    return chebyshev_coefficients(sampled, low, high, asked), low, high


def operands_of(operands: Iterable[Term]) -> Sequence[Term]:
    """The ciphertexts of a joint refresh; there may be none."""
    try:
        return list(operands)
    except TypeError:
        raise UsageError(f"bootstrap_many: {_shown(operands)} is not a list of ciphertexts") from None


def whole(what: str, given: SupportsIndex) -> int:
    """A whole number. Raises: UsageError: something else."""
    try:
        return index(given)
    except TypeError:
        raise UsageError(f"{what} is {_shown(given)}, {_kind(given)}: give a whole number") from None


def _kind(given: object) -> str:
    name = type(given).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _shown(given: object) -> str:
    """Something that a program gave, in a few words."""
    if isinstance(given, Plain):
        return "a plaintext"
    if isinstance(given, np.ndarray) and given.ndim:
        return f"an array of shape {given.shape}"
    try:
        text = repr(given)
    except Exception:  # an object of the user's; a number of too many digits
        text = ""
    return text if 0 < len(text) <= _SHOWN else _kind(given)
