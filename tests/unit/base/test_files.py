"""Files that appear whole or not at all; and whether one could be written, told before the work whose result it is."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.base.system import files
from penstock.base.system.files import (
    TEMPORARY_PREFIX,
    FileError,
    ForeignLink,
    UnfinishedFile,
    WouldOverwrite,
    check_target,
    sync_all,
    unfinished_folder,
    write_atomic,
)
from penstock.errors import UsageError
from penstock.front.cli.main import main


def test_a_new_file_in_a_folder_and_a_device_may_be_written(tmp_path: Path) -> None:
    check_target(tmp_path / "new")
    check_target(Path("/dev/null"))
    (tmp_path / "old").write_text("")
    check_target(tmp_path / "old", force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_what_could_not_be_written_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("")
    with pytest.raises(WouldOverwrite, match="--force"):
        check_target(tmp_path / "old")
    for force in (False, True):
        with pytest.raises(FileError, match="it is a folder; name a file"):
            check_target(tmp_path, force=force)
    with pytest.raises(FileError, match=r"the folder .*/none does not exist"):
        check_target(tmp_path / "none" / "new")
    with pytest.raises(FileError, match="a part of the path is a file"):
        check_target(tmp_path / "old" / "new")


def test_a_link_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "none" / "new")
    with pytest.raises(FileError, match="cannot write"):
        check_target(tmp_path / "link")


def test_a_folder_of_others_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(FileError, match="permission denied; write to a folder that you own"):
        check_target(tmp_path / "new")


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "inner-product", "--size", "ci", "--trace"),
        ("run", "inner-product", "--size", "ci", "--timings"),
        ("profile", "inner-product", "--size", "ci", "--folded"),
        ("trace", "inner-product", "--size", "ci", "-o"),
        ("predict", "fit", "nothing-here", "-o"),
        ("trace", "rewrite", "inner-product", "--size", "ci", "--pass", "hoist", "-o"),
        ("simulate", "inner-product", "--params", "sharp", "--machine", "sharp", "-o"),
    ],
)
def test_verbs_look_at_their_files_before_they_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    def worked(*_: object, **__: object) -> None:
        raise AssertionError("it has begun to work")

    monkeypatch.setattr("penstock.program.evaluator.protocol.padded", worked)
    for name in ("run.run_clear", "profile.Request", "trace_rewrite.read_program"):
        verb, function = name.split(".")
        monkeypatch.setattr(f"penstock.front.cli.verbs.{verb}.{function}", worked, raising=False)
    ending = "toml" if arguments[0] == "predict" else "json"
    assert main([*arguments, str(tmp_path / "none" / f"file.{ending}")]) == 1
    assert f"the folder {tmp_path}/none does not exist" in capsys.readouterr().err


def names(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_a_file_appears_with_its_content_and_leaves_no_temporary_name(tmp_path):
    write_atomic(tmp_path / "a.bin", b"abc")
    write_atomic(tmp_path / "b.txt", lambda path: path.write_text("text") and None)
    assert (tmp_path / "a.bin").read_bytes() == b"abc"
    assert (tmp_path / "b.txt").read_text() == "text"
    assert names(tmp_path) == ["a.bin", "b.txt"]


def test_the_writer_gets_a_path_with_the_final_suffix_in_the_same_folder(tmp_path):
    seen = []
    write_atomic(tmp_path / "plot.svg", lambda path: (seen.append(path), path.write_text("x"))[0])
    assert seen[0].suffix == ".svg"
    assert seen[0].parent == tmp_path
    assert seen[0].name != "plot.svg"


def test_what_a_killed_process_left_in_a_folder_goes_when_the_next_one_writes_there(tmp_path):
    nobody = 99_999_999
    dead = [f"{TEMPORARY_PREFIX}{nobody}-0123456789ab.parquet", f"{TEMPORARY_PREFIX}probe-{nobody}-0123"]
    other = tmp_path / f"{TEMPORARY_PREFIX}{nobody}-0123.held"
    kept = [f"{TEMPORARY_PREFIX}{os.getpid()}-0123456789ab.parquet", f"{TEMPORARY_PREFIX}of-nobody", other.name, "mine"]
    for name in (*dead, *kept):
        (tmp_path / name).touch()
    (tmp_path / f"{TEMPORARY_PREFIX}{nobody}-folder").mkdir()

    def write(path: Path) -> None:
        assert path.name.startswith(f"{TEMPORARY_PREFIX}{os.getpid()}-")
        with path.open("rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.write_bytes(b"content")

    with other.open() as file:  # a process on another machine holds it
        fcntl.flock(file, fcntl.LOCK_EX)
        write_atomic(tmp_path / "x", write)
    assert {path.name for path in tmp_path.iterdir()} == {*kept, "x", f"{TEMPORARY_PREFIX}{nobody}-folder"}


def test_an_existing_file_is_kept_without_force_and_replaced_with_it(tmp_path):
    target = tmp_path / "a"
    write_atomic(target, b"old")
    with pytest.raises(WouldOverwrite, match="--force") as caught:
        write_atomic(target, b"new")
    assert caught.value.exit_code == 2
    assert target.read_bytes() == b"old"
    write_atomic(target, b"new", force=True)
    assert target.read_bytes() == b"new"


def test_a_file_that_appears_while_we_write_is_not_overwritten(tmp_path):
    target = tmp_path / "a"

    def slow(path: Path) -> None:
        path.write_bytes(b"ours")
        target.write_bytes(b"theirs")

    with pytest.raises(WouldOverwrite):
        write_atomic(target, slow)
    assert target.read_bytes() == b"theirs"
    assert names(tmp_path) == ["a"]


def test_a_file_system_without_hard_links_still_gets_the_file(tmp_path, monkeypatch):
    def refuse(self: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    write_atomic(tmp_path / "a", b"abc")
    assert (tmp_path / "a").read_bytes() == b"abc"


@pytest.mark.parametrize("failure", [RuntimeError("bug"), KeyboardInterrupt()])
def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, failure):
    target = tmp_path / "a"
    target.write_bytes(b"old")

    def fail(path: Path) -> None:
        path.write_bytes(b"half")
        raise failure

    with pytest.raises(type(failure)):
        write_atomic(target, fail, force=True)
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("code", "remedy"), [(errno.ENOSPC, "disk is full"), (errno.EDQUOT, "quota"), (errno.EIO, "disk reported")]
)
def test_a_disk_that_refuses_bytes_is_named_with_a_remedy_and_keeps_the_old_file(tmp_path, monkeypatch, code, remedy):
    target = tmp_path / "a"
    target.write_bytes(b"old")

    def refuse(descriptor: int, data: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "write", refuse)
    with pytest.raises(FileError, match=remedy) as caught:
        write_atomic(target, b"new", force=True)
    assert caught.value.exit_code == 1
    assert str(target) in str(caught.value)
    monkeypatch.undo()
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_bytes_that_the_system_takes_in_pieces_all_arrive(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, bytes(data[:3])))
    write_atomic(tmp_path / "a", b"0123456789")
    assert (tmp_path / "a").read_bytes() == b"0123456789"


def test_a_full_device_is_a_full_disk_and_stays_a_device(tmp_path):
    full = tmp_path / "full"  # a device of our own: a failing test must not replace the system's
    try:
        os.mknod(full, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        full.write_bytes(b"")
    except PermissionError:
        pytest.skip("making a device that is always full needs root")
    with pytest.raises(FileError, match="the disk is full"):
        write_atomic(full, b"x", force=True)
    assert full.is_char_device()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda base: base / "missing" / "a", "missing does not exist"),
        (lambda base: (base / "file").write_text("") or base / "file" / "a", "is a file, not a folder"),
        (lambda base: base, "it is a folder"),
        (lambda base: base / ("n" * 300), "name is too long"),
    ],
)  # fmt: skip
def test_a_path_that_cannot_hold_a_file_is_named_with_the_reason(tmp_path, make, message):
    path = make(tmp_path)
    with pytest.raises(FileError, match=message):
        write_atomic(path, b"x", force=True)


def test_a_link_keeps_pointing_to_the_file_that_is_replaced(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_atomic(tmp_path / "link", b"new", force=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A file that nobody meant. It is as it was at the end."""
    path = tmp_path / "outside"
    path.write_bytes(b"precious")
    yield path
    assert path.read_bytes() == b"precious"
    assert not path.is_symlink()


