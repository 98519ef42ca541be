"""Connections to a server: how many there are, and how long one may keep its place without asking anything.

A connection whose request does not arrive, or whose answer is not read, is closed after a while. Connections beyond
the limit are closed at once: each takes a file descriptor, and without one the server can neither read a run nor accept
the next request.
"""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.errors import UsageError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from penstock.base.types import Row

MOST_CONNECTIONS = 128
SPARE_DESCRIPTORS = 64
"""File descriptors reserved for other files: run folders, libraries, the terminal."""
BACKLOG = 32
"""Connections accepted in one go before excess ones are closed."""
HEAD_S = 5.0
"""Until the head of a request is there, from the first connection or the last answer."""
UNREAD_S = 30.0
"""How long an answer may wait to be read further."""
QUIET_S = 60.0
"""After a notice, the same one is not given again for so long."""
_TOO_MANY_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def most_connections() -> int:
    """How many connections this process may hold: fewer where it may open few files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(8, min(MOST_CONNECTIONS, soft - SPARE_DESCRIPTORS - 2 * BACKLOG))


class Notices:
    """Lines about the server, each at most once in `QUIET_S`: whoever attacks it does not fill the disk as well."""

    def __init__(
        self,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        who: str = "explore",
        count: Callable[[str], object] = lambda kind: None,
    ) -> None:
        self._say, self._clock, self.who, self.count = say, clock, who, count
        self._said: dict[str, float] = {}

    def give(self, kind: str, line: str) -> None:
        """Count a line, and say it unless one of its kind was said a moment ago."""
        self.count(kind)
        now = self._clock()
        if now - self._said.get(kind, -QUIET_S) >= QUIET_S:
            self._said[kind] = now
            self._say(line)

    def of_loop(self, loop: asyncio.AbstractEventLoop, context: Row) -> None:
        """What the event loop could not do, in one line."""
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in _TOO_MANY_FILES:
            self.give(
                "files", f"{self.who}: connections wait, because of '{error.strerror}'; 'ulimit -n' sets the limit"
            )
        else:
            kind = type(error).__name__
            self.give(kind, f"{self.who}: {str(context.get('message'))[:100]} ({kind}: {str(error)[:100]})")


def bound(address: tuple[str, int], remedy: str) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises: UsageError: the port is taken, or may not be used."""
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because the event loop looks for it before it sends small packets at once; else each answer
    # waits 40 ms for the browser to acknowledge its head.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(1024)  # so that whoever reads the address may connect at once
    except OSError as error:
        listening.close()
        raise UsageError(f"port {port} of {host} cannot be used ({error.strerror}): {remedy}") from error
    return listening


def settings(app: ASGIApp, notices: Notices, most: int, *, grace_s: int, log_level: str, **more: Any) -> uvicorn.Config:
    """A server of `app` with at most so many connections, which says nothing of itself.

    Args:   grace_s: the longest delay of its end by unfinished answers. more: of `uvicorn.Config`.
    """
    return uvicorn.Config(
        app,
        log_level=log_level,
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="off",
        timeout_graceful_shutdown=grace_s,
        h11_max_incomplete_event_size=65536,
        http=bounded(notices, most),
        ws="none",
        backlog=BACKLOG,
        **more,
    )


def bounded(notices: Notices, most: int, *, head_s: float = HEAD_S, unread_s: float = UNREAD_S) -> type[H11Protocol]:
    """HTTP over a connection that does not keep its place for nothing, as uvicorn takes it.

    Args:   most: connections at the same time.
    """

    return type("Bounded", (_Bounded,), {"notices": notices, "most": most, "head_s": head_s, "unread_s": unread_s})


class _Bounded(H11Protocol):
    """HTTP over a connection that does not keep its place for nothing; `bounded` gives it its limits."""

    notices: Notices
    most: int
    head_s: float
    unread_s: float
    _refused = False
    _head: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= self.most:
            self._refused = True
            self.notices.give("many", f"{self.notices.who}: more than {self.most} connections; further ones are closed")
            transport.abort()
            return
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        _stop(self._head)
        _stop(self._unread)
        if not self._refused:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        super().data_received(data)
        self._expect_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        _stop(self._unread)
        self._unread = None

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._expect_reader()

    def send_400_response(self, msg: str) -> None:
        self.notices.count("malformed")
        if self.cycle is not None:
            # The rest of a request that is being answered is none: one refusal, and no answer behind it.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:  # its answer has begun
            self.transport.close()
        self._expect_reader()

    def _expect_reader(self) -> None:
        self._unread = self._unread or self.loop.call_later(self.unread_s, self.transport.abort)

    def _expect_head(self) -> None:
        """Let the time run while no request is being answered."""
        if self.cycle is not None and not self.cycle.response_complete:
            _stop(self._head)
            self._head = None
        elif self._head is None and not self.transport.is_closing():
            self._head = self.loop.call_later(self.head_s, self._late)

    def _late(self) -> None:
        self._head = None
        if self.cycle is None or self.cycle.response_complete:
            self.notices.give(
                "late", f"{self.notices.who}: a request that did not arrive within {self.head_s:g} s is not waited for"
            )
            self.transport.abort()


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
