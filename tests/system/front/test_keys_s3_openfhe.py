"""A key store in S3, against a real server over HTTP on the loopback interface."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock import _engine
from penstock.base.system import remedy
from penstock.front.cli.main import main
from penstock.runtime.keystore import KeyCache, KeyStore, StorePlace
from support import s3_server
from support.openfhe_samples import sample

pytestmark = [
    pytest.mark.usefixtures("openfhe"),
    pytest.mark.skipif(
        not _engine.KeyStore.OBJECT_STORES, reason=f"this build has no object stores: {remedy.object_stores()}"
    ),
    pytest.mark.skipif(s3_server.program() is None, reason=f"no server of S3's protocol is here: {s3_server.INSTALL}"),
]


def import_arguments() -> tuple[str, ...]:
    """The rotations by 1 and 2, as a context keeps them."""
    return ("import", "--tenant", "alice", "--limbs", "3", str(sample("context-rotations")))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3_server.Server]:
    with s3_server.serve(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: s3_server.Server) -> pytest.MonkeyPatch:
    for name, value in {
        "AWS_ENDPOINT_URL": server.url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.fixture
def bucket(server: s3_server.Server, request: pytest.FixtureRequest, environ: pytest.MonkeyPatch) -> str:
    """A bucket of this test's own."""
    name = "b" + "".join(letter for letter in request.node.name.lower() if letter.isalnum())[:50]
    server.send("PUT", name)
    return name


Keys = Callable[..., tuple[int, str, str]]


