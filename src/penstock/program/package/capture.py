"""Makes a package of a program of ours: an evaluator that writes down each call of the protocol.

A package has the same calls whatever its inputs are. A program that goes on by what `decrypt` returns has not, so each
program runs twice, with other decrypted values: zeros, then random ones.
"""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from penstock.base.system.own_file import one_at_a_time
from penstock.errors import UsageError
from penstock.program.evaluator import arguments
from penstock.program.evaluator.call import Cipher
from penstock.program.evaluator.fits import check_real_number
from penstock.program.evaluator.protocol import Evaluator, Operand, Plain, PlainCalls, Values, Weight, check_real
from penstock.program.evaluator.rows import ciphertext, relinearized
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.package.builder import PackageBuilder
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
    trimmed,
)
from penstock.program.package.noise import stated_noise
from penstock.program.package.replay import no_vectors
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters

_NUMBER = "package number"
"""Of a plaintext's constant, among its encodings."""


class NotOblivious(UsageError):
    """A program that cannot be a package: its calls, constants or inputs depend on decrypted values."""


@dataclass(eq=False, slots=True)
class Captured:
    """A ciphertext: its limbs and scale, and the number of the value that it is."""

    cipher: Cipher
    number: int


class CaptureEvaluator(PlainCalls):
    """Follows limbs and scales as the `trace` reading does, and gives each call to a `PackageBuilder`.

    `inputs` has the encrypted vectors, which no package holds. `decrypted` has what `decrypt` returned, in order.
    """

    def __init__(
        self, params: CkksParameters, builder: PackageBuilder, decrypts: Callable[[], Values] | None = None
    ) -> None:
        self.params, self.builder = params, builder
        self.turns: int | None = None
        self.inner = SymbolicEvaluator(params)
        self.decrypted: list[Values] = []
        self.inputs: dict[str, Values] = {}
        self.input_digests: list[str] = []
        """Of the encrypted vectors, to compare two runs by; never written."""
        self._decrypts = (lambda: np.zeros(params.slots)) if decrypts is None else decrypts
        self._names: dict[str, int] = {}

    def encrypt(self, values: Values, *, name: str | None = None) -> Captured:
        fresh = self.inner.encrypt(values, name=name)  # which checks the shape
        vector = np.asarray(values)
        if self.params.library == "openfhe":
            check_real(vector)
        self.input_digests.append(_digest(vector))
        given = Input(self._input_name(name), len(vector), is_complex=vector.dtype.kind == "c")
        self.inputs[given.name] = vector.copy()
        return Captured(fresh, self.builder.encrypt(given, fresh.state))

    def _input_name(self, name: str | None) -> str:
        """The name of an input; a name that comes again is numbered."""
        if name is None:
            return self._input_name(f"input[{len(self.input_digests) - 1}]")
        times = self._names.get(name, 0)
        self._names[name] = times + 1
        return f"{name}[{times}]" if times else name

    def encode(self, values: Values | Callable[[], Values], *, name: str | None = None) -> Plain:
        return Plain.of(values, self.params.slots, name)

    def decrypt(self, a: Captured) -> Values:
        self.inner.decrypt(_cipher("decrypt", a))
        self.builder.output(a.number, Output(f"output[{len(self.decrypted)}]", self.params.slots))
        self.decrypted.append(self._decrypts())
        return self.decrypted[-1].copy()

    def add(self, a: Operand, b: Operand) -> Captured:
        if not isinstance(a, Captured):
            a, b = arguments.swapped("add", a, b, is_ciphertext=isinstance(b, Captured))
        return self._sum((Verb.ADD, Verb.ADD_PLAIN, Verb.ADD_SCALAR), self.inner.add, a, b)

    def sub(self, a: Operand, b: Operand) -> Captured:
        if not isinstance(a, Captured):
            number = arguments.minuend_of(a, is_ciphertext=isinstance(b, Captured))
            return self._made(
                Verb.SCALAR_SUB, self.inner.sub(number, b.cipher), [b], number=self._real(OpKind.SUB_SCALAR, number)
            )
        return self._sum((Verb.SUB, Verb.SUB_PLAIN, Verb.SUB_SCALAR), self.inner.sub, a, b)

    def mult(self, a: Operand, b: Operand) -> Captured:
        if not isinstance(a, Captured):
            a, b = arguments.swapped("mult", a, b, is_ciphertext=isinstance(b, Captured))
        return self._sum((Verb.MULT, Verb.MULT_PLAIN, Verb.MULT_SCALAR), self.inner.mult, a, b)

    def plain_call(self, name: str, a: Captured, *others: Captured, argument: int | None = None) -> Captured:
        takes, operands = SHAPES[Verb(name)], (a, *others)
        if takes.argument == "step" and argument is not None:
            argument = self._step(argument)
        pairs = zip(takes.takes, operands, strict=True)
        given = [_cipher(name, a) if cls == "ciphertext" else _inside(a) for cls, a in pairs]
        inner = getattr(self.inner, name)(*given, *(() if takes.argument == "none" else (argument,)))
        if inner is given[0]:  # nothing was to do
            return operands[0]
        return self._made(Verb(name), inner, operands, argument=int(argument or 0))

    def _sum(self, verbs: tuple[Verb, Verb, Verb], call: Callable[..., Cipher], a: Captured, b: Operand) -> Captured:
        """A sum or product with a ciphertext, a plaintext or a number: each has a verb."""
        pair, with_plain, with_number = verbs
        if isinstance(b, Captured):
            return self._made(pair, call(a.cipher, b.cipher), [a, b])
        if isinstance(b, Plain):
            return self._made(with_plain, call(a.cipher, b), [a], constants=[self._constant(b)])
        number = self._real(OpKind(with_number.value), arguments.number_of(b))
        return self._made(with_number, call(a.cipher, number), [a], number=number)

    def _real(self, what: OpKind, number: complex) -> complex:
        """A number, which OpenFHE's sets take real: what runs encrypted refuses others too."""
        if self.params.library == "openfhe":
            check_real_number(what, number)
        return number

    def weighted_sum(self, terms: Iterable[Captured], weights: Iterable[Weight]) -> Captured:
        summed: list[Captured] = []
        plains: list[Plain] = []
        constants: list[int] = []
        for term, plain in arguments.pairs_of(terms, weights, self, _cipher):
            constants.append(self._constant(plain))
            summed.append(term)
            # A vector that was made for one use is not kept.
            plains.append(Plain(no_vectors, plain.name, plain.encoded, plain.traits))
        inner = self.inner.weighted_sum([term.cipher for term in summed], plains)
        return self._made(Verb.WEIGHTED_SUM, inner, summed, constants=constants)

    def rotate_many(self, a: Captured, steps: Sequence[int]) -> list[Captured]:
        wanted, cipher = [self._step(step) for step in arguments.steps_of(steps)], _cipher("rotate_many", a)
        if sum(step != 0 for step in wanted) < 2:
            return [self.rotate(a, step) for step in wanted]
        relinearized("rotate_many", cipher)
        digits = self.decompose(a)
        return [self.rotate_hoisted(a, digits, step) for step in wanted]

    def _step(self, step: int) -> int:
        self.inner.turns = self.turns
        return self.inner.normal_step(step)

    def bootstrap(self, a: Captured, slots: int | None = None) -> Captured:
        inner = self.inner.bootstrap(_cipher("bootstrap", a), slots)
        return self._made(Verb.BOOTSTRAP, inner, [a], argument=int(slots or 0))

    def bootstrap_many(self, operands: Sequence[Captured], slots: int | None = None) -> list[Captured]:
        operands = arguments.operands_of(operands)
        inner = self.inner.bootstrap_many([_cipher("bootstrap_many", a) for a in operands], slots)
        if not inner:
            return []
        numbers = [a.number for a in operands]
        first = self.builder.add(
            Verb.BOOTSTRAP, numbers, results=len(numbers), argument=int(slots or 0), state=inner[0].state
        )
        return [Captured(cipher, first + at) for at, cipher in enumerate(inner)]

    def chebyshev_series(self, a: Captured, coefficients: Sequence[float], lower: float, upper: float) -> Captured:
        checked, lower, upper = arguments.chebyshev_of(coefficients, lower, upper)
        series = PackageSeries(tuple(checked), lower, upper)
        inner = self.inner.chebyshev_series(_cipher("chebyshev_series", a), checked, lower, upper)
        return Captured(inner, self.builder.series(Verb.CHEBYSHEV, a.number, series, inner.state))

    def chebyshev_function(
        self, a: Captured, function: Callable[[Values], Values], lower: float, upper: float, degree: int
    ) -> Captured:
        return self.chebyshev_series(a, *arguments.function_series(function, lower, upper, degree))

    def polynomial(self, a: Captured, coefficients: Sequence[float]) -> Captured:
        series = PackageSeries(arguments.powers_of(coefficients))
        inner = self.inner.polynomial(_cipher("polynomial", a), series.coefficients)
        return Captured(inner, self.builder.series(Verb.POLYNOMIAL, a.number, series, inner.state))

    def scaled(self, a: Captured, factor: float) -> Captured:
        return self._made(
            Verb.SCALED, self.inner.scaled(_cipher("scaled", a), factor), [a], number=arguments.factor_of(factor)
        )

    def levels(self, a: Captured) -> int:
        return self.inner.levels(_cipher("levels", a))

    def scope(self, name: str) -> AbstractContextManager[None]:
        return self.builder.open_scope(name)

    def _made(self, verb: Verb, inner: Cipher, operands: Sequence[Captured], **rest: Any) -> Captured:
        number = self.builder.add(verb, [operand.number for operand in operands], state=inner.state, **rest)
        return Captured(inner, number)

    def _constant(self, plain: Plain) -> int:
        kept = plain.kept(self.builder)
        known = kept.get(_NUMBER)
        if known is None:
            known = kept[_NUMBER] = self.builder.constant(plain.fleeting())
        return int(known)


