"""The listeners: one for tenants, one for operators, in one process; and their graceful end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator

import uvicorn
from anyio.to_thread import current_default_thread_limiter

from penstock.base.system.connections import MOST_WAITING, Bounds, Notices, Places, bound, most_connections, settings
from penstock.service.http.admin import administration
from penstock.service.http.app import application
from penstock.service.http.config import Config, ServeLimits
from penstock.service.http.jobs import Jobs
from penstock.service.http.logs import Log
from penstock.service.http.service import ServiceFront, pool_of
from penstock.service.state.folder import StateUnusable
from penstock.service.work.isolation import lacking, user_of
from penstock.service.work.pool import WorkerPool

SWITCH_S = 0.0005
"""For which a thread may keep the interpreter from others: every answer passes it several times."""
DRAIN_S = 30.0
"""How long jobs that run may take after SIGTERM."""
GRACE_S = 5
"""How long answers may take after that."""
THREADS = 128
"""For requests of all tenants, each of which has a share of them."""
YOUNG = 256
"""Newcomers above the places, for half a second."""
_ANOTHER = "name another one, or 0 for any"


class _SignalFreeServer(uvicorn.Server):
    """A server that leaves signals to `serve`."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(
    config: Config,
    *,
    make_pool: Callable[[Config, Jobs], WorkerPool] = pool_of,
    say: Callable[[str], None] = print,
    log: Log,
) -> None:
    """Serve until SIGTERM, Ctrl-C or an operator's request; then drain. A second signal stops at once.

    Args:   make_pool: as of `ServiceFront`. say: gets addresses, the tokens of a new state, and notes.
    Raises: UsageError; StateUnusable; StoreUnusable; FileError.
    """
    _more_files()
    sys.setswitchinterval(SWITCH_S)
    os.umask(0o077)
    sockets = [bound(config.listen, _ANOTHER)]
    try:
        sockets.append(bound(config.admin, _ANOTHER))
        service = ServiceFront(config, log, make_pool)
        try:
            for note in service.notes:
                say(note)
            for whose, token in service.first_tokens().items():
                say(f"token of the {whose}, shown once: {token.text}")
            for missing in lacking(user_of(config.work.user)):
                say(f"isolation: {missing}")
            resumed = service.start()
            if resumed:
                say(f"{resumed} accepted jobs of the last server were submitted again")
            asyncio.run(_serve(service, sockets, say))
            if service.lost:
                raise StateUnusable(f"another server uses the database now ({service.lost}): this one stopped")
        finally:
            service.close()
    finally:
        for listening in sockets:
            listening.close()


async def _serve(service: ServiceFront, sockets: list[socket.socket], say: Callable[[str], None]) -> None:
    notices = Notices(
        lambda line: service.log.write("notice", line=line),
        who="serve",
        count=lambda kind: service.metrics.count("penstock_connections_refused_total", why=kind),
    )
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    loop.set_exception_handler(notices.of_loop)
    apps = (application(service), administration(service))
    config, tls = service.config, None
    if config.certificate is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(config.certificate, config.key)
    listeners = [Places(_bounds(config.limits), notices) for _ in apps]
    current_default_thread_limiter().total_tokens = max(THREADS, 2 * config.limits.tenant_requests)
    servers = [
        _SignalFreeServer(
            settings(app, notices, places, grace_s=GRACE_S, log_level="critical", tls=tls, proxy_headers=False)
        )
        for app, places in zip(apps, listeners, strict=True)
    ]
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
        listening.listen(MOST_WAITING)  # uvicorn lets fewer wait than are accepted in one go
        host, port = listening.getsockname()[:2]
        say(f"{what}: {service.config.scheme}://{f'[{host}]' if ':' in host else host}:{port}")
    ending = asyncio.create_task(asked.wait())
    await asyncio.wait([ending, *running], return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    say(f"draining: jobs that run have {DRAIN_S:g} s")
    draining = asyncio.create_task(asyncio.to_thread(service.drain, DRAIN_S))
    while not service.jobs.draining and not draining.done():
        await asyncio.sleep(0.005)
    for places in listeners:  # before they ask again; answers from now on say that their connection closes
        places.close_idle()
    await asyncio.wait([draining, *running], return_when=asyncio.FIRST_COMPLETED)
    for server in servers:
        server.should_exit = True
    await asyncio.gather(*running)
    say("stopped")


def _bounds(limits: ServeLimits) -> Bounds:
    """Half of the places at least are for those who have shown a token."""
    files = most_connections(limits.connections + YOUNG)
    most = files - min(YOUNG, files // 4)
    return Bounds(
        most=most,
        young=files - most,
        strangers=most // 2,
        address=min(limits.address_connections, most // 2),
        tenant=limits.tenant_connections,
        keep_s=limits.keep_alive_s,
    )


def _more_files() -> None:
    """Raise the limit of open files as far as this user may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
