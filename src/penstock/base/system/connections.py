"""Connections to a server: how many there are, whose they are, and how long one may keep its place.

Each takes a file descriptor, and without one the server can neither read a run nor accept the next request. A newcomer
is a stranger until the application says whose it is (`ConnectionPlace.shows`), and is never refused: where places lack,
another connection leaves. Strangers have a part of the places only. A connection counts from its accept, before TLS.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import math
import resource
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import get_remote_addr

from penstock.errors import UsageError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from penstock.base.types import Row

MOST_CONNECTIONS = 128
SPARE_DESCRIPTORS = 64
"""File descriptors reserved for other files: run folders, libraries, the terminal."""
BACKLOG = 32
"""Connections accepted in one go, before others are read again."""
MOST_WAITING = 1024
"""Connections that the system keeps until they are accepted. It drops further ones, which costs them a second."""
HEAD_S = 5.0
"""Until the head of a request is there, from its first byte or the connection; for TLS before that; and a stranger's
rest between requests."""
_YOUNG_S, _YOUNG_ROUNDS = 0.5, 4
"""A newcomer leaves for another one no earlier, and not before so many rounds of the loop: its request may lie there
unread."""
STRANGERS_PER_S = 100.0
"""Answers to strangers, where there are several. A lone one is answered at once."""
UNREAD_S = 30.0
"""How long an answer may wait to be read further."""
QUIET_S = 60.0
"""After a notice, the same one is not given again for so long."""
_TOO_MANY_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def most_connections(wanted: int = MOST_CONNECTIONS) -> int:
    """How many connections this process may hold: fewer than wanted where it may open few files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(8, min(wanted, soft - SPARE_DESCRIPTORS - 2 * BACKLOG))


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
        listening.listen(MOST_WAITING)  # so that whoever reads the address may connect at once
    except OSError as error:
        listening.close()
        raise UsageError(f"port {port} of {host} cannot be used ({error.strerror}): {remedy}") from error
    return listening


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How many connections there may be, of all, of strangers, of one address of theirs, and of one tenant; seconds."""

    most: int
    young: int
    """Newcomers may be above the others by so many, until they have had their time."""
    strangers: int
    address: int
    tenant: int
    keep_s: float = 5.0
    """Of a tenant's connection between requests."""
    head_s: float = HEAD_S
    unread_s: float = UNREAD_S


