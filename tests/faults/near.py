"""Hostile clients of a running key node, and what is wrong with what they hear."""

from __future__ import annotations

import atexit
import json
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from faults.frame import GRACE, MOST_SECONDS, Result, mutated
from faults.served import Server
from penstock.errors import PenstockError
from penstock.program.running.reading import resolve
from penstock.runtime.keystore import parameter_digest
from penstock.runtime.native.engine import EngineHere, make_context
from penstock.scheme.params.ckks import CkksParameters
from penstock.service.near.frames import (
    ANSWER_FIELDS,
    MAGIC,
    MAX_HEADER_BYTES,
    PREFIX,
    REQUEST_FIELDS,
    VERSION,
    FrameRefused,
    Kind,
    decode_header,
    decode_prefix,
)
from penstock.service.near.remote import NodeEngine, PulledKeys, RemoteNode
from penstock.service.near.tokens import token_of
from penstock.service.owners import Owners, PreparedJob
from penstock.service.tenants import Job
from support.prepared_jobs import outputs, outputs_here

HONEST_S = 15.0
"""An honest client has its results within this."""
HELLO_S = 10.0
"""Who says nothing is hung up on within this."""
WORKLOAD = "inner-product"
TENANTS = ("alice", "bob")
NUMBERS = (0, -1, 1, 2, 3, 4, 5, 7, 8, 2**31, 2**32, 2**53, 2**63, 2**64, 2**64 - 1, 10**400, -(2**63), True, 1.5, "1")
SCALES = (0.0, -1.0, 1e308, 1e-320, float("nan"), float("inf"), -float("inf"), 1, "1.0", None)
TEXTS = (
    "", "relin", "rot:5", "rot:0", "rot:-1", "rot:4", "rot:99999999999999999999", "conj", "../relin", "../../outside",
    "relin.pkey", "/etc/passwd", "\0", "\ud800", "é" * 900, "x" * 3900, "rot:\uff15", "rot: 5", "ROT:5",
    "rot:5/../relin", "bob", "alice", "local", ".", "..", "*", "%", "'; drop table keys; --", None, 5, [], {},
)  # fmt: skip


@dataclass
class Node:
    """A key node that runs: where, and what two tenants may do there."""

    server: Server
    port: int
    params: CkksParameters
    secret: str
    jobs: dict[str, PreparedJob]
    expected: dict[str, list[bytes]]
    """Tenant -> results of its job, as this machine computes them."""
    recorded: list[bytes] = field(default_factory=list)
    """Frames that honest clients sent behind their hello, alice's."""
    answers: list[list[bytes]] = field(default_factory=list)
    """Those that a client heard which sends ciphertexts, and those of one that pulls keys."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def token(self, tenant: str, tag: str | None = None, digest: str | None = None) -> str:
        tag = self.jobs[tenant].spec.secret_tag if tag is None else tag
        return token_of(self.secret, tenant, parameter_digest(self.params) if digest is None else digest, tag)

    def hello(self, of: str = "alice", **changes: Any) -> bytes:
        """An honest hello, but for the changes."""
        header = {
            "token": self.token(of),
            "tenant": of,
            "digest": parameter_digest(self.params),
            "key_tag": self.jobs[of].spec.secret_tag,
        }
        return framed(Kind.HELLO, {**header, **changes})

    def remote(self, tenant: str) -> RemoteNode:
        tag = self.jobs[tenant].spec.secret_tag or ""
        return RemoteNode(
            self.address,
            self.params,
            token=self.token(tenant),
            tenant=tenant,
            key_tag=tag,
            timeout_s=HONEST_S,
        )


def framed(kind: int, header: Any, body: bytes = b"", *, size: int | None = None) -> bytes:
    """A frame; `header`: any JSON, or its bytes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return PREFIX.pack(MAGIC, VERSION, kind, len(text), len(body) if size is None else size) + text + body


def frames_of(content: bytes) -> list[bytes]:
    """Honest frames, one by one."""
    found = []
    while content:
        _, _, _, header, body = PREFIX.unpack(content[: PREFIX.size])
        size = PREFIX.size + header + body
        found.append(content[:size])
        content = content[size:]
    return found


# The honest clients.
def prepared(folder: Path) -> tuple[CkksParameters, dict[str, PreparedJob], dict[str, list[bytes]]]:
    """Keys of two tenants in a store, a job of each, and its results."""
    params = resolve(WORKLOAD, None, "ci")[2]
    owners = Owners(folder)
    atexit.register(owners.release)  # their ciphertexts are asked for to the end
    prepared = owners.prepare([Job(tenant=name, workload=WORKLOAD, size="ci", params=params.name) for name in TENANTS])
    jobs = {job.job.tenant: job for job in prepared}
    return params, jobs, {tenant: outputs_here(folder, job) for tenant, job in jobs.items()}


