"""What a package needs besides the calls on ciphertexts: plaintexts' values, decrypted numbers, serialized objects.

These methods and functions of OpenFHE are replaced only while a package is recorded.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Protocol

import numpy as np
import numpy.typing as npt

from penstock.base.system.files import FileError, file_sha256
from penstock.program.openfhe.recorder.decrypted import is_decrypted, marked, replace_functions, unmarked
from penstock.program.openfhe.recorder.identity import Identities, Known
from penstock.program.openfhe.recorder.observed import OBSERVED
from penstock.program.openfhe.recorder.others import other_values
from penstock.program.openfhe.recorder.packagings import Packagings
from penstock.program.openfhe.recorder.plaintexts import Encoded, as_array, as_vector, values_copy
from penstock.program.openfhe.recorder.recording import Recording
from penstock.program.openfhe.types import Argument, CryptoContext, Method, Plaintext

_READS = (
    "GetCKKSPackedValue",
    "GetCKKSPackedValueArray",
    "GetRealPackedValue",
    "GetRealPackedValueArray",
    "GetLogError",
    "GetLogPrecision",
)
_EDITS = ("Encode", "SetIntVectorValue", "SetLevel", "SetNoiseScaleDeg", "SetScalingFactor", "SetSlots")
_CIPHERTEXT_EDITS = ("SetScalingFactor", "SetScalingFactorInt", "SetSlots")


class Tapped(Protocol):
    """What the tap does for a capture."""

    identities: Identities[Known]

    def recording_of(self, cc: CryptoContext) -> Recording | None:
        """The recording of a context, which begins now where everything is recorded."""
        ...

    def replace_method(self, owner: object, name: str, function: Method) -> None: ...

    def same_context(self, cc: CryptoContext, recording: Recording) -> None:
        """Another object for a context that is recorded."""
        ...


class Capture:
    """The replaced methods and functions of one tap."""

    def __init__(self, tap: Tapped, fhe: ModuleType) -> None:
        self._tap, self._fhe = tap, fhe
        self._packagings: list[Packagings] = []
        self._make = fhe.CryptoContext.MakeCKKSPackedPlaintext
        self._others: dict[str, npt.NDArray[np.generic]] = {}
        """Digest of values that the script encrypts -> other ones."""
        self._ciphertexts: dict[str, Known] = {}
        self._contexts: dict[str, Recording] = {}

    def open(self) -> None:
        """Replace them."""
        fhe, replaced = self._fhe, self._tap.replace_method
        OBSERVED.clear()
        replace_functions(replaced)
        replaced(
            fhe.CryptoContext, "MakeCKKSPackedPlaintext", self._encoding(fhe.CryptoContext.MakeCKKSPackedPlaintext)
        )
        replaced(fhe.Plaintext, "SetLength", _after(fhe.Plaintext.SetLength, self._shorten))
        for name in _READS:
            replaced(fhe.Plaintext, name, _after(getattr(fhe.Plaintext, name), self._read))
        for name in _EDITS:
            replaced(fhe.Plaintext, name, _after(getattr(fhe.Plaintext, name), self._forget_plaintext))
        for name in _CIPHERTEXT_EDITS:
            replaced(fhe.Ciphertext, name, _after(getattr(fhe.Ciphertext, name), self._forget_ciphertext))
        replaced(fhe, "Serialize", _after(fhe.Serialize, self._serialized))
        replaced(fhe, "SerializeToFile", _after(fhe.SerializeToFile, self._filed))
        for kind in ("Ciphertext", "CryptoContext"):
            for name, from_file in ((f"Deserialize{kind}", True), (f"Deserialize{kind}String", False)):
                replaced(fhe, name, self._reading_back(getattr(fhe, name), from_file=from_file))

    def add(self, packaging: Packagings) -> None:
        """Plaintexts of this packaging's context are its own."""
        self._packagings.append(packaging)

    # Plaintexts.
    def _encoding(self, original: Method) -> Method:
        recording_of = self._tap.recording_of

        @functools.wraps(original)
        def method(cc: CryptoContext, *args: Argument, **kwargs: Argument) -> object:
            recording = recording_of(cc)
            packaging = None if recording is None else recording.packaging
            if recording is None or not isinstance(packaging, Packagings) or packaging.refusal is not None:
                return original(cc, *args, **kwargs)
            start = perf_counter()
            given = args[0] if args else kwargs.pop("value")
            decrypted = packaging.read_decrypted and is_decrypted(given)
            values = as_array(unmarked(given))
            called = perf_counter()
            with OBSERVED.paused():
                made = original(cc, values, *args[1:], **kwargs)
            end = perf_counter()
            packaging.encoded(made, values_copy(values) if values is given else values, decrypted=decrypted)
            recording.overhead_s += perf_counter() - end + called - start
            return made

        return method

    def other(self, cc: CryptoContext, plaintext: Plaintext) -> Plaintext:
        """A plaintext like this one, with other values; itself where its values are not known."""
        known = self._known(plaintext)
        if known is None or known[1].values is None or known[1].decrypted:
            return plaintext
        packaging, encoded = known
        values = as_vector(known[1].values, is_complex=True)
        digest = _digest(values.tobytes())
        if digest not in self._others:
            self._others[digest] = other_values(values, len(self._others))
        return self._make(
            cc, self._others[digest], encoded.degree, packaging.num_q - encoded.limbs, None, encoded.slots
        )

    def _known(self, plaintext: Plaintext) -> tuple[Packagings, Encoded] | None:
        for packaging in self._packagings:
            known = packaging.plaintexts.get(plaintext)
            if known is not None:
                return packaging, known
        return None

    # What follows a call: from its result and its arguments to what the script gets.
    def _shorten(self, result: object, plaintext: Plaintext, *_: Argument, **__: Argument) -> object:
        known = self._known(plaintext)
        if known is not None:
            known[0].shorten(known[1], plaintext.GetLength())
        return result

    def _read(self, numbers: object, plaintext: Plaintext, *_: Argument, **__: Argument) -> object:
        known = self._known(plaintext)
        if known is None or not known[1].decrypted:
            return numbers
        for packaging in self._packagings:
            packaging.read_decrypted = True
        return marked(numbers)

    def _forget_plaintext(self, result: object, plaintext: Plaintext, *_: Argument, **__: Argument) -> object:
        known = self._known(plaintext)
        if known is not None:
            known[1].values = None
        return result

    def _forget_ciphertext(self, result: object, ciphertext: object, *_: Argument, **__: Argument) -> object:
        self._tap.identities.forget(ciphertext)
        return result

    def _serialized(self, content: str | bytes, /, obj: object = None, *_: Argument, **__: Argument) -> object:
        self._written(obj, lambda: _digest(content))
        return content

    def _filed(self, done: object, /, filename: str, obj: object = None, *_: Argument, **__: Argument) -> object:
        if done:
            self._written(obj, lambda: _file_digest(filename))
        return done

    def _written(self, thing: object, digest: Callable[[], str]) -> None:
        if isinstance(thing, self._fhe.Ciphertext):
            known = self._tap.identities.get(thing)
            if known is not None:
                self._ciphertexts[digest()] = known
        elif isinstance(thing, self._fhe.CryptoContext):
            recording = self._tap.recording_of(thing)
            if recording is not None:
                self._contexts[digest()] = recording

    def _reading_back(self, original: Method, *, from_file: bool) -> Method:
        @functools.wraps(original)
        def function(*args: Argument, **kwargs: Argument) -> object:
            source = args[0] if args else kwargs["filename" if from_file else "str"]
            # The script may write over the file later.
            digest = _file_digest(source) if from_file else _digest(source)
            read = original(*args, **kwargs)
            thing = read[0] if from_file else read
            if digest in self._ciphertexts:
                self._tap.identities.set(thing, self._ciphertexts[digest])
            elif digest in self._contexts:
                self._tap.same_context(thing, self._contexts[digest])
            return read

        return function


def _after(original: Method, then: Method) -> Method:
    """The function, whose result goes through `then` with the arguments."""

    @functools.wraps(original)
    def function(*args: Argument, **kwargs: Argument) -> object:
        return then(original(*args, **kwargs), *args, **kwargs)

    return function


def _digest(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def _file_digest(path: str) -> str:
    """Of a file's content; of nothing where it cannot be read, which the library says itself."""
    try:
        return file_sha256(Path(path))
    except FileError:
        return ""
