"""Stored keys as OpenFHE's files: OpenFHE computes the same words with them, and writes the same bytes."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from penstock.client import KeyPair
from penstock.errors import KeyDamaged, KeyRefused
from penstock.keystore import KeyCache, KeyName, KeyStore, parameter_digest
from penstock.keystore.export import RELINEARIZATION, ROTATIONS, export_openfhe
from penstock.native.engine import make_context
from penstock.openfhe.evaluator import OpenFheContext
from penstock.params import catalogue
from penstock.system.files import WouldOverwrite

PARAMS = catalogue.get("insecure-ci")
DIGEST = parameter_digest(PARAMS)
KEYS = ("rot:25", "conj", "rot:5", "relin")


@pytest.fixture(scope="module")
def pair() -> KeyPair:
    return KeyPair.generate(PARAMS, threads=1)


@pytest.fixture
def store(pair: KeyPair, tmp_path: Path) -> KeyStore:
    """Seeded keys, but for one whole."""
    made = KeyStore(tmp_path / "keys")
    for key in KEYS:
        pair.write_key(key, tmp_path / "one.pkey", tenant="alice", seeded=key != "rot:25")
        made.import_segment(tmp_path / "one.pkey")
    return made


def names_of(store: KeyStore) -> list[KeyName]:
    return [key.name for key in store.list_keys()]


def test_openfhe_rotates_with_an_exported_seeded_key_to_the_same_words(
    openfhe: ModuleType, pair: KeyPair, store: KeyStore, tmp_path: Path
) -> None:
    written = export_openfhe(store, names_of(store), PARAMS, tmp_path / "out")
    assert {path.name: sorted(name.key for name in names) for path, names in written.items()} == {
        ROTATIONS: ["conj", "rot:25", "rot:5"],
        RELINEARIZATION: ["relin"],
    }
    context = OpenFheContext.create(PARAMS, relinearize=False)
    try:
        engine = make_context(PARAMS, 1)
        content = pair.encrypt(np.linspace(-1, 1, PARAMS.slots))
        theirs = openfhe.DeserializeCiphertextString(content, openfhe.BINARY)
        keys, whole = openfhe.DeserializeEvalKeyMap(str(tmp_path / "out" / ROTATIONS), openfhe.BINARY)
        assert whole
        session = KeyCache(store, 4 * PARAMS.key_bytes()).session("alice", DIGEST)
        ours = engine.import_ciphertext(content)
        for key, element in (("rot:5", 5), ("rot:25", 25), ("conj", 2 * PARAMS.ring_dim - 1)):
            expected = context.context.EvalAutomorphism(theirs, element, keys)
            words = engine.import_ciphertext(openfhe.Serialize(expected, openfhe.BINARY))
            with session.get(key, PARAMS.num_q) as rows:
                found = engine.rotate(ours, element, rows.handle)
            assert all(np.array_equal(found.words(part), words.words(part)) for part in (0, 1)), key
    finally:
        context.release()


def test_an_exported_key_comes_back_word_for_word(openfhe: ModuleType, store: KeyStore, tmp_path: Path) -> None:
    export_openfhe(store, names_of(store), PARAMS, tmp_path / "out")
    again = KeyStore(tmp_path / "again")
    again.import_openfhe("bob", tmp_path / "out" / ROTATIONS, params=PARAMS)
    again.import_openfhe("bob", tmp_path / "out" / RELINEARIZATION, params=PARAMS, key="relin")
    ours = KeyCache(store, 2 * PARAMS.key_bytes()).session("alice", DIGEST)
    theirs = KeyCache(again, 2 * PARAMS.key_bytes()).session("bob", DIGEST)
    for key in KEYS:
        assert again.key(KeyName("bob", DIGEST, key)).form == "full"
        with ours.get(key, PARAMS.num_q) as one, theirs.get(key, PARAMS.num_q) as two:
            for part in (0, 1):
                for digit in range(PARAMS.dnum):
                    for limb in range(PARAMS.num_q + PARAMS.num_p):
                        assert np.array_equal(one.row(part, digit, limb), two.row(part, digit, limb))


def test_what_openfhe_wrote_is_exported_byte_for_byte(openfhe: ModuleType, tmp_path: Path) -> None:
    made = OpenFheContext.create(PARAMS, rotation_steps=(1, 2))
    try:
        tag = made.secret_key.GetKeyTag()
        original = tmp_path / "original.bin"
        assert openfhe.SerializeToFile(str(original), made.context.GetEvalAutomorphismKeyMap(tag), openfhe.BINARY)
    finally:
        made.release()
    store = KeyStore(tmp_path / "keys")
    store.import_openfhe("alice", original, params=PARAMS)
    export_openfhe(store, names_of(store), PARAMS, tmp_path / "out")
    assert (tmp_path / "out" / ROTATIONS).read_bytes() == original.read_bytes()


def test_a_truncated_or_damaged_key_leaves_no_file(pair: KeyPair, store: KeyStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    pair.write_key("rot:125", tmp_path / "one.pkey", tenant="alice", limbs=2)
    truncated = store.import_segment(tmp_path / "one.pkey").name
    with pytest.raises(KeyRefused, match=f"rows for 2 of {PARAMS.num_q} limbs.*indexes the whole chain"):
        export_openfhe(store, [truncated], PARAMS, out)
    path = tmp_path / "keys" / "alice" / DIGEST / "rot-5.pkey"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(KeyDamaged, match=r"rot-5\.pkey: row"):
        export_openfhe(store, [KeyName("alice", DIGEST, "rot:5")], PARAMS, out)
    assert list(out.iterdir()) == []
    export_openfhe(store, [KeyName("alice", DIGEST, "relin")], PARAMS, out)
    with pytest.raises(WouldOverwrite):
        export_openfhe(store, [KeyName("alice", DIGEST, "relin")], PARAMS, out)
    with pytest.raises(KeyRefused, match="is for parameters"):
        export_openfhe(store, [KeyName("alice", DIGEST, "relin")], catalogue.get("insecure-small"), out)