def _cipher(what: str, a: Operand) -> Cipher:
    """What the inner reading follows of an operand that is a ciphertext."""
    if not isinstance(a, Captured):
        raise arguments.not_a_ciphertext(what, a)
    return ciphertext(what, a.cipher)


def _inside(a: Operand) -> object:
    return a.cipher if isinstance(a, Captured) else a


def _digest(values: Values) -> str:
    values = trimmed(values)
    return hashlib.sha256(values.dtype.str.encode() + values.tobytes()).hexdigest()


class ReadableSink(ConstantSink, Constants, Protocol):
    """A sink that gives its constants back, such as `ConstantsInMemory` and `PackageFile`."""


class DigestSink:
    """Constants as digests alone, of vectors that go on to `sink` where there is one."""

    def __init__(self, sink: ConstantSink | None = None) -> None:
        self.sink = sink
        self.digests: dict[int, str] = {}
        self._numbers: dict[str, int] = {}

    def add(self, values: Values) -> int:
        digest = _digest(values)
        number = self._numbers.setdefault(digest, len(self._numbers)) if self.sink is None else self.sink.add(values)
        self.digests[number] = digest
        return number


class Course(PackageBuilder):
    """A builder that keeps the line of each call, and compares each with the same call of another run.

    Args:   program: the program's file, whose lines errors name; on_call(count): called after each call.
    """

    def __init__(
        self,
        sink: DigestSink,
        program: str = "",
        expected: Course | None = None,
        on_call: Callable[[int], None] | None = None,
        differing: Callable[[int, str], None] | None = None,
    ) -> None:
        super().__init__(sink)
        self.sink = sink
        self.lines: list[int] = []
        """For each instruction the line of the program that called; 0 where it is not known."""
        self._program, self._expected, self._on_call, self._differing = program, expected, on_call, differing

    def _added(self) -> None:
        at = len(self._instructions) - 1
        self.lines.append(self._line())
        if self._expected is not None and (what := self._difference(self._expected, at)):
            self._refuse(at, what)
        if self._on_call is not None:
            self._on_call(at + 1)

    def where(self, at: int) -> str:
        """A call and its line, in words."""
        verb = self._instructions[at].verb if at < len(self._instructions) else "end"
        line = self.lines[at] if at < len(self.lines) else 0
        return f"call {at} ({verb})" + (f", line {line}" if line else "")

    def _refuse(self, at: int, what: str) -> None:
        if self._differing is not None:
            self._differing(at, what)
            return
        raise NotOblivious(
            f"{self.where(at)}: its {what} depends on values that the program decrypted. A package has the same calls "
            "and constants whatever its inputs are: leave out what follows the decryption, or run the program itself"
        )

    def _difference(self, other: Course, at: int) -> str:
        """The part of a call that differs from the other run's; empty: none."""
        if at >= len(other._instructions):
            return "presence"
        mine, theirs = self._instructions[at], other._instructions[at]
        if mine.verb is not theirs.verb:
            return f"kind ({theirs.verb} in another run)"
        if mine._replace(constants=(), argument=0, scope=0) != theirs._replace(constants=(), argument=0, scope=0):
            return "number" if mine.number != theirs.number else "operands"
        if _path(self._scopes, mine.scope) != _path(other._scopes, theirs.scope):
            return "scope"
        if self._argument(mine) != other._argument(theirs):
            return {"series": "series", "input": "length"}.get(SHAPES[mine.verb].argument, "argument")
        ours = [self.sink.digests[number] for number in mine.constants]
        return "" if ours == [other.sink.digests[number] for number in theirs.constants] else "constant"

    def _argument(self, call: Instruction) -> object:
        takes = SHAPES[call.verb].argument
        if takes == "series":
            return list(self._series)[call.argument]
        return self._inputs[call.argument] if takes == "input" else call.argument

    def _line(self) -> int:
        frame = sys._getframe(2)
        while frame is not None and self._program:
            if frame.f_code.co_filename == self._program:
                return frame.f_lineno
            frame = frame.f_back  # type: ignore[assignment]
        return 0


