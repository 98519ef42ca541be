"""The store that the verbs of `penstock keys` work on."""

from __future__ import annotations

import click

from penstock.base.types import Row
from penstock.errors import UnknownName, UsageError
from penstock.front.cli.options import quiet_option, together
from penstock.front.cli.output import say
from penstock.runtime.keystore import KeyStore, StoredKey, StorePlace, parameter_digest, require_store
from penstock.runtime.keystore.store import Garbage
from penstock.scheme.params.ckks import CkksParameters

store_options = together(
    "place",
    click.option(
        "--store",
        "name",
        metavar="STORE",
        default="keys",
        envvar="PENSTOCK_KEYS",
        show_envvar=True,
        help="The store: a folder, or s3://bucket/prefix.",
    ),
    click.option(
        "--objects",
        metavar="URL",
        envvar="PENSTOCK_KEY_OBJECTS",
        show_envvar=True,
        help="Segments in an object store (s3://bucket/prefix), and the index in the folder --store.",
    ),
    quiet_option,
)
"""The place of the store. The command gets `place`, which `open_store` takes."""


def open_store(name: str, objects: str | None, quiet: bool, *, make: bool = False) -> KeyStore:
    place = StorePlace.named(name)
    if place.objects is not None and objects is not None:
        raise UsageError(f"--store {name} is an object store: --objects takes a folder as --store, for the index")
    # The index of an object store is made wherever it is missing.
    if not make and place.objects is None and objects is None:
        require_store(place.folder)
    store = KeyStore(place.folder, objects=place.objects or objects)
    for note in [*store.opening.notes(), *store.notes]:
        say(f"note: {note}", quiet=quiet)
    return store


def removed_row(garbage: Garbage, dry_run: bool = False) -> Row:
    removed = not dry_run and not garbage.kept
    return {"path": garbage.path, "bytes": garbage.file_bytes, "reason": garbage.reason, "removed": removed}


def keys_of_pair(store: KeyStore, tenant: str, params: CkksParameters, tag: str | None) -> dict[str, StoredKey]:
    """Purpose -> key, of one key pair of a tenant: the pair of the tag, or the only one.

    Raises: UnknownName: no such tenant, or pair; UsageError: no keys for the set, or several pairs and no tag.
    """
    names = {key.name.tenant for key in store.list_keys()}
    if tenant not in names:
        raise UnknownName("tenant", tenant, names)
    keys = store.list_keys(tenant=tenant, digest=parameter_digest(params))
    if not keys:
        raise UsageError(f"tenant '{tenant}' has no keys for set '{params.name}': see 'penstock keys ls'")
    tags = sorted({key.secret_tag for key in keys})
    if tag is None and len(tags) > 1:
        raise UsageError(f"tenant '{tenant}' has {len(tags)} key pairs: name one with --key-tag ({', '.join(tags)})")
    if tag not in (None, *tags):
        raise UnknownName("key pair", str(tag), tags)
    return {key.name.key: key for key in keys if tag in (None, key.secret_tag)}
