"""A real service for the bench: a server with workers, a database, two tenants with keys, and a load of jobs."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from penstock.program.package.file import write_package
from penstock.runtime.client import Service
from penstock.scheme.params import catalogue
from support.postgres import Postgres
from support.serve_site import Answer, Caller
from support.service_jobs import LENGTH, package

PARAMS = catalogue.get("insecure-ci")
COMMAND = [sys.executable, "-c", "import sys; from penstock.front.cli.main import main; sys.exit(main())"]
PROGRAM = "turns"
ROTATIONS = 10
INPUTS = 4
"""Different inputs of the load's jobs."""
START_S = 30.0
WAIT_S = 30.0
"""The longest wait for anything that a kill delays."""
LIMITS = """
[limits]
requests_per_s = 1e6
tenant_requests = 250
unfinished_jobs = 10000
"""


class Asking(Caller):
    """A caller that waits for a service that is away."""

    tls: ssl.SSLContext | None = None
    """Of a service with a certificate."""

    def connection(self) -> http.client.HTTPConnection:
        if self.tls is None:
            return super().connection()
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=self.tls)

    def surely(self, method: str, path: str, body: Any = None, *, seconds: float = WAIT_S) -> Answer:
        """The answer to a request that is sent again while the service is away or refuses for now."""
        ends = time.monotonic() + seconds
        while True:
            try:
                answer = self(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                if time.monotonic() > ends:
                    raise TimeoutError(f"{method} {path}: no answer within {seconds:g} s ({error!r})") from error
            else:
                if answer.status not in (429, 503) or time.monotonic() > ends:
                    return answer
            time.sleep(0.02)


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Served:
    """The server. It keeps its ports over all its lives."""

    def __init__(self, folder: Path, postgres: Postgres | None, *, settings: str = LIMITS) -> None:
        self.folder, self.postgres = folder, postgres
        self.ports = free_port(), free_port()
        self.config, self.log = folder / "serve.toml", folder / "serve.log"
        self.configure(settings)
        self.operator = Asking(self.ports[1], None)
        self.process: subprocess.Popen[bytes] | None = None
        self.starts: list[tuple[float, float]] = []
        """Seconds until it was ready, and of them those of processor, of each start."""
        self.start()
        said = (folder / "said").read_text()
        found = re.search(r"operator, shown once: (\S+)", said)
        assert found, said
        self.operator.token = found[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    def configure(self, settings: str) -> None:
        """Write the configuration of the next start."""
        database = f'database = "{self.postgres.url}"\n' if self.postgres else ""
        listens = f'listen = "127.0.0.1:{self.ports[0]}"\nadmin = "127.0.0.1:{self.ports[1]}"\n'
        self.config.write_text(f'folder = "state"\n{listens}{database}{settings}')

    def start(self) -> float:
        """Start it; seconds until it is ready."""
        begun = time.monotonic()
        with (self.folder / "said").open("ab") as said:
            self.process = subprocess.Popen(
                [*COMMAND, "serve", "--config", str(self.config), "--log", str(self.log)],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip
        self.ready()
        took = time.monotonic() - begun
        self.starts.append((took, self.cpu_s()))
        return took

    def ready(self) -> None:
        """Wait until it takes jobs. Raises: RuntimeError: it ended, or does not within `START_S`."""
        asking, ends = Asking(self.ports[0], None), time.monotonic() + START_S
        asking.tls = self.operator.tls
        while True:
            with suppress(OSError, http.client.HTTPException):
                if asking("GET", "/v1/ready").status == 200:
                    return
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() > ends:
                raise RuntimeError(f"the server is not ready: {(self.folder / 'said').read_text()[-2000:]}")
            time.sleep(0.01)

    def cpu_s(self) -> float:
        """Seconds of processor that it has had."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """`kill -9`."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """SIGTERM; its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()
        return int(self.process.returncode)

    def memory(self) -> tuple[int, int]:
        """Resident bytes of the front, and of all processes that it started."""
        assert self.process is not None
        return resident_bytes(self.process.pid), sum(map(resident_bytes, children(self.process.pid)))

    def worker(self) -> int | None:
        """The process of a worker, where there is one."""
        found = self.operator.surely("GET", "/v1/work").json["workers"]
        return int(found[0]["pid"]) if found else None

    def token(self, tenant: str) -> str:
        """A token of a tenant, which is made where it is new."""
        self.operator("POST", "/v1/tenants", {"tenant": tenant})
        made = self.operator("POST", f"/v1/tenants/{tenant}/tokens", {"scopes": ["deploy", "keys", "run", "read"]})
        return str(made.json["token"])


class Tenant:
    """One tenant with its client's folder."""

    def __init__(self, served: Served, name: str, programs: Mapping[str, Path] | None = None) -> None:
        self.served, self.name = served, name
        self.folder = served.folder / name
        self.ask = Asking(served.ports[0], served.token(name))
        path = served.folder / "model.pkg"
        if not path.exists():
            write_package(package(PARAMS, rotations=ROTATIONS), path)
        with self.service() as service:
            for program, file in ({PROGRAM: path} if programs is None else programs).items():
                service.deploy(file, program)
                service.make_keys(program)

    def service(self) -> Service:
        assert self.ask.token is not None
        return Service(
            self.served.url, token=self.ask.token, folder=self.folder, allow_insecure=True, patience_s=WAIT_S
        )

    def upload(self) -> subprocess.Popen[bytes]:
        """`penstock client upload`, as a tenant runs it."""
        environment = {**os.environ, "PENSTOCK_SERVICE": self.served.url, "PENSTOCK_TOKEN": str(self.ask.token)}
        with (self.served.folder / f"{self.name}.said").open("wb") as said:
            return subprocess.Popen(
                [*COMMAND, "client", "upload", str(self.folder), "--program", PROGRAM, "--patience", f"{WAIT_S:g} s"],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment,
            )  # fmt: skip

    def said(self) -> str:
        return (self.served.folder / f"{self.name}.said").read_text("utf-8", "replace").strip()[-400:]


class Load(threading.Thread):
    """Submits jobs until it is stopped; what was accepted, and what was refused that should not be."""

    def __init__(self, ask: Asking, prefix: str, inputs: list[Mapping[str, str]], pause_s: float = 0.03) -> None:
        super().__init__(name="load", daemon=True)
        self._ask, self._prefix, self._inputs, self._pause_s = ask, prefix, inputs, pause_s
        self._stopped = threading.Event()
        self.accepted: dict[str, int] = {}
        """Job -> number of its inputs."""
        self.faults: list[str] = []

    def run(self) -> None:
        number = 0
        while not self._stopped.wait(self._pause_s):
            job, at = f"{self._prefix}-{number}", number % len(self._inputs)
            form = {"job": job, "program": PROGRAM, "inputs": dict(self._inputs[at])}
            try:
                answer = self._ask.surely("POST", "/v1/jobs", form)
            except TimeoutError as error:
                self.faults.append(str(error))
                return
            if answer.status in (200, 202):
                self.accepted[job] = at
            else:
                self.faults.append(f"job {job} was answered with {answer}")
            number += 1

    def stop(self) -> None:
        """Stop, once the job at hand was answered."""
        self._stopped.set()
        self.join(2 * WAIT_S)
        if self.is_alive():
            self.faults.append("the load does not stop")


class Whole:
    """Server, tenants, and the outputs of jobs that nothing disturbed."""

    def __init__(self, folder: Path, postgres: Postgres | None) -> None:
        self.served = Served(folder, postgres)
        try:
            self.alice, self.carol = (Tenant(self.served, name) for name in ("alice", "carol"))
            with self.alice.service() as service:
                service.upload_keys(PROGRAM)
                self.inputs = [self._prepared(service, number) for number in range(INPUTS)]
            self.expected = [self._reference(number) for number in range(INPUTS)]
            self.keys = len(self.alice.ask("GET", "/v1/keys").json["keys"])
        except BaseException:
            self.served.end()
            raise

    def _prepared(self, service: Service, number: int) -> Mapping[str, str]:
        rng = np.random.default_rng([number, 11])
        values = {name: rng.uniform(-1, 1, LENGTH) for name in ("x", "y")}
        files = service.prepare(PROGRAM, values, self.served.folder / f"inputs-{number}")
        return {name: self.alice.ask.upload(path.read_bytes()).json["blob"] for name, path in files.items()}

    def _reference(self, number: int) -> str:
        job = f"reference-{number}"
        form = {"job": job, "program": PROGRAM, "inputs": dict(self.inputs[number])}
        assert self.alice.ask("POST", "/v1/jobs", form).status == 202
        assert self.alice.ask.ended(job)["state"] == "done"
        return self.outputs(job)

    def outputs(self, job: str) -> str:
        """A digest of the outputs of a job."""
        found = hashlib.sha256()
        for name in ("total", "square"):
            answer = self.alice.ask.surely("GET", f"/v1/jobs/{job}/outputs/{name}")
            assert answer.status == 200, f"output {name} of {job}: {answer}"
            found.update(answer.body)
        return found.hexdigest()


def resident_bytes(pid: int) -> int:
    """Of a process; 0: it is gone."""
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmRSS"))) << 10
    return 0


def children(pid: int) -> list[int]:
    """Processes that a process started, and those that they started."""
    found: list[int] = []
    for each in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, each.read_text().split())
    return found + [below for each in found for below in children(each)]


def killed(pid: int) -> None:
    """`kill -9`, if it runs."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def until(true: Callable[[], object], seconds: float) -> bool:
    """Whether something holds within so many seconds."""
    ends = time.monotonic() + seconds
    while not true():
        if time.monotonic() > ends:
            return False
        time.sleep(0.005)
    return True
