"""A worker process: `python -m penstock.service.work.worker FD PARENT`.

FD is a socket to the front process, PARENT that process's number. Messages are JSON objects. The front says `open`
first, then `run`, `coming`, `cancel`, `forget`; the worker says `ready`, `figures`, `program`, `done`, `failed`. It
ends when the socket is closed, or when the front process is killed. It holds no secret, and bounds itself before it
reads anything.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from functools import partial

from penstock.base.system.workers import after_parent
from penstock.service.work import isolation
from penstock.service.work.messages import Channel, WorkerSettings


def main() -> None:
    """Serve the socket whose file descriptor is the first argument."""
    descriptor, parent = map(int, sys.argv[1:])
    channel = Channel(descriptor)
    with suppress(EOFError, ConnectionError):
        said = json.loads(channel.recv_bytes())
        settings = WorkerSettings.of(said["settings"])
        in_force = isolation.apply(isolation.Bounds.of(said["bounds"]))
        after_parent(parent, partial(os._exit, 1))
        # Only now: these start threads, which the bounds would not hold.
        from penstock.service.work.computer import Computer
        from penstock.service.work.kept import bound_memory

        in_force["memory"] = bound_memory(settings)
        computer = Computer(settings, channel)
        channel.tell("ready", isolation=in_force)
        computer.serve()
    # Threads that still compute end with it.
    os._exit(0)


if __name__ == "__main__":
    main()
