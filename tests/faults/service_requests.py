"""Hostile requests to the service, from several connections at once, while honest jobs go on beside them.

    python tests/faults service_requests --count 1000000
    python tests/faults service_requests --count 1 --seed 137

No request may bring a status of 500 or above but a full quota (507), end the server, or let its memory grow. Honest
jobs beside them are done with the very words that they have without.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Queue, get_context
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from faults.frame import AT_MOST, Result
from faults.service_site import PROGRAM, Asking, Whole, resident_bytes
from faults.service_words import Drawn, Known, draw
from penstock.base.system.web import ServiceError

ANSWER_S = 20.0
MORE_BYTES = 64 << 20
"""The server may hold so much more than before the first request."""
PROCESSES = 2
"""That draw requests and read answers: one does not keep a server busy."""
PART = 200
"""Requests of a thread between two of its reports."""
MOST_FAULTS = 50
"""With more of them there is no need to go on."""
ALLOWED = {("507", "urn:penstock:quota")}
LATE_S = 15.0
"""A body that comes at one byte a second is refused within this."""


class Wire:
    """A connection that is kept, and opened again where it ends."""

    def __init__(self, port: int) -> None:
        self.port, self._socket, self._left = port, None, b""  # type: ignore[assignment]
        self._socket: socket.socket | None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._left = None, b""

    def asked(self, drawn: Drawn) -> list[tuple[int, dict[str, str], bytes]]:
        """The answers. A kept connection that the server closed meanwhile is opened anew.

        Raises: OSError: the connection broke; TimeoutError.
        """
        was_kept = self._socket is not None
        try:
            return self._asked(drawn)
        except ConnectionError:
            if not was_kept:
                raise
        self.close()
        return self._asked(drawn)

    def _asked(self, drawn: Drawn) -> list[tuple[int, dict[str, str], bytes]]:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_S)
        with suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(drawn.content)
            if not drawn.answers:
                self._socket.shutdown(socket.SHUT_WR)
        if not drawn.answers:
            answers = self._rest()
            self.close()
            return answers
        return [self._answer(drawn.headless) for _ in range(drawn.answers)]

    def _more(self) -> bytes:
        assert self._socket is not None
        return self._socket.recv(1 << 16)

    def _answer(self, headless: bool) -> tuple[int, dict[str, str], bytes]:
        while b"\r\n\r\n" not in self._left:
            piece = self._more()
            if not piece:
                raise ConnectionResetError("the connection was closed without an answer")
            self._left += piece
        head, _, self._left = self._left.partition(b"\r\n\r\n")
        status, headers = parsed(head)
        if status == 100:
            return self._answer(headless)
        size = 0 if headless else int(headers.get("content-length", "0"))
        while len(self._left) < size:
            piece = self._more()
            if not piece:
                raise ConnectionResetError("the answer was cut off")
            self._left += piece
        body, self._left = self._left[:size], self._left[size:]
        if headers.get("connection") == "close" or status == 400:
            self.close()
        return status, headers, body

    def _rest(self) -> list[tuple[int, dict[str, str], bytes]]:
        """All answers, until the server closes."""
        found = []
        with suppress(ConnectionResetError):
            while piece := self._more():
                self._left += piece
                if len(self._left) > 1 << 23:
                    break
        content = self._left
        while content.startswith(b"HTTP/1.1 ") and b"\r\n\r\n" in content:
            head, _, content = content.partition(b"\r\n\r\n")
            status, headers = parsed(head)
            size = int(headers.get("content-length", "0"))
            if content[:9] == b"HTTP/1.1 ":  # an answer to HEAD
                size = 0
            found.append((status, headers, content[:size]))
            content = content[size:]
        return found


def parsed(head: bytes) -> tuple[int, dict[str, str]]:
    """Status and headers."""
    lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines[1:])
    return int(lines[0].split(" ")[1]), {name.lower(): value.strip() for name, _, value in pairs}


def wrong(drawn: Drawn, status: int, headers: dict[str, str], body: bytes, hidden: tuple[bytes, ...]) -> str:
    """What is wrong with an answer; empty: nothing."""
    problem: dict[str, Any] = {}
    if headers.get("content-type") == "application/problem+json" and body:
        with suppress(ValueError):
            problem = json.loads(body)
    if status >= 500 and (str(status), problem.get("type")) not in ALLOWED:
        return f"status {status}: {body[:300]!r}"
    if status >= 400 and body and not problem.get("remedy") and body != b"Invalid HTTP request received.":
        return f"a refusal without a remedy: {status} {body[:200]!r}"
    if any(each in body for each in hidden):
        return f"the answer tells what is hidden: {body[:200]!r}"
    return ""


class Asker:
    """Connections that ask the requests of some seeds, one thread each, in a process of their own.

    Args:   tell: gets what each thread heard since it told last (kinds, statuses, the slowest, faults).
    """

    def __init__(
        self, ports: tuple[int, int], known: Known, hidden: tuple[bytes, ...], tell: Callable[[Heard], object]
    ):
        self._ports, self._known, self._hidden, self._tell = ports, known, hidden, tell

    def run(self, seeds: range, connections: int, ends_s: float) -> None:
        """Ask all of them, until `ends_s` of the monotonic clock."""
        numbers: SimpleQueue[range] = SimpleQueue()
        for at in range(seeds.start, seeds.stop, PART):
            numbers.put(range(at, min(at + PART, seeds.stop)))
        threads = [threading.Thread(target=self._ask, args=(numbers, ends_s), daemon=True) for _ in range(connections)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    def _ask(self, numbers: SimpleQueue[range], ends_s: float) -> None:
        wires = [Wire(port) for port in self._ports]
        while time.monotonic() < ends_s:
            try:
                part = numbers.get_nowait()
            except Empty:
                break
            heard = Heard()
            for seed in part:
                drawn = draw(self._known, seed)
                begun, said = time.monotonic(), ""
                try:
                    answers = wires[drawn.admin].asked(drawn)
                except TimeoutError:
                    answers, said = [], f"no answer within {ANSWER_S:g} s"
                except OSError as error:
                    wires[drawn.admin].close()
                    answers, said = [], "" if drawn.large or not drawn.answers else f"no answer: {error!r}"
                self._note(heard, seed, drawn, answers, said, time.monotonic() - begun)
            self._tell(heard)
        for wire in wires:
            wire.close()

    def _note(self, heard: Heard, seed: int, drawn: Drawn, answers: list[Any], said: str, took_s: float) -> None:
        for status, headers, body in answers:
            said = said or wrong(drawn, status, headers, body, self._hidden)
            if status == 201 and b'"upload"' in body:
                with suppress(ValueError):
                    self._known.uploads.append(json.loads(body)["upload"])
                del self._known.uploads[:-8]
        heard.kinds[drawn.kind] += 1
        heard.statuses.update(status for status, _, _ in answers)
        heard.slowest_s = max(heard.slowest_s, took_s)
        if said:
            notes = repr(drawn.content[:300])
            heard.faults.append(Result("service_requests", drawn.kind, seed, "asked", (said,), took_s, notes=notes))


@dataclass
class Heard:
    """What some requests were answered with."""

    kinds: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    slowest_s: float = 0.0
    faults: list[Result] = field(default_factory=list)


def _asking(
    ports: tuple[int, int], known: Known, hidden: tuple[bytes, ...], seeds: range, connections: int, ends_s: float,
    told: Queue[Heard | None],
) -> None:  # fmt: skip
    """A process that asks. It says `None` last."""
    Asker(ports, known, hidden, told.put).run(seeds, connections, ends_s)
    told.put(None)


class Attack:
    """Processes that ask; a thread of honest jobs; and what went wrong."""

    def __init__(self, site: Whole, known: Known) -> None:
        self.site, self.known = site, known
        self.faults: list[Result] = []
        self.kinds: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self.slowest_s, self.honest, self.slow_honest_s = 0.0, 0, 0.0
        self._ends = time.monotonic() + AT_MOST["seconds"]
        self._ended = threading.Event()
        self.hidden = (str(site.served.folder).encode(), b"Traceback", *(each.encode() for each in known.others[:0]))

    def run(self, seeds: range, connections: int) -> None:
        """Ask the requests of all seeds, from `PROCESSES` processes with so many connections together."""
        context = get_context("spawn")
        told: Queue[Heard | None] = context.Queue()
        share, ports = -(-len(seeds) // PROCESSES), self.site.served.ports
        asking = [
            context.Process(
                target=_asking,
                args=(ports, self.known, self.hidden, part, max(1, connections // PROCESSES), self._ends, told),
                daemon=True,
            )
            for part in (seeds[at : at + share] for at in range(0, len(seeds), share))
        ]
        for each in asking:
            each.start()
        left = len(asking)
        while left and len(self.faults) < MOST_FAULTS:
            heard = told.get(timeout=PART * ANSWER_S)
            if heard is None:
                left -= 1
            else:
                self._hear(heard)
        for each in asking:
            each.kill()
            each.join()

    def _hear(self, heard: Heard) -> None:
        self.kinds += heard.kinds
        self.statuses += heard.statuses
        self.slowest_s = max(self.slowest_s, heard.slowest_s)
        self.faults += heard.faults
        for each in heard.faults:
            print(each, flush=True)

    # Beside it.
    def honest_jobs(self) -> None:
        """Jobs of another tenant, each with the words of its reference, until `end`."""
        ask, number = Asking(self.site.served.ports[0], self.site.alice.ask.token), 0
        while not self._ended.wait(0.5):
            begun, at, job = time.monotonic(), number % len(self.site.inputs), f"honest-{number}"
            try:
                form = {"job": job, "program": PROGRAM, "inputs": dict(self.site.inputs[at])}
                answer = ask("POST", "/v1/jobs", form)
                state = ask.ended(job).get("state")
                if answer.status != 202 or state != "done" or self.site.outputs(job) != self.site.expected[at]:
                    self._honest_fault(f"an honest job was answered with {answer.status} and is {state}")
            except (OSError, ServiceError, AssertionError, http.client.HTTPException, ValueError) as error:
                self._honest_fault(f"an honest job: {error!r}"[:300])
            self.honest, self.slow_honest_s = number + 1, max(self.slow_honest_s, time.monotonic() - begun)
            number += 1

    def _honest_fault(self, said: str) -> None:
        if not self._ended.is_set():
            self.faults.append(Result("service_requests", "honest job", self.honest, "asked", (said,)))
            print(self.faults[-1], flush=True)

    def slow_bodies(self) -> None:
        """Bodies that come at one byte a second, and ones that never end, again and again until `end`."""
        token = self.site.served.token("slow")  # the tenant of the other requests may be removed at any time
        head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n".encode()
        while not self._ended.is_set():
            begun = time.monotonic()
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.site.served.ports[0]), 5) as slow:
                slow.settimeout(1.0)
                slow.sendall(head + b"Content-Length: 60000\r\n\r\n")
                answer = b""
                while not answer and not self._ended.is_set() and time.monotonic() - begun < 3 * LATE_S:
                    slow.sendall(b"x")
                    with suppress(TimeoutError):
                        answer = slow.recv(4096)
                if answer and not answer.startswith(b"HTTP/1.1 408"):
                    self._honest_fault(f"a body of one byte a second was answered with {answer[:100]!r}")
                elif not answer and not self._ended.is_set():
                    self._honest_fault("a body of one byte a second was not refused")
                took = time.monotonic() - begun
                if took > LATE_S and not self._ended.is_set():
                    self._honest_fault(f"a body of one byte a second was refused after {took:.1f} s")

    def end(self) -> None:
        self._ended.set()


class Memory(threading.Thread):
    """Looks at the server's memory until it is stopped. `asked`: how many requests there were."""

    def __init__(self, pid: int, asked: Callable[[], int]) -> None:
        super().__init__(name="memory", daemon=True)
        self._pid, self._asked, self._stopped = pid, asked, threading.Event()
        self.peak_bytes = resident_bytes(pid)
        self.course: list[tuple[int, int]] = []
        """Requests and MiB, at each doubling of the requests."""

    def now_bytes(self) -> int:
        return resident_bytes(self._pid)

    def run(self) -> None:
        while not self._stopped.wait(0.2):
            now, asked = self.now_bytes(), self._asked()
            self.peak_bytes = max(self.peak_bytes, now)
            if asked >= 2 * (self.course[-1][0] if self.course else 1):
                self.course.append((asked, now >> 20))

    def stop(self) -> None:
        self._stopped.set()
        self.join(5)


