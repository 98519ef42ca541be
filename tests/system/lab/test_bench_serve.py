"""The benchmark of the service, so small that it says nothing of speed: every part of it runs and is kept."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

BENCH = Path(__file__).parents[3] / "benchmarks" / "bench_serve.py"


def run(folder: Path, *options: str) -> str:
    command = [sys.executable, str(BENCH), "--scale", "tiny", "--folder", str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_a_backlog_under_both_orders_is_measured_and_kept(tmp_path):
    said = run(tmp_path / "bench", "--only", "backlog")
    assert "measured: 4 tenants" in said
    found = json.loads((tmp_path / "bench" / "results.json").read_text())
    both = found["backlog"]
    for name in ("planned", "arrival"):
        assert both[name]["jobs"] == 12
        assert both[name]["read_bytes"] > 0
    # No order beats the bound by more than the noise of so short a run.
    assert both["bound_s"] < 2 * both["planned"]["total_s"]
    assert len(list((tmp_path / "bench" / "server" / "state" / "keys").glob("*/*/*.pkey"))) == 4 * 19
    before = (tmp_path / "bench" / "results.json").read_bytes()
    assert run(tmp_path / "bench", "--only", "backlog") == said
    assert (tmp_path / "bench" / "results.json").read_bytes() == before