def planted(link: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that another user made."""
    link.symlink_to(target)
    if os.geteuid() == 0:
        os.chown(link, 65534, 65534, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)


def test_what_lies_at_the_temporary_name_is_neither_written_nor_removed(
    tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "urandom", bytes)  # as if it could be foreseen
    folder = tmp_path / "folder"
    folder.mkdir()
    link = folder / f"{files.TEMPORARY_PREFIX}{os.getpid()}-{bytes(6).hex()}.txt"
    link.symlink_to(outside)
    for write in (b"new", lambda path: path.write_bytes(b"new") and None):
        with pytest.raises(FileError):
            write_atomic(folder / "a.txt", write, force=True)
    assert link.is_symlink()
    assert names(folder) == [link.name]


@pytest.mark.parametrize("way", ["straight", "by a link of one's own", "to a device", "to nothing"])
def test_a_link_that_somebody_else_planted_at_the_target_is_not_followed(
    tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    target = {"to a device": Path("/dev/null"), "to nothing": tmp_path / "none"}.get(way, outside)
    path = tmp_path / "link"
    planted(path, target, monkeypatch)
    if way == "by a link of one's own":
        own = tmp_path / "own"
        own.symlink_to("link")
        path = own
    for force in (False, True):
        with pytest.raises(ForeignLink, match=f"cannot write {path}: {tmp_path}/link is a link of another user"):
            write_atomic(path, b"new", force=force)
        with pytest.raises(ForeignLink):
            check_target(path, force=force)
    assert (tmp_path / "link").is_symlink()
    assert not (tmp_path / "none").exists()


def test_a_pipe_that_became_a_link_since_it_was_looked_at_is_not_written_through(
    tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pipe").symlink_to(outside)
    monkeypatch.setattr(files, "_mode", lambda path: stat.S_IFIFO | 0o666)
    with pytest.raises(FileError, match="changed"):
        write_atomic(tmp_path / "pipe", b"new")


def test_a_link_that_is_planted_while_the_content_is_written_is_replaced_and_not_followed(
    tmp_path: Path, outside: Path
) -> None:
    def slow(path: Path) -> None:
        path.write_bytes(b"new")
        (tmp_path / "a").symlink_to(outside)

    with pytest.raises(WouldOverwrite):
        write_atomic(tmp_path / "a", slow)
    (tmp_path / "a").unlink()
    write_atomic(tmp_path / "a", slow, force=True)
    assert (tmp_path / "a").read_bytes() == b"new"
    assert not (tmp_path / "a").is_symlink()


def test_an_interrupt_while_a_folder_is_removed_does_not_leave_the_rest_of_it(tmp_path, monkeypatch):
    real, interrupts = os.unlink, [KeyboardInterrupt()]

    def unlink(*args, **named):
        if interrupts:
            raise interrupts.pop()
        real(*args, **named)

    with pytest.raises(KeyboardInterrupt), unfinished_folder(tmp_path) as made:  # noqa: PT012
        (made / "secret.key").touch()
        monkeypatch.setattr(os, "unlink", unlink)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_steps_has_its_name_when_it_is_published(tmp_path: Path) -> None:
    path = tmp_path / "new.txt"
    with UnfinishedFile(path) as file:
        assert file.temporary.name.startswith(TEMPORARY_PREFIX)
        file.temporary.write_text("whole")
        assert not path.exists()
        file.publish()
        assert [each.name for each in tmp_path.iterdir()] == ["new.txt"]
    assert path.read_text() == "whole"
    with UnfinishedFile(path, force=True) as file:
        file.temporary.write_text("half")
    assert path.read_text() == "whole"
    with pytest.raises(ValueError, match="stop"), UnfinishedFile(tmp_path / "other") as file:
        raise ValueError("stop")
    assert [each.name for each in tmp_path.iterdir()] == ["new.txt"]


def test_a_file_in_steps_is_no_device_and_replaces_nothing_unasked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it is a device or a pipe"):
        UnfinishedFile(Path("/dev/null"), force=True)
    (tmp_path / "old").write_text("mine")
    with pytest.raises(WouldOverwrite):
        UnfinishedFile(tmp_path / "old")
    (tmp_path / "link").symlink_to(tmp_path / "old")
    with UnfinishedFile(tmp_path / "link", force=True) as file:
        file.temporary.write_text("new")
        file.publish()
    assert (tmp_path / "old").read_text() == "new"
    assert (tmp_path / "link").is_symlink()


def test_all_files_are_on_their_way_before_one_is_waited_for(tmp_path, monkeypatch):
    steps: list[str] = []
    paths = [tmp_path / f"{number}" for number in range(70)]
    for path in paths[:-1]:
        path.write_bytes(b"x")
    advise, sync = os.posix_fadvise, os.fsync

    def advised(*arguments):
        steps.append("begin")
        advise(*arguments)

    def synced(descriptor):
        steps.append("wait")
        sync(descriptor)

    monkeypatch.setattr(os, "posix_fadvise", advised)
    monkeypatch.setattr(os, "fsync", synced)
    before = len(list(Path("/proc/self/fd").iterdir()))
    sync_all(paths)
    assert steps == ["begin"] * 64 + ["wait"] * 64 + ["begin"] * 5 + ["wait"] * 5
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error")))
    with pytest.raises(OSError, match="Input/output"):
        sync_all(paths)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
