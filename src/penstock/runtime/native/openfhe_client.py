"""OpenFHE as the client of a native run.

No more than one key is in OpenFHE's registry at any time, so that making keys takes the memory of one. The keys to and
from an ephemeral secret are the exception (`encapsulation_keys`).
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from penstock import _engine
from penstock.base.system.files import os_errors
from penstock.base.system.temporary import temporary_folder
from penstock.errors import KeyPairDamaged, ParamsError
from penstock.program.evaluator.imaginary import check_dropped
from penstock.program.evaluator.protocol import Values
from penstock.program.openfhe.evaluator import OpenFheContext, load_openfhe, set_threads
from penstock.program.openfhe.key_pair import (
    TRIAL,
    KeyTrial,
    client_keys,
    decrypted,
    encrypted_trial,
    is_close,
    save_client_keys,
)
from penstock.program.openfhe.paging import check_folder
from penstock.program.openfhe.turn import TURN
from penstock.runtime.keystore import KeyStore
from penstock.runtime.keystore.export import ROTATIONS, export_openfhe
from penstock.runtime.keystore.pairs import PAIRS
from penstock.runtime.native.client import Decrypted, Encrypted
from penstock.runtime.native.engine import make_context
from penstock.runtime.native.store import ENCAPSULATION
from penstock.scheme.operations import CONJ_KEY, RELIN_KEY, TO_DENSE_KEY, TO_SPARSE_KEY
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.secrets import is_encapsulated


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

    def decrypt(self, content: bytes, *, is_complex: bool = False) -> Decrypted:
        ciphertext = self._fhe.DeserializeCiphertextString(content, self._fhe.BINARY)
        begun = time.perf_counter()
        plain = self.context.decrypt(ciphertext, self.params.num_q - ciphertext.GetLevel())
        ended = time.perf_counter()
        made = Decrypted(values=self.context.slots_of(plain), begun_s=begun, ended_s=ended)
        if is_complex:
            # Its estimate of the error is of the imaginary parts.
            check_dropped(2.0 ** (plain.GetLogError() - self.params.scale_bits))
        return made

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


_FEWEST_SLOTS = 1
_MADE = "made"


def encapsulation_keys(context: OpenFheContext) -> dict[str, object]:
    """Make both keys of one new ephemeral secret: key -> an EvalKeyMap of it.

    OpenFHE draws the ephemeral secret inside of `EvalBootstrapKeyGen` and keeps it nowhere, so both keys come from one
    call. The call makes the rotation keys of a bootstrapping too. With the fewest slots they are about log2(N) + 4
    keys, which are in memory until the two are taken out.
    OpenFHE's registry of automorphism keys is empty before and after.
    Raises: ParamsError: the set has no ephemeral secret. FileError: the disk is full. KeyPairDamaged: a message does
            not come back from both switches.
    """
    fhe, cc, secret, params = load_openfhe(), context.context, context.secret_key, context.params
    if not is_encapsulated(params.secret):
        raise ParamsError(
            f"set '{params.name}' has secret '{params.secret}', and keys to-sparse and to-dense are of an ephemeral "
            "secret: take a set whose secret is 'sparse-encapsulated'"
        )
    cc.EvalBootstrapSetup([1, 1], [0, 0], _FEWEST_SLOTS, 0, False)
    with temporary_folder("penstock-making-") as folder:
        try:
            cc.EvalBootstrapKeyGen(secret, _FEWEST_SLOTS)
            everything = folder / "all.bin"
            with os_errors(everything):
                if not fhe.SerializeToFile(
                    str(everything), cc.GetEvalAutomorphismKeyMap(secret.GetKeyTag()), fhe.BINARY
                ):
                    raise OSError("OpenFHE could not write it: the disk may be full")
        finally:
            fhe.CryptoContext.ClearEvalAutomorphismKeys()
            cc.ClearBootstrapPrecom()
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        store = KeyStore(folder / "store")
        imported = store.import_openfhe(_MADE, everything, params=params, only=sorted(ENCAPSULATION))
        everything.unlink()
        made, contents = {}, {}
        for key in imported:
            place = folder / key.name.key
            export_openfhe(store, [key.name], params, place, layout="objects")
            contents[key.name.key] = (place / ROTATIONS).read_bytes()
            made[key.name.key], _ = fhe.DeserializeEvalKeyMap(str(place / ROTATIONS), fhe.BINARY)
    _try(context, contents)
    return made


def _try(context: OpenFheContext, contents: dict[str, bytes]) -> None:
    """Raises: KeyPairDamaged: a ciphertext of the pair is another one after both key switches, or noise."""
    fhe, cc = load_openfhe(), context.context
    content = fhe.Serialize(encrypted_trial(cc, context.public_key), fhe.BINARY)
    engine = make_context(context.params)
    keys = {key: engine.import_key(made) for key, made in contents.items()}
    low = engine.perform("mod_drop", [engine.import_ciphertext(content)], argument=1)
    sparse = engine.perform("to_sparse", low, key=keys[TO_SPARSE_KEY])
    (back,) = engine.perform("to_dense", sparse, key=keys[TO_DENSE_KEY])
    exported = engine.export_ciphertext(back, _engine.CkksWriter(content))
    ciphertext = fhe.DeserializeCiphertextString(exported, fhe.BINARY)
    if not is_close(decrypted(cc, ciphertext, context.secret_key), TRIAL):
        raise KeyPairDamaged(
            "the new evaluation keys to-sparse and to-dense do not work with their key pair, and are not kept. The "
            "pair was damaged in memory, or the memory is: run it again, and test the machine's memory if it stays"
        )
