"""Mutated frames: what a key node gets from its clients, and what a client gets from its node."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from faults.fields import Field, set_leaf, set_some
from faults.frame import mutated
from faults.strings_ckks import ELEMENT, RING_DIM, ROTATION_KEY, Mutant, Scheme, Wrong, check_ciphertext, named
from faults.strings_store import BUDGET, TENANT
from penstock import _engine
from penstock.errors import PenstockError
from penstock.runtime.keystore import KeyStore, parameter_digest
from penstock.scheme.operations import CONJ_KEY, RELIN_KEY
from penstock.service.near.frames import ANSWER_FIELDS, PREFIX, Kind, decode_header, decode_prefix, encode_prefix
from penstock.service.near.link import Link
from penstock.service.near.node import KeyNode, NodeOptions
from penstock.service.near.remote import RemoteNode
from penstock.service.near.tokens import token_of
from penstock.service.near.words import ciphertext_of, header_of, rows_of
from support.engine_calls import Calls

SECRET = "a-secret-of-many-bytes"
SOCKET_BYTES = 1 << 16
"""What a pair of sockets holds without a reader, on any machine."""
_PREFIX_FIELDS = [
    Field(name, at, size)
    for name, at, size in (("magic", 0, 4), ("version", 4, 2), ("kind", 6, 2), ("header", 8, 4), ("body", 12, 8))
]


def frame(kind: Kind, header: dict[str, Any], body: bytes = b"") -> bytes:
    """The bytes of a frame."""
    return encode_prefix(kind, header, len(body)) + body


def _body(a: _engine.CkksCiphertext) -> bytes:
    return b"".join(part.tobytes() for part in rows_of(a))


def _header_of(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and body of a whole frame."""
    length = PREFIX.unpack_from(content)[3]
    return json.loads(content[PREFIX.size : PREFIX.size + length]), content[PREFIX.size + length :]


def mutant_of(content: bytes, rng: Any, moduli: np.ndarray) -> Mutant:
    """A frame, mutated."""
    how = rng.random()
    if how < 0.2:
        return Mutant(*set_some(content, _PREFIX_FIELDS, rng))
    if how < 0.65:
        header, body = _header_of(content)
        changed, said = set_leaf(header, rng)
        text = json.dumps(changed).encode()
        return Mutant(PREFIX.pack(*PREFIX.unpack_from(content)[:3], len(text), len(body)) + text + body, said)
    if how < 0.75:
        header, body = _header_of(content)
        words = np.frombuffer(body, dtype="<u8").copy()
        if len(words):
            words[int(rng.integers(len(words)))] = rng.choice(np.array([0, 2**63, 2**64 - 1, moduli.min()], "u8"))
            words = words[: len(words) - RING_DIM * int(rng.integers(2))]
            head = content[: len(content) - len(body)]
            return Mutant(head[:12] + (8 * len(words)).to_bytes(8, "little") + head[20:] + words.tobytes(), "words")
    return Mutant(*mutated(content, rng))


def _shut(connection: socket.socket, content: bytes) -> None:
    """Send all, then say that nothing more comes. The other side may be gone before it has read all."""
    with suppress(OSError):
        connection.sendall(content)
        connection.shutdown(socket.SHUT_WR)


def talk(content: bytes, serve: Callable[[socket.socket], None]) -> bytes:
    """What `serve` answers to `content` at the other end of a connection that ends there."""
    here, there = socket.socketpair()
    with here:
        feeder = threading.Thread(target=_shut, args=(here, content), daemon=True)
        if len(content) < SOCKET_BYTES:
            _shut(here, content)
        else:
            feeder.start()
        try:
            serve(there)
        finally:
            there.close()
        if feeder.ident is not None:
            feeder.join()
        here.settimeout(5)
        parts = []
        with suppress(OSError):
            while part := here.recv(1 << 16):
                parts.append(part)
    return b"".join(parts)


