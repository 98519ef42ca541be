"""The packages of one context, one for each key pair: contexts of equal parameters are one object in OpenFHE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import FrameType

from penstock.errors import PenstockError
from penstock.program.openfhe.recorder.calls import Finished, Form, RecordedCall
from penstock.program.openfhe.recorder.decrypted import is_decrypted
from penstock.program.openfhe.recorder.identity import Identities, Known
from penstock.program.openfhe.recorder.observed import OBSERVED
from penstock.program.openfhe.recorder.packaging import Packaging, SinkMaker
from penstock.program.openfhe.recorder.parameters import context_primes
from penstock.program.openfhe.recorder.plaintexts import Encoded, GivenValues
from penstock.program.openfhe.recorder.recording import Recording
from penstock.program.openfhe.recorder.refusals import OUTSIDE, NotPackaged, chosen, place_of
from penstock.program.openfhe.types import Arguments, Plaintext
from penstock.scheme.params.primes import openfhe_primes

_NOTHING = Form.KEYS, Form.BOOTSTRAP_SETUP, Form.FORGET, Form.CLONE
"""Calls that make no value. A clone is the value that it was made of."""


class Packagings:
    """Sees every call of a recording, and gives it to the package whose key pair encrypted its operands."""

    def __init__(
        self, recording: Recording, identities: Identities[Known], sink: SinkMaker, numbers: Iterator[int]
    ) -> None:
        self.packages: list[Packaging] = []
        """In the order of their first encryption. Some may be refused."""
        self.plaintexts: Identities[Encoded] = Identities()
        self.refusal: NotPackaged | None = None
        """Why nothing of the context becomes a package."""
        self.read_decrypted = False
        """Whether the script has asked for decrypted numbers: before that none can be marked."""
        self._recording, self._identities = recording, identities
        self._sink, self._numbers = sink, numbers
        self._by_key: dict[str, Packaging] = {}
        self.num_q = recording.params.num_q
        try:
            self._check(recording)
        except PenstockError as error:
            self.refusal = NotPackaged(f"{recording.workload}: {error}")

    @staticmethod
    def _check(recording: Recording) -> None:
        if not recording.params.num_p:
            raise NotPackaged("key switching is BV, which packages do not have: take HYBRID")
        if context_primes(recording.cc, recording.fhe) != openfhe_primes(recording.params)[0]:
            raise NotPackaged(
                "the primes of the context differ from those that OpenFHE 1.6 derives from its sizes: call "
                "GenCryptoContext in the script"
            )

    @property
    def refusals(self) -> list[NotPackaged]:
        """Why parts of the context do not become packages."""
        reasons = [self.refusal, *(packaging.refusal for packaging in self.packages)]
        return [reason for reason in reasons if reason is not None]

    # What the recording calls.
    def operands(self, args: Arguments) -> list[Known | None]:
        return [self._identities.get(ciphertext) for ciphertext in self._recording.ciphertexts(args)]

    def note(self, done: Finished, before: Sequence[Known | None], frame: FrameType) -> None:
        call = done.call
        if self.refusal is not None or call.form in _NOTHING:
            return
        owner = self._owner(done, before, frame)
        decrypted = self.read_decrypted and any(map(is_decrypted, done.args))
        with OBSERVED.paused():
            owner.note(done, before, frame, decrypted=decrypted)
        if call.form is Form.DECRYPT:
            OBSERVED.decrypted = True
        elif OBSERVED.first is not None:
            owner.refuse(place_of(call.name, frame), chosen(OBSERVED.first))
        if owner.refusal is not None:
            # Later calls on its results are refused with it.
            for ciphertext in self._recording.ciphertexts((*done.args, done.result)):
                known = self._identities.get(ciphertext)
                if known is not None and known.owner is None:
                    known.owner = owner

    def lose(self, call: RecordedCall, frame: FrameType) -> None:
        if self.refusal is None:
            self.refusal = NotPackaged(f"{place_of(call.name, frame)}: the call was not recorded")

    def _owner(self, done: Finished, before: Sequence[Known | None], frame: FrameType) -> Packaging:
        if done.call.form is Form.ENCRYPT:
            return self._of_key(done.args[0].GetKeyTag())
        owners = {id(known.owner): known.owner for known in before if known is not None and known.owner is not None}
        packagings: list[Packaging] = list(owners.values())
        place = place_of(done.call.name, frame)
        if not packagings:
            packagings = [
                self._of_key(ciphertext.GetKeyTag()) for ciphertext in self._recording.ciphertexts(done.args)[:1]
            ] or [self._new()]
            packagings[0].refuse(place, OUTSIDE)
        for packaging in packagings if len(packagings) > 1 else ():
            packaging.refuse(
                place, "operands are encrypted under several keys: a package has one key pair; make two scripts"
            )
        return packagings[0]

    def _of_key(self, tag: str) -> Packaging:
        if tag not in self._by_key:
            self._by_key[tag] = self._new()
        return self._by_key[tag]

    def _new(self) -> Packaging:
        name = self._recording.workload
        if self.packages:
            name = f"{name}#{len(self.packages) + 1}"
        made = Packaging(next(self._numbers), name, self._recording, self._identities, self.plaintexts, self._sink)
        self.packages.append(made)
        return made

    # What the capture calls.
    def encoded(self, plaintext: Plaintext, values: GivenValues, *, decrypted: bool) -> None:
        """A plaintext that the script made, with a copy of its values, and whether one of them was decrypted."""
        if self.refusal is None:
            limbs, degree = self.num_q - plaintext.GetLevel(), plaintext.GetNoiseScaleDeg()
            self.plaintexts.set(plaintext, Encoded(values, limbs, degree, plaintext.GetSlots(), decrypted=decrypted))

    def shorten(self, known: Encoded, length: int) -> None:
        """`SetLength` of a plaintext that was decrypted."""
        if known.output >= 0:
            known.owner.builder.shorten(known.output, max(1, min(length, known.slots)))
