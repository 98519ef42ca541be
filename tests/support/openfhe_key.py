"""Evaluation keys of penstock's client as files of OpenFHE."""

from __future__ import annotations

from pathlib import Path

from penstock.runtime.client import KeyPair


def write_openfhe_key(pair: KeyPair, key: str, path: Path) -> None:
    """Make a whole evaluation key and write it as OpenFHE does: a map of one, or the key of products.

    `DeserializeEvalKeyMap` and `DeserializeEvalKey` read them.
    """
    pair._ring.key_to_openfhe(pair.generate_key(key, seeded=False), str(path))