class Requests:
    """Frames of a client, among them a mutated one, to a node."""

    name = "request"

    def __init__(self, scheme: Scheme, store: Path, folder: Path) -> None:
        self.scheme = scheme
        options = NodeOptions(budget_bytes=BUDGET, hello_timeout_s=10, idle_timeout_s=10)
        self._make = lambda name: KeyNode(scheme.params, KeyStore(store), SECRET, f"unix:{folder}/{name}", options)
        self._nodes: dict[int, KeyNode] = {}
        digest = parameter_digest(scheme.params)
        token = token_of(SECRET, TENANT, digest, scheme.key_tag)
        self.hello = {"token": token, "tenant": TENANT, "digest": digest, "key_tag": scheme.key_tag}
        fresh, product = scheme.real("fresh"), scheme.real("product")
        turn = {**header_of(fresh), "element": ELEMENT}
        self.frames = [
            frame(Kind.HELLO, self.hello),
            frame(Kind.ROTATE, turn, _body(fresh)),
            frame(Kind.ROTATE_HOISTED, turn, _body(fresh)),
            frame(Kind.ROTATE_HOISTED, turn),
            frame(Kind.RELINEARIZE, header_of(product), _body(product)),
            frame(Kind.PULL, {"key": CONJ_KEY, "limbs": 2}),
        ]
        self.rotated = Calls(scheme.context).rotate(fresh, ELEMENT, scheme.keys[ROTATION_KEY])

    @property
    def node(self) -> KeyNode:
        """That of this process: cases run in forks, which have none of its cache's threads."""
        process = os.getpid()
        if process not in self._nodes:
            self._nodes[process] = self._make(f"n{process}")
        return self._nodes[process]

    def close(self) -> None:
        self.node.close()

    def check(self, rng: Any, folder: Path) -> tuple[Mutant, str]:
        at = int(rng.integers(len(self.frames)))
        mutant = mutant_of(self.frames[at], rng, self.scheme.moduli_q)
        before = [self.frames[0]] if at else []
        if at == 3:
            before.append(self.frames[2])
        sent = [*before, mutant.content, *([self.frames[1]] if rng.random() < 0.5 else [])]
        answers = list(self._answers(talk(b"".join(sent), self._serve)))
        if at == 0 and Kind.WELCOME in answers and not self._is_hello(mutant.content):
            raise Wrong("a client with another hello is welcome")
        if rng.random() < 0.1:
            whole = talk(self.frames[0] + self.frames[1], self._serve)
            if whole[-len(_body(self.rotated)) :] != _body(self.rotated):
                raise Wrong("the node's next answer is wrong")
        if len(self.node._clients) or len(self.node._waiting):
            raise Wrong("the node keeps a connection that ended")
        said = answers[len(before) :]
        return mutant, "hung up on" if not said else "refused" if Kind.ERROR in said[:1] else "answered"

    def _serve(self, there: socket.socket) -> None:
        """As the thread of a connection does."""
        self.node._waiting[there] = None
        self.node._client(there)

    def _is_hello(self, content: bytes) -> bool:
        header, _ = _header_of(content)
        return {name: header.get(name) for name in self.hello} == self.hello

    def _answers(self, content: bytes) -> Iterator[Kind]:
        """The kind of each answer; each is a whole frame, and its ciphertext one."""
        largest = max(self.node.max_body_bytes, self.scheme.params.key_bytes())
        while content:
            prefix = decode_prefix(content[: PREFIX.size], largest)
            begin = PREFIX.size + prefix.header_bytes
            body = content[begin : begin + prefix.body_bytes]
            header = decode_header(content[PREFIX.size : begin], ANSWER_FIELDS[prefix.kind])
            words = np.frombuffer(body, dtype=np.uint64)
            if prefix.kind is Kind.RESULT:
                check_ciphertext(self.scheme, ciphertext_of(self.scheme.context, header, words), "answer")
            if prefix.kind is Kind.KEY_ROWS:
                _engine.ckks_key_rows(self.scheme.context, words, header["limbs"])
            if prefix.kind is Kind.ERROR and not header["message"]:
                raise Wrong("an error without a word")
            yield prefix.kind
            content = content[begin + prefix.body_bytes :]


class Answers:
    """Mutated frames of a node, to a client that asked for something."""

    name = "answer"

    def __init__(self, scheme: Scheme) -> None:
        self.scheme = scheme
        engine, fresh = scheme.context, scheme.real("fresh")
        rotated = Calls(engine).rotate(fresh, ELEMENT, scheme.keys[ROTATION_KEY])
        room = np.empty(scheme.params.key_bytes() // 8, dtype=np.uint64)
        count = _engine.ckks_key_words(engine, scheme.keys[ROTATION_KEY], scheme.params.num_q, room)
        self.result = frame(Kind.RESULT, header_of(rotated), _body(rotated))
        self.rows = frame(Kind.KEY_ROWS, {"limbs": scheme.params.num_q}, room[:count].tobytes())
        self.error = frame(Kind.ERROR, {"message": "no such key"})

    def check(self, rng: Any, folder: Path) -> tuple[Mutant, str]:
        scheme, engine, fresh = self.scheme, self.scheme.context, self.scheme.real("fresh")
        which = int(rng.integers(5))
        answer = (self.result, self.result, self.rows, self.rows, self.error)[which]
        mutant = mutant_of(answer, rng, scheme.moduli)
        found: list[Any] = []
        limbs = scheme.params.num_q if rng.random() < 0.8 else int(rng.integers(1, scheme.params.num_q))

        def ask(there: socket.socket) -> None:
            node = RemoteNode.__new__(RemoteNode)
            node.link = Link(there, timeout_s=10)
            node._max_body_bytes = max(scheme.params.key_bytes(), 3 * scheme.params.num_q * RING_DIM * 8)
            if which < 2 or which == 4:
                found.append(node.rotate(engine, fresh, ELEMENT))
            else:
                found.append(node.pull(engine, ROTATION_KEY, limbs))

        try:
            talk(mutant.content, ask)
        except PenstockError as error:
            named(error)
            return mutant, "refused"
        if isinstance(found[0], _engine.CkksCiphertext):
            check_ciphertext(scheme, found[0], "answer")
            with suppress(PenstockError):
                check_ciphertext(scheme, Calls(engine).mult(found[0], fresh, scheme.keys[RELIN_KEY]), "product")
        else:
            with suppress(PenstockError):
                check_ciphertext(scheme, Calls(engine).rotate(fresh, ELEMENT, found[0]), "rotation")
        return mutant, "accepted"
