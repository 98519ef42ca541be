"""Uploads of one tenant that meet: of the same content, and of content that is removed meanwhile."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy")

from penstock.runtime.keystore import KeyStore
from penstock.service.http import uploads as uploads_module
from penstock.service.http.config import embedded
from penstock.service.http.keys import Keys
from penstock.service.http.metrics import Metrics
from penstock.service.http.uploads import Files, UnfinishedUploads
from penstock.service.state.state import ServiceState
from penstock.service.state.tokens import Caller

CONTENT = bytes(1000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
OWNER = Caller(tenant="clinic", token="t", scopes=frozenset({"deploy", "keys", "run", "read"}))


@pytest.fixture
def uploads(tmp_path: Path) -> Iterator[UnfinishedUploads]:
    config = embedded(tmp_path / "state")
    config.folder.mkdir()
    state, files = ServiceState(config.database), Files(config.folder)
    state.add_tenant("clinic")
    yield UnfinishedUploads(config, state, files, Keys(KeyStore(files.store), state), Metrics())
    state.close()


def begin(uploads: UnfinishedUploads, kind: str) -> dict:
    return uploads.begin(OWNER, {"kind": kind, "bytes": len(CONTENT), "sha256": SHA256})


def send(uploads: UnfinishedUploads, upload: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield CONTENT

    asyncio.run(uploads.receive(OWNER, upload, 0, pieces()))


def test_content_that_is_committed_again_is_there_all_the_time(uploads: UnfinishedUploads) -> None:
    names = [begin(uploads, "input")["upload"] for _ in range(30)]
    for name in names:
        send(uploads, name)
    uploads.commit(OWNER, names[0])
    blob, ended, missing = uploads._files.blob("clinic", SHA256), threading.Event(), []

    def watch() -> None:
        while not ended.is_set():
            if not blob.exists():
                missing.append(1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for name in names[1:]:
        uploads.commit(OWNER, name)
    ended.set()
    watcher.join()
    assert not missing
    assert blob.read_bytes() == CONTENT
    assert [path.name for path in blob.parent.iterdir()] == [SHA256]
    assert not list(uploads._files.upload("clinic", "any").parent.iterdir())


def test_a_commit_that_a_kill_cut_short_is_done_again(uploads: UnfinishedUploads) -> None:
    name = begin(uploads, "input")["upload"]
    send(uploads, name)
    path, blob = uploads._files.upload("clinic", name), uploads._files.blob("clinic", SHA256)
    uploads._files.make(blob)
    for other in (blob, path.with_suffix(".new")):
        other.hardlink_to(path)
    assert uploads.commit(OWNER, name)["blob"] == SHA256
    assert blob.read_bytes() == CONTENT
    assert not list(path.parent.iterdir())


def test_an_upload_that_is_given_up_after_a_kill_leaves_no_file(uploads: UnfinishedUploads) -> None:
    name = begin(uploads, "input")["upload"]
    send(uploads, name)
    path = uploads._files.upload("clinic", name)
    path.with_suffix(".new").hardlink_to(path)
    uploads.drop(OWNER, name)
    assert not list(path.parent.iterdir())


def test_content_that_is_committed_again_is_synced_again(uploads: UnfinishedUploads) -> None:
    first, second = (begin(uploads, "input")["upload"] for _ in range(2))
    for name in (first, second):
        send(uploads, name)
    uploads.commit(OWNER, first)
    blob = uploads._files.blob("clinic", SHA256)
    replaced = Path.replace

    def settled_before(path: Path, target: Path) -> Path:
        uploads._files.settle([blob])
        return replaced(path, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", settled_before)
        uploads.commit(OWNER, second)
    assert blob not in uploads._files._synced


def test_content_that_is_replaced_while_it_is_synced_is_synced_again(
    uploads: UnfinishedUploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [begin(uploads, "input")["upload"] for _ in range(2)]
    for name in names:
        send(uploads, name)
    uploads.commit(OWNER, names[0])
    blob, real = uploads._files.blob("clinic", SHA256), uploads_module.sync_all

    def replaced(paths: Iterable[Path]) -> None:
        real(paths)
        uploads.commit(OWNER, names[1])

    monkeypatch.setattr(uploads_module, "sync_all", replaced)
    uploads._files.settle([blob])
    assert blob not in uploads._files._synced
    monkeypatch.setattr(uploads_module, "sync_all", real)
    uploads._files.settle([blob])
    assert blob in uploads._files._synced


def test_content_that_is_removed_while_it_is_named_is_sent_again(
    uploads: UnfinishedUploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = begin(uploads, "input")["upload"]
    send(uploads, name)
    uploads.commit(OWNER, name)
    settle, blob = uploads._files.settle, uploads._files.blob("clinic", SHA256)

    def removed(paths: list[Path]) -> None:
        blob.unlink()
        settle(paths)

    monkeypatch.setattr(uploads._files, "settle", removed)
    assert begin(uploads, "ciphertext")["offset"] == 0
