"""Makes a program package of the calls of one context: what `Recording` sees, with the numbers that it leaves out.

Values that a script encrypts are never kept: a plaintext's values reach the package when it is an operand.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np

from penstock.errors import PenstockError
from penstock.openfhe.recorder import emission
from penstock.openfhe.recorder.calls import Call, Form
from penstock.openfhe.recorder.decrypted import is_decrypted
from penstock.openfhe.recorder.identity import Identities, Known
from penstock.openfhe.recorder.names import InputNames, name_of, stored_name
from penstock.openfhe.recorder.parameters import context_primes
from penstock.openfhe.recorder.plaintexts import Encoded, GivenValues, as_vector
from penstock.openfhe.recorder.recording import Recording
from penstock.openfhe.recorder.refusals import DECRYPTED, OUTSIDE, NotPackaged, Place, Refused
from penstock.openfhe.recorder.stated import Stated
from penstock.operations import OpKind
from penstock.package.builder import PackageBuilder
from penstock.package.content import (
    Constants,
    ConstantSink,
    ConstantsInMemory,
    Input,
    Output,
    Package,
    Series,
    Verb,
)
from penstock.params.ckks import BootstrapPlan
from penstock.params.spec import openfhe_primes
from penstock.program.evaluator import Values
from penstock.program.scaling import ScaleState
from penstock.system.host import installed_version
from penstock.version import __version__

_NO_VALUES = Form.KEYS, Form.BOOTSTRAP_SETUP, Form.FORGET, Form.CLONE, Form.ENCRYPT
Handler = Callable[["Packaging", Call, tuple[Any, ...], Any, Sequence[Known]], None]


class Packaging:
    """One package in the making. After the first call that it cannot hold it keeps nothing more.

    The script and the trace do not depend on it. Its methods are called under the recording's lock.

    Args:   sink: makes what takes the constants, when the first one comes.
    """

    def __init__(self, recording: Recording, identities: Identities[Known], sink: Callable[[], ConstantSink]) -> None:
        self.recording, self.params, self.fhe = recording, recording.params, recording.fhe
        self.plaintexts: Identities[Encoded] = Identities()
        self.refusal: NotPackaged | None = None
        self.places: list[Place] = []
        """Of each instruction."""
        self.read_decrypted = False
        """Whether the script has asked for decrypted numbers: before that none can be marked."""
        self.differ = 0
        """Calls whose result has other limbs or another scale in the package than in OpenFHE; known at its end."""
        self._identities = identities
        self._sink = sink
        self.constants: ConstantSink | None = None
        self.builder = PackageBuilder(_LateSink(self))
        self._place = Place("", 0, "")
        self._frame: FrameType | None = None
        self._slots = 0
        self._key_tag: str | None = None
        self._plan: BootstrapPlan | None = None
        self._inputs, self._outputs = InputNames(), InputNames()
        self._ciphertext, self._plaintext = self.fhe.Ciphertext, self.fhe.Plaintext
        self._complex = recording.cc.GetCKKSDataType() == self.fhe.COMPLEX
        if not self.params.num_p:
            self.refusal = NotPackaged(
                f"{recording.workload}: key switching is BV, which packages do not have: take HYBRID"
            )
        elif context_primes(recording.cc, recording.fhe) != openfhe_primes(self.params)[0]:
            self.refusal = NotPackaged(
                f"{recording.workload}: the primes of the context are not those that OpenFHE 1.6 derives from "
                "its sizes; make the context in the script"
            )

    # What the recording calls.
    def operands(self, args: Sequence[Any]) -> list[Known | None]:
        if self.refusal is not None:
            return []
        return [self._identities.get(each) for each in self.recording.ciphertexts(args)]

    def note(
        self, call: Call, args: tuple[Any, ...], result: Any, before: Sequence[Known | None], frame: FrameType
    ) -> None:
        if self.refusal is not None:
            return
        self._frame = frame
        self._place = Place(frame.f_code.co_filename, frame.f_lineno, call.name)
        try:
            handler = _HANDLERS.get(call.form)
            if handler is None:
                raise Refused("this version does not package the call; compute it by calls that docs name")
            if call.form in _NO_VALUES:
                known = [each for each in before if each is not None]
            else:
                known = [self._checked(each) for each in before]
                if self.read_decrypted and any(map(is_decrypted, args)):
                    raise Refused(DECRYPTED)
            handler(self, call, args, result, known)
        except Refused as reason:
            self._refuse(str(reason))
        except PenstockError as error:
            self._refuse(str(error))
        except Exception as error:
            self._refuse(f"{type(error).__name__}: {error}")
        finally:
            self._frame = None

    def lose(self, call: Call, frame: FrameType) -> None:
        if self.refusal is None:
            self._place = Place(frame.f_code.co_filename, frame.f_lineno, call.name)
            self._refuse("the call was not recorded")

    def _refuse(self, reason: str) -> None:
        self.refusal = NotPackaged(f"{self._place}: {reason}")
        self.plaintexts = Identities()

    def _checked(self, known: Known | None) -> Known:
        if known is None or known.value is None or known.recording is not self.recording:
            raise Refused(OUTSIDE)
        return known

    # Plaintexts.
    def encoded(self, plaintext: Any, values: GivenValues) -> None:
        """A plaintext that the script made, with a copy of its values."""
        level = plaintext.GetLevel()
        self.plaintexts.set(
            plaintext,
            Encoded(
                self,
                values,
                self.params.num_q - level,
                plaintext.GetNoiseScaleDeg(),
                plaintext.GetSlots(),
                is_complex=self._complex,
                decrypted=self.read_decrypted and is_decrypted(values),
            ),
        )

    def _operand(self, plaintext: Any) -> Encoded:
        known = self.plaintexts.get(plaintext)
        if known is not None and known.decrypted:
            raise Refused(DECRYPTED)
        if known is None or known.values is None:
            raise Refused(
                "a plaintext was made before recording began, or edited by hand: make it by MakeCKKSPackedPlaintext in "
                "the script"
            )
        if known.slots > self._slots:
            raise Refused(
                f"a plaintext has {known.slots} slots and the ciphertexts {self._slots}: give both the same slots"
            )
        return known

    def constant(self, known: Encoded) -> int:
        """The number of a plaintext's values, written the first time that it is an operand."""
        if known.constant < 0:
            assert known.values is not None
            vector = as_vector(known.values, known.is_complex)
            if known.slots < self._slots:
                short = np.zeros(known.slots, dtype=vector.dtype)
                short[: len(vector)] = vector
                vector = np.tile(short, self._slots // known.slots)
            known.constant = self.builder.constant(vector)
        return known.constant

    # Instructions.
    def emit(
        self,
        verb: Verb,
        operands: Sequence[int] = (),
        *,
        constants: Sequence[int] = (),
        number: complex = 0.0,
        argument: int = 0,
        results: int = 1,
    ) -> int:
        """One instruction of the call that is noted now; the value that it makes."""
        self.places.append(self._place)
        return self.builder.add(verb, operands, results=results, constants=constants, number=number, argument=argument)

    def emit_series(self, verb: Verb, operand: int, series: Series) -> int:
        """One instruction with a series."""
        self.places.append(self._place)
        return self.builder.series(verb, operand, series)

    def open_sink(self) -> ConstantSink:
        """Where constants go; made when the first one comes."""
        if self.constants is None:
            self.constants = self._sink()
        return self.constants

    def _made(self, target: Any, value: int) -> None:
        """The result of a call, which has its place in the trace already, is a value of the package."""
        known = self._identities.get(target)
        if known is None or known.recording is not self.recording:
            raise Refused("the result of the call is not known")
        known.value = value

    def _did_nothing(self, call: Call, target: Any, before: Known) -> bool:
        """Whether a product in place left its operand alone: some of the wheel's assign to a copy of the pointer."""
        known = self._identities.get(target)
        if not call.in_place or known is None or (known.state != before.state and known.state.degree > 1):
            return False
        known.value, known.polynomials = before.value, before.polynomials
        return True

    def _pair(self, call: Call, args: tuple[Any, ...], result: Any, before: Sequence[Known]) -> None:
        a, b = args[0], args[1]
        is_reversed = type(a) is not self._ciphertext
        if is_reversed:
            a, b = b, a
        left = before[0]
        target = a if result is None else result
        if call.name.endswith("NoCheck"):
            _check_unchecked(call, before)
        if len(before) == 2:
            if call.kinds[0] in (OpKind.MULT, OpKind.MULT_NO_RELIN):
                _check_two_polynomials(before)
                if self._did_nothing(call, target, left):
                    return
            verb = Verb(call.kinds[0].value)
            self._made(target, self.emit(verb, [_value(left), _value(before[1])]))
        elif type(b) is self._plaintext:
            self._made(target, self._with_plaintext(call.kinds[1], left, self._operand(b), is_reversed))
        else:
            self._made(target, self._with_number(call.kinds[2], _value(left), _number(b), is_reversed))

    def _with_plaintext(self, kind: OpKind, left: Known, plain: Encoded, is_reversed: bool) -> int:
        if kind is OpKind.MULT_PLAIN and plain.degree > 1 and plain.limbs < self.params.num_q:
            raise Refused("a factor was encoded with the scale of a product: make it with noiseScaleDeg 1")
        value = self.lowered(left, plain)
        number = self.constant(plain)
        if is_reversed and kind is OpKind.SUB_PLAIN:
            return self.emit(Verb.ADD_PLAIN, [self.emit(Verb.NEGATE, [value])], constants=[number])
        return self.emit(Verb(kind.value), [value], constants=[number])

    def lowered(self, left: Known, plain: Encoded) -> int:
        """A ciphertext that meets a plaintext of fewer limbs: OpenFHE lowers it."""
        if plain.limbs < left.state.limbs:
            return self.emit(Verb.MOD_DROP, [_value(left)], argument=plain.limbs)
        return _value(left)

    def _with_number(self, kind: OpKind, value: int, number: complex, is_reversed: bool) -> int:
        if not number.imag:
            if is_reversed and kind is OpKind.SUB_SCALAR:
                return self.emit(Verb.SCALAR_SUB, [value], number=number.real)
            return self.emit(Verb(kind.value), [value], number=number.real)
        # Evaluators take real numbers: a complex one is a vector.
        constant = [self.builder.constant(np.full(self._slots, number))]
        if is_reversed and kind is OpKind.SUB_SCALAR:
            return self.emit(Verb.ADD_PLAIN, [self.emit(Verb.NEGATE, [value])], constants=constant)
        verbs = {
            OpKind.ADD_SCALAR: Verb.ADD_PLAIN,
            OpKind.SUB_SCALAR: Verb.SUB_PLAIN,
            OpKind.MULT_SCALAR: Verb.MULT_PLAIN,
        }
        return self.emit(verbs[kind], [value], constants=constant)

    def _one(self, call: Call, args: tuple[Any, ...], result: Any, before: Sequence[Known]) -> None:
        (kind,) = call.kinds
        target = args[0] if result is None else result
        if kind is OpKind.SQUARE:
            _check_two_polynomials(before)
            if self._did_nothing(call, target, before[0]):
                return
        self._made(target, self.emit(Verb(kind.value), [_value(before[0])]))

    def _rotate(self, call: Call, args: tuple[Any, ...], result: Any, before: Sequence[Known]) -> None:
        if self._identities.get(result) is before[0]:
            return  # a copy
        _check_two_polynomials(before)
        self._made(result, self.emit(Verb.ROTATE, [_value(before[0])], argument=self._step(args[1])))

    def _automorphism(self, call: Call, args: tuple[Any, ...], result: Any, before: Sequence[Known]) -> None:
        element = int(args[1])
        _check_two_polynomials(before)
        if element == 2 * self.params.ring_dim - 1:
            self._made(result, self.emit(Verb.CONJUGATE, [_value(before[0])]))
            return
        step = self.recording.step_of(element)
        if step is None:
            raise Refused(f"the automorphism {element} is neither a rotation nor the conjugation: take two calls")
        self._made(result, self.emit(Verb.ROTATE, [_value(before[0])], argument=step))

    def _decompose(self, call: Call, args: tuple[Any, ...], result: Any, before: Sequence[Known]) -> None:
        _check_two_polynomials(before)
        self._made(result, self.emit(Verb.DECOMPOSE, [_value(before[0])]))

    def _rotate_hoisted(self, call: Call, args: tuple[Any, ...], result: Any, before: Sequence[Known]) -> None:
        if self._identities.get(result) is before[0]:
            return
        operands = [_value(before[0]), _value(before[-1])]
        self._made(result, self.emit(Verb.ROTATE_HOISTED, operands, argument=self._step(args[1])))

    def _step(self, step: Any) -> int:
        half = self.params.ring_dim // 2
        step = int(step)
        return step if abs(step) <= half else step % half

    def _drop(self, call: Call, args: tuple[Any, ...], result: Any, before: Sequence[Known]) -> None:
        (kind,) = call.kinds
        target = args[0] if result is None else result
        a, out = before[0], self._identities.get(target)
        if out is a or out is None:
            return
        value = _value(a)
        if self.params.scaling.automatic:
            value = self.emit(Verb.MOD_DROP, [value], argument=out.state.limbs)
        else:
            rescales = a.state.degree - out.state.degree
            if kind is OpKind.RESCALE and (rescales != 1 or a.state.degree != 2):
                raise Refused("a ciphertext that is no product is rescaled, which loses its scale: leave it out")
            for _ in range(rescales):
                value = self.emit(Verb.RESCALE, [value])
            if out.state.limbs < a.state.limbs - rescales:
                value = self.emit(Verb.MOD_DROP, [value], argument=out.state.limbs)
        self._made(target, value)

    def _relinearize(self, call: Call, args: tuple[Any, ...], result: Any, before: Sequence[Known]) -> None:
        target = args[0] if result is None else result
        if self._identities.get(target) is before[0] and before[0].polynomials == 2:
            return
        if before[0].polynomials != 3:
            raise Refused(
                f"a ciphertext of {before[0].polynomials} polynomials is relinearized or its key switched; packages "
                "relinearize three: relinearize each product"
            )
        self._made(target, self.emit(Verb.RELINEARIZE, [_value(before[0])]))

    # Client side.
    def _encrypt(self, call: Call, args: tuple[Any, ...], result: Any, before: Sequence[Known]) -> None:
        key, plaintext = args[0], args[1]
        self._one_key(key)
        known = self.plaintexts.get(plaintext)
        if known is not None and known.decrypted:
            raise Refused(DECRYPTED.replace("an operand is", "what is encrypted is"))
        slots = plaintext.GetSlots()
        if self._slots not in (0, slots):
            raise Refused(
                f"inputs have {self._slots} slots and {slots} slots: give all plaintexts the same, or SetBatchSize"
            )
        out = self._identities.get(result)
        assert out is not None
        assert self._frame is not None
        if out.state != ScaleState.encrypted(self.params, out.state.limbs):
            raise Refused("a plaintext with the scale of a product is encrypted: make it with noiseScaleDeg 1")
        self._slots = slots
        length = plaintext.GetLength() if known is None or known.values is None else len(known.values)
        limbs = 0 if out.state.limbs == self.params.num_q else out.state.limbs
        name = self._inputs.free(stored_name(self._frame), "input")
        self.places.append(self._place)
        self._made(result, self.builder.encrypt(Input(name, min(length, slots), limbs, self._complex)))

    def _decrypt(self, call: Call, args: tuple[Any, ...], result: Any, before: Sequence[Known]) -> None:
        if call.name != "Decrypt":
            raise Refused("the secret key has several owners; packages have one: decrypt by Decrypt")
        ciphertext, key = (args[0], args[1]) if type(args[0]) is self._ciphertext else (args[1], args[0])
        self._one_key(key)
        if before[0].polynomials > 2:
            raise Refused("a product is decrypted before it is relinearized: call Relinearize first")
        assert self._frame is not None
        name = self._outputs.free(name_of(ciphertext, self._frame), "output")
        self.places.append(self._place)
        number = self.builder.output(_value(before[0]), Output(name, self._slots))
        self.plaintexts.set(
            result,
            Encoded(self, None, before[0].state.limbs, 1, self._slots, decrypted=True, output=number),
        )

    def shorten(self, known: Encoded, length: int) -> None:
        """`SetLength` of a plaintext that was decrypted."""
        if known.output >= 0 and self.refusal is None:
            self.builder.shorten(known.output, max(1, min(length, self._slots)))

    def _one_key(self, key: Any) -> None:
        tag = key.GetKeyTag()
        if self._key_tag not in (None, tag):
            raise Refused("the script uses several key pairs in one context; a package has one: make two scripts")
        self._key_tag = tag

    # Composites.
    def _composite(self, call: Call, args: tuple[Any, ...], result: Any, before: Sequence[Known]) -> None:
        work = emission.COMPOSITES.get(call.name)
        if work is None:
            raise Refused(f"the inside of {call.name} is not known: compute it by calls of one operation each")
        operands = [emission.Term(_value(each), each.state) for each in before]
        plain = next((self._operand(arg) for arg in args if type(arg) is self._plaintext), None)
        if plain is not None:
            operands[0] = emission.Term(self.lowered(before[0], plain), operands[0].state)
        try:
            value = work(self, args, operands, None if plain is None else self.constant(plain))
        except emission.Unknown as reason:
            raise Refused(str(reason)) from reason
        self._made(args[0] if result is None else result, value)

    def take_plan(self, plan: BootstrapPlan) -> None:
        """The shape of bootstrapping; a package has one."""
        if self._plan not in (None, plan):
            raise Refused("the script bootstraps in two shapes, and a package has one: take one level budget")
        self._plan = plan

    # The end.
    def package(self, constants: Constants | None = None) -> Package:
        """The package of what was recorded so far.

        Args:   constants: what the sink holds; if omitted, the sink itself, which keeps them in memory.
        Raises: NotPackaged: a call was refused; nothing was decrypted; the program breaks a rule of the evaluator.
        """
        if self.refusal is not None:
            raise self.refusal
        if constants is None:
            constants = self.constants if isinstance(self.constants, ConstantsInMemory) else ConstantsInMemory()
        params = replace(self.params, slots=self._slots or self.params.slots, bootstrap=self._plan)
        made = self.builder.unkeyed(
            self.recording.workload,
            params,
            constants,
            provenance={
                "penstock": __version__,
                "python": platform.python_version(),
                "openfhe": installed_version("openfhe") or "unknown",
            },
        )
        if not made.outputs:
            raise NotPackaged(
                f"{self.recording.workload}: nothing is decrypted, so a package would have no output: Decrypt what the "
                "program is for"
            )
        run = Stated(made)
        try:
            run.run()
        except PenstockError as error:
            raise NotPackaged(f"{self.places[run.done]}: {error}") from error
        return run.stated()


class _LateSink:
    """Constants go to the packaging's sink, which is made when the first one comes."""

    def __init__(self, packaging: Packaging) -> None:
        self._packaging = packaging

    def add(self, values: Values) -> int:
        return self._packaging.open_sink().add(values)


def _value(known: Known) -> int:
    assert known.value is not None
    return known.value


def _number(scalar: Any) -> complex:
    return complex(scalar) if hasattr(scalar, "__complex__") or isinstance(scalar, complex) else complex(float(scalar))


def _check_two_polynomials(operands: Sequence[Known]) -> None:
    if any(each.polynomials > 2 for each in operands):
        raise Refused("an operand is a product that was not relinearized: call Relinearize first")


def _check_unchecked(call: Call, operands: Sequence[Known]) -> None:
    if len(operands) != 2 or operands[0].state != operands[1].state:
        raise Refused(f"{call.name} leaves out what brings its operands together: call {call.name[:-7]}")


_HANDLERS: Mapping[Form, Handler] = {
    Form.PAIR: Packaging._pair,
    Form.ONE: Packaging._one,
    Form.ROTATE: Packaging._rotate,
    Form.DECOMPOSE: Packaging._decompose,
    Form.ROTATE_HOISTED: Packaging._rotate_hoisted,
    Form.AUTOMORPHISM: Packaging._automorphism,
    Form.DROP: Packaging._drop,
    Form.RELINEARIZE: Packaging._relinearize,
    Form.KEY_SWITCH: Packaging._relinearize,
    Form.ENCRYPT: Packaging._encrypt,
    Form.DECRYPT: Packaging._decrypt,
    Form.COMPOSITE: Packaging._composite,
    Form.CLONE: lambda self, call, args, result, before: None,
    Form.FORGET: lambda self, call, args, result, before: None,
    Form.KEYS: lambda self, call, args, result, before: None,
    Form.BOOTSTRAP_SETUP: lambda self, call, args, result, before: None,
}
