"""The native evaluator and OpenFHE's side by side: one key pair, the same evaluation keys, the same ciphertexts."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.program.evaluator.call import Cipher, Executed
from penstock.program.openfhe.evaluator import OpenFheContext, OpenFheEvaluator, load_openfhe
from penstock.program.openfhe.stored import ciphertext_bytes, library_ciphertext
from penstock.runtime.native.client import Encrypted
from penstock.runtime.native.engine import EngineHere, make_context
from penstock.runtime.native.evaluator import NativeEvaluator
from penstock.runtime.native.keys import KeysInMemory
from penstock.runtime.native.openfhe_client import OpenFheClient, make_keys
from penstock.scheme.operations import CONJ_KEY, RELIN_KEY
from penstock.scheme.params.ckks import CkksParameters


class _KeepingClient(OpenFheClient):
    """Keeps what it encrypts, for the other evaluator."""

    def __init__(self, context: OpenFheContext) -> None:
        super().__init__(context)
        self.encrypted: deque[bytes] = deque()

    def encrypt(self, values: Any) -> Encrypted:
        made = super().encrypt(values)
        self.encrypted.append(made.content)
        return made


class _SameInputs(OpenFheEvaluator):
    """Takes the ciphertexts that the native evaluator encrypted, in their order."""

    def __init__(self, client: _KeepingClient) -> None:
        super().__init__(client.context)
        self._client = client

    def _encrypt(self, values: Any) -> Executed:
        found = library_ciphertext(self._client.encrypted.popleft())
        return self._done(found, time.perf_counter(), time.perf_counter())


@dataclass(frozen=True)
class EvaluatorPair:
    """Both evaluators. A program runs with `ours` first: its encryptions are those of `theirs`."""

    ours: NativeEvaluator
    theirs: OpenFheEvaluator

    def difference(self, ours: Cipher, theirs: Cipher) -> str:
        """Where two ciphertexts differ; empty where the state, the scale and every word are equal."""
        if ours.state != theirs.state:
            return f"{ours.state} and OpenFHE's {theirs.state}"
        imported = self.ours.engine.context.import_ciphertext(ciphertext_bytes(theirs))
        for k in range(imported.polynomials):
            differ = np.any(ours.value.words(k) != imported.words(k), axis=-1)
            if differ.any():
                return f"polynomial {k}: words of limbs {np.flatnonzero(differ).tolist()}"
        # OpenFHE loses the scale (0) of a product with a plaintext at the last limb.
        return (
            "" if imported.scale in (0, ours.value.scale) else f"scale {ours.value.scale}, OpenFHE's {imported.scale}"
        )


@contextmanager
def evaluator_pair(params: CkksParameters, keys: Iterable[str], path: str | None = None) -> Iterator[EvaluatorPair]:
    """Both evaluators with the evaluation keys of these ids. `path`: the native evaluator's kernels."""
    context = OpenFheContext.create(params, relinearize=False)
    try:
        engine = make_context(params, path=path)
        held, kept = KeysInMemory(params, engine), {}

        def take(key: str, content: bytes) -> None:
            held.put(key, content)
            kept[key] = content

        make_keys(context, keys, take)
        fhe, cc = load_openfhe(), context.context
        # OpenFHE gets the same keys back.
        for key, content in kept.items():
            if key == RELIN_KEY:
                cc.InsertEvalMultKey([fhe.DeserializeEvalKeyString(content, fhe.BINARY)])
                continue
            made = fhe.DeserializeEvalKeyMapString(content, fhe.BINARY)
            cc.InsertEvalAutomorphismKey(made, "")
            if key == CONJ_KEY:
                context.automorphism_keys = made
        client = _KeepingClient(context)
        yield EvaluatorPair(NativeEvaluator(EngineHere(params, engine, held), client), _SameInputs(client))
    finally:
        context.release()
