"""The client's key pair in a folder: written whole or not at all, and held against its digest before it is used.

A damaged secret key still makes evaluation keys, and none of them is of any use. So nothing is made from a pair before
its files equal the digest next to them. A pair of an earlier version has no digest: a trial in another process decides,
and it gets one.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from penstock.base.system import remedy
from penstock.base.system.files import FileError, os_errors, place_whole, remove_dead, unfinished_folder, write_atomic
from penstock.base.system.workers import python_module
from penstock.errors import KeyPairDamaged
from penstock.program.evaluator.protocol import Values
from penstock.program.openfhe.evaluator import OpenFheContext, load_openfhe
from penstock.program.openfhe.types import Ciphertext, CryptoContext, Key
from penstock.scheme.params.ckks import CkksParameters

SECRET, PUBLIC, DIGEST = "secret.key", "public.key", "pair.sha256"
_PRIVATE_MODE = 0o600
TRIAL = np.linspace(-1.0, 1.0, 8)
"""The trial's values: few slots, chosen so that every rotation moves some of them. Damage anywhere reaches each."""
_TRIAL_ERROR = 1e-2
"""Values of a trial are at most 1. A whole pair is off by 1e-6 or so, a damaged one by many orders of magnitude."""


def save_client_keys(context: OpenFheContext, folder: Path) -> bool:
    """Write the pair and its digest; only their owner may read the folder, which appears with all files or not at all.

    Returns: `False`: the folder holds files already, and nothing was written.
    Raises: FileError: the file system refused.
    """
    fhe = load_openfhe()
    with os_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        remove_dead(folder.parent)
    pair = ((SECRET, context.secret_key), (PUBLIC, context.public_key))
    contents: dict[str, bytes] = {name: fhe.Serialize(key, fhe.BINARY) for name, key in pair}
    with unfinished_folder(folder.parent) as made:
        for name, content in (*contents.items(), (DIGEST, digest_of(contents))):
            write_atomic(made / name, content, mode=_PRIVATE_MODE)
        return place_whole(made, folder)


def client_keys(folder: Path, params: CkksParameters, context: CryptoContext) -> tuple[Key, Key]:
    """The public and the secret key in a folder, whole, for the library's `context` of `params`.

    Raises: KeyPairDamaged: a file is missing or damaged, or they do not form a pair. FileError: one cannot be read.
    """
    with os_errors(folder):
        remove_dead(folder.parent)
    contents = read_files(folder)
    known = _is_known(folder, contents)
    if not known:
        _try_apart(folder, params, contents)
    pair = loaded(folder, contents)
    if not known:
        # A folder that may only be read stays without a digest; the next opening tries the pair again.
        with suppress(FileError):
            write_atomic(folder / DIGEST, digest_of(contents), force=True, mode=_PRIVATE_MODE)
    return pair


def read_files(folder: Path) -> dict[str, bytes]:
    """The content of both files.

    Raises: KeyPairDamaged: one is missing. FileError: one cannot be read.
    """
    contents = {}
    for name in (PUBLIC, SECRET):
        path = folder / name
        if not path.exists():
            raise KeyPairDamaged(f"{path} is missing, and half a key pair is of no use: {remedy.key_pair(folder)}")
        with os_errors(path, "read"):
            contents[name] = path.read_bytes()
    return contents


def loaded(folder: Path, contents: dict[str, bytes]) -> tuple[Key, Key]:
    """The public and the secret key that the files of `folder` hold.

    Raises: KeyPairDamaged: the library says that one holds no key. Of some damaged bytes it says nothing: the process
            ends by a signal.
    """
    fhe = load_openfhe()
    keys = []
    for name, read in ((PUBLIC, fhe.DeserializePublicKeyString), (SECRET, fhe.DeserializePrivateKeyString)):
        try:
            keys.append(read(contents[name], fhe.BINARY))
        except Exception as error:  # whatever the binding makes of damaged bytes
            raise KeyPairDamaged(
                f"{folder / name}: it holds no key of OpenFHE, so nobody can decrypt what was encrypted with it: "
                f"{remedy.key_pair(folder)}"
            ) from error
    return keys[0], keys[1]


def encrypted_trial(context: CryptoContext, public: Key) -> Ciphertext:
    """The library's encryption of `TRIAL`, at every limb."""
    return context.Encrypt(public, context.MakeCKKSPackedPlaintext(TRIAL.tolist(), 1, 0, None, len(TRIAL)))


def decrypted(context: CryptoContext, ciphertext: Ciphertext, secret: Key) -> Values:
    """The slots of a trial."""
    plain = context.Decrypt(ciphertext, secret)
    plain.SetLength(len(TRIAL))
    return np.asarray(plain.GetRealPackedValue(), dtype=np.float64)