def _path(scopes: Sequence[Scope], scope: int) -> tuple[str, ...]:
    names = []
    while scope:
        names.append(scopes[scope].name)
        scope = scopes[scope].parent
    return tuple(names)


def capture(
    program: Callable[[Evaluator], object],
    params: CkksParameters,
    sink: ReadableSink,
    name: str,
    *,
    source: str = "",
    description: str = "",
    provenance: dict[str, str] | None = None,
    on_call: Callable[[int], None] | None = None,
) -> Package:
    """The package of a program.

    Args:   program: called twice, with evaluators that write its calls down; sink: takes its constants
            and has them; source: the program's file; on_call(count): called after each call of the first run.
    Raises: NotOblivious: calls, constants or inputs depend on decrypted values; ParamsError: the program is deeper
            than the parameters; as the program.
    """
    course = Course(DigestSink(sink), source, on_call=on_call)
    first, _ = run_captured(program, params, course)
    again = Course(DigestSink(), source, expected=course)
    second, returned = run_captured(program, params, again, drawn(params))
    if again.num_instructions < course.num_instructions:
        raise NotOblivious(
            f"{course.where(again.num_instructions)}: its presence depends on values that the program decrypted. A "
            "package has the same calls and constants whatever its inputs are: leave out what follows the decryption, "
            "or run the program itself"
        )
    for given, other, named in zip(first.input_digests, second.input_digests, course.inputs, strict=True):
        if given != other:
            raise NotOblivious(
                f"input '{named.name}' depends on values that the program decrypted: a package takes all inputs at "
                "once. Leave out what follows the decryption, or run the program itself"
            )
    if not second.decrypted:
        raise UsageError(f"'{name}' decrypts nothing, so that it has no output: end it with ev.decrypt(result)")
    for output, length in enumerate(returned_lengths(returned, second.decrypted)):
        course.shorten(output, length)
    made = course.finish(name, params, sink, description=description, provenance=provenance)
    return replace(made, noise=stated_noise(made, first.inputs))


