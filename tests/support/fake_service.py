"""A small, strict service of the HTTP interface (docs/guides/serve.md) with faults, for the client's tests.

It computes nothing: a job's outputs are its inputs, in order. Everything that a client sends is held against the rules.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from penstock.program.package.file import open_package
from penstock.runtime.keystore import KeyStore, is_segment, parameter_digest

TOKEN = "tenant-token-0123456789abcdef"
SERVER_TIMES = {"submitted_s": 100.0, "started_s": 101.0, "ended_s": 103.5}
EXPIRED = "tenant-token-of-last-year"


class Problem(Exception):
    """An answer of RFC 9457."""

    def __init__(
        self, status: int, title: str, detail: str = "", *, retry_after: str | None = None, **more: Any
    ) -> None:
        super().__init__(title)
        self.status, self.retry_after = status, retry_after
        self.content = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}


class FakeService:
    """State and faults of the service.

    `cut_after`: a connection ends in the middle of the body of an upload once so many bytes arrived in all; each number
    is used once. `busy`: the next answers are 503 with this `Retry-After`. `lost`: for (method, pattern), the request
    is carried out and its answer never sent, once.
    """

    def __init__(self, folder: Path, tenant: str = "alice") -> None:
        self.tenant, self.folder = tenant, folder
        self.store = KeyStore(folder / "store")
        self.blobs: dict[str, bytes] = {}
        self.uploads: dict[str, dict[str, Any]] = {}
        self.programs: dict[str, dict[str, Any]] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.ended: list[dict[str, Any]] = []
        self.forgets = 0
        """So often does the feed of ended jobs say that something is missing."""
        self.keys: dict[str, int] = {}
        self.pair: str | None = None
        self.cut_after: list[int] = []
        self.cuts = 0
        self.busy: list[str] = []
        self.lost: list[tuple[str, str]] = []
        self.still_writing = 0
        """So often is a piece after a cut refused, since the one that was cut off is still being written."""
        self.slow_s = 0.0
        self.polls_before_done = 1
        self.end_state = "done"
        self.garbage: bytes | None = None
        """What results are, instead of ciphertexts."""
        self.received = 0
        """Bytes of bodies of uploads."""
        self.requests: list[tuple[str, str]] = []
        self.statuses: Counter[int] = Counter()
        self.mutex = threading.RLock()
        self.url = ""

    def deploy(self, name: str, sha256: str) -> dict[str, Any]:
        if sha256 not in self.blobs:
            raise Problem(422, "no such package", f"{sha256} was not uploaded")
        path = self.folder / f"{sha256}.pkg"
        path.write_bytes(self.blobs[sha256])
        package = open_package(path)
        self.programs[name] = {
            "name": name,
            "inputs": [
                {"name": each.name, "length": each.length, "limbs": each.limbs, "complex": False}
                for each in package.inputs
            ],
            "outputs": [{"name": each.name, "length": each.length} for each in package.outputs],
            "params": package.params.to_dict(),
            "keys": [{"key": key, "limbs": limbs, "bytes": 0} for key, limbs in package.keys.items()],
        }
        self.programs[name]["package"] = package
        return self.described(name)

    def described(self, name: str) -> dict[str, Any]:
        if name not in self.programs:
            raise Problem(404, "no such program", name)
        return {key: value for key, value in self.programs[name].items() if key != "package"}

    def needed(self, name: str) -> dict[str, Any]:
        needed = self.described(name)["keys"]
        lacking = [each for each in needed if self.keys.get(each["key"], 0) < each["limbs"]]
        return {"needed": needed, "lacking": lacking, "pair": self.pair, "tenant": self.tenant}

    def begin(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if not re.fullmatch("[0-9a-f]{64}", str(asked.get("sha256"))) or not isinstance(asked.get("bytes"), int):
            raise Problem(400, "an upload has bytes and sha256")
        if asked.get("kind") not in ("package", "key", "input", "ciphertext"):
            raise Problem(400, "unknown kind", str(asked.get("kind")))
        if asked["kind"] == "key" and asked.get("params") not in self.programs:
            raise Problem(422, "a key is for a program", str(asked.get("params")))
        if asked["sha256"] in self.blobs:
            return 200, {"blob": asked["sha256"]}
        upload = f"u{len(self.uploads)}"
        self.uploads[upload] = {**asked, "content": bytearray()}
        return 201, {"upload": upload, "offset": 0}

    def upload(self, name: str) -> dict[str, Any]:
        if name not in self.uploads:
            raise Problem(404, "no such upload", name)
        return self.uploads[name]

    def commit(self, name: str) -> dict[str, Any]:
        found = self.upload(name)
        content = bytes(found["content"])
        if len(content) != found["bytes"]:
            raise Problem(409, "an upload that is not whole", f"{len(content)} of {found['bytes']} bytes")
        if hashlib.sha256(content).hexdigest() != found["sha256"]:
            raise Problem(422, "wrong digest", remedy="Send the file again.")
        if found["kind"] == "key":
            self.import_key(content, found["params"])
        del self.uploads[name]
        if found["kind"] == "key":  # it is the tenant's, and no blob any more
            return {"blob": found["sha256"], "kind": "key"}
        self.blobs[found["sha256"]] = content
        return {"blob": found["sha256"], "kind": found["kind"]}

    def import_key(self, content: bytes, program: str) -> None:
        path = self.folder / "one.pkey"
        path.write_bytes(content)
        assert is_segment(path)
        params = self.programs[program]["package"].params
        name = self.store.import_segment(path, tenant=self.tenant, params=params).name
        stored = self.store.key(name)
        assert name.digest == parameter_digest(params)
        assert stored.form in ("seeded", "seeded+truncated")
        self.keys[name.key], self.pair = stored.limbs, stored.secret_tag

    def submit(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if not {"job", "program", "inputs", "priority"} <= asked.keys():
            raise Problem(400, "a job has job, program, inputs and priority")
        if lacking := self.needed(asked["program"])["lacking"]:
            raise Problem(424, "keys are lacking", ", ".join(each["key"] for each in lacking), lacking=lacking)
        program = self.described(asked["program"])
        if set(asked["inputs"]) != {each["name"] for each in program["inputs"]}:
            raise Problem(422, "other inputs than the program's")
        if missing := [blob for blob in asked["inputs"].values() if blob not in self.blobs]:
            raise Problem(422, "no such blob", missing[0])
        known = self.jobs.get(asked["job"])
        if known is not None:
            if known["asked"] != asked:
                raise Problem(409, "the job is there with other content")
            return 200, {"job": asked["job"], "state": known["state"]}
        self.jobs[asked["job"]] = {"asked": asked, "state": "queued", "polls": 0}
        return 202, {"job": asked["job"], "state": "queued"}

    def poll(self, name: str) -> dict[str, Any]:
        if name not in self.jobs:
            raise Problem(404, "no such job", name)
        job = self.jobs[name]
        job["polls"] += 1
        if job["polls"] >= self.polls_before_done and job["state"] == "queued":
            job["state"] = self.end_state
            self.ended.append({"job": name, "state": job["state"], **SERVER_TIMES})
        return {"job": name, "state": job["state"], **SERVER_TIMES}

    def feed(self, after: str) -> dict[str, Any]:
        """The jobs that ended after a cursor: the place in the list of ends."""
        for name in [name for name, job in self.jobs.items() if job["state"] == "queued"]:
            self.poll(name)
        missed = not after.isdigit() or self.forgets > 0
        self.forgets -= self.forgets > 0
        told = [] if missed else self.ended[int(after) : int(after) + 1000]
        cursor = len(self.ended) if missed else int(after) + len(told)
        return {"jobs": told, "after": str(cursor), "missed": missed}

    def output(self, name: str, output: str) -> bytes:
        job = self.jobs.get(name)
        if job is None or job["state"] != "done":
            raise Problem(404, "no such result")
        program = self.described(job["asked"]["program"])
        at = [each["name"] for each in program["outputs"]].index(output)
        content = self.blobs[job["asked"]["inputs"][program["inputs"][at]["name"]]]
        return content if self.garbage is None else self.garbage


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    service: FakeService

    def log_message(self, *_: Any) -> None:
        """Nothing: a log would hold tokens."""

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.answer()

    def do_PUT(self) -> None:
        self.answer()

    def do_DELETE(self) -> None:
        self.answer()

    def answer(self) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        with self.service.mutex:
            self.service.requests.append((self.command, parts.path))
        try:
            self.admit(length)
            answer = self.routed(parts.path, parse_qs(parts.query), length)
        except Problem as problem:
            self.send(problem.status, problem.content, problem.retry_after)
            return
        except ConnectionAbortedError:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        for each in self.service.lost:
            if each[0] == self.command and re.fullmatch(each[1], parts.path):
                self.service.lost.remove(each)
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
        self.send(*answer)

    def admit(self, length: int) -> None:
        shown = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.service.busy:
            self.rfile.read(length)
            raise Problem(503, "busy", retry_after=self.service.busy.pop(0))
        if shown != TOKEN:
            self.rfile.read(length)
            detail = f"token {shown} ended" if shown == EXPIRED else ""  # a service that repeats it would be wrong
            raise Problem(401, "no token of this service", detail, remedy="Ask for a new one.")

    def routed(self, path: str, query: dict[str, list[str]], length: int) -> tuple[int, Any]:
        service, words = self.service, [unquote(word) for word in path.split("/")[2:]]
        if self.command == "PUT":
            return self.put(service.upload(words[1]), int(query["offset"][0]), length)
        body = self.rfile.read(length)
        asked = json.loads(body) if body else {}
        with service.mutex:
            match self.command, words:
                case "POST", ["uploads"]:
                    return service.begin(asked)
                case "GET", ["uploads", name]:
                    found = service.upload(name)
                    return 200, {"offset": len(found["content"]), "bytes": found["bytes"]}
                case "POST", ["uploads", name, "commit"]:
                    return 200, service.commit(name)
                case "POST", ["programs"]:
                    return 201, service.deploy(asked["name"], asked["package"])
                case "GET", ["programs"]:
                    return 200, {"programs": [service.described(name) for name in service.programs]}
                case "GET", ["programs", name]:
                    return 200, service.described(name)
                case "GET", ["programs", name, "keys"]:
                    return 200, service.needed(name)
                case "POST", ["jobs"]:
                    return service.submit(asked)
                case "GET", ["jobs"]:
                    return 200, service.feed(query["after"][0])
                case "GET", ["keys"]:
                    rows = [{"key": key, "limbs": limbs, "bytes": 1000} for key, limbs in service.keys.items()]
                    return 200, {"keys": rows}
                case "DELETE", ["keys"]:
                    removed, service.keys, service.pair = len(service.keys), {}, None
                    return 200, {"removed": removed}
                case "DELETE", ["tenant"]:
                    removed, service.keys, service.pair = len(service.keys), {}, None
                    service.programs.clear()
                    return 200, {"removed": {"keys": removed}, "remains": "backups"}
                case "GET", ["jobs", name]:
                    return 200, service.poll(name)
                case "GET", ["jobs", name, "outputs", output]:
                    return 200, service.output(name, output)
        raise Problem(404, "no such route", path)

    def put(self, upload: dict[str, Any], offset: int, length: int) -> tuple[int, Any]:
        service, content = self.service, upload["content"]
        if service.still_writing and service.cuts:
            service.still_writing -= 1
            self.rfile.read(length)
            raise Problem(409, "another piece of this upload is arriving")
        if offset != len(content):
            self.rfile.read(length)
            raise Problem(409, "another offset", f"the upload is at {len(content)}")
        while length:
            piece = self.rfile.read(min(length, 1 << 16))
            if not piece:
                raise ConnectionAbortedError
            with service.mutex:
                content += piece
                length -= len(piece)
                service.received += len(piece)
                if service.cut_after and service.received >= service.cut_after[0]:
                    service.cut_after.pop(0)
                    service.cuts += 1
                    raise ConnectionAbortedError
            time.sleep(service.slow_s)
        return 200, {"offset": len(content)}

    def send(self, status: int, content: Any, retry_after: str | None = None) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        kind = "application/problem+json" if status >= 400 else "application/json"
        self.service.statuses[status] += 1
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream" if isinstance(content, bytes) else kind)
        self.send_header("Content-Length", str(len(body)))
        if retry_after is not None:
            self.send_header("Retry-After", retry_after)
        self.end_headers()
        self.wfile.write(body)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed."""


@contextmanager
def fake_service(folder: Path, certificate: tuple[Path, Path] | None = None) -> Iterator[FakeService]:
    """A service at `url`, until the block ends. `certificate`: with its key, for TLS."""
    service = FakeService(folder)
    handler = type("OneHandler", (Handler,), {"service": service})
    with _Server(("127.0.0.1", 0), handler) as server:
        if certificate is not None:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(*certificate)
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        service.url = f"http{'' if certificate is None else 's'}://127.0.0.1:{server.server_address[1]}"
        try:
            yield service
        finally:
            server.shutdown()
            thread.join()
