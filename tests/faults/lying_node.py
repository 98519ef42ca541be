"""Clients of a key node that answers otherwise than it should."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from faults import near
from faults.frame import MOST_SECONDS, Result, forked, mutated
from penstock.errors import PenstockError
from penstock.runtime.native.engine import EngineHere, make_context
from penstock.service.near.frames import PREFIX, Kind
from penstock.service.near.remote import NodeEngine, PulledKeys, RemoteNode

TIMEOUT_S = 4.0
"""A client waits so long for the next bytes."""
ENDLESS = 1 << 30
"""Bytes of noise behind the answers, where they do not end."""


@dataclass
class Liar:
    """What an honest node answered each frame of a client, and what is made of it."""

    node: near.Node
    folder: Path
    answers: list[list[bytes]]
    """To a client that sends ciphertexts, and to one that pulls keys, in order; the first is that to its hello."""
    content: bytes = b""
    then: str = "close"
    port: int = 0
    process: int = field(default=0)

    def start(self) -> None:
        """Answer in this process. A fork starts its own."""
        if self.process == os.getpid():
            return
        self.process = os.getpid()
        listening = socket.create_server(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        threading.Thread(target=self._accept, args=(listening,), daemon=True).start()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            connection, _ = listening.accept()
            threading.Thread(target=self._answer, args=(connection, self.content, self.then), daemon=True).start()

    @staticmethod
    def _answer(connection: socket.socket, content: bytes, then: str) -> None:
        """Every answer at once, whatever is asked; a client reads one after each frame."""
        connection.settimeout(MOST_SECONDS)
        threading.Thread(target=_read, args=(connection,), daemon=True).start()
        with suppress(OSError):
            connection.sendall(content)
            noise = bytes(1 << 20)
            for _ in range(ENDLESS // len(noise) if then == "endless" else 0):
                connection.sendall(noise)
        if then == "close":
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _read(connection: socket.socket) -> None:
    with suppress(OSError), connection:
        while connection.recv(1 << 20):
            pass


def prepared(node: near.Node, folder: Path) -> Liar:
    """The answers of an honest node, both for its operations and for its keys."""
    folder.mkdir()
    welcome = near.framed(Kind.WELCOME, {"max_body_bytes": 1 << 20})
    return Liar(node, folder, [[welcome, *answers] for answers in node.answers])


def client(liar: Liar, pulls: bool) -> int:
    """In a fork. 0: its results are right; 3: they are others, which no client can know; 1: an error says why."""
    params, job = liar.node.params, liar.node.jobs["alice"]
    tag = job.spec.secret_tag or ""
    context = make_context(params, 1)
    try:
        with RemoteNode(
            f"127.0.0.1:{liar.port}",
            params,
            token="x" * 64,
            tenant="alice",
            key_tag=tag,
            timeout_s=TIMEOUT_S,
        ) as there:
            keys = PulledKeys(there, context)
            engine = EngineHere(params, context, keys) if pulls else NodeEngine(params, context, there)
            return 0 if near.outputs(engine, job) == liar.node.expected["alice"] else 3
    except PenstockError as error:
        os.write(2, f"error: {error}\n".encode())
        return 1


def case(liar: Liar, seed: int, rng: np.random.Generator) -> Result:
    """A client whose node changes an answer, leaves one out, or does not end."""
    liar.start()
    pulls = bool(rng.random() < 0.4)
    answers = list(liar.answers[pulls])
    at, which = int(rng.integers(len(answers))), rng.random()
    if which < 0.4:
        size = PREFIX.size + 120
        answers[at] = mutated(answers[at][:size], rng)[0] + answers[at][size:]
    elif which < 0.7:
        answers[at] = mutated(answers[at], rng)[0]
    elif which < 0.8:
        answers[at] = answers[int(rng.integers(len(answers)))]
    elif which < 0.9:
        kind, header, body = int(rng.integers(12)), int(rng.choice([0, 2, 4096, 2**31])), int(rng.choice([0, 8, 2**40]))
        answers[at] = near.framed(kind, b"{}", size=body)[: PREFIX.size - 12] + PREFIX.pack(b"", 0, 0, header, body)[8:]
    else:
        answers[at] = near.framed(Kind.ERROR, {"message": "\x1b[2J" + "x" * int(rng.choice([0, 3000]))})
    liar.content = b"".join(answers)
    liar.then = str(rng.choice(["close", "close", "endless", "silent"], p=[0.5, 0.3, 0.15, 0.05]))
    folder = liar.folder / str(seed)
    folder.mkdir()
    ended = forked(lambda: client(liar, pulls), folder)
    told = {0: "right", 1: "refused", 3: "other words"}.get(ended.code, f"exit {ended.code}")
    faults = tuple(each for each in ended.faults if ended.code != 3 or "without a word" not in each)
    notes = f"{'pulls' if pulls else 'calls'}, answer {at}, then {liar.then}: {ended.errors[:300]!r}"
    return Result("requests", "lying node", seed, told, faults, ended.seconds, ended.peak_bytes, notes=notes)
