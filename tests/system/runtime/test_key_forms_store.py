"""Seeded and truncated keys in a store, by the command and from Python: `penstock.runtime.client` makes real ones."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.errors import KeyDamaged, KeyRefused
from penstock.front.cli.main import main
from penstock.runtime.client import KeyPair
from penstock.runtime.keystore import KeyCache, KeyName, KeyStore, KeyUse, parameter_digest
from penstock.runtime.native.client import PreparedEnds
from penstock.runtime.native.engine import EngineHere, make_context
from penstock.runtime.native.evaluator import NativeEvaluator
from penstock.runtime.native.keys import KeysOnDisk
from penstock.scheme.params import catalogue

SET = "insecure-ci"
PARAMS = catalogue.get(SET)
DIGEST = parameter_digest(PARAMS)
FORMS = {"full": (None, False), "seeded": (None, True), "truncated": (2, False), "seeded+truncated": (2, True)}
every_form = pytest.mark.parametrize("form", FORMS)


@pytest.fixture(scope="module")
def pair() -> KeyPair:
    return KeyPair.generate(PARAMS, threads=1)


@pytest.fixture(scope="module")
def segments(pair: KeyPair, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Form -> the segment of the rotation by 1 in it. Each is a key of its own."""
    folder = tmp_path_factory.mktemp("segments")
    for form, (limbs, seeded) in FORMS.items():
        pair.write_key("rot:5", folder / f"{form}.pkey", tenant="alice", limbs=limbs, seeded=seeded)
    return {form: folder / f"{form}.pkey" for form in FORMS}


@pytest.fixture
def keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """The command on an empty store: rows, or the exit code and what it says."""

    def run(verb: str, *arguments: object, code: int = 0) -> Any:
        capsys.readouterr()
        got = main(["keys", verb, "--store", str(tmp_path / "keys"), *map(str, arguments), "--format", "json"])
        printed = capsys.readouterr()
        assert got == code, printed.err
        return json.loads(printed.out) if code == 0 else printed.err

    return run


def limbs_of(form: str) -> int:
    return FORMS[form][0] or PARAMS.num_q


@every_form
def test_a_segment_is_imported_listed_and_verified_in_its_form(keys: Any, segments: dict[str, Path], form: str) -> None:
    (row,) = keys("import", "--tenant", "alice", segments[form])
    assert (row["tenant"], row["digest"], row["key"], row["pair"]) == ("alice", DIGEST, "rot:5", 1)
    assert row["bytes"] == segments[form].stat().st_size
    (listed,) = keys("ls")
    assert (listed["form"], listed["limbs"], listed["params"]) == (form, limbs_of(form), SET)
    # In memory all rows of a key switch at its limbs, in the file a half of them where there is a seed.
    share = 2 if FORMS[form][1] else 1
    assert listed["key_bytes"] == PARAMS.key_bytes(limbs_of(form))
    assert 0 < listed["file_bytes"] - listed["key_bytes"] // share <= 8192
    rows = keys("stat", "--key", "rot:5")
    assert [row["limbs"] for row in rows] == list(range(limbs_of(form), 0, -1))
    for row in rows:
        assert row["bytes"] == PARAMS.key_bytes(row["limbs"]) == share * row["stored_bytes"]
    (total,) = keys("stat")
    assert (total["forms"], total["num_keys"], total["num_pairs"]) == (f"1 {form}", 1, 1)
    assert [row["ok"] for row in keys("verify", "--params", SET)] == [True]


def test_options_that_a_segment_states_itself_are_refused(keys: Any, segments: dict[str, Path], tmp_path: Path) -> None:
    for options in (["--key", "rot:5"], ["--limbs", "3"]):
        assert "is a segment" in keys("import", "--tenant", "alice", *options, segments["seeded"], code=2)
    assert "name the keys' parameters" in keys("import", "--tenant", "alice", tmp_path, code=2)
    assert "a segment is bound to its tenant" in keys("import", "--tenant", "bob", segments["seeded"], code=2)
    other = "insecure-small"
    message = keys("import", "--tenant", "alice", "--params", other, segments["seeded"], code=2)
    assert f"the key is for parameters {DIGEST}" in message


@every_form
def test_a_damaged_segment_changes_nothing(segments: dict[str, Path], form: str, tmp_path: Path) -> None:
    store, whole = KeyStore(tmp_path / "keys"), segments[form].read_bytes()
    damaged = tmp_path / "damaged.pkey"
    (header_bytes,) = struct.unpack_from("<I", whole, 12)
    newer = whole[:8] + struct.pack("<I", 9) + whole[12:]
    for content, reason in [
        (whole[:-1], "its header says"),
        (whole[:100], "less than its header|less than a header|less than"),
        (whole[:40] + bytes([whole[40] ^ 1]) + whole[41:], "differs from its checksum"),
        (whole[: header_bytes + 5] + bytes([whole[header_bytes + 5] ^ 1]) + whole[header_bytes + 6 :], "row 0|row 1"),
        (newer, "its version is 9, this program reads up to 4"),
    ]:
        damaged.write_bytes(content)
        with pytest.raises(KeyDamaged, match=reason):
            store.import_segment(damaged)
    assert store.list_keys() == []


