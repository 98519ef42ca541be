"""The gate in front of every route: who sends the request, how much of it there may be, and how slowly it may come.

A token is checked before anything of a body is read. Who has none that is right is a stranger: strangers are answered
in turns, and their refusals end their connections.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.errors import PenstockError
from penstock.service.http.config import ServeLimits
from penstock.service.http.logs import Log
from penstock.service.http.metrics import Metrics
from penstock.service.http.threads import ThreadShares, in_thread
from penstock.service.state.problems import MEDIA_TYPE, Problem, problem_of
from penstock.service.state.state import ServiceState
from penstock.service.state.tokens import ADMIN, Caller

OPEN_PATHS = ("/v1/health", "/v1/ready", "/openapi.json")
"""Answered without a token: they tell nothing of a tenant."""
BODY_BYTES = 1 << 16
"""The most of a body that is not an upload."""
_QUERY_BYTES = 4096
_WINDOW_S = 10.0
"""A body shows its rate within so long."""
_DRAINED_BYTES, _DRAINED_S = 1 << 18, 1.0
"""Read of a refused request, so that its sender reads the answer: of a stranger's after the answer."""
_WRONG_PER_S, _WRONG_AT_ONCE = 10.0, 50.0
"""Requests of one address without a valid token."""
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'"),
)


