"""Recording by temporary replacement of methods of OpenFHE's classes: the script's own objects are recorded.

One tap serves the process, since the classes are the process's. While it is open, every computing method of
CryptoContext and Ciphertext goes through a function that calls the original and notes its effect. Once closed, the
classes are as before. A context that is not recorded costs one dictionary look-up a call.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from itertools import count
from time import perf_counter
from types import ModuleType

from penstock.errors import UsageError
from penstock.program.openfhe.recorder.calls import (
    CIPHERTEXT_CALLS,
    Form,
    RecordedCall,
    context_call,
    names_of,
    positional,
)
from penstock.program.openfhe.recorder.capture import Capture
from penstock.program.openfhe.recorder.emission import NotedFunction
from penstock.program.openfhe.recorder.identity import Identities, Known
from penstock.program.openfhe.recorder.packaging import SinkMaker
from penstock.program.openfhe.recorder.packagings import Packagings
from penstock.program.openfhe.recorder.parameters import NotRecordable
from penstock.program.openfhe.recorder.recording import Recording
from penstock.program.openfhe.types import Argument, Ciphertext, CryptoContext, Method


class Tap:
    """The replaced methods, and the recordings they feed."""

    def __init__(self) -> None:
        self.recordings: dict[int, Recording | None] = {}
        """Context, by address -> its recording (which keeps it alive), `None` for one that is passed through."""
        self.identities: Identities[Known] = Identities()
        self.workload = "script"
        self.on_refused: Callable[[NotRecordable], None] = lambda error: None
        """Told of each context that could not be recorded, while everything is."""
        self._kept: list[CryptoContext] = []
        self.everything = False
        """Whether contexts that nobody asked for are recorded too."""
        self.sinks: SinkMaker | None = None
        """Makes what takes the constants of a package; `None`: contexts that are met get no package."""
        self.other_inputs = False
        """Whether `Encrypt` encrypts other values than the script gives."""
        self._capture: Capture | None = None
        self._numbers = count(1)
        self._fhe: ModuleType | None = None
        self._originals: list[tuple[object, str, object]] = []
        self._lock = threading.RLock()

    @property
    def is_open(self) -> bool:
        return self._fhe is not None

    def open(self, fhe: ModuleType) -> None:
        """Replace the methods of `fhe`'s classes. Open already: nothing happens."""
        with self._lock:
            if self._fhe is not None:
                return
            self._fhe = fhe
            context, ciphertext = fhe.CryptoContext, fhe.Ciphertext
            for name, method in list(vars(context).items()):
                call = context_call(name, method)
                if call is not None:
                    self.replace_method(context, name, self._recorded(call, method))
            for name, call in CIPHERTEXT_CALLS.items():
                if name in vars(ciphertext):
                    self.replace_method(ciphertext, name, self._recorded_ciphertext(call, vars(ciphertext)[name]))
            if self.sinks is not None:
                # Before the script runs `from openfhe import *`, which copies functions.
                self._captured()

    def close(self) -> None:
        """Put every original method back, and forget contexts and ciphertexts."""
        with self._lock:
            for owner, name, original in reversed(self._originals):
                if original is _ABSENT:
                    delattr(owner, name)
                else:
                    setattr(owner, name, original)
            self._originals.clear()
            for recording in self.recordings.values():
                if recording is not None:
                    recording.active = False
            self.recordings.clear()
            self._kept.clear()
            self.identities = Identities()
            self.everything, self.sinks, self._capture, self.other_inputs = False, None, None, False
            self._numbers = count(1)
            self._fhe = None

    def add_method(self, name: str, function: Method) -> None:
        """A method that contexts have while the tap is open."""
        with self._lock:
            assert self._fhe is not None
            if name not in vars(self._fhe.CryptoContext):
                self.replace_method(self._fhe.CryptoContext, name, function)

    def start(self, cc: CryptoContext) -> Recording:
        """The recording of `cc`, which begins now if there is none.

        Raises: NotRecordable: not a context of a kind that this version records. UsageError: no context at all.
        """
        with self._lock:
            fhe = self._fhe
            assert fhe is not None
            if not isinstance(cc, fhe.CryptoContext):
                raise UsageError(f"record() takes OpenFHE's CryptoContext, not {type(cc).__name__}")
            recording = self.recordings.get(id(cc))
            if recording is None:
                recording = Recording(cc, fhe, self.identities, self._name())
                self.recordings[id(cc)] = recording
                if self.sinks is not None:
                    self.keep_constants(recording, self.sinks)
            return recording

    def keep_constants(self, recording: Recording, sink: SinkMaker) -> Packagings:
        """From now on the recording makes a package, too. Made already: it goes on.

        Args:   sink: makes what takes its constants, when the first one comes.
        """
        with self._lock:
            if not isinstance(recording.packaging, Packagings):
                recording.packaging = made = Packagings(recording, self.identities, sink, self._numbers)
                self._captured().add(made)
            return recording.packaging

    def _captured(self) -> Capture:
        if self._capture is None:
            assert self._fhe is not None
            self._capture = Capture(self, self._fhe)
            self._capture.open()
        return self._capture

    def recording_of(self, cc: CryptoContext) -> Recording | None:
        """The recording of a context, which begins now where everything is recorded."""
        try:
            return self.recordings[id(cc)]
        except KeyError:
            return self._met(cc)

    def same_context(self, cc: CryptoContext, recording: Recording) -> None:
        """Another object for a context that is recorded: it was written and read again."""
        with self._lock:
            if id(cc) not in self.recordings:
                self.recordings[id(cc)] = recording
                self._kept.append(cc)

    def stop(self, cc: CryptoContext) -> None:
        """End the recording of `cc`; with the last one the classes are put back."""
        with self._lock:
            recording = self.recordings.pop(id(cc), None)
            if recording is not None:
                recording.active = False
            if not any(self.recordings.values()) and not self.everything:
                self.close()

    def _name(self) -> str:
        number = len({id(r) for r in self.recordings.values() if r is not None}) + 1
        return self.workload if number == 1 else f"{self.workload}#{number}"

    def _met(self, cc: CryptoContext) -> Recording | None:
        """The recording of a context that is met for the first time while everything is recorded."""
        if not self.everything:
            return None
        with self._lock:
            key = id(cc)
            if key in self.recordings:
                return self.recordings[key]
            try:
                return self.start(cc)
            except NotRecordable as error:
                refusal = error
            except Exception as error:
                refusal = NotRecordable(f"a context that cannot be read is not recorded: {error}")
            # The program goes on unrecorded. The context's address must not be given to another.
            self.recordings[key] = None
            self._kept.append(cc)
            self.on_refused(refusal)
            return None

    def replace_method(self, owner: object, name: str, function: Method) -> None:
        self._originals.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, function)

    def _recorded(self, call: RecordedCall, original: Method) -> Method:
        recordings, met, handler = self.recordings, self._met, getattr(Recording, call.form.handler)
        names = names_of(original.__doc__ or "")
        # The operands of a call must be known in their state before it.
        meet_first = call.in_place or call.mutable
        takes_function, encrypts = call.name == "EvalChebyshevFunction", call.form is Form.ENCRYPT

        @functools.wraps(original)
        def method(cc: CryptoContext, *args: Argument, **kwargs: Argument) -> object:
            try:
                recording = recordings[id(cc)]
            except KeyError:
                recording = met(cc)
            if recording is None:
                return original(cc, *args, **kwargs)
            if meet_first:
                recording.meet((*args, *kwargs.values()))
            if takes_function and recording.packaging is not None:
                args, kwargs = positional(names, args, kwargs) if kwargs else args, {}
                args = (NotedFunction(args[0]), *args[1:])
            start = perf_counter()
            if encrypts and self.other_inputs:
                args, kwargs = positional(names, args, kwargs) if kwargs else args, {}
                result = original(cc, args[0], self._captured().other(cc, args[1]))
            else:
                result = original(cc, *args, **kwargs)
            end = perf_counter()
            recording.note(handler, call, positional(names, args, kwargs) if kwargs else args, result, start, end)
            return result

        return method

    def _recorded_ciphertext(self, call: RecordedCall, original: Method) -> Method:
        identities, recordings, met = self.identities, self.recordings, self._met
        handler = getattr(Recording, call.form.handler)

        @functools.wraps(original)
        def method(ciphertext: Ciphertext, *args: object, **kwargs: object) -> object:
            known = identities.get(ciphertext)
            if known is None:
                cc = ciphertext.GetCryptoContext()
                recording = recordings.get(id(cc)) or met(cc)
            else:
                recording = known.recording if known.recording.active else None
            if recording is None:
                return original(ciphertext, *args, **kwargs)
            if call.in_place:
                recording.meet((ciphertext, *args))
            start = perf_counter()
            result = original(ciphertext, *args, **kwargs)
            end = perf_counter()
            recording.note(handler, call, (ciphertext, *args, *kwargs.values()), result, start, end)
            return result

        return method


_ABSENT = object()

TAP = Tap()
"""The process's tap."""


def script_name() -> str:
    """The name of the program that runs: the stem of its script."""
    from pathlib import Path

    return Path(sys.argv[0]).stem if sys.argv and sys.argv[0] not in ("", "-c", "-m") else "program"
