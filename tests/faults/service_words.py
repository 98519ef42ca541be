"""Requests to the service that nobody means: drawn near the ones that its OpenAPI description tells of."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from faults.web import HEADERS, PROTOCOLS

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 1.5, 10, 1 << 31, 1 << 50, (1 << 50) + 1, 1 << 63, 10**30, -(10**400), 1e308, -0.0,
    float("inf"), float("nan"), "", " ", "a", "0" * 64, "f" * 64, "F" * 64, "../x", "a\0b", "\ud800", "é" * 300,
    "\U0001d538", "\u202e", "x" * 5000, "'; drop table jobs; --", "${HOME}", "{0}", [], {}, [[]], [1] * 50, {"": ""},
    {"a": {"b": {"c": []}}}, ["key"], "key", "input", "package", "ciphertext", "relin", "rot:5", "rot:-1", "small",
    "2026-01-01", "1e5", "NaN", "null", b"\xff\xfe".decode("latin-1"),
)  # fmt: skip
NAMES = (
    "turns", "x", "y", "j", "a.b", "..", ".", "-", "%00", "%2e%2e", "%ff%fe", "a" * 100, "a" * 101, "a" * 3000,
    "0" * 32, "f" * 32, "0" * 16, "%F0%9D%94%B8", "a%2fb", "%0d%0aX:1", "'", "null", "{}", "1", "reference-0",
    "alice", "default",
)  # fmt: skip
QUERIES = (
    "", "?", "?offset=0", "?offset=-1", "?offset=1125899906842625", "?offset=1e3", "?offset=", "?offset=0&offset=1",
    "?wait=0", "?wait=-1", "?wait=nan", "?wait=inf", "?wait=0.01", "?wait=61", "?wait=x", "?after=-1", "?after=0",
    "?after=99999999999999999999", "?" + "a=1&" * 900, "?" + "x" * 4097, "?%ff=%fe", "?token=x", "?__proto__=1",
)  # fmt: skip
TYPES = (
    "application/json", "application/json; charset=utf-16", "text/plain", "application/x-www-form-urlencoded", "",
    "multipart/form-data; boundary=x", "application/json" * 50, "application/problem+json", "\xff", "image/png",
)  # fmt: skip
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT", "get", "PROPFIND", "X" * 30)
HEX = "0123456789abcdef"


@dataclass
class Known:
    """What requests are drawn from: the routes, tokens, and names of the service at hand."""

    routes: list[tuple[str, str]]
    """Method and path, of the tenants' listener."""
    admin_routes: list[tuple[str, str]]
    tokens: list[str]
    """Of the hostile tenant: with all scopes first, and with one."""
    others: list[str]
    """Wrong, expired, ended."""
    operator: str
    forms: dict[str, dict[str, Any]]
    uploads: list[str] = field(default_factory=list)
    """Of the hostile tenant, unfinished: the latest."""


@dataclass
class Drawn:
    """Bytes to send, and what may come back."""

    kind: str
    content: bytes
    admin: bool = False
    answers: int = 1
    """Whole requests in it; 0: it is none, and any answer or none will do."""
    headless: bool = False
    """The answer has no body."""
    large: bool = False
    """The server may close the connection before it has read all of it."""


def draw(known: Known, seed: int) -> Drawn:
    """The request of a seed."""
    rng = random.Random(seed)
    chosen = rng.choices(KINDS, WEIGHTS)[0]
    return chosen(rng, known)


def token(rng: random.Random, known: Known) -> str:
    """The header with a token, most often a valid one."""
    which = rng.random()
    if which < 0.8:
        return f"Authorization: Bearer {known.tokens[0] if which < 0.7 else rng.choice(known.tokens)}"
    return rng.choice([
        f"Authorization: Bearer {rng.choice(known.others)}", f"Authorization: Bearer {known.operator}",
        f"Authorization: Basic {known.tokens[0]}", "Authorization: Bearer ", "Authorization:", "X: y",
        f"Authorization: Bearer {known.tokens[0]}\r\nAuthorization: Bearer {known.others[0]}",
        f"authorization: bearer   {known.tokens[0]}", "Authorization: Bearer pst_" + "0" * 16 + "_" + "0" * 64,
        "Authorization: Bearer " + "x" * 5000, "Authorization: Bearer \xff\xfe",
    ])  # fmt: skip


def request(method: str, target: str, *lines: str, body: bytes = b"") -> bytes:
    """The bytes of a request with its length."""
    more = [f"Content-Length: {len(body)}"] if body or method in ("POST", "PUT", "PATCH") else []
    head = "\r\n".join([f"{method} {target} HTTP/1.1", "Host: localhost", *lines, *more, "", ""])
    return head.encode("latin-1", "replace") + body


