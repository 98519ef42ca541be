"""pandas stays out of a command, whose time it would take, and is there for a user's script."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.system.frames import pandas_left_out, pandas_let_in
from penstock.system.workers import python_module

pytest.importorskip("pandas")
AT_THE_END = "import atexit, sys; atexit.register(lambda: print('pandas' in sys.modules)); "
MAIN = "import sys; from penstock.cli.main import main; sys.exit(main())"


def ran(*command: str, cwd: Path, code: int = 0) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout


def test_a_command_that_makes_arrays_leaves_pandas_out(tmp_path: Path) -> None:
    words = ("trace", "inner-product", "--size", "ci", "-o", "t.parquet")
    assert ran(sys.executable, "-c", AT_THE_END + MAIN, *words, cwd=tmp_path).splitlines()[-1] == "False"


def test_a_process_of_ours_leaves_pandas_out(tmp_path: Path) -> None:
    (tmp_path / "array.py").write_text("import pyarrow, sys; pyarrow.array([1]); print('pandas' in sys.modules)\n")
    own, flag, code = python_module("array_of_a_test")
    code = code.replace("runpy.run_module('array_of_a_test'", "runpy.run_path('array.py'")
    assert ran(own, flag, code, cwd=tmp_path) == "False\n"


@pytest.mark.usefixtures("openfhe")
def test_a_recorded_script_has_pandas(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import pandas; print(pandas.Series([1, 2]).sum(), flush=True); exit(7)\n")
    assert ran(sys.executable, "-c", MAIN, "record", "script.py", cwd=tmp_path, code=7) == "3\n"


def test_what_is_left_out_is_let_in_and_left_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.partition(".")[0] == "pandas"]:
        monkeypatch.delitem(sys.modules, name)
    before = list(sys.meta_path)
    with pandas_left_out():
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("pandas")
        with pandas_let_in():
            assert importlib.util.find_spec("pandas") is not None
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("pandas")
    assert sys.meta_path == before
    with pandas_let_in():
        assert sys.meta_path == before