class KeyTrial:
    """Applies each new evaluation key to a fresh encryption of known values, which its own pair decrypts.

    Fresh means at every limb, so that every row of the key takes part.
    """

    def __init__(self, context: OpenFheContext) -> None:
        self._cc, self._secret = context.context, context.secret_key
        self._ring_dim, self._num_q = context.params.ring_dim, context.params.num_q
        self._ciphertext = encrypted_trial(self._cc, context.public_key)

    def applies(self, key: str, element: int, made: Key) -> None:
        """Raises: KeyPairDamaged: the automorphism of `element` by the key is another one, or noise."""
        # The order of the slots is that of the powers of 5; -1 conjugates, which real values do not show.
        order = 4 * len(TRIAL)
        powers = {pow(5, turn, order): turn for turn in range(len(TRIAL))}
        turn = next(powers[power % order] for power in (element, -element) if power % order in powers)
        self._compare(key, lambda: self._cc.EvalAutomorphism(self._ciphertext, element, made), np.roll(TRIAL, -turn))

    def relinearizes(self, key: str) -> None:
        """Of the key that OpenFHE's registry holds.

        Raises: KeyPairDamaged: a product by the key is another one, or noise.
        """
        if self._num_q > 1:  # the scale of a product does not fit one limb, so that nothing is ever relinearized
            self._compare(key, lambda: self._cc.EvalMult(self._ciphertext, self._ciphertext), TRIAL * TRIAL)

    def _compare(self, key: str, apply: Callable[[], Ciphertext], expected: Values) -> None:
        with suppress(Exception):  # whatever the library makes of noise
            if is_close(decrypted(self._cc, apply(), self._secret), expected):
                return
        raise KeyPairDamaged(
            f"the new evaluation key {key} does not work with the key pair that it was made from, and is not kept: the "
            "pair was damaged in memory, or the memory is: run it again, and test the machine's memory if it stays"
        )


def is_close(slots: Values, expected: Values) -> bool:
    """Whether a trial gave the expected values."""
    return bool(np.all(np.isfinite(slots)) and np.max(np.abs(slots - expected)) < _TRIAL_ERROR)


def digest_of(contents: dict[str, bytes]) -> bytes:
    """The lines that `sha256sum --check` reads."""
    return "".join(f"{hashlib.sha256(contents[name]).hexdigest()}  {name}\n" for name in (PUBLIC, SECRET)).encode()


def _is_known(folder: Path, contents: dict[str, bytes]) -> bool:
    """Whether the pair equals its digest; `False`: it has none.

    Raises: KeyPairDamaged: it differs.
    """
    path = folder / DIGEST
    with os_errors(path, "read"):
        try:
            written = path.read_bytes()
        except FileNotFoundError:
            return False
    lines = zip(written.splitlines(), digest_of(contents).splitlines(), (PUBLIC, SECRET), strict=False)
    different = [name for old, new, name in lines if old != new]
    if written == digest_of(contents):
        return True
    raise KeyPairDamaged(
        f"{folder}: {' and '.join(different) or DIGEST} differ from what was written (by {DIGEST}), so nothing is made "
        f"from this key pair: {remedy.key_pair(folder)}"
    )


def _try_apart(folder: Path, params: CkksParameters, contents: dict[str, bytes]) -> None:
    """Raises: KeyPairDamaged: one key does not decrypt the other's ciphertext, or the library ended over them."""
    request = json.dumps({"params": params.to_dict(), "folder": str(folder)}).encode()
    command = python_module("penstock.program.openfhe.pair_trial")
    ended = subprocess.run(command, input=request, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if ended.returncode:
        how = f"signal {-ended.returncode}" if ended.returncode < 0 else f"exit status {ended.returncode}"
        raise KeyPairDamaged(
            f"{folder}: the process that tried this key pair (OpenFHE) ended by itself, {how}: one of its files is "
            "damaged, or the system has run out of memory. Nothing is made from this key pair: "
            + remedy.key_pair(folder)
        )
    answer = json.loads(ended.stdout)
    if "error" in answer:
        raise KeyPairDamaged(answer["error"])
    if answer["tried"] != digest_of(contents).decode():
        raise KeyPairDamaged(
            f"{folder}: its files changed while they were tried: run it again, when nobody writes there"
        )


def prove(folder: Path, context: CryptoContext, public: Key, secret: Key) -> None:
    """Raises: KeyPairDamaged: one key does not decrypt the other's ciphertext."""
    wrong = "what public.key encrypts secret.key does not decrypt: one of them is damaged"
    with suppress(Exception):  # whatever the library makes of noise, and a tag that is not a text
        if public.GetKeyTag() != secret.GetKeyTag():
            wrong = "the two files are of different key pairs"
        elif is_close(decrypted(context, encrypted_trial(context, public), secret), TRIAL):
            return
    raise KeyPairDamaged(f"{folder}: {wrong}, so nothing is made from this key pair: {remedy.key_pair(folder)}")
