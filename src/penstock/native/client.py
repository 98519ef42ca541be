"""The client of a native run: whoever holds the secret key. It draws keys, encrypts and decrypts with OpenFHE.

The evaluator sees its bytes only. `ClientHere` is a client inside the evaluating process; `client_process` has
one in a process of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.native.keys import make_key_files
from penstock.openfhe.evaluator import OpenFheContext, load_openfhe
from penstock.openfhe.stored import client_keys, has_client_keys, save_client_keys
from penstock.params.ckks import CkksParameters
from penstock.program.evaluator import Values


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


class Client(Protocol):
    """What an evaluator and the making of its keys ask of the holder of the secret key."""

    params: CkksParameters
    setup_s: dict[str, float]
    """`context_s`: seconds until it could answer."""

    @property
    def key_tag(self) -> str:
        """OpenFHE's tag of the key pair."""
        ...

    def make_keys(self, keys: Iterable[str], folder: Path, take: Callable[[str, Path], None]) -> None:
        """Make evaluation keys one at a time; `take` gets the id of each, and a file that is gone when it returns."""
        ...

    def encrypt(self, values: Values) -> Encrypted:
        """values: (slots,) float64 or complex128."""
        ...

    def decrypt(self, content: bytes) -> Decrypted:
        """Raises: PenstockError: the values outgrew the modulus."""
        ...

    def release(self) -> None:
        """Neither keys nor answers are asked for any more."""
        ...


class ClientHere:
    """A client in this process."""

    def __init__(self, context: OpenFheContext) -> None:
        self.context = context
        self.params = context.params
        self.setup_s = context.setup_s
        self._fhe = load_openfhe()

    @property
    def key_tag(self) -> str:
        return str(self.context.secret_key.GetKeyTag())

    def make_keys(self, keys: Iterable[str], folder: Path, take: Callable[[str, Path], None]) -> None:
        make_key_files(self.context, keys, folder, take)

    def encrypt(self, values: Values) -> Encrypted:
        begun = time.perf_counter()
        plain = self.context.plaintext(values)
        encoded = time.perf_counter()
        encrypted = self.context.context.Encrypt(self.context.public_key, plain)
        ended = time.perf_counter()
        content = self._fhe.Serialize(encrypted, self._fhe.BINARY)
        return Encrypted(content=content, begun_s=begun, encoded_s=encoded, ended_s=ended)

    def decrypt(self, content: bytes) -> Decrypted:
        found = self._fhe.DeserializeCiphertextString(content, self._fhe.BINARY)
        begun = time.perf_counter()
        plain = self.context.decrypt(found, self.params.num_q - found.GetLevel())
        ended = time.perf_counter()
        return Decrypted(values=self.context.slots_of(plain), begun_s=begun, ended_s=ended)

    def release(self) -> None:
        self.context.release()


def open_context(params: CkksParameters, folder: Path | None) -> OpenFheContext:
    """A context with the key pair that lies in `folder`; a new pair where there is none, and kept there.

    Raises: PenstockError: the file system refused, or a key file is damaged.
    """
    if folder is None:
        return OpenFheContext.create(params, relinearize=False)
    if not has_client_keys(folder):
        made = OpenFheContext.create(params, relinearize=False)
        if save_client_keys(made, folder):
            return made
        made.release()  # another process was first
    return OpenFheContext.create(params, relinearize=False, client_keys=lambda: client_keys(folder))
