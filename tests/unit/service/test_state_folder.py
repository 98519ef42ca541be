"""The files under a server: whose they are, who uses them, what is in the database, and what is left on a full disk."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy")

from penstock.service.http.config import embedded
from penstock.service.http.logs import Log, opened
from penstock.service.http.service import ServiceFront
from penstock.service.state import folder as folders
from penstock.service.state.folder import FileLock, FolderRefused, StateUnusable, hold_database, owner_only
from penstock.service.state.problems import Problem
from penstock.service.state.state import ServiceState
from support.fake_computing import FakeComputing
from support.small_disk import needs_mounts, on_a_small_disk

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, which gives files away")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_TRY_S", 0.1)


def front(folder: Path, **more: object) -> ServiceFront:
    return ServiceFront(embedded(folder), Log(), lambda _, jobs: FakeComputing(jobs))


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_folder_in_use_is_refused_with_its_holder_and_is_free_after_that(tmp_path):
    first = front(tmp_path / "state")
    with pytest.raises(FolderRefused, match=rf"in use by another server \(process {os.getpid()} on .*, since 2"):
        front(tmp_path / "state")
    (tmp_path / "state" / "server.lock").unlink()
    with pytest.raises(FolderRefused, match="in use by another server"):
        front(tmp_path / "state")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "state")
    with pytest.raises(FolderRefused, match="in use by another server"):
        front(link)
    first.close()
    front(tmp_path / "state").close()


def test_a_database_in_use_is_refused_from_another_folder_too(tmp_path, monkeypatch):
    first = front(tmp_path / "one")
    (tmp_path / "beside").symlink_to(tmp_path / "one" / "state.sqlite")
    for name in ("one/state.sqlite", "beside"):
        monkeypatch.setenv("PENSTOCK_DATABASE", f"sqlite:///{tmp_path / name}")
        with pytest.raises(FolderRefused, match=r"the database .* is in use by another server"):
            front(tmp_path / "two")
    first.close()
    front(tmp_path / "two").close()


def test_a_process_that_a_server_started_does_not_hold_its_lock(tmp_path):
    lock = FileLock(tmp_path / "lock", "it", tmp_path)
    left = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, close_fds=False
    )
    try:
        lock.release()
        FileLock(tmp_path / "lock", "it", tmp_path).release()
    finally:
        left.communicate()


def test_a_file_system_without_locks_is_refused_and_named(tmp_path, monkeypatch):
    def refuse(descriptor: int, how: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(folders.fcntl, "flock", refuse)
    with pytest.raises(FolderRefused, match=r"has no locks .*mount it with locks"):
        front(tmp_path / "state")


def test_a_copied_folder_is_said(tmp_path):
    front(tmp_path / "state").close()
    subprocess.run(["cp", "-a", tmp_path / "state", tmp_path / "copy"], check=True)
    copy = front(tmp_path / "copy")
    assert [note for note in copy.notes if f"the state was in {tmp_path / 'state'} before" in note]
    copy.close()
    (tmp_path / "copy").rename(tmp_path / "moved")
    moved = front(tmp_path / "moved")
    assert moved.notes == []
    moved.close()


def test_a_folder_that_others_may_read_is_narrowed_and_said(tmp_path):
    before = os.umask(0)
    try:
        place = tmp_path / "state"
        (place / "keys").mkdir(parents=True, mode=0o755)
        (place / "tenants").mkdir(mode=0o777)
        ServiceState(f"sqlite:///{place / 'state.sqlite'}").close()
        (place / "state.sqlite").chmod(0o666)
        service = front(place)
        for name in (
            ".",
            "keys",
            "tenants",
            "state.sqlite",
            "state.sqlite-wal",
            "state.sqlite-shm",
            "server.lock",
            "reserve",
        ):
            assert mode(place / name) & 0o077 == 0, name
        for name in ("state ", "state/keys", "state/tenants", "state/state.sqlite"):
            assert any(f"{tmp_path}/{name}" in note and "had mode" in note for note in service.notes), name
        service.close()
        again = front(place)
        assert again.notes == []
        again.close()
    finally:
        os.umask(before)


def test_a_log_is_its_owners_alone(tmp_path):
    said: list[str] = []
    path = tmp_path / "serve.log"
    path.write_text("before\n")
    path.chmod(0o644)
    with opened(path, said.append) as log:
        log.write("after\n")
    assert (mode(path), path.read_text()) == (0o600, "before\nafter\n")
    assert len(said) == 1


@needs_root
@pytest.mark.parametrize("name", [".", "tenants", "keys", "state.sqlite"])
def test_what_is_another_users_is_refused_with_the_command(tmp_path, name):
    place = tmp_path / "state"
    front(place).close()
    os.chown(place / name, 65534, 65534)
    with pytest.raises(FolderRefused, match=r"belongs to user 65534.*chown -R 0 "):
        front(place)


@pytest.mark.parametrize("which", ["target", "parent"])
def test_a_link_to_a_place_of_others_is_refused(tmp_path, which):
    target = tmp_path / "parent" / "target"
    target.mkdir(parents=True, mode=0o700)
    link = tmp_path / "link"
    link.symlink_to(target)
    front(link).close()
    (target if which == "target" else target.parent).chmod(0o777)
    with pytest.raises(FolderRefused, match=r"others can write .*chmod go-w"):
        front(link)


def test_a_mode_that_cannot_be_set_is_refused(tmp_path, monkeypatch):
    (tmp_path / "state").mkdir(mode=0o755)
    (tmp_path / "state").chmod(0o755)
    monkeypatch.setattr(folders.os, "fchmod", lambda descriptor, wanted: None)
    with pytest.raises(FolderRefused, match=r"keeps no modes.*chmod -R go="):
        owner_only(tmp_path / "state", print)


def database(path: Path, *statements: str) -> bytes:
    """A database of SQLite with these; its bytes."""
    with closing(sqlite3.connect(path)) as made, made:
        for statement in statements:
            made.execute(statement)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("truncated", "damaged"),
        ("flipped", "damaged"),
        ("no database", "not a database"),
        ("another program's", "tables of another program"),
        ("another's `about`", "tables of another program"),
        ("newer", "tables of version 2"),
        ("a folder", "damaged or cannot be read"),
    ],
)
def test_a_database_that_is_not_ours_is_refused_and_not_changed(tmp_path, kind, why):
    place = tmp_path / "state"
    front(place).close()
    path = place / "state.sqlite"
    whole = path.read_bytes()
    if kind == "truncated":
        path.write_bytes(whole[: len(whole) // 2])
    elif kind == "flipped":
        path.write_bytes(whole[:4096] + bytes(4096) + whole[8192:])
    elif kind == "no database":
        path.write_bytes(b"# notes\n" * 1000)
    elif kind == "newer":
        database(path, "UPDATE about SET value = '2' WHERE name = 'version'")
    else:
        path.unlink()
        if kind == "a folder":
            path.mkdir()
        else:
            database(
                path, f"CREATE TABLE {'about' if 'about' in kind else 'songs'} (title TEXT)", "CREATE TABLE b (c TEXT)"
            )
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(StateUnusable, match=why) as refused:
        front(place)
    assert refused.value.exit_code == 2
    assert "\n" not in str(refused.value)
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_a_folder_with_content_and_without_its_database_is_refused(tmp_path):
    place = tmp_path / "state"
    service = front(place)
    (service.files.tenants / "alice").mkdir()
    service.close()
    for gone in (False, True):
        (place / "state.sqlite").unlink() if gone else (place / "state.sqlite").write_bytes(b"")
        with pytest.raises(FolderRefused, match="is empty or gone: restore it"):
            front(place)


def test_a_lock_of_a_database_in_memory_needs_no_file(tmp_path):
    assert hold_database("sqlite://", print) is None
    with pytest.raises(FolderRefused, match="a URI of SQLite is not taken"):
        hold_database(f"sqlite:///file:{tmp_path}/x?uri=true", print)


FULL = """
import contextlib, os, shutil, sys
from pathlib import Path
from penstock.service.http.config import embedded
from penstock.service.http.logs import Log
from penstock.service.state.problems import Problem
from penstock.service.http.service import SERVER, ServiceFront
from support.fake_computing import FakeComputing

