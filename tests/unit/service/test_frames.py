"""pandas stays out of a command, whose time it would take, and is there for a user's script."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from penstock.base.system.frames import pandas_left_out, pandas_let_in
from penstock.base.system.workers import python_module

pytest.importorskip("pandas")
AT_THE_END = "import atexit, sys; atexit.register(lambda: print('pandas' in sys.modules)); "
MAIN = "import sys; from penstock.front.cli.main import main; sys.exit(main())"

ARRAY = """
import sys
from penstock.scheme.traces.builder import rows_to_table
from penstock.scheme.traces.schema import OBJECTS_SCHEMA

rows_to_table([], OBJECTS_SCHEMA)
print("pandas" in sys.modules)
"""
OWN = """
import numpy as np
import pandas

PARAMS = "insecure-ci"


def data(size, slots, seed):
    return {"x": pandas.Series([1.0, 2.0]).to_numpy()}


def program(ev, data, size):
    x = ev.encrypt(data["x"])
    return ev.decrypt(ev.add(x, ev.rotate(x, 1)))[:1]
"""


def ran(*command: str, cwd: Path, code: int = 0) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout


def test_a_command_that_makes_arrays_leaves_pandas_out(tmp_path: Path) -> None:
    words = ("trace", "inner-product", "--size", "ci", "-o", "t.parquet")
    assert ran(sys.executable, "-c", AT_THE_END + MAIN, *words, cwd=tmp_path).splitlines()[-1] == "False"


def test_a_process_of_ours_leaves_pandas_out(tmp_path: Path) -> None:
    (tmp_path / "array.py").write_text(ARRAY)
    own, flag, code = python_module("array_of_a_test")
    code = code.replace("runpy.run_module('array_of_a_test'", "runpy.run_path('array.py'")
    assert ran(own, flag, code, cwd=tmp_path) == "False\n"


@pytest.mark.usefixtures("openfhe")
def test_a_recorded_script_has_pandas(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import pandas; print(pandas.Series([1, 2]).sum(), flush=True); exit(7)\n")
    assert ran(sys.executable, "-c", MAIN, "record", "script.py", cwd=tmp_path, code=7) == "3\n"


def test_a_program_of_ones_own_has_pandas(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    words = ("run", "own.py", "--reading", "clear", "--output", "y.npy", "-q")
    ran(sys.executable, "-c", MAIN, *words, cwd=tmp_path)
    assert np.load(tmp_path / "y.npy").tolist() == [3.0]


def test_what_is_left_out_is_let_in_and_left_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.partition(".")[0] == "pandas"]:
        monkeypatch.delitem(sys.modules, name)
    before = list(sys.meta_path)
    arrows = {"__name__": "pyarrow.lib", "importlib": importlib}

    def assert_left_out() -> None:
        for how in ("import pandas", "importlib.import_module('pandas')"):
            with pytest.raises(ModuleNotFoundError):
                exec(how, arrows)
        assert importlib.util.find_spec("pandas") is not None

    with pandas_left_out():
        assert_left_out()
        with pandas_let_in():
            assert sys.meta_path == before
        assert_left_out()
    assert sys.meta_path == before
    with pandas_let_in():
        assert sys.meta_path == before
