"""A connection to a service that is kept, and that the service ends meanwhile."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from penstock.base.system.web import ServiceUnreachable, Token, Web

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Ending:
    """Answers the first request of each connection. `before`: ends it then; else at the second request, unanswered."""

    def __init__(self, *, before: bool) -> None:
        self.before, self.heads = before, list[str]()
        self.ended = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                self.heads.append(connection.recv(65536).decode().split("\r\n")[0])
                connection.sendall(ANSWER)
                if not self.before and (more := connection.recv(65536)):
                    self.heads.append(more.decode().split("\r\n")[0])
            self.ended.set()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@pytest.fixture(params=[True, False], ids=["before", "while"])
def ending(request: pytest.FixtureRequest) -> Iterator[Ending]:
    found = Ending(before=request.param)
    yield found
    found.close()


def asked(ending: Ending, method: str) -> int:
    """The status of a second request on a kept connection."""
    web = Web(f"http://127.0.0.1:{ending.port}", Token("x"))
    try:
        web.once("GET", "/first")
        if ending.before:
            assert ending.ended.wait(10)
        return web.once(method, "/second", b"x" if method == "PUT" else None).status
    finally:
        web.close()


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_request_on_a_connection_that_ended_between_two_is_sent_once_more(ending: Ending, method: str) -> None:
    assert asked(ending, method) == 200
    assert ending.heads[1:] == [f"{method} /second HTTP/1.1"] * (1 if ending.before else 2)


def test_a_piece_of_an_upload_is_sent_again_only_where_the_service_cannot_have_it(ending: Ending) -> None:
    if ending.before:
        assert asked(ending, "PUT") == 200
    else:
        with pytest.raises(ServiceUnreachable):
            asked(ending, "PUT")
    assert ending.heads[1:] == ["PUT /second HTTP/1.1"]
