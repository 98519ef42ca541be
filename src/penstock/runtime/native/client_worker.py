"""The client's process: `python -m penstock.runtime.native.client_worker FD PARENT [FOLDER]`.

FD is a socket to the evaluating process, PARENT that process's number, FOLDER a temporary one for the key pair. One
request at a time: a JSON object, and for values and ciphertexts a second message of bytes. The secret key never goes
over the socket: no request asks for it. Evaluation keys go by files. The parent ends the process by an empty request,
or by closing the socket; that end is silent, since the parent says what happened. A parent that is killed says nothing:
the process sees it, removes FOLDER and ends.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from penstock.base.system.workers import after_parent, no_core_files
from penstock.base.types import Row
from penstock.errors import PenstockError
from penstock.runtime.native.client import LIBRARIES, Client, open_client
from penstock.runtime.native.memory import peak_resident_bytes
from penstock.scheme.params.ckks import CkksParameters

_DYING_S = 0.5
"""From the end of a killed process's socket to its own."""


class Answers:
    """The requests of one connection; `open` comes first."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._client: Client | None = None
        self._who = "the client's process"

    def serve(self) -> bool:
        """Answer until the other side ends; whether it said so."""
        with suppress(EOFError, ConnectionError):
            while content := self._connection.recv_bytes():
                request = json.loads(content)
                try:
                    getattr(self, f"do_{request.pop('do')}")(**request)
                except (EOFError, ConnectionError):
                    raise
                except PenstockError as error:
                    self._say(error=str(error), type=type(error).__name__)
                except MemoryError:
                    self._say(error=f"{self._who} has no memory: free some", type="MemoryError")
                except Exception as error:  # OpenFHE's errors have many classes
                    self._say(error=f"{self._who}: {type(error).__name__}: {error}", type="")
            return True
        return False

    @property
    def client(self) -> Client:
        if self._client is None:
            raise PenstockError("the client was asked before it was opened")
        return self._client

    def do_open(self, params: Row, folder: str | None, threads: int | None, library: str) -> None:
        self._who = f"the client's process ({LIBRARIES[library].title})"
        place = None if folder is None else Path(folder)
        self._client = open_client(CkksParameters.from_dict(params), place, library=library, threads=threads)
        self._say(setup_s=self.client.setup_s, key_tag=self.client.key_tag)

    def do_make_keys(self, keys: dict[str, int], folder: str, tenant: str) -> None:
        def take(key: str, made: Path) -> None:
            self._say(key=key, path=str(made))
            self._connection.recv_bytes()  # the other side has done with the file

        self.client.make_keys(keys, Path(folder), tenant, take)
        self._say(key=None)

    def do_encrypt(self, dtype: str) -> None:
        values = np.frombuffer(self._connection.recv_bytes(), dtype=np.dtype(dtype))
        made = self.client.encrypt(values)
        self._say(begun_s=made.begun_s, encoded_s=made.encoded_s, ended_s=made.ended_s)
        self._connection.send_bytes(made.content)

    def do_decrypt(self, is_complex: bool) -> None:
        decryption = self.client.decrypt(self._connection.recv_bytes(), is_complex=is_complex)
        self._say(begun_s=decryption.begun_s, ended_s=decryption.ended_s)
        self._connection.send_bytes(decryption.values.tobytes())

    def do_memory(self) -> None:
        self._say(peak_rss_bytes=peak_resident_bytes())

    def _say(self, **answer: object) -> None:
        self._connection.send_bytes(json.dumps(answer).encode())


def main() -> None:
    """Serve the socket whose file descriptor is the first argument."""
    no_core_files()
    descriptor, parent, *fleeting = sys.argv[1:]
    ending = after_parent(int(parent), partial(_end_alone, fleeting))
    with Connection(int(descriptor)) as connection:
        if not Answers(connection).serve():
            # Closed by the end of a parent that was killed, or by one that lives and waits for this process.
            ending.join(_DYING_S)


def _end_alone(fleeting: list[str]) -> None:
    for folder in fleeting:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


if __name__ == "__main__":
    main()