def filled(rng: random.Random, known: Known, path: str) -> str:
    """A path with names in the places of its parameters."""
    parts = []
    for part in path.split("/"):
        if not part.startswith("{"):
            parts.append(part)
        elif "upload" in part and known.uploads and rng.random() < 0.6:
            parts.append(rng.choice(known.uploads))
        elif rng.random() < 0.2:
            parts.append("".join(rng.choice(HEX) for _ in range(rng.choice([16, 32, 64]))))
        elif rng.random() < 0.1:
            parts.append(quote("".join(chr(rng.randrange(0x3000)) for _ in range(rng.randrange(40)))))
        else:
            parts.append(rng.choice(NAMES))
    return "/".join(parts)


def form(rng: random.Random, known: Known, path: str) -> bytes:
    """A body near a right one."""
    which = rng.random()
    if which < 0.05:
        return rng.randbytes(rng.randrange(300))
    if which < 0.09:
        depth = rng.choice([10, 990, 5000, 30_000])
        return rng.choice([b"[" * depth, b'{"a":' * depth, b"[" * depth + b"]" * depth])
    if which < 0.11:
        return b'{"bytes": ' + b"9" * rng.choice([20, 400, 4301, 60_000]) + b"}"
    found: dict[str, Any] = dict(known.forms.get(path) or rng.choice(list(known.forms.values())))
    for name in rng.sample(sorted(found), rng.randrange(min(3, len(found)) + 1)):
        if rng.random() < 0.25:
            del found[name]
        elif isinstance(found[name], dict) and rng.random() < 0.5:
            found[name] = {str(rng.choice(VALUES))[:300]: rng.choice(VALUES)}
        elif name == "sha256" and rng.random() < 0.6:
            found[name] = "".join(rng.choice(HEX) for _ in range(64))
        else:
            found[name] = rng.choice(VALUES)
    if rng.random() < 0.1:
        found[str(rng.choice(VALUES))[:300]] = rng.choice(VALUES)
    text = json.dumps(found, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    if rng.random() < 0.05:
        text = text[: rng.randrange(len(text))]
    return text


def _form(rng: random.Random, known: Known) -> Drawn:
    method, path = rng.choice(known.routes)
    if rng.random() < 0.1:
        method = rng.choice(METHODS)
    target = filled(rng, known, path) + (rng.choice(QUERIES) if rng.random() < 0.3 else "")
    body = form(rng, known, path) if method in ("POST", "PUT") or rng.random() < 0.05 else b""
    kind = "Content-Type: application/json" if rng.random() < 0.9 else f"Content-Type: {rng.choice(TYPES)}"
    content = request(method, target, token(rng, known), kind, body=body)
    return Drawn("form", content, headless=method == "HEAD", answers=int(method != "CONNECT"))


def _admin(rng: random.Random, known: Known) -> Drawn:
    method, path = rng.choice(known.admin_routes)
    target = filled(rng, known, path)
    if rng.random() < 0.3:
        target += rng.choice(QUERIES)
    body = form(rng, known, path) if method == "POST" else b""
    who = f"Authorization: Bearer {known.operator}"
    if rng.random() < 0.3 or "/alice" in target:  # alice's own things stay
        who = f"Authorization: Bearer {rng.choice([*known.tokens, *known.others])}"
    return Drawn("admin", request(method, target, who, "Content-Type: application/json", body=body), admin=True)


def _path(rng: random.Random, known: Known) -> Drawn:
    target = rng.choice([
        "/" + "/".join(rng.choice(NAMES) for _ in range(rng.randrange(6))), "/v1/" + rng.choice(NAMES), "//",
        "/v1//jobs", "/v1/jobs/", "/V1/JOBS", "*", "http://localhost/v1/keys",
        "/v1/jobs/j/outputs/" + "a/" * rng.choice([1, 90, 900]),
        "/v1/%6a%6f%62%73", "/v1/jobs;x=1", "/v1/jobs#x", "/docs", "/redoc", "/openapi.json/", "/metrics", "/v1/drain",
        "/v1/../v1/keys", "/v1/uploads/" + "0" * 32 + "/commit/", "/" + "a" * 5000, "\\v1\\jobs", "/v1/jobs\x7f", "v1",
    ])  # fmt: skip
    method = rng.choice(METHODS[:7])
    return Drawn("path", request(method, target, token(rng, known)), answers=0, headless=method == "HEAD")


def _header(rng: random.Random, known: Known) -> Drawn:
    method, path = rng.choice(known.routes)
    lines = [rng.choice(HEADERS) for _ in range(rng.choice([1, 1, 2]))]
    content = request(
        method, filled(rng, known, path), token(rng, known), *lines, body=b"{}" if method == "POST" else b""
    )
    return Drawn("header", content, answers=0, headless=True, large=True)


def _length(rng: random.Random, known: Known) -> Drawn:
    """A body that is longer, shorter, or in another form than said."""
    method, path = rng.choice([each for each in known.routes if each[0] in ("POST", "PUT")])
    target = filled(rng, known, path) + ("?offset=0" if method == "PUT" else "")
    body = form(rng, known, path) or b"{}"
    head = f"{method} {target} HTTP/1.1\r\nHost: x\r\n{token(rng, known)}\r\nContent-Type: application/json\r\n"
    chunked, which = f"{head}Transfer-Encoding: chunked\r\n\r\n".encode("latin-1", "replace"), rng.randrange(7)
    lines = {
        0: (f"{head}Content-Length: {len(body) + rng.choice([1, 1000, 10**9])}\r\n\r\n", body, 0),
        1: (f"{head}Content-Length: {rng.randrange(len(body))}\r\n\r\n", body, 0),
        2: (f"{head}Content-Length: {rng.choice(['-1', '+5', '0x5', '5, 5', '1e3', '9' * 30, ''])}\r\n\r\n", body, 0),
        3: (f"{head}Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n", body, 0),
    }
    if which in lines:
        first, rest, answers = lines[which]
        return Drawn("length", first.encode("latin-1", "replace") + rest, answers=answers, large=True)
    if which == 4:
        pieces = b"".join(b"%x\r\n%c\r\n" % (1, each) for each in body[:200])
        return Drawn("length", chunked + pieces + b"0\r\n\r\n", answers=1, large=True)
    if which == 5:
        wrong = rng.choice([b"g\r\nx\r\n", b"-1\r\n", b"ffffffffffffffffffff\r\nx", b"5\r\nab", b"1;x=" + b"y" * 9000])
        return Drawn("length", chunked + wrong, answers=0, large=True)
    large = b"%x\r\n%s\r\n" % (1 << 15, b"x" * (1 << 15))
    return Drawn("length", chunked + large * 3 + b"0\r\n\r\n", answers=0, large=True)


def _upload(rng: random.Random, known: Known) -> Drawn:
    """A piece of an upload at some offset."""
    name = rng.choice(known.uploads) if known.uploads else "0" * 32
    who, offset = token(rng, known), rng.choice([0, 0, 0, 1, 5, 100, 1 << 50, -1])
    which = rng.randrange(5)
    if which < 3:
        body = rng.randbytes(rng.choice([0, 1, 5, 100, 70_000]))
        return Drawn("upload", request("PUT", f"/v1/uploads/{name}?offset={offset}", who, body=body), large=True)
    if which == 3:
        return Drawn("upload", request("POST", f"/v1/uploads/{name}/commit", who))
    return Drawn("upload", request("DELETE", f"/v1/uploads/{name}", who))


def _pipelined(rng: random.Random, known: Known) -> Drawn:
    many = [_form(rng, known).content for _ in range(rng.randrange(2, 5))]
    if rng.random() < 0.5:
        many.append(rng.choice(PROTOCOLS)[:3000])
    return Drawn("pipelined", b"".join(many), answers=0, headless=True, large=True)


def _protocol(rng: random.Random, known: Known) -> Drawn:
    content = (
        rng.choice(PROTOCOLS)[:70_000] if rng.random() < 0.5 else rng.randbytes(rng.randrange(1, 300)) + b"\r\n\r\n"
    )
    return Drawn("protocol", content, answers=0, headless=True, large=True)


def _mutated(rng: random.Random, known: Known) -> Drawn:
    """A request with some of its bytes changed, cut off or twice there."""
    content = bytearray(_form(rng, known).content)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(content))
        which = rng.randrange(4)
        if which == 0:
            content[at] = rng.randrange(256)
        elif which == 1:
            del content[at : at + rng.randrange(1, 20)]
        elif which == 2:
            content[at:at] = rng.randbytes(rng.randrange(1, 20))
        else:
            content[at:at] = content[at : at + 50]
        content = content or bytearray(b"\0")
    return Drawn("mutated", bytes(content), answers=0, headless=True, large=True)


Kind = Callable[[random.Random, Known], Drawn]
SHARES: Mapping[Kind, float] = {
    _form: 0.5, _admin: 0.08, _path: 0.06, _header: 0.06, _length: 0.08, _upload: 0.1, _pipelined: 0.03,
    _protocol: 0.03, _mutated: 0.06,
}  # fmt: skip
KINDS, WEIGHTS = list(SHARES), list(SHARES.values())
