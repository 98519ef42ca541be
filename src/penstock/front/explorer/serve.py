"""Serves the explorer to this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable

import uvicorn

from penstock.base.system import connections
from penstock.base.system.connections import Notices, Places, most_connections, strange
from penstock.base.system.limits import shortage
from penstock.errors import PenstockError
from penstock.front.explorer.app import application
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.library import Library
from penstock.front.explorer.live import Live
from penstock.front.explorer.state import State

ADDRESS = "127.0.0.1"
WARM_S = 2.0
"""How long the first answer may hold up the start."""
REST_S = 1.0
"""Delay of the background work on hosts after the first answer, so that the first page comes first."""

GRACE_S = 2
"""The longest delay of the end by unfinished answers."""


class _PageServer(uvicorn.Server):
    """Ends the process where an answer does not end: its thread cannot be stopped, and would be waited for.

    Args:   notices: where it says what goes wrong; alone: the process has nothing else to do.
    """

    def __init__(self, config: uvicorn.Config, notices: Notices, *, alone: bool) -> None:
        super().__init__(config)
        self._notices, self._alone = notices, alone

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(self._notices.of_loop)
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Before uvicorn's own end of grace, which logs every answer that it cuts off.
        last = threading.Timer(0.9 * GRACE_S, os._exit, (0,))
        last.daemon = True
        if self._alone:
            last.start()
        await super().shutdown(sockets)
        if not self.server_state.tasks:
            last.cancel()


def bound(port: int) -> socket.socket:
    """A socket of this machine alone on `port`; 0 takes a free one.

    Raises: UsageError: the port is taken, or may not be used.
    """
    return connections.bound((ADDRESS, port), "name another one with --port, or 0 for any")


def serve(
    library: Library,
    listening: socket.socket,
    state: State,
    *,
    path: str = "/",
    browser: bool = True,
    say: Callable[[str], None] = print,
    complain: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
    stop: threading.Event | None = None,
    live: Live | None = None,
) -> None:
    """Serve until Ctrl-C, or until `stop` is set.

    Args:   state: the first page; it is traced and priced while the page loads. path: the start page of a browser; say:
            gets the address; complain: gets errors, a line at most once a minute. live: a service to show.
    """
    port = listening.getsockname()[1]
    engine, notices = Engine(library), Notices(complain)
    server = _PageServer(
        connections.settings(
            application(engine, port, live),
            notices,
            Places(strange(most_connections()), notices),
            grace_s=GRACE_S,
            log_level="error",
        ),
        notices,
        alone=stop is None,
    )
    warm, ended = threading.Event(), threading.Event()
    warming = threading.Thread(target=_warm, args=(engine, state, warm, ended, complain), daemon=True)
    warming.start()
    if stop is not None:
        threading.Thread(target=_stop_with, args=(server, stop), daemon=True).start()
    # A short program is ready when the address is known; a long one is traced while the page loads.
    warm.wait(WARM_S)
    address = f"http://{ADDRESS}:{port}{path}"
    say(address)
    if browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listening])
    ended.set()
    warming.join(WARM_S)  # so that it is not in the engine when the interpreter goes


def _warm(
    engine: Engine, state: State, done: threading.Event, ended: threading.Event, complain: Callable[[str], None]
) -> None:
    try:
        try:
            engine.warm(state)
        finally:
            done.set()
        if not ended.wait(REST_S):
            engine.warm_hosts(state)
    except PenstockError:
        return  # The page says what is wrong with it.
    except Exception as error:
        if (lacking := shortage(error)) is None:
            raise
        complain(f"explore: {lacking}")


def _stop_with(server: uvicorn.Server, stop: threading.Event) -> None:
    stop.wait()
    server.should_exit = True
