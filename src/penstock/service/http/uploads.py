"""Uploads: content arrives in pieces, is addressed by its SHA-256 within its tenant, and appears whole or not at all.

The file of an upload holds what arrived; its size is the offset. So an upload goes on after the server was killed.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import secrets
import shutil
import threading
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from penstock.base.system.files import sync_all, sync_folder
from penstock.base.types import Row, Rows
from penstock.service.http.config import Config
from penstock.service.http.keys import Keys, Quota
from penstock.service.http.metrics import Metrics
from penstock.service.http.threads import in_thread
from penstock.service.state.problems import Problem, being_removed, no_such
from penstock.service.state.state import ServiceState
from penstock.service.state.tokens import Caller

KINDS = {"package": "deploy", "key": "keys", "input": "run", "ciphertext": "run"}
"""Kind -> the scope that may send it."""
_PIECE_BYTES = 1 << 18
"""Written at a time, if nothing is being written."""
_MOST_PIECE_BYTES = 1 << 21
"""Of what arrives while a piece is being written: the memory that an upload takes is two of them."""
_RESERVED_BYTES, _RESERVED_SHARE = 64 << 20, 16
"""Uploads leave so much of the disk free, or that part of a small disk: without room the state could not even note that
something is removed."""
_MOST_DIGESTS = 1024
"""Digests under way that are kept in memory. Others are computed again from the file."""
_MOST_SYNCED = 4096
_ENDING_S = 20.0
"""The longest wait of a removal for requests that add something to the tenant."""
_TRIES = 3


def _no_upload(upload: str) -> Problem:
    return no_such("upload", upload, "begin one with POST /v1/uploads: uploads expire, and end when committed")


def _beside(path: Path) -> Path:
    """A second name of an upload's file, which then takes the place of the blob."""
    return path.with_suffix(".new")


