"""What an explorer does with those who ask slowly, ask too often, or do not read its answers."""

from __future__ import annotations

import asyncio
import errno
import http.client
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the explorer's server is not installed: pip install 'penstock[explore]'")

from penstock.base.system.connections import MOST_CONNECTIONS, QUIET_S, Notices, most_connections

FILES, LATE_S = 256, 1
COMMAND = (
    f"import sys, resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}));"
    "from dataclasses import replace; from penstock.base.system import connections; strange = connections.strange;"
    f"connections.strange = lambda most: replace(strange(most), head_s={LATE_S}, unread_s={LATE_S});"
    "from penstock.front.cli.main import main;"
    "sys.exit(main(['explore', '--port', '0', '--no-browser', '--runs', sys.argv[1]]))"
)


class Explorer:
    """An explorer that may open few files and waits one second for a request or a reader: its port and its process."""

    def __init__(self, runs: Path) -> None:
        self._said = runs / "stderr"
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, str(runs)],
                stdout=subprocess.PIPE,
                stderr=said,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        address = self.process.stdout.readline().decode().strip()
        self.port = int(address.rpartition(":")[2].strip("/"))

    def said(self) -> str:
        return self._said.read_text()

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def explorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explorer]:
    """One for all; at its end, too, its log has a few lines and no traceback."""
    runs = tmp_path_factory.mktemp("runs")
    (runs / "run").mkdir()
    (runs / "run" / "run.json").write_text("{}")
    with (runs / "run" / "report.html").open("wb") as file:
        file.truncate(60 * 2**20)
    found = Explorer(runs)
    yield found
    found.close()
    assert len(found.said()) < 1000
    assert "Traceback" not in found.said()


def opened(port: int, sent: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    with suppress(OSError):
        connection.sendall(sent)
    return connection


def answered(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/api/catalogue")
        return connection.getresponse().status
    finally:
        connection.close()


def test_requests_that_are_sent_in_half_neither_stop_the_explorer_nor_fill_its_log(explorer):
    port = explorer.port
    with ThreadPoolExecutor(20) as pool, ExitStack() as slow:
        assert answered(port) == 200
        half = b"GET /api/view/whatif HTTP/1.1\r\nHost: 127"
        for each in pool.map(lambda _: opened(port, half), range(400)):
            slow.enter_context(closing(each))
        started, status = time.monotonic(), None
        while status != 200 and time.monotonic() - started < 60:
            with suppress(OSError, http.client.HTTPException):
                status = answered(port)
            time.sleep(0.1)
        took = time.monotonic() - started
        assert status == 200
        assert took < 20, f"{took:.1f} s until the next answer"
        assert explorer.process.poll() is None
        assert answered(port) == 200
    said = explorer.said()
    assert len(said) < 1000
    assert "Traceback" not in said
    # Which bound is met first depends on the machine: the number of connections, or the time of a half request.
    assert "more connections than places" in said or "is not waited for" in said


def test_a_request_that_trickles_is_closed_and_a_slow_answer_is_not(explorer):
    port = explorer.port
    first = f"GET /static/icon.svg HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\nGET /static"
    for head in (b"GET / HTTP/1.1\r\n", first.encode()):
        started = time.monotonic()
        with closing(opened(port, head)) as trickling, suppress(OSError):
            while time.monotonic() - started < 10:
                trickling.sendall(b"x")
                time.sleep(0.1)
        assert 0.75 * LATE_S < time.monotonic() - started < LATE_S + 4
    # Its first answer takes longer than its head may: the time runs only while nothing is asked.
    kept = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for _ in range(3):
        kept.request("GET", "/api/view/slowdown?workload=resnet20&params=")
        assert kept.getresponse().read().startswith(b"{")
        time.sleep(LATE_S / 2)
    kept.close()


def test_a_reader_that_does_not_read_is_let_go(explorer):
    port, process = explorer.port, explorer.process
    with ExitStack() as held:
        asked = f"GET /report/run HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
        for _ in range(40):
            held.enter_context(closing(opened(port, asked)))
        most, open_files, started = 0, 99, time.monotonic()
        while (open_files >= 40 or time.monotonic() < started + LATE_S) and time.monotonic() - started < 15:
            resident = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * resource.getpagesize()
            most = max(most, resident)
            open_files = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
            time.sleep(0.1)
        assert most < 500e6, "a report is sent in parts"
        assert open_files < 40


def test_notices_come_once_a_minute_and_in_one_line():
    said, now = [], [100.0]
    notices = Notices(said.append, clock=lambda: now[0])
    full = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    loop = asyncio.new_event_loop()
    for _ in range(1000):
        notices.of_loop(loop, {"message": "socket.accept() out of system resource", "exception": full})
        notices.of_loop(loop, {"message": "x" * 10_000, "exception": ValueError("y" * 10_000)})
    loop.close()
    assert len(said) == 2
    assert "'ulimit -n' sets the limit" in said[0]
    assert all(len(line) < 300 and "\n" not in line for line in said)
    now[0] += QUIET_S
    notices.give("files", "again")
    assert said[-1] == "again"


def test_fewer_connections_are_taken_where_few_files_may_be_open(monkeypatch):
    for soft, most in ((256, 128), (200, 72), (64, 8), (2**20, MOST_CONNECTIONS), (resource.RLIM_INFINITY, 128)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert most_connections() == most
