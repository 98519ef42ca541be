"""The record of one CryptoContext: every call that the script makes becomes a row of a trace."""

from __future__ import annotations

import platform
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FrameType, ModuleType
from typing import Protocol

from penstock.base.system.host import installed_version
from penstock.base.version import __version__
from penstock.errors import ParamsError
from penstock.program.evaluator.rows import state_of
from penstock.program.evaluator.scaling import Aligned, ScaleState, align_pair
from penstock.program.openfhe.recorder.calls import Finished, Form, RecordedCall
from penstock.program.openfhe.recorder.expansions import Expander
from penstock.program.openfhe.recorder.identity import Identities, Known
from penstock.program.openfhe.recorder.parameters import context_parameters
from penstock.program.openfhe.types import Arguments, Ciphertext, CryptoContext, Plaintext
from penstock.scheme.operations import CONJ_KEY, RELIN_KEY, OpKind, rotation_key, rotation_steps
from penstock.scheme.traces.builder import TraceBuilder
from penstock.scheme.traces.schema import ORIGIN_COMPOSITE, Trace, TraceMeta

# Looked up once: an Enum's attributes and hashes are Python calls, and every operation passes here.
_MULT, _MULT_PLAIN, _MULT_NO_RELIN = OpKind.MULT, OpKind.MULT_PLAIN, OpKind.MULT_NO_RELIN


def versions() -> dict[str, str]:
    """Of what makes a recording."""
    openfhe = installed_version("openfhe") or "unknown"
    return {"penstock": __version__, "python": platform.python_version(), "openfhe": openfhe}


class Observer(Protocol):
    """Sees every call, before and after it becomes a row. It never raises."""

    def operands(self, args: Arguments) -> list[Known | None]:
        """Return the known state of each ciphertext argument, before results replace operands."""
        ...

    def note(self, done: Finished, before: Sequence[Known | None], frame: FrameType) -> None:
        """One finished call, and the frame of the script that made it."""
        ...

    def lose(self, call: RecordedCall, frame: FrameType) -> None:
        """A call that did not become a row."""
        ...


