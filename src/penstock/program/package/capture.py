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
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from penstock.base.system.own_file import one_at_a_time
from penstock.errors import UsageError
from penstock.program.evaluator import arguments
from penstock.program.evaluator.call import Call, Cipher, Executed, Manner, Monomial
from penstock.program.evaluator.fits import check_real_number
from penstock.program.evaluator.protocol import Evaluator, Plain, Values, Weight, check_real
from penstock.program.evaluator.rows import ciphertext
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


class CaptureEvaluator(SymbolicEvaluator):
    """Follows limbs and scales as the `trace` reading does, and gives each call to a `PackageBuilder`.

    The value of a ciphertext is its number in the package. `inputs` has the encrypted vectors, which no package holds.
    `decrypted` has what `decrypt` returned, in order.
    """

    def __init__(
        self, params: CkksParameters, package: PackageBuilder, decrypts: Callable[[], Values] | None = None
    ) -> None:
        super().__init__(params)
        self.package = package
        self.decrypted: list[Values] = []
        self.inputs: dict[str, Values] = {}
        self.input_digests: list[str] = []
        """Of the encrypted vectors, to compare two runs by; never written."""
        self._decrypts = (lambda: np.zeros(params.slots)) if decrypts is None else decrypts
        self._names: dict[str, int] = {}

    @property
    def has_small_ring(self) -> bool:
        """Packages have none."""
        return False

    def execute(self, call: Call) -> Executed:
        number = self.package.add(
            _verb_of(call),
            [operand.value for operand in call.operands],
            constants=[] if call.plain is None else [self._constant(call.plain)],
            number=0.0 if call.scalar is None else call.scalar,
            argument=call.state.limbs if call.kind is OpKind.MOD_DROP else call.argument or 0,
            state=call.state,
        )
        return Executed(call.state, number)

    def encrypt(self, values: Values, *, name: str | None = None) -> Cipher:
        fresh = super().encrypt(values, name=name)  # which checks the shape
        vector = np.asarray(values)
        if self.params.library == "openfhe":
            check_real(vector)
        self.input_digests.append(_digest(vector))
        given = Input(self._input_name(name), len(vector), is_complex=vector.dtype.kind == "c")
        self.inputs[given.name] = vector.copy()
        return replace(fresh, value=self.package.encrypt(given, fresh.state))

    def _input_name(self, name: str | None) -> str:
        """The name of an input; a name that comes again is numbered."""
        if name is None:
            return self._input_name(f"input[{len(self.input_digests) - 1}]")
        times = self._names.get(name, 0)
        self._names[name] = times + 1
        return f"{name}[{times}]" if times else name

    def decrypt(self, a: Cipher) -> Values:
        super().decrypt(a)
        self.package.output(a.value, Output(f"output[{len(self.decrypted)}]", self.params.slots))
        self.decrypted.append(self._decrypts())
        return self.decrypted[-1].copy()

    def _one(self, kind: OpKind, a: Cipher, *, scalar: complex | None = None, **rest: Any) -> Cipher:
        """A number is real at OpenFHE's sets: what runs encrypted refuses others too."""
        if scalar is not None and self.params.library == "openfhe":
            check_real_number(kind, scalar)
        return super()._one(kind, a, scalar=scalar, **rest)

    # Calls that are many rows of a trace: their steps are followed aside.
    def weighted_sum(self, terms: Iterable[Cipher], weights: Iterable[Weight]) -> Cipher:
        summed: list[Cipher] = []
        plains: list[Plain] = []
        constants: list[int] = []
        for term, plain in arguments.pairs_of(terms, weights, self, ciphertext):
            constants.append(self._constant(plain))
            summed.append(term)
            # A vector that was made for one use is not kept.
            plains.append(Plain(no_vectors, plain.name, plain.encoded, plain.traits))
        inner = self._model().weighted_sum(summed, plains)
        return self._made(Verb.WEIGHTED_SUM, inner, summed, constants=constants)

    def bootstrap(self, a: Cipher, slots: int | None = None) -> Cipher:
        inner = self._model().bootstrap(ciphertext("bootstrap", a), slots)
        return self._made(Verb.BOOTSTRAP, inner, [a], argument=int(slots or 0))

    def bootstrap_many(self, operands: Sequence[Cipher], slots: int | None = None) -> list[Cipher]:
        operands = [ciphertext("bootstrap_many", a) for a in arguments.operands_of(operands)]
        inner = self._model().bootstrap_many(operands, slots)
        if not inner:
            return []
        numbers = [a.value for a in operands]
        first = self.package.add(
            Verb.BOOTSTRAP, numbers, results=len(numbers), argument=int(slots or 0), state=inner[0].state
        )
        return [replace(made, value=first + at) for at, made in enumerate(inner)]

    def chebyshev_series(self, a: Cipher, coefficients: Sequence[float], lower: float, upper: float) -> Cipher:
        checked, lower, upper = arguments.chebyshev_of(coefficients, lower, upper)
        series = PackageSeries(tuple(checked), lower, upper)
        inner = self._model().chebyshev_series(ciphertext("chebyshev_series", a), checked, lower, upper)
        return replace(inner, value=self.package.series(Verb.CHEBYSHEV, a.value, series, inner.state))

    def polynomial(self, a: Cipher, coefficients: Sequence[float]) -> Cipher:
        series = PackageSeries(arguments.powers_of(coefficients))
        inner = self._model().polynomial(ciphertext("polynomial", a), series.coefficients)
        return replace(inner, value=self.package.series(Verb.POLYNOMIAL, a.value, series, inner.state))

    def scaled(self, a: Cipher, factor: float) -> Cipher:
        return self._made(Verb.SCALED, super().scaled(a, factor), [a], number=arguments.factor_of(factor))

    def scope(self, name: str) -> AbstractContextManager[object]:
        return self.package.open_scope(name)

    def _made(self, verb: Verb, inner: Cipher, operands: Sequence[Cipher], **rest: Any) -> Cipher:
        number = self.package.add(verb, [operand.value for operand in operands], state=inner.state, **rest)
        return replace(inner, value=number)

    def _constant(self, plain: Plain) -> int:
        kept = plain.kept(self.package)
        known = kept.get(_NUMBER)
        if known is None:
            known = kept[_NUMBER] = self.package.constant(plain.fleeting())
        return int(known)


def _verb_of(call: Call) -> Verb:
    if isinstance(call.how, Monomial):
        return Verb.MULT_BY_I
    return Verb.SCALAR_SUB if call.how is Manner.REVERSED else Verb(call.kind.value)


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
            self.refuse(at, what)
        if self._on_call is not None:
            self._on_call(at + 1)

    def where(self, at: int) -> str:
        """A call and its line, in words."""
        verb = self._instructions[at].verb if at < len(self._instructions) else "end"
        line = self.lines[at] if at < len(self.lines) else 0
        return f"call {at} ({verb})" + (f", line {line}" if line else "")

    def refuse(self, at: int, what: str) -> None:
        """Raises: NotOblivious: a part of a call depends on decrypted values; where `differing` was given, that is
        called."""
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
        course.refuse(again.num_instructions, "presence")
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
