"""Calls that do many operations, as the instructions of a package: in the library's order, or as one series or refresh.

`penstock.program.openfhe.recorder.expansions` has the same calls as rows of a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import reduce

import numpy as np

from penstock.program.evaluator.circuits.openfhe.bootstrapping import can_expand, sine_of
from penstock.program.evaluator.circuits.openfhe.division import degree_of
from penstock.program.evaluator.protocol import Values
from penstock.program.openfhe.recorder.calls import OMITTED
from penstock.program.openfhe.recorder.decrypted import is_decrypted
from penstock.program.openfhe.recorder.expansions import tree
from penstock.program.openfhe.recorder.recording import Recording
from penstock.program.openfhe.recorder.refusals import CallSite, Refused
from penstock.program.openfhe.types import Arguments, Method, Numeric
from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import ConstantSink, PackageSeries, Verb
from penstock.scheme.params.ckks import BootstrapPlan

_LINEAR_BELOW = 5
"""OpenFHE takes one sum over all powers below this degree, and Paterson–Stockmeyer from it on."""


class CallBuilder(PackageBuilder):
    """A package of a script's calls: each instruction has the place of its call."""

    def __init__(self, sink: ConstantSink, recording: Recording) -> None:
        super().__init__(sink)
        self.recording = recording
        self.place = CallSite("", 0, "")
        """Of the call that is noted now."""
        self.places: list[CallSite] = []
        """Of each instruction."""
        self.plan: BootstrapPlan | None = None

    def _added(self) -> None:
        self.places.append(self.place)

    def take_plan(self, plan: BootstrapPlan) -> None:
        """The shape of bootstrapping; a package has one."""
        if self.plan not in (None, plan):
            raise Refused("the script bootstraps in two shapes, and a package has one: take one level budget")
        self.plan = plan

    def sum(self, a: int, b: int) -> int:
        return self.add(Verb.ADD, [a, b])

    def product(self, a: int, b: int) -> int:
        return self.rescaled(self.add(Verb.MULT, [a, b]))

    def rescaled(self, value: int) -> int:
        """A product of a composite, which the library rescales where the program does."""
        return value if self.recording.params.scaling.automatic else self.add(Verb.RESCALE, [value])

    def sum_slots(self, total: int, count: int) -> int:
        """Rotations by 1, 2 and 3 times a power of four, the digits shared, as EvalSum has them."""
        if count < 1 or count & (count - 1):
            raise Refused(f"a sum over {count} slots has unknown steps: take a power of two")
        step = 1
        while step < count:
            if 2 * step < count:
                digits = self.add(Verb.DECOMPOSE, [total])
                turns = (step, 2 * step, 3 * step)
                rotated = [self.add(Verb.ROTATE_HOISTED, [total, digits], argument=turn) for turn in turns]
            else:
                rotated = [self.add(Verb.ROTATE, [total], argument=step)]
            total = reduce(self.sum, rotated, total)
            step *= 4
        return total


Work = Callable[[CallBuilder, Arguments, Sequence[int], "int | None"], int]
"""From the arguments of a call, the values of its ciphertexts and its plaintext's number: the value that it makes."""


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
def _linear_sum(to: CallBuilder, args: Arguments, terms: Sequence[int], plain: int | None) -> int:
    weights = next(arg for arg in args if not to.recording.ciphertexts([arg]))
    if is_decrypted(weights):
        raise Refused("a weight is a number that was decrypted: a package holds no step that the key's owner takes")
    products = [
        to.add(Verb.MULT_SCALAR, [term], number=weight)
        for term, weight in zip(terms, _real(weights, "a weight"), strict=True)
    ]
    return to.rescaled(reduce(to.sum, products))


def _inner_product(to: CallBuilder, args: Arguments, terms: Sequence[int], plain: int | None) -> int:
    product = to.add(Verb.MULT, terms[:2]) if plain is None else to.add(Verb.MULT_PLAIN, terms[:1], constants=[plain])
    return to.sum_slots(product, int(args[2]))


# Series.
def _chebyshev(linear: bool | None = None) -> Work:
    return lambda to, args, terms, plain: to.series(
        Verb.CHEBYSHEV, terms[0], PackageSeries(_coefficients(args[1], linear), float(args[2]), float(args[3]))
    )


def _power_series(linear: bool | None = None) -> Work:
    return lambda to, args, terms, plain: to.series(
        Verb.POLYNOMIAL, terms[0], PackageSeries(_coefficients(args[1], linear))
    )


