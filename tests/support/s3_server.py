"""A server that speaks S3's protocol, on the loopback interface; and a wire on which bytes are counted."""

from __future__ import annotations

import os
import re
import shutil
import socket
import socketserver
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

INSTALL = "python -m venv moto && moto/bin/pip install 'moto[s3,server]>=5.2.5', and put moto/bin on PATH"


def program() -> str | None:
    """moto's server, where it is installed."""
    return shutil.which(os.environ.get("PENSTOCK_MOTO_SERVER", "moto_server"))


class Server:
    """One running server."""

    def __init__(self, port: int, log: Path) -> None:
        self.port, self.log = port, log

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def send(self, method: str, path: str, body: bytes | None = None, service: str = "s3") -> bytes:
        """One request without a signature; the header says which of Amazon's services it is for."""
        scope = (
            f"AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/{service}/aws4_request, SignedHeaders=host, Signature=x"
        )
        request = urllib.request.Request(f"{self.url}/{path}", data=body, method=method)
        request.add_header("Authorization", scope)
        if service == "s3":
            request.add_header("Content-Type", "application/octet-stream")
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.read()

    def access_key(self) -> tuple[str, str]:
        """A user that may do everything, and its credentials: three of the requests that need no signature."""
        policy = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}'
        for call in (
            "Action=CreateUser&UserName=u",
            f"Action=PutUserPolicy&UserName=u&PolicyName=p&PolicyDocument={urllib.request.quote(policy)}",
        ):
            self.send("POST", "", f"{call}&Version=2010-05-08".encode(), service="iam")
        answer = self.send("POST", "", b"Action=CreateAccessKey&UserName=u&Version=2010-05-08", service="iam").decode()
        found = [re.search(f"<{name}>(.*?)</{name}>", answer) for name in ("AccessKeyId", "SecretAccessKey")]
        assert all(found), answer
        return found[0][1], found[1][1]

    def answered(self, pattern: str) -> int:
        """Requests in the log that match."""
        colours = re.compile(r"\x1b\[[0-9;]*m")
        return len(re.findall(pattern, colours.sub("", self.log.read_text())))


@contextmanager
def serve(folder: Path, unsigned: int | None = None) -> Iterator[Server]:
    """Run the server; with `unsigned`, requests after so many need credentials that it knows."""
    executable = program()
    assert executable is not None
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environ = dict(os.environ)
    if unsigned is not None:
        environ["INITIAL_NO_AUTH_ACTION_COUNT"] = str(unsigned)
    server = Server(port, folder / f"server-{port}.log")
    with server.log.open("wb") as log:
        process = subprocess.Popen(
            [executable, "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=subprocess.STDOUT, env=environ
        )
    try:
        deadline = time.monotonic() + 60
        while not _listens(port):
            assert process.poll() is None, server.log.read_text()
            assert time.monotonic() < deadline, "the server did not start within a minute"
            time.sleep(0.1)
        yield server
    finally:
        process.terminate()
        process.wait(20)


def _listens(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Wire(socketserver.ThreadingTCPServer):
    """Hands bytes on to a server, and counts those that come back."""

    daemon_threads = True

    def __init__(self, server: Server) -> None:
        self.target, self.received = server.port, 0
        self.counting = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Connection)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Connection(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        wire = self.server
        assert isinstance(wire, Wire)
        with socket.create_connection(("127.0.0.1", wire.target)) as behind:
            threading.Thread(target=self._forward, args=(self.request, behind, None), daemon=True).start()
            self._forward(behind, self.request, wire)

    @staticmethod
    def _forward(source: socket.socket, target: socket.socket, wire: Wire | None) -> None:
        try:
            while data := source.recv(1 << 16):
                if wire is not None:
                    with wire.counting:
                        wire.received += len(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the other side has gone
