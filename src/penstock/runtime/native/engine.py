"""What executes the calls of a native run on limbs, in this process."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from penstock import _engine
from penstock.base.units import WORD_BYTES
from penstock.errors import PenstockError, UsageError
from penstock.program.evaluator.call import Call, Cipher, Executed, Pass
from penstock.program.evaluator.protocol import Plain
from penstock.program.evaluator.scaling import ScaleState
from penstock.runtime.native.inputs import InputShelf, Shelved
from penstock.runtime.native.keys import KeySource
from penstock.runtime.native.work import VectorEncoding, Work, WorkExecutor
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.primes import openfhe_primes

KEPT_CIPHERTEXTS = 8
"""How much memory of dropped results the engine keeps for new ones, in fresh ciphertexts."""


def make_context(
    params: CkksParameters, threads: int = 1, path: str | None = None, *, kept_ciphertexts: float = KEPT_CIPHERTEXTS
) -> _engine.CkksContext:
    """The tables and kernels of a parameter set. `path`: kernels other than the fastest that this machine has.

    Raises: ParamsError: the set is not for OpenFHE; UsageError: kernels that this machine has not.
    """
    check_kernels(path)
    q, p = openfhe_primes(params)
    keep_bytes = int(kept_ciphertexts * params.ciphertext_bytes(params.num_q + params.num_p))
    return _engine.CkksContext(
        ring_dim=params.ring_dim,
        moduli_q=list(q),
        moduli_p=list(p),
        dnum=params.dnum,
        scaling=params.scaling.value,
        scale_bits=params.scale_bits,
        threads=threads,
        path=path,
        keep_bytes=keep_bytes,
    )


def check_kernels(path: str | None = None) -> None:
    """Raises: UsageError: kernels that this machine has not, by `path` or by `PENSTOCK_CPU`."""
    wanted, there = path or os.environ.get("PENSTOCK_CPU", ""), _engine.ckks_paths()
    if wanted and wanted not in there:
        whose = "kernels" if path else "PENSTOCK_CPU: kernels"
        raise UsageError(f"{whose} '{wanted}': this machine has {', '.join(there)}; leave it out to take the fastest")


Held: TypeAlias = _engine.CkksCiphertext | _engine.CkksDigits | _engine.CkksExtended
"""The engine's value of a ciphertext: its limbs, its digits, or a sum over Q and P."""
Vector: TypeAlias = _engine.CkksPlaintext | _engine.CkksCoefficients
"""An encoded vector."""


