"""The start stays quick: what the package and its help import."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numpy", "pyarrow", "scipy", "pydantic", "rich", "matplotlib", "openfhe", "penstock._engine")


def imported(code: str) -> set[str]:
    """The modules that are loaded after a program, beyond those of an empty one."""
    report = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
    done = subprocess.run([sys.executable, "-c", report + code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stderr.split())


def test_importing_the_package_imports_no_library_and_no_command_line() -> None:
    found = imported("import penstock")
    assert "penstock" in found
    assert not found & {*HEAVY, "click", "penstock.front.cli"}


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["predict", "--help"], ["ssd", "--help"]])
def test_the_help_of_a_group_imports_no_library_but_clicks(words: list[str]) -> None:
    found = imported(f"import sys; from penstock.front.cli.main import main; sys.exit(main({words!r}))")
    assert "click" in found
    assert not found & set(HEAVY)


def test_errors_and_files_load_what_few_calls_need_at_use() -> None:
    added = imported("import penstock.errors, penstock.base.system.files") - imported("pass")
    assert "penstock.base.system.files" in added
    assert not added & {"difflib", "shutil", "bz2", "lzma"}