class Recording:
    """The operations that one context executes, with the limbs of the real ciphertexts and the time of each call.

    Thread safe: calls may come from several threads; rows are in the order in which calls end.
    """

    def __init__(self, cc: CryptoContext, fhe: ModuleType, identities: Identities[Known], workload: str) -> None:
        """Raises: NotRecordable: the context is of a kind that this version does not record."""
        self.cc = cc
        self.fhe = fhe
        self.params = context_parameters(cc, fhe)
        self.workload = workload
        self.builder = TraceBuilder(self.params)
        self.problems: list[str] = []
        """Calls that could not be recorded, in words; the script itself was not disturbed."""
        self.overhead_s = 0.0
        """Seconds that recording itself took."""
        self.calls = 0
        self.active = True
        self.packaging: Observer | None = None
        """Makes packages of the calls; `None`: only a trace is wanted."""
        self.ended = ""
        """How the program ended early, if it did."""
        self._identities = identities
        self._ciphertext, self._plaintext = fhe.Ciphertext, fhe.Plaintext
        self._num_q = self.params.num_q
        self._automatic = self.params.scaling.automatic
        self.expander = Expander(self.params, fhe)
        self._lock = threading.Lock()
        self._origin = time.perf_counter()
        # A program meets few states: looking them up is cheaper than making them.
        self._alignments: dict[tuple[int, int, int, int, bool], Aligned] = {}
        self._inputs = 0
        self._surprises = 0
        self._relin_keys = 0
        self._automorphism_keys: dict[str, set[int]] = {}

    # What the recording says.
    @property
    def num_operations(self) -> int:
        return self.builder.num_operations

    def trace(self) -> Trace:
        """Everything recorded so far; recording may go on."""
        with self._lock:
            meta = TraceMeta(
                workload=self.workload,
                params=self.params.to_dict(),
                reading="record",
                versions=versions(),
                notes=tuple(self._notes()),
            )
            return self.builder.finish(meta)

    @property
    def num_automorphism_keys(self) -> int:
        """Automorphism keys that the script generated."""
        return sum(map(len, self._automorphism_keys.values()))

    def _notes(self) -> list[str]:
        notes = [
            f"evaluation keys generated: {self._relin_keys} relinearization, {self.num_automorphism_keys} automorphism"
        ]
        if not self.params.p_bits:
            notes.append("key switching is BV, limb by limb: stored as hybrid with one limb a digit, no special primes")
        if self._inputs:
            notes.append(f"{self._inputs} ciphertexts came from outside the recording (loaded, or made before it)")
        if self._surprises:
            notes.append(
                f"{self._surprises} operations ended at other limbs than the scaling rules say; real ones are kept"
            )
        if self.problems:
            notes.append(f"{len(self.problems)} calls could not be recorded; the first: {self.problems[0]}")
        if self.ended:
            notes.append(f"the program ended early: {self.ended}; the trace holds what ran before")
        return notes

    # What the patched methods call.
    def meet(self, args: Arguments) -> None:
        """Before a call that changes operands in place: operands of unknown origin become inputs in their present
        state."""
        for ciphertext in self.ciphertexts(args):
            with self._lock:
                self._known(ciphertext)

    def note(
        self,
        handler: Callable[[Recording, Finished], None],
        call: RecordedCall,
        args: Arguments,
        result: object,
        start: float,
        end: float,
    ) -> None:
        """One finished call. A failure here is kept for the notes: the script goes on."""
        packaging = self.packaging
        try:
            with self._lock:
                self.calls += 1
                done = Finished(call, args, result, start - self._origin, end - self._origin)
                if packaging is None:
                    handler(self, done)
                else:
                    before = packaging.operands(args)
                    handler(self, done)
                    packaging.note(done, before, sys._getframe(2))
        except Exception as error:
            self.problems.append(f"{call.name}: {type(error).__name__}: {error}")
            if packaging is not None:
                packaging.lose(call, sys._getframe(2))
        self.overhead_s += time.perf_counter() - end

    # Objects.
    def _state(self, ciphertext: Ciphertext) -> ScaleState:
        """What the ciphertext itself says."""
        return state_of(max(1, self._num_q - ciphertext.GetLevel()), ciphertext.GetNoiseScaleDeg())

    def _known(self, ciphertext: Ciphertext) -> Known:
        """The object of an operand; one that nobody saw being made is an input."""
        known = self._identities.get(ciphertext)
        if known is not None and known.recording is self:
            return known
        state, polynomials = self._state(ciphertext), ciphertext.NumberCiphertextElements()
        object_id = self.builder.ciphertext(state.limbs, polynomials, f"input[{self._inputs}]")
        self._inputs += 1
        known = Known(self, object_id, state, polynomials)
        self._identities.set(ciphertext, known)
        return known

    def _made(self, ciphertext: Ciphertext, polynomials: int) -> Known:
        """A new object for the result of a call in `ciphertext`."""
        state = self._state(ciphertext)
        known = Known(self, self.builder.ciphertext(state.limbs, polynomials), state, polynomials)
        self._identities.set(ciphertext, known)
        return known

    def _encoded(self, plaintext: Plaintext) -> Known:
        known = self._identities.get(plaintext)
        if known is not None and known.recording is self:
            return known
        state = ScaleState(max(1, self._num_q - plaintext.GetLevel()), plaintext.GetNoiseScaleDeg())
        known = Known(self, self.builder.plaintext(state.limbs), state, 1)
        self._identities.set(plaintext, known)
        return known

    def step_of(self, galois_element: int) -> int | None:
        """The rotation that an automorphism is, if it is one: nearest to zero."""
        return rotation_steps(self.params.ring_dim).get(galois_element)

    # Rows.
    def _row(
        self,
        done: Finished,
        kind: OpKind,
        operands: Sequence[Known],
        output: Known | None,
        *,
        limbs_in: int | None = None,
        key: str | None = None,
        plaintext: int | None = None,
        step: int | None = None,
        rescales: int = 0,
        scalar_mults: int = 0,
        origin: str | None = None,
    ) -> None:
        limbs, half = (output or operands[0]).state.limbs, self.params.ring_dim // 2
        if step is not None and abs(step) > half:  # the library turns round and round
            step %= half
        self.builder.add(
            kind,
            limbs_in=limbs if limbs_in is None else limbs_in,
            limbs_out=limbs,
            operands=[o.object_id for o in operands],
            output=None if output is None else output.object_id,
            key=key,
            plaintext=plaintext,
            step=step,
            implied_rescales=rescales,
            implied_scalar_mults=scalar_mults,
            origin=origin,
            start_s=done.start,
            end_s=done.end,
        )

    def _pair(self, done: Finished) -> None:
        a, b = done.args[0], done.args[1]
        if type(a) is not self._ciphertext:
            a, b = b, a
        left, kinds = self._known(a), done.call.kinds
        target = a if done.result is None else done.result
        if type(b) is self._ciphertext:
            self._pair_of_ciphertexts(done, kinds[0], left, self._known(b), target)
        elif type(b) is self._plaintext:
            self._with_plaintext(done, kinds[1], left, self._encoded(b), target)
        else:
            out = self._made(target, left.polynomials)
            self._row(done, kinds[2], (left,), out, rescales=left.state.limbs - out.state.limbs)
        if done.call.mutable:
            self._refresh(a)
            self._refresh(b)

    def _pair_of_ciphertexts(self, done: Finished, kind: OpKind, left: Known, right: Known, target: Ciphertext) -> None:
        aligned = self._aligned(left.state, right.state, kind)
        if kind is _MULT:
            polynomials = 2
        elif kind is _MULT_NO_RELIN:
            polynomials = left.polynomials + right.polynomials - 1
        else:
            polynomials = max(left.polynomials, right.polynomials)
        out = self._made(target, polynomials)
        self._surprises += aligned.limbs != out.state.limbs
        key = RELIN_KEY if kind is _MULT else None
        self._row(done, kind, (left, right), out, key=key, rescales=aligned.rescales, scalar_mults=aligned.scalar_mults)

    def _with_plaintext(self, done: Finished, kind: OpKind, left: Known, plain: Known, target: Ciphertext) -> None:
        """The implied work is the ciphertext's; what bringing the plaintext to its limbs takes is not counted."""
        out = self._made(target, left.polynomials)
        if plain.state.limbs < left.state.limbs:
            aligned = self._aligned(left.state, plain.state, kind)
            both_rescaled = self._automatic and kind is _MULT_PLAIN and aligned.degrees == (1, 1)
            rescales = aligned.rescales - (1 if both_rescaled and aligned.limbs < plain.state.limbs else 0)
            scalar_mults = aligned.scalar_mults
        else:
            rescales, scalar_mults = left.state.limbs - out.state.limbs if self._automatic else 0, 0
        self._row(done, kind, (left,), out, plaintext=plain.object_id, rescales=rescales, scalar_mults=scalar_mults)

    def _aligned(self, a: ScaleState, b: ScaleState, kind: OpKind) -> Aligned:
        multiplication = kind is _MULT or kind is _MULT_PLAIN or kind is _MULT_NO_RELIN
        key = (a.limbs, a.degree, b.limbs, b.degree, multiplication)
        aligned = self._alignments.get(key)
        if aligned is None:
            try:
                aligned = align_pair(a, b, self.params.scaling, multiplication=multiplication)
            except ParamsError:
                # OpenFHE computes operations that the rules refuse: a sum of two scales, a product below the last limb.
                aligned = Aligned(min(a.limbs, b.limbs), (a.degree, b.degree), 0, 0)
            self._alignments[key] = aligned
        return aligned

    def _refresh(self, operand: Ciphertext) -> None:
        """A mutable call may have rescaled its operand: the same object, in its new state."""
        known = self._identities.get(operand) if type(operand) is self._ciphertext else None
        if known is not None:
            self._identities.set(operand, replace(known, state=self._state(operand)))

    def _one(self, done: Finished) -> None:
        (kind,) = done.call.kinds
        is_square = kind is OpKind.SQUARE
        a = self._known(done.args[0])
        out = self._made(done.target, 2 if is_square else a.polynomials)
        rescales = a.state.limbs - out.state.limbs
        self._row(done, kind, (a,), out, key=RELIN_KEY if is_square else None, rescales=rescales)
        if done.call.mutable:
            self._refresh(done.args[0])

    def _rotate(self, done: Finished) -> None:
        step = int(done.args[1])
        if step == 0 and done.call.copies_by_zero:
            self._clone(done)
            return
        operands = [self._known(done.args[0])]
        if done.call.form is Form.ROTATE_HOISTED:
            operands.append(self._known(done.args[-1]))
        out, key = self._made(done.result, 2), rotation_key(step, self.params.ring_dim)
        self._row(done, done.call.kinds[0], operands, out, key=key, step=step)

    _rotate_hoisted = _rotate

    def _automorphism(self, done: Finished) -> None:
        element = int(done.args[1])
        conjugates, step = element == 2 * self.params.ring_dim - 1, self.step_of(element)
        if step is None and not conjugates:  # a rotation of the conjugate, by a key of its own
            self._composite(done)
            return
        a = self._known(done.args[0])
        out = self._made(done.result, 2)
        if conjugates:
            self._row(done, OpKind.CONJUGATE, (a,), out, key=CONJ_KEY)
        else:
            self._row(done, OpKind.ROTATE, (a,), out, key=f"rot:{element}", step=step)

    def _decompose(self, done: Finished) -> None:
        a = self._known(done.args[0])
        digits = Known(self, self.builder.digits(a.state.limbs), a.state)
        self._identities.set(done.result, digits)
        self._row(done, OpKind.DECOMPOSE, (a,), digits)

    def _drop(self, done: Finished) -> None:
        """Fewer limbs. Under automatic scaling `Rescale` and the like change nothing, and nothing is recorded."""
        (kind,) = done.call.kinds
        a = self._known(done.args[0])
        if self._state(done.target) == a.state:
            self._identities.set(done.target, a)
            return
        out = self._made(done.target, a.polynomials)
        rescales = max(0, a.state.degree - out.state.degree) if kind is OpKind.MOD_DROP else 0
        self._row(done, kind, (a,), out, limbs_in=a.state.limbs - rescales, rescales=rescales)

    def _relinearize(self, done: Finished) -> None:
        a = self._known(done.args[0])
        if a.polynomials == 2:
            self._identities.set(done.target, a)
        elif a.polynomials == 3:
            self._row(done, OpKind.RELINEARIZE, (a,), self._made(done.target, 2), key=RELIN_KEY)
        else:
            self._composite(done)

    def _key_switch(self, done: Finished) -> None:
        if self._known(done.args[0]).polynomials == 3:
            self._relinearize(done)
        else:
            self._composite(done)

    def _encrypt(self, done: Finished) -> None:
        self._row(done, OpKind.ENCRYPT, (), self._made(done.result, 2))

    def _decrypt(self, done: Finished) -> None:
        self._row(done, OpKind.DECRYPT, [self._known(c) for c in self.ciphertexts(done.args)], None)

    # Composites.
    def _composite(self, done: Finished) -> None:
        call, args = done.call, done.args
        kind = call.kinds[0] if call.form is Form.COMPOSITE else OpKind.COMPOSITE
        operands = [self._known(c) for c in self.ciphertexts(args)] or [
            known for known in map(self._identities.get, args) if known is not None and known.recording is self
        ]
        results = done.target if isinstance(done.target, list | tuple) else [done.target]
        limbs_in = min((o.state.limbs for o in operands), default=self._num_q)
        with self.builder.open_scope(call.name, modelled=True):
            first: Ciphertext = results[0] if results else None
            known = type(first) is self._ciphertext
            state = self._state(first) if known else ScaleState(limbs_in)
            polynomials = first.NumberCiphertextElements() if known else 2
            plain = next((self._encoded(arg) for arg in args if type(arg) is self._plaintext), None)
            expanded = self.expander.expand(self.builder, call.name, args, operands, plain, state)
            output = self.builder.ciphertext(state.limbs, polynomials) if expanded is None else expanded
            made = Known(self, output, state, polynomials)
            self._row(done, kind, operands, made, limbs_in=limbs_in, origin=ORIGIN_COMPOSITE)
        for index, thing in enumerate(results):
            if index and type(thing) is self._ciphertext:
                self._made(thing, thing.NumberCiphertextElements())
            elif thing is not None:
                self._identities.set(thing, made)

    def ciphertexts(self, args: Sequence[object]) -> list[Ciphertext]:
        """The ciphertexts among arguments and in lists of them, in order."""
        flat: list[Ciphertext] = []
        for arg in args:
            if type(arg) is self._ciphertext:
                flat.append(arg)
            elif isinstance(arg, list | tuple) and arg and not isinstance(arg[0], int | float | complex):
                flat += self.ciphertexts(arg)
        return flat

    # Calls that are not operations.
    def _clone(self, done: Finished) -> None:
        self._identities.set(done.result, self._known(done.args[0]))

    def _forget(self, done: Finished) -> None:
        self._identities.forget(done.args[0])

    def _keys(self, done: Finished) -> None:
        if "Mult" in done.call.name:
            self._relin_keys += 1
            return
        tag = next((arg.GetKeyTag() for arg in done.args if isinstance(arg, self.fhe.PrivateKey)), "")
        present = self._automorphism_keys.setdefault(tag, set())
        present.update(self.fhe.CryptoContext.GetExistingEvalAutomorphismKeyIndices(tag))

    def _bootstrap_setup(self, done: Finished) -> None:
        self.expander.bootstrap_setup(done.args)
