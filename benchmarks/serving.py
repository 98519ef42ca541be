"""Parts of the benchmarks of `penstock serve`: a server process, its tenants, requests on loopback, results as JSON."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from penstock.base.system.files import write_atomic
from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import ConstantsInMemory, Input, Output, Package, Verb
from penstock.scheme.params.ckks import CkksParameters

START_S = 120.0
HOST = "127.0.0.1"


class Refused(Exception):
    """The service refused a request."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {problem}")
        self.status, self.problem = status, problem


class Caller:
    """Requests with one token. A connection is kept while it is used often."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._headers = port, {"authorization": f"Bearer {token}"}
        self._connection: http.client.HTTPConnection | None = None
        self._used = 0.0

    def raw(self, method: str, path: str, body: Any = None, timeout_s: float = 900.0) -> bytes:
        """The content of a good answer. Raises: Refused; OSError."""
        headers = dict(self._headers)
        if isinstance(body, dict):
            body, headers["content-type"] = json.dumps(body).encode(), "application/json"
        now = time.monotonic()
        if self._connection is None or now - self._used > 2.0:  # the server closes connections that rest for 5 s
            self.close()
            self._connection = http.client.HTTPConnection(HOST, self._port, timeout=timeout_s)
        try:
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            content = answer.read()
        except BaseException:
            self.close()
            raise
        if answer.will_close:
            self.close()
        self._used = time.monotonic()
        if answer.status >= 300:
            with suppress(ValueError):
                raise Refused(answer.status, json.loads(content))
            raise Refused(answer.status, {"detail": content[:200].decode("utf-8", "replace")})
        return content

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        """The answer, from JSON."""
        return json.loads(self.raw(method, path, body))

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def upload(self, content: bytes, kind: str = "input", **more: Any) -> str:
        """Send a small file; its SHA-256."""
        digest = hashlib.sha256(content).hexdigest()
        begun = self("POST", "/v1/uploads", {"kind": kind, "bytes": len(content), "sha256": digest, **more})
        if "upload" in begun:
            self("PUT", f"/v1/uploads/{begun['upload']}?offset=0", content)
            self("POST", f"/v1/uploads/{begun['upload']}/commit")
        return digest


class Server:
    """`penstock serve` in a process of its own. The operator's token is kept in the folder, for the next start."""

    def __init__(self, folder: Path, settings: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "serve.toml"
        config.write_text(f'folder = "state"\nlisten = "{HOST}:0"\nadmin = "{HOST}:0"\n{settings}')
        command = [sys.executable, "-c", "import sys; from penstock.front.cli.main import main; sys.exit(main())"]
        with (folder / "serve.err").open("ab") as errors:
            self.process = subprocess.Popen(
                [*command, "serve", "--config", str(config), "--log", str(folder / "serve.log")],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        assert self.process.stdout is not None
        said = ""
        for line in self.process.stdout:
            said += line
            if line.startswith("operators: "):
                break
        ports = re.findall(rf"http://{HOST}:(\d+)", said)
        if len(ports) != 2:
            self.end()
            raise SystemExit(f"the server did not start: {(folder / 'serve.err').read_text()[-2000:]}")
        self.port, self.admin_port = map(int, ports)
        kept = folder / "operator.token"
        if found := re.search(r"token of the operator, shown once: (\S+)", said):
            write_atomic(kept, found[1].encode(), force=True, mode=0o600)
        self.operator = Caller(self.admin_port, kept.read_text())

    def tenant(self, name: str) -> Caller:
        """A new token of a tenant, which is made where it is missing."""
        return Caller(self.port, self.tenant_token(name))

    def tenant_token(self, name: str) -> str:
        """The text of a new token."""
        with suppress(Refused):
            self.operator("POST", "/v1/tenants", {"tenant": name})
        form = {"scopes": ["deploy", "keys", "run", "read"]}
        return str(self.operator("POST", f"/v1/tenants/{name}/tokens", form)["token"])

    def memory(self) -> dict[str, int]:
        """Bytes of the front process: `now` and `peak`. Memory that is backed by files is not in it."""
        found = {}
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in ("VmHWM", "VmRSS"):
                found["peak" if name == "VmHWM" else "now"] = int(rest.split()[0]) * 1024
        return found

    def forget_peak(self) -> None:
        """Let the peak begin anew."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def end(self) -> None:
        """Stop it; one that does not end is killed."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def served(folder: Path, settings: str) -> Iterator[Server]:
    """A server for that long."""
    server = Server(folder, settings)
    try:
        yield server
    finally:
        server.end()


def rotations(params: CkksParameters, last: int, *, name: str, first: int = 1, repeats: int = 1) -> Package:
    """`repeats` times the sum of a vector and its rotations by `first` to `last`; then a square."""
    builder = PackageBuilder(ConstantsInMemory())
    total = builder.encrypt(Input("x", params.slots))
    for _ in range(repeats):
        start = total
        for step in range(first, last + 1):
            total = builder.add(Verb.ADD, [total, builder.add(Verb.ROTATE, [start], argument=step)])
    builder.output(builder.add(Verb.SQUARE, [total]), Output("y", params.slots))
    return builder.finish(name, params, ConstantsInMemory())


class Results:
    """Figures in a JSON file, which is written after each."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.found: dict[str, Any] = json.loads(path.read_text()) if path is not None and path.exists() else {}

    def put(self, **figures: Any) -> None:
        """Add figures, or replace them."""
        self.found |= figures
        if self._path is not None:
            write_atomic(self._path, json.dumps(self.found, indent=1).encode(), force=True)


def progress(text: str) -> None:
    """One line on stderr, over the last one where that is a terminal."""
    end = "\r" if sys.stderr.isatty() else "\n"
    print(f"{text:<100}", end=end, file=sys.stderr, flush=True)


class Often:
    """Calls at most once in so many seconds."""

    def __init__(self, every_s: float = 5.0) -> None:
        self._every_s, self._last = every_s, 0.0

    def __call__(self, text: Callable[[], str]) -> None:
        """Show progress, if it is time."""
        if time.monotonic() - self._last >= self._every_s:
            self._last = time.monotonic()
            progress(text())