def strange(most: int) -> Bounds:
    """Of a server that knows no tenants."""
    return Bounds(most=most, young=most // 4, strangers=most, address=most, tenant=most)


class ConnectionPlace:
    """The place of one connection.

    Args:   shed: closes the connection. is_idle: whether it is between two requests.
    """

    def __init__(
        self, places: Places, address: str, shed: Callable[[], object], is_idle: Callable[[], bool] = lambda: False
    ) -> None:
        self.address, self.shed, self.is_idle = address, shed, is_idle
        self.tenant = ""
        """Empty: a stranger's."""
        self._since_s, self._rounds = time.monotonic(), 0
        self.turn: asyncio.Future[bool] | None = None
        self.drop: Callable[[], object] = lambda: None
        """Forget what has arrived of the present body: a stranger's is not read."""
        self._places = places

    def grow(self) -> None:
        """Count the rounds of the loop in which this connection was looked at."""
        self._rounds += 1
        if self._rounds < _YOUNG_ROUNDS:
            asyncio.get_running_loop().call_soon(self.grow)

    def is_young(self) -> bool:
        """Whether its first request may lie there unread."""
        return time.monotonic() - self._since_s < _YOUNG_S or self._rounds < _YOUNG_ROUNDS

    def shows(self, tenant: str) -> bool:
        """The connection is this tenant's. False: the tenant has too many, none of them idle."""
        return self._places.move(self, tenant)

    def my_turn(self) -> asyncio.Future[bool]:
        """Done when this stranger may be answered; false: it has left."""
        return self._places.turn(self)

    def close(self) -> None:
        """Let another one have the place."""
        self._places.leave(self)
        self.shed()


_Group = dict[ConnectionPlace, None]  # in the order in which they began to wait


class Places:
    """The connections of one listener. It belongs to the event loop's thread."""

    def __init__(self, bounds: Bounds, notices: Notices) -> None:
        self.bounds, self._notices = bounds, notices
        self._groups: dict[bool, dict[str, _Group]] = {True: {}, False: {}}
        """Whether they are strangers -> address or tenant -> places."""
        self._counts = {True: 0, False: 0}
        self._asking: dict[str, _Group] = {}
        """Address -> connections that wait for their turn; the next address first."""
        self._timer: asyncio.TimerHandle | None = None

    def take(self, address: str, shed: Callable[[], object], is_idle: Callable[[], bool]) -> ConnectionPlace:
        """A place for a newcomer. Where places lack, another connection leaves."""
        place, bounds = ConnectionPlace(self, address, shed, is_idle), self.bounds
        self._add(place)
        mine, strangers = self._groups[True][address], self._groups[True]
        if len(mine) > bounds.address:
            self._shed(mine, len(mine) - bounds.address)
        if self._counts[True] > bounds.strangers:
            self._shed(max(strangers.values(), key=len), self._counts[True] - bounds.strangers)
        over = sum(self._counts.values()) - bounds.most
        if over > 0:
            self._shed(max([*strangers.values(), *self._groups[False].values()], key=len), over)
        return place

    def _shed(self, group: _Group, over: int) -> None:
        """Close the longest waiting, of tenants the idle ones first."""
        ranked = sorted(group, key=lambda place: bool(place.tenant) and not place.is_idle())
        for left, place in zip(range(over, 0, -1), ranked, strict=False):
            if left <= self.bounds.young and not place.tenant and place.is_young():
                return
            self._notices.give("many", f"{self._notices.who}: more connections than places; the longest waiting end")
            place.close()

    def _add(self, place: ConnectionPlace) -> None:
        self._groups[not place.tenant].setdefault(place.tenant or place.address, {})[place] = None
        self._counts[not place.tenant] += 1

    def _remove(self, place: ConnectionPlace) -> bool:
        """Whether it was there."""
        groups, name = self._groups[not place.tenant], place.tenant or place.address
        if place not in groups.get(name, ()):
            return False
        del groups[name][place]
        if not groups[name]:
            del groups[name]
        self._counts[not place.tenant] -= 1
        return True

    def move(self, place: ConnectionPlace, tenant: str) -> bool:
        if tenant == place.tenant:
            return True
        theirs = self._groups[False].get(tenant, {})
        if len(theirs) >= self.bounds.tenant:
            idle = next((other for other in theirs if other.is_idle()), None)
            if idle is None:
                return False
            idle.close()
        if self._remove(place):  # else it was closed meanwhile
            place.tenant = tenant
            self._add(place)
        return True

    def rest(self, place: ConnectionPlace) -> None:
        if self._remove(place):
            self._add(place)

    def leave(self, place: ConnectionPlace) -> None:
        self._remove(place)
        if place.turn is not None and not place.turn.done():
            place.turn.set_result(False)
            group = self._asking.get(place.address, {})
            group.pop(place, None)
            if not group:
                self._asking.pop(place.address, None)

    def turn(self, place: ConnectionPlace) -> asyncio.Future[bool]:
        if place.turn is not None and not place.turn.done():
            return place.turn
        place.turn = asyncio.get_running_loop().create_future()
        if not self._remove(place):  # it was closed meanwhile
            place.turn.set_result(False)
            return place.turn
        place.tenant = ""
        self._add(place)
        place.drop()
        if self._counts[True] == 1 and self._timer is None:
            place.turn.set_result(True)
        else:
            self._asking.setdefault(place.address, {})[place] = None
            self._timer = self._timer or asyncio.get_running_loop().call_later(1 / STRANGERS_PER_S, self._next)
        return place.turn

    def _next(self) -> None:
        """Let the one that waits longest have its turn, of one address after the other."""
        self._timer = None
        if not self._asking:
            return
        address = next(iter(self._asking))
        group = self._asking.pop(address)
        place = next(iter(group))
        del group[place]
        if group:
            self._asking[address] = group
        if place.turn is not None and not place.turn.done():
            place.turn.set_result(True)
        self._timer = asyncio.get_running_loop().call_later(1 / STRANGERS_PER_S, self._next)

    def close_idle(self) -> None:
        """Close the connections that ask nothing."""
        for groups in self._groups.values():
            for place in [place for group in groups.values() for place in group if place.is_idle()]:
                place.close()


def settings(
    app: ASGIApp,
    notices: Notices,
    places: Places,
    *,
    grace_s: int,
    log_level: str,
    tls: ssl.SSLContext | None = None,
    **more: Any,
) -> uvicorn.Config:
    """A server of `app` with these places, which says nothing of itself.

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
        timeout_keep_alive=math.ceil(places.bounds.keep_s),
        h11_max_incomplete_event_size=65536,
        http=bounded(notices, places, tls),  # type: ignore[arg-type]
        ws="none",
        backlog=BACKLOG,
        **more,
    )


def bounded(notices: Notices, places: Places, tls: ssl.SSLContext | None = None) -> Callable[..., asyncio.Protocol]:
    """HTTP over a connection that does not keep its place for nothing, as uvicorn takes it; with `tls`, behind TLS."""
    kind = type("Bounded", (_Bounded,), {"notices": notices, "places": places})
    if tls is None:
        return kind
    return lambda **more: _Handshake(kind(**more), tls)


class _Bounded(H11Protocol):
    """HTTP over a connection that does not keep its place for nothing; `bounded` gives it its places."""

    notices: Notices
    places: Places
    place: ConnectionPlace | None = None
    _head: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _early: bytes = b""
    """What came with the last bytes of a handshake."""
    _is_made = _is_lost = False

    def enter(self, transport: asyncio.Transport, shed: Callable[[], object]) -> ConnectionPlace:
        """Take a place."""
        found = get_remote_addr(transport)
        self.place = self.places.take(_network(found[0] if found else ""), shed, self._is_idle)
        self.place.grow()
        # The application finds it in the state of each request.
        self.app_state = {**self.app_state, "place": self.place}
        return self.place

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if self._is_lost:
            return
        super().connection_made(transport)
        self._is_made = True
        place = self.place or self.enter(transport, self._shed)
        place.shed, place.drop = self._shed, self._drop
        self.timeout_keep_alive = math.ceil(self.places.bounds.head_s)
        self._expect_head()
        if self._early:
            self.data_received(self._early)

    def connection_lost(self, exc: Exception | None) -> None:
        _stop(self._head)
        _stop(self._unread)
        self._is_lost = True
        if self.place is not None:
            self.places.leave(self.place)
        if self._is_made:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._is_made:
            self._early += data
            return
        super().data_received(data)
        if self.place is not None and not self.place.tenant and self._is_answering():
            self.flow.pause_reading()  # until the application asks for the body
        self._expect_head()

    def on_response_complete(self) -> None:
        if self.place is not None:
            self.places.rest(self.place)
            if self.place.tenant:
                self.timeout_keep_alive = math.ceil(self.places.bounds.keep_s)
        super().on_response_complete()

    def pause_writing(self) -> None:
        if self._is_made:
            super().pause_writing()
            self._expect_reader()

    def resume_writing(self) -> None:
        if self._is_made:
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
        self.flow.pause_reading()
        if self.place is None or self.place.tenant:
            self._refuse(msg)
        else:
            self.place.my_turn().add_done_callback(lambda turn: self._refuse(msg) if turn.result() else None)
        self._expect_reader()

    def _refuse(self, msg: str) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:  # its answer has begun
            self.transport.close()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _is_idle(self) -> bool:
        """Whether it is between two requests, or has sent none."""
        return not self._is_answering() and not self.conn.trailing_data[0]

    def _drop(self) -> None:
        if self.cycle is not None:
            self.cycle.body.clear()

    def _shed(self) -> None:
        """Make room for another one."""
        if self._is_idle() and self.cycle is not None and not self.transport.is_closing():
            self.timeout_keep_alive_handler()
        else:
            self.transport.abort()

    def _expect_reader(self) -> None:
        self._unread = self._unread or self.loop.call_later(self.places.bounds.unread_s, self.transport.abort)

    def _expect_head(self) -> None:
        """Let the time run while a request is arriving."""
        if self._is_answering():
            _stop(self._head)
            self._head = None
        elif self._head is None and not self.transport.is_closing():
            self._head = self.loop.call_later(self.places.bounds.head_s, self._late)

    def _late(self) -> None:
        self._head = None
        if not self._is_answering() and (self.cycle is None or self.conn.trailing_data[0]):
            head_s = self.places.bounds.head_s
            self.notices.give(
                "late", f"{self.notices.who}: a request that did not arrive within {head_s:g} s is not waited for"
            )
            self.transport.abort()


class _Handshake(asyncio.Protocol):
    """A connection until TLS is agreed on. It has a place, and its time."""

    def __init__(self, inner: _Bounded, tls: ssl.SSLContext) -> None:
        self._inner, self._tls = inner, tls
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        place = self._inner.enter(transport, transport.abort)
        self._task = asyncio.get_running_loop().create_task(self._shake(transport, place))

    async def _shake(self, transport: asyncio.Transport, place: ConnectionPlace) -> None:
        agreed: asyncio.Transport | None = None
        with suppress(OSError):  # of TLS, of time, or closed
            agreed = await self._inner.loop.start_tls(
                transport, self._inner, self._tls, server_side=True,
                ssl_handshake_timeout=self._inner.places.bounds.head_s,
            )  # fmt: skip
        if agreed is None or agreed.is_closing():
            self._inner.notices.count("handshake")
            self._inner.places.leave(place)
        else:
            self._inner.connection_made(agreed)


def _network(address: str) -> str:
    """The address; of IPv6 the network, since whoever has one address has all of its network."""
    return ":".join(ipaddress.IPv6Address(address).exploded.split(":")[:4]) if ":" in address else address


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
