"""A connection that sends and receives frames: Unix or loopback sockets, throttled where a network is measured.

The throttle is a token bucket for each direction of each link: bytes leave no faster than the rate, and a burst no
larger than the bucket. It adds the time of the bytes on that network.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from penstock.base.types import RowView
from penstock.errors import PenstockError, UsageError
from penstock.service.near.frames import PREFIX, Kind, Prefix, decode_prefix, encode_prefix

Words = npt.NDArray[np.uint64]
CHUNK_BYTES = 1 << 18


class LinkClosed(PenstockError):
    """The other side went away, or did not answer in time."""


class TokenBucket:
    """At most `bytes_per_s`, and at most `burst_bytes` at once.

    Args:   now, sleep: the clock; tests bring their own.
    """

    def __init__(
        self,
        bytes_per_s: float,
        burst_bytes: int = CHUNK_BYTES,
        *,
        now: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not bytes_per_s > 0 or burst_bytes < 1:
            raise UsageError(f"a link of {bytes_per_s} bytes a second with bursts of {burst_bytes}: both are positive")
        self.bytes_per_s, self.burst_bytes = bytes_per_s, burst_bytes
        self._now, self._sleep = now, sleep
        self._tokens, self._at = float(burst_bytes), now()

    def take(self, count: int) -> None:
        """Wait until `count` bytes may leave. More than a burst runs into debt, which is waited for.

        The excess of a sleep is made up for over any number of bursts: at 10 Gb/s a timer is as late as a burst is
        long. Only silence is worth no more than a burst.
        """
        earned = self._tokens + self._elapsed() * self.bytes_per_s
        self._tokens = max(self._tokens, min(self.burst_bytes, earned)) - count
        if self._tokens < 0:
            self._sleep(-self._tokens / self.bytes_per_s)
            self._tokens += self._elapsed() * self.bytes_per_s

    def _elapsed(self) -> float:
        """Seconds since it was asked last."""
        before, self._at = self._at, self._now()
        return self._at - before


class Link:
    """One end of a connection. Not for several threads at once.

    Args:   bytes_per_s: throttle of what this end sends; `None`: as fast as the socket. timeout_s: longest wait for
            the next bytes of a frame.
    """

    def __init__(self, connection: socket.socket, *, bytes_per_s: float | None = None, timeout_s: float = 60.0) -> None:
        self._socket, self._process = connection, os.getpid()
        self._bucket = None if bytes_per_s is None else TokenBucket(bytes_per_s)
        self._body: Words = np.empty(0, dtype=np.uint64)
        self.sent_bytes = self.received_bytes = 0
        """Bodies only."""
        connection.settimeout(timeout_s)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            connection.setsockopt(socket.SOL_SOCKET, option, 4 * CHUNK_BYTES)
        if connection.family == socket.AF_INET:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, kind: Kind, header: RowView, rows: Sequence[Words] = ()) -> None:
        """A frame whose body is `rows`, each C-contiguous.

        Raises: LinkClosed.
        """
        self._check_process()
        views = [_bytes_of(part) for part in rows]
        size = sum(view.nbytes for view in views)
        try:
            self._socket.sendall(encode_prefix(kind, header, size))
            for view in views:
                for start in range(0, view.nbytes, CHUNK_BYTES):
                    piece = view[start : start + CHUNK_BYTES]
                    if self._bucket is not None:
                        self._bucket.take(piece.nbytes)
                    self._socket.sendall(piece)
        except OSError as error:
            raise _closed(error) from error
        self.sent_bytes += size

    def receive_prefix(self, max_body_bytes: int) -> tuple[Prefix, bytes]:
        """The fixed part and the header of the next frame; the body is still to be received.

        Raises: LinkClosed; FrameRefused: no frame, or a body of more than `max_body_bytes`.
        """
        prefix = decode_prefix(bytes(self._exactly(PREFIX.size)), max_body_bytes)
        return prefix, bytes(self._exactly(prefix.header_bytes))

    def receive_body(self, prefix: Prefix) -> Words:
        """(words,) uint64: the body, in memory of the link that the next body is written to."""
        count = prefix.body_bytes // 8
        if len(self._body) < count:
            self._body = np.empty(count, dtype=np.uint64)
        body = self._body[:count]
        self._fill(_bytes_of(body))
        self.received_bytes += prefix.body_bytes
        return body

    def close(self) -> None:
        self._socket.close()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise LinkClosed("this connection was opened before a fork, and is the parent's: connect in this process")

    def _exactly(self, count: int) -> bytearray:
        content = bytearray(count)
        self._fill(memoryview(content))
        return content

    def _fill(self, target: memoryview) -> None:
        self._check_process()
        try:
            while target:
                got = self._socket.recv_into(target)
                if got == 0:
                    raise LinkClosed("the other side closed the connection")
                target = target[got:]
        except OSError as error:
            raise _closed(error) from error


def connect(address: str, *, bytes_per_s: float | None = None, timeout_s: float = 60.0) -> Link:
    """A link to `unix:PATH` or `HOST:PORT` of this machine.

    Raises: LinkClosed: nobody listens there. UsageError: no address of this machine.
    """
    family, place = parse_address(address)
    connection = socket.socket(family, socket.SOCK_STREAM)
    connection.settimeout(timeout_s)
    try:
        connection.connect(place)
    except OSError as error:
        connection.close()
        raise LinkClosed(f"no key node answers at {address}: {error.strerror or error}") from error
    return Link(connection, bytes_per_s=bytes_per_s, timeout_s=timeout_s)


def parse_address(address: str) -> tuple[int, str | tuple[str, int]]:
    """Socket family and place of `unix:PATH` or of a loopback `HOST:PORT`.

    Raises: UsageError: neither; frames are not encrypted, so nothing beyond this machine is taken.
    >>> parse_address("127.0.0.1:7000")[1]
    ('127.0.0.1', 7000)
    """
    if address.startswith("unix:") and len(address) > len("unix:"):
        return socket.AF_UNIX, address[len("unix:") :]
    host, _, port = address.rpartition(":")
    if host in ("127.0.0.1", "localhost") and port.isdecimal() and int(port) < 1 << 16:
        return socket.AF_INET, (host, int(port))
    raise UsageError(
        f"address '{address}': it is unix:PATH, or 127.0.0.1:PORT; frames are not encrypted, so a node listens on this "
        "machine only"
    )


def _bytes_of(words: Words) -> memoryview:
    """The bytes of contiguous rows, in place."""
    return words.data.cast("B")


def _closed(error: OSError) -> LinkClosed:
    if isinstance(error, TimeoutError):
        return LinkClosed("the other side did not go on in time: it hangs, or the timeout is too short")
    return LinkClosed(f"the connection broke: {error.strerror or error}")