place = Path(sys.argv[1])
def front():
    return ServiceFront(embedded(place / "state"), Log(), lambda _, jobs: FakeComputing(jobs))

def fill():
    with (place / "filler").open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))

def refusal(action, *args, **named):
    try:
        action(*args, **named)
    except Problem as problem:
        return problem.status, problem.reason
    return None

service = front()
service.check_ready()
for name in ("alice", "bob"):
    service.add_tenant(SERVER, name)
tokens = [service.make_token(SERVER, "alice", ("run",), None) for _ in range(3)]
blob = service.files.blob("bob", "s")
service.files.make(blob)
blob.write_bytes(bytes(600_000))
row = {"tenant": "bob", "sha256": "s", "kind": "input", "bytes": 9, "expires_s": None}
service.state.end_upload("bob", "none", row)
knows = lambda at: service.state.caller(tokens[at].text) is not None
def end(at):
    return service.state.end_token_at_once(SERVER, "alice", tokens[at].identity, service.state.clock())

fill()
assert refusal(service.check_ready) == (503, "disk-full"), refusal(service.check_ready)
outcomes = {refusal(service.state.note, f"word {at}", "x" * 3000) for at in range(900)}
assert (507, "database") in outcomes, outcomes
"""


@needs_mounts
@pytest.mark.parametrize("kind", ["reserve", "nothing left", "deletion"])
def test_on_a_full_disk_tokens_end_and_things_can_be_removed(tmp_path, kind):
    code = {
        "reserve": """
