"""The set-up script as a user runs it, on a copy of the files that it needs, and the command that it installs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.base.system import probe

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def clone(tmp_path):
    """The scripts and locks in a folder of their own, where the set-up makes its `.venv`."""
    for folder in ("scripts", "requirements"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "src/penstock/base/system").mkdir(parents=True)
    shutil.copy(ROOT / "src/penstock/base/system/probe.py", tmp_path / "src/penstock/base/system")
    return tmp_path


def set_up(clone: Path, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["scripts/setup.sh", *options],
        cwd=clone,
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_python_that_nothing_here_supports_stops_with_the_remedy_and_leaves_no_environment(clone):
    fake = clone / "python3.9"
    fake.write_text(f"""#!/bin/sh\necho '["{fake}", [3, 9, 7], "CPython", true]'\n""")
    fake.chmod(0o755)
    done = set_up(clone, PENSTOCK_PYTHON=str(fake))
    assert done.returncode == 3
    assert "is CPython 3.9; penstock supports 3.10, 3.11, 3.12, 3.13" in done.stderr
    assert "uv python install 3.10" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (clone / ".venv").exists()


def test_an_environment_that_somebody_else_made_and_that_does_not_serve_is_left_alone(clone):
    (clone / ".venv").mkdir()
    (clone / ".venv/precious").write_text("")
    done = set_up(clone)
    assert done.returncode == 1
    assert "was not made by this script" in done.stderr
    assert (clone / ".venv/precious").exists()


@pytest.mark.skipif(sys.version_info[:2] not in probe.WHEELS, reason="needs a CPython that OpenFHE has a wheel for")
def test_without_a_package_index_the_set_up_stops_with_the_remedy_and_keeps_what_is_done(clone):
    nothing = clone / "no-wheels"
    nothing.mkdir()
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(nothing), "PENSTOCK_PYTHON": sys.executable}
    first = set_up(clone, **offline)
    assert first.returncode == 1
    assert "installing OpenFHE failed" in first.stderr
    assert "remedy: no wheel for this Python and processor" in first.stderr
    assert "Traceback" not in first.stderr
    assert (clone / ".venv/.penstock/setup.log").stat().st_size > 0
    second = set_up(clone, **offline)
    assert second.returncode == 1
    assert "making .venv" not in second.stderr


class TestInstalledCommand:
    @pytest.fixture
    def penstock(self):
        command = Path(sys.executable).parent / "penstock"
        if not command.exists():
            pytest.skip(f"{command} is not installed: 'make setup'")
        return lambda *arguments: subprocess.run(
            [command, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
        )

    def test_the_core_works_where_the_tests_run(self, penstock):
        done = penstock("doctor", "--require", "packages", "--require", "engine")
        assert (done.returncode, done.stderr) == (0, "")

    def test_the_exit_code_is_the_commands_own(self, penstock):
        assert penstock("doctor", "--require", "openfe").returncode == 2
        assert penstock("--version").returncode == 0
