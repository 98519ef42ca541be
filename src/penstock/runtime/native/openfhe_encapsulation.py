"""The keys to and from an ephemeral sparse secret, as OpenFHE makes them.

OpenFHE draws the ephemeral secret inside of `EvalBootstrapKeyGen` and keeps it nowhere, so both keys come from one
call. The call makes the rotation keys of a bootstrapping too. With the fewest slots they are about log2(N) + 4 keys,
which are in memory until the two are taken out.
"""

from __future__ import annotations

import ctypes

from penstock import _engine
from penstock.base.system.files import os_errors
from penstock.base.system.temporary import temporary_folder
from penstock.errors import KeyPairDamaged, ParamsError
from penstock.program.openfhe.evaluator import OpenFheContext, load_openfhe
from penstock.program.openfhe.key_pair import TRIAL, decrypted, encrypted_trial, is_close
from penstock.runtime.keystore import KeyStore
from penstock.runtime.keystore.export import ROTATIONS, export_openfhe
from penstock.runtime.native.engine import make_context
from penstock.runtime.native.store import ENCAPSULATION
from penstock.scheme.operations import TO_DENSE_KEY, TO_SPARSE_KEY
from penstock.scheme.params.secrets import is_encapsulated

_FEWEST_SLOTS = 1
_MADE = "made"


def encapsulation_keys(context: OpenFheContext) -> dict[str, object]:
    """Make both keys of one new ephemeral secret: key -> an EvalKeyMap of it.

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