class Recorder:
    """A socket that keeps what is sent and received."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self.sent, self.got = connection, bytearray(), bytearray()

    def sendall(self, data: Any) -> None:
        self.sent += bytes(data)
        self._connection.sendall(data)

    def recv_into(self, target: memoryview) -> int:
        count = self._connection.recv_into(target)
        self.got += target[:count]
        return count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def record(node: Node) -> None:
    """Keep the frames of a client that sends ciphertexts, and of one that pulls keys."""
    job, context = node.jobs["alice"], make_context(node.params, 1)
    for pulls in (False, True):
        with node.remote("alice") as there:
            heard = Recorder(there.link._socket)
            there.link._socket = heard  # type: ignore[assignment]
            engine = (
                EngineHere(node.params, context, PulledKeys(there, context))
                if pulls
                else NodeEngine(node.params, context, there)
            )
            assert outputs(engine, job) == node.expected["alice"]
        node.recorded += frames_of(bytes(heard.sent))
        node.answers.append(frames_of(bytes(heard.got)))


def honest(node: Node, tenant: str) -> list[str]:
    """An honest client's results are the local ones, bit by bit."""
    began = time.monotonic()
    said = "nothing"
    while time.monotonic() - began < HONEST_S:
        try:
            with node.remote(tenant) as there:
                engine = NodeEngine(node.params, make_context(node.params, 1), there)
                same = outputs(engine, node.jobs[tenant]) == node.expected[tenant]
                return [] if same else [f"tenant {tenant}'s results are not those of this machine"]
        except PenstockError as error:  # there is no place for it, or it waited longest
            said = str(error)
            time.sleep(0.05)
    return [f"tenant {tenant} had no result within {HONEST_S:g} s: {said[:300]}"]


# Hostile ones.
def _one(rng: np.random.Generator, many: Any) -> Any:
    return many[int(rng.integers(len(many)))]


@dataclass
class Said:
    """What a client sends, and how it leaves."""

    kind: str
    content: bytes
    leave: str = "end"
    """`end`: it sends no more and reads on; `close`, `reset`: it goes without reading; `stay`: it says no more; `hold`:
    neither, for a moment."""
    admitted: bool = False
    """It begins with an honest hello."""


def draw(rng: np.random.Generator, node: Node) -> Said:
    """A hostile client."""
    kinds = [_token, _mutated, _lengths, _order, _header, _bytes, _left]
    return kinds[int(rng.choice(len(kinds), p=[0.15, 0.3, 0.12, 0.12, 0.17, 0.04, 0.1]))](rng, node)


def _token(rng: np.random.Generator, node: Node) -> Said:
    """Nobody's token, another's, and keys of another."""
    right, bobs = node.token("alice"), node.token("bob")
    tag, theirs = (node.jobs[name].spec.secret_tag or "" for name in TENANTS)
    digest = parameter_digest(node.params)
    changes = _one(
        rng,
        [
            {"token": ""}, {"token": right[:-1]}, {"token": right.upper()}, {"token": right + "0"}, {"token": bobs},
            {"token": node.secret}, {"token": "0" * 64}, {"token": "é" * 64}, {"token": "\ud800"},
            {"token": right[::-1]},
            {"tenant": "bob"}, {"tenant": ""}, {"tenant": "../bob"}, {"tenant": "alice\0"}, {"tenant": "x" * 3000},
            {"key_tag": theirs}, {"key_tag": ""}, {"key_tag": tag.upper()}, {"digest": "0" * 32},
            {"tenant": "bob", "token": bobs}, {"digest": "0" * 32, "token": node.token("alice", digest="0" * 32)},
            {"tenant": "alic", "digest": "e" + digest}, {"token": None}, {"token": [right]}, {"token": {"$ne": ""}},
            {"token": right, "admin": True}, {"token": token_of("x" * 16, "alice", digest, tag)},
        ],
    )  # fmt: skip
    return Said("token", node.hello(**changes) + _some(rng, node))


def _some(rng: np.random.Generator, node: Node) -> bytes:
    return b"".join(_one(rng, node.recorded) for _ in range(int(rng.integers(0, 4))))


def _mutated(rng: np.random.Generator, node: Node) -> Said:
    """Recorded frames, one of them disturbed."""
    frames = [node.hello(), *(_one(rng, node.recorded) for _ in range(int(rng.integers(1, 4))))]
    at = int(rng.integers(len(frames)))
    if rng.random() < 0.5:  # where the lengths and the header are, else mostly rows
        size = PREFIX.size + 200
        frames[at] = mutated(frames[at][:size], rng)[0] + frames[at][size:]
    else:
        frames[at] = mutated(frames[at], rng)[0]
    return Said("mutated", b"".join(frames), admitted=at > 0)


