"""Whether a file could be written, told before the work whose result it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.system.files import FileError, WouldOverwrite, check_target


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

    monkeypatch.setattr("penstock.program.evaluator.padded", worked)
    for name in ("run.run_clear", "profile.Request", "trace_rewrite.read_program"):
        verb, function = name.split(".")
        monkeypatch.setattr(f"penstock.cli.verbs.{verb}.{function}", worked, raising=False)
    ending = "toml" if arguments[0] == "predict" else "json"
    assert main([*arguments, str(tmp_path / "none" / f"file.{ending}")]) == 1
    assert f"the folder {tmp_path}/none does not exist" in capsys.readouterr().err