def known_of(site: Whole) -> Known:
    """The routes that the service describes, and the tokens of a hostile tenant."""
    served = site.served
    first = served.token("fuzz")

    def made(*scopes: str, lasts_s: float | None = None) -> str:
        form = {"scopes": list(scopes), "lasts_s": lasts_s}
        return str(served.operator("POST", "/v1/tenants/fuzz/tokens", form).json["token"])

    tokens = [first, *(made(scope) for scope in ("deploy", "keys", "run", "read"))]
    others = [made("read", lasts_s=0.001), first[:-1] + ("0" if first[-1] != "0" else "1"), "pst_" + "0" * 60]

    def routes(port: int) -> list[tuple[str, str]]:
        described = Asking(port, None)("GET", "/openapi.json").json["paths"]
        found = [(method.upper(), path) for path, methods in described.items() for method in methods]
        return [each for each in found if each[1] != "/v1/drain"]  # it is meant to end the server

    blob = dict(site.inputs[0])
    forms: dict[str, dict[str, Any]] = {
        "/v1/uploads": {"kind": "input", "bytes": 100, "sha256": "0" * 64, "name": "relin", "params": PROGRAM},
        "/v1/programs": {"name": "p", "package": "0" * 64},
        "/v1/jobs": {"job": "j", "program": PROGRAM, "inputs": blob, "priority": 1, "deadline_s": 1.0},
        "/v1/tenants": {"tenant": "t"},
        "/v1/tenants/{tenant}/tokens": {"scopes": ["read"], "lasts_s": 1.0},
        "/v1/tenants/{tenant}/tokens/{identity}/rotate": {"overlap_s": 0.0},
    }
    return Known(routes(served.ports[0]), routes(served.ports[1]), tokens, others, str(served.operator.token), forms)


