"""A server of the service in a process of its own, with computing that is not real, and a client without a library."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import ConstantsInMemory, Input, Output, Package, Verb
from penstock.program.package.file import write_package
from penstock.program.package.replay import with_keys
from penstock.scheme.params import catalogue

PARAMS = catalogue.get("openfhe-demo")


def small_package(*, keys: bool) -> Package:
    """x + 1, or x rotated by one, which needs a key."""
    builder = PackageBuilder(ConstantsInMemory())
    x = builder.encrypt(Input("x", 8))
    y = builder.add(Verb.ROTATE, [x], argument=1) if keys else builder.add(Verb.ADD_SCALAR, [x], number=1.0)
    builder.output(y, Output("y/1", 8))
    package = Package(
        name="small",
        params=PARAMS,
        inputs=tuple(builder._inputs),
        outputs=tuple(builder._outputs),
        instructions=builder._instructions,
    )
    return with_keys(package)


def package_bytes(folder: Path, *, keys: bool = False) -> bytes:
    """The file of it."""
    path = folder / f"small-{keys}.pkg"
    if not path.exists():
        write_package(small_package(keys=keys), path)
    return path.read_bytes()


def long_package(path: Path, operations: int = 60_000) -> Path:
    """A program of so many rotations, which takes seconds to examine."""
    constants = ConstantsInMemory()
    builder = PackageBuilder(constants)
    x = builder.encrypt(Input("x", 8))
    for _ in range(operations):
        x = builder.add(Verb.ROTATE, [x], argument=1)
    builder.output(x, Output("y", 8))
    write_package(builder.finish("long", catalogue.get("insecure-small"), constants), path)
    return path


class Answer:
    """Status, headers and body."""

    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"{self.status} {self.body[:400]!r}"


class Caller:
    """One token at one address."""

    def __init__(self, port: int, token: str | None) -> None:
        self.port, self.token = port, token

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = self.connection()
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            if self.token is not None:
                sent["authorization"] = f"Bearer {self.token}"
            if isinstance(body, dict | list):
                body, sent["content-type"] = json.dumps(body).encode(), "application/json"
            connection.request(method, path, body, sent)
            found = connection.getresponse()
            return Answer(found.status, found.headers, found.read())
        finally:
            connection.close()

    def connection(self) -> http.client.HTTPConnection:
        """A new one."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def begin(self, content: bytes, kind: str = "input", **more: Any) -> Answer:
        """Begin an upload."""
        digest = hashlib.sha256(content).hexdigest()
        return self("POST", "/v1/uploads", {"kind": kind, "bytes": len(content), "sha256": digest, **more})

    def upload(self, content: bytes, kind: str = "input", **more: Any) -> Answer:
        """A whole upload; the answer of its commit."""
        begun = self.begin(content, kind, **more)
        if "upload" not in begun.json:
            return begun
        name = begun.json["upload"]
        assert self("PUT", f"/v1/uploads/{name}?offset=0", content).status == 200
        return self("POST", f"/v1/uploads/{name}/commit")

    def deploy(self, folder: Path, name: str = "small", *, keys: bool = False) -> Answer:
        """Send a package and deploy it."""
        blob = self.upload(package_bytes(folder, keys=keys), "package").json["blob"]
        return self("POST", "/v1/programs", {"name": name, "package": blob})

    def ended(self, job: str, wait_s: float = 20) -> Any:
        """The job when it ended."""
        return self("GET", f"/v1/jobs/{job}?wait={wait_s}").json


class Site:
    """A server process. `kill` is kill -9. `window_s`: how soon a body shows its rate."""

    def __init__(
        self,
        folder: Path,
        *,
        hold: bool = False,
        settings: str = "",
        database: str = "",
        batch: int = 0,
        window_s: float | None = None,
    ) -> None:
        self.folder, self.hold, self.batch = folder, hold, batch
        self.window = {} if window_s is None else {"FAKE_WINDOW_S": str(window_s)}
        self.config = folder / "serve.toml"
        place = f'database = "{database}"\n' if database else ""
        text = f'folder = "state"\nlisten = "127.0.0.1:0"\nadmin = "127.0.0.1:0"\n{place}{settings}'
        self.config.write_text(text)
        self.operator_token = ""
        self.start()

    def start(self) -> None:
        """Start it, and wait until it listens."""
        mode = str(self.batch) if self.batch else "hold" if self.hold else "instant"
        environment = {**os.environ, "FAKE_COMPUTING": mode, **self.window}
        log = (self.folder / "serve.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("fake_computing.py")), str(self.config)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
        )
        log.close()
        self.said: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.strip())
            if found := re.fullmatch(r"token of the operator, shown once: (\S+)", line.strip()):
                self.operator_token = found[1]
            if line.startswith("operators: "):
                break
        else:
            raise AssertionError(f"the server did not start: {(self.folder / 'serve.log').read_text()[-2000:]}")
        self.ports = [
            int(line.rpartition(":")[2]) for line in self.said if line.startswith(("tenants: ", "operators: "))
        ]
        self.operator = Caller(self.ports[1], self.operator_token)

    def tenant(self, name: str, *scopes: str, lasts_s: float | None = None) -> Caller:
        """A token of a tenant, which is made where it is new."""
        self.operator("POST", "/v1/tenants", {"tenant": name})
        form = {"scopes": list(scopes or ("deploy", "keys", "run", "read")), "lasts_s": lasts_s}
        made = self.operator("POST", f"/v1/tenants/{name}/tokens", form)
        assert made.status == 201, made
        return Caller(self.ports[0], made.json["token"])

    def again(self, caller: Caller) -> Caller:
        """The same token at the present address."""
        return Caller(self.ports[0], caller.token)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        assert self.process.stdout is not None
        self.said += [line.strip() for line in self.process.stdout]
        self.process.stdout.close()
        return self.process.wait(30)

    def log(self) -> str:
        return (self.folder / "serve.log").read_text()


def eventually(check: Any, seconds: float = 10) -> None:
    """Wait until something holds."""
    ends = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < ends
        time.sleep(0.02)


def random_bytes(count: int, seed: int = 0) -> bytes:
    """The same for the same seed."""
    return np.random.default_rng(seed).bytes(count)
