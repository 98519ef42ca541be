"""Where the keys of native runs lie on disk: evaluation keys in a key store, the client's keys in a folder beside it.

Evaluation keys are public, and only of use with the secret key that they were made from. A store that is to serve
another run therefore has the client's keys kept, too: in `<store>.client`, never inside the store, readable by their
owner only.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from penstock.errors import PenstockError
from penstock.files import os_errors
from penstock.keystore import KeyStore, parameter_digest
from penstock.params.ckks import CkksParameters
from penstock.program.native_keys import make_keys
from penstock.program.openfhe import OpenFheContext
from penstock.program.stored import SECRET, client_keys, save_client_keys

DEFAULT_TENANT = "local"


def client_folder(store: Path, tenant: str, params: CkksParameters) -> Path:
    """The folder of a tenant's secret and public key, beside the store."""
    return store.with_name(f"{store.name}.client") / f"{tenant}-{parameter_digest(params)}"


def open_client(params: CkksParameters, store: Path, tenant: str) -> OpenFheContext:
    """A context with the client's keys of this store, tenant and parameters; new keys are written where there are none.

    Raises: PenstockError: the file system refused, or a key file is damaged.
    """
    folder = client_folder(store, tenant, params)
    if (folder / SECRET).exists():
        return OpenFheContext.create(params, relinearize=False, client_keys=lambda: client_keys(folder))
    made = OpenFheContext.create(params, relinearize=False)
    with os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    save_client_keys(made, folder)
    return made


def add_missing_keys(client: OpenFheContext, store: KeyStore, tenant: str, keys: Iterable[str]) -> int:
    """Make the keys that the store lacks, one at a time, and import each; how many they were.

    Raises: PenstockError: the store's keys of this tenant were made from another secret key, or it cannot be written.
    """
    params = client.params
    tag = client.secret_key.GetKeyTag()
    there = store.list_keys(tenant=tenant, digest=parameter_digest(params))
    foreign = [key for key in there if key.secret_tag != tag]
    if foreign:
        raise PenstockError(
            f"the keys of tenant '{tenant}' in {store.folder} were made from another secret key than the one in "
            f"{client_folder(store.folder, tenant, params)}: take another --tenant, put that key back, or remove them "
            f"('penstock keys gc --tenant {tenant} --store {store.folder}')"
        )
    have = {key.name.key for key in there}
    missing = [key for key in keys if key not in have]
    make_keys(client, missing, lambda key, content: _import(store, tenant, params, key, content))
    return len(missing)


def _import(store: KeyStore, tenant: str, params: CkksParameters, key: str, content: bytes) -> None:
    store.import_openfhe(tenant, content, params=params, key=key)
