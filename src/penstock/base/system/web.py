"""Requests to penstock's service over HTTP: one connection, errors as the service words them, tokens that never show.

A token goes to the host of the URL only: redirections are not followed, proxies of the environment are not used, and
plain HTTP is for this machine alone.
"""

from __future__ import annotations

import email.utils
import http.client
import ipaddress
import json
import os
import random
import select
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import SplitResult, urlsplit

from penstock.base.system.files import UnfinishedFile, os_errors
from penstock.errors import PenstockError, UsageError

if TYPE_CHECKING:
    from penstock.base.types import Row, RowView

Came = TypeVar("Came")
TOKEN_VARIABLE = "PENSTOCK_TOKEN"
PIECE_BYTES = 4 << 20
"""Of a body that is sent or received in pieces."""
_MOST_ANSWER_BYTES = 64 << 20
"""Of an answer in JSON."""
_MOST_TOKEN_BYTES = 4096
_PASSING = (408, 429, 502, 503, 504)
"""Statuses that go away by waiting."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 10.0


class ServiceError(PenstockError):
    """A service that refuses, or cannot be reached."""

    passing = False
    """Whether the same request may succeed later."""
    retry_after_s: float | None = None
    """When to come back, where the service says so."""


class ServiceRefused(ServiceError):
    """The service answered with a problem. `status` is of HTTP, `problem` its description (RFC 9457)."""

    def __init__(self, message: str, status: int, problem: RowView, retry_after_s: float | None) -> None:
        super().__init__(message)
        self.status, self.problem = status, problem
        self.passing, self.retry_after_s = status in _PASSING, retry_after_s


class ServiceUnreachable(ServiceError):
    """No connection, or one that broke."""

    def __init__(self, message: str, *, passing: bool = True) -> None:
        super().__init__(message)
        self.passing = passing


@dataclass(frozen=True, slots=True)
class Token:
    """What a service knows a tenant by. It cannot be printed."""

    text: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.text or not all("!" <= character <= "~" for character in self.text):
            raise UsageError("the token is empty or has characters that no token has: copy it again, on one line")


def read_token(file: Path | None = None, environ: Mapping[str, str] = os.environ) -> Token:
    """The token in a file that only its owner can read, or in the environment.

    Raises: UsageError: there is none, or the file is open to others. FileError: it cannot be read.
    """
    if file is None:
        text = environ.get(TOKEN_VARIABLE, "")
        if not text:
            raise UsageError(
                f"no token for the service: name its file with --token-file, or set {TOKEN_VARIABLE}. A token is never "
                "an argument"
            )
        return Token(text.strip())
    with os_errors(file, "read"), file.open("rb") as opened:
        if os.fstat(opened.fileno()).st_mode & 0o077:
            raise UsageError(f"{file}: others may read this token; take that away with 'chmod 600 {file}'")
        content = opened.read(_MOST_TOKEN_BYTES + 1)
    if len(content) > _MOST_TOKEN_BYTES or not content.isascii():
        raise UsageError(f"{file}: it holds no token: write the token as its only line")
    return Token(content.decode("ascii").strip())


class Patience:
    """Pauses between tries: as the service names them, else doubling ones with chance in them.

    Args:   limit_s: longest time from the first failure to the last try; `done` ends the count.
    """

    def __init__(self, limit_s: float, sleep: Callable[[float], None] = time.sleep) -> None:
        self._limit_s, self._sleep = limit_s, sleep
        self._since: float | None = None
        self._tries = 0

    def pause(self, error: ServiceError) -> None:
        """Wait before the next try. Raises: `error`: it does not pass, or not in the time that is left."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**self._tries) * random.uniform(0.5, 1.0)
        pause_s = pause_s if error.retry_after_s is None else error.retry_after_s
        if not error.passing or now + pause_s - self._since > self._limit_s:
            raise error
        self._tries += 1
        self._sleep(pause_s)

    def done(self) -> None:
        """A try succeeded."""
        self._since, self._tries = None, 0


@dataclass(frozen=True, slots=True)
class ServiceAnswer:
    """Status and JSON content of an answer."""

    status: int
    content: Row


