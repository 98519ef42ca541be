"""Attacks on the service, each in a process of its own: by strangers without a token, and by a tenant with one.

An attack goes on until its process is killed. It counts the answers that it gets.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
import resource
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import ConstantsInMemory, Input, Output, Package, Verb
from penstock.program.package.file import write_package
from penstock.scheme.params import catalogue
from support.serve_site import Answer, Caller

PARAMS = catalogue.get("insecure-ci")
LENGTH = 8
SHORT, LONG, OVERLONG = 300, 20_000, 400_000
"""Rotations of hostile programs: under a second, about a minute, and more than is compiled in a deadline."""
LIVE, OUTPUTS = 2000, 200
"""Ciphertexts of the wide program that are there at once; outputs of the one that fills the quota."""
INPUTS = [f"i{number}" for number in range(600)]
NAMES = 5000
"""Inputs of a program whose every job has a request of 45 kB; outputs of one whose description has a megabyte."""
STRANGERS = 400
"""Connections without a token."""
SPARED = 10
"""The attacker's `nice`: in life it has a machine of its own."""


def _chain(turns: int) -> Package:
    builder = PackageBuilder(ConstantsInMemory())
    x = builder.encrypt(Input("x", LENGTH))
    for _ in range(turns):
        x = builder.add(Verb.ROTATE, [x], argument=1)
    builder.output(x, Output("y", LENGTH))
    return builder.finish(f"turns-{turns}", PARAMS, ConstantsInMemory())


def _wide() -> Package:
    builder = PackageBuilder(ConstantsInMemory())
    x = builder.encrypt(Input("x", LENGTH))
    values = [builder.add(Verb.ADD_SCALAR, [x], number=float(at + 1)) for at in range(LIVE)]
    total = values[0]
    for each in values[1:]:
        total = builder.add(Verb.ADD, [total, each])
    builder.output(total, Output("y", LENGTH))
    return builder.finish("wide", PARAMS, ConstantsInMemory())


def _outputs() -> Package:
    builder = PackageBuilder(ConstantsInMemory())
    x = builder.encrypt(Input("x", LENGTH))
    for at in range(OUTPUTS):
        builder.output(builder.add(Verb.ADD_SCALAR, [x], number=float(at)), Output(f"y{at}", LENGTH))
    return builder.finish("outputs", PARAMS, ConstantsInMemory())


def _inputs() -> Package:
    builder = PackageBuilder(ConstantsInMemory())
    values = [builder.encrypt(Input(name, LENGTH)) for name in INPUTS]
    total = values[0]
    for each in values[1:]:
        total = builder.add(Verb.ADD, [total, each])
    builder.output(total, Output("y", LENGTH))
    return builder.finish("inputs", PARAMS, ConstantsInMemory())


def _names() -> Package:
    builder = PackageBuilder(ConstantsInMemory())
    x = builder.encrypt(Input("x", LENGTH))
    for at in range(NAMES):
        builder.output(x, Output(f"{at}-{'n' * 180}", LENGTH))
    return builder.finish("names", PARAMS, ConstantsInMemory())


PACKAGES: Mapping[str, Callable[[], Package]] = {
    "short": lambda: _chain(SHORT), "long": lambda: _chain(LONG), "overlong": lambda: _chain(OVERLONG),
    "wide": _wide, "outputs": _outputs, "inputs": _inputs, "names": _names,
}  # fmt: skip


def tiny(number: int, folder: Path, *, own_set: bool = False) -> bytes:
    """A package that no other number has; `own_set`: nor its parameter set."""
    params = replace(PARAMS, scale_bits=PARAMS.scale_bits - number % 20, name=f"set-{number}") if own_set else PARAMS
    builder = PackageBuilder(ConstantsInMemory())
    x = builder.encrypt(Input("x", LENGTH))
    builder.output(builder.add(Verb.ADD_SCALAR, [x], number=1.0 + number), Output("y", LENGTH))
    path = folder / f"tiny-{os.getpid()}-{threading.get_ident()}.pkg"
    write_package(builder.finish(f"tiny-{number}", params, ConstantsInMemory()), path, force=True)
    return path.read_bytes()


@dataclass(frozen=True)
class Target:
    """What an attack knows of the service."""

    port: int
    folder: Path
    """Of its packages and its own files."""
    token: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Of the hostile tenant's programs."""
    others: tuple[tuple[str, int], ...] = ()
    """SHA-256 and bytes of what honest tenants have."""