class EngineHere(WorkExecutor):
    """The engine of one run: the kernels of this machine, and keys from a source. Waiting for keys is not part of an
    operation.

    It sees ciphertexts and evaluation keys, never a secret key.

    Args:   inputs: where encrypted inputs stay between their uses; all of them in memory if omitted. vector_bytes: of
            encoded vectors, above which they are encoded at each use; all of them stay if omitted.
    """

    def __init__(
        self,
        params: CkksParameters,
        context: _engine.CkksContext,
        keys: KeySource | None,
        *,
        inputs: InputShelf | None = None,
        vector_bytes: int | None = None,
    ) -> None:
        super().__init__(params)
        self.context, self.keys, self.inputs = context, keys, inputs
        self.origin_s = time.perf_counter()
        """The moment on the monotonic clock that all times count from."""
        self.encode_s = self.transfer_s = 0.0
        """Seconds spent on encoding plaintext operands, and on ciphertexts in bytes: not part of any operation."""
        self.kept_vector_bytes, self._vector_bytes = 0, vector_bytes
        self.num_encoded = 0
        """Vectors encoded so far; a vector counts each time."""
        self._writer: _engine.CkksWriter | None = None

    def take(self, content: bytes) -> Executed:
        """A ciphertext from its client's bytes."""
        if self._writer is None:
            self._writer = _engine.CkksWriter(content)
        start = time.perf_counter()
        made = self.context.import_ciphertext(content)
        done = self.timed(made, ScaleState(made.limbs, made.degree), start)
        if self.inputs is None:
            return done
        return Executed(done.state, self.inputs.put(content), done.start_s, done.end_s)

    def give(self, a: Cipher) -> bytes:
        """A ciphertext in its client's bytes."""
        if self._writer is None:
            raise PenstockError("decrypt: nothing was encrypted in this run")
        return self.context.export_ciphertext(self._in_memory(a), self._writer)

    def scale_at(self, limbs: int) -> float:
        return self.context.scale_at(limbs)

    def perform(self, work: Work, calls: Sequence[Call]) -> list[Executed]:
        operands, call = self.operands_of(calls), calls[0]
        vectors = self._encoded(work.vectors) if work.vectors else ()
        if call.key is None:
            return self._perform(work, calls, operands, vectors)
        assert self.keys is not None
        with self.keys.get(call.key, call.state.limbs) as rows:
            return self._perform(work, calls, operands, vectors, rows)

    def _perform(
        self,
        work: Work,
        calls: Sequence[Call],
        operands: Sequence[Held],
        vectors: Sequence[Vector],
        key: _engine.CkksKey | None = None,
    ) -> list[Executed]:
        start = time.perf_counter()
        made = self.context.perform(
            work.name, operands, argument=work.argument, numbers=work.numbers, key=key, vectors=vectors
        )
        if len(calls) == 1:
            return [self.timed(made[0], calls[0].state, start)]
        times = Pass(start - self.origin_s, time.perf_counter() - self.origin_s).parts(len(calls))
        return [Executed(call.state, value, *part) for call, value, part in zip(calls, made, times, strict=True)]

    def timed(self, made: Held, state: ScaleState, start: float) -> Executed:
        """A result that is there now. A ciphertext says its own state."""
        end = time.perf_counter()
        if isinstance(made, _engine.CkksCiphertext):
            state = ScaleState(made.limbs, made.degree)
        return Executed(state, made, start - self.origin_s, end - self.origin_s)

    def operands_of(self, calls: Sequence[Call]) -> Sequence[Held]:
        """The operands of calls, with their limbs."""
        if self.inputs is None:
            return [operand.value for call in calls for operand in call.operands]
        operands = [self._in_memory(operand) for call in calls for operand in call.operands]
        # Operands hold references to their data; the shelf does not need to.
        self.inputs.end_use()
        return operands

    def _in_memory(self, a: Cipher) -> _engine.CkksCiphertext:
        """The ciphertext with its limbs, where it is an input that lies on disk, too."""
        if not isinstance(a.value, Shelved):
            return a.value
        assert self.inputs is not None
        start = time.perf_counter()
        value = self.inputs.get(a.value)
        self.transfer_s += time.perf_counter() - start
        return value

    def _encoded(self, vectors: Sequence[VectorEncoding]) -> Sequence[Vector]:
        """Vectors of one form, encoded; new ones together."""
        _, limbs, degree, is_coefficients = vectors[0]
        if is_coefficients:
            return [self._coefficients(encoding.plain, limbs) for encoding in vectors]
        name = (limbs, degree)
        plains = {id(vector.plain): vector.plain for vector in vectors}.values()
        new = [plain for plain in plains if name not in plain.kept(self)]
        if new:
            start = time.perf_counter()
            values = [np.ascontiguousarray(plain.values, dtype=np.complex128) for plain in new]
            made = self.context.encode_many(values, limbs, degree, len(values[0]))
            for plain, encoded in zip(new, made, strict=True):
                plain.kept(self)[name] = encoded
            self.encode_s += time.perf_counter() - start
        rows = [encoding.plain.kept(self)[name] for encoding in vectors]
        self._now_encoded(new, name, self.params.polynomial_bytes(limbs))
        return rows

    def _now_encoded(self, new: Sequence[Plain], name: tuple[int, int | str], size: int) -> None:
        """Vectors were encoded, into `size` bytes each: the first ones stay, as far as the budget goes.

        A program uses its vectors in the same order again and again. Of such uses a store that lets the oldest go keeps
        none.
        """
        self.num_encoded += len(new)
        for plain in new:
            if self._vector_bytes is not None and self.kept_vector_bytes + size > self._vector_bytes:
                del plain.kept(self)[name]
            else:
                self.kept_vector_bytes += size

    def _coefficients(self, plain: Plain, limbs: int) -> _engine.CkksCoefficients:
        """A diagonal before its limbs differ; encoded over Q and P it would be as many times larger as it has limbs."""
        name, kept = (limbs, "coefficients"), plain.kept(self)
        known = kept.get(name)
        if known is None:
            start = time.perf_counter()
            values = np.ascontiguousarray(plain.fleeting(), dtype=np.complex128)
            known = kept[name] = self.context.encode_coefficients(values, limbs, 1, len(values))
            self.encode_s += time.perf_counter() - start
            # Twice as many real coefficients as slots.
            self._now_encoded([plain], name, 2 * WORD_BYTES * len(values))
        return known
