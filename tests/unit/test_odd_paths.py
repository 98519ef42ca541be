"""Paths that are something else than a verb expects, and names that are no UTF-8: no internal error, no lost run."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.runs.folder import RunFolder


def new_run(path: Path) -> Path:
    """A finished run with one measured time."""
    with RunFolder.create(path, {"workload": "inner-product", "command": f"penstock analyze -o {path}"}) as run:
        run.append_rows("measured", [{"quantity": "wall_s", "value": 1.5, "unit": "s", "provenance": "measured"}])
        run.finish()
    return path


def test_the_explorer_names_links_that_form_a_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (new_run(tmp_path / "a") / "this-cpu.toml").symlink_to("this-cpu.toml")
    assert main(["explore", "whatif", "machine=run:a", "--print", "--runs", str(tmp_path)]) == 1
    assert "this-cpu.toml: its links form a loop; choose another path" in capsys.readouterr().err