class Mallory:
    """The one who attacks: requests, and what they were answered with."""

    def __init__(self, target: Target) -> None:
        self.target, self.answers = target, Counter[str]()
        self.ask = Caller(target.port, target.token or None)
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def number(self) -> int:
        with self._lock:
            return next(self._numbers)

    def noted(self, answer: Answer) -> Answer:
        with self._lock:
            self.answers[str(answer.status)] += 1
        return answer

    def submit(self, program: str, **more: Any) -> Answer:
        form = {"job": f"m{self.number()}", "program": program, "inputs": dict(self.target.inputs), **more}
        return self.noted(self.ask("POST", "/v1/jobs", form))

    def deploy(self, content: bytes, name: str) -> Answer:
        blob = self.ask.upload(content, "package").json.get("blob", "")
        return self.noted(self.ask("POST", "/v1/programs", {"name": name, "package": blob}))

    def again(self, action: Callable[[], object], threads: int = 1, pause_s: float = 0.0) -> None:
        """Do something for ever, in so many threads."""

        def round_and_round() -> None:
            while True:
                try:
                    action()
                except (OSError, ValueError, KeyError, AssertionError) as error:
                    with self._lock:
                        self.answers[type(error).__name__] += 1
                    time.sleep(0.02)
                time.sleep(pause_s)

        for _ in range(threads - 1):
            threading.Thread(target=round_and_round, daemon=True).start()
        round_and_round()

    def hold(self, count: int, first: bytes, more: bytes = b"", every_s: float = 1.0, *, reads: bool = True) -> None:
        """Hold connections that send `first`, and then `more` again and again. One that is closed is opened anew."""

        async def one() -> None:
            while True:
                with suppress(OSError, asyncio.TimeoutError, asyncio.IncompleteReadError):
                    reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", self.target.port), 3.0)
                    self.answers["opened"] += 1
                    writer.write(first)
                    try:
                        await self._held(reader, writer, more, every_s, reads)
                    finally:
                        writer.close()
                await asyncio.sleep(0.02)

        async def all_of_them() -> None:
            await asyncio.gather(*(one() for _ in range(count)))

        asyncio.run(all_of_them())

    async def _held(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, more: bytes, every_s: float, reads: bool
    ) -> None:
        while True:
            if not reads:
                await asyncio.sleep(every_s)
            else:
                with suppress(asyncio.TimeoutError):
                    answer = await asyncio.wait_for(reader.read(1 << 16), every_s)
                    if not answer:
                        return
                    self.answers[answer[9:12].decode("latin-1")] += 1
            if more:
                writer.write(more)
                await asyncio.wait_for(writer.drain(), 60.0)

    def flood(self, count: int, content: bytes) -> None:
        """The same request on kept connections, one after the answer to the other."""

        async def one() -> None:
            while True:
                with suppress(OSError):
                    reader, writer = await asyncio.open_connection("127.0.0.1", self.target.port)
                    while True:
                        writer.write(content)
                        answer = await reader.read(1 << 20)
                        if not answer:
                            break
                        self.answers[answer[9:12].decode("latin-1")] += 1
                    writer.close()
                await asyncio.sleep(0.02)

        async def all_of_them() -> None:
            await asyncio.gather(*(one() for _ in range(count)))

        asyncio.run(all_of_them())


def _head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


# Strangers.
def half_bodies(mallory: Mallory) -> None:
    head = _head("POST", "/v1/jobs", "Content-Type: application/json", "Content-Length: 60000")
    mallory.hold(STRANGERS, head + b"x" * 100)


def half_bodies_bearer(mallory: Mallory) -> None:
    """The same with a token that looks like one."""
    wrong = f"Authorization: Bearer pst_{'0' * 16}_{'0' * 43}"
    mallory.hold(STRANGERS, _head("POST", "/v1/jobs", wrong, "Content-Length: 60000") + b"x" * 100)


def silent(mallory: Mallory) -> None:
    mallory.hold(STRANGERS, b"")


def slow_heads(mallory: Mallory) -> None:
    mallory.hold(STRANGERS, b"GET /v1/ready HTTP/1.1\r\nHost: x\r\n", b"X-A: b\r\n")


