"""Temporary folders for keys: where the environment says, or nowhere."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.system.temporary import TemporaryPlaceUnusable, temporary_folder


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
        "import resource, signal; from penstock.system.temporary import TemporaryPlaceUnusable, temporary_folder;"
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