@pytest.fixture
def keys(capsys: pytest.CaptureFixture[str]) -> Keys:
    def run(store: str, verb: str, *arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["keys", verb, "--store", store, *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def rows(keys: Keys, store: str, *arguments: str, code: int = 0) -> Sequence[dict[str, Any]]:
    got, out, err = keys(store, *arguments, "--format", "json")
    assert got == code, err
    found: Sequence[dict[str, Any]] = json.loads(out)
    return found


def test_keys_are_imported_listed_and_verified(
    keys: Keys, bucket: str, environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = f"s3://{bucket}/some/where"
    imported = rows(keys, store, *import_arguments())
    assert [row["key"] for row in imported] == ["rot:5", "rot:25"]
    listed = rows(keys, store, "ls")
    assert {row["key"]: row["file_bytes"] for row in listed} == {row["key"]: row["bytes"] for row in imported}
    assert rows(keys, store, "stat")[0]["num_keys"] == 2
    assert all(row["ok"] for row in rows(keys, store, "verify"))
    # Another machine has no index, and makes one from the segments.
    environ.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    assert rows(keys, store, "ls") == listed
    assert rows(keys, f"s3://{bucket}/some", "ls") == []
    # An index of the user's own, and then a removal.
    again = import_arguments()[1:]
    code, out, _ = keys(str(tmp_path / "own"), "import", "--objects", store, "--format", "json", *again)
    assert (code, [row["replaced"] for row in json.loads(out)]) == (0, [True, True])
    assert len(rows(keys, store, "gc", "--tenant", "alice")) == 2
    assert rows(keys, store, "ls") == []


def test_only_the_rows_in_use_come_over_the_wire(
    keys: Keys, bucket: str, environ: pytest.MonkeyPatch, server: s3_server.Server, tmp_path: Path
) -> None:
    name = f"s3://{bucket}/keys"
    rows(keys, name, *import_arguments())
    local = KeyStore(tmp_path / "local")
    local.import_openfhe("alice", sample("context-rotations"), num_q=3)
    wire = s3_server.Wire(server)
    environ.setenv("AWS_ENDPOINT_URL", wire.url)
    place = StorePlace.named(name)
    store = KeyStore(place.folder, objects=place.objects)
    stored = store.list_keys()[0]
    cache, beside = KeyCache(store, 1 << 20, prefetch_uses=0), KeyCache(local, 1 << 20, prefetch_uses=0)
    sessions = [each.session("alice", stored.name.digest) for each in (cache, beside)]
    answers = r'"GET [^"]*rot-25\.pkey HTTP/1\.1" '
    for limbs in (1, 2, 3):
        before = wire.received, cache.stats().read_bytes, server.answered(answers + "206")
        with sessions[0].get(stored.name.key, limbs) as got, sessions[1].get(stored.name.key, limbs) as expected:
            for part, digit, limb in np.ndindex(2, stored.dnum, len(stored.moduli_q + stored.moduli_p)):
                ours, theirs = got.row(part, digit, limb), expected.row(part, digit, limb)
                assert (ours is None) == (theirs is None)
                assert ours is None or np.array_equal(ours, theirs)
        received = wire.received - before[0]
        read = cache.stats().read_bytes - before[1]
        # The header, and the answers' own headers, besides the rows.
        assert read <= received <= read + 4096 + 8192
        assert server.answered(answers + "206") > before[2]
        print(f"{limbs} limbs: {read} bytes of rows, {received} over the wire, of {stored.file_bytes}")
    assert cache.stats().read_bytes == stored.bytes_needed[-1]
    assert server.answered(answers + "200") == 0


def test_truncated_and_flipped_objects_are_found_and_healed(keys: Keys, bucket: str, server: s3_server.Server) -> None:
    store = f"s3://{bucket}"
    digest = rows(keys, store, *import_arguments())[0]["digest"]
    path = f"{bucket}/alice/{digest}/rot-5.pkey"
    whole = server.send("GET", path)
    flipped = bytearray(whole)
    flipped[4096 + 100] ^= 1
    server.send("PUT", path, bytes(flipped))
    (bad,) = [row for row in rows(keys, store, "verify", code=1) if not row["ok"]]
    assert (bad["key"], bad["damaged_rows"]) == ("rot:5", 1)
    server.send("PUT", path, whole[:-1])
    assert [row["key"] for row in rows(keys, store, "ls")] == ["rot:25"]
    (bad,) = [row for row in rows(keys, store, "verify", code=1) if not row["ok"]]
    assert bad["key"] == "rot:5"
    assert f"{len(whole) - 1} bytes" in bad["fault"]
    rows(keys, store, *import_arguments())
    assert all(row["ok"] for row in rows(keys, store, "verify"))


def test_an_object_cut_short_under_a_program_stops_that_get_alone(
    keys: Keys, bucket: str, server: s3_server.Server
) -> None:
    from penstock.runtime.keystore import KeyDamaged

    rows(keys, f"s3://{bucket}", *import_arguments())
    place = StorePlace.named(f"s3://{bucket}")
    store = KeyStore(place.folder, objects=place.objects)
    digest = store.list_keys()[0].name.digest
    session = KeyCache(store, 1 << 20, prefetch_uses=0).session("alice", digest)
    path = f"{bucket}/alice/{digest}/rot-5.pkey"
    server.send("PUT", path, server.send("GET", path)[:20_000])
    with pytest.raises(KeyDamaged):
        session.get("rot:5", 3)
    session.get("rot:25", 3).release()


def test_a_missing_bucket_is_named(keys: Keys, environ: pytest.MonkeyPatch) -> None:
    code, _, err = keys("s3://no-such-bucket/keys", *import_arguments())
    assert code == 1
    assert "there is no such bucket" in err
    assert "s3://no-such-bucket" in err


def test_an_endpoint_without_tls_has_to_be_asked_for(keys: Keys, bucket: str, environ: pytest.MonkeyPatch) -> None:
    environ.delenv("AWS_ALLOW_HTTP")
    code, _, err = keys(f"s3://{bucket}", "ls")
    assert code == 2
    assert "AWS_ALLOW_HTTP=true" in err


def test_a_server_that_is_not_there_is_an_error_within_seconds(
    keys: Keys, bucket: str, environ: pytest.MonkeyPatch
) -> None:
    environ.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    started = time.monotonic()
    code, _, err = keys(f"s3://{bucket}", "ls")
    assert (code, "127.0.0.1:9" in err) == (1, True), err
    assert time.monotonic() - started < 30


def test_wrong_credentials_are_refused_and_say_so(keys: Keys, environ: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with s3_server.serve(tmp_path, unsigned=4) as guarded:
        environ.setenv("AWS_ENDPOINT_URL", guarded.url)
        identity, secret = guarded.access_key()
        guarded.send("PUT", "guarded")
        environ.setenv("AWS_ACCESS_KEY_ID", identity)
        environ.setenv("AWS_SECRET_ACCESS_KEY", secret)
        assert len(rows(keys, "s3://guarded/keys", *import_arguments())) == 2
        assert all(row["ok"] for row in rows(keys, "s3://guarded/keys", "verify"))
        for wrong in ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"):
            environ.setenv(wrong, "wrong" * 4)
            code, _, err = keys("s3://guarded/keys", "ls")
            assert code == 1
            assert "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY" in err
