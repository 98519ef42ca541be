"""Calls that do many operations, as the instructions of a package: in the library's order, or as one series or refresh.

`penstock.program.openfhe.recorder.expansions` has the same calls as rows of a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from types import ModuleType
from typing import Protocol

import numpy as np

from penstock.program.evaluator.circuits.openfhe.bootstrapping import can_expand, sine_of
from penstock.program.evaluator.circuits.openfhe.division import degree_of
from penstock.program.evaluator.protocol import Values
from penstock.program.evaluator.scaling import ScaleState
from penstock.program.openfhe.recorder.calls import OMITTED
from penstock.program.openfhe.recorder.decrypted import is_decrypted
from penstock.program.openfhe.recorder.expansions import tree
from penstock.program.openfhe.recorder.recording import Recording
from penstock.program.openfhe.types import Arguments, Method, Numeric
from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import PackageSeries, Verb
from penstock.scheme.params.ckks import BootstrapPlan, CkksParameters

_LINEAR_BELOW = 5
"""OpenFHE takes one sum over all powers below this degree, and Paterson–Stockmeyer from it on."""


class Unknown(Exception):
    """The reason for which the inside of a call cannot be in a package, and the remedy."""


@dataclass(frozen=True, slots=True)
class PackageTerm:
    """An operand: its value in the package, and its state before the call."""

    value: int
    state: ScaleState


class Emitter(Protocol):
    """Writes the instructions of the current call."""

    params: CkksParameters
    recording: Recording
    builder: PackageBuilder
    fhe: ModuleType

    def emit(
        self,
        verb: Verb,
        operands: Sequence[int] = (),
        *,
        constants: Sequence[int] = (),
        number: complex = 0.0,
        argument: int = 0,
    ) -> int: ...

    def emit_series(self, verb: Verb, operand: int, series: PackageSeries) -> int: ...

    def take_plan(self, plan: BootstrapPlan) -> None: ...


Work = Callable[[Emitter, Arguments, Sequence[PackageTerm], "int | None"], int]
"""From the arguments of a call, its ciphertexts and the number of its plaintext: the value that it makes."""


class NotedFunction:
    """A user's function as OpenFHE calls it: the same results, kept."""

    def __init__(self, function: Method) -> None:
        self._function = function
        self.samples: list[float] = []

    def __call__(self, x: float) -> Numeric:
        sample = self._function(x)
        self.samples.append(float(sample))
        if is_decrypted(sample):
            self.samples[-1] = float("nan")
        return sample


# Sums and products.
def _add_many(to: Emitter, args: Arguments, terms: Sequence[PackageTerm], plain: int | None) -> int:
    return tree([term.value for term in terms], lambda a, b: to.emit(Verb.ADD, [a, b]))


def _add_many_in_place(to: Emitter, args: Arguments, terms: Sequence[PackageTerm], plain: int | None) -> int:
    return reduce(lambda a, b: to.emit(Verb.ADD, [a, b]), [term.value for term in terms])


def _mult_many(to: Emitter, args: Arguments, terms: Sequence[PackageTerm], plain: int | None) -> int:
    return tree([term.value for term in terms], lambda a, b: _rescaled(to, to.emit(Verb.MULT, [a, b])))


def _composed(to: Emitter, args: Arguments, terms: Sequence[PackageTerm], plain: int | None) -> int:
    return _rescaled(to, to.emit(Verb.MULT, [terms[0].value, terms[1].value]))


def _linear_sum(to: Emitter, args: Arguments, terms: Sequence[PackageTerm], plain: int | None) -> int:
    weights = next(arg for arg in args if not _holds_ciphertexts(to, arg))
    if is_decrypted(weights):
        raise Unknown("a weight is a number that was decrypted: a package holds no step that the key's owner takes")
    products = [
        to.emit(Verb.MULT_SCALAR, [term.value], number=weight)
        for term, weight in zip(terms, _real(weights, "a weight"), strict=True)
    ]
    return _rescaled(to, reduce(lambda a, b: to.emit(Verb.ADD, [a, b]), products))


def _sum(to: Emitter, args: Arguments, terms: Sequence[PackageTerm], plain: int | None) -> int:
    return _sum_slots(to, terms[0].value, int(args[1]))


def _inner_product(to: Emitter, args: Arguments, terms: Sequence[PackageTerm], plain: int | None) -> int:
    if plain is None:
        product = to.emit(Verb.MULT, [terms[0].value, terms[1].value])
    else:
        product = to.emit(Verb.MULT_PLAIN, [terms[0].value], constants=[plain])
    return _sum_slots(to, product, int(args[2]))


def _sum_slots(to: Emitter, total: int, count: int) -> int:
    """Rotations by 1, 2 and 3 times a power of four, the digits shared, as EvalSum has them."""
    if count < 1 or count & (count - 1):
        raise Unknown(f"a sum over {count} slots has unknown steps: take a power of two")
    step = 1
    while step < count:
        if 2 * step < count:
            digits = to.emit(Verb.DECOMPOSE, [total])
            rotated = [
                to.emit(Verb.ROTATE_HOISTED, [total, digits], argument=turn) for turn in (step, 2 * step, 3 * step)
            ]
        else:
            rotated = [to.emit(Verb.ROTATE, [total], argument=step)]
        for term in rotated:
            total = to.emit(Verb.ADD, [total, term])
        step *= 4
    return total


# Series.
def _chebyshev(
    to: Emitter, args: Arguments, terms: Sequence[PackageTerm], plain: int | None, linear: bool | None = None
) -> int:
    series = PackageSeries(_coefficients(args[1], linear), float(args[2]), float(args[3]))
    return to.emit_series(Verb.CHEBYSHEV, terms[0].value, series)


