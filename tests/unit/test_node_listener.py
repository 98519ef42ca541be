"""Where a key node listens: what it replaces, what it leaves, and what ends it."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.service.near import listener as module
from penstock.service.near.listener import Listener


def stale(path: Path) -> None:
    """The socket of a node that was killed."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()


def test_a_socket_that_a_killed_node_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "n"
    stale(path)
    listener = Listener(f"unix:{path}", 4)
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
            Listener(f"unix:{path}", 4)
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
    with pytest.raises(PenstockError, match="no socket, and is not replaced"):
        Listener(f"unix:{path}", 4)
    assert path.lstat().st_ino == before.st_ino
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted({"n", *(["other"] if kind == "link" else [])})


def test_what_took_the_path_of_a_node_stays_when_the_node_ends(tmp_path: Path) -> None:
    path = tmp_path / "n"
    first = Listener(f"unix:{path}", 4)
    path.unlink()
    second = Listener(f"unix:{path}", 4)
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
        Listener(f"unix:{path}", 4)
    os.close(descriptor)
    assert path.exists()


def test_folders_that_are_not_there_and_ports_that_are_taken_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match="No such file or directory; take another address"):
        Listener(f"unix:{tmp_path}/gone/n", 4)
    listener = Listener("127.0.0.1:0", 4)
    with pytest.raises(PenstockError, match="take another port"):
        Listener(listener.address, 4)
    listener.close()