assert (place / "state" / "reserve").exists()
service.close()
fill()
service = front()  # it needs the room itself
assert refusal(service.check_ready) == (503, "disk-full")
assert end(0) and not knows(0) and knows(1)
service.close()
service = front()
assert not knows(0) and knows(1)
(place / "filler").unlink()
service._tick()
assert (place / "state" / "reserve").exists()
service.check_ready()
""",
        "nothing left": """
service.reserve.give_up()
fill()
{refusal(service.state.note, f"more {at}", "x" * 3000) for at in range(900)}
fill()
assert not end(0) and not knows(0) and knows(1)
assert refusal(service.check_ready) == (503, "disk-full")
service._tick()
assert not knows(0)
(place / "filler").unlink()
service._tick()
assert service.state.tokens("alice")[0]["expires_s"] is not None
assert service.state.trail()[-1]["action"] == "end token"
service.close()
service = front()
assert not knows(0) and knows(1)
service.check_ready()
""",
        "deletion": """
service.forget_tenant(SERVER, "bob", keep_tokens=False)
assert not blob.exists() and service.state.blobs("bob") == []
assert [row["tenant"] for row in service.state.tenants()] == ["alice"]
service._probed_s = 0
assert end(1) and not knows(1)
""",
    }[kind]
    disk = tmp_path / "disk"
    disk.mkdir()
    ended = on_a_small_disk(disk, FULL + code + "\nservice.close()\nprint('ended')", "4m")
    assert ended.stdout.strip() == "ended", ended.stderr


def test_a_database_that_takes_no_write_is_not_ready(tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.service.state.database.BUSY_S", 0.05)
    service = front(tmp_path / "state")
    service.check_ready()
    with closing(sqlite3.connect(tmp_path / "state" / "state.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        service._probed_s = 0.0
        with pytest.raises(Problem, match="database takes nothing") as refused:
            service.check_ready()
        assert (refused.value.status, refused.value.reason) == (503, "database")
    service._probed_s = 0.0
    service.check_ready()
    service.close()
