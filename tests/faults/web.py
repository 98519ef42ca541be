"""Hostile requests to a running explorer, and what is wrong with its answers."""

from __future__ import annotations

import json
import re
import socket
import struct
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import numpy as np

from faults.frame import GRACE, MOST_SECONDS, Result, mutated
from faults.served import Server

HONEST_S = 10.0
"""An honest request is answered within this, however many hostile ones are under way."""
ANSWER_BYTES = 8 << 20
ERROR_BYTES = 2048
"""Of a refusal, whatever was asked."""

# Programs that are traced within seconds. Of the others the first trace takes longer than any question about it.
WORKLOADS = ("inner-product", "logistic-function", "pir", "chi-square", "filter-aggregate", "string-match", "cnn")
LARGER = ("bootstrapping", "sign-evaluation", "ssc", "resnet20", "logistic-regression", "hdc-classify")
EXTREMES = (
    "", " ", "0", "-1", "1", "2", "128", "129", "65536", "65537", "1e308", "1e999", "-0.0", "0.5", "1.0000001", "nan",
    "inf", "-inf", "9" * 199, "9" * 200, "9" * 4301, "18446744073709551616", "9007199254740992", "9007199254740993",
    "1_000", "٣", "½", "1e-320", "0x10", "true", "null", "none", "../outside", "..", ".", "/", "/etc/passwd", "outside",
    "run:", "run:../outside", "run:link", "run:half", "run:/etc/passwd", "file:", "file:/etc/passwd", "file:../x",
    "link", "half", "\0", "a\0b", "a\nb", "\r\nX-Evil: 1\r\n", "é" * 90, "\U0001d538", "\u202e", "\ufeff", "a" * 200,
    "a" * 201, "A" * 8000, "1" * 1_000_000, "${HOME}", "$(id)", "`id`", "<script>alert(1)</script>", "';--", "{}", "[]",
    "%s%n", "{0.__class__}", "1 GB", "nan GB", "1e308 GB", "1e307 TB", "-5 GB", "0 GB", "1 B", "1e-300 GB/s",
    "1e300 TB/s", "0 GB/s", "inf GB/s", "5 GB/s", "1e400 GB/s", "9" * 180 + " GB", "perfect", "next-0", "next--1",
    "next-1", "next-64", "next-99999999999999999999", "keys,keys", "keys,ciphertexts,plaintexts", "all", ",,,",
)  # fmt: skip
EDGES = {
    "hit_ratio": ("0", "1", "0.5", "0.9999999999999999", "5e-324", "-0.0"),
    "hosts": ("1", "2", "3", "127", "128"),
    "queue_depth": ("1", "7", "65535", "65536"),
    "first": ("0", "1", "5", "9007199254740992"),
    "last": ("0", "1", "2", "999999", "9007199254740992"),
    "cache": ("on-chip", "1 B", "1 MB", "512 MB", "1e300 GB", "0.5 GB", "0 B", "1 TiB"),
    "buffer": ("1 B", "1 GB", "1e300 GB"),
    "prefetch": ("perfect", "next-1", "next-2", "next-64"),
    "network": ("1e-300 GB/s", "1e300 TB/s", "400 Gb/s"),
    "tier": ("1e-300 GB/s", "1e300 TB/s", "3.5 GB/s", "1 B/s"),
    "classes": ("keys,ciphertexts", "ciphertexts", "keys,keys"),
}
"""Setting -> values that it takes and nobody means."""
METHODS = ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "HEAD", "PROPFIND", "get", "G\0T", "X" * 99)

