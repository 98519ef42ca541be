"""Where a key node listens: what it replaces, what it leaves, and what ends it."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.runtime.keystore import KeyStore, parameter_digest
from penstock.scheme.params import catalogue
from penstock.service.near import listener as module
from penstock.service.near import node as node_module
from penstock.service.near.listener import Listener
from penstock.service.near.node import KeyNode, NodeOptions
from penstock.service.near.remote import NodeRefused, RemoteNode
from penstock.service.near.tokens import token_of

PARAMS = catalogue.get("insecure-small")
SECRET = "a-secret-of-many-bytes"


def stale(path: Path) -> None:
    """The socket of a node that was killed."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()


def test_a_socket_that_a_killed_node_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "n"
    stale(path)
    listener = Listener(f"unix:{path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        listener.accept().close()
    listener.close()
    assert not path.exists()


def test_a_live_node_is_not_replaced_even_where_its_queue_is_full(tmp_path: Path) -> None:
    path = tmp_path / "n"
    with socket.socket(socket.AF_UNIX) as live, socket.socket(socket.AF_UNIX) as first:
        live.bind(str(path))
        live.listen(0)
        first.connect(str(path))
        with pytest.raises(PenstockError, match="another node listens there; take another path"):
            Listener(f"unix:{path}")
        live.accept()[0].close()
    assert path.exists()


@pytest.mark.parametrize("kind", ["file", "folder", "link", "pipe"])
def test_what_is_no_socket_stays(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "n"
    if kind == "file":
        path.write_text("mine")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        stale(tmp_path / "other")
        path.symlink_to(tmp_path / "other")
    before = path.lstat()
    with pytest.raises(PenstockError, match="not a socket, and is not replaced"):
        Listener(f"unix:{path}")
    assert path.lstat().st_ino == before.st_ino
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted({"n", *(["other"] if kind == "link" else [])})


def test_what_took_the_path_of_a_node_stays_when_the_node_ends(tmp_path: Path) -> None:
    path = tmp_path / "n"
    first = Listener(f"unix:{path}")
    path.unlink()
    second = Listener(f"unix:{path}")
    first.close()
    assert path.exists()
    second.close()
    assert not path.exists()


def test_where_the_folder_is_locked_nothing_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOCK_PAUSE_S", 0)
    path = tmp_path / "n"
    stale(path)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(PenstockError, match="cannot be locked; remove that file"):
        Listener(f"unix:{path}")
    os.close(descriptor)
    assert path.exists()


def test_folders_that_are_not_there_and_ports_that_are_taken_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match="No such file or directory; take another address"):
        Listener(f"unix:{tmp_path}/gone/n")
    listener = Listener("127.0.0.1:0")
    with pytest.raises(PenstockError, match="take another port"):
        Listener(listener.address)
    listener.close()


@pytest.fixture
def node_of(tmp_path: Path) -> Iterator[Callable[..., KeyNode]]:
    """Makes a node of a store without keys."""
    with ExitStack() as nodes:

        def make(**options: Any) -> KeyNode:
            given = NodeOptions(budget_bytes=PARAMS.key_bytes(), **options)
            return nodes.enter_context(KeyNode(PARAMS, KeyStore(tmp_path / "keys"), SECRET, "127.0.0.1:0", given))

        yield make


def client(node: KeyNode, tenant: str) -> RemoteNode:
    token = token_of(SECRET, tenant, parameter_digest(PARAMS), "tag")
    return RemoteNode(node.address, PARAMS, token=token, tenant=tenant, key_tag="tag", timeout_s=20)


@pytest.mark.parametrize("code", [errno.ECONNABORTED, errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_node_outlives_connections_that_could_not_be_accepted(
    node_of: Callable[..., KeyNode], monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(node_module, "_PAUSE_S", 0, raising=False)
    faults, accept = [OSError(code, os.strerror(code))] * 3, Listener.accept

    def failing(self: Listener) -> socket.socket:
        if faults:
            raise faults.pop()
        return accept(self)

    monkeypatch.setattr(Listener, "accept", failing)
    node = node_of()
    thread = node.start()
    client(node, "alice").close()
    assert not faults
    node.close()
    thread.join(20)
    assert not thread.is_alive()


def test_a_node_whose_socket_somebody_else_closed_ends(node_of: Callable[..., KeyNode]) -> None:
    node = node_of()
    node._listener._socket.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        node.serve()


def test_a_node_outlives_a_connection_for_which_the_system_has_no_thread(
    node_of: Callable[..., KeyNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = node_of()
    node.start()
    start, refused = threading.Thread.start, []

    def without_room(self: threading.Thread) -> None:
        if self.name == "key-node-client" and not refused:
            refused.append(self)
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", without_room)
    with pytest.raises(PenstockError):
        client(node, "alice")
    client(node, "alice").close()
    assert (len(refused), node.served.refused) == (1, 1)


def test_one_tenant_takes_no_more_than_its_share_of_a_nodes_places(node_of: Callable[..., KeyNode]) -> None:
    node = node_of(max_clients=4)
    node.start()
    with ExitStack() as clients:
        # Half of the places, unless the operator says otherwise.
        clients.enter_context(client(node, "alice"))
        with client(node, "alice"):
            with pytest.raises(NodeRefused, match="tenant 'alice' has 2 connections already, as many as --max-per-te"):
                client(node, "alice")
            for _ in range(2):
                clients.enter_context(client(node, "bob"))
            with pytest.raises(NodeRefused, match="serves 4 clients already"):
                client(node, "carol")
        while len(node._clients) == 4:  # until the node has seen that one left
            pass
        with pytest.raises(NodeRefused, match="tenant 'bob' has 2"):
            client(node, "bob")
        client(node, "alice").close()


def test_an_operator_says_how_many_places_one_tenant_has(node_of: Callable[..., KeyNode]) -> None:
    node = node_of(max_clients=2, max_per_tenant=2)
    node.start()
    with client(node, "alice"), client(node, "alice"), pytest.raises(NodeRefused, match="serves 2 clients already"):
        client(node, "alice")