@every_form
def test_an_evaluation_has_the_words_of_the_same_key_in_memory(
    pair: KeyPair, segments: dict[str, Path], form: str, tmp_path: Path
) -> None:
    store = KeyStore(tmp_path / "keys")
    store.import_segment(segments[form], tenant="alice", params=PARAMS)
    limbs, engine = limbs_of(form), make_context(PARAMS, 1)
    values = np.linspace(-1, 1, PARAMS.slots)
    keys = KeysOnDisk(PARAMS, store, "alice", PARAMS.key_bytes(), [("rot:5", limbs)])
    ends = PreparedEnds(PARAMS, [pair.encrypt_seeded(values, limbs=limbs)])
    ev = NativeEvaluator(EngineHere(PARAMS, engine, keys), ends)
    rotated = ev.rotate(ev.encrypt(values), 1)
    ev.decrypt(rotated)
    found = pair.decrypt(ends.outputs[0], result_for="owner")
    assert np.allclose(found.real, np.roll(values, -1), atol=1e-4)
    traffic = keys.traffic()
    stored = store.key(KeyName("alice", DIGEST, "rot:5")).stored_bytes[limbs - 1]
    assert traffic.read_bytes == stored
    assert traffic.read_bytes + traffic.expanded_bytes == PARAMS.key_bytes(limbs)


def test_a_truncated_key_above_its_rows_computes_nothing(segments: dict[str, Path], tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys")
    store.import_segment(segments["seeded+truncated"])
    cache = KeyCache(store, PARAMS.key_bytes())
    session = cache.session("alice", DIGEST)
    with pytest.raises(KeyRefused, match="up to 2 limbs, and 3 were asked for: a truncated key is used at its limbs"):
        session.get("rot:5", 3)
    assert cache.stats().read_bytes == 0
    session.get("rot:5", 2).release()


def test_a_plan_reads_ahead_what_each_form_stores(pair: KeyPair, tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys")
    names: list[KeyName] = []
    for (limbs, seeded), element in zip(FORMS.values(), (5, 25, 125, 625), strict=True):
        pair.write_key(f"rot:{element}", tmp_path / "one.pkey", tenant="alice", limbs=limbs, seeded=seeded)
        names.append(store.import_segment(tmp_path / "one.pkey").name)
    cache = KeyCache(store, 3 * PARAMS.key_bytes())
    uses = [KeyUse(name, limbs) for limbs in (1, 2, 1) for name in names]
    with cache.plan(uses) as plan:
        session = cache.session("alice", DIGEST, plan)
        for use in uses:
            with session.get(use.name.key, use.limbs) as rows:
                assert rows.row(0, 0, use.limbs - 1) is not None
    stats = cache.stats()
    kept = stats.resident_bytes + stats.evicted_bytes + stats.dropped_bytes
    assert stats.read_bytes + stats.expanded_bytes == kept
    assert 0 < stats.expanded_bytes < stats.read_bytes


def import_of(keys: Any, made: KeyPair, folder: Path, key: str = "rot:5") -> Sequence[dict[str, Any]]:
    made.write_key(key, folder / "new.pkey", tenant="alice")
    return keys("import", "--tenant", "alice", folder / "new.pkey")


def test_a_tenant_replaces_its_pair_and_the_old_keys_go(pair: KeyPair, keys: Any, tmp_path: Path) -> None:
    named = ("--tenant", "alice", "--params", SET)
    import_of(keys, pair, tmp_path)
    assert "keys replace" in keys("retire", *named, code=2)
    new = KeyPair.generate(PARAMS, threads=1)
    new.write_key("rot:5", tmp_path / "new.pkey", tenant="alice")
    refused = keys("import", "--tenant", "alice", tmp_path / "new.pkey", code=2)
    assert "begin a new one with 'penstock keys replace --tenant alice" in refused
    assert keys("replace", *named) == {"tenant": "alice", "digest": DIGEST, "pair": 2}
    (row,) = import_of(keys, new, tmp_path)
    assert (row["pair"], row["replaced"]) == (2, False)
    import_of(keys, new, tmp_path, "relin")
    store = KeyStore(tmp_path / "keys")
    assert [(key.name.key, key.name.pair) for key in store.list_keys()] == [("rot:5", 1), ("relin", 2), ("rot:5", 2)]
    # A job with the old pair goes on, one with the new pair has begun, and neither sees keys of the other.
    cache = KeyCache(store, 3 * PARAMS.key_bytes())
    sessions = {tag: cache.session("alice", DIGEST, secret_tag=tag) for tag in (pair.tag, new.tag)}
    words = []
    for session in sessions.values():
        with session.get("rot:5", 1) as rows:
            words.append(rows.row(1, 0, 0))
    assert not np.array_equal(*words)
    with pytest.raises(KeyRefused, match="another secret key"):
        sessions[pair.tag].get("relin", 1)
    assert store.name_for("alice", DIGEST, "rot:5", secret_tag=new.tag).pair == 2
    (kept,) = keys("retire", *named)
    assert (kept["removed"], kept["reason"]) == (False, "a session uses its key pair")
    del session, sessions
    (gone,) = keys("retire", *named)
    assert gone["removed"]
    assert [row["pair"] for row in keys("ls")] == [2, 2]
    assert all(row["ok"] for row in keys("verify"))
    assert len(keys("gc", "--tenant", "alice")) == 2


def test_a_damaged_key_of_a_second_pair_is_named_by_its_pair(pair: KeyPair, keys: Any, tmp_path: Path) -> None:
    import_of(keys, pair, tmp_path)
    keys("replace", "--tenant", "alice", "--params", SET)
    import_of(keys, KeyPair.generate(PARAMS, threads=1), tmp_path)
    path = tmp_path / "keys" / "alice" / DIGEST / "pair-2" / "rot-5.pkey"
    path.write_bytes(path.read_bytes()[:-1])
    main(["keys", "verify", "--store", str(tmp_path / "keys"), "-q", "--format", "json"])
    assert [opened[0] for opened in KeyStore(tmp_path / "keys").opening.damaged] == [
        f"alice/{DIGEST}/pair-2/rot-5.pkey"
    ]
    assert "keys are damaged or gone" in keys("verify", code=1)
