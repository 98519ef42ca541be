"""Servers of penstock as processes of their own, as a shell starts them, and what they may not do meanwhile."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from faults.frame import GRACE, MOST_BYTES, MOST_SECONDS

START_S = 60.0
REST_S = 12.0
"""Connections that were left open are closed by a server within this."""
SAID_BYTES = 4096
"""Of a server on stderr, however many requests were hostile, and for each of them `SAID_BYTES_EACH` more."""
SAID_BYTES_EACH = 2


@dataclass
class Server:
    """A running server. The file descriptors that it had at rest are `files`, once `rested` was called."""

    name: str
    process: subprocess.Popen[bytes]
    out: Path
    errors: Path
    secrets: tuple[bytes, ...] = ()
    """What it may never print."""
    files: Counter[str] | None = None
    known: set[str] = field(default_factory=set)

    @property
    def pid(self) -> int:
        return self.process.pid

    def alive(self) -> bool:
        """Asked by any process: a server that ended stays a zombie until its parent looks."""
        return _field(self.pid, "State:") not in ("", "Z", "X")

    def peak_bytes(self) -> int:
        return int(_field(self.pid, "VmHWM:") or 0) * 1024

    def open_files(self) -> Counter[str]:
        """What its file descriptors are, sockets as such."""
        found: Counter[str] = Counter()
        with suppress(OSError):
            for each in Path(f"/proc/{self.pid}/fd").iterdir():
                with suppress(OSError):
                    found[str(each.readlink()).partition(":[")[0]] += 1
        return found

    def rested(self, spare: Mapping[str, int] | None = None) -> None:
        """Note what it holds open while nobody asks, and what it may keep besides."""
        deadline, files = time.monotonic() + 0.5, self.open_files()
        while time.monotonic() < deadline:
            time.sleep(0.05)
            files &= self.open_files()
        self.files = files + Counter(spare)

    def held(self) -> Counter[str]:
        """What it holds open beyond that, after connections had the time to end."""
        deadline = time.monotonic() + REST_S
        while (more := self.open_files() - (self.files or Counter())) and time.monotonic() < deadline:
            time.sleep(0.05)
        return more

    def faults(self, asked: int) -> tuple[str, ...]:
        """What it did that no request may bring about, after so many."""
        printed, found = self.errors.read_bytes(), []
        if not self.alive():
            code = self.process.wait()
            found.append(f"{self.name} ended ({signal.Signals(-code).name if code < 0 else code})")
        found += self.cries(0)
        if len(printed) > SAID_BYTES + SAID_BYTES_EACH * asked:
            found.append(f"{self.name} printed {len(printed)} bytes for {asked} requests")
        found += [f"{self.name} printed a secret" for each in self.secrets if each in printed]
        if self.peak_bytes() > MOST_BYTES:
            found.append(f"{self.name} held {self.peak_bytes() / 2**20:.0f} MiB, over {MOST_BYTES / 2**20:.0f} MiB")
        if self.files is not None and self.alive() and (more := self.held()):
            found.append(f"{self.name} holds more open than at the start: {dict(more)}")
        # Each once, though its numbers grow.
        fresh = {re.sub(r"\d+", "", each): each for each in found}
        said = tuple(each for kind, each in fresh.items() if kind not in self.known)
        self.known |= set(fresh)
        return said

    def said_bytes(self) -> int:
        """How much it has printed on stderr."""
        return self.errors.stat().st_size

    def cries(self, since: int) -> list[str]:
        """What it printed there, from the byte `since` on, that is for its programmers."""
        if self.said_bytes() == since:
            return []
        text = self.errors.read_bytes()[since:].decode("utf-8", "replace")
        if not any(mark in text for mark in ("Traceback (most recent call last)", "panicked at", "internal error")):
            return []
        last = [
            line for line in text.splitlines() if re.match(r"[\w.]+(Error|Exception|Group|Exit)\b|.*panicked at", line)
        ]
        return [f"{self.name} printed a traceback: {(last or text.splitlines())[-1][:300]}"]

    def end(self) -> tuple[str, ...]:
        """Interrupt it as Ctrl-C does; a server ends then, and with 0."""
        if not self.alive():
            self.process.wait()
            return ()
        self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(MOST_SECONDS * GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return (f"{self.name} did not end when it was interrupted",)
        return () if code == 0 else (f"{self.name} ended with {code} when it was interrupted",)


def start(
    name: str,
    argv: Sequence[str],
    folder: Path,
    ready: Callable[[str, str], bool],
    *,
    environ: Mapping[str, str] | None = None,
    secrets: Sequence[str] = (),
) -> Server:
    """`penstock argv…` in the background, once `ready` says so of what it printed (stdout, stderr)."""
    out, errors = folder / f"{name}.stdout", folder / f"{name}.stderr"
    command = [sys.executable, "-c", "import sys; from penstock.front.cli.main import main; sys.exit(main())", *argv]
    with out.open("wb") as first, errors.open("wb") as second:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=first,
            stderr=second,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "1000", **(environ or {})},
            start_new_session=True,
        )
    server = Server(name, process, out, errors, tuple(each.encode() for each in secrets))
    deadline = time.monotonic() + START_S
    while not ready(out.read_text("utf-8", "replace"), errors.read_text("utf-8", "replace")):
        if not server.alive() or time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"{name} did not start: {errors.read_text('utf-8', 'replace')[-2000:]}")
        time.sleep(0.05)
    return server


def port_in(text: str) -> int:
    """The port of an address of this machine that a server printed; 0: none yet."""
    found = re.search(r"127\.0\.0\.1:(\d+)\D", text)
    return int(found[1]) if found else 0


def _field(pid: int, name: str) -> str:
    """The first word of a line of /proc/PID/status."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(name):
                return line.split()[1]
    return ""
