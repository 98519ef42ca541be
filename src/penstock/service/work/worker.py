"""A worker process: `python -m penstock.service.work.worker FD PARENT`.

FD is a socket to the front process, PARENT that process's number. Messages are JSON objects. The front says `open`
first, then `run`, `coming`, `cancel`, `forget`; the worker says `ready`, `program`, `done`, `failed`. It ends when the
socket is closed, or when the front process is killed. It holds no secret, and bounds itself before it reads anything.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection

from penstock.service.work import isolation
from penstock.service.work.messages import WorkerSettings
from penstock.system.workers import after_parent


def main() -> None:
    """Serve the socket whose file descriptor is the first argument."""
    descriptor, parent = map(int, sys.argv[1:])
    connection = Connection(descriptor)
    with suppress(EOFError, ConnectionError):
        settings = WorkerSettings.from_dict(json.loads(connection.recv_bytes())["settings"])
        bounds = isolation.Bounds(
            readable=(*settings.readable, settings.store),
            writable=settings.writable,
            memory_bytes=settings.memory_bytes,
        )
        in_force = isolation.apply(bounds)
        after_parent(parent, partial(os._exit, 1))
        # Only now: these start threads, which the bounds would not hold.
        from penstock.service.work.computer import Computer

        lock = threading.Lock()

        def say(said: str, **rest: object) -> None:
            content = json.dumps({"said": said, **rest}).encode()
            with lock, suppress(ConnectionError):
                connection.send_bytes(content)

        computer = Computer(settings, say)
        say("ready", isolation=in_force)
        while True:
            request = json.loads(connection.recv_bytes())
            getattr(computer, f"do_{request.pop('do')}")(**request)
    # Threads that still compute end with it.
    os._exit(0)


if __name__ == "__main__":
    main()