FOREIGN = (
    "evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "127.0.0.1:1", "", "localhost.", "0.0.0.0:{port}",
    "127.1:{port}", "[::1", "127.0.0.1:{port}@evil.example", "127.0.0.1:{port}\tx", "é.example",
    "user@127.0.0.1:{port}",
    "127.0.0.1:{port},evil.example", "2130706433:{port}", "LOCALHOST.evil:{port}", "127.0.0.1:0{port}", "x" * 60_000,
)  # fmt: skip
PATHS = (
    "/static/../app.py", "/static/..%2Fapp.py", "/static/%2e%2e/app.py", "/static/..%5capp.py", "/static/%00",
    "/static/main.js%00.html", "/static//etc/passwd", "/static/", "/static", "//evil.example/", "/report/../outside",
    "/report/..%2Foutside", "/report/%2e%2e%2foutside", "/report/link", "/report/half", "/report/%2Fetc", "/report/",
    "/report/..", "/report/.", "/report/%FF%FE", "/report/huge", "/api/view/", "/api/view/..%2f..%2fetc%2fpasswd",
    "/api/view/../../etc/passwd", "/api/view/whatif/", "/api/view/whatif%00", "/api/view/__class__", "/api/catalogue/x",
    "/api/catalogue?x", "/docs", "/redoc", "/openapi.json", "/favicon.ico", "/.git/config", "/proc/self/environ", "*",
    "http://evil.example/api/catalogue", "http://127.0.0.1/api/catalogue", "/" + "a/" * 3000, "/" + "%2e%2e%2f" * 900,
    "/%c0%ae%c0%ae/", "/api/view/%F0%9D%94%B8", "/?" + "a=1&" * 3000, "/api/view/whatif?" + "&" * 8000, "",
    "/api/view/whatif?" + "x" * 8193, "/api/view/whatif?" + "=" * 99, "/api/view/whatif#x", "\\..\\..", "/\x7f", "/é",
)  # fmt: skip
HEADERS = (
    "X: " + "a" * 70_000, "X: " + "a" * 8000, "Cookie: " + "a=b; " * 1000, "Content-Length: 5", "Content-Length: -1",
    "Content-Length: 99999999999999999999", "Content-Length: 1, 2", "Content-Length: 5\r\nContent-Length: 6",
    "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: x", "Expect: 100-continue",
    "Transfer-Encoding: chunked\r\nContent-Length: 3", "Connection: upgrade\r\nUpgrade: websocket", "Range: bytes=0-",
    "Range: bytes=5-1", "Range: bytes=" + "0-1," * 500, "Range: bytes=-99999999999999999999", "Range: lines=1-2",
    "Range: bytes=0-0,2-3", "If-Range: x\r\nRange: bytes=0-5", "If-None-Match: *", "If-Modified-Since: nan",
    "X-Forwarded-Host: evil.example", "Forwarded: host=evil.example", "Origin: null", "Origin: http://evil.example",
    "Referer: \xff\xfe", "Accept: */*;q=nan", "Accept-Encoding: gzip, br, x", "X: a\r\n b", "X : a", ": x", "X",
    "\0: x",
    "Connection: keep-alive, close, x", "Keep-Alive: timeout=99999999", "Content-Type: multipart/form-data; boundary=" +
    "b" * 5000, *("\r\n".join(f"X-{n}: {n}" for n in range(many)) for many in (100, 4000)),
)  # fmt: skip
PROTOCOLS = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), b"\0" * 5000,
    b"\r\n" * 5000, b"GET /\r\n\r\n", b"GET / HTTP/0.9\r\n\r\n", b"GET / HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n",
    b"\x05\x01\0",
    b"GET / HTTP/1.0\r\n\r\n", b"SSH-2.0-x\r\n", b"A" * 70_000, b"A" * 1_000_000, b"GET " + b"/" * 70_000,
    b"\xff" * 3000,
    b"GET / HTTP/1.1\nHost: 127.0.0.1\n\n", b"PSNK\1\0\1\0" + bytes(100), b"*1\r\n$4\r\nPING\r\n", b"EHLO x\r\n",
    b" \r\n\r\n",
)  # fmt: skip


@dataclass
class Site:
    """An explorer that runs: where, what an address may name there, and what honest requests are answered."""

    server: Server
    port: int
    names: dict[str, list[str]]
    """Setting -> its values, as the catalogue has them."""
    views: list[str]
    hidden: tuple[bytes, ...]
    """Bytes of files that lie outside of the runs' folder, and of the server's environment."""
    honest: dict[str, bytes] = field(default_factory=dict)
    """Address -> answer, before anything hostile was asked."""

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"


