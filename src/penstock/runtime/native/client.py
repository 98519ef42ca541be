"""The client of a native run: whoever holds the secret key. It makes keys, encrypts and decrypts.

The evaluator sees its bytes only. A client library does the work: penstock's own, or OpenFHE. The client is an object
in this process (`open_client`), or has a separate process (`ClientProcess`). No module here imports a library before a
client is opened.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from penstock.base.system import remedy
from penstock.errors import CapabilityMissing, UnknownName, UsageError
from penstock.program.evaluator.protocol import Values
from penstock.runtime.keystore.pairs import pair_in
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

    def decrypt(self, content: bytes, *, is_complex: bool = False) -> Decrypted:
        """Real values, or with `is_complex` those of a result that its program may have made complex.

        Raises: PenstockError: they outgrew the modulus; real ones are imaginary, or the client would drop the imaginary
                parts of complex ones.
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

    def decrypt(self, content: bytes, *, is_complex: bool = False) -> Decrypted:
        self.outputs.append(content)
        now = time.perf_counter()
        return Decrypted(values=np.zeros(self._slots), begun_s=now, ended_s=now)


class Client(Ends, Protocol):
    """The holder of the secret key: the ends of a run, and the maker of its keys."""

    params: CkksParameters
    library: str
    """The client library: a name of `LIBRARIES`."""
    setup_s: dict[str, float]
    """`context_s`: seconds until it could answer."""

    @property
    def key_tag(self) -> str:
        """The tag of the key pair. Ciphertexts and evaluation keys of the pair have it, too."""
        ...

    def make_keys(self, keys: Mapping[str, int], folder: Path, tenant: str, take: Callable[[str, Path], None]) -> None:
        """Make evaluation keys one at a time.

        Args:   keys: id of each key -> limbs of its highest use; a library may leave out rows above them. tenant: the
                owner, to whom a segment of a key store is bound. take: gets the id of each key and its file in
                `folder`, which is gone when it returns: a segment (`.pkey`), or a file of OpenFHE's.
        """
        ...

    def release(self) -> None:
        """Neither keys nor answers are asked for any more."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLibrary:
    """A library that makes keys, encrypts and decrypts in OpenFHE's bytes."""

    name: str
    """As options spell it."""
    title: str
    """As messages name it."""
    needs: str
    """The Python module without which it cannot be used."""
    module: str
    """Our module that imports the library. It has `open_client(params, folder, threads)`, and `require()`,
    which raises `CapabilityMissing` where the library cannot be imported."""
    makes_segments: bool = False
    """Whether it makes evaluation keys as segments of a key store; else as OpenFHE's files."""
    seeds_inputs: bool = False
    """Whether its fresh ciphertexts hold a seed for their uniform half; else that half too, as OpenFHE's do."""
    keeps_ephemeral: bool = False
    """Whether a pair keeps its ephemeral secret, so that a key to or from it can be made later; else one is drawn for
    both keys together."""

    @property
    def is_installed(self) -> bool:
        """Whether its module is on the path; an import may fail still."""
        return importlib.util.find_spec(self.needs) is not None


LIBRARIES = {
    library.name: library
    for library in (
        ClientLibrary(
            name="penstock",
            title="penstock's client",
            needs="penstock_client",
            module="penstock.runtime.client.library",
            makes_segments=True,
            seeds_inputs=True,
            keeps_ephemeral=True,
        ),
        ClientLibrary(
            name="openfhe",
            title="OpenFHE",
            needs="openfhe",
            module="penstock.runtime.native.openfhe_client",
        ),
    )
}
"""Name -> client library, the preferred one first."""


def chosen_library(name: str | None = None, folder: Path | None = None) -> ClientLibrary:
    """The client library that is asked for, else the library of the key pair in `folder`, else the first installed one.

    Raises: UnknownName: no such library. UsageError: the folder holds a key pair of another one. CapabilityMissing:
            none is installed.
    """
    if name is not None and name not in LIBRARIES:
        raise UnknownName("client library", name, LIBRARIES)
    pair = pair_in(folder)
    kept = None if pair is None else LIBRARIES[pair.library]
    if kept is not None and name not in (None, kept.name):
        raise UsageError(
            f"{folder} holds a key pair of {kept.title}, and the client library '{name}' was asked for: leave that "
            "out, or name another place for keys"
        )
    if kept is not None:
        return kept
    if name is not None:
        return LIBRARIES[name]
    for library in LIBRARIES.values():
        if library.is_installed:
            return library
    raise CapabilityMissing(f"no client library is installed, so that nothing can be encrypted: {remedy.client()}")


def require_library(reading: str, name: str | None) -> None:
    """Find out before a run whether the library that an encrypting reading needs can be had.

    Args:   name: the client library that was asked for.
    Raises: as `chosen_library`; CapabilityMissing: it cannot be imported.
    """
    chosen = LIBRARIES["openfhe"] if reading == "openfhe" else chosen_library(name)
    importlib.import_module(chosen.module).require()


def open_client(
    params: CkksParameters, folder: Path | None = None, *, library: str | None = None, threads: int | None = None
) -> Client:
    """A client in this process, with the key pair that lies in `folder`.

    A new pair is made where there is none, and kept there; without a folder it lives as long as the client.
    Raises: as `chosen_library`; CapabilityMissing: the library cannot be imported. ParamsError: it refuses the set.
            PenstockError: the file system refused, or a key file is damaged.
    """
    chosen = chosen_library(library, folder)
    client: Client = importlib.import_module(chosen.module).open_client(params, folder, threads)
    return client