class Buckets:
    """For each name a bucket of tokens that refill: a rate with bursts.

    The ones used longest ago are forgotten, which only refills them.
    """

    def __init__(
        self, per_s: float, at_once: float, most: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s, self._at_once, self._most, self._clock = per_s, at_once, most, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Name -> tokens that were left, and when."""

    def take(self, name: str) -> float:
        """Take one; 0, or the seconds until there is one."""
        now = self._clock()
        left, at_s = self._buckets.pop(name, (self._at_once, now))
        left = min(self._at_once, left + (now - at_s) * self._per_s)
        self._buckets[name] = (left - 1 if left >= 1 else left), now
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) / self._per_s


class Body:
    """The body of one request as it arrives: no more than `most` bytes, and no slower than `slowest_bytes_per_s`."""

    def __init__(self, receive: Receive, most: int, slowest_bytes_per_s: float, *, whole: bool = False) -> None:
        self._receive, self._most, self._slowest = receive, most, slowest_bytes_per_s
        self.whole, self._window_s, self._window_bytes = whole, 0.0, 0
        """Whether all of it was read; seconds and bytes of the present window."""
        self.received_bytes = 0
        self.refusal: Problem | None = None
        """Why the rest was not taken."""

    async def receive(self) -> Message:
        """The next message; a refused body looks like a broken connection."""
        message: Message | None = await self._receive() if self.whole else None
        while message is None:
            begun = time.monotonic()
            with suppress(asyncio.TimeoutError):
                message = await asyncio.wait_for(self._receive(), max(0.01, _WINDOW_S - self._window_s))
            self._window_s += time.monotonic() - begun
            if message is not None:
                piece = len(message.get("body", b""))
                self.received_bytes += piece
                self._window_bytes += piece
                self.whole = not message.get("more_body", False)
            if self.received_bytes > self._most:
                return self._refused(413, f"the body has more than {self._most} bytes", "body-size")
            if not self.whole and self._is_slow():
                return self._refused(408, f"fewer than {self._slowest:g} bytes arrived a second", "slow")
        return message

    def _is_slow(self) -> bool:
        """Whether a full window brought too little."""
        if self._window_s < _WINDOW_S:
            return False
        slow = self._window_bytes < self._slowest * self._window_s
        self._window_s, self._window_bytes = 0.0, 0
        return slow

    def _refused(self, status: int, detail: str, kind: str) -> Message:
        remedy = "send it again faster; an upload goes on at its offset" if status == 408 else "send less"
        self.refusal = Problem(status, detail, remedy=remedy, kind=kind)
        return {"type": "http.disconnect"}

    async def drain(self) -> None:
        """Read a little of the rest, so that the sender gets to the answer."""
        if self.whole or self.refusal is not None:
            return
        left, ends = _DRAINED_BYTES, time.monotonic() + _DRAINED_S
        while left > 0 and time.monotonic() < ends:
            try:
                message = await asyncio.wait_for(self._receive(), max(0.01, ends - time.monotonic()))
            except asyncio.TimeoutError:
                return
            left -= len(message.get("body", b""))
            if not message.get("more_body", False):
                self.whole = True
                return


class Gate:
    """Middleware (ASGI) around the application of one listener.

    Args:   admin: of the administration, which takes operators' tokens only; other listeners take tenants' only.
            is_ending: whether each answer ends its connection.
    """

    def __init__(
        self,
        app: ASGIApp,
        state: ServiceState,
        limits: ServeLimits,
        metrics: Metrics,
        log: Log,
        *,
        admin: bool = False,
        is_ending: Callable[[], bool] = lambda: False,
    ) -> None:
        self._app, self._state, self._limits = app, state, limits
        self._metrics, self._log, self._admin, self._is_ending = metrics, log, admin, is_ending
        self._shares = ThreadShares()
        self._rates = Buckets(limits.requests_per_s, 2 * limits.requests_per_s)
        self._wrong = Buckets(_WRONG_PER_S, _WRONG_AT_ONCE)
        self._active: dict[str, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        request = _Request(scope, receive, send, self._limits, self._is_ending)
        caller: Caller | None = None
        try:
            caller = await self._caller(scope)
            if caller is not None:
                request.is_strangers = False
                self._take_turn(caller)
                request.on_answered = partial(self._end_turn, caller)
                scope.setdefault("state", {})["caller"] = caller
            await self._app(scope, request.body.receive, request.send)
            if not request.started:
                await request.refuse(Problem(500, "no answer was made", remedy="report it", kind="failed"))
        except _HasLeft:
            request.status = 499
        except Exception as error:
            await self._after(error, request)
        finally:
            request.answered()
            self._say(scope, request, caller)

    async def _after(self, error: Exception, request: _Request) -> None:
        """Answer a request that failed outside of a route."""
        problem = request.body.refusal or problem_of(error)
        if type(error).__name__ == "ClientDisconnect" and request.body.refusal is None:
            request.status = 499
            return
        if problem.status == 500:
            self._log.sampled(
                "failure", "failure", request=request.identity, error=type(error).__name__, detail=str(error)[:300]
            )
        if not request.started:
            await request.refuse(problem)

    async def _caller(self, scope: Scope) -> Caller | None:
        """Who sends it; `None`: a stranger, on a path that is open. Raises: Problem; _HasLeft."""
        text, place = _bearer(scope), scope.get("state", {}).get("place")
        is_open = scope["path"] in OPEN_PATHS
        is_known = self._state.is_known(text)
        self._shares.enter(text.split("_")[1] if is_known else "", counts=False)
        caller: Caller | None = None
        with suppress(*([PenstockError] if is_open else [])):  # a process answers without its database
            if is_known:
                caller = (
                    self._state.caller(text) if self._state.is_kept(text) else await in_thread(self._state.caller, text)
                )
        is_stranger = caller is None or (is_open and self._admin != _is_operator(caller))
        if is_stranger:
            if place is not None and not await place.my_turn():
                raise _HasLeft
            if is_known is None and not is_open:
                caller = await in_thread(self._state.caller, text)
                is_stranger = caller is None
        if len(scope.get("query_string", b"")) > _QUERY_BYTES or len(scope["path"]) > _QUERY_BYTES:
            raise Problem(414, f"an address has at most {_QUERY_BYTES} bytes", remedy="shorten it", kind="address")
        if is_open and is_stranger:
            return None
        if caller is None:
            raise self._unknown(place.address if place else "", is_there=bool(text))
        if self._admin != _is_operator(caller):
            where = "operators" if self._admin else "tenants"
            raise Problem(403, f"this address is for {where}", remedy="use the other address or token", kind="scope")
        self._shares.enter(_name(caller))
        if place is not None and not place.shows(_name(caller)):
            raise Problem(
                429, f"this tenant has {self._limits.tenant_connections} connections, none of them idle",
                kind="connections", remedy="use fewer at the same time", retry_after_s=1,
            )  # fmt: skip
        return caller

    def _unknown(self, address: str, *, is_there: bool) -> Problem:
        wait_s = self._wrong.take(address)
        if wait_s:
            return Problem(
                429, "too many requests without a valid token", remedy="send a valid one", kind="tokens",
                retry_after_s=wait_s,
            )  # fmt: skip
        return Problem(
            401, "the token is wrong or has expired" if is_there else "there is no token", kind="token",
            remedy="send the header 'Authorization: Bearer TOKEN'; an operator makes tokens",
        )  # fmt: skip

    def _take_turn(self, caller: Caller) -> None:
        """Raises: Problem: the tenant sends too much."""
        name = _name(caller)
        wait_s = self._rates.take(name)
        if wait_s:
            raise Problem(
                429, f"more than {self._limits.requests_per_s:g} requests a second", remedy="send fewer", kind="rate",
                retry_after_s=wait_s,
            )  # fmt: skip
        if self._active.get(name, 0) >= self._limits.tenant_requests:
            raise Problem(
                429, f"{self._limits.tenant_requests} requests of this tenant are being answered", kind="requests",
                remedy="wait for some of them", retry_after_s=1,
            )  # fmt: skip
        self._active[name] = self._active.get(name, 0) + 1

    def _end_turn(self, caller: Caller) -> None:
        name = _name(caller)
        self._active[name] -= 1
        if not self._active[name]:
            del self._active[name]

    def _say(self, scope: Scope, request: _Request, caller: Caller | None) -> None:
        route = getattr(scope.get("route"), "path", "none")
        seconds = time.monotonic() - request.begun
        method = scope["method"] if scope["method"] in ("GET", "PUT", "POST", "DELETE", "HEAD") else "other"
        self._metrics.count("penstock_requests_total", route=route, method=method, status=str(request.status))
        self._metrics.count("penstock_received_bytes_total", request.body.received_bytes)
        reason = request.refused or scope.get("state", {}).get("refused")
        if reason:
            self._metrics.count("penstock_refused_total", reason=reason)
        self._metrics.time("penstock_request_seconds", seconds, route=route)
        # One line a request, except for the ones that anyone can cause without end.
        is_told = request.status >= 400 or caller is None
        self._log.sampled(
            f"{request.status} {caller.tenant if caller else ''}" if is_told else "",
            "request",
            request=request.identity,
            listener="admin" if self._admin else "tenants",
            method=method,
            path=scope["path"][:200],
            status=request.status,
            seconds=round(seconds, 6),
            bytes=request.body.received_bytes,
            tenant=caller and caller.tenant,
            token=caller and caller.token,
        )


class _Request:
    """One request on its way through the gate."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, limits: ServeLimits, is_ending: Callable[[], bool]
    ) -> None:
        is_upload = scope["method"] == "PUT" and scope["path"].startswith("/v1/uploads/")
        most = limits.upload_bytes if is_upload else BODY_BYTES
        names = {name for name, value in scope["headers"] if value != b"0"}
        has_none = not names & {b"content-length", b"transfer-encoding"}
        self.body = Body(receive, most, limits.slowest_bytes_per_s, whole=has_none)
        self.is_strangers, self._is_ending = True, is_ending
        self.identity, self.begun = secrets.token_hex(8), time.monotonic()
        self.status, self.started = 0, False
        self.refused = ""
        """Why, where it was refused outside of a route."""
        self.on_answered: Callable[[], None] | None = None
        self._send = send
        self._replaced = False

    async def send(self, message: Message) -> None:
        """Pass an answer on; that to a refused body is the refusal."""
        if self.body.refusal is not None and not self.started:
            self._replaced = True
            await self.refuse(self.body.refusal)
        if not self._replaced:
            await self._pass(message)

    async def _pass(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if message["status"] >= 400 and not self.is_strangers:
                await self.body.drain()
            self.started, self.status = True, message["status"]
            more = [*_HEADERS, (b"x-request-id", self.identity.encode())]
            is_refused = self.is_strangers and message["status"] >= 400
            if is_refused or self._is_ending() or not self.body.whole:
                more.append((b"connection", b"close"))
            message = {**message, "headers": [*message.get("headers", []), *more]}
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self.answered()

    def answered(self) -> None:
        """Its last byte is sent: the sender, who may have it, can send the next request before the route has ended."""
        if self.on_answered is not None:
            on_answered, self.on_answered = self.on_answered, None
            on_answered()

    async def refuse(self, problem: Problem) -> None:
        """Answer with a refusal."""
        self.refused = problem.reason
        content = json.dumps({**problem.body(), "request": self.identity}).encode()
        named = {"content-type": MEDIA_TYPE, "content-length": str(len(content)), **problem.headers()}
        headers = [(name.encode(), value.encode()) for name, value in named.items()]
        await self._pass({"type": "http.response.start", "status": problem.status, "headers": headers})
        if self.is_strangers and not self.body.whole:
            # The whole answer is on its way. If the connection ended now, what still arrives would take it back.
            await self._pass({"type": "http.response.body", "body": content, "more_body": True})
            await self.body.drain()
            content = b""
        await self._pass({"type": "http.response.body", "body": content})


class _HasLeft(Exception):
    """The connection was closed before its turn."""


def _is_operator(caller: Caller) -> bool:
    return ADMIN in caller.scopes and not caller.tenant


def _bearer(scope: Scope) -> str:
    """The token of a request; empty: none, or several."""
    headers = [value for name, value in scope["headers"] if name == b"authorization"]
    kind, _, text = headers[0].decode("latin-1").partition(" ") if len(headers) == 1 else ("", "", "")
    return text.strip() if kind.lower() == "bearer" else ""


def _name(caller: Caller) -> str:
    return caller.tenant or f"operator {caller.token}"
