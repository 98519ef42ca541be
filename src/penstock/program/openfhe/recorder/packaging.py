"""Makes a program package of the calls of one context: what `Recording` sees, with the numbers that it leaves out.

Values that a script encrypts are never kept: a plaintext's values reach the package when it is an operand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FrameType

import numpy as np

from penstock.errors import PenstockError
from penstock.program.evaluator.protocol import Values
from penstock.program.evaluator.scaling import ScaleState
from penstock.program.openfhe.recorder import emission
from penstock.program.openfhe.recorder.behind import Behind
from penstock.program.openfhe.recorder.calls import Finished, Form, RecordedCall
from penstock.program.openfhe.recorder.identity import Identities, Known
from penstock.program.openfhe.recorder.names import Names, name_of, stored_name
from penstock.program.openfhe.recorder.observed import OBSERVED
from penstock.program.openfhe.recorder.plaintexts import Encoded, as_vector
from penstock.program.openfhe.recorder.recording import Recording, versions
from penstock.program.openfhe.recorder.refusals import DECRYPTED, OUTSIDE, CallSite, NotPackaged, Refused, place_of
from penstock.program.openfhe.recorder.stated import StatedReplay
from penstock.program.openfhe.types import Ciphertext, Numeric, Plaintext
from penstock.program.package.content import (
    Constants,
    ConstantSink,
    ConstantsInMemory,
    Input,
    Output,
    Package,
    Verb,
)
from penstock.program.package.noise import stated_noise
from penstock.scheme.operations import OpKind

SinkMaker = Callable[[int], ConstantSink]
"""Makes what takes the constants of a package, from its number in the run, 1 for the first."""


class Packaging:
    """A package in the making: the calls on ciphertexts of one key pair.

    After the first call that it cannot hold it keeps nothing more. The script and the trace do not depend on it. Its
    methods are called under the recording's lock.

    Args:   plaintexts: known plaintexts of the context. sink: makes the sink of constants, when it is first needed.
    """

    def __init__(
        self,
        number: int,
        name: str,
        recording: Recording,
        identities: Identities[Known],
        plaintexts: Identities[Encoded],
        sink: SinkMaker,
    ) -> None:
        self.number, self.name, self.recording = number, name, recording
        self.params, self.fhe = recording.params, recording.fhe
        self.refusal: NotPackaged | None = None
        self.given: dict[int, str] = {}
        self.inputs: dict[str, Values | None] = {}
        """The encrypted vectors, which no package holds; `None`: not known."""
        """Input that is encrypted after a decryption -> digest of the values that the script gave."""
        self.constants: ConstantSink | None = None
        self.builder = emission.CallBuilder(self, recording)
        self._identities, self._plaintexts, self._sink = identities, plaintexts, sink
        self._frame: FrameType | None = None
        self._slots = 0
        self._inputs, self._outputs = Names(), Names()
        self._ciphertext, self._plaintext = self.fhe.Ciphertext, self.fhe.Plaintext
        self._complex = recording.cc.GetCKKSDataType() == self.fhe.COMPLEX

    # What the group calls.
    def note(self, done: Finished, before: Sequence[Known | None], frame: FrameType, *, decrypted: bool) -> None:
        """One finished call. `decrypted`: a number among its arguments was decrypted."""
        if self.refusal is not None:
            return
        self._frame, self.builder.place = frame, place_of(done.call.name, frame)
        try:
            if decrypted:
                raise Refused(DECRYPTED)
            known = [] if done.call.form is Form.ENCRYPT else [self._checked(operand) for operand in before]
            getattr(self, done.call.form.handler)(done, known)
        except (Refused, PenstockError) as error:
            self.refuse(self.builder.place, str(error))
        except Exception as error:
            self.refuse(self.builder.place, f"{type(error).__name__}: {error}")
        finally:
            self._frame = None

    def refuse(self, place: CallSite, reason: str) -> None:
        """Make no package; the first reason counts."""
        if self.refusal is None:
            self.refusal = NotPackaged(f"{place}: {reason}")

    def _checked(self, known: Known | None) -> Known:
        if known is None or known.value is None or known.owner is not self:
            raise Refused(OUTSIDE)
        return known

    # Plaintexts.
    def _operand(self, plaintext: Plaintext) -> Encoded:
        known = self._plaintexts.get(plaintext)
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
        if known.owner is not self:
            assert known.values is not None
            vector = as_vector(known.values, is_complex=self._complex)
            if known.slots < self._slots:
                short = np.zeros(known.slots, dtype=vector.dtype)
                short[: len(vector)] = vector
                vector = np.tile(short, self._slots // known.slots)
            known.owner, known.constant = self, self.builder.constant(vector)
        return known.constant

    # Instructions.
    def add(self, values: Values) -> int:
        """As a sink of the builder: the package's own is made when the first constant comes."""
        if self.constants is None:
            self.constants = self._sink(self.number)
        return self.constants.add(values)

    def _made(self, target: Ciphertext, value: int) -> None:
        """The result of a call, which has its place in the trace already, is a value of the package."""
        known = self._identities.get(target)
        if known is None or known.recording is not self.recording:
            raise Refused("the result of the call is not known")
        known.value, known.owner = value, self

    def _did_nothing(self, call: RecordedCall, target: Ciphertext, before: Known) -> bool:
        """Whether a product in place left its operand alone: some of the wheel's assign to a copy of the pointer."""
        known = self._identities.get(target)
        if not call.in_place or known is None or (known.state != before.state and known.state.degree > 1):
            return False
        value = _value(before)
        if known.state.limbs < before.state.limbs:  # an operand that may be rescaled was
            value = self.builder.add(Verb.MOD_DROP, [value], argument=known.state.limbs)
        known.value, known.owner, known.polynomials = value, self, before.polynomials
        return True

    def _pair(self, done: Finished, before: Sequence[Known]) -> None:
        a, b = done.args[0], done.args[1]
        is_reversed = type(a) is not self._ciphertext
        if is_reversed:
            a, b = b, a
        left = before[0]
        target = a if done.result is None else done.result
        if done.call.name.endswith("NoCheck"):
            _check_unchecked(done.call, before)
        if len(before) == 2:
            if done.call.kinds[0] in (OpKind.MULT, OpKind.MULT_NO_RELIN):
                _check_two_polynomials(before)
                if self._did_nothing(done.call, target, left):
                    return
            verb = Verb(done.call.kinds[0].value)
            self._made(target, self.builder.add(verb, [_value(left), _value(before[1])]))
        elif type(b) is self._plaintext:
            self._made(target, self._with_plaintext(done.call.kinds[1], left, self._operand(b), is_reversed))
        else:
            self._made(target, self._with_number(done.call.kinds[2], _value(left), _number(b), is_reversed))

    def _with_plaintext(self, kind: OpKind, left: Known, plain: Encoded, is_reversed: bool) -> int:
        if kind is OpKind.MULT_PLAIN and plain.degree > 1 and plain.limbs < self.params.num_q:
            raise Refused("a factor was encoded with the scale of a product: make it with noiseScaleDeg 1")
        value = self.lowered(left, plain)
        number = self.constant(plain)
        if is_reversed and kind is OpKind.SUB_PLAIN:
            return self.builder.add(Verb.ADD_PLAIN, [self.builder.add(Verb.NEGATE, [value])], constants=[number])
        return self.builder.add(Verb(kind.value), [value], constants=[number])

    def lowered(self, left: Known, plain: Encoded) -> int:
        """A ciphertext that meets a plaintext of fewer limbs: OpenFHE lowers it."""
        if plain.limbs < left.state.limbs:
            return self.builder.add(Verb.MOD_DROP, [_value(left)], argument=plain.limbs)
        return _value(left)

    def _with_number(self, kind: OpKind, value: int, number: complex, is_reversed: bool) -> int:
        if not number.imag:
            if is_reversed and kind is OpKind.SUB_SCALAR:
                return self.builder.add(Verb.SCALAR_SUB, [value], number=number.real)
            return self.builder.add(Verb(kind.value), [value], number=number.real)
        # Evaluators take real numbers: a complex one is a vector.
        constant = [self.builder.constant(np.full(self._slots, number))]
        if is_reversed and kind is OpKind.SUB_SCALAR:
            return self.builder.add(Verb.ADD_PLAIN, [self.builder.add(Verb.NEGATE, [value])], constants=constant)
        return self.builder.add(Verb(kind.value.replace("_scalar", "_plain")), [value], constants=constant)

    def _one(self, done: Finished, before: Sequence[Known]) -> None:
        (kind,) = done.call.kinds
        if kind is OpKind.SQUARE:
            _check_two_polynomials(before)
            if self._did_nothing(done.call, done.target, before[0]):
                return
        self._made(done.target, self.builder.add(Verb(kind.value), [_value(before[0])]))

    def _rotate(self, done: Finished, before: Sequence[Known]) -> None:
        if self._identities.get(done.result) is before[0]:
            return  # a copy
        _check_two_polynomials(before)
        self._made(done.result, self.builder.add(Verb.ROTATE, [_value(before[0])], argument=self._step(done.args[1])))

    def _automorphism(self, done: Finished, before: Sequence[Known]) -> None:
        element = int(done.args[1])
        _check_two_polynomials(before)
        if element == 2 * self.params.ring_dim - 1:
            self._made(done.result, self.builder.add(Verb.CONJUGATE, [_value(before[0])]))
            return
        step = self.recording.step_of(element)
        if step is None:
            raise Refused(f"the automorphism {element} is neither a rotation nor the conjugation: take two calls")
        self._made(done.result, self.builder.add(Verb.ROTATE, [_value(before[0])], argument=step))

    def _decompose(self, done: Finished, before: Sequence[Known]) -> None:
        _check_two_polynomials(before)
        self._made(done.result, self.builder.add(Verb.DECOMPOSE, [_value(before[0])]))

    def _rotate_hoisted(self, done: Finished, before: Sequence[Known]) -> None:
        if self._identities.get(done.result) is before[0]:
            return
        operands = [_value(before[0]), _value(before[-1])]
        self._made(done.result, self.builder.add(Verb.ROTATE_HOISTED, operands, argument=self._step(done.args[1])))

    def _step(self, step: Numeric) -> int:
        half = self.params.ring_dim // 2
        step = int(step)
        return step if abs(step) <= half else step % half

    def _drop(self, done: Finished, before: Sequence[Known]) -> None:
        (kind,) = done.call.kinds
        a, out = before[0], self._identities.get(done.target)
        if out is a or out is None:
            return
        value = _value(a)
        if self.params.scaling.automatic:
            value = self.builder.add(Verb.MOD_DROP, [value], argument=out.state.limbs)
        else:
            rescales = a.state.degree - out.state.degree
            if kind is OpKind.RESCALE and (rescales != 1 or a.state.degree != 2):
                raise Refused("a ciphertext is rescaled that is not a product: leave the call out")
            for _ in range(rescales):
                value = self.builder.add(Verb.RESCALE, [value])
            if out.state.limbs < a.state.limbs - rescales:
                value = self.builder.add(Verb.MOD_DROP, [value], argument=out.state.limbs)
        self._made(done.target, value)

    def _relinearize(self, done: Finished, before: Sequence[Known]) -> None:
        if self._identities.get(done.target) is before[0] and before[0].polynomials == 2:
            return
        if before[0].polynomials != 3:
            raise Refused(
                f"a ciphertext of {before[0].polynomials} polynomials is relinearized or its key switched; packages "
                "relinearize three: relinearize each product"
            )
        self._made(done.target, self.builder.add(Verb.RELINEARIZE, [_value(before[0])]))

    _key_switch = _relinearize

    # Client side.
    def _encrypt(self, done: Finished, before: Sequence[Known]) -> None:
        plaintext = done.args[1]
        known = self._plaintexts.get(plaintext)
        if known is not None and known.decrypted:
            raise Refused(DECRYPTED.replace("an operand is", "what is encrypted is"))
        slots = plaintext.GetSlots()
        if self._slots not in (0, slots):
            raise Refused(
                f"inputs have {self._slots} slots and {slots} slots: give all plaintexts the same, or SetBatchSize"
            )
        out = self._identities.get(done.result)
        assert out is not None
        assert self._frame is not None
        if out.state != ScaleState.encrypted(self.params, out.state.limbs):
            raise Refused("a plaintext with the scale of a product is encrypted: make it with noiseScaleDeg 1")
        self._slots = slots
        length = plaintext.GetLength() if known is None or known.values is None else len(known.values)
        limbs = 0 if out.state.limbs == self.params.num_q else out.state.limbs
        name = self._inputs.free(stored_name(self._frame), "input")
        if OBSERVED.decrypted and known is not None and known.values is not None:
            encoded = as_vector(known.values, is_complex=True)
            self.given[len(self.builder.inputs)] = hashlib.sha256(encoded.tobytes()).hexdigest()
        length = min(length, slots)
        given = None if known is None else known.values
        self.inputs[name] = None if given is None else as_vector(given, is_complex=self._complex)[:length]
        self._made(done.result, self.builder.encrypt(Input(name, length, limbs, self._complex)))

    def _decrypt(self, done: Finished, before: Sequence[Known]) -> None:
        if done.call.name != "Decrypt":
            raise Refused("the secret key has several owners; packages have one: decrypt by Decrypt")
        ciphertext = done.args[0] if type(done.args[0]) is self._ciphertext else done.args[1]
        if before[0].polynomials > 2:
            raise Refused("a product is decrypted before it is relinearized: call Relinearize first")
        assert self._frame is not None
        name = self._outputs.free(name_of(ciphertext, self._frame), "output")
        number = self.builder.output(_value(before[0]), Output(name, self._slots))
        self._plaintexts.set(
            done.result,
            Encoded(None, before[0].state.limbs, 1, self._slots, decrypted=True, owner=self, output=number),
        )

    # Composites.
    def _composite(self, done: Finished, before: Sequence[Known]) -> None:
        work = emission.COMPOSITES.get(done.call.name)
        if work is None:
            raise Refused(f"the inside of {done.call.name} is not known: compute it by calls of one operation each")
        operands = [_value(operand) for operand in before]
        plain = next((self._operand(arg) for arg in done.args if type(arg) is self._plaintext), None)
        if plain is not None:
            operands[0] = self.lowered(before[0], plain)
        number = None if plain is None else self.constant(plain)
        self._made(done.target, work(self.builder, done.args, operands, number))

    # The end.
    def collected(self) -> Package:
        """Return the calls so far, unchecked. All constants are written when it returns.

        Raises: PenstockError: one could not be.
        """
        return self._settled(self.builder.finish(self.name, self.params, ConstantsInMemory(), keyed=False))

    def _settled(self, package: Package) -> Package:
        """With the numbers that the sink gave in the end."""
        if not isinstance(self.constants, Behind):
            return package
        numbers = self.constants.settled()
        instructions = [
            call._replace(constants=tuple(numbers[k] for k in call.constants)) if call.constants else call
            for call in package.instructions
        ]
        return replace(package, instructions=instructions)

    def package(self, constants: Constants | None = None) -> Package:
        """Return the package of the calls so far.

        Args:   constants: read access to the sink; an in-memory sink if omitted.
        Raises: NotPackaged: a call was refused; nothing was decrypted; the program breaks a rule of the evaluator.
        """
        if self.refusal is not None:
            raise self.refusal
        is_whole = constants is not None or self.constants is None or isinstance(self.constants, ConstantsInMemory)
        if constants is None:
            constants = self.constants if isinstance(self.constants, ConstantsInMemory) else ConstantsInMemory()
        params = replace(self.params, slots=self._slots or self.params.slots, bootstrap=self.builder.plan)
        made = self.builder.finish(self.name, params, constants, provenance=versions(), keyed=False)
        if not made.outputs:
            raise NotPackaged(f"{self.name}: nothing is decrypted, so the package has no output: decrypt the results")
        run = StatedReplay(self._settled(made))
        try:
            run.run()
        except PenstockError as error:
            raise NotPackaged(f"{self.builder.places[run.done]}: {error}") from error
        stated = run.stated()
        inputs = {name: values for name, values in self.inputs.items() if values is not None}
        is_whole = is_whole and inputs.keys() == self.inputs.keys()
        return replace(stated, noise=stated_noise(stated, inputs)) if is_whole else stated


def _value(known: Known) -> int:
    assert known.value is not None
    return known.value


def _number(scalar: Numeric) -> complex:
    return complex(scalar) if hasattr(scalar, "__complex__") or isinstance(scalar, complex) else complex(float(scalar))


def _check_two_polynomials(operands: Sequence[Known]) -> None:
    if any(operand.polynomials > 2 for operand in operands):
        raise Refused("an operand is a product that was not relinearized: call Relinearize first")


def _check_unchecked(call: RecordedCall, operands: Sequence[Known]) -> None:
    if len(operands) != 2 or operands[0].state != operands[1].state:
        raise Refused(f"{call.name} leaves out what brings its operands together: call {call.name[:-7]}")
