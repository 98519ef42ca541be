"""Key stores in S3 whose server lies: what a client makes of it."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

from faults.frame import TEXT_BYTES, Result, forked, mutated
from penstock import _engine
from penstock.front.cli.main import main
from penstock.runtime.keystore import KeyCache, KeyStore, StorePlace
from support.openfhe_samples import sample

BUCKET = "bucket"
LIMBS = 3
TOKEN, SECRET = "session-token-9d3e71", "test-secret-2b8f"
SECONDS = 100.0
"""A server that is silent is given up after the client's own time for a request, and the retries of it."""
QUICK_S = 20.0
"""Any other lie is found within this."""
ENDLESS = 3 << 30
"""Bytes of a body without an end."""
Pieces = Iterator[bytes]


@dataclass
class Asked:
    """A request: its method, path within the bucket, query and headers."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]


@dataclass
class Told:
    """An honest answer, before anybody lies."""

    status: int
    headers: dict[str, str]
    body: bytes

    def head(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} X", *(f"{name}: {value}" for name, value in self.headers.items()), "", ""]
        return "\r\n".join(lines).encode("utf-8", "surrogateescape")


@dataclass
class Lie:
    """Which answer is a lie, and what it is."""

    name: str
    tell: Callable[[Store, Asked, Told, np.random.Generator], Pieces]
    at: str
    """`list`, `head` or `get`: of these answers one, or all."""


@dataclass
class Store:
    """Objects as a folder has them, a server of them in this process, and what it says."""

    folder: Path
    expected: dict[str, list[bytes]] = field(default_factory=dict)
    """Key -> its rows."""
    digest: str = ""
    lie: Lie | None = None
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    every: bool = True
    told: int = 0
    port: int = 0
    elsewhere: int = 0
    leaked: list[str] = field(default_factory=list)
    """Secrets that arrived where a redirection led."""
    process: int = 0

    def start(self) -> None:
        """Serve in this process. A fork starts its own."""
        if self.process == os.getpid():
            return
        self.process = os.getpid()
        for name, target in (("port", self._client), ("elsewhere", self._elsewhere)):
            listening = socket.create_server(("127.0.0.1", 0), backlog=64)
            setattr(self, name, listening.getsockname()[1])
            threading.Thread(target=_accept, args=(listening, target), daemon=True).start()

    def _elsewhere(self, connection: socket.socket) -> None:
        content = connection.recv(1 << 16).decode("latin-1")
        # The session's token comes along: without the secret key it signs nothing, and the store has it anyway.
        self.leaked += [name for name in (SECRET, "Credential=") if name in content]
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nETag: x\r\nConnection: close\r\n\r\nno")

    def _client(self, connection: socket.socket) -> None:
        got = b""
        while True:
            while b"\r\n\r\n" not in got:
                if not (part := connection.recv(1 << 16)):
                    return
                got += part
            head, _, got = got.partition(b"\r\n\r\n")
            asked = _asked(head.decode("latin-1"))
            told = self.honest(asked)
            kind = "list" if "list-type" in asked.query else asked.method.lower()
            lie = self.lie if self.lie and self.lie.at in (kind, "any") else None
            self.told += lie is not None
            if lie is None or not (self.every or self.told == 1):
                connection.sendall(told.head() + (b"" if asked.method == "HEAD" else told.body))
                continue
            for piece in lie.tell(self, asked, told, self.rng):
                connection.sendall(piece)
            return

    def honest(self, asked: Asked) -> Told:
        """What S3 says."""
        if "list-type" in asked.query:
            return _xml(_listing(self.folder, asked.query.get("prefix", "")))
        path = self.folder / asked.path
        if not path.is_file():
            return Told(404, {"Content-Length": "0"}, b"")
        body = path.read_bytes()
        headers = {"ETag": '"e"', "Last-Modified": "Mon, 05 Jan 2026 10:00:00 GMT", "Accept-Ranges": "bytes"}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", asked.headers.get("range", ""))
        if wanted is None:
            return Told(200, {**headers, "Content-Length": str(len(body))}, body)
        first, last = int(wanted[1]), min(int(wanted[2]), len(body) - 1)
        part = body[first : last + 1]
        span = {"Content-Range": f"bytes {first}-{last}/{len(body)}", "Content-Length": str(len(part))}
        return Told(206, {**headers, **span}, part)


def _accept(listening: socket.socket, client: Callable[[socket.socket], None]) -> None:
    def serve(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.settimeout(SECONDS)
            client(connection)

    while True:
        connection, _ = listening.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


def _asked(head: str) -> Asked:
    first, *lines = head.split("\r\n")
    method, target, _ = first.split(" ", 2)
    parts = urlsplit(target)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    path = unquote(parts.path).removeprefix(f"/{BUCKET}").strip("/")
    return Asked(method, path, {k: v[0] for k, v in parse_qs(parts.query, keep_blank_values=True).items()}, headers)


def _xml(text: str) -> Told:
    body = f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode("utf-8", "surrogateescape")
    return Told(200, {"Content-Type": "application/xml", "Content-Length": str(len(body))}, body)


def _entry(path: str, size: object) -> str:
    when = "2026-01-05T10:00:00.000Z"
    return (
        f'<Contents><Key>{path}</Key><LastModified>{when}</LastModified><ETag>"e"</ETag><Size>{size}</Size></Contents>'
    )


def _result(inside: str, *, more: str = "") -> str:
    after = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{more}</NextContinuationToken>" if more else ""
    return f"<ListBucketResult><Name>{BUCKET}</Name>{after}{inside}</ListBucketResult>"


def _folder(path: str) -> str:
    return f"<CommonPrefixes><Prefix>{path}</Prefix></CommonPrefixes>"


def _listing(folder: Path, prefix: str) -> str:
    inside, folders = "", set()
    for path in sorted(folder.rglob("*.pkey")):
        name = path.relative_to(folder).as_posix()
        if name.startswith(prefix):
            below, gap, _ = name[len(prefix) :].partition("/")
            if gap:
                folders.add(f"{prefix}{below}/")
            else:
                inside += _entry(name, path.stat().st_size)
    return _result(inside + "".join(map(_folder, sorted(folders))))


# Lies.
def _cut(store: Store, asked: Asked, told: Told, rng: np.random.Generator) -> Pieces:
    yield told.head() + told.body[: int(rng.integers(len(told.body) + 1))]


def _shorter(store: Store, asked: Asked, told: Told, rng: np.random.Generator) -> Pieces:
    told.body = told.body[: int(rng.integers(len(told.body) + 1))]
    told.headers["Content-Length"] = str(len(told.body))
    yield told.head() + told.body


def _longer(store: Store, asked: Asked, told: Told, rng: np.random.Generator) -> Pieces:
    told.body += bytes(rng.integers(0, 256, int(rng.integers(1, 100_000)), dtype=np.uint8))
    told.headers["Content-Length"] = str(len(told.body))
    yield told.head() + told.body


def _disturbed(store: Store, asked: Asked, told: Told, rng: np.random.Generator) -> Pieces:
    told.body, _ = mutated(told.body, rng)
    told.headers["Content-Length"] = str(len(told.body))
    yield told.head() + told.body


def _head_disturbed(store: Store, asked: Asked, told: Told, rng: np.random.Generator) -> Pieces:
    yield mutated(told.head(), rng)[0] + told.body


def _endless(store: Store, asked: Asked, told: Told, rng: np.random.Generator) -> Pieces:
    """Chunks without an end, behind an honest beginning."""
    told.headers.pop("Content-Length", None)
    told.headers["Transfer-Encoding"] = "chunked"
    body = told.body.removesuffix(b"</ListBucketResult>")
    yield told.head() + f"{len(body):x}\r\n".encode() + body + b"\r\n"
    block = b" " * (1 << 20)
    for _ in range(ENDLESS // len(block)):
        yield f"{len(block):x}\r\n".encode() + block + b"\r\n"


def _announced(store: Store, asked: Asked, told: Told, rng: np.random.Generator) -> Pieces:
    """Another length."""
    size = str(_one(rng, ["0", "1", "-1", "18446744073709551615", "18446744073709551616", "9223372036854775807",
    "x", "",
                          str(1 << 40), str(1 << 62)]))  # fmt: skip
    told.headers["Content-Length"] = size
    yield told.head() + told.body


def _endless_head(store: Store, asked: Asked, told: Told, rng: np.random.Generator) -> Pieces:
    yield b"HTTP/1.1 200 OK\r\n"
    for number in range(1 << 22):
        yield b"".join(b"X-%d: %s\r\n" % (number * 64 + n, b"x" * 200) for n in range(64))


def _range(store: Store, asked: Asked, told: Told, rng: np.random.Generator) -> Pieces:
    """Another range than was asked for, or none."""
    span = told.headers.get("Content-Range", "bytes 0-0/1")
    first, last, whole = map(int, re.findall(r"\d+", span))
    which = int(rng.integers(7))
    if which == 0:
        told.status = 200
    elif which == 1:
        told.headers.pop("Content-Range", None)
    elif which == 2:
        told.status, told.body = 200, (store.folder / asked.path).read_bytes()
        told.headers.pop("Content-Range", None)
    else:
        told.headers["Content-Range"] = [
            f"bytes {first + 1}-{last + 1}/{whole}", f"bytes {first}-{last}/{1 << 63}", f"bytes {last}-{first}/{whole}",
            f"bytes {first}-{last}/*",
        ][which - 3]  # fmt: skip
    if which > 4:
        told.body = told.body[::-1]
    told.headers["Content-Length"] = str(len(told.body))
    yield told.head() + told.body


def _status(store: Store, asked: Asked, told: Told, rng: np.random.Generator) -> Pieces:
    told.status = int(
        _one(rng, [100, 101, 204, 206, 304, 400, 401, 403, 404, 409, 412, 416, 418, 429, 500, 503, 999, 200])
    )
    if told.status >= 400:
        told.body = b"<Error><Code>%s</Code><Message>%s</Message></Error>" % (
            _one(
                rng,
                [
                    b"AccessDenied",
                    b"SlowDown",
                    b"NoSuchBucket",
                    b"x" * 5000,
                    b"\xff",
                    b"<Code>",
                    b"\x1b[2J\xe2\x80\xae",
                ],
            ),
            b"m" * int(_one(rng, [0, 10, 1_000_000])),
        )
        told.headers["Content-Length"] = str(len(told.body))
    yield told.head() + told.body


def _redirected(store: Store, asked: Asked, told: Told, rng: np.random.Generator) -> Pieces:
    places = [f"http://127.0.0.1:{store.elsewhere}/{BUCKET}/x", f"http://localhost:{store.elsewhere}/",
    "file:///etc/passwd",
              f"http://127.0.0.1:{store.port}/{BUCKET}/{asked.path}", "", "//", "gopher://x", "http://[::1",
              "/\0"]  # fmt: skip
    told = Told(
        int(_one(rng, [301, 302, 303, 307, 308])), {"Location": str(_one(rng, places)), "Content-Length": "0"}, b""
    )
    yield told.head()


def _listed(store: Store, asked: Asked, told: Told, rng: np.random.Generator) -> Pieces:
    """Listings of what is not there, in places that are none."""
    prefix = asked.query.get("prefix", "")
    where = f"alice/{store.digest}"
    listings: list[Callable[[], str]] = [
        lambda: _result(_entry(f"{where}/rot-5.pkey", _one(rng, [0, -1, 1, 2**63, 2**64, 10**30, "x", "", "nan"]))),
        lambda: _result(_entry(str(_one(rng, ODD_PATHS)).replace("DIGEST", store.digest), 8192)),
        lambda: _result("".join(_entry(f"{where}/rot-{n}.pkey", 8192) for n in range(1, 400, 2))),
        lambda: _result("".join(_folder(f"{prefix}{n}/") for n in range(300)) if prefix.count("/") < 1 else ""),
        lambda: _result("<Contents>" * 100_000),
        lambda: _result("x" * 1_000_000),
        lambda: "<!DOCTYPE x [<!ENTITY a 'aaaaaaaaaa'>" + "".join(
            f"<!ENTITY a{n} '{f'&a{n - 1 or str()};' * 10}'>" for n in range(1,
            12)) + "]>" + _result("<Contents>&a11;</Contents>"),
        lambda: "<!DOCTYPE x [<!ENTITY f SYSTEM 'file:///etc/passwd'>]>" + _result(_entry("&f;", 1)),
        lambda: "<html>captive portal</html>",
        lambda: "",
        lambda: "<ListBucketResult/>",
    ]  # fmt: skip
    told = _xml(_one(rng, listings)())
    yield told.head() + told.body


ODD_PATHS = (
    "../../../etc/passwd", "/etc/passwd", "alice/DIGEST/../../x.pkey", "alice/DIGEST/rot-5.pkey/",
    "alice//rot-5.pkey", "é" * 900,
    "alice/DIGEST/rot-99999999999999999999.pkey", "alice/DIGEST/rot--5.pkey", "alice/DIGEST/rot-4.pkey",
    "alice/DIGEST/%00.pkey",
    "ALICE/DIGEST/rot-5.pkey", "alice/" + "0" * 32 + "/rot-5.pkey", "bob/DIGEST/rot-5.pkey", "x" * 5000, "",
    "%2e%2e/x.pkey",
    "alice/DIGEST/relin.pkey", "alice/DIGEST/conj.pkey", "..", ".", "alice/DIGEST/rot-5.pkey%00",
    "alice/DIGEST/\u202e.pkey",
)  # fmt: skip


def _pages(store: Store, asked: Asked, told: Told, rng: np.random.Generator) -> Pieces:
    """Pages without an end."""
    number = store.told
    told = _xml(_result(_entry(f"alice/{store.digest}/rot-{2 * number + 1}.pkey", 8192), more=f"t{number}"))
    yield told.head() + told.body


def _deeper(store: Store, asked: Asked, told: Told, rng: np.random.Generator) -> Pieces:
    """A folder in each folder."""
    told = _xml(_result(_folder(f"{asked.query.get('prefix', '')}a/")))
    yield told.head() + told.body


def _silent(store: Store, asked: Asked, told: Told, rng: np.random.Generator) -> Pieces:
    yield told.head()[: int(rng.integers(3)) * 10]
    time.sleep(SECONDS)


def _one(rng: np.random.Generator, many: object) -> object:
    return many[int(rng.integers(len(many)))]  # type: ignore[arg-type,index]


LIES = [
    *(Lie(name, tell, at) for name, tell in (("cut", _cut), ("shorter", _shorter), ("longer", _longer),
    ("disturbed", _disturbed),
      ("head disturbed", _head_disturbed), ("endless", _endless), ("announced", _announced), ("status", _status))
      for at in ("get", "list")),
    *(Lie(name, tell, "head") for name, tell in (("announced", _announced), ("head disturbed", _head_disturbed),
    ("status", _status))),
    *(Lie("range", _range, "get") for _ in range(4)),
    *(Lie("listed", _listed, "list") for _ in range(4)),
    *(Lie("redirected", _redirected, at) for at in ("get", "list", "head")),
    Lie("endless head", _endless_head, "get"), Lie("pages", _pages, "list"), Lie("deeper", _deeper, "list"),
    Lie("silent", _silent, "any"),
]  # fmt: skip


# The client.
def missing() -> str:
    """Why there is no client; empty: there is one."""
    return "" if _engine.KeyStore.OBJECT_STORES else "a build without object stores"


def prepared(folder: Path) -> Store:
    """A store with two keys, and their rows."""
    folder.mkdir()
    local = KeyStore(folder / "keys")
    local.import_openfhe("alice", sample("context-rotations"), num_q=LIMBS)
    store = Store(folder / "keys")
    for each in local.list_keys():
        store.digest = each.name.digest
        store.expected[each.name.key] = _rows(local, each.name.key, store.digest)
    return store


def _rows(store: KeyStore, key: str, digest: str) -> list[bytes]:
    """Every row of a key at all limbs."""
    cache = KeyCache(store, 1 << 20, prefetch_uses=0)
    with cache.session("alice", digest).get(key, LIMBS) as got:
        shape = next(each for each in store.list_keys() if each.name.key == key)
        limbs = len(shape.moduli_q + shape.moduli_p)
        return [np.asarray(row).tobytes() for index in np.ndindex(2, shape.dnum, limbs)
                if (row := got.row(*index)) is not None]  # fmt: skip


def _read_all(store: Store) -> int:
    """Read the keys. 0: they are what they were; 3: they are others, and nobody noticed."""
    from penstock.errors import PenstockError

    try:
        place = StorePlace.named(f"s3://{BUCKET}")
        remote = KeyStore(place.folder, objects=place.objects)
        for key, rows in store.expected.items():
            if _rows(remote, key, store.digest) != rows:
                return 3
    except PenstockError as error:
        os.write(2, f"error: {error}\n".encode())
        return 1
    return 0


def client(store: Store, use: str, folder: Path) -> int:
    """In a fork: the settings, and one use of the store."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(
        AWS_ENDPOINT_URL=f"http://127.0.0.1:{store.port}",
        AWS_ALLOW_HTTP="true",
        AWS_ACCESS_KEY_ID="test",
        AWS_SECRET_ACCESS_KEY=SECRET,
        AWS_SESSION_TOKEN=TOKEN,
        AWS_REGION="us-east-1",
        XDG_CACHE_HOME=str(folder / "cache"),
    )
    return _read_all(store) if use == "read" else main(["keys", use, "--store", f"s3://{BUCKET}", "--format", "json"])