@dataclass
class Asked:
    """What is sent, in pieces, and what an answer to it may be."""

    kind: str
    content: bytes
    foreign: bool = False
    """It names another host or comes from another site: it is refused."""
    whole: bool = True
    """It is a request, so that an answer is waited for."""
    headless: bool = False
    """The answers to it have no bodies."""
    leave: str = ""
    """`close` or `reset`: hang up without reading."""
    answers: int = 1


@dataclass
class Answer:
    """One answer."""

    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool


# Drawing.
def draw(rng: np.random.Generator, site: Site) -> Asked:
    """A hostile request."""
    kinds = [_view, _path, _head, _host, _mutated, _pipelined, _half, _protocol]
    chosen = kinds[int(rng.choice(len(kinds), p=[0.5, 0.1, 0.1, 0.07, 0.1, 0.04, 0.05, 0.04]))]
    return chosen(rng, site)


def _one(rng: np.random.Generator, many: Sequence[Any]) -> Any:
    return many[int(rng.integers(len(many)))]


def request(target: str, site: Site, *more: str, method: str = "GET", host: str | None = None) -> bytes:
    """The bytes of a request. A host of `None` is the site's own."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {site.host if host is None else host}", *more, "", ""]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape")


def _value(rng: np.random.Generator, site: Site, name: str) -> str:
    """A value of a setting: one that it knows, an extreme one, or a known one that is disturbed."""
    known = site.names.get(name) or ["1"]
    which = rng.random()
    if name == "workload" and which < 0.95:
        return str(_one(rng, WORKLOADS if rng.random() < 0.9 else LARGER))
    if which < 0.4 or (which < 0.8 and name not in EDGES):
        return str(_one(rng, known))
    if which < 0.8:
        return str(_one(rng, EDGES[name]))
    if which < 0.95:
        return str(_one(rng, EXTREMES))
    changed, _ = mutated(str(_one(rng, known)).encode(), rng)
    text = changed[:3000].decode("utf-8", "surrogateescape")
    return "inner-product" if name == "workload" and text in site.names["workload"] else text


def _escaped(rng: np.random.Generator, text: str) -> str:
    which = rng.random()
    if which < 0.7:
        return quote(text, safe="", errors="surrogateescape")
    if which < 0.8:
        return quote(quote(text, safe="", errors="surrogateescape"), safe="")
    if which < 0.9:
        return "".join(f"%{byte:02x}" for byte in text.encode("utf-8", "surrogateescape")[:2700])
    return re.sub(r"[\x00-\x20#&\x7f]", "+", text)


def _query(rng: np.random.Generator, site: Site) -> str:
    names = [str(_one(rng, list(site.names))) for _ in range(int(rng.integers(0, 6)))]
    if rng.random() < 0.9:
        names = list(dict.fromkeys(names))
    if "workload" not in names:
        names.insert(0, "workload")
    pairs = [f"{name}={_escaped(rng, _value(rng, site, name))}" for name in names]
    if rng.random() < 0.25:
        pairs.append(f"format={_one(rng, ['csv', 'json', 'xml', '', 'csv%00', '../x'])}")
    if rng.random() < 0.05:
        pairs.append(f"{_one(rng, ['__class__', 'self', 'workload[]', 'é', '', 'x' * 5000])}=1")
    return "&".join(pairs)


def _view(rng: np.random.Generator, site: Site) -> Asked:
    target = f"/api/view/{_one(rng, site.views)}?{_query(rng, site)}"
    return Asked("view", request(target, site, "Connection: close"))


def _path(rng: np.random.Generator, site: Site) -> Asked:
    path = str(_one(rng, PATHS))
    if rng.random() < 0.3:
        path = f"{_one(rng, ['/static/', '/report/', '/api/view/', '/'])}{_escaped(rng, str(_one(rng, EXTREMES)))}"
    return Asked("path", request(path, site, "Connection: close"))


def _target(rng: np.random.Generator, site: Site) -> str:
    return str(_one(rng, ["/", "/static/main.js", "/static/icon.svg", *site.honest]))


def _head(rng: np.random.Generator, site: Site) -> Asked:
    """Methods, headers and bodies."""
    method = str(_one(rng, METHODS)) if rng.random() < 0.4 else "GET"
    more = [str(_one(rng, HEADERS)) for _ in range(int(rng.integers(0, 4)))]
    content = request(_target(rng, site), site, *more, method=method)
    if "chunked" in str(more) or rng.random() < 0.2:
        content += _one(
            rng,
            [b"5\r\nhello\r\n0\r\n\r\n", b"ffffffffffffffff\r\nx", b"-1\r\n", b"5;" + b"x" * 70_000, b"zz\r\n",
            b"0\r\n\r\n",
             b"5\r\nhello\r\n0\r\nX: " + b"a" * 70_000, b"1\r\na\r\n" * 5000, b"a" * 300_000,
             b"0\r\n\r\nGET / HTTP/1.1\r\n"],
        )  # fmt: skip
    return Asked("head", content, headless=method == "HEAD", whole=False)


def _host(rng: np.random.Generator, site: Site) -> Asked:
    """Requests that a page of another site can bring a browser to send."""
    path = _target(rng, site)
    which = rng.random()
    if which < 0.6:
        host = str(_one(rng, FOREIGN)).format(port=site.port)
        return Asked("foreign host", request(path, site, "Connection: close", host=host), foreign=True)
    if which < 0.7:
        second = f"Host: {_one(rng, ['evil.example', site.host])}"
        return Asked("foreign host", request(path, site, second, "Connection: close"), foreign=True)
    came = str(_one(rng, ["cross-site", "same-site", "x", "CROSS-SITE"]))
    more = [f"Sec-Fetch-Site: {came}", "Origin: http://evil.example", "Connection: close"]
    more += ["Sec-Fetch-Mode: navigate"] if rng.random() < 0.3 else []
    address = path if path.startswith("/api/") else "/api/catalogue"
    return Asked("foreign site", request(address, site, *more), foreign=True)


def _mutated(rng: np.random.Generator, site: Site) -> Asked:
    content = request(_target(rng, site), site, "Accept: */*", "Accept-Encoding: identity", "User-Agent: honest")
    for _ in range(int(rng.integers(1, 4))):
        content, _ = mutated(content, rng)
    return Asked("mutated", content, whole=False)


def _pipelined(rng: np.random.Generator, site: Site) -> Asked:
    """Several in one go, some of them no requests."""
    count = int(rng.integers(2, 40))
    parts = [request(_target(rng, site), site) for _ in range(count)]
    for _ in range(int(rng.integers(0, 3))):
        odd = draw_plain(rng, site)
        # An answer without a body would be taken for the beginning of one.
        parts[int(rng.integers(count))] = b"" if odd.headless else odd.content
    return Asked("pipelined", b"".join(parts), whole=False, answers=count)


def draw_plain(rng: np.random.Generator, site: Site) -> Asked:
    """A hostile request of those that are one."""
    return _one(rng, [_view, _path, _head])(rng, site)


def _half(rng: np.random.Generator, site: Site) -> Asked:
    """The other side goes away in the middle, or before it has read the answer."""
    content = request(_target(rng, site), site) if rng.random() < 0.5 else draw_plain(rng, site).content
    if rng.random() < 0.7:
        content = content[: int(rng.integers(len(content) + 1))]
    return Asked("half", content, whole=False, leave=str(_one(rng, ["close", "reset"])))


def _protocol(rng: np.random.Generator, site: Site) -> Asked:
    if rng.random() < 0.6:
        return Asked("other protocol", _one(rng, PROTOCOLS), whole=False)
    more = ["Connection: Upgrade", f"Upgrade: {_one(rng, ['websocket', 'h2c', 'TLS/1.0', 'x' * 9000])}"]
    more += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13", "HTTP2-Settings: AAMAAABk"]
    frames = bytes(rng.integers(0, 256, 200, dtype=np.uint8)) if rng.random() < 0.5 else b""
    return Asked("upgrade", request(_target(rng, site), site, *more) + frames, whole=False)


# Asking.
def exchange(port: int, asked: Asked) -> tuple[bytes, float]:
    """What comes back, and seconds until the last of it."""
    began = time.monotonic()
    with socket.socket() as connection:
        connection.settimeout(MOST_SECONDS * GRACE)
        got = b""
        with suppress(ConnectionError, BrokenPipeError):
            connection.connect(("127.0.0.1", port))
            connection.sendall(asked.content)
            if asked.leave == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if not asked.leave:
                got = _read(connection, asked)
    return got, time.monotonic() - began


def at_once(port: int, many: Sequence[Asked]) -> list[tuple[bytes, float]]:
    """The same of many, all at the same time."""
    with ThreadPoolExecutor(len(many)) as pool:
        return list(pool.map(lambda each: exchange(port, each), many))


def _read(connection: socket.socket, asked: Asked) -> bytes:
    """Until so many answers are there, or the connection ends. Of what is no request no answer is waited for long."""
    got = bytearray()
    patience = 1.0 if b"\r\n\r\n" in asked.content else 0.1
    connection.settimeout(MOST_SECONDS * GRACE if asked.whole else patience)
    with suppress(ConnectionError, TimeoutError):
        while len(got) < 2 * ANSWER_BYTES and (part := connection.recv(1 << 18)):
            got += part
            found = parse(bytes(got), headless=asked.headless) if asked.answers == 1 or len(part) < 4096 else []
            if len(found) >= asked.answers and found[-1].whole:
                break
            if not asked.whole and found:
                connection.settimeout(0.3)
    return bytes(got)


def parse(content: bytes, *, headless: bool = False) -> list[Answer]:
    """The answers in these bytes; the last may be cut. What is no answer has status 0."""
    found = []
    while content:
        head, gap, rest = content.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        match = re.fullmatch(r"HTTP/1\.1 (\d{3}) ?.*", lines[0])
        if not match:
            found.append(Answer(0, {}, content, whole=True))
            break
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
        }
        status = int(match[1])
        # Of a request that is none nobody knows that it wants no body.
        if (headless and status != 400) or status in (100, 204, 304):
            size, whole = 0, bool(gap)
        elif headers.get("transfer-encoding") == "chunked":
            body, size = _unchunked(rest)
            found.append(Answer(status, headers, body, whole=size >= 0))
            content = rest[size:] if size >= 0 else b""
            continue
        else:
            # Without a length an answer ends with the connection.
            size = int(headers.get("content-length", len(rest)))
            whole = bool(gap) and len(rest) >= size
        found.append(Answer(status, headers, rest[:size], whole))
        content = rest[size:]
    return found


def _unchunked(content: bytes) -> tuple[bytes, int]:
    """The body, and the bytes that it took; -1: its end is not there."""
    body, at = b"", 0
    while (end := content.find(b"\r\n", at)) >= 0:
        size = int(content[at:end], 16)
        body += content[end + 2 : end + 2 + size]
        at = end + 4 + size
        if size == 0:
            return body, at
    return body, -1


def wrong(site: Site, asked: Asked, got: bytes, seconds: float) -> tuple[list[Answer], list[str]]:
    """The answers, and what is wrong with them."""
    answers, found = parse(got, headless=asked.headless), []
    if asked.whole and not answers:
        found.append("no answer")
    if seconds > MOST_SECONDS:
        found.append(f"took {seconds:.1f} s, over {MOST_SECONDS:g} s")
    if len(got) > ANSWER_BYTES:
        found.append(f"an answer of {len(got)} bytes")
    found += [f"an answer holds {each!r}" for each in site.hidden if each in got]
    for answer in answers:
        found += _wrong_answer(asked, answer)
    return answers, found


def _wrong_answer(asked: Asked, answer: Answer) -> list[str]:
    found, status, body = [], answer.status, answer.body
    if status == 0:
        return [f"bytes that are no answer: {body[:100]!r}"]
    # 501: a part is not installed; 503: too much is asked at the same time.
    if status >= 500 and status not in (501, 503):
        found.append(f"status {status}: {body[:300]!r}")
    if asked.foreign and not 400 <= status < 500:
        found.append(f"a foreign request was answered with {status}")
    if status >= 400 and len(body) > ERROR_BYTES:
        found.append(f"a refusal of {len(body)} bytes")
    kind = answer.headers.get("content-type", "")
    if kind == "application/json" and answer.whole and body:
        try:
            said = json.loads(body, parse_constant=lambda text: found.append(f"{text} in JSON"))
        except ValueError as error:
            found.append(f"no JSON: {error}")
        else:
            if isinstance(said, dict) and len(str(said.get("error", ""))) > ERROR_BYTES:
                found.append(f"an error of {len(said['error'])} characters")
    from_app = "content-security-policy" in answer.headers or status in (100, 400)
    if not from_app or "access-control-allow-origin" in answer.headers:
        found.append(f"status {status} without the guard's headers")
    if not re.match(r"(http://(127\.0\.0\.1|localhost|\[::1\])[:/]|/[^/]|$)", answer.headers.get("location", "")):
        found.append(f"sent elsewhere: {answer.headers['location'][:200]}")
    if any(name.startswith("x-evil") for name in answer.headers):
        found.append("a header of the request's making")
    return found


def _ended(answer: Answer) -> str:
    """The status, and whether a view refused what was asked."""
    refused = answer.status == 200 and answer.body.startswith(b'{"error"')
    return f"{answer.status} refused" if refused else str(answer.status)


def honest(site: Site, rng: np.random.Generator) -> list[str]:
    """Ask what was asked before anything hostile: the answer is the same, and comes within seconds."""
    address = str(_one(rng, list(site.honest)))
    began = time.monotonic()
    while (took := time.monotonic() - began) < HONEST_S:
        got, _ = exchange(site.port, Asked("honest", request(address, site, "Connection: close")))
        answers = parse(got)
        if answers and answers[0].whole and answers[0].status == 200:
            same = answers[0].body == site.honest[address]
            return [] if same else [f"an honest request was answered otherwise: {address}: {answers[0].body[:200]!r}"]
        # Too many connections, or too many answers at the same time.
        time.sleep(0.05)
    return [f"an honest request had no answer within {took:.0f} s: {address}"]


def case(site: Site, seed: int, rng: np.random.Generator) -> Result:
    """One hostile request, or some at once; after each fifty an honest one."""
    began, printed = time.monotonic(), site.server.said_bytes()
    if not site.server.alive():
        return Result("requests", "explorer", seed, "no server", cases=0)
    crowd = rng.random() < 0.005
    if crowd:
        many = [draw_plain(rng, site) if rng.random() < 0.5 else _half(rng, site) for _ in range(40)]
        for each in many:
            each.answers = 1
        found = at_once(site.port, many)
    else:
        many = [draw(rng, site)]
        found = [exchange(site.port, many[0])]
    took, faults, ended = time.monotonic() - began, [], "nothing"
    for asked, (got, seconds) in zip(many, found, strict=True):
        if crowd:
            asked.whole = False  # one of too many connections is closed without an answer
        answers, said = wrong(site, asked, got, seconds)
        faults += said
        ended = _ended(answers[0]) if answers else "left" if asked.leave else "closed"
    faults += site.server.cries(printed)
    if not site.server.alive():
        faults.append("the server ended")
    elif seed % 50 == 0:
        faults += honest(site, rng)
    kind = f"explorer: {'crowd' if crowd else many[0].kind}"
    notes = " ".join(repr(each.content[:300]) for each in many[:2])
    return Result("requests", kind, seed, "many" if crowd else ended, tuple(faults), took, cases=len(many), notes=notes)
