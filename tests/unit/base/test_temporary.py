"""Temporary folders for keys: where the environment says, or nowhere."""

from __future__ import annotations

import os
import re
import select
import signal
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from penstock.base.system.files import UnfinishedFile
from penstock.base.system.temporary import TemporaryPlaceUnusable, temporary_folder
from support.forked import in_child


def test_a_folder_is_made_in_tmpdir_for_its_owner_only_and_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with temporary_folder("penstock-x-") as folder:
        assert folder.parent == tmp_path
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert list(tmp_path.iterdir()) == [folder]
    assert list(tmp_path.iterdir()) == []


def test_an_unusable_tmpdir_is_an_error_that_names_it_and_nothing_is_made_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "missing", tmp_path / "file"):
        monkeypatch.setenv("TMPDIR", str(place))
        with pytest.raises(TemporaryPlaceUnusable, match="TMPDIR") as caught, temporary_folder("penstock-x-"):
            pass
        assert str(place) in str(caught.value)
        assert "unset TMPDIR" in str(caught.value)


def test_a_full_tmpdir_is_an_error_that_names_it(tmp_path: Path) -> None:
    # A limit on the size of files refuses each byte, as a full disk does; in a process of its own, which it holds for.
    code = (
        "import resource, signal; from penstock.base.system.temporary import TemporaryPlaceUnusable, temporary_folder;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "with temporary_folder('penstock-x-') as folder: print(folder)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"TMPDIR={tmp_path}" in done.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_was_named_is_not_that_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    with temporary_folder("penstock-x-", tmp_path) as folder:
        assert folder.parent == tmp_path


def ended_pid() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen(["true"]) as ended:
        pass
    return ended.pid


def test_folders_of_killed_processes_go_at_the_next_start_and_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    dead = ended_pid()
    leftovers = [f"penstock-client-{dead}-{'0f' * 8}", f"penstock-keys-{dead}-{'ab' * 8}", f".tmp-penstock-{dead}-0f0f"]
    # A living process's, and what people may call their own folders.
    others = [f"penstock-client-{os.getppid()}-{'0f' * 8}", f"penstock-results-{dead}-1", f"penstock-{dead}-{'0f' * 8}"]
    for name in leftovers + others:
        (tmp_path / name).mkdir()
        (tmp_path / name / "secret.key").write_text("secret")
    linked = tmp_path / f"penstock-keys-{dead}-{'cd' * 8}"
    linked.symlink_to(tmp_path / others[1])
    with temporary_folder("penstock-client-") as mine:
        # Somebody else's start does not take it, though its process may be unknown there.
        assert re.fullmatch(rf"penstock-client-{os.getpid()}-[0-9a-f]{{16}}", mine.name)
        with temporary_folder("penstock-keys-") as second:
            assert sorted(each.name for each in tmp_path.iterdir()) == sorted(
                [*others, linked.name, mine.name, second.name]
            )
    assert (tmp_path / others[1] / "secret.key").read_text() == "secret"


def test_a_folder_in_use_stays_even_where_its_process_is_not_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = ended_pid()
    monkeypatch.setattr(os, "getpid", lambda: dead)  # as in a container with processes of its own
    with temporary_folder("penstock-client-", tmp_path) as first, temporary_folder("penstock-client-", tmp_path):
        assert first.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_another_process_still_wrote_in_goes_at_the_end_of_this_one(tmp_path: Path) -> None:
    code = (
        "import shutil, sys; from pathlib import Path; from penstock.base.system.temporary import temporary_folder\n"
        "remove = shutil.rmtree\n"
        "shutil.rmtree = lambda *arguments, **options: None\n"  # not empty, since a file appeared meanwhile
        "with temporary_folder('penstock-x-', Path(sys.argv[1])) as folder: (folder / 'made.pkey').write_text('key')\n"
        "print(folder.exists()); shutil.rmtree = remove"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"
    assert list(tmp_path.iterdir()) == []


PARENT = """
import os, socket, subprocess, sys
from penstock.base.system.workers import python_module
here, there = socket.socketpair()
command = [*python_module("penstock.runtime.native.client_worker"), str(there.fileno()), str(os.getpid()), sys.argv[1]]
shared = [there.fileno()] if sys.argv[2] == "closed" else [there.fileno(), here.fileno()]
worker = subprocess.Popen(command, pass_fds=shared)
there.close()
print(worker.pid, flush=True)
here.recv(1)
"""


@pytest.mark.parametrize("socket_is", ["closed", "held open by another process"])
def test_a_client_whose_parent_is_killed_ends_and_takes_its_secrets_along(tmp_path: Path, socket_is: str) -> None:
    folder = tmp_path / "client"
    (folder / "keys").mkdir(parents=True)
    (folder / "keys" / "secret.key").write_text("secret")
    command = [sys.executable, "-c", PARENT, str(folder), socket_is]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = os.pidfd_open(int(parent.stdout.readline()))
        parent.send_signal(signal.SIGKILL)
    try:
        ended = select.select([worker], [], [], 30)[0]
        if not ended:
            signal.pidfd_send_signal(worker, signal.SIGKILL)
    finally:
        os.close(worker)
    assert ended
    assert not folder.exists()


def test_only_the_process_that_made_a_folder_or_file_removes_it(tmp_path: Path) -> None:
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder("penstock-keys-", tmp_path))
        file = stack.enter_context(UnfinishedFile(tmp_path / "whole.txt"))
        file.temporary.write_text("whole")
        in_child(stack.close)
        assert folder.is_dir()
        file.publish()
    assert [each.name for each in tmp_path.iterdir()] == ["whole.txt"]
    assert (tmp_path / "whole.txt").read_text() == "whole"
