"""Stored keys as OpenFHE's files: OpenFHE computes the same words with them, and writes the same bytes."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from penstock.base.system.files import WouldOverwrite
from penstock.errors import KeyDamaged, KeyRefused
from penstock.program.openfhe.evaluator import OpenFheContext
from penstock.program.openfhe.turn import TURN
from penstock.runtime.client import KeyPair
from penstock.runtime.keystore import KeyCache, KeyName, KeyStore, parameter_digest
from penstock.runtime.keystore.export import LAYOUTS, RELINEARIZATION, ROTATIONS, export_openfhe
from penstock.runtime.native.engine import make_context
from penstock.scheme.params import catalogue
from support.engine_calls import Calls

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
    written = export_openfhe(store, names_of(store), PARAMS, tmp_path / "out", layout="objects")
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
        relin, whole = openfhe.DeserializeEvalKey(str(tmp_path / "out" / RELINEARIZATION), openfhe.BINARY)
        assert whole
        assert relin.GetKeyTag() == pair.tag
        session = KeyCache(store, 4 * PARAMS.key_bytes()).session("alice", DIGEST)
        ours = engine.import_ciphertext(content)
        for key, element in (("rot:5", 5), ("rot:25", 25), ("conj", 2 * PARAMS.ring_dim - 1)):
            expected = context.context.EvalAutomorphism(theirs, element, keys)
            words = engine.import_ciphertext(openfhe.Serialize(expected, openfhe.BINARY))
            with session.get(key, PARAMS.num_q) as rows:
                found = Calls(engine).rotate(ours, element, rows)
            assert all(np.array_equal(found.words(part), words.words(part)) for part in (0, 1)), key
    finally:
        context.release()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_exported_key_comes_back_word_for_word(
    openfhe: ModuleType, store: KeyStore, tmp_path: Path, layout: str
) -> None:
    export_openfhe(store, names_of(store), PARAMS, tmp_path / "out", layout=layout)
    again = KeyStore(tmp_path / "again")
    again.import_openfhe("bob", tmp_path / "out" / ROTATIONS, params=PARAMS)
    purpose = "relin" if layout == "objects" else None
    again.import_openfhe("bob", tmp_path / "out" / RELINEARIZATION, params=PARAMS, key=purpose)
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
    originals = {name: tmp_path / name for name in ("map.bin", ROTATIONS, RELINEARIZATION)}
    try:
        cc, tag = made.context, made.secret_key.GetKeyTag()
        assert openfhe.SerializeToFile(str(originals["map.bin"]), cc.GetEvalAutomorphismKeyMap(tag), openfhe.BINARY)
        assert cc.SerializeEvalAutomorphismKey(str(originals[ROTATIONS]), openfhe.BINARY, tag)
        assert cc.SerializeEvalMultKey(str(originals[RELINEARIZATION]), openfhe.BINARY, tag)
    finally:
        made.release()
    store = KeyStore(tmp_path / "keys")
    for name in (ROTATIONS, RELINEARIZATION):
        store.import_openfhe("alice", originals[name], params=PARAMS)
    for layout, names in (("registry", (ROTATIONS, RELINEARIZATION)), ("objects", ("map.bin",))):
        export_openfhe(store, names_of(store), PARAMS, tmp_path / layout, layout=layout)
        for name in names:
            file = tmp_path / layout / (ROTATIONS if name == "map.bin" else name)
            assert file.read_bytes() == originals[name].read_bytes(), (layout, name)


def own_context(openfhe: ModuleType) -> Any:
    """A context as a user makes it, with fewer features than penstock's."""
    wanted = openfhe.CCParamsCKKSRNS()
    wanted.SetMultiplicativeDepth(6)
    wanted.SetScalingModSize(50)
    wanted.SetFirstModSize(60)
    wanted.SetRingDim(2048)
    wanted.SetSecurityLevel(openfhe.HEStd_NotSet)
    wanted.SetScalingTechnique(openfhe.FIXEDMANUAL)
    wanted.SetNumLargeDigits(3)
    cc = openfhe.GenCryptoContext(wanted)
    for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE):
        cc.Enable(feature)
    return cc


def test_exported_keys_of_two_tenants_load_into_the_registry_and_compute_the_same_words(
    openfhe: ModuleType, tmp_path: Path
) -> None:
    params, cc, store, expected = catalogue.get("insecure-small"), own_context(openfhe), KeyStore(tmp_path / "keys"), {}
    with TURN.taken():
        try:
            for tenant in ("alice", "bob"):
                pair = cc.KeyGen()
                tag = pair.secretKey.GetKeyTag()
                cc.EvalMultKeyGen(pair.secretKey)
                cc.EvalRotateKeyGen(pair.secretKey, [1, -3])
                x = cc.Encrypt(pair.publicKey, cc.MakeCKKSPackedPlaintext([0.5, -0.25]))
                results = [openfhe.Serialize(each, openfhe.BINARY) for each in computed(cc, x)]
                expected[tenant] = x, results
                place = tmp_path / tenant
                place.mkdir()
                assert cc.SerializeEvalAutomorphismKey(str(place / ROTATIONS), openfhe.BINARY, tag)
                assert cc.SerializeEvalMultKey(str(place / RELINEARIZATION), openfhe.BINARY, tag)
                for name in (ROTATIONS, RELINEARIZATION):
                    store.import_openfhe(tenant, place / name, params=params)
            openfhe.CryptoContext.ClearEvalAutomorphismKeys()
            openfhe.ClearEvalMultKeys()
            for tenant in expected:
                names = [key.name for key in store.list_keys(tenant=tenant)]
                export_openfhe(store, names, params, tmp_path / f"{tenant}-out")
                assert cc.DeserializeEvalAutomorphismKey(str(tmp_path / f"{tenant}-out" / ROTATIONS), openfhe.BINARY)
                assert cc.DeserializeEvalMultKey(str(tmp_path / f"{tenant}-out" / RELINEARIZATION), openfhe.BINARY)
            for x, results in expected.values():
                assert [openfhe.Serialize(each, openfhe.BINARY) for each in computed(cc, x)] == results
        finally:
            openfhe.CryptoContext.ClearEvalAutomorphismKeys()
            openfhe.ClearEvalMultKeys()
            openfhe.ReleaseAllContexts()


def computed(cc: Any, x: Any) -> list[Any]:
    return [cc.EvalRotate(x, 1), cc.EvalRotate(x, -3), cc.EvalMult(x, x)]


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
