"""Stored keys as files that OpenFHE reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock import _engine
from penstock.base.system.files import write_atomic
from penstock.errors import KeyRefused
from penstock.runtime.keystore.store import KeyName, KeyStore, parameter_digest
from penstock.scheme.operations import RELIN_KEY
from penstock.scheme.params.ckks import CkksParameters

ROTATIONS, RELINEARIZATION = "rotations.bin", "relin.bin"
"""The files of an export: the automorphism keys, and the key of products."""

LAYOUTS = {
    "registry": "DeserializeEvalAutomorphismKey and DeserializeEvalMultKey, into the registry of all contexts",
    "objects": "DeserializeEvalKeyMap and DeserializeEvalKey, which return the keys",
}
"""Layout of the files -> the calls of OpenFHE that read them. No file is read by both."""


def export_openfhe(
    store: KeyStore,
    names: Sequence[KeyName],
    params: CkksParameters,
    folder: Path,
    *,
    layout: str = "registry",
    force: bool = False,
) -> dict[Path, list[KeyName]]:
    """Write whole keys of one key pair as OpenFHE does (`BINARY`); seeds are expanded, a row at a time.

    Args:   layout: a name of `LAYOUTS`.
    Returns: the files, and the keys of each. A file appears whole or not at all.
    Raises: KeyRefused: a truncated key, which OpenFHE cannot use, keys of several pairs, or other parameters.
            KeyMissing, KeyDamaged. FileError: a file is there (without `force`), or cannot be written.
    """
    digest = parameter_digest(params)
    if other := [name for name in names if name.digest != digest]:
        raise KeyRefused(f"{other[0].key} is for parameters {other[0].digest}, and set '{params.name}' has {digest}")
    groups = {
        folder / ROTATIONS: [name for name in names if name.key != RELIN_KEY],
        folder / RELINEARIZATION: [name for name in names if name.key == RELIN_KEY],
    }
    written = {path: keys for path, keys in groups.items() if keys}
    folder.mkdir(parents=True, exist_ok=True)
    for path, keys in written.items():
        write_atomic(path, lambda target, keys=keys: _write(store, keys, params, layout, target), force=force)  # type: ignore[misc]
    return written


def _write(store: KeyStore, names: Sequence[KeyName], params: CkksParameters, layout: str, path: Path) -> None:
    _engine.export_openfhe_keys(
        store.handle,
        names,
        str(path),
        registry=layout == "registry",
        scaling=params.scaling.value,
        scale_bits=params.scale_bits,
        slots=params.slots,
        depth=params.depth,
        secret=params.secret,
        security=params.security_asked or None,
    )