def attacked(site: Whole, seeds: range, connections: int) -> tuple[list[Result], str]:
    """Ask the requests of these seeds; faults and one result a kind, and what was measured in a sentence."""
    attack = Attack(site, known_of(site))
    assert site.served.process is not None
    memory = Memory(site.served.process.pid, attack.kinds.total)
    begun, before = time.monotonic(), memory.now_bytes()
    beside = [threading.Thread(target=each, daemon=True) for each in (attack.honest_jobs, attack.slow_bodies)]
    for each in beside:
        each.start()
    memory.start()
    attack.run(seeds, connections)
    took = time.monotonic() - begun
    attack.end()
    for each in beside:
        each.join(60)
    memory.stop()
    after = memory.now_bytes()
    results = [*attack.faults]
    results += [Result("service_requests", kind, seeds.start, "asked", cases=n) for kind, n in attack.kinds.items()]
    found = []
    if site.served.process.poll() is not None:
        found.append(f"the server ended with {site.served.process.returncode}")
    if memory.peak_bytes - before > MORE_BYTES:
        found.append(f"the server held {memory.peak_bytes >> 20} MiB, {before >> 20} MiB at the start")
    with site.served.log.open() as lines:
        if failed := [line for line in lines if '"event": "failure"' in line][:3]:
            found.append(f"the log tells of failures: {failed}")
    if attack.honest == 0:
        found.append("no honest job ran beside it")
    results.append(Result("service_requests", "process", seeds.start, "stands", tuple(found), cases=0))
    count = attack.kinds.total()
    said = (
        f"{count} requests in {took:.0f} s ({count / took:.0f} a second), memory {before >> 20} MiB before, "
        f"{memory.peak_bytes >> 20} MiB at most, {after >> 20} MiB after (requests, MiB: {memory.course}); "
        f"slowest {attack.slowest_s:.2f} s; {attack.honest} honest jobs, the slowest {attack.slow_honest_s:.2f} s; "
        f"statuses {dict(sorted(attack.statuses.items()))}"
    )
    return results, said


def bench(folder: Path, count: int, seed: int, jobs: int) -> list[Result]:
    """Ask `count` requests from the seed on, over some connections."""
    site = Whole(folder, None)
    try:
        results, said = attacked(site, range(seed, seed + count), 4 * max(1, jobs))
        print(f"  {said}")
    finally:
        code = site.served.end()
    if code != 0:
        results.append(Result("service_requests", "the end", seed, "ended", (f"exit code {code}",), cases=0))
    return results