def handshakes(mallory: Mallory) -> None:
    """The first half of a client's hello, and nothing after it."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    mallory.hold(STRANGERS, hello[: len(hello) // 2])


def kept_alive(mallory: Mallory) -> None:
    health = _head("GET", "/v1/health")
    mallory.hold(STRANGERS, health, health, 2.0)


def unread(mallory: Mallory) -> None:
    """Answers that nobody fetches."""
    mallory.hold(STRANGERS // 4, _head("GET", "/openapi.json") * 50, reads=False)


def wrong_tokens(mallory: Mallory) -> None:
    mallory.flood(16, _head("GET", "/v1/jobs", f"Authorization: Bearer pst_{'0' * 16}_{'0' * 43}"))


def ready(mallory: Mallory) -> None:
    mallory.flood(16, _head("GET", "/v1/ready"))


# A tenant.
def backlog(mallory: Mallory) -> None:
    mallory.again(lambda: (mallory.submit("long"), mallory.submit("short")), threads=4)


def priority(mallory: Mallory) -> None:
    mallory.again(lambda: mallory.submit("short", priority=9), threads=4)


def deadlines(mallory: Mallory) -> None:
    mallory.again(lambda: mallory.submit("short", deadline_s=3.0), threads=4)


def long_jobs(mallory: Mallory) -> None:
    mallory.again(lambda: mallory.submit("long"), pause_s=0.5)


def compiling(mallory: Mallory) -> None:
    mallory.again(lambda: mallory.submit("overlong", deadline_s=5.0), pause_s=1.0)


def wide(mallory: Mallory) -> None:
    mallory.again(lambda: mallory.submit("wide"), pause_s=0.2)


def sets(mallory: Mallory) -> None:
    """A parameter set for each job."""

    def action() -> None:
        number = mallory.number()
        if mallory.deploy(tiny(number, mallory.target.folder, own_set=True), f"s{number}").status in (200, 201):
            mallory.submit(f"s{number}")

    mallory.again(action, threads=2)


def examinations(mallory: Mallory) -> None:
    def action() -> None:
        number = mallory.number()
        mallory.deploy(tiny(number, mallory.target.folder), f"p{number}")

    mallory.again(action, threads=12)


def half_uploads(mallory: Mallory) -> None:
    """Uploads that are announced, and come at a little more than the slowest rate."""
    names = []
    for number in range(64):
        digest = hashlib.sha256(str(number).encode()).hexdigest()
        form = {"kind": "input", "bytes": 1 << 30, "sha256": digest}
        begun = mallory.noted(mallory.ask("POST", "/v1/uploads", form)).json
        names += [begun["upload"]] if "upload" in begun else []
    held = f"Authorization: Bearer {mallory.target.token}"

    def one(name: str) -> None:
        with socket.create_connection(("127.0.0.1", mallory.target.port), 5) as sending:
            sending.sendall(_head("PUT", f"/v1/uploads/{name}?offset=0", held, f"Content-Length: {1 << 30}"))
            while True:
                sending.sendall(b"x" * 1300)
                time.sleep(1.0)

    taken = itertools.cycle(names)
    mallory.again(lambda: one(next(taken)), threads=len(names))


def results(mallory: Mallory) -> None:
    mallory.again(lambda: mallory.submit("outputs"), threads=2)


def requests(mallory: Mallory) -> None:
    """The most expensive questions, as fast as they are answered: lists of a thousand jobs."""
    for _ in range(1000):
        job = mallory.submit("short", deadline_s=0.1)
        if job.status not in (202, 429):
            break
    mallory.flood(16, _head("GET", "/v1/jobs", f"Authorization: Bearer {mallory.target.token}"))


def slow_requests(mallory: Mallory) -> None:
    """Questions that wait, and bodies that come slowly."""
    who = f"Authorization: Bearer {mallory.target.token}"
    waits = threading.Thread(
        target=mallory.hold,
        args=(STRANGERS // 2, *[_head("GET", "/v1/jobs?after=start&wait=60", who)] * 2, 30.0),
        daemon=True,
    )
    waits.start()
    body = _head("POST", "/v1/jobs", who, "Content-Type: application/json", "Content-Length: 60000")
    mallory.hold(STRANGERS // 2, body, b"x" * 1300)


def announced(mallory: Mallory) -> None:
    """Digests of others' content as one's own inputs."""
    taken = itertools.cycle(mallory.target.others)

    def action() -> None:
        sha256, size = next(taken)
        begun = mallory.ask("POST", "/v1/uploads", {"kind": "input", "bytes": size, "sha256": sha256})
        if "upload" in mallory.noted(begun).json:
            mallory.ask("DELETE", f"/v1/uploads/{begun.json['upload']}")

    mallory.again(action, threads=2)


def resubmitted(mallory: Mallory) -> None:
    """Jobs that are cancelled as soon as they are there, again and again."""

    def action() -> None:
        number = mallory.number()
        form = {"job": f"c{number}", "program": "short", "inputs": dict(mallory.target.inputs)}
        mallory.noted(mallory.ask("POST", "/v1/jobs", form))
        time.sleep(0.05)
        mallory.ask("DELETE", f"/v1/jobs/c{number}")

    mallory.again(action, threads=8)


def large_uploads(mallory: Mallory) -> None:
    """Bytes as fast as the disk takes them."""

    def action() -> None:
        content = os.urandom(16) * (1 << 20)
        begun = mallory.noted(mallory.ask.begin(content)).json["upload"]
        mallory.noted(mallory.ask("PUT", f"/v1/uploads/{begun}?offset=0", content))
        mallory.ask("DELETE", f"/v1/uploads/{begun}")

    mallory.again(action, threads=4)


def forgotten(mallory: Mallory) -> None:
    """A tenant that removes all that it has, and comes again."""

    def action() -> None:
        number = mallory.number()
        if mallory.deploy(tiny(number, mallory.target.folder), f"p{number}").status == 201:
            form = {
                "job": f"f{number}",
                "program": f"p{number}",
                "inputs": {"x": mallory.ask.upload(b"x").json["blob"]},
            }
            mallory.noted(mallory.ask("POST", "/v1/jobs", form))
        mallory.noted(mallory.ask("DELETE", "/v1/tenant"))

    mallory.again(action, threads=2)


def heavy_lists(mallory: Mallory) -> None:
    """Jobs with hundreds of inputs, and lists of them."""
    inputs = dict.fromkeys(INPUTS, mallory.target.inputs["x"])

    def action() -> None:
        form = {"job": f"h{mallory.number()}", "program": "inputs", "inputs": inputs, "deadline_s": 0.01}
        mallory.noted(mallory.ask("POST", "/v1/jobs", form))

    threading.Thread(target=mallory.again, args=(action, 8), daemon=True).start()
    mallory.flood(16, _head("GET", "/v1/jobs", f"Authorization: Bearer {mallory.target.token}"))


def removals(mallory: Mallory) -> None:
    """Keys that are to be removed while jobs with hundreds of inputs wait: each time a refusal."""
    inputs = dict.fromkeys(INPUTS, mallory.target.inputs["x"])

    def action() -> None:
        form = {"job": f"r{mallory.number()}", "program": "inputs", "inputs": inputs}
        mallory.noted(mallory.ask("POST", "/v1/jobs", form))

    threading.Thread(target=mallory.again, args=(action, 2), daemon=True).start()
    mallory.flood(40, _head("DELETE", "/v1/keys", f"Authorization: Bearer {mallory.target.token}"))


def heavy_descriptions(mallory: Mallory) -> None:
    """One package under many names, and questions for its description."""
    blob = hashlib.sha256((mallory.target.folder.parent / "names.pkg").read_bytes()).hexdigest()

    def action() -> None:
        mallory.noted(mallory.ask("POST", "/v1/programs", {"name": f"n{mallory.number()}", "package": blob}))
        mallory.noted(mallory.ask("GET", "/v1/programs"))

    mallory.again(action, threads=4)


STRANGE: tuple[Callable[[Mallory], None], ...] = (
    half_bodies, half_bodies_bearer, silent, slow_heads, handshakes, kept_alive, unread, wrong_tokens, ready,
)  # fmt: skip
NEEDS: Mapping[Callable[[Mallory], None], tuple[str, ...]] = {
    backlog: ("long", "short"), priority: ("short",), deadlines: ("short",), long_jobs: ("long",),
    compiling: ("overlong",), wide: ("wide",), sets: (), examinations: (), half_uploads: (), results: ("outputs",),
    requests: ("short",), slow_requests: (), announced: (), resubmitted: ("short",),
    large_uploads: (), forgotten: (), heavy_lists: ("inputs",), removals: ("inputs",), heavy_descriptions: ("names",),
}  # fmt: skip
"""Attacks of a tenant, and the programs that they use."""
ATTACKS = {each.__name__.replace("_", "-"): each for each in (*STRANGE, *NEEDS)}
TLS = ("handshakes",)
"""Attacks on a server with a certificate."""


def run(name: str, target: Target, said: Path) -> None:
    """Attack, and write the answers down now and then."""
    os.nice(SPARED)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    mallory = Mallory(target)

    def tell() -> None:
        while True:
            time.sleep(0.5)
            new = said.with_suffix(".new")
            new.write_text(json.dumps(dict(mallory.answers.copy())))
            new.replace(said)

    threading.Thread(target=tell, daemon=True).start()
    ATTACKS[name](mallory)


class Attacking:
    """An attack under way, while the context lasts."""

    def __init__(self, name: str, target: Target) -> None:
        self._said = target.folder / f"{name}.answers"
        self._process: BaseProcess = get_context("spawn").Process(target=run, args=(name, target, self._said))

    def __enter__(self) -> Attacking:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()

    def alive(self) -> bool:
        return self._process.is_alive()

    def answers(self) -> dict[str, int]:
        """Answer, or how a request failed -> how often."""
        try:
            found: dict[str, int] = json.loads(self._said.read_text())
        except (OSError, ValueError):
            return {}
        return found


def programs(folder: Path, names: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """The hostile packages of these names, made once."""
    for name in names:
        path = folder / f"{name}.pkg"
        if not path.exists():
            write_package(PACKAGES[name](), path)
        yield name, path
