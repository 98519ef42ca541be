"""The stub of the engine says what the built module has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_stub_of_the_engine_is_the_built_module() -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "penstock._engine"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stdout + done.stderr
