"""The ends of a native run: where its ciphertexts come from, and where its results go.

A client is one pair of ends; the ciphertexts that a tenant prepared for a job are another. The evaluator knows bytes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from penstock.program.evaluator.protocol import Values
from penstock.scheme.params.ckks import CkksParameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Encrypted:
    """A fresh ciphertext in OpenFHE's bytes; times are of the monotonic clock, which all processes share."""

    content: bytes
    begun_s: float
    encoded_s: float
    """Encoding ends, encrypting begins."""
    ended_s: float
    """Serializing begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decrypted:
    """The slots of a ciphertext."""

    values: Values
    begun_s: float
    """Deserializing ended."""
    ended_s: float


class Ends(Protocol):
    """What an evaluator asks for where a program encrypts and decrypts."""

    def encrypt(self, values: Values) -> Encrypted:
        """values: (slots,) float64 or complex128."""
        ...

    def decrypt(self, content: bytes) -> Decrypted:
        """Real values. Raises: PenstockError: they outgrew the modulus, or are imaginary."""
        ...

    def decrypt_complex(self, content: bytes) -> Decrypted:
        """Values with their imaginary parts, of a result that its program may have made complex.

        Raises: PenstockError: they outgrew the modulus, or the client would drop imaginary parts.
        """
        ...


class PreparedEnds:
    """The ends of a run whose client is elsewhere: ciphertexts come as it prepared them, and results are kept for it.

    A program's encryptions are ignored; its decryptions give zeros.
    """

    def __init__(self, params: CkksParameters, inputs: Sequence[bytes]) -> None:
        self._inputs, self._slots = iter(inputs), params.slots
        self.outputs: list[bytes] = []

    def encrypt(self, values: Values) -> Encrypted:
        now = time.perf_counter()
        return Encrypted(content=next(self._inputs), begun_s=now, encoded_s=now, ended_s=now)

    def decrypt(self, content: bytes) -> Decrypted:
        self.outputs.append(content)
        now = time.perf_counter()
        return Decrypted(values=np.zeros(self._slots), begun_s=now, ended_s=now)

    decrypt_complex = decrypt
