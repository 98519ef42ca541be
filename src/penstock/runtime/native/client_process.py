"""A client in a separate process: the secret key is never in the evaluating process.

The process may rest: it ends, and the next request starts another one, which reads the key pair from its folder. So
the client takes no memory while the evaluator computes.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from penstock.base.system import remedy
from penstock.base.system.workers import interrupts_held, python_module
from penstock.base.types import Row
from penstock.errors import CapabilityMissing, ParamsError, PenstockError, UsageError
from penstock.program.evaluator.protocol import Values
from penstock.runtime.native.client import Decrypted, Encrypted, chosen_library
from penstock.scheme.params.ckks import CkksParameters

_ENDING_S = 10.0
"""The longest time from the closing of its socket to the end of a process."""
_REFUSALS = {kind.__name__: kind for kind in (CapabilityMissing, ParamsError, UsageError)}
"""Error types that survive the pipe; all others become `PenstockError`."""


class ClientProcess:
    """The other end of `client_worker`.

    Args:   folder: holds the key pair, readable by its owner only; written if it holds none. library: as
            `chosen_library`. spare: the source of memory named in the error if the process finds none. fleeting: a
            folder that the process removes if this one is killed.
    Raises, all methods: PenstockError: the client refuses, its process died, or this is a child of the process that
    made it: both would write into one socket.
    """

    def __init__(
        self,
        params: CkksParameters,
        folder: Path,
        *,
        library: str | None = None,
        threads: int | None = None,
        spare: str = "or run it with --client inside",
        fleeting: Path | None = None,
    ) -> None:
        self.params = params
        chosen = chosen_library(library, folder)
        self.library, self._title = chosen.name, chosen.title
        self._spare = spare
        self._fleeting = fleeting
        self.setup_s: dict[str, float] = {}
        self.peak_rss_bytes = 0
        """Most memory of any of its processes that has ended, as the system counts it."""
        self._request: Row = {
            "do": "open",
            "params": params.to_dict(),
            "folder": str(folder),
            "threads": threads,
            "library": chosen.name,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._parent = os.getpid()
        self._connection: Connection | None = None
        self._opening_since: float | None = None
        self.key_tag = ""
        self.ready()

    @property
    def pid(self) -> int | None:
        """Of the process that is there; `None` while it rests."""
        process = self._process
        return None if process is None else process.pid

    def make_keys(self, keys: Mapping[str, int], folder: Path, tenant: str, take: Callable[[str, Path], None]) -> None:
        try:
            self._ask(do="make_keys", keys=dict(keys), folder=str(folder), tenant=tenant)
            while (made := self._hear())["key"] is not None:
                take(made["key"], Path(made["path"]))
                self._send(b"")
        except BaseException:
            # It is writing keys into a folder that goes next.
            self._end()
            raise

    def encrypt(self, values: Values) -> Encrypted:
        plain = np.ascontiguousarray(values)
        self._ask(do="encrypt", dtype=plain.dtype.str)
        self._send(plain.tobytes())
        times = self._hear()
        return Encrypted(content=self._content(), **times)

    def decrypt(self, content: bytes, *, is_complex: bool = False) -> Decrypted:
        self._ask(do="decrypt", is_complex=is_complex)
        self._send(content)
        times = self._hear()
        return Decrypted(values=np.frombuffer(self._content(), dtype=np.complex128), **times)

    def wake(self) -> None:
        """Start the process, where it rests, without waiting until it can answer."""
        self._check_process()
        if self._process is not None:
            return
        here, there = socket.socketpair()
        # Ctrl-C is this side's to handle, from the other one's first moment on.
        with there, interrupts_held():
            self._process = subprocess.Popen(
                [
                    *python_module("penstock.runtime.native.client_worker"),
                    str(there.fileno()),
                    str(os.getpid()),
                    *([] if self._fleeting is None else [str(self._fleeting)]),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
            )
        self._connection = Connection(here.detach())
        self._opening_since = time.perf_counter()
        self._send(json.dumps(self._request).encode())

    def rest(self) -> None:
        """End the process; its memory is free, and its peak known. The next request starts another."""
        self._check_process()
        if self._process is None:
            return
        try:
            self._ask(do="memory")
            self.peak_rss_bytes = max(self.peak_rss_bytes, self._hear()["peak_rss_bytes"])
        finally:
            self._end()

    def release(self) -> None:
        """End the process at once, whatever it was asked last."""
        self._end()

    def _check_process(self) -> None:
        if os.getpid() != self._parent:
            raise PenstockError(
                f"the client's process ({self._title}) was started before a fork, and answers process {self._parent} "
                "alone: open a client in this process"
            )

    def ready(self) -> None:
        """Wait until it can answer, started where it rests."""
        self.wake()
        if self._opening_since is None:
            return
        since, self._opening_since = self._opening_since, None
        try:
            answer = self._hear()
            if self.key_tag not in ("", answer["key_tag"]):
                raise PenstockError(
                    f"{self._request['folder']} holds another key pair than before: somebody changed it while a "
                    "program ran; run it again"
                )
        except BaseException:
            # It may be writing keys into a folder that goes next.
            self._end()
            raise
        self.key_tag = answer["key_tag"]
        self.setup_s = self.setup_s or {"context_s": time.perf_counter() - since}

    def _ask(self, **request: object) -> None:
        self.ready()
        self._send(json.dumps(request).encode())

    def _send(self, content: bytes) -> None:
        assert self._connection is not None
        try:
            self._connection.send_bytes(content)
        except OSError as error:
            raise self._died() from error

    def _content(self) -> bytes:
        assert self._connection is not None
        try:
            return self._connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise self._died() from error

    def _hear(self) -> Row:
        answer: Row = json.loads(self._content())
        if "error" in answer:
            raise _REFUSALS.get(answer["type"], PenstockError)(answer["error"])
        return answer

    def _died(self) -> PenstockError:
        """The error for a process that is gone."""
        status = self._end()
        how = f"signal {-status}" if status is not None and status < 0 else f"exit status {status}"
        folder = Path(self._request["folder"])
        return PenstockError(
            f"the client's process ({self._title}) ended by itself, {how}. If the system has run out of memory, free "
            f"some, {self._spare}. If it ends again, the key pair in {folder} is damaged: {remedy.key_pair(folder)}"
        )

    def _end(self) -> int | None:
        """Close the socket and wait for the process, which ends by that; its exit status."""
        process, connection = self._process, self._connection
        self._process = self._connection = self._opening_since = None
        if os.getpid() != self._parent:
            if connection is not None:
                connection.close()  # the parent's end stays open
            return None
        if connection is not None:
            with suppress(OSError):
                os.set_blocking(connection.fileno(), False)
                connection.send_bytes(b"")  # the end is meant: this process lives on, and so does its folder
            connection.close()
        if process is None:
            return None
        try:
            return process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, 9)
            return process.wait()