def _of_function(to: CallBuilder, args: Arguments, terms: Sequence[int], plain: int | None) -> int:
    """From the samples that the library asked the user's function for."""
    function, _, lower, upper, degree = args
    if not isinstance(function, NotedFunction) or len(function.samples) != int(degree) + 1:
        raise Refused("the function was not asked for one value at each node: pass a Python function of one number")
    if np.isnan(function.samples).any():
        raise Refused("the function returns a decrypted number, or none: make it of constants")
    samples = iter(function.samples)
    return _by_function(to, lambda x: next(samples), terms[0], lower, upper, degree)


def _known_function(function: Callable[[float], float]) -> Work:
    return lambda to, args, terms, plain: _by_function(to, function, terms[0], *args[1:])


def _by_function(
    to: CallBuilder, function: Callable[[float], float], value: int, lower: float, upper: float, degree: int
) -> int:
    """The library's own coefficients, at its own nodes."""
    lower, upper = float(lower), float(upper)
    coefficients = to.recording.fhe.EvalChebyshevCoefficients(function, lower, upper, int(degree))
    return to.series(Verb.CHEBYSHEV, value, PackageSeries(_coefficients(coefficients, None), lower, upper))


def _coefficients(given: Numeric, linear: bool | None) -> tuple[float, ...]:
    if is_decrypted(given):
        raise Refused(
            "a coefficient is a number that was decrypted: a package holds no step that the key's owner takes"
        )
    coefficients = tuple(_real(given, "a coefficient"))
    degree = degree_of(coefficients)
    if not degree:
        raise Refused("a series of degree 0 is a constant: multiply by 0 and add it")
    if linear is not None and linear is not (degree < _LINEAR_BELOW):
        way, other = ("one sum over all powers", "from") if linear else ("Paterson–Stockmeyer", "below")
        raise Refused(
            f"a series of degree {degree} by {way}: packages take the other way {other} degree {_LINEAR_BELOW}, as the "
            "call without Linear or PS does; call that"
        )
    return coefficients


# Bootstrapping.
def _bootstrap(to: CallBuilder, args: Arguments, terms: Sequence[int], plain: int | None) -> int:
    if len(args) > 1 and args[1] is not OMITTED and int(args[1]) != 1:
        raise Refused("bootstrapping in several iterations: packages have one; leave numIterations out")
    setup = to.recording.expander.setup(args[0].GetSlots())
    if setup is None:
        raise Refused(
            "bootstrapping was not set up for these slots in the script, or so that SlotsToCoeffs comes first: call "
            "EvalBootstrapSetup with the ciphertext's slots, without BTSlotsEncoding"
        )
    params = to.recording.params
    if not can_expand(params):
        raise Refused(f"bootstrapping with a {params.secret} secret is not known: take a sparse or uniform one")
    cts_stages, stc_stages = setup.level_budget
    plan = BootstrapPlan(cts_stages=cts_stages, stc_stages=stc_stages, extra_limbs=1, **asdict(sine_of(params)))
    to.take_plan(plan)
    return to.add(Verb.BOOTSTRAP, [terms[0]])


def _real(numbers: Numeric, what: str) -> list[float]:
    vector: Values = np.asarray(numbers)
    if vector.dtype.kind == "c":
        if np.any(vector.imag):
            raise Refused(f"{what} is complex, which this version does not package: take real ones")
        vector = vector.real
    return [float(number) for number in vector]


COMPOSITES: dict[str, Work] = {
    "EvalAddMany": lambda to, args, terms, plain: tree(terms, to.sum),
    "EvalAddManyInPlace": lambda to, args, terms, plain: reduce(to.sum, terms),
    "EvalMultMany": lambda to, args, terms, plain: tree(terms, to.product),
    "ComposedEvalMult": lambda to, args, terms, plain: to.product(*terms[:2]),
    "EvalLinearWSum": _linear_sum,
    "EvalLinearWSumMutable": _linear_sum,
    "EvalSum": lambda to, args, terms, plain: to.sum_slots(terms[0], int(args[1])),
    "EvalInnerProduct": _inner_product,
    "EvalChebyshevSeries": _chebyshev(),
    "EvalChebyshevSeriesLinear": _chebyshev(linear=True),
    "EvalChebyshevSeriesPS": _chebyshev(linear=False),
    "EvalChebyshevFunction": _of_function,
    "EvalLogistic": _known_function(lambda x: float(1 / (1 + np.exp(-x)))),
    "EvalSin": _known_function(lambda x: float(np.sin(x))),
    "EvalCos": _known_function(lambda x: float(np.cos(x))),
    "EvalDivide": _known_function(lambda x: 1 / x),
    "EvalPoly": _power_series(),
    "EvalPolyLinear": _power_series(linear=True),
    "EvalPolyPS": _power_series(linear=False),
    "EvalBootstrap": _bootstrap,
}
"""`EvalAddManyInPlace` gives its result; of a list it changes the first entry."""
