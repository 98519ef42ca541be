"""`database make --force`: wherever it is killed, the old database or the new one is there, whole."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.base.system import replacing
from penstock.base.system.files import FileError, WouldOverwrite
from penstock.errors import PenstockError, UsageError
from penstock.program.database.content import Generated
from penstock.program.database.description import PIR, RECORDS, Description
from penstock.runtime.scanning.load import make
from penstock.runtime.scanning.store import Database
from penstock.runtime.scanning.stream import EntryStream
from penstock.scheme.params import catalogue

WIDTH, RECORD_COUNT = 6, 3 * 2048


class Killed(BaseException):
    """Nothing that follows is done."""


def described(seed: int) -> Description:
    return Description(
        kind=PIR, params=catalogue.get("insecure-database"), stored=RECORDS, records=RECORD_COUNT, record_bytes=WIDTH,
        bits_per_slot=24, source={"generated": True, "seed": seed},
    )  # fmt: skip


def made(path: Path, seed: int, **changes: Any) -> Database:
    content = Generated(PIR, RECORD_COUNT, WIDTH, seed)
    return make(path, described(seed), content, segment_bytes=12288, **changes)[0]


def seed_of(path: Path) -> int:
    """Of a database that is whole, every entry of it."""
    found = Database.open(path)
    found.require_complete()
    assert len(list(EntryStream(found, lambda _, content: content))) == found.layout.num_entries
    return int(found.description.source["seed"])


def kill_at(stage: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Killed in the course of a replacing: gives what is called after each segment."""

    def on_segment(done: int, _: int) -> None:
        if stage == "loading" and done == 2:
            raise Killed

    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    if stage == "before the exchange":
        monkeypatch.setattr(replacing, "_exchange", killed)
    elif stage == "after the exchange":
        monkeypatch.setattr(replacing, "_discard", killed)
    elif stage == "while the old one is removed":
        remove = shutil.rmtree

        def removing(folder: Path, **options: Any) -> None:
            if folder.name == ".db.replacing":
                (folder / replacing.REPLACED).unlink(missing_ok=True)
                raise Killed
            remove(folder, **options)

        monkeypatch.setattr(shutil, "rmtree", removing)
    elif stage.startswith("between renames"):
        monkeypatch.setattr(replacing, "_exchange", lambda *_: False)
        rename, moved = Path.rename, list[Path]()

        def once(self: Path, target: Path) -> Path:
            if moved:
                raise Killed
            moved.append(self)
            return rename(self, target)

        monkeypatch.setattr(Path, "rename", once)
    return on_segment


STAGES = [
    ("loading", 1),
    ("before the exchange", 1),
    ("after the exchange", 2),
    ("while the old one is removed", 2),
    ("between renames, where nothing can be exchanged", 2),
]


@pytest.mark.parametrize(("stage", "there"), STAGES)
@pytest.mark.parametrize("next_is", ["read", "the same command", "another description"])
def test_a_killed_replacing_leaves_a_whole_database_and_the_next_start_tidies_up(
    tmp_path: Path, stage: str, there: int, next_is: str
) -> None:
    path = tmp_path / "db"
    made(path, 1)
    with pytest.MonkeyPatch.context() as patched, pytest.raises(Killed):
        made(path, 2, force=True, on_segment=kill_at(stage, patched))
    if next_is == "read":
        assert seed_of(path) == there
        return
    seed = 2 if next_is == "the same command" else 3
    done: list[int] = []
    again = made(path, seed, force=True, on_segment=lambda number, _: done.append(number))
    assert again.path == path
    assert seed_of(path) == seed
    assert [each.name for each in tmp_path.iterdir()] == ["db"]
    if seed == 2 and there == 1:
        # What was loaded is not loaded again.
        assert done == ([3] if stage == "loading" else [])


def test_the_old_database_answers_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "db"
    made(path, 1)
    path.chmod(0o750)
    seen = list[int]()
    found = made(path, 2, force=True, on_segment=lambda *_: seen.append(seed_of(path)))
    assert seen == [1, 1, 1]
    assert (seed_of(path), found.path, path.stat().st_mode & 0o777) == (2, path, 0o750)
    assert [each.name for each in tmp_path.iterdir()] == ["db"]


def test_a_folder_that_is_reached_by_a_link_is_replaced_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    made(tmp_path / "disk" / "db", 1)
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "db")
    made(tmp_path / "link", 2, force=True)
    assert (tmp_path / "link").is_symlink()
    assert seed_of(tmp_path / "disk" / "db") == 2
    assert [each.name for each in (tmp_path / "disk").iterdir()] == ["db"]


def test_where_nothing_can_be_exchanged_the_folders_are_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacing, "_exchange", lambda *_: False)
    made(tmp_path / "db", 1)
    made(tmp_path / "db", 2, force=True)
    assert seed_of(tmp_path / "db") == 2
    assert [each.name for each in tmp_path.iterdir()] == ["db"]


def test_an_exchange_that_the_system_refuses_leaves_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Path) -> bool:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    made(tmp_path / "db", 1)
    with monkeypatch.context() as patched:
        patched.setattr(replacing, "_exchange", refused)
        with pytest.raises(FileError, match="replace"):
            made(tmp_path / "db", 2, force=True)
    assert seed_of(tmp_path / "db") == 1
    done = list[int]()
    made(tmp_path / "db", 2, force=True, on_segment=lambda number, _: done.append(number))
    assert (seed_of(tmp_path / "db"), done) == (2, [])


def test_what_lies_beside_and_is_no_databases_is_not_cleared(tmp_path: Path) -> None:
    made(tmp_path / "db", 1)
    for name in (".db.replacing", ".db.replaced"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis.tex").write_text("x")
    with pytest.raises(UsageError, match=r"replacing holds other files \(thesis.tex\)"):
        made(tmp_path / "db", 2, force=True)
    shutil.rmtree(tmp_path / ".db.replacing")
    made(tmp_path / "db", 2, force=True)
    assert seed_of(tmp_path / "db") == 2
    assert (tmp_path / ".db.replaced" / "thesis.tex").exists()


def test_a_mount_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path / "db", 1)
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path) == tmp_path / "db")
    with pytest.raises(UsageError, match="a file system is mounted there"):
        made(tmp_path / "db", 2, force=True)
    assert [each.name for each in tmp_path.iterdir()] == ["db"]


def test_without_room_for_both_the_old_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = made(tmp_path / "db", 1).layout.total_bytes
    monkeypatch.setattr("penstock.runtime.scanning.load.shutil.disk_usage", lambda _: SimpleNamespace(free=size - 1))
    with pytest.raises(PenstockError, match=f"beside the old one, .* remove {tmp_path}/db first"):
        made(tmp_path / "db", 2, force=True)
    assert seed_of(tmp_path / "db") == 1
    with pytest.raises(WouldOverwrite):
        made(tmp_path / "db", 2)
