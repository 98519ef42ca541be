"""The notebooks of `examples/` run from the first cell to the last, in a kernel of their own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
ENCRYPT = {"own_program.ipynb"}


def test_there_are_two_notebooks() -> None:
    assert [path.name for path in NOTEBOOKS] == ["own_program.ipynb", "tiers.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_holds_no_output_and_no_trace_of_a_machine(path: Path) -> None:
    cells = json.loads(path.read_text())["cells"]
    assert cells[0]["cell_type"] == "markdown"
    for cell in cells:
        assert not cell.get("outputs"), "outputs are made by whoever runs it"
        assert cell.get("execution_count") is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    if path.name in ENCRYPT:
        request.getfixturevalue("encrypting")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    lists_of_fonts = list(Path(pytest.importorskip("matplotlib").get_cachedir()).glob("fontlist-*.json"))
    for variable in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    (tmp_path / "mplconfigdir").mkdir()
    for each in lists_of_fonts:  # to look through the fonts of the system again takes seconds
        shutil.copy(each, tmp_path / "mplconfigdir")
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    done = client.execute()
    outputs = [output for cell in done.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.get("name") == "stderr"], "a notebook warns of nothing"
    shown = [output.get("data", {}) for output in outputs]
    assert sum("image/png" in data for data in shown) >= 2, "its pictures are drawn"
    tables = [data["text/html"] for data in shown if "text/html" in data]
    assert any("simulated" in table or "predicted" in table for table in tables)
