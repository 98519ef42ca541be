"""OpenFHE as the client of a native run.

No more than one key is in OpenFHE's registry at any time, so that making keys takes the memory of one. The keys to and
from an ephemeral secret are the exception (`penstock.runtime.native.openfhe_encapsulation`).
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from penstock.base.system.files import os_errors
from penstock.program.evaluator.imaginary import check_dropped
from penstock.program.evaluator.protocol import Values
from penstock.program.openfhe.evaluator import OpenFheContext, load_openfhe, set_threads
from penstock.program.openfhe.key_pair import KeyTrial, client_keys, save_client_keys
from penstock.program.openfhe.paging import check_folder
from penstock.program.openfhe.turn import TURN
from penstock.runtime.keystore.pairs import PAIRS
from penstock.runtime.native.ends import Decrypted, Encrypted
from penstock.runtime.native.openfhe_encapsulation import encapsulation_keys
from penstock.runtime.native.store import ENCAPSULATION
from penstock.scheme.operations import CONJ_KEY, RELIN_KEY
from penstock.scheme.params.ckks import CkksParameters


def require() -> None:
    """Raises: CapabilityMissing: OpenFHE cannot be imported."""
    load_openfhe()


def open_client(params: CkksParameters, folder: Path | None, threads: int | None) -> OpenFheClient:
    """As `penstock.runtime.native.client.open_client`."""
    load_openfhe()
    with TURN.taken():
        if threads is not None:
            set_threads(threads)
        return OpenFheClient(open_context(params, folder))


class OpenFheClient:
    """OpenFHE in this process. Until its release no other thread uses OpenFHE."""

    library = "openfhe"

    def __init__(self, context: OpenFheContext) -> None:
        self.context = context
        self.params = context.params
        self.setup_s = context.setup_s
        self._fhe = load_openfhe()

    @property
    def key_tag(self) -> str:
        return str(self.context.secret_key.GetKeyTag())

    def make_keys(self, keys: Mapping[str, int], folder: Path, tenant: str, take: Callable[[str, Path], None]) -> None:
        """Whole keys, whatever the limbs and the tenant."""
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
        return self._decrypted(content)[0]

    def decrypt_complex(self, content: bytes) -> Decrypted:
        made, plain = self._decrypted(content)
        # Its estimate of the error is of the imaginary parts.
        check_dropped(2.0 ** (plain.GetLogError() - self.params.scale_bits))
        return made

    def _decrypted(self, content: bytes) -> tuple[Decrypted, Any]:
        ciphertext = self._fhe.DeserializeCiphertextString(content, self._fhe.BINARY)
        begun = time.perf_counter()
        plain = self.context.decrypt(ciphertext, self.params.num_q - ciphertext.GetLevel())
        ended = time.perf_counter()
        return Decrypted(values=self.context.slots_of(plain), begun_s=begun, ended_s=ended), plain

    def release(self) -> None:
        self.context.release()


def open_context(params: CkksParameters, folder: Path | None) -> OpenFheContext:
    """A context with the key pair that lies in `folder`; a new pair where there is none, and kept there.

    Raises: PenstockError: the file system refused, or a key file is damaged.
    """
    if folder is None:
        return OpenFheContext.create(params, relinearize=False)
    if not PAIRS["openfhe"].lie_in(folder):
        made = OpenFheContext.create(params, relinearize=False)
        if save_client_keys(made, folder):
            return made
        made.release()  # another process was first
    return OpenFheContext.create(params, relinearize=False, client_keys=partial(client_keys, folder, params))


def make_keys(context: OpenFheContext, keys: Iterable[str], take: Callable[[str, bytes], None]) -> None:
    """Make each evaluation key with OpenFHE and hand its bytes to `take`, one after the other."""
    fhe = load_openfhe()
    for key, made in _made(context, keys):
        take(key, fhe.Serialize(made, fhe.BINARY))


def make_key_files(
    context: OpenFheContext, keys: Iterable[str], folder: Path, take: Callable[[str, Path], None]
) -> None:
    """As `make_keys`, by way of a file in `folder`, which is gone when `take` returns.

    OpenFHE writes a file in a stream; as bytes in memory it exists four times at once.
    Raises: FileError: the disk is full, or the folder cannot be written. UsageError: as `check_folder`.
    """
    fhe = load_openfhe()
    check_folder(folder)
    path = folder / "made.key"
    for key, made in _made(context, keys):
        with os_errors(path):
            if not fhe.SerializeToFile(str(path), made, fhe.BINARY):
                raise OSError("OpenFHE could not write it: the disk may be full")
        del made
        try:
            take(key, path)
        finally:
            path.unlink(missing_ok=True)


def _made(context: OpenFheContext, keys: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """OpenFHE's keys: an EvalKeyMap of one automorphism, or the relinearization key.

    Each is tried on a ciphertext of the pair before it is handed out. OpenFHE's registries are empty before and after:
    the map of a generation is the registry itself, into which the next key would be merged, and a key that is there
    already is not made again.

    Raises: KeyPairDamaged: a key does not do to the ciphertext what its name says.
    """
    TURN.check_process()
    fhe, cc, secret = load_openfhe(), context.context, context.secret_key
    params = context.params
    fhe.CryptoContext.ClearEvalAutomorphismKeys()
    trial = KeyTrial(context)
    keys = list(keys)
    if both := [key for key in keys if key in ENCAPSULATION]:
        made_together = encapsulation_keys(context)
        for key in both:
            yield key, made_together.pop(key)
        del made_together
    for key in keys:
        if key in ENCAPSULATION:
            continue
        if key == RELIN_KEY:
            cc.EvalMultKeyGen(secret)
            trial.relinearizes(key)
            yield key, cc.GetEvalMultKeyVector(secret.GetKeyTag())[0]
            fhe.ClearEvalMultKeys()
        else:
            element = 2 * params.ring_dim - 1 if key == CONJ_KEY else int(key.partition(":")[2])
            made = cc.EvalAutomorphismKeyGen(secret, [element])
            trial.applies(key, element, made)
            yield key, made
            del made
            fhe.CryptoContext.ClearEvalAutomorphismKeys()
        # Freed keys go back to the system only when they are asked for.
        ctypes.CDLL("libc.so.6").malloc_trim(0)
