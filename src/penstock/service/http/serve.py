"""The listeners: one for tenants, one for operators, in one process; and their graceful end."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from penstock.errors import UsageError
from penstock.service.http.admin import administration
from penstock.service.http.app import application
from penstock.service.http.config import Config
from penstock.service.http.jobs import Jobs
from penstock.service.http.limits import Application
from penstock.service.http.logs import Log
from penstock.service.http.service import Service
from penstock.service.work.pool import WorkerPool
from penstock.system.connections import BACKLOG, Notices, bounded

DRAIN_S = 30.0
"""How long jobs that run may take after SIGTERM."""
GRACE_S = 5
"""How long answers may take after that."""


class _Server(uvicorn.Server):
    """A server that leaves signals to `serve`."""

    def __init__(self, config: uvicorn.Config, notices: Notices) -> None:
        super().__init__(config)
        self._notices = notices

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bound(address: tuple[str, int]) -> socket.socket:
    """A listening socket. Raises: UsageError: the port is taken, or the address is none of this machine."""
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(1024)
    except OSError as error:
        listening.close()
        raise UsageError(
            f"port {port} of {host} cannot be used ({error.strerror}): name another one, or 0 for any"
        ) from error
    return listening


def serve(
    config: Config,
    *,
    make_pool: Callable[[Config, Jobs], WorkerPool] | None = None,
    say: Callable[[str], None] = print,
    log: Log | None = None,
) -> None:
    """Serve until SIGTERM, Ctrl-C or an operator's request; then drain. A second signal stops at once.

    Args:   make_pool: as of `Service`. say: gets addresses, the tokens of a new state, and notes.
    Raises: UsageError; StateUnusable; StoreUnusable; FileError.
    """
    log = log or Log()
    _more_files()
    sockets = [bound(config.listen)]
    try:
        sockets.append(bound(config.admin))
        service = Service(config, log, make_pool)
        try:
            for whose, token in service.first_tokens().items():
                say(f"token of the {whose}, shown once: {token.text}")
            resumed = service.start()
            if resumed:
                say(f"{resumed} accepted jobs of the last server were submitted again")
            asyncio.run(_serve(service, sockets, say))
        finally:
            service.close()
    finally:
        for listening in sockets:
            listening.close()


async def _serve(service: Service, sockets: list[socket.socket], say: Callable[[str], None]) -> None:
    notices = Notices(
        lambda line: service.log.write("notice", line=line),
        who="serve",
        count=lambda kind: service.metrics.count("penstock_connections_refused_total", why=kind),
    )
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    loop.set_exception_handler(notices.of_loop)
    apps = (application(service), administration(service))
    servers = [_Server(_settings(app, service.config, notices), notices) for app in apps]
    service.drain_asked = lambda: loop.call_soon_threadsafe(asked.set)

    def signalled() -> None:
        if asked.is_set():  # a second time
            for server in servers:
                server.should_exit = server.force_exit = True
        asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled)
    running = [
        asyncio.create_task(server.serve(sockets=[listening]))
        for server, listening in zip(servers, sockets, strict=True)
    ]
    while not all(server.started for server in servers) and not any(task.done() for task in running):
        await asyncio.sleep(0.005)
    for what, listening in zip(("tenants", "operators"), sockets, strict=True):
        host, port = listening.getsockname()[:2]
        say(f"{what}: {service.config.scheme}://{f'[{host}]' if ':' in host else host}:{port}")
    ending = asyncio.create_task(asked.wait())
    await asyncio.wait([ending, *running], return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    say(f"draining: jobs that run have {DRAIN_S:g} s")
    draining = asyncio.create_task(asyncio.to_thread(service.drain, DRAIN_S))
    await asyncio.wait([draining, *running], return_when=asyncio.FIRST_COMPLETED)
    for server in servers:
        server.should_exit = True
    await asyncio.gather(*running)
    say("stopped")


def _settings(app: Application, config: Config, notices: Notices) -> uvicorn.Config:
    more: dict[str, Any] = {}
    if config.certificate is not None and config.key is not None:
        more = {"ssl_certfile": str(config.certificate), "ssl_keyfile": str(config.key)}
    return uvicorn.Config(
        app,
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="off",
        timeout_graceful_shutdown=GRACE_S,
        h11_max_incomplete_event_size=65536,
        http=bounded(notices, config.limits.connections),
        ws="none",
        backlog=BACKLOG,
        proxy_headers=False,
        **more,
    )


def _more_files() -> None:
    """Raise the limit of open files as far as this user may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
