"""The rules for who may ask, and for the browser that gets the answer.

The server listens on this machine only, but a page of any site that a browser shows could send requests to it, and
could make its own name resolve to 127.0.0.1 (DNS rebinding). So a request must name this machine as its host, and must
not come from another site. Every answer forbids the browser to load or send anything elsewhere, to run foreign files,
and to show the page inside another.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOSTS = ("127.0.0.1", "localhost", "[::1]")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
"""Of a run's report: a file of others. It is shown without its scripts; its tables need none."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
MAX_QUERY_BYTES = 8192
SAME_SITE = (b"same-origin", b"none")


class Guard:
    """Middleware (ASGI) around the application."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._hosts = {name.encode() for name in HOSTS} | {f"{name}:{port}".encode() for name in HOSTS}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope) if scope["type"] == "http" else (403, "only http is served")
        if refusal is None:
            await self._app(scope, receive, _with_headers(send))
        elif scope["type"] == "http":
            await _answer(_with_headers(send), *refusal)
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Status and reason of a request that is not answered."""
        headers = list(scope["headers"])
        hosts = [value.lower() for name, value in headers if name == b"host"]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return 403, "this server answers to 127.0.0.1 and localhost only: open the address that penstock printed"
        sites = [value for name, value in headers if name == b"sec-fetch-site"]
        navigation = (b"sec-fetch-mode", b"navigate") in headers and not scope["path"].startswith("/api/")
        if any(site not in SAME_SITE for site in sites) and not navigation:
            return 403, "a request from another site is not answered"
        if scope["method"] not in ("GET", "HEAD"):
            return 405, "this server only answers questions: use GET"
        if len(scope.get("query_string", b"")) > MAX_QUERY_BYTES:
            return 414, f"an address has at most {MAX_QUERY_BYTES} bytes of settings"
        return None


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message.get("headers", [])}
            more = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in present]
            message = {**message, "headers": [*message.get("headers", []), *more]}
        await send(message)

    return sending


async def _answer(send: Send, status: int, reason: str) -> None:
    body = reason.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