def _lengths(rng: np.random.Generator, node: Node) -> Said:
    """Lengths of headers and bodies that are not those, some of them of petabytes."""
    most = 3 * node.params.num_q * node.params.ring_dim * 8
    header = int(_one(rng, [0, 1, 2, 100, MAX_HEADER_BYTES, MAX_HEADER_BYTES + 1, 2**31, 2**32 - 1]))
    body = int(_one(rng, [0, 1, 7, 8, most - 8, most, most + 8, 2**32, 2**63, 2**64 - 8, 2**64 - 1]))
    kind = int(_one(rng, [*Kind, 0, 10, 77, 2**16 - 1]))
    prefix = PREFIX.pack(_one(rng, [MAGIC, MAGIC, MAGIC, b"PSNX", bytes(4)]), int(_one(rng, [VERSION, VERSION, 0,
    9])), kind,
                         header, body)  # fmt: skip
    content = prefix + bytes(rng.integers(0, 256, int(_one(rng, [0, 10, 5000, 200_000])), dtype=np.uint8))
    admitted = bool(rng.random() < 0.6)
    return Said("lengths", (node.hello() if admitted else b"") + content, admitted=admitted)


def _order(rng: np.random.Generator, node: Node) -> Said:
    """Honest frames where they are not expected."""
    result = framed(Kind.RESULT, {"polynomials": 2, "limbs": 1, "degree": 1, "scale": 1.0, "slots": 1})
    odd = [
        node.hello(),
        node.hello("bob"),
        framed(Kind.WELCOME, {"max_body_bytes": 1}),
        framed(Kind.ERROR, {"message": "x"}),
        result,
        _again(node),
        *node.recorded[:3],
    ]
    admitted = bool(rng.random() < 0.6)
    content = b"".join(_one(rng, odd) for _ in range(int(rng.integers(1, 6))))
    return Said("order", (node.hello() if admitted else b"") + content, admitted=admitted)


def _again(node: Node) -> bytes:
    """A hoisted rotation of the ciphertext that was sent before; none was."""
    header = {"polynomials": 2, "limbs": 1, "degree": 1, "scale": 1.0, "slots": 1, "element": 5}
    return framed(Kind.ROTATE_HOISTED, header)


def _header(rng: np.random.Generator, node: Node) -> Said:
    """Frames whose header has other values, fields or shapes."""
    frame = _one(rng, node.recorded)
    _, _, kind, size, _ = PREFIX.unpack(frame[: PREFIX.size])
    header: Any = json.loads(frame[PREFIX.size : PREFIX.size + size])
    body = frame[PREFIX.size + size :]
    if rng.random() < 0.2:
        kind = int(_one(rng, list(REQUEST_FIELDS)))
    for _ in range(int(rng.integers(1, 3))):
        name = str(_one(rng, list(header)))
        known = {str: TEXTS, float: SCALES}.get(type(header[name]), NUMBERS)
        header[name] = _one(rng, known if rng.random() < 0.9 else [*TEXTS, *SCALES, *NUMBERS])
    which = rng.random()
    if which < 0.1:
        header.pop(str(_one(rng, list(header))))
    elif which < 0.2:
        header[str(_one(rng, ["x", "", "__class__", "token"]))] = 1
    content: bytes = json.dumps(header).encode()
    if which > 0.9:
        content = _one(
            rng,
            [b"[" * 4000, b"{" * 4000, b'{"a":' * 600, b"\xff\xfe", b"", b"null", b"NaN", b"[]", b"9" * 4000,
            b'"' + b"\\u0000" * 500,
             content[:-1] + b',"limbs":1}', content.replace(b":", b"::"), content + b" " * 500,
             b'{"limbs": 1e999999999}'],
        )  # fmt: skip
    if rng.random() < 0.2:
        body = _one(rng, [b"", body[:-8], body + bytes(8), b"\xff" * len(body), bytes(len(body))])
    size = min(len(content), MAX_HEADER_BYTES)
    return Said("header", node.hello() + framed(kind, content[:size], body), admitted=True)


def _bytes(rng: np.random.Generator, node: Node) -> Said:
    """No frames at all."""
    noise = bytes(rng.integers(0, 256, int(_one(rng, [1, 19, 20, 21, 5000, 1_000_000])), dtype=np.uint8))
    content = _one(rng, [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"", noise, MAGIC * 5, b"\x16\x03\x01" + noise])
    return Said("no frames", content)


def _left(rng: np.random.Generator, node: Node) -> Said:
    """A client that goes in the middle of a frame, or before it has heard the answer."""
    content = (node.hello() if rng.random() < 0.8 else b"") + _some(rng, node)
    if rng.random() < 0.7:
        content = content[: int(rng.integers(len(content) + 1))]
    leave = "stay" if rng.random() < 0.01 else str(_one(rng, ["close", "reset", "end"]))
    return Said("left" if leave != "stay" else "silent", content[:30] if leave == "stay" else content, leave)


