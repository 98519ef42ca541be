"""A storage node: it owns the evaluation keys of tenants and executes the operations that read them.

It holds no secret key and sees ciphertexts only. A client says first who it is: the tenant, the parameters and the key
pair that its ciphertexts are of, and the token of just these; keys of another tenant or pair are never used for it.
Memory is bounded: a client has one frame at a time, no larger than a product of three polynomials, one decomposition,
and room for the rows of one key. Connections that have not said hello have a separate pool and take no client's place:
if it is full, the node hangs up on the oldest.
"""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field

import numpy as np

from penstock import _engine
from penstock.base.types import RowView
from penstock.errors import PenstockError
from penstock.runtime.keystore import BudgetTooSmall, KeyCache, KeyRefused, KeyStore, parameter_digest
from penstock.runtime.native.engine import make_context
from penstock.scheme.operations import CONJ_KEY, RELIN_KEY
from penstock.scheme.params.ckks import CkksParameters
from penstock.service.near.frames import REQUEST_FIELDS, FrameRefused, Kind, decode_header
from penstock.service.near.link import Link, LinkClosed, Words
from penstock.service.near.listener import Listener
from penstock.service.near.tokens import admits, checked_secret
from penstock.service.near.words import ciphertext_of, header_of, rows_of

_PAUSE_S = 0.1
"""Between two trials to accept where the system has no room for a connection."""
_SOCKET_GONE = (errno.EBADF, errno.EINVAL, errno.ENOTSOCK)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """How a node serves.

    `bytes_per_s` throttles its output; `path` names kernels other than the fastest (a node's slower processor).
    `max_clients` counts connections that said hello, `max_per_tenant` those of one tenant (`None`: half of all, so that
    no tenant keeps the others out), `max_waiting` those before their hello.
    """

    budget_bytes: int
    threads: int = 1
    path: str | None = None
    max_clients: int = 8
    max_per_tenant: int | None = None
    max_waiting: int = 32
    hello_timeout_s: float = 5.0
    idle_timeout_s: float = 60.0
    bytes_per_s: float | None = None

    @property
    def places_per_tenant(self) -> int:
        """Connections of one tenant at once."""
        return (self.max_clients + 1) // 2 if self.max_per_tenant is None else self.max_per_tenant


@dataclass(slots=True)
class NodeCounts:
    """Counts since the node was made."""

    clients: int = 0
    refused: int = 0
    """Connections that were closed for want of a token, of room, or of a frame that is one."""
    operations: int = 0
    pulls: int = 0
    failures: int = 0


@dataclass(slots=True)
class _Client:
    """One authenticated connection."""

    link: Link
    tenant: str
    key_tag: str
    kept: _engine.CkksCiphertext | None = None
    digits: _engine.CkksDigits | None = field(default=None)
    room: Words | None = None
    """The buffer for the rows of pulled keys: fresh memory for each would cost as much as the copy."""


