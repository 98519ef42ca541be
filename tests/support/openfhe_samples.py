"""Small serialized keys of OpenFHE, made once a run by the script that the key store's own tests use."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "crates" / "penstock-store" / "tests" / "openfhe_samples.py"


@cache
def _made() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="penstock-samples-")
    subprocess.run([sys.executable, str(SCRIPT), folder.name], check=True)
    return folder


def sample(name: str) -> Path:
    """`rotations` (by 1 and 2), `relin`, `context-rotations`, …: N = 16, 3 limbs of Q, 2 digits.

    Raises: subprocess.CalledProcessError: OpenFHE cannot be imported.
    """
    return Path(_made().name) / f"{name}.bin"