def run_captured(
    program: Callable[[Evaluator], object],
    params: CkksParameters,
    course: Course,
    decrypts: Callable[[], Values] | None = None,
) -> tuple[CaptureEvaluator, object]:
    """Run a program once; return its evaluator and its result.

    Args:   decrypts: draws what `decrypt` returns; zeros if it is not given.
    """
    ev = CaptureEvaluator(params, course, decrypts)
    # Warnings are off in the whole process.
    with one_at_a_time(), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # programs get numbers without meaning here
        returned = program(ev)
    return ev, returned


def drawn(params: CkksParameters) -> Callable[[], Values]:
    """Draws of vectors in [-1, 1], the same in each process."""
    rng = np.random.default_rng(20)
    return lambda: rng.uniform(-1.0, 1.0, params.slots)


def returned_lengths(returned: object, decrypted: Sequence[Values]) -> list[int]:
    """How many values of each output a program returns, by the values: all, unless it returns the first of each alone.

    >>> one, two = np.array([0.25, 0.5, 0.75]), np.array([3.5, 4.5, 5.5])
    >>> returned_lengths(np.concatenate([one[:2], two[:1]]), [one, two])
    [2, 1]
    >>> returned_lengths(one.sum(), [one, two]), returned_lengths(one[1:], [one])
    ([3, 3], [3])
    """
    whole = [len(values) for values in decrypted]
    try:
        flat = np.real(np.asarray(returned)).ravel().astype(np.float64)
    except (TypeError, ValueError):
        return whole
    place = {float(value): (at, slot) for at, values in enumerate(decrypted) for slot, value in enumerate(values)}
    used: list[list[int]] = [[] for _ in decrypted]
    for value in flat.tolist():
        if value not in place:
            return whole
        at, slot = place[value]
        used[at].append(slot)
    prefixes = all(slots and slots == list(range(len(slots))) for slots in used)
    return [len(slots) for slots in used] if prefixes else whole