def _power_series(
    to: Emitter, args: Arguments, terms: Sequence[PackageTerm], plain: int | None, linear: bool | None = None
) -> int:
    return to.emit_series(Verb.POLYNOMIAL, terms[0].value, PackageSeries(_coefficients(args[1], linear)))


def _of_function(to: Emitter, args: Arguments, terms: Sequence[PackageTerm], plain: int | None) -> int:
    """From the samples that the library asked the user's function for."""
    function, _, lower, upper, degree = args
    if not isinstance(function, NotedFunction) or len(function.samples) != int(degree) + 1:
        raise Unknown("the function was not asked for one value at each node: pass a Python function of one number")
    if np.isnan(function.samples).any():
        raise Unknown("the function returns a decrypted number, or none: make it of constants")
    samples = iter(function.samples)
    return _by_function(to, lambda x: next(samples), terms[0].value, lower, upper, degree)


def _known_function(function: Callable[[float], float]) -> Work:
    return lambda to, args, terms, plain: _by_function(to, function, terms[0].value, *args[1:])


def _by_function(
    to: Emitter, function: Callable[[float], float], value: int, lower: float, upper: float, degree: int
) -> int:
    """The library's own coefficients, at its own nodes."""
    lower, upper = float(lower), float(upper)
    coefficients = to.fhe.EvalChebyshevCoefficients(function, lower, upper, int(degree))
    return to.emit_series(Verb.CHEBYSHEV, value, PackageSeries(_coefficients(coefficients, None), lower, upper))


def _coefficients(given: Numeric, linear: bool | None) -> tuple[float, ...]:
    if is_decrypted(given):
        raise Unknown(
            "a coefficient is a number that was decrypted: a package holds no step that the key's owner takes"
        )
    coefficients = tuple(_real(given, "a coefficient"))
    degree = degree_of(coefficients)
    if not degree:
        raise Unknown("a series of degree 0 is a constant: multiply by 0 and add it")
    if linear is not None and linear is not (degree < _LINEAR_BELOW):
        way, other = ("one sum over all powers", "from") if linear else ("Paterson–Stockmeyer", "below")
        raise Unknown(
            f"a series of degree {degree} by {way}: packages take the other way {other} degree {_LINEAR_BELOW}, as the "
            "call without Linear or PS does; call that"
        )
    return coefficients


# Bootstrapping.
def _bootstrap(to: Emitter, args: Arguments, terms: Sequence[PackageTerm], plain: int | None) -> int:
    if len(args) > 1 and args[1] is not OMITTED and int(args[1]) != 1:
        raise Unknown("bootstrapping in several iterations: packages have one; leave numIterations out")
    setup = to.recording.expander.setup(args[0].GetSlots())
    if setup is None:
        raise Unknown(
            "bootstrapping was not set up for these slots in the script, or so that SlotsToCoeffs comes first: call "
            "EvalBootstrapSetup with the ciphertext's slots, without BTSlotsEncoding"
        )
    if not can_expand(to.params):
        raise Unknown(f"bootstrapping with a {to.params.secret} secret is not known: take a sparse or uniform one")
    sine, (cts_stages, stc_stages) = sine_of(to.params), setup.level_budget
    to.take_plan(
        BootstrapPlan(
            cts_stages=cts_stages,
            stc_stages=stc_stages,
            chebyshev_degree=sine.degree,
            double_angles=sine.double_angles,
            extra_limbs=1,
            sine_range=sine.sine_range,
        )
    )
    return to.emit(Verb.BOOTSTRAP, [terms[0].value])


def _real(numbers: Numeric, what: str) -> list[float]:
    vector: Values = np.asarray(numbers)
    if vector.dtype.kind == "c":
        if np.any(vector.imag):
            raise Unknown(f"{what} is complex, which this version does not package: take real ones")
        vector = vector.real
    return [float(number) for number in vector]


def _holds_ciphertexts(to: Emitter, arg: object) -> bool:
    return bool(to.recording.ciphertexts([arg]))


def _rescaled(to: Emitter, value: int) -> int:
    """A product of a composite, which the library rescales where the program does."""
    return value if to.params.scaling.automatic else to.emit(Verb.RESCALE, [value])


COMPOSITES: dict[str, Work] = {
    "EvalAddMany": _add_many,
    "EvalAddManyInPlace": _add_many_in_place,
    "EvalMultMany": _mult_many,
    "ComposedEvalMult": _composed,
    "EvalLinearWSum": _linear_sum,
    "EvalLinearWSumMutable": _linear_sum,
    "EvalSum": _sum,
    "EvalInnerProduct": _inner_product,
    "EvalChebyshevSeries": _chebyshev,
    "EvalChebyshevSeriesLinear": partial(_chebyshev, linear=True),
    "EvalChebyshevSeriesPS": partial(_chebyshev, linear=False),
    "EvalChebyshevFunction": _of_function,
    "EvalLogistic": _known_function(lambda x: float(1 / (1 + np.exp(-x)))),
    "EvalSin": _known_function(lambda x: float(np.sin(x))),
    "EvalCos": _known_function(lambda x: float(np.cos(x))),
    "EvalDivide": _known_function(lambda x: 1 / x),
    "EvalPoly": _power_series,
    "EvalPolyLinear": partial(_power_series, linear=True),
    "EvalPolyPS": partial(_power_series, linear=False),
    "EvalBootstrap": _bootstrap,
}
"""`EvalAddManyInPlace` gives its result; of a list it changes the first entry."""