def _room(descriptor: int) -> int:
    """Bytes that an upload may still take of the disk of an open file."""
    disk = os.fstatvfs(descriptor)
    reserved = min(_RESERVED_BYTES, disk.f_blocks * disk.f_frsize // _RESERVED_SHARE)
    return max(0, disk.f_bavail * disk.f_frsize - reserved)


class Files:
    """The folder of the tenants' content."""

    def __init__(self, folder: Path, eras: Mapping[str, int] | None = None) -> None:
        self.tenants = folder / "tenants"
        self.eras = {} if eras is None else eras
        self._users: Counter[str] = Counter()
        self._barred: set[str] = set()
        self._door = threading.Condition()
        self.store = folder / "keys"
        self._synced: OrderedDict[Path, None] = OrderedDict()
        self._lock = threading.RLock()
        self._turns = [threading.RLock() for _ in range(64)]

    @contextmanager
    def using(self, tenant: str, era: int | None = None) -> Iterator[None]:
        """Held by who adds something to a tenant: its removal waits.

        Args:   era: of the request.
        Raises: Problem: the tenant is removed, or was since the request came.
        """
        with self._door:
            if tenant in self._barred or era not in (None, self.eras.get(tenant, 0)):
                raise being_removed(tenant)
            self._users[tenant] += 1
        try:
            yield
        finally:
            with self._door:
                self._users[tenant] -= 1
                if not self._users[tenant]:
                    del self._users[tenant]
                self._door.notify_all()

    def bar(self, tenant: str) -> None:
        """Let nobody add anything to a tenant, until `admit`; return when nobody does any more.

        Raises: Problem: it takes long.
        """
        with self._door:
            self._barred.add(tenant)
            if not self._door.wait_for(lambda: tenant not in self._users, _ENDING_S):
                raise being_removed(tenant)

    def admit(self, tenant: str) -> None:
        """The opposite of `bar`."""
        with self._door:
            self._barred.discard(tenant)

    def settle(self, paths: Iterable[Path]) -> None:
        """Return when files, and their names, are on the disk. Those that were settled lately are known to be."""
        with self._lock:
            new = {path: path.stat().st_ino for path in paths if path not in self._synced}
        sync_all(new)
        for folder in {path.parent for path in new}:
            sync_folder(folder)
        with self._lock:
            for path, file in new.items():
                with suppress(FileNotFoundError):
                    if path.stat().st_ino == file:  # no other file has the name meanwhile
                        self._synced[path] = None
            while len(self._synced) > _MOST_SYNCED:
                self._synced.popitem(last=False)

    def put(self, file: Path, path: Path) -> None:
        """Give a file this name, which another one may have."""
        with self._lock:
            file.replace(path)
            self._synced.pop(path, None)

    def turn(self, sha256: str) -> AbstractContextManager[object]:
        """Held while a content's file and its row change, in any order."""
        return self._turns[hash(sha256) % len(self._turns)]

    def blob(self, tenant: str, sha256: str) -> Path:
        return Path(f"{self.tenants}/{tenant}/blobs/{sha256}")  # a third of the time of four steps

    def upload(self, tenant: str, upload: str) -> Path:
        return self.tenants / tenant / "uploads" / upload

    def results(self, tenant: str, job: str) -> Path:
        return self.tenants / tenant / "results" / job

    def make(self, path: Path) -> None:
        """Make the folder of a file, for this user alone."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)

    def forget(self, tenant: str) -> None:
        """Remove all files of a tenant. Raises: OSError: something stays."""
        folder = self.tenants / tenant
        for left in reversed(range(_TRIES)):
            # What a worker writes meanwhile is removed at the next try.
            shutil.rmtree(folder, ignore_errors=left > 0)
            if not folder.exists():
                break
        with self._lock:
            for path in [path for path in self._synced if path.is_relative_to(folder)]:
                del self._synced[path]


class UnfinishedUploads:
    """The unfinished uploads of all tenants."""

    def __init__(self, config: Config, state: ServiceState, files: Files, keys: Keys, metrics: Metrics) -> None:
        self._limits, self._kept = config.limits, config.retention
        self._state, self._files, self._keys, self._metrics = state, files, keys, metrics
        self._quota = Quota(config.limits.tenant_bytes, keys)
        self._digests: OrderedDict[str, tuple[hashlib._Hash, int]] = OrderedDict()
        self._busy: set[str] = set()

    def begin(self, caller: Caller, asked: Row) -> Row:
        """Begin an upload, or name the blob that is there. `asked`: kind, bytes, sha256, name, params."""
        kind = asked["kind"]
        if KINDS[kind] not in caller.scopes:
            raise Problem(
                403, f"uploads of kind '{kind}' need the scope '{KINDS[kind]}'", remedy="use a token that has it",
                kind="scope",
            )  # fmt: skip
        with self._files.using(caller.tenant, caller.era):
            return self._begun(caller.tenant, kind, asked)

    def _begun(self, tenant: str, kind: str, asked: Row) -> Row:
        if kind != "key" and self._is_there(tenant, kind, asked["sha256"], asked["bytes"]):
            return {"blob": asked["sha256"]}
        if asked["bytes"] > self._limits.upload_bytes:
            raise Problem(
                413, f"{asked['bytes']} bytes: an upload has at most {self._limits.upload_bytes}",
                remedy="send it in several uploads, or ask the operator for more", kind="upload-size",
            )  # fmt: skip
        row: Row = {
            **{name: asked.get(name) for name in ("kind", "bytes", "sha256", "name", "params")},
            "upload": secrets.token_hex(16),
            "tenant": tenant,
            "expires_s": self._state.clock() + self._kept.uploads_s,
        }
        self._files.make(self._files.upload(tenant, row["upload"]))
        limits, fits = self._limits, self._quota.fits(tenant, asked["bytes"])
        if not self._state.add_upload(row, most=limits.unfinished_uploads, most_blobs=limits.contents, fits=fits):
            raise Problem(
                429, f"this tenant has {self._limits.unfinished_uploads} unfinished uploads",
                remedy="commit or delete some (GET /v1/uploads lists them)", kind="uploads", retry_after_s=60,
            )  # fmt: skip
        return {"upload": row["upload"], "offset": 0}

    def _is_there(self, tenant: str, kind: str, sha256: str, size: int) -> bool:
        """Whether the tenant has this content already; then it is kept for this use, too."""
        with self._files.turn(sha256):
            row, blob = self._state.blob(tenant, sha256), self._files.blob(tenant, sha256)
            if row is None or not blob.exists():
                return False
            if row["bytes"] != size:
                raise Problem(422, f"this content has {row['bytes']} bytes, not {size}", remedy="state its own size")
            if kind in row["kind"].split() and kind != "input":
                return True
            if kind != "input":
                try:
                    self._files.settle([blob])
                except FileNotFoundError:  # removed with its tenant
                    return False
            return self._state.add_use(tenant, sha256, kind, self._end_of(kind))

    def _row(self, caller: Caller, upload: str) -> Row:
        row = self._state.upload(caller.tenant, upload)
        if row is None:
            raise _no_upload(upload)
        if KINDS[row["kind"]] not in caller.scopes:
            raise Problem(403, "the upload is of another scope", remedy="use the token that began it", kind="scope")
        return row

    def _offset(self, row: Row) -> int:
        try:
            return self._files.upload(row["tenant"], row["upload"]).stat().st_size
        except FileNotFoundError:
            return 0

    def look(self, caller: Caller, upload: str) -> Row:
        """Offset and size of an upload."""
        row = self._row(caller, upload)
        return self._shown(row)

    def _shown(self, row: Row) -> Row:
        return {
            "upload": row["upload"],
            "offset": self._offset(row),
            **{k: row[k] for k in ("bytes", "kind", "sha256")},
        }

    def listed(self, caller: Caller) -> Rows:
        """All unfinished uploads of a tenant."""
        return [self._shown(row) for row in self._state.uploads(caller.tenant)]

    async def receive(self, caller: Caller, upload: str, offset: int, pieces: AsyncIterator[bytes]) -> Row:
        """Write what arrives, from `offset` on. A broken connection leaves what arrived before."""
        with self._alone(upload, "another piece of this upload is arriving", "send one at a time"):
            row = await in_thread(self._row, caller, upload)
            have = self._offset(row)
            if offset != have:
                raise Problem(
                    409, f"the next piece begins at {have}, not at {offset}", remedy=f"send it with ?offset={have}",
                    rule="pieces follow each other without gap or overlap", kind="offset", more={"offset": have},
                )  # fmt: skip
            have = await self._received(row, have, pieces)
            await in_thread(self._state.touch_upload, caller.tenant, upload, self._state.clock() + self._kept.uploads_s)
            return {"upload": upload, "offset": have}

    @contextmanager
    def _alone(self, upload: str, detail: str, remedy: str) -> Iterator[None]:
        """Keep others from an upload. Raises: Problem: one is there."""
        if upload in self._busy:
            raise Problem(409, detail, remedy=remedy, kind="busy")
        self._busy.add(upload)
        try:
            yield
        finally:
            self._busy.discard(upload)

    async def _received(self, row: Row, have: int, pieces: AsyncIterator[bytes]) -> int:
        """Append what arrives, from the offset `have`; the new one. A piece is written while the next arrives."""
        buffer, writing = bytearray(), None
        try:
            async for piece in pieces:
                buffer += piece
                if have + len(buffer) > row["bytes"]:
                    raise Problem(
                        413, f"the upload has {row['bytes']} bytes, and more arrive", kind="upload-size",
                        remedy="send the stated bytes, or begin an upload of the right size", more={"offset": have},
                    )  # fmt: skip
                is_writing = writing is not None and not writing.done()
                if len(buffer) >= (_MOST_PIECE_BYTES if is_writing else _PIECE_BYTES):
                    if writing is not None:
                        await writing
                    writing = asyncio.ensure_future(in_thread(self._write, row, have, buffer))
                    have, buffer = have + len(buffer), bytearray()
            if writing is not None:
                await writing
            return await in_thread(self._write, row, have, buffer) if buffer else have
        finally:
            if writing is not None and not writing.done():  # nobody else writes before it has ended
                await asyncio.wait([writing])

    def _write(self, row: Row, have: int, content: bytearray) -> int:
        """Append to the file of an upload; returns the new offset."""
        digest = self._digest(row, have)
        self._digests.pop(row["upload"], None)  # until the content is written
        # Only the first piece makes the file: a later one would bring a removed upload's back.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | (0 if have else os.O_CREAT)
        try:
            descriptor = os.open(self._files.upload(row["tenant"], row["upload"]), flags, 0o600)
        except FileNotFoundError as error:
            raise _no_upload(row["upload"]) from error
        try:
            room = _room(descriptor)
            left = memoryview(content)[:room]
            while left:
                left = left[os.write(descriptor, left) :]
            if room < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if hasattr(os, "posix_fadvise"):
                # Linux begins to write these bytes to the disk now, not all at once at the commit.
                os.posix_fadvise(descriptor, have, len(content), os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
        digest.update(content)
        self._remember(row["upload"], digest, have + len(content))
        self._metrics.count("penstock_upload_bytes_total", len(content), kind=row["kind"])
        return have + len(content)

    def _remember(self, upload: str, digest: hashlib._Hash, offset: int) -> None:
        self._digests[upload] = (digest, offset)
        while len(self._digests) > _MOST_DIGESTS:
            with suppress(KeyError):
                self._digests.popitem(last=False)

    def _digest(self, row: Row, have: int) -> hashlib._Hash:
        """The digest of the first `have` bytes: as it went, or from the file."""
        known, offset = self._digests.get(row["upload"], (None, 0))
        if known is not None and offset == have:
            return known
        digest, left = hashlib.sha256(), have
        if have:
            with self._files.upload(row["tenant"], row["upload"]).open("rb") as file:
                while left and (piece := file.read(min(left, _PIECE_BYTES))):
                    digest.update(piece)
                    left -= len(piece)
        return digest

    def commit(self, caller: Caller, upload: str) -> Row:
        """Check the whole content, and take it: a blob, or keys of the tenant. Idempotent only through its content."""
        with self._alone(upload, "a piece of this upload is arriving", "commit it after the last piece"):
            row = self._row(caller, upload)
            have = self._offset(row)
            if have != row["bytes"]:
                raise Problem(
                    409, f"{have} of {row['bytes']} bytes are there", remedy=f"send the rest with ?offset={have}",
                    rule="an upload is committed when it is whole", kind="incomplete", more={"offset": have},
                )  # fmt: skip
            try:
                if self._digest(row, have).hexdigest() == row["sha256"]:
                    with self._files.using(caller.tenant, caller.era):
                        return self._taken(row)
            except FileNotFoundError as error:
                raise _no_upload(upload) from error
            self._drop(row)
            raise Problem(
                422, "the content has another SHA-256 than stated: it was damaged on its way",
                remedy="begin the upload again", kind="digest",
            )  # fmt: skip

    def _taken(self, row: Row) -> Row:
        tenant, path = row["tenant"], self._files.upload(row["tenant"], row["upload"])
        taken: Row = {"blob": row["sha256"], "kind": row["kind"], "bytes": row["bytes"]}
        if row["kind"] == "key":
            try:
                taken["keys"] = self._keys.take(
                    tenant, path, row, lambda more: self._state.check_fit(tenant, self._quota.fits(tenant, more))
                )
            except Problem as problem:
                if problem.status == 422:
                    self._drop(row)
                raise
            self._drop(row)
            return taken
        path.stat()  # gone: then it is no upload
        target = self._files.blob(tenant, row["sha256"])
        self._files.make(target)
        with self._files.turn(row["sha256"]):
            self._replace(row, path, target)
        self._digests.pop(row["upload"], None)
        path.unlink(missing_ok=True)
        return taken

    def _replace(self, row: Row, path: Path, target: Path) -> None:
        """Let a blob have the file of an upload, and then its row."""
        # Both names until the state says which counts: a killed server finds one of them. A blob of this content that
        # is there stays readable: another's name is put in its place.
        beside = _beside(path)
        beside.unlink(missing_ok=True)
        beside.hardlink_to(path)
        self._files.put(beside, target)
        beside.unlink(missing_ok=True)  # both were this file already, where a server was killed before
        # The job that is submitted with an input settles it.
        soon = row["kind"] == "input"
        if not soon:
            self._files.settle([target])
        blob = {k: row[k] for k in ("tenant", "sha256", "kind", "bytes")}
        blob["expires_s"] = self._end_of(row["kind"])
        self._state.end_upload(row["tenant"], row["upload"], blob, soon=soon)

    def _end_of(self, kind: str) -> float | None:
        return self._state.clock() + self._kept.inputs_s if kind == "input" else None

    def drop(self, caller: Caller, upload: str) -> None:
        """Give an upload up."""
        with self._alone(upload, "a piece of this upload is arriving", "delete it after that"):
            self._drop(self._row(caller, upload))

    def _drop(self, row: Row) -> None:
        self._state.end_upload(row["tenant"], row["upload"])
        self._digests.pop(row["upload"], None)
        path = self._files.upload(row["tenant"], row["upload"])
        for name in (path, _beside(path)):
            name.unlink(missing_ok=True)

    def expire(self, uploads: Rows, blobs: Rows) -> int:
        """Remove expired uploads, and inputs that no job waits for; how many."""
        gone = 0
        for row in uploads:
            if row["upload"] not in self._busy:
                self._drop(row)
                gone += 1
        for row in blobs:
            with self._files.turn(row["sha256"]):
                if self._state.end_use(row["tenant"], row["sha256"], "input"):
                    self._files.blob(row["tenant"], row["sha256"]).unlink(missing_ok=True)
                    gone += 1
        return gone