class Web:
    """One connection to a service, opened at use and kept. It belongs to one thread; a child of a fork opens its own.

    Args:   url: `https://host[:port][/prefix]`; `http` for this machine only. token: shown with each request.
            ca: file of certificates to trust instead of the system's. timeout_s: longest silence of the service.
            patience_s: as `Patience`, for a request that is repeated.
    Raises: UsageError: another URL. FileError: no such file of certificates.
    """

    def __init__(
        self, url: str, token: Token, *, ca: Path | None = None, timeout_s: float = 60.0, patience_s: float = 300.0
    ) -> None:
        self._parts = _checked(url)
        self.url = url.rstrip("/")
        self._token, self._timeout_s, self.patience_s = token, timeout_s, patience_s
        self._tls = _tls(ca) if self._parts.scheme == "https" else None
        self._connection: http.client.HTTPConnection | None = None
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f"Web({self.url!r})"

    def close(self) -> None:
        """End the connection; the next request opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def ask(self, method: str, path: str, body: object = None, *, wait_s: float = 0.0) -> ServiceAnswer:
        """A request that may be sent again: until it is answered, or patience ends.

        Args:   body: an object, as JSON. wait_s: how long the service may keep silent on purpose.
        Raises: ServiceRefused, ServiceUnreachable.
        """
        return self._patiently(lambda: self.once(method, path, body, wait_s=wait_s))

    def once(self, method: str, path: str, body: object = None, *, wait_s: float = 0.0) -> ServiceAnswer:
        """One try of a request. `body`: bytes, or an object as JSON. Raises: as `ask`."""
        response = self._sent(method, path, body, wait_s)
        return ServiceAnswer(response.status, self._object(response))

    def download(self, path: str, target: Path, *, most_bytes: int) -> int:
        """Write the content of an answer to a file, which appears whole or not at all; its bytes.

        Raises: ServiceError: it is longer than `most_bytes`; as `ask`.
        """
        return self._patiently(lambda: self._download_once(path, target, most_bytes))

    def _patiently(self, attempt: Callable[[], Came]) -> Came:
        patience = Patience(self.patience_s)
        while True:
            try:
                return attempt()
            except ServiceError as error:
                patience.pause(error)

    def swallow(self, path: str) -> int:
        """Receive the content of an answer and drop it; its bytes. One try. Raises: as `ask`."""
        return self._received(self._sent("GET", path, None, 0.0), lambda piece: None)

    def _download_once(self, path: str, target: Path, most_bytes: int) -> int:
        response = self._sent("GET", path, None, 0.0)
        room = most_bytes
        with UnfinishedFile(target, force=True, mode=0o600) as file:

            def write(piece: memoryview) -> None:
                nonlocal room
                room -= len(piece)
                if room < 0:
                    raise ServiceUnreachable(
                        f"{self.url}: a result of more than {most_bytes} bytes cannot be a ciphertext of this program",
                        passing=False,
                    )
                with os_errors(target):
                    rest = piece
                    while rest:
                        rest = rest[os.write(file.descriptor, rest) :]

            size = self._received(response, write)
            file.publish()
        return size

    def _received(self, response: http.client.HTTPResponse, take: Callable[[memoryview], None]) -> int:
        expected = response.length
        buffer = memoryview(bytearray(1 << 20))
        size = 0
        try:
            while count := response.readinto(buffer):
                take(buffer[:count])
                size += count
        except (OSError, http.client.HTTPException) as error:
            raise self._broken(error) from error
        except BaseException:
            self.close()
            raise
        if expected is not None and size != expected:
            raise self._broken(ConnectionError(f"{size} bytes of {expected} arrived"))
        return size

    def _sent(self, method: str, path: str, body: object, wait_s: float) -> http.client.HTTPResponse:
        """The head of a good answer."""
        headers = {"Authorization": f"Bearer {self._token.text}", "Accept": "application/json"}
        content: bytes | memoryview | None = None
        was_kept = False
        if isinstance(body, bytes | memoryview):
            content, headers["Content-Type"] = body, "application/octet-stream"
        elif body is not None:
            content, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        try:
            if self._process != os.getpid():
                self.close()  # this process's end of the parent's, which goes on
            if self._connection is not None and _has_ended(self._connection):
                self.close()
            connection = self._connection or self._opened()
            was_kept = connection.sock is not None
            connection.timeout = self._timeout_s + wait_s
            if connection.sock is not None:
                connection.sock.settimeout(self._timeout_s + wait_s)
            connection.request(method, self._parts.path.rstrip("/") + path, content, headers)
            response = connection.getresponse()
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise ServiceUnreachable(
                f"{self.url}: its certificate is not trusted ({error.verify_message}): name the file of its "
                "authority with --ca",
                passing=False,
            ) from None
        except (OSError, http.client.HTTPException) as error:
            if was_kept and isinstance(error, ConnectionError) and method != "PUT":
                # The service ended a connection that asked nothing while this request was on its way. If it was carried
                # out all the same, a job has its own identity, content its digest, and the rest is the same twice.
                # A piece of an upload is none of these: who sends it asks for the offset first.
                self.close()
                return self._sent(method, path, body, wait_s)
            raise self._broken(error) from None
        except BaseException:
            # An interrupt: what arrives next would be the answer to this request.
            self.close()
            raise
        if response.will_close:
            # The response reads on; the next request opens another connection.
            self._connection = None
        if 200 <= response.status < 300:
            return response
        raise self._refusal(response, f"{method} {path}")

    def _opened(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._tls is not None:
            self._connection = http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=self._tls)
        else:
            self._connection = http.client.HTTPConnection(host, port, timeout=self._timeout_s)
        self._process = os.getpid()
        return self._connection

    def _broken(self, error: Exception) -> ServiceUnreachable:
        self.close()
        # Words of http.client repeat parts of requests and answers; the system's do not.
        why = (error.strerror or str(error)) if isinstance(error, OSError) else type(error).__name__
        why = self._hidden(why) or type(error).__name__
        return ServiceUnreachable(f"{self.url} does not answer ({why}): is it running, and is the address right?")

    def _object(self, response: http.client.HTTPResponse) -> Row:
        """The JSON object of an answer; an empty one of an answer without content."""
        parts: list[bytes] = []
        room = _MOST_ANSWER_BYTES

        def take(piece: memoryview) -> None:
            nonlocal room
            room -= len(piece)
            if room < 0:
                raise ServiceUnreachable(
                    f"{self.url}: an answer of more than {_MOST_ANSWER_BYTES} bytes", passing=False
                )
            parts.append(bytes(piece))

        self._received(response, take)
        content = b"".join(parts)
        try:
            answer = json.loads(content) if content else {}
        except (ValueError, RecursionError):
            answer = None
        if isinstance(answer, list):
            answer = {"items": answer}
        if not isinstance(answer, dict):
            raise ServiceUnreachable(f"{self.url}: the answer is not JSON: is this penstock's service?", passing=False)
        return answer

    def _refusal(self, response: http.client.HTTPResponse, what: str) -> ServiceError:
        retry_after_s = _seconds(response.headers.get("Retry-After"))
        try:
            problem = self._object(response)
        except ServiceUnreachable as error:
            if error.passing:
                return error
            problem = {}
        parts = [str(problem.get(name) or "").strip().rstrip(".") for name in ("title", "detail", "rule", "remedy")]
        words = ". ".join(dict.fromkeys(filter(None, parts))) or http.client.responses.get(response.status, "refused")
        later = "" if retry_after_s is None else f" Come back in {retry_after_s:g} s."
        message = self._hidden(f"the service refused {what} ({response.status}): {words}.{later}")
        return ServiceRefused(message, response.status, problem, retry_after_s)

    def _hidden(self, text: str) -> str:
        """Words of others, which may repeat the token."""
        return text.replace(self._token.text, "…")


def _has_ended(connection: http.client.HTTPConnection) -> bool:
    """Whether the service has closed a connection that is kept: nothing else can arrive before a request."""
    if connection.sock is None:
        return False
    arrived = select.poll()
    arrived.register(connection.sock, select.POLLIN)
    return bool(arrived.poll(0))


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"the URL of the service cannot be read ({error}): write https://host:port") from None
    if parts.username is not None or parts.password is not None:
        raise UsageError("the URL of the service holds a user or a password: leave it out; a token says who asks")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise UsageError(f"'{url}' is not the URL of a service: write https://host:port")
    if parts.scheme == "http" and not is_loopback(host):
        raise UsageError(
            f"{url}: plain HTTP shows tokens to everyone on the way, and is for this machine only: use https://"
        )
    return parts


def is_loopback(host: str) -> bool:
    """Whether a name or an address is of this machine alone."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


@lru_cache(maxsize=8)
def _tls(ca: Path | None) -> ssl.SSLContext:
    """Connections share it, since reading certificates takes longer than a request."""
    if ca is None:
        return ssl.create_default_context()
    with os_errors(ca, "read"):
        try:
            return ssl.create_default_context(cafile=str(ca))
        except ssl.SSLError as error:
            raise UsageError(f"{ca}: it holds no certificate ({error.reason}): name a file in PEM form") from None


def _seconds(header: str | None) -> float | None:
    """Of `Retry-After`: seconds, or a date."""
    if header is None:
        return None
    with suppress(ValueError):
        return max(0.0, float(int(header)))
    with suppress(TypeError, ValueError):
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    return None
