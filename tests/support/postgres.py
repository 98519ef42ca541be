"""A PostgreSQL cluster in a temporary folder, which can be stopped, killed, and started again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

STARTING_S = 30.0


def missing() -> str:
    """Why there is no PostgreSQL here; empty: there is one."""
    if shutil.which("initdb") is None or shutil.which("pg_ctl") is None:
        return "needs PostgreSQL: initdb and pg_ctl are not on PATH"
    return ""


class Postgres:
    """A cluster, reached through a port of this machine. It runs as `nobody` where root starts it."""

    def __init__(self, folder: Path, *, fsync: bool = False) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder, self._fsync = folder / "cluster", fsync
        folder.chmod(0o777)
        self._as("initdb", "-D", str(self.folder), "-U", "penstock", "--auth=trust", "--no-sync")
        self.start()

    def _as(self, *command: str) -> None:
        user = {"user": "nobody"} if os.geteuid() == 0 else {}
        subprocess.run(
            command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", timeout=60, **user
        )

    def start(self) -> None:
        """Start it. A killed one may leave processes for a moment, which keep the next one away."""
        sync = "on" if self._fsync else "off"
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync={sync}"
        ends = time.monotonic() + STARTING_S
        while True:
            try:
                self._as("pg_ctl", "-D", str(self.folder), "-w", "-l", str(self.folder / "log"), "-o", options, "start")
            except subprocess.CalledProcessError:
                if time.monotonic() > ends:
                    raise
                time.sleep(0.1)
            else:
                return

    def stop(self) -> None:
        self._as("pg_ctl", "-D", str(self.folder), "-w", "-m", "immediate", "stop")

    def kill(self) -> None:
        """`kill -9` of its first process; the others end by themselves."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    @property
    def pid(self) -> int:
        return int((self.folder / "postmaster.pid").read_text().split()[0])

    @property
    def url(self) -> str:
        return f"postgresql+pg8000://penstock@127.0.0.1:{self.port}/postgres"


@contextmanager
def cluster(*, fsync: bool = False) -> Iterator[Postgres]:
    """A cluster in a folder of its own, until the end of the block."""
    with TemporaryDirectory(prefix="penstock-pg-") as folder:
        made = Postgres(Path(folder), fsync=fsync)
        try:
            yield made
        finally:
            with suppress(subprocess.CalledProcessError):
                made.stop()