# Saying it.
def exchange(node: Node, said: Said) -> tuple[bytes, float, bool]:
    """What comes back, seconds until the last of it, and whether the node hung up."""
    began, got, ended = time.monotonic(), bytearray(), said.leave in ("close", "reset", "hold")
    with socket.socket() as connection:
        connection.settimeout(MOST_SECONDS * GRACE)
        try:
            connection.connect(("127.0.0.1", node.port))
            connection.sendall(said.content)
            if said.leave == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if said.leave == "end":
                connection.shutdown(socket.SHUT_WR)
            if said.leave == "hold":
                connection.settimeout(0.3)
        except OSError:
            ended = True  # it hung up while the rest was sent
        if said.leave not in ("close", "reset"):
            with suppress(TimeoutError):
                try:
                    while part := connection.recv(1 << 18):
                        got += part
                except ConnectionError:
                    pass
                ended = True
    return bytes(got), time.monotonic() - began, ended


def wrong(node: Node, said: Said, got: bytes, seconds: float, ended: bool) -> tuple[str, list[str]]:
    """How it ended in a word, and what is wrong with what the node said."""
    found = []
    if not ended:
        found.append(f"the node did not hang up within {MOST_SECONDS * GRACE:g} s")
    if seconds > (HELLO_S if said.leave == "stay" else MOST_SECONDS):
        found.append(f"took {seconds:.1f} s")
    secrets = [node.secret, *(node.token(tenant) for tenant in TENANTS)]
    found += ["an answer holds the secret or a token" for each in secrets if each.encode() in got]
    kinds, most = [], max(node.params.key_bytes(), 3 * node.params.num_q * node.params.ring_dim * 8)
    while got:
        try:
            prefix = decode_prefix(got[: PREFIX.size].ljust(PREFIX.size, b"\0"), most)
            header = got[PREFIX.size : PREFIX.size + prefix.header_bytes]
            if len(header) == prefix.header_bytes:
                told = decode_header(header, ANSWER_FIELDS[prefix.kind])
                if len(str(told.get("message", ""))) > 1000 or "Traceback" in str(told):
                    found.append(f"an answer of the node: {str(told)[:300]}")
            kinds.append(prefix.kind)
        except (FrameRefused, KeyError) as error:
            if len(got) >= PREFIX.size:  # else its hanging up cut it off
                found.append(f"no frame: {error}: {got[:60]!r}")
            break
        got = got[PREFIX.size + prefix.header_bytes + prefix.body_bytes :]
    if not said.admitted and any(kind is not Kind.ERROR for kind in kinds) and not _admits(node, said.content):
        found.append(f"one without a token heard {[kind.name for kind in kinds]}")
    return (kinds[-1].name.lower() if kinds else "left" if said.leave in ("close", "reset") else "hung up"), found


def _admits(node: Node, content: bytes) -> bool:
    """Whether these bytes begin with a hello that shows its token."""
    with suppress(FrameRefused, struct.error, KeyError):
        prefix = decode_prefix(content[: PREFIX.size], 0)
        header = decode_header(content[PREFIX.size : PREFIX.size + prefix.header_bytes], REQUEST_FIELDS[Kind.HELLO])
        right = token_of(node.secret, header["tenant"], header["digest"], header["key_tag"])
        return bool(prefix.kind is Kind.HELLO and header["token"] == right)
    return False


def case(node: Node, seed: int, rng: np.random.Generator) -> Result:
    """One hostile client, or some at once; after each fifty seeds an honest one."""
    began, printed = time.monotonic(), node.server.said_bytes()
    if not node.server.alive():
        return Result("requests", "key node", seed, "no server", cases=0)
    crowd = rng.random() < 0.005
    if crowd:  # more than may wait, and than there are places
        many = [draw(rng, node) if rng.random() < 0.4 else Said("silent", b"", "hold") for _ in range(45)]
        with ThreadPoolExecutor(len(many)) as pool:
            found = list(pool.map(lambda each: exchange(node, each), many))
    else:
        many = [draw(rng, node)]
        found = [exchange(node, many[0])]
    took, faults, ended = time.monotonic() - began, [], "nothing"
    for said, (got, seconds, hung_up) in zip(many, found, strict=True):
        ended, wrongs = wrong(node, said, got, seconds, hung_up)
        faults += wrongs
    faults += node.server.cries(printed)
    if not node.server.alive():
        faults.append("the node ended")
    elif seed % 50 == 0:
        faults += honest(node, _one(rng, TENANTS))
    kind = f"key node: {'crowd' if crowd else many[0].kind}"
    notes = " ".join(repr(each.content[:300]) for each in many[:2])
    return Result("requests", kind, seed, "many" if crowd else ended, tuple(faults), took, cases=len(many), notes=notes)