def case(store: Store, seed: int, rng: np.random.Generator) -> Result:
    """One use of the store while its server lies."""
    lie = LIES[int(rng.integers(len(LIES)))]
    if lie.name == "silent" and rng.random() < 0.8:  # it takes long
        lie = LIES[0]
    return lied(store, seed, lie, str(_one(rng, ["read", "verify", "ls"])), rng)


def lied(store: Store, seed: int, lie: Lie, use: str, rng: np.random.Generator) -> Result:
    """A use of the store: `read`, or a verb of `penstock keys`."""
    store.start()
    store.lie, store.rng, store.told, store.every = lie, rng, 0, bool(rng.random() < 0.7)
    folder = store.folder.parent / f"case-{seed}"
    folder.mkdir()
    seconds = SECONDS if lie.name == "silent" else QUICK_S
    ended = forked(lambda: client(store, use, folder), folder, seconds=seconds)
    faults = [each for each in ended.faults if not each.startswith("took")]
    if ended.seconds > seconds:
        faults.append(f"took {ended.seconds:.1f} s, over {seconds:g} s")
    if ended.code == 3 and use == "read":
        faults.append("rows that are not the key's were taken for it")
    if len(ended.errors) >= TEXT_BYTES // 16:
        faults.append(f"{len(ended.errors)} bytes of messages")
    if store.leaked:
        faults.append(f"went elsewhere: {sorted(set(store.leaked))}")
        store.leaked.clear()
    faults += [f"printed {name}" for name in (TOKEN, SECRET) if name in ended.output + ended.errors]
    if use != "read" and re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", ended.errors):
        faults.append("printed what steers a terminal")
    kind, told = f"object store: {lie.name}", "right" if ended.code == 0 else f"exit {ended.code}"
    notes = f"{use}, the lie is in {lie.at}: {ended.errors[:400]!r}"
    return Result("requests", kind, seed, told, tuple(faults), ended.seconds, ended.peak_bytes, notes=notes)