class KeyNode(AbstractContextManager["KeyNode"]):
    """A node for one set of parameters, of all tenants of a store.

    Args:   secret: what its tokens are made of (`tokens.token_of`). address: `unix:PATH` or `127.0.0.1:PORT` (port 0:
            any; see `address`).
    Raises: UsageError: a short secret, no address of this machine, a budget that holds no key. PenstockError: the
            address is taken.
    """

    def __init__(
        self, params: CkksParameters, store: KeyStore, secret: str, address: str, options: NodeOptions
    ) -> None:
        if options.budget_bytes < params.key_bytes():
            raise BudgetTooSmall(
                f"a budget of {options.budget_bytes} bytes holds no key of set '{params.name}', which has "
                f"{params.key_bytes()}: raise it"
            )
        self.params, self.options, self.served = params, options, NodeCounts()
        self._secret = checked_secret(secret)
        self._digest = parameter_digest(params)
        self._engine = make_context(params, options.threads, options.path)
        self._cache = KeyCache(store, options.budget_bytes, policy="lru", prefetch_uses=0)
        self.max_body_bytes = 3 * params.num_q * params.ring_dim * 8
        self._listener = Listener(address)
        self.address = self._listener.address
        self._lock = threading.Lock()
        # In the order in which they came.
        self._waiting: dict[socket.socket, None] = {}
        self._clients: dict[socket.socket, str] = {}
        """Connection -> its tenant."""
        self._closing = threading.Event()

    def serve(self) -> None:
        """Answer clients until `close`; each has a thread. If the system has no thread left, the connection is
        closed."""
        while (connection := self._accepted()) is not None:
            with self._lock:
                if len(self._waiting) >= self.options.max_waiting:
                    oldest = next(iter(self._waiting))
                    del self._waiting[oldest]
                    _hang_up(oldest)
                    self.served.refused += 1
                self._waiting[connection] = None
            thread = threading.Thread(target=self._client, args=(connection,), daemon=True, name="key-node-client")
            try:
                thread.start()
            except RuntimeError:
                with self._lock:
                    self._waiting.pop(connection, None)
                    self.served.refused += 1
                connection.close()
                self._closing.wait(_PAUSE_S)

    def _accepted(self) -> socket.socket | None:
        """The next connection; `None` at the end.

        Faults of one connection, and of a system that is out of files or memory, pass: it tries again.
        """
        while True:
            try:
                return self._listener.accept()
            except OSError as error:
                if self._closing.is_set():
                    return None
                if error.errno in _SOCKET_GONE:
                    raise
                if error.errno != errno.ECONNABORTED:
                    self._closing.wait(_PAUSE_S)

    def start(self) -> threading.Thread:
        """Serve in a separate thread."""
        thread = threading.Thread(target=self.serve, daemon=True, name="key-node")
        thread.start()
        return thread

    def close(self) -> None:
        """Stop listening and hang up."""
        self._closing.set()
        self._listener.close()
        with self._lock:
            for connection in (*self._waiting, *self._clients):
                _hang_up(connection)

    def __exit__(self, *_: object) -> None:
        self.close()

    def _client(self, connection: socket.socket) -> None:
        link = Link(connection, bytes_per_s=self.options.bytes_per_s, timeout_s=self.options.idle_timeout_s)
        # A client that sends a byte now and then would never meet the timeout of one receive.
        late = threading.Timer(self.options.hello_timeout_s, _hang_up, (connection,))
        late.daemon = True
        try:
            late.start()
            client = self._hello(link)
            late.cancel()
            self._admit(connection, client.tenant)
            link.send(Kind.WELCOME, {"max_body_bytes": self.max_body_bytes})
            while True:
                self._answer(client)
        except LinkClosed:
            pass
        except FrameRefused as error:
            with self._lock:
                self.served.refused += 1
            with suppress(PenstockError):
                link.send(Kind.ERROR, {"message": str(error)[:1000]})
        finally:
            late.cancel()
            with self._lock:
                self._waiting.pop(connection, None)
                self._clients.pop(connection, None)
            link.close()

    def _hello(self, link: Link) -> _Client:
        prefix, content = link.receive_prefix(max_body_bytes=0)
        if prefix.kind is not Kind.HELLO:
            raise FrameRefused("the first frame of a client is its hello")
        header = decode_header(content, REQUEST_FIELDS[Kind.HELLO])
        if not admits(self._secret, **header):
            raise FrameRefused(
                "the token is not that of this tenant, key pair and parameters; the node's operator prints it with "
                "'penstock keys token'"
            )
        if header["digest"] != self._digest:
            raise FrameRefused(f"this node serves set '{self.params.name}' (digest {self._digest}) only")
        return _Client(link, header["tenant"], header["key_tag"])

    def _admit(self, connection: socket.socket, tenant: str) -> None:
        """From the waiting connections to the clients.

        Raises: FrameRefused: there is no room for another client, or none for this tenant's. LinkClosed: it was hung up
                on meanwhile.
        """
        most, own = self.options.max_clients, self.options.places_per_tenant
        with self._lock:
            if connection not in self._waiting:
                raise LinkClosed("it waited longest where others came")
            if len(self._clients) >= most:
                raise FrameRefused(f"it serves {most} clients already, as many as --max-clients says: try again later")
            if list(self._clients.values()).count(tenant) >= own:
                raise FrameRefused(
                    f"tenant '{tenant}' has {own} connections already, as many as --max-per-tenant says: close one, or "
                    "try again later"
                )
            del self._waiting[connection]
            self._clients[connection] = tenant
            self.served.clients += 1

    def _answer(self, client: _Client) -> None:
        """One request. A faulty frame ends the connection; a failed operation is answered with its error."""
        prefix, content = client.link.receive_prefix(self.max_body_bytes)
        handlers: dict[Kind, Callable[[_Client, RowView, Words], None]] = {
            Kind.ROTATE: self._rotate,
            Kind.ROTATE_HOISTED: self._rotate_hoisted,
            Kind.RELINEARIZE: self._relinearize,
            Kind.PULL: self._pull,
        }
        if prefix.kind not in handlers:
            raise FrameRefused(f"a client sends no {prefix.kind.name} here")
        header = decode_header(content, REQUEST_FIELDS[prefix.kind])
        body = client.link.receive_body(prefix)
        try:
            handlers[prefix.kind](client, header, body)
        except (LinkClosed, FrameRefused):
            raise
        except PenstockError as error:
            with self._lock:
                self.served.failures += 1
            client.link.send(Kind.ERROR, {"message": str(error)[:1000]})

    def _rotate(self, client: _Client, header: RowView, body: Words) -> None:
        a, element = ciphertext_of(self._engine, header, body), header["element"]
        with self._key(client, self._key_of(element), a.limbs) as key:
            (result,) = self._engine.perform("rotate", [a], argument=element, key=key)
        self._send(client, result)

    def _rotate_hoisted(self, client: _Client, header: RowView, body: Words) -> None:
        element = header["element"]
        if len(body):
            client.kept, client.digits = ciphertext_of(self._engine, header, body), None
        a = client.kept
        if a is None:
            raise FrameRefused("a hoisted rotation without a ciphertext, and none was sent before")
        with self._key(client, self._key_of(element), a.limbs) as key:
            if client.digits is None:
                (client.digits,) = self._engine.perform("decompose", [a])
            operands = [a, client.digits]
            (result,) = self._engine.perform("rotate_hoisted", operands, argument=element, key=key)
        self._send(client, result)

    def _relinearize(self, client: _Client, header: RowView, body: Words) -> None:
        a = ciphertext_of(self._engine, header, body)
        with self._key(client, RELIN_KEY, a.limbs) as key:
            (result,) = self._engine.perform("relinearize", [a], key=key)
        self._send(client, result)

    def _pull(self, client: _Client, header: RowView, body: Words) -> None:
        if len(body):
            raise FrameRefused("a request for a key has no body")
        limbs = header["limbs"]
        with self._key(client, header["key"], limbs) as key:
            if client.room is None:
                client.room = np.empty(self.params.key_bytes() // 8, dtype=np.uint64)
            count = _engine.ckks_key_words(self._engine, key, limbs, client.room)
        with self._lock:
            self.served.pulls += 1
        client.link.send(Kind.KEY_ROWS, {"limbs": limbs}, [client.room[:count]])

    def _key(self, client: _Client, key: str, limbs: int) -> _engine.CkksKey:
        """The client's key, pinned.

        Raises: KeyMissing, KeyDamaged, KeyRefused: not there, not whole, or of another key pair than the ciphertexts.
        """
        if not 1 <= limbs <= self.params.num_q:
            raise KeyRefused(f"a key at {limbs} limbs: set '{self.params.name}' has 1 to {self.params.num_q}")
        return self._cache.session(client.tenant, self._digest, secret_tag=client.key_tag).get(key, limbs)

    def _key_of(self, element: int) -> str:
        n = 2 * self.params.ring_dim
        if not 0 < element < n or element % 2 == 0:
            raise KeyRefused(f"automorphism {element}: elements are odd and below {n}")
        return CONJ_KEY if element == n - 1 else f"rot:{element}"

    def _send(self, client: _Client, result: _engine.CkksCiphertext) -> None:
        with self._lock:
            self.served.operations += 1
        client.link.send(Kind.RESULT, header_of(result), rows_of(result))


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
