"""The client's tables of discrete Gaussians are the distributions that their script computes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_tables_in_the_source_are_the_scripts():
    assert (
        subprocess.run([sys.executable, str(ROOT / "scripts/gaussian_tables.py"), "--check"], check=False).returncode
        == 0
    )
