"""The place of the keys of native runs on disk: evaluation keys in a key store, the client's keys in a folder next to
it.

Evaluation keys are public, and only of use with the secret key that they were made from. A store for further runs
therefore keeps the client's keys too: in `<store>.client` next to the store's folder, never inside it, readable by
their owner only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock._engine import CkksContext
from penstock.base.system.temporary import temporary_folder
from penstock.errors import PenstockError, UsageError
from penstock.runtime.keystore import KeyStore, check_tenant, parameter_digest
from penstock.runtime.keystore.pairs import pair_in
from penstock.runtime.keystore.store import is_segment
from penstock.runtime.native.client import LIBRARIES, Client
from penstock.runtime.native.keys import KeysHeld, KeysInMemory
from penstock.scheme.operations import TO_DENSE_KEY, TO_SPARSE_KEY
from penstock.scheme.params.ckks import CkksParameters

DEFAULT_TENANT = "local"
ENCAPSULATION = frozenset({TO_SPARSE_KEY, TO_DENSE_KEY})
"""The keys that an ephemeral secret is behind."""


def client_folder(store: Path, tenant: str, params: CkksParameters) -> Path:
    """The folder of a tenant's secret and public key, next to the store, even through `.`, `..` or a link.

    Raises: UsageError: nothing lies next to the store, or `tenant` is not a name of a tenant.
    """
    check_tenant(tenant, "the client's keys")
    # A path that ends in `..` has its siblings inside the store.
    folder = store.resolve()
    if not folder.name:
        raise UsageError(f"the key store is {folder}: the client's keys lie next to it, so name a folder below it")
    return folder.with_name(f"{folder.name}.client") / f"{tenant}-{parameter_digest(params)}"


def kept_folder(params: CkksParameters, store: KeyStore, tenant: str) -> Path:
    """`client_folder` of an open store, which holds the client's keys, or may get new ones.

    Raises: PenstockError: the store has keys of this tenant, and the secret key that they were made from is not there.
    """
    folder = client_folder(store.folder, tenant, params)
    if pair_in(folder) is None and store.list_keys(tenant=tenant, digest=parameter_digest(params)):
        raise PenstockError(
            f"there are keys of tenant '{tenant}' in {store.folder}, and the secret key they were made from is not "
            f"in {folder}: {_remedy(store, tenant)}"
        )
    return folder


def _remedy(store: KeyStore, tenant: str) -> str:
    return (
        "take another --tenant, put that key back, or remove them "
        f"('penstock keys gc --tenant {tenant} --store {store.folder}')"
    )


def add_missing_keys(client: Client, store: KeyStore, tenant: str, keys: Mapping[str, int]) -> int:
    """Make the keys that the store lacks, one at a time, and import each; how many they were.

    Args:   keys: id of each key -> limbs of its highest use.
    Raises: PenstockError: the store's keys of this tenant were made from another secret key, or it cannot be written.
    """
    params = client.params
    there = store.list_keys(tenant=tenant, digest=parameter_digest(params))
    own = [key for key in there if key.secret_tag == client.key_tag]
    untold = any(not key.secret_tag for key in there)
    if untold or not (own or store.takes(tenant, parameter_digest(params), client.key_tag)):
        raise PenstockError(
            f"the keys of tenant '{tenant}' in {store.folder} were made from another secret key than the one in "
            f"{client_folder(store.folder, tenant, params)}: {_remedy(store, tenant)}"
        )
    # A truncated key has no rows above its limbs: one that was made for a lower program is made again.
    have = {key.name.key: key.limbs for key in own}
    missing = {key: limbs for key, limbs in keys.items() if have.get(key, 0) < limbs}
    if missing.keys() & ENCAPSULATION and not LIBRARIES[client.library].keeps_ephemeral:
        # One ephemeral secret is behind both, and the library draws another each time.
        missing |= {key: limbs for key, limbs in keys.items() if key in ENCAPSULATION}
    with temporary_folder("penstock-making-") as folder:
        client.make_keys(missing, folder, tenant, lambda key, made: _import(store, tenant, params, key, made))
    return len(missing)


def keys_in_memory(
    client: Client, context: CkksContext, tenant: str, keys: Mapping[str, int], folder: Path
) -> KeysInMemory | KeysHeld:
    """Make a program's keys and hold all of them in memory.

    Args:   keys: id of each key -> limbs of its highest use. folder: an own one, for files until this returns.
    """
    if LIBRARIES[client.library].makes_segments:
        store = KeyStore(folder / "keys")
        add_missing_keys(client, store, tenant, keys)
        return KeysHeld(client.params, store, tenant, keys, secret_tag=client.key_tag)
    held = KeysInMemory(client.params, context)
    client.make_keys(keys, folder, tenant, held.take)
    return held


def _import(store: KeyStore, tenant: str, params: CkksParameters, key: str, made: Path) -> None:
    if is_segment(made):
        store.import_segment(made, tenant=tenant, params=params)
    else:
        store.import_openfhe(tenant, made, params=params, key=key)
